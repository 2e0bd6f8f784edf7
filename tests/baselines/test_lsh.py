"""p-stable hashing against its theory."""

from __future__ import annotations

import numpy as np
import pytest

from zerorag_p2p.baselines.lsh import PStableHash, collision_probability


def at_distance(distance: float, dimension: int) -> np.ndarray:
    """Two unit vectors this far apart, [2, d]."""
    angle = 2 * np.arcsin(distance / 2)
    vectors = np.zeros((2, dimension), dtype=np.float32)
    vectors[0, 0] = 1
    vectors[1, :2] = np.cos(angle), np.sin(angle)
    return vectors


@pytest.mark.parametrize("distance", [0.3, 0.7, 1.0, 1.4])
@pytest.mark.parametrize(("projections", "width"), [(1, 3.0), (10, 3.0), (3, 1.0)])
def test_vectors_collide_as_often_as_theory_says(
    distance: float, projections: int, width: float
) -> None:
    tables = 4_000
    hashing = PStableHash(16, tables=tables, projections=projections, width=width, seed=1)
    first, second = hashing.codes(at_distance(distance, 16)).swapaxes(0, 1)
    expected = collision_probability(distance, width) ** projections
    deviation = np.sqrt(expected * (1 - expected) / tables)
    assert np.mean((first == second).all(axis=1)) == pytest.approx(expected, abs=5 * deviation)


def test_collision_probability_falls_with_distance() -> None:
    values = [collision_probability(distance, 3.0) for distance in (0.0, 0.5, 1.0, 2.0, 100.0)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1.0
    assert values[-1] < 0.02


def test_tables_are_independent_and_fewer_are_the_first_of_more() -> None:
    vectors = np.random.default_rng(1).standard_normal((50, 8), dtype=np.float32)
    more = PStableHash(8, tables=5, projections=3, width=1.0, seed=2).codes(vectors)
    fewer = PStableHash(8, tables=2, projections=3, width=1.0, seed=2).codes(vectors)
    assert np.array_equal(more[:2], fewer)
    assert not np.array_equal(more[0], more[1])
