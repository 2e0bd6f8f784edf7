"""Scenarios on whole nodes; the same files run on the event simulator."""

from dataclasses import replace
from typing import Any

import pytest

from zerorag_p2p.config import MAX_CHAIN_LINKS
from zerorag_p2p.identity.attribution import verify_chain
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.testnet import run as running
from zerorag_p2p.testnet.run import run_on_testnet, summarise
from zerorag_p2p.testnet.testnet import Testnet, TestnetNode
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import (
    Crash,
    Heal,
    Introduce,
    NetworkModel,
    Partition,
    Replace,
    Scenario,
    TimelineEntry,
)
from zerorag_p2p.workloads.synthetic import synthetic_workload

PEERS, DRAWS = 12, 8


def run(*timeline: TimelineEntry, seed: int = 1, **settings: object) -> Json:
    scenario = Scenario(
        name="test",
        shows="",
        peers=PEERS,
        draws=DRAWS,
        seed=seed,
        batch=12,
        network=NetworkModel(queries_per_s=8.0, refresh_s=2.0),
        timeline=timeline,
    )
    scenario = replace(scenario, **settings)  # type: ignore[arg-type]
    workload = synthetic_workload(peers=PEERS, seed=seed, draws=DRAWS, topics=8)
    return run_on_testnet(scenario, workload)


def test_a_run_in_peace_finds_nearly_everything() -> None:
    result = run()
    metrics = result["metrics"]
    assert metrics["queries"] == PEERS * DRAWS
    assert metrics["hit_rate"] > 0.95
    assert metrics["failures"] < 0.1
    assert 1 <= metrics["requests_to_target"] <= metrics["contacts"] < PEERS
    assert len(result["by_tenth"]) == 10
    assert {"name", "system", "workload", "peers", "seed", "settings", "wall_s"} <= result.keys()


def test_without_the_targets_rule_the_result_is_held_against_an_exact_search() -> None:
    metrics = run(stop_at_target=False)["metrics"]
    assert metrics["recall_at_5_exact"] > 0.9


def test_crashed_peers_do_not_ask_and_newcomers_take_their_places() -> None:
    result = run(Crash(at=0.5, share=0.5), Replace(at=0.6, until=0.8))
    tenths = result["by_tenth"]
    assert tenths[5]["failures"] > tenths[4]["failures"]
    asked = [tenth["queries"] for tenth in tenths]
    assert sum(asked[5:7]) < sum(asked[3:5])
    assert sum(asked[8:]) > sum(asked[5:7])
    assert tenths[9]["hit_rate"] > 0.8


@pytest.fixture
def testnets(monkeypatch: pytest.MonkeyPatch) -> list[Testnet]:
    """The testnets that scenarios were run on; their nodes still hold what they held."""
    made: list[Testnet] = []

    def make(*arguments: Any, **settings: Any) -> Testnet:
        made.append(Testnet(*arguments, **settings))
        return made[-1]

    monkeypatch.setattr(running, "Testnet", make)
    return made


def chains(testnet: Testnet) -> dict[tuple[str, int], tuple[bytes, ...]]:
    """Of every document of a topic that was introduced the attributions, by who holds it."""
    nodes = testnet.nodes.values()
    introduced = {number for node in nodes for number in topic(node)}
    return {
        (node.peer_id, number): held.links
        for node in nodes
        for number in node.holdings.numbers()
        if number in introduced
        for held in node.holdings.get(testnet.table.hashes[number])
    }


def topic(node: TestnetNode) -> list[int]:
    """Numbers of the documents with which a node introduced a topic."""
    hashes = node.holdings.table.hashes
    return [
        number
        for number in node.holdings.numbers()
        for held in node.holdings.get(hashes[number])
        if held.collection == "topic"
    ]


def test_a_topic_spreads_by_copies(testnets: list[Testnet]) -> None:
    result = run(Introduce(at=0.3, owners=1, questions=0.8))
    introduced = result["introduced"]
    assert introduced["metrics"]["queries"] > 10
    assert introduced["metrics"]["hit_rate"] > 0.8
    # Copies are found nearer than the one owner was.
    rates = [batch["hit_rate"] for batch in introduced["by_batch"] if "hit_rate" in batch]
    assert rates[-1] == 1.0

    (testnet,) = testnets
    held = chains(testnet)
    copies = [(*key, links) for key, links in held.items() if len(links) > 1]
    assert len(copies) > 10
    for holder, number, links in copies:
        assert len(links) <= MAX_CHAIN_LINKS
        chain = verify_chain(links)
        assert chain.custodians[-1].custodian == holder
        # It is the source's with a custody statement more, and the source holds the document, too.
        sources = [chain.statement.owner, *(custody.custodian for custody in chain.custodians)]
        assert held[sources[-2], number] == links[:-1]
    assert max(len(links) for _, _, links in copies) > 2  # Some are copies of copies.


def test_nobody_keeps_a_topic_that_its_owners_do_not_let_be_copied(
    testnets: list[Testnet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_SHARING", Sharing())
    result = run(Introduce(at=0.3, owners=2, questions=0.8))
    assert result["introduced"]["metrics"]["hit_rate"] > 0.8
    (testnet,) = testnets
    owners = {node.peer_id for node in testnet.nodes.values() if topic(node)}
    assert len(owners) == 2
    held = chains(testnet)
    assert {holder for holder, _ in held} == owners
    assert all(len(links) == 1 for links in held.values())


def test_a_partition_costs_hits_until_it_heals() -> None:
    result = run(Partition(at=0.3, groups=4), Heal(at=0.6))
    failures = [tenth["failures"] for tenth in result["by_tenth"]]
    assert failures[1] == 0
    assert failures[4] > 1
    assert failures[9] < failures[4]


def test_the_summary_states_the_spread_over_seeds() -> None:
    summary = summarise([run(seed=1), run(seed=2)])
    assert summary["seeds"] == [1, 2]
    rates = [result["metrics"]["hit_rate"] for result in summary["runs"]]
    spread = summary["spread"]["hit_rate"]
    assert (spread["min"], spread["max"]) == (min(rates), max(rates))
    assert summary["metrics"]["hit_rate"] == pytest.approx(sum(rates) / 2, abs=1e-6)
    assert len(summary["spread_by_tenth"]) == 10
