"""The event simulator: repeatable, honest about what it counts, and sensitive to what breaks."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from typing import Any

import pytest

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.identity.attribution import verify_chain
from zerorag_p2p.simulation.agenda import Agenda
from zerorag_p2p.simulation.events import Simulation, SimulationRun
from zerorag_p2p.simulation.run import run_scenario
from zerorag_p2p.workloads.outcome import measure
from zerorag_p2p.workloads.plan import IntroduceTopic, Plan, make_plan
from zerorag_p2p.workloads.scenario import (
    Crash,
    Heal,
    Introduce,
    NetworkModel,
    Partition,
    Replace,
    Scenario,
)
from zerorag_p2p.workloads.synthetic import synthetic_workload

PEERS = 40
WORKLOAD = synthetic_workload(peers=PEERS, seed=1, draws=10, topics=40)
BASE = Scenario(
    name="test",
    shows="a test",
    peers=PEERS,
    draws=10,
    batch=100,
    routing=RoutingConfig(routing="paper", contact_budget=6),
    network=NetworkModel(queries_per_s=20.0, detection_s=1.0, refresh_s=2.0),
)


def simulate(*timeline: object, **changes: Any) -> tuple[Simulation, SimulationRun, Plan]:
    scenario = replace(BASE, timeline=timeline, **changes)  # type: ignore[arg-type]
    plan = make_plan(scenario, WORKLOAD)
    simulation = Simulation(scenario, plan)
    return simulation, simulation.run(), plan


def network(**changes: Any) -> NetworkModel:
    return replace(BASE.network, **changes)


def test_actions_happen_in_order_of_time_then_of_arrival() -> None:
    agenda, done = Agenda(), []
    agenda.after(2.0, lambda: done.append(("late", agenda.now)))
    agenda.after(1.0, lambda: agenda.after(0.5, lambda: done.append(("inner", agenda.now))))
    agenda.after(1.0, lambda: done.append(("first", agenda.now)))
    agenda.after(1.0, lambda: done.append(("second", agenda.now)))
    agenda.run()
    assert done == [("first", 1.0), ("second", 1.0), ("inner", 1.5), ("late", 2.0)]


@pytest.mark.parametrize(
    "timeline",
    [
        (Crash(at=0.4, share=0.5), Replace(at=0.4, until=0.9), Partition(at=0.9), Heal(at=0.95)),
        (Introduce(at=0.5, owners=2),),
    ],
)
def test_a_scenario_gives_the_same_bytes_twice(timeline: tuple[Any, ...]) -> None:
    model = network(loss=0.02, clock_skew_s=5.0)
    scenario = replace(BASE, timeline=timeline, network=model)
    first, second = (
        json.dumps(
            run_scenario(scenario, synthetic_workload(peers=PEERS, seed=1, draws=10, topics=40))
        )
        for _ in range(2)
    )
    assert first == second
    other = run_scenario(replace(scenario, seed=2), WORKLOAD)
    assert other["trace_sha256"] != json.loads(first)["trace_sha256"]


def test_peers_learn_and_random_order_does_not() -> None:
    _, run, _ = simulate()
    half = len(run.outcomes) // 2
    early, late = measure(run.outcomes[:half]), measure(run.outcomes[half:])
    assert late["hit_rate"] > early["hit_rate"] > early["random_order_hit_rate"]
    assert late["requests_to_target"] < early["requests_to_target"]


def test_random_order_hits_as_often_as_calculated() -> None:
    routing = replace(BASE.routing, routing="random")
    _, run, _ = simulate(routing=routing)
    answerable = [outcome for outcome in run.outcomes if outcome.answerable]
    expected = statistics.fmean(outcome.random_hit for outcome in answerable)
    assert 0.1 < expected < 0.9
    assert statistics.fmean(outcome.hit for outcome in answerable) == pytest.approx(
        expected, abs=0.06
    )


def test_hits_are_counted_as_the_holdings_say() -> None:
    _, run, plan = simulate(stop_at_target=False)
    holders = [
        {peer for peer, held in enumerate(plan.workload.holdings) if document in held}
        for document in range(len(plan.workload.documents))
    ]
    for outcome in run.outcomes:
        event = plan.workload.events[outcome.event]
        others = holders[event.document] - {event.peer}
        assert outcome.answerable is bool(others)
        assert outcome.hit is (outcome.requests_to_target is not None)
        assert outcome.hit <= outcome.answerable
        assert outcome.contacts == BASE.routing.contact_budget
        assert outcome.requests_to_target is None or outcome.requests_to_target <= outcome.contacts
        assert outcome.recall_at_5_exact is not None
    assert len(run.outcomes) == len(plan.workload.events)
    assert run.contacts == sum(outcome.contacts for outcome in run.outcomes)


def test_a_query_that_finds_its_target_stops() -> None:
    _, run, _ = simulate()
    for outcome in run.outcomes:
        assert outcome.contacts == outcome.requests_to_target or not outcome.hit
        assert outcome.recall_at_5_exact is None


def test_several_requests_may_be_in_flight() -> None:
    routing = replace(BASE.routing, fanout=3)
    _, run, _ = simulate(routing=routing)
    assert all(outcome.contacts <= routing.contact_budget for outcome in run.outcomes)
    assert measure(run.outcomes)["hit_rate"] > 0.7


def test_one_question_at_a_time_as_in_the_paper() -> None:
    _, run, _ = simulate(network=network(queries_per_s=0.0))
    assert len(run.outcomes) == len(WORKLOAD.events)
    assert measure(run.outcomes)["hit_rate"] > 0.7


def test_lost_messages_cost_contacts() -> None:
    _, clean, _ = simulate()
    _, lossy, _ = simulate(network=network(loss=0.2))
    assert sum(outcome.failures for outcome in clean.outcomes) == 0
    failures = sum(outcome.failures for outcome in lossy.outcomes)
    assert failures / lossy.contacts == pytest.approx(1 - 0.8**2, abs=0.05)


def test_a_reply_after_the_deadline_is_no_reply() -> None:
    _, run, _ = simulate(network=network(latency_ms=600.0, jitter_ms=0.0, timeout_s=1.0))
    assert not any(outcome.hit for outcome in run.outcomes)
    assert all(outcome.failures == outcome.contacts for outcome in run.outcomes)


def test_peers_that_crash_are_contacted_until_they_are_detected() -> None:
    crash = Crash(at=0.5, share=0.5)
    simulation, run, plan = simulate(crash, network=network(detection_s=2.0))
    failures = [outcome.event for outcome in run.outcomes if outcome.failures]
    start = len(plan.workload.events) // 2
    assert failures
    # 2 s at 20 questions a second, and those that were under way.
    assert all(start - 30 <= event <= start + 90 for event in failures)
    assert run.unasked > 0
    up = {item.peer.peer_id for item in simulation.population.places if item.up}
    assert len(up) == PEERS // 2
    for item in simulation.population.places:
        if item.up:
            assert {neighbor.peer for neighbor in item.peer.neighbors} <= up
            assert {held.owner for held in item.peer.advertisements} <= up
            assert {querier for querier, _, _ in item.peer.memory.entries()} <= up


def test_newcomers_fill_the_places_of_the_crashed() -> None:
    simulation, run, _ = simulate(Crash(at=0.3, share=0.5), Replace(at=0.3, until=0.5))
    assert simulation.population.up == PEERS
    late = [outcome for outcome in run.outcomes if outcome.event > 0.8 * len(WORKLOAD.events)]
    assert measure(late)["hit_rate"] > 0.8


def test_a_partition_hides_peers_until_it_heals() -> None:
    _, run, plan = simulate(Partition(at=0.4), Heal(at=0.7))
    failures = [
        outcome.event / len(plan.workload.events) for outcome in run.outcomes if outcome.failures
    ]
    assert failures
    assert min(failures) > 0.38
    assert max(failures) < 0.75


def test_a_new_topic_spreads_by_fetches_and_its_chains_verify() -> None:
    simulation, run, plan = simulate(
        Introduce(at=0.3, owners=1), routing=replace(BASE.routing, k=10)
    )
    (step,) = plan.steps
    assert isinstance(step, IntroduceTopic)
    owner = simulation.population.places[step.owners[0]].peer.peer_id
    table = simulation.population.table
    lengths = []
    for item in simulation.population.places:
        for number in step.documents:
            for stored in item.holdings.get(table.hashes[number]):
                chain = verify_chain(stored.links)
                assert chain.statement.owner == owner
                assert chain.holder == item.peer.peer_id
                lengths.append(len(stored.links))
    assert len(lengths) == run.copies + len(step.documents)
    assert max(lengths) >= 3  # over two hops at least
    hits = sum(outcome.hit for outcome in run.outcomes if outcome.introduced)
    assert run.copies <= hits


def test_a_new_topic_does_not_spread_where_its_owner_forbids_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from zerorag_p2p.model import SharingTerms
    from zerorag_p2p.simulation import population

    monkeypatch.setattr(population, "TERMS", SharingTerms())
    _, run, _ = simulate(Introduce(at=0.3, owners=5))
    assert any(outcome.hit for outcome in run.outcomes if outcome.introduced)
    assert run.copies == 0
