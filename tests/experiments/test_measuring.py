"""Figures of a run, from the outcome of every question."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.experiments.measuring import measure_run, parts_of
from zerorag_p2p.experiments.quantity import HIT_RATE, REQUESTS, Quantity
from zerorag_p2p.workloads.outcome import random_hit
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.plan import CrashPeers, IntroduceTopic, Plan, ReplacePeer
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.synthetic import synthetic_workload

PEERS, DRAWS = 20, 5
EVENTS = PEERS * DRAWS
SCENARIO = Scenario(
    name="small",
    shows="Little.",
    peers=PEERS,
    draws=DRAWS,
    batch=30,
    routing=RoutingConfig(contact_budget=4, fanout=3),
)
WORKLOAD = synthetic_workload(peers=PEERS, seed=1, draws=DRAWS)


def table_of(requests: list[int]) -> OutcomeTable:
    asked = np.array(requests, dtype=np.int32)
    return OutcomeTable(
        events=np.arange(len(asked)),
        answerable=np.ones(len(asked), dtype=np.bool_),
        hit=asked > 0,
        recall_at_1=asked > 0,
        requests_to_target=asked,
        holders=np.full(len(asked), 2, dtype=np.int32),
    )


def test_a_run_is_measured_as_a_whole_by_tenth_and_by_batch() -> None:
    table = table_of([0] * 10 + [2] * 90)
    result = measure_run(SCENARIO, Plan(WORKLOAD), table, system="nobody", batches=True)
    assert result["system"] == "nobody"
    assert result["settings"]["routing"]["fanout"] == 3
    assert result["metrics"]["hit_rate"] == pytest.approx(0.9)
    assert [tenth["queries"] for tenth in result["by_tenth"]] == [10] * 10
    assert [tenth["hit_rate"] for tenth in result["by_tenth"]] == [0.0] + [1.0] * 9
    assert [batch["queries"] for batch in result["by_batch"]] == [30, 30, 30, 10]
    assert "rounds_to_target" not in result["metrics"]
    whole = measure_run(SCENARIO, Plan(WORKLOAD), table, system="nobody", batches=False)
    assert "by_batch" not in whole


def test_requests_at_once_are_counted_as_rounds() -> None:
    scenario = replace(SCENARIO, rounds=True)
    table = table_of([0, 1, 3, 4, 6, 7] + [0] * 94)
    result = measure_run(scenario, Plan(WORKLOAD), table, system="nobody", batches=False)
    assert result["metrics"]["rounds_to_target"] == pytest.approx((1 + 1 + 2 + 2 + 3) / 5)


def test_the_random_order_is_drawn_from_those_that_are_up() -> None:
    crash = CrashPeers(before=50, peers=tuple(range(10)))
    plan = Plan(WORKLOAD, (crash, *(ReplacePeer(before=80, peer=peer) for peer in range(10))))
    result = measure_run(SCENARIO, plan, table_of([1] * EVENTS), system="nobody", batches=False)
    rates = [tenth["random_order_hit_rate"] for tenth in result["by_tenth"]]
    before, during = random_hit(PEERS - 1, 2, 4), random_hit(9, 2, 4)
    assert rates == pytest.approx([before] * 5 + [during] * 3 + [before] * 2, abs=1e-6)


def test_questions_about_an_introduced_topic_are_counted_apart() -> None:
    document = int(WORKLOAD.events.documents[0])
    about = WORKLOAD.events.documents == document
    topic = IntroduceTopic(before=0, topic="new", documents=(document,), owners=(1,))
    table = table_of(np.where(about, 1, 0).tolist())
    result = measure_run(SCENARIO, Plan(WORKLOAD, (topic,)), table, system="x", batches=False)
    assert result["introduced"]["metrics"]["queries"] == about.sum()
    assert result["introduced"]["metrics"]["hit_rate"] == 1.0
    assert result["others"]["metrics"]["hit_rate"] == 0.0


def test_parts_hold_every_question_once() -> None:
    table = table_of(list(range(97)))
    parts = parts_of(table.rows(table.events % 2 == 0), 97, 10)
    assert np.concatenate([part.events for part in parts]).tolist() == list(range(0, 97, 2))


def test_what_a_run_does_not_have_is_left_out_of_its_estimate() -> None:
    runs = [{"by_tenth": [{"hit_rate": rate}] * 10} for rate in (0.5, 0.7)]
    estimate = HIT_RATE.estimate([*runs, {"by_tenth": []}])
    assert estimate is not None
    assert (estimate.mean, estimate.runs) == (pytest.approx(0.6), 2)
    assert HIT_RATE.show(estimate.mean, estimate.deviation) == "60.000 ± 14.142%"
    assert REQUESTS.estimate(runs) is None
    assert Quantity("never", ("findings", "first")).read({"findings": {"first": None}}) is None
