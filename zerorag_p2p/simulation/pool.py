"""Vectors kept once for all peers of a simulation.

A simulated network sees the same few thousand vectors again and again: thousands of peers remember
the same questions and advertise the same documents. The pool keeps each vector once, and for every
question its products with all of them; the stores of a peer hold numbers into the pool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector

_FIRST_ROWS = 1_024


class VectorPool:
    """Every vector of a simulation.

    Args:
        dimension: Components of a vector.
    """

    def __init__(self, dimension: int) -> None:
        self._numbers: dict[bytes, int] = {}
        self._matrix: Vector = np.zeros((_FIRST_ROWS, dimension), dtype=np.float32)
        self._products: dict[bytes, NDArray[np.float32]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, vector: Vector) -> int:
        """The number of a vector [d], which is added if it is new."""
        key = vector.tobytes()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            if number == len(self._matrix):
                self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self._matrix[number] = vector
        return number

    def vector(self, number: int) -> Vector:
        """The vector [d] of a number."""
        vector: Vector = self._matrix[number]
        return vector

    def prepare(self, embeddings: Vector) -> NDArray[np.float32]:
        """Compute the products of every vector with all `embeddings` [m, d] in one go.

        Returns:
            float32 [m, vectors], the products by number.
        """
        products: NDArray[np.float32] = embeddings @ self._matrix[: len(self._numbers)].T
        for embedding, row in zip(embeddings, products, strict=True):
            self._products[embedding.tobytes()] = row
        return products

    def products(self, embedding: Vector) -> NDArray[np.float32]:
        """Products of every vector with `embedding` [d], by number; computed once."""
        key = embedding.tobytes()
        known = self._products.get(key)
        size = len(self._numbers)
        if known is None:
            known = self._products[key] = self._matrix[:size] @ embedding
        elif len(known) < size:
            added = self._matrix[len(known) : size] @ embedding
            known = self._products[key] = np.concatenate([known, added])
        return known

    def rows(self, dimension: int) -> PooledRows:
        """Rows for one store (`routing.rows.MakeRows`)."""
        assert dimension == self._matrix.shape[1]
        return PooledRows(self)


class PooledRows:
    """Rows of one store, each the number of a vector in the pool; see `routing.rows.Rows`."""

    def __init__(self, pool: VectorPool) -> None:
        self._pool = pool
        self._numbers: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

    def write(self, start: int, vectors: Vector) -> None:
        """See `Rows`."""
        end = start + len(vectors)
        if end > len(self._numbers):
            grown = np.zeros(max(end, 2 * start), dtype=np.int32)
            grown[:start] = self._numbers[:start]
            self._numbers = grown
        self._numbers[start:end] = [self._pool.number(vector) for vector in vectors]

    def move(self, start: int, rows: NDArray[np.intp]) -> None:
        """See `Rows`."""
        self._numbers[start : start + len(rows)] = self._numbers[rows]

    def read(self, row: int) -> Vector:
        """See `Rows`."""
        return self._pool.vector(int(self._numbers[row]))

    def dot(self, embedding: Vector, size: int) -> NDArray[np.float32]:
        """See `Rows`."""
        return self._pool.products(embedding)[self._numbers[:size]]
