"""Small integers that stand for peers in arrays, handed out while something refers to the peer."""

from __future__ import annotations

from zerorag_p2p.model import PeerId


class PeerTable:
    """Numbers peers densely and reuses the numbers of peers that nothing refers to any more.

    The numbers index score arrays, so the table stays as small as the number of peers that the
    stores sharing it know at one time.
    """

    def __init__(self) -> None:
        self._numbers: dict[PeerId, int] = {}
        self._peers: list[PeerId | None] = []
        self._references: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """One more than the largest number in use."""
        return len(self._peers)

    def acquire(self, peer: PeerId, times: int = 1) -> int:
        """The number of `peer`, kept until it is released as often as it was acquired."""
        number = self._numbers.get(peer)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._peers[number] = peer
            else:
                number = len(self._peers)
                self._peers.append(peer)
                self._references.append(0)
            self._numbers[peer] = number
        self._references[number] += times
        return number

    def release(self, number: int, times: int = 1) -> None:
        """Give back `times` references to `number`."""
        self._references[number] -= times
        if self._references[number] == 0:
            peer = self._peers[number]
            assert peer is not None
            del self._numbers[peer]
            self._peers[number] = None
            self._free.append(number)

    def number(self, peer: PeerId) -> int | None:
        """The number of `peer`, if something refers to it."""
        return self._numbers.get(peer)

    def peer(self, number: int) -> PeerId:
        """The peer that `number` stands for."""
        peer = self._peers[number]
        assert peer is not None
        return peer
