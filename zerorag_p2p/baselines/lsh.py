"""Locality-sensitive hashing of vectors by p-stable projections (Datar et al., 2004), p = 2.

A function projects a vector on a random Gaussian direction, adds a random offset and takes the
number of the interval of a given width that it falls into. A bucket of a table is a combination of
several such numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector


class PStableHash:
    """Hash tables for vectors.

    Args:
        dimension: Components of a vector.
        tables: Number of tables, L.
        projections: Functions that a bucket of a table combines, k.
        width: Width of the interval of a function, w.
        seed: Decides directions and offsets. Fewer tables are the first of more.
    """

    def __init__(
        self, dimension: int, *, tables: int, projections: int, width: float, seed: int
    ) -> None:
        generator = np.random.default_rng(seed)
        self._functions = [
            (
                generator.standard_normal((dimension, projections), dtype=np.float32),
                generator.uniform(0, width, projections).astype(np.float32),
            )
            for _ in range(tables)
        ]
        self._width = np.float32(width)

    def codes(self, vectors: Vector) -> NDArray[np.int32]:
        """The buckets of vectors [n, d]: int32 [tables, n, projections]."""
        return np.stack(
            [
                np.floor((vectors @ directions + offsets) / self._width).astype(np.int32)
                for directions, offsets in self._functions
            ]
        )


def collision_probability(distance: float, width: float) -> float:
    """Probability that one function has two vectors at this Euclidean distance collide.

    Datar et al., section 3.2, for p = 2.
    """
    if distance == 0:
        return 1.0
    ratio = width / distance
    outside = math.erfc(ratio / math.sqrt(2)) / 2
    slope = (1 - math.exp(-(ratio**2) / 2)) * 2 / (math.sqrt(2 * math.pi) * ratio)
    return 1 - 2 * outside - slope
