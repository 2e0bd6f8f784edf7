"""The routed-query memory: who asked what lately (paper, section 3.3; M in algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import PeerId, Vector
from zerorag_p2p.routing.peers import PeerTable
from zerorag_p2p.routing.rows import MakeRows, MatrixRows

_FIRST_ROWS = 16


class RoutedQueryMemory:
    """A FIFO of (querier, query embedding) pairs, bounded by number and by age.

    Embeddings are the rows of one matrix, so that scoring a query is one matrix-vector product.
    The rows form a ring once `capacity` is reached.
    """

    def __init__(
        self,
        capacity: int,
        dimension: int,
        peers: PeerTable,
        make_rows: MakeRows = MatrixRows,
    ) -> None:
        self._capacity = capacity
        self._peers = peers
        rows = min(capacity, _FIRST_ROWS)
        self._embeddings = make_rows(dimension)
        self._queriers: NDArray[np.intp] = np.zeros(rows, dtype=np.intp)
        self._expires_at: NDArray[np.float64] = np.zeros(rows, dtype=np.float64)
        self._size = 0
        self._oldest = 0
        self._next_expiry = np.inf

    def __len__(self) -> int:
        return self._size

    def add(self, querier: PeerId, embedding: Vector, *, expires_at: float) -> None:
        """Remember a query until `expires_at` (unix seconds); the oldest goes when it is full."""
        if self._capacity == 0:
            return
        if self._size < self._capacity:
            if self._size == len(self._queriers):
                self._grow()
            row = self._size
            self._size += 1
        else:
            row = self._oldest
            self._oldest = (self._oldest + 1) % self._capacity
            self._peers.release(int(self._queriers[row]))
        self._embeddings.write(row, embedding[np.newaxis])
        self._queriers[row] = self._peers.acquire(querier)
        self._expires_at[row] = expires_at
        self._next_expiry = min(self._next_expiry, expires_at)

    def remove(self, querier: PeerId) -> int:
        """Forget every query of `querier`; how many there were."""
        number = self._peers.number(querier)
        if number is None:
            return 0
        return self._keep(self._queriers[: self._size] != number)

    def expire(self, now: float) -> int:
        """Forget every query whose time is over; how many there were."""
        if now < self._next_expiry:
            return 0
        return self._keep(self._expires_at[: self._size] > now)

    def score_peers(self, embedding: Vector, scores: NDArray[np.float32]) -> None:
        """Raise each querier's entry of `scores` to its best similarity with `embedding`.

        `scores` is indexed by the numbers of the shared `PeerTable`.
        """
        size = self._size
        if size:
            similarities = self._embeddings.dot(embedding, size)
            np.maximum.at(scores, self._queriers[:size], similarities)

    def entries(self) -> Iterator[tuple[PeerId, Vector, float]]:
        """(querier, embedding, expiry) from the oldest to the newest."""
        for row in self._order():
            querier = self._peers.peer(int(self._queriers[row]))
            yield querier, self._embeddings.read(row), float(self._expires_at[row])

    def _order(self) -> NDArray[np.intp]:
        return (np.arange(self._size) + self._oldest) % max(self._size, 1)

    def _grow(self) -> None:
        rows = min(self._capacity, 2 * len(self._queriers))
        for name in ("_queriers", "_expires_at"):
            old = getattr(self, name)
            new = np.zeros(rows, dtype=old.dtype)
            new[: self._size] = old[: self._size]
            setattr(self, name, new)

    def _keep(self, kept: NDArray[np.bool_]) -> int:
        """Drop the rows that are not `kept` and put the rest in order, oldest first."""
        dropped = np.flatnonzero(~kept)
        for number in self._queriers[dropped]:
            self._peers.release(int(number))
        order = self._order()
        order = order[kept[order]]
        size = len(order)
        self._embeddings.move(0, order)
        for array in (self._queriers, self._expires_at):
            array[:size] = array[order]
        self._size = size
        self._oldest = 0
        self._next_expiry = float(self._expires_at[:size].min()) if size else np.inf
        return len(dropped)
