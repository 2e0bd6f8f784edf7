"""The neighbour view: peers whose advertisements we keep (N in the paper's algorithms)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zerorag_p2p.model import PeerId


@dataclass(slots=True)
class Neighbor:
    """One entry of the neighbour view; times are unix seconds."""

    peer: PeerId
    since: float
    last_useful: float | None = None


class NeighborView:
    """A FIFO of neighbours: a new one pushes out the oldest, a known one keeps its place."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._neighbors: dict[PeerId, Neighbor] = {}

    def __len__(self) -> int:
        return len(self._neighbors)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._neighbors

    def __iter__(self) -> Iterator[Neighbor]:
        """From the oldest to the newest."""
        return iter(self._neighbors.values())

    def add(self, peer: PeerId, now: float) -> PeerId | None:
        """Add `peer`; the neighbour this pushed out, if any."""
        if peer in self._neighbors:
            return None
        self._neighbors[peer] = Neighbor(peer, since=now)
        if len(self._neighbors) <= self._capacity:
            return None
        oldest = next(iter(self._neighbors))
        del self._neighbors[oldest]
        return oldest

    def remove(self, peer: PeerId) -> bool:
        """Remove `peer`; whether it was a neighbour."""
        return self._neighbors.pop(peer, None) is not None

    def mark_useful(self, peer: PeerId, now: float) -> None:
        """Note that `peer`, if it is a neighbour, returned the best document of a query."""
        neighbor = self._neighbors.get(peer)
        if neighbor is not None:
            neighbor.last_useful = now
