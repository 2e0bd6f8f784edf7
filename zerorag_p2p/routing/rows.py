"""Where the vectors of a store live: row by row, to be compared with a query all at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector


class Rows(Protocol):
    """Vectors by row number. Which rows are in use is known to the store alone."""

    def write(self, start: int, vectors: Vector) -> None:
        """Put `vectors` [n, d] into the rows from `start` on."""

    def move(self, start: int, rows: NDArray[np.intp]) -> None:
        """Put what is in `rows`, in this order, into the rows from `start` on."""

    def read(self, row: int) -> Vector:
        """The vector [d] of a row."""

    def dot(self, embedding: Vector, size: int) -> NDArray[np.float32]:
        """Products of the first `size` rows with `embedding` [d]."""


#: Makes the rows of one store, for vectors of the given dimension.
MakeRows: TypeAlias = Callable[[int], Rows]


class MatrixRows:
    """The rows of a matrix that grows."""

    def __init__(self, dimension: int) -> None:
        self._matrix: Vector = np.zeros((0, dimension), dtype=np.float32)

    def write(self, start: int, vectors: Vector) -> None:
        """See `Rows`."""
        end = start + len(vectors)
        if end > len(self._matrix):
            # By a quarter: rows are large, and many peers of one process each keep some spare.
            capacity = max(end, start + start // 4)
            grown = np.zeros((capacity, self._matrix.shape[1]), dtype=np.float32)
            grown[:start] = self._matrix[:start]
            self._matrix = grown
        self._matrix[start:end] = vectors

    def move(self, start: int, rows: NDArray[np.intp]) -> None:
        """See `Rows`."""
        self._matrix[start : start + len(rows)] = self._matrix[rows]

    def read(self, row: int) -> Vector:
        """See `Rows`."""
        vector: Vector = self._matrix[row]
        return vector

    def dot(self, embedding: Vector, size: int) -> NDArray[np.float32]:
        """See `Rows`."""
        products: NDArray[np.float32] = self._matrix[:size] @ embedding
        return products


class SharedRows:
    """Rows that stay in the arrays they came in, which others may hold too.

    Whoever writes an array does not change it afterwards. Rows are written at the end, and moved
    down to close the gap that whole arrays leave.
    """

    def __init__(self, dimension: int) -> None:
        del dimension
        self._blocks: list[Vector] = []

    def write(self, start: int, vectors: Vector) -> None:
        """See `Rows`; what was at `start` or after it is gone."""
        del self._blocks[self._block_at(start) :]
        if len(vectors):
            self._blocks.append(vectors)

    def move(self, start: int, rows: NDArray[np.intp]) -> None:
        """See `Rows`; `rows` are the last ones, in order."""
        first, size = self._block_at(start), self._ends()[-1]
        del self._blocks[first : self._block_at(size - len(rows))]

    def read(self, row: int) -> Vector:
        """See `Rows`."""
        for block in self._blocks:
            if row < len(block):
                vector: Vector = block[row]
                return vector
            row -= len(block)
        raise IndexError(row)

    def dot(self, embedding: Vector, size: int) -> NDArray[np.float32]:
        """See `Rows`."""
        products = np.empty(self._ends()[-1], dtype=np.float32)
        start = 0
        for block in self._blocks:
            end = start + len(block)
            np.dot(block, embedding, out=products[start:end])
            start = end
        return products[:size]

    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self._blocks), initial=0))

    def _block_at(self, row: int) -> int:
        """Which array begins at `row`, or would."""
        return self._ends().index(row)
