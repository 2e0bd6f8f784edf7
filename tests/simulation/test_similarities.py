"""Tables of similarities that hold a part of the queries at a time."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.simulation import vectorised
from zerorag_p2p.simulation.similarities import SimilarityTables
from zerorag_p2p.simulation.vectorised import VectorisedSimulation
from zerorag_p2p.workloads.plan import make_plan
from zerorag_p2p.workloads.scenario import Crash, NetworkModel, Replace, Scenario
from zerorag_p2p.workloads.synthetic import synthetic_workload

WORKLOAD = synthetic_workload(peers=60, seed=1, draws=6, topics=20)
QUERIES, DOCUMENTS = len(WORKLOAD.queries), len(WORKLOAD.documents)


def tables(entries: int) -> SimilarityTables:
    """Tables with room for as many queries."""
    return SimilarityTables(WORKLOAD, 4, max_bytes=entries * (20 * DOCUMENTS + 4 * QUERIES))


def test_what_fits_is_made_once() -> None:
    whole = tables(QUERIES)
    made = whole.current
    assert made.exact.shape == (QUERIES, DOCUMENTS)
    asked = WORKLOAD.events.queries
    assert np.array_equal(whole.cover(asked), asked)
    assert whole.current is made


def test_of_more_queries_those_are_covered_that_come_first() -> None:
    whole, part = tables(QUERIES).current, tables(5)
    rest = WORKLOAD.events.queries
    while len(rest):
        entries = part.cover(rest)
        covered, rest = rest[: len(entries)], rest[len(entries) :]
        assert len(np.unique(covered)) == 5 or not len(rest)
        assert not len(rest) or rest[0] not in covered
        now = part.current
        assert np.allclose(now.exact[entries], whole.exact[covered], atol=1e-12)
        assert np.allclose(now.advertised[entries], whole.advertised[covered], atol=1e-6)
        assert np.allclose(now.remembered[entries], whole.remembered[covered], atol=1e-6)
        assert np.array_equal(now.order[entries], whole.order[covered])
        assert np.array_equal(now.rank[entries], whole.rank[covered])
        assert np.array_equal(part.cover(covered), entries)
        assert part.current is now


def test_a_single_query_always_fits() -> None:
    part = SimilarityTables(WORKLOAD, 4, max_bytes=1)
    assert part.cover(np.array([3, 3, 4], dtype=np.int32)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("routing", "settings"),
    [
        ({"routing": "paper"}, {}),
        ({"routing": "paper", "start": "paper", "exploration": "none"}, {}),
        ({"routing": "complete", "fanout": 1}, {"stop_at_target": False}),
        (
            {"routing": "paper"},
            {"timeline": (Crash(at=0.4, share=0.5), Replace(at=0.4, until=0.9))},
        ),
    ],
)
def test_a_simulation_in_parts_decides_what_it_decides_in_one(
    monkeypatch: pytest.MonkeyPatch, routing: dict[str, Any], settings: dict[str, Any]
) -> None:
    scenario = Scenario(
        name="test",
        shows="a test",
        peers=60,
        draws=6,
        network=NetworkModel(latency_ms=0.0, jitter_ms=0.0, queries_per_s=0.0),
        routing=RoutingConfig(**routing),
        **settings,
    )
    plan = make_plan(scenario, WORKLOAD)
    whole = VectorisedSimulation(scenario, plan, traced=True)
    expected = whole.run()
    few = partial(SimilarityTables, max_bytes=7 * (20 * DOCUMENTS + 4 * QUERIES))
    monkeypatch.setattr(vectorised, "SimilarityTables", few)
    told: list[int] = []
    in_parts = VectorisedSimulation(scenario, plan, traced=True)
    table = in_parts.run(lambda done, events: told.append(done))
    assert len(told) > len(WORKLOAD.events) / 60
    assert np.array_equal(in_parts.outcomes.visited, whole.outcomes.visited)
    assert np.array_equal(in_parts.outcomes.referred, whole.outcomes.referred)
    for item in fields(table):
        column, wanted = getattr(table, item.name), getattr(expected, item.name)
        assert (column is None) == (wanted is None)
        assert column is None or np.array_equal(column, wanted, equal_nan=column.dtype.kind == "f")
