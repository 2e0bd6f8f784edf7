"""Kademlia's lookups over a network whose members are all known (Maymounkov and Mazieres, 2002).

A peer keeps, for every length of prefix, up to 20 peers whose ids share exactly that many leading
bits with its own: a bucket. To find a key, it asks the peers closest to the key by XOR that it
knows of, three at a time; each names the 20 closest that it knows; this goes on until the 20
closest of all those named have answered. A value is stored at the 20 peers closest to its key, and
looking it up ends as soon as one of them answers.

Here everybody is up and buckets are full: each holds 20 peers drawn from all of the right prefix,
or all if there are fewer. A range of sorted ids is a prefix, so a peer's buckets are drawn when
they are first needed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

ID_BITS: Final = 64
#: Peers in a bucket, in a reply, and that store a value: Kademlia's k.
BUCKET_SIZE: Final = 20
#: Peers asked at the same time: Kademlia's alpha.
PARALLEL: Final = 3

_ABOVE: Final = 1 << ID_BITS


@dataclass(frozen=True, slots=True)
class Lookup:
    """What looking up a key took and brought.

    Attributes:
        asked: Peers asked, in order. Each got one request and sent one reply.
        hops: Longest chain of peers asked, each of them named by the one before.
        closest: The peers closest to the key, closest first, at most `BUCKET_SIZE`. All of them
            have been asked unless the value was found before.
        values: How many of the replies were the value.
    """

    asked: tuple[int, ...]
    hops: int
    closest: tuple[int, ...]
    values: int = 0

    @property
    def messages(self) -> int:
        """Requests and replies."""
        return 2 * len(self.asked)


class KademliaNetwork:
    """Peers, numbered from 0, with random ids.

    Args:
        peers: How many.
        seed: Decides ids and buckets.
    """

    def __init__(self, peers: int, *, seed: int) -> None:
        self._seed = seed
        generator = np.random.default_rng([seed, peers])
        drawn = np.empty(0, dtype=np.uint64)
        while len(drawn) < peers:
            more = generator.integers(_ABOVE, size=peers - len(drawn), dtype=np.uint64)
            drawn = np.unique(np.concatenate([drawn, more]))
        self._sorted: NDArray[np.uint64] = drawn
        self._at: NDArray[np.int64] = generator.permutation(peers)
        self._ids = np.empty_like(drawn)
        self._ids[self._at] = drawn
        self._numbers: list[int] = self._ids.tolist()
        self._known: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, peer: int) -> int:
        """The id of a peer, below 2 to the power of `ID_BITS`."""
        return self._numbers[peer]

    def closest(self, key: int) -> tuple[int, ...]:
        """The `BUCKET_SIZE` peers closest to a key, closest first: those that store its value."""
        return self._closest_of(np.arange(len(self._ids)), key)

    def buckets(self, peer: int) -> list[NDArray[np.int64]]:
        """The buckets of a peer: peers that share 0, 1, 2 and so on leading bits with it.

        The list ends where nobody shares more.
        """
        generator = np.random.default_rng([self._seed, len(self._ids), peer])
        own = self.id_of(peer)
        buckets = []
        # Positions in the sorted ids of all that share the bits so far, the peer itself included.
        start, end = 0, len(self._sorted)
        for bit in reversed(range(ID_BITS)):
            if end - start == 1:
                break
            first_with_bit = np.uint64((own >> bit | 1) << bit)
            middle = start + int(np.searchsorted(self._sorted[start:end], first_with_bit))
            without, having = (start, middle), (middle, end)
            (start, end), (low, high) = (having, without) if own >> bit & 1 else (without, having)
            size = min(BUCKET_SIZE, high - low)
            chosen = generator.choice(high - low, size=size, replace=False)
            buckets.append(self._at[low + chosen])
        return buckets

    def lookup(self, source: int, key: int, stored_at: Collection[int] = ()) -> Lookup:
        """Look up a key.

        Args:
            source: Who looks it up.
            key: Below 2 to the power of `ID_BITS`.
            stored_at: Peers that answer with the value; none if there is no such value. The
                source itself asks nobody if it is one of them.
        """
        if source in stored_at:
            return Lookup((), 0, (source,))
        ids = self._numbers
        asked: dict[int, None] = {}
        hops = {source: 0}
        # Nobody further away than the closest `BUCKET_SIZE` so far is asked any more.
        nearest: list[tuple[int, int]] = []
        values = 0

        def learn(teacher: int) -> None:
            new = [peer for peer in self._named(teacher, key) if peer not in hops]
            hops.update(dict.fromkeys(new, hops[teacher] + 1))
            nearest.extend((ids[peer] ^ key, peer) for peer in new)

        learn(source)
        while not values:
            nearest = sorted(nearest)[:BUCKET_SIZE]
            waiting = [peer for _, peer in nearest if peer not in asked][:PARALLEL]
            if not waiting:
                break
            asked.update(dict.fromkeys(waiting))
            for peer in waiting:
                if peer in stored_at:
                    values += 1
                else:
                    learn(peer)
        return Lookup(
            asked=tuple(asked),
            hops=max((hops[peer] for peer in asked), default=0),
            closest=tuple(peer for _, peer in sorted(nearest)[:BUCKET_SIZE]),
            values=values,
        )

    def _named(self, peer: int, key: int) -> tuple[int, ...]:
        """Whom a peer names when it is asked for a key."""
        if peer not in self._known:
            nobody = np.empty(0, dtype=np.int64)
            self._known[peer] = np.concatenate([nobody, *self.buckets(peer)])
        return self._closest_of(self._known[peer], key)

    def _closest_of(self, peers: NDArray[np.int64], key: int) -> tuple[int, ...]:
        distances = self._ids[peers] ^ np.uint64(key)
        if len(peers) > BUCKET_SIZE:
            nearest = np.argpartition(distances, BUCKET_SIZE)[:BUCKET_SIZE]
            peers, distances = peers[nearest], distances[nearest]
        return tuple(peers[np.argsort(distances)].tolist())
