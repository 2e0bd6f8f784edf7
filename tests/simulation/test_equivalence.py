"""The vectorised simulator takes the decisions of real `Peer` objects, one by one.

Results at scale count only while this holds. Every question of a workload goes to the same peers in
the same order, they refer to the same peers, the same documents are found, and in the end everybody
has the same neighbours, remembered queries and documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.model import PeerId, Vector
from zerorag_p2p.peer import read_result
from zerorag_p2p.routing.walk import PeerReferral, ReturnedDocument, Walk
from zerorag_p2p.simulation import arrays, events
from zerorag_p2p.simulation.events import Simulation
from zerorag_p2p.simulation.vectorised import VectorisedSimulation
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.wire.query import QueryResult
from zerorag_p2p.workloads.consortium import consortium_workload
from zerorag_p2p.workloads.outcome import measure
from zerorag_p2p.workloads.plan import make_plan
from zerorag_p2p.workloads.scenario import Crash, Introduce, NetworkModel, Replace, Scenario
from zerorag_p2p.workloads.synthetic import synthetic_workload

#: A world without time, the only one that the vectorised simulator knows.
TIMELESS = NetworkModel(latency_ms=0, jitter_ms=0, queries_per_s=0, detection_s=0, refresh_s=0)

PAPER = {"start": "paper", "exploration": "none"}
COMPLETE = {
    "routing": "complete",
    "contact_budget": 12,
    "sketch_limit": 30,
    "memory_referral_limit": 3,
    "fanout": 1,
}
CHURN = (Crash(at=0.4, share=0.5), Replace(at=0.4, until=0.9))
NEW_TOPIC = (Introduce(at=0.4, owners=2),)


@dataclass
class Recorder:
    """What the walks of an event simulation did, question by question; and every query."""

    queries: Vector

    visited: dict[int, list[PeerId]] = field(default_factory=dict)
    referred: dict[int, list[PeerId]] = field(default_factory=dict)
    found: dict[int, list[str]] = field(default_factory=dict)
    heard: list[PeerId] = field(default_factory=list)

    def read_result(
        self, query: Vector, result: QueryResult
    ) -> tuple[list[ReturnedDocument], list[PeerReferral]]:
        documents, referrals = read_result(query, result)
        self.heard += [referral.peer for referral in referrals]
        return documents, referrals

    def finished(self, number: int, walk: Walk) -> None:
        self.visited[number] = list(walk.visited)
        self.referred[number], self.heard = self.heard, []
        self.found[number] = [item.document.content_hash for item in walk.results()]


def simulate_both(
    monkeypatch: pytest.MonkeyPatch,
    *,
    routing: dict[str, Any],
    peers: int = 200,
    seed: int = 1,
    timeline: Sequence[Any] = (),
    **settings: Any,
) -> tuple[Simulation, VectorisedSimulation, Recorder]:
    scenario = Scenario(
        name="test",
        shows="a test",
        peers=peers,
        draws=6,
        seed=seed,
        network=TIMELESS,
        routing=RoutingConfig(**{"routing": "paper", **routing}),
        timeline=tuple(timeline),
        **settings,
    )
    workload = synthetic_workload(peers=peers, seed=seed, draws=6, topics=40)
    if scenario.workload == "consortium":
        workload = consortium_workload(workload, peers=peers, seed=seed, questions=6)
    plan = make_plan(scenario, workload)
    recorder = Recorder(transmitted_rows(plan.workload.query_vectors))
    monkeypatch.setattr(events, "read_result", recorder.read_result)
    simulation = Simulation(scenario, plan)
    run = simulation.run(on_finished=recorder.finished)
    ids = simulation.population.everybody()
    order = {peer: position for position, peer in enumerate(sorted(ids))}
    vectorised = VectorisedSimulation(
        scenario, plan, traced=True, id_order=[order[peer] for peer in ids]
    )
    table = vectorised.run()
    expected, measured = measure(run.outcomes), table.measure()
    del expected["random_order_hit_rate"], measured["bytes"]
    measured.pop("rounds", None)  # the event simulator does not count them
    assert measured == pytest.approx(expected, abs=2e-6)
    assert table.events.tolist() == [outcome.event for outcome in run.outcomes]
    return simulation, vectorised, recorder


CASES: list[dict[str, Any]] = [
    {"routing": PAPER},
    {"routing": PAPER, "seed": 2, "timeline": CHURN},
    {"routing": {**PAPER, "k": 10}, "seed": 3, "timeline": NEW_TOPIC},
    {"routing": {}},
    {"routing": {"exploration": "none", "memory_limit": 20, "neighbor_limit": 7}, "seed": 2},
    {"routing": {"memory_limit": 30}, "seed": 3, "timeline": CHURN},
    {"routing": {}, "seed": 4, "timeline": NEW_TOPIC},
    {"routing": {"memory_limit": 0, "contact_budget": 20}, "seed": 5},
    {"routing": {"neighbor_choice": "none", "contact_budget": 20}, "seed": 6},
    {"routing": {"contact_budget": 12}, "seed": 7, "stop_at_target": False},
    {"routing": {"stopping": "settled"}, "seed": 8, "stop_at_target": False},
    {"routing": {"fanout": 3, "contact_budget": 30}, "seed": 9, "rounds": True},
    {
        "routing": {**PAPER, "fanout": 6, "contact_budget": 30, "stopping": "settled"},
        "seed": 10,
        "rounds": True,
        "stop_at_target": False,
    },
    {"routing": {"routing": "random", "contact_budget": 10}, "seed": 11},
    {"routing": {"routing": "complete"}, "seed": 12, "stop_at_target": False, "rounds": True},
    {"routing": {**COMPLETE, "sketch_limit": 0}, "seed": 13, "stop_at_target": False},
    {"routing": {**COMPLETE, "sketch_limit": 25}, "seed": 14, "timeline": CHURN},
    {"routing": {**COMPLETE, "sketch_limit": 25}, "seed": 15, "timeline": NEW_TOPIC},
    {"routing": {**COMPLETE, "fanout": 5, "patience": 2}, "seed": 16, "rounds": True},
    {
        "routing": {**COMPLETE, "referral": "best-peers", "memory_limit": 20, "sketch_limit": 0},
        "seed": 17,
        "stop_at_target": False,
    },
    {
        "routing": {**COMPLETE, "order": "best-peer", "stopping": "settled", "patience": 4},
        "seed": 18,
        "stop_at_target": False,
    },
    {
        "routing": {**COMPLETE, "neighbor_choice": "best-document", "advertisement_bits": 1},
        "seed": 19,
        "stop_at_target": False,
    },
    {"routing": PAPER, "seed": 20, "workload": "consortium"},
    {
        "routing": {**COMPLETE, "sketch_limit": 50},
        "seed": 21,
        "stop_at_target": False,
        "workload": "consortium",
    },
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_simulators_take_the_same_decisions(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation, vectorised, recorder = simulate_both(monkeypatch, **case)
    population, outcomes, peers = simulation.population, vectorised.outcomes, vectorised.peers
    ids = np.array([*population.everybody(), "nobody"])
    hashes = np.array([*population.table.hashes, "nothing"])

    def named(names: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> list[str]:
        chosen: list[str] = names[numbers[numbers != arrays.NOBODY]].tolist()
        return chosen

    assert len(recorder.visited) == outcomes.rows["asked"].sum() > 0.7 * len(outcomes.rows)
    for number, visited in recorder.visited.items():
        assert named(ids, outcomes.visited[number]) == visited
        assert named(hashes, outcomes.found[number]) == recorder.found[number]
        if not case.get("rounds"):  # the walk does not read replies that come after the target's
            assert named(ids, outcomes.referred[number]) == recorder.referred[number]
    for number, participant in enumerate(map(population.participant, population.everybody())):
        if not participant.up:
            continue
        state = peers.state[number]
        neighbors = peers.neighbors[number, : state["neighbor_count"]]
        assert named(ids, neighbors) == [item.peer for item in participant.peer.neighbors]
        rows = slice(state["memory_count"])
        queriers = peers.table[number, peers.memory_number[number, rows]]
        remembered = recorder.queries[peers.memory_query[number, rows]]
        assert sorted(zip(named(ids, queriers), map(bytes, remembered), strict=True)) == sorted(
            (querier, bytes(query)) for querier, query, _ in participant.peer.memory.entries()
        )
        count, *held = peers.held[number].tolist()
        assert held[:count] == participant.holdings.numbers()
