"""The pool of vectors against plain matrices, and the arithmetic of random order."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.model import Vector
from zerorag_p2p.routing.rows import MatrixRows, Rows
from zerorag_p2p.simulation.pool import VectorPool
from zerorag_p2p.workloads.outcome import random_hit

DIMENSION = 4


def vectors(seed: int, count: int) -> Vector:
    # Few different ones, so that the pool meets the same vector again.
    generator = np.random.default_rng(seed % 5)
    return generator.normal(size=(count, DIMENSION)).astype(np.float32)


@st.composite
def operations(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Writes behind or within the rows in use, and moves of some rows to the front."""
    steps: list[tuple[str, int, int]] = []
    size = 0
    for _ in range(draw(st.integers(1, 12))):
        if size and draw(st.booleans()):
            seed = draw(st.integers(0, 1_000))
            size = int(np.random.default_rng(seed).integers(0, size + 1))
            steps.append(("move", seed, size))
        else:
            start, count = draw(st.integers(0, size)), draw(st.integers(0, 6))
            steps.append(("write", start, count))
            size = max(size, start + count)
    return steps


@given(steps=operations(), seed=st.integers(0, 1_000))
def test_pooled_rows_are_rows(steps: list[tuple[str, int, int]], seed: int) -> None:
    pool = VectorPool(DIMENSION)
    kinds: tuple[Rows, Rows] = (MatrixRows(DIMENSION), pool.rows(DIMENSION))
    size = 0
    query = vectors(seed, 1)[0]
    for kind, first, second in steps:
        if kind == "write":
            for rows in kinds:
                rows.write(first, vectors(first, second))
            size = max(size, first + second)
        else:
            order = np.random.default_rng(first).permutation(size)[:second]
            for rows in kinds:
                rows.move(0, order)
            size = second
        matrix, pooled = (rows.dot(query, size) for rows in kinds)
        assert pooled == pytest.approx(matrix, abs=1e-5)
        assert all(np.array_equal(kinds[0].read(row), kinds[1].read(row)) for row in range(size))
    assert len(pool) <= 5 * 6


@given(data=st.data(), others=st.integers(1, 60))
def test_random_order_is_drawing_without_replacement(data: st.DataObject, others: int) -> None:
    holders = data.draw(st.integers(0, others))
    budget = data.draw(st.integers(0, 80))
    drawn = min(budget, others)
    exact = 1 - comb(others - holders, drawn) / comb(others, drawn)
    assert random_hit(others, holders, budget) == pytest.approx(exact, abs=1e-9)
