"""Scenarios on whole nodes; the same files run on the event simulator."""

from dataclasses import replace

import pytest

from zerorag_p2p.testnet.run import run_on_testnet, summarise
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


def test_a_topic_spreads_by_copies() -> None:
    result = run(Introduce(at=0.3, owners=1, questions=0.8))
    introduced = result["introduced"]
    assert introduced["metrics"]["queries"] > 10
    assert introduced["metrics"]["hit_rate"] > 0.8
    # Copies are found nearer than the one owner was.
    rates = [batch["hit_rate"] for batch in introduced["by_batch"] if "hit_rate" in batch]
    assert rates[-1] == 1.0


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
