"""Figures from columns are those from single outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.workloads.outcome import (
    QueryOutcome,
    measure,
    measure_by_batch,
    measure_by_tenth,
    random_hit,
)
from zerorag_p2p.workloads.outcome_table import NO_HIT, OutcomeTable

OTHERS, BUDGET, EVENTS = 99, 10, 60


@st.composite
def outcome_lists(draw: st.DrawFn) -> list[QueryOutcome]:
    events = sorted(draw(st.sets(st.integers(0, EVENTS - 1), max_size=40)))
    outcomes = []
    for event in events:
        contacts = draw(st.integers(0, BUDGET))
        holders = draw(st.integers(0, 5))
        requests = draw(st.integers(1, contacts)) if contacts and holders else None
        outcomes.append(
            QueryOutcome(
                event=event,
                answerable=holders > 0,
                hit=requests is not None,
                recall_at_1=draw(st.booleans()),
                recall_at_5_exact=draw(st.sampled_from([None, 0.0, 0.2, 1.0])),
                requests_to_target=requests,
                contacts=contacts,
                failures=draw(st.integers(0, contacts)),
                messages=2 * contacts,
                random_hit=random_hit(OTHERS, holders, BUDGET),
            )
        )
    return outcomes


def in_columns(outcomes: list[QueryOutcome]) -> OutcomeTable:
    def column(values: list[Any], kind: Any) -> Any:
        return np.array(values, dtype=kind)

    holders = {random_hit(OTHERS, count, BUDGET): count for count in range(6)}
    exact = [item.recall_at_5_exact for item in outcomes]
    return OutcomeTable(
        events=column([item.event for item in outcomes], np.int64),
        answerable=column([item.answerable for item in outcomes], np.bool_),
        hit=column([item.hit for item in outcomes], np.bool_),
        recall_at_1=column([item.recall_at_1 for item in outcomes], np.bool_),
        recall_at_5_exact=column(
            [np.nan if value is None else value for value in exact], np.float32
        ),
        requests_to_target=column(
            [item.requests_to_target or NO_HIT for item in outcomes], np.int32
        ),
        contacts=column([item.contacts for item in outcomes], np.int32),
        failures=column([item.failures for item in outcomes], np.int32),
        messages=column([item.messages for item in outcomes], np.int32),
        holders=column([holders[item.random_hit] for item in outcomes], np.int32),
    )


@given(outcome_lists())
def test_columns_give_the_figures_of_the_outcomes(outcomes: list[QueryOutcome]) -> None:
    table = in_columns(outcomes)
    measured = table.measure(others=OTHERS, budget=BUDGET)
    assert measured == pytest.approx(measure(outcomes), abs=2e-6)
    tenths = table.by_tenth(EVENTS, others=OTHERS, budget=BUDGET)
    expected = measure_by_tenth(outcomes, EVENTS)
    assert tenths == [pytest.approx(part, abs=2e-6) for part in expected]
    for part in (batches := measure_by_batch(outcomes, EVENTS, 7)):
        part.pop("random_order_hit_rate", None)
    assert table.by_batch(EVENTS, 7) == [pytest.approx(part, abs=2e-6) for part in batches]
