"""Figures of a node's exchanges with each peer since the start: bytes, round trips, queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerorag_p2p.config import MAX_ROSTER_MEMBERS
from zerorag_p2p.model import PeerId

#: Weight of a new round trip in the smoothed one (RFC 6298, section 2).
_NEWEST_WEIGHT: Final = 1 / 8


@dataclass(slots=True)
class PeerFigures:
    """What passed between us and one peer.

    Attributes:
        bytes_sent, bytes_received: Payloads of requests and replies, whoever asked.
        round_trip_s: Smoothed seconds from a query or advertise request of ours to its reply; None
            before the first.
        asked_at: When the peer last asked a query that was to be remembered, in unix seconds.
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    round_trip_s: float | None = None
    asked_at: float | None = None

    def note_round_trip(self, seconds: float) -> None:
        """Take in how long one reply took."""
        if self.round_trip_s is None:
            self.round_trip_s = seconds
        else:
            self.round_trip_s += _NEWEST_WEIGHT * (seconds - self.round_trip_s)


class Figures:
    """`PeerFigures` by peer, and their sums; peers not heard of for longest are dropped first."""

    def __init__(self) -> None:
        self._by_peer: dict[PeerId, PeerFigures] = {}
        self.bytes_sent = 0
        self.bytes_received = 0

    def get(self, peer: PeerId) -> PeerFigures:
        """The figures of `peer`; zeros for a peer we have exchanged nothing with."""
        return self._by_peer.get(peer) or PeerFigures()

    def note(self, peer: PeerId, *, sent: int = 0, received: int = 0) -> PeerFigures:
        """Count payload bytes; the figures of `peer`, to note more in."""
        figures = self._by_peer.pop(peer, None) or PeerFigures()
        if len(self._by_peer) >= MAX_ROSTER_MEMBERS:
            del self._by_peer[next(iter(self._by_peer))]
        self._by_peer[peer] = figures
        figures.bytes_sent += sent
        figures.bytes_received += received
        self.bytes_sent += sent
        self.bytes_received += received
        return figures
