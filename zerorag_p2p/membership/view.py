"""The partial view: a bounded random sample of the peers, with the age of every entry.

The operations are those of Jelasity et al., "Gossip-based peer sampling" (ACM TOCS 25(3), 2007,
figure 1). Ages count the rounds of whoever holds the entry.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import itemgetter

from zerorag_p2p.config import MAX_GOSSIP_AGE
from zerorag_p2p.model import PeerId


class PartialView:
    """At most `capacity` peers, each once, never the owner.

    Args:
        own: The owner.
        capacity: c, the most entries.
        healer: H, how many of the oldest a merge may drop first.
        swapper: S, how many of those just sent a merge may drop next.
    """

    def __init__(
        self, own: PeerId, *, capacity: int, healer: int, swapper: int, randomness: random.Random
    ) -> None:
        self._own = own
        self._capacity = capacity
        self._healer = healer
        self._swapper = swapper
        self._randomness = randomness
        self._ages: dict[PeerId, int] = {}

    def __len__(self) -> int:
        return len(self._ages)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._ages

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._ages)

    def entries(self) -> list[tuple[PeerId, int]]:
        """Peers with their ages, in rounds."""
        return list(self._ages.items())

    def oldest(self, excluded: Container[PeerId] = ()) -> PeerId | None:
        """The entry that was heard of least recently."""
        candidates = (peer for peer in self._ages if peer not in excluded)
        return max(candidates, key=self._ages.__getitem__, default=None)

    def random(self, excluded: Container[PeerId] = ()) -> PeerId | None:
        """An entry drawn at random."""
        candidates = [peer for peer in self._ages if peer not in excluded]
        return self._randomness.choice(candidates) if candidates else None

    def remove(self, peer: PeerId) -> bool:
        """Remove an entry; whether it was there."""
        return self._ages.pop(peer, None) is not None

    def grow_older(self) -> None:
        """Count a round."""
        for peer, age in self._ages.items():
            self._ages[peer] = min(age + 1, MAX_GOSSIP_AGE)

    def sample(self) -> list[tuple[PeerId, int]]:
        """Half a view to send, less the sender's own entry; the H oldest only to fill up."""
        last = self._oldest(self._healer)
        others = [entry for entry in self._ages.items() if entry not in last]
        count = self._capacity // 2 - 1
        sample = self._randomness.sample(others, min(count, len(others)))
        return sample + last[: count - len(sample)]

    def merge(self, received: Iterable[tuple[PeerId, int]], sent: Sequence[PeerId]) -> None:
        """Take in what another peer sent, in exchange for what it got."""
        renewed = set()
        for peer, age in received:
            held = self._ages.get(peer)
            if peer != self._own and (held is None or age < held):
                self._ages[peer] = age
                renewed.add(peer)
        for peer, _ in self._oldest(min(self._healer, self._excess())):
            del self._ages[peer]
        swapped = [peer for peer in sent if peer in self._ages and peer not in renewed]
        for peer in swapped[: min(self._swapper, self._excess())]:
            del self._ages[peer]
        for peer in self._randomness.sample(list(self._ages), self._excess()):
            del self._ages[peer]

    def _excess(self) -> int:
        return max(0, len(self._ages) - self._capacity)

    def _oldest(self, count: int) -> list[tuple[PeerId, int]]:
        return heapq.nlargest(count, self._ages.items(), key=itemgetter(1))
