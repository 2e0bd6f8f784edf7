"""Sketches: advertisements of peers that need not be neighbours; which to keep, which to pass on.

Some places are for the owners nearest by content, the others for a random sample of all other
owners ever offered. Near ones answer most questions, since a peer asks about what it holds; the
others lead a question elsewhere. The sample are the owners with the smallest hashes under a key of
this peer's own: however often and in whatever order they are offered it is uniform, and nobody can
choose to be in it (after Broder, "On the resemblance and containment of documents", 1997).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Final

import numpy as np

from zerorag_p2p.model import NEVER_COMPARED, PeerId, Score, Vector
from zerorag_p2p.routing.adverts import HeldAdvertisement
from zerorag_p2p.wire.gossip import advertisement_digest

_RANK_BYTES: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """An advertisement with what it is compared by.

    Attributes:
        advertisement: The advertisement.
        digest: What it is called in gossip.
        direction: Of the mean of its vectors, float32 [d] of unit length; None without vectors.
    """

    advertisement: HeldAdvertisement
    digest: bytes
    direction: Vector | None

    @classmethod
    def of(cls, advertisement: HeldAdvertisement) -> Sketch:
        """Compute the sketch of an advertisement."""
        digest = advertisement_digest(advertisement.signed)
        return cls(advertisement, digest, _direction(advertisement.vectors))

    @property
    def owner(self) -> PeerId:
        """Who advertises."""
        return self.advertisement.owner

    @property
    def size(self) -> int:
        """Bytes of the sealed advertisement."""
        return len(self.advertisement.signed)

    def similarity(self, direction: Vector | None) -> Score:
        """Cosine with `direction`; never compared where one of the two has none."""
        if direction is None or self.direction is None:
            return NEVER_COMPARED
        return float(self.direction @ direction)


def _direction(vectors: Vector) -> Vector | None:
    if not len(vectors):
        return None
    mean = vectors.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    if length == 0:
        return None
    direction: Vector = (mean / length).astype(np.float32)
    return direction


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of an offer.

    Attributes:
        kept: Whether the advertisement offered is kept.
        dropped: Sketches that are held no more, to make room.
    """

    kept: bool
    dropped: tuple[Sketch, ...] = ()


class SketchChoice:
    """The sketches of one peer, within a number of owners and of bytes.

    Everybody is kept while all fit. Where bytes run out before places do, an advertisement that
    does not fit makes way for the next one that does.

    Args:
        limit: Most owners.
        byte_limit: Most bytes of sealed advertisements.
        near_share: Share of both that is for the nearest.
        key: A secret that the random sample depends on.
    """

    def __init__(self, limit: int, byte_limit: int, *, near_share: float, key: bytes) -> None:
        self._limit = limit
        self._near_limit = round(limit * near_share)
        self._byte_limit = byte_limit
        self._near_byte_limit = int(byte_limit * near_share)
        self._key = key
        self._own: Vector | None = None
        self._held: dict[PeerId, Sketch] = {}
        self._ranks: dict[PeerId, int] = {}
        self._near: list[PeerId] = []

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Sketch]:
        return iter(self._held.values())

    def get(self, owner: PeerId) -> Sketch | None:
        """The sketch of `owner`, if it is held."""
        return self._held.get(owner)

    @property
    def size(self) -> int:
        """Bytes of all sealed advertisements held."""
        return sum(sketch.size for sketch in self)

    @property
    def near(self) -> Sequence[PeerId]:
        """The owners held for being near, the nearest first."""
        return self._near

    def compare_with(self, direction: Vector | None) -> None:
        """Measure nearness from `direction` on; None: nothing is near."""
        self._own = direction
        self._settle()

    def offer(self, sketch: Sketch) -> Verdict:
        """Consider an advertisement that no older one is offered after.

        One without vectors is of use only in place of an older one, which it keeps the place of
        until it expires: so nobody brings the older one back.
        """
        held = self._held.get(sketch.owner)
        if sketch.direction is None:
            if held is None:
                return Verdict(kept=False)
            sketch = replace(sketch, direction=held.direction)
        self._held[sketch.owner] = sketch
        self._ranks[sketch.owner] = self._rank(sketch.owner)
        dropped = self._settle()
        kept = sketch.owner in self._held
        return Verdict(kept, tuple(item for item in dropped if item is not sketch))

    def would_keep(self, owner: PeerId, direction: Vector) -> bool:
        """Whether an advertisement of these two would be kept, so far as bytes allow."""
        if len(self) < self._limit:
            return True
        if self._own is not None and self._near:
            farthest = self._held[self._near[-1]].similarity(self._own)
            if float(direction @ self._own) > farthest:
                return True
        sample = self._ranks.keys() - set(self._near)
        return self._rank(owner) < max((self._ranks[other] for other in sample), default=0)

    def remove(self, owner: PeerId) -> None:
        """Let go of `owner`."""
        del self._held[owner], self._ranks[owner]
        self._settle()

    def _rank(self, owner: PeerId) -> int:
        digest = hashlib.blake2b(owner.encode(), key=self._key, digest_size=_RANK_BYTES)
        return int.from_bytes(digest.digest(), "big")

    def _settle(self) -> list[Sketch]:
        """Keep the near ones and the sample; what is dropped."""
        by_rank = sorted(self, key=lambda sketch: self._ranks[sketch.owner])
        scores = {sketch.owner: sketch.similarity(self._own) for sketch in by_rank}
        comparable = [sketch for sketch in by_rank if scores[sketch.owner] > NEVER_COMPARED]
        comparable.sort(key=lambda sketch: -scores[sketch.owner])
        near = _fitting(comparable, self._near_limit, self._near_byte_limit)
        self._near = list(near)
        others = [sketch for sketch in by_rank if sketch.owner not in near]
        left = self._byte_limit - sum(sketch.size for sketch in near.values())
        kept = near | _fitting(others, self._limit - len(near), left)
        dropped = [sketch for sketch in self if sketch.owner not in kept]
        for sketch in dropped:
            del self._held[sketch.owner], self._ranks[sketch.owner]
        return dropped


def _fitting(sketches: Iterable[Sketch], count: int, byte_limit: int) -> dict[PeerId, Sketch]:
    """The first `count` of those that fit, in order."""
    chosen: dict[PeerId, Sketch] = {}
    left = byte_limit
    for sketch in sketches:
        if len(chosen) == count:
            break
        if sketch.size <= left:
            chosen[sketch.owner] = sketch
            left -= sketch.size
    return chosen


def choose_to_pass_on(
    sketches: Sequence[Sketch],
    *,
    near: Vector | None,
    first: Sketch | None,
    count: int,
    byte_limit: int,
    randomness: random.Random,
) -> list[Sketch]:
    """What to give an asker: alternately the nearest to `near` and any.

    Args:
        sketches: What the asker may want, each owner once.
        near: The direction [d] it gave, if any.
        first: What it gets before the others, if anything.
        count: Most sketches.
        byte_limit: Most bytes of their sealed advertisements; the first one may be longer, so that
            a long advertisement gets around, too.
        randomness: Draws the ones between.
    """
    scores = [(sketch.similarity(near), sketch) for sketch in sketches]
    scores.sort(key=lambda item: -item[0])
    nearest = [sketch for score, sketch in scores if score > NEVER_COMPARED]
    shuffled = randomness.sample(sketches, len(sketches))
    in_turn = chain([first], chain.from_iterable(zip_longest(nearest, shuffled)))
    distinct = {sketch.owner: sketch for sketch in in_turn if sketch is not None}
    longest = next(iter(distinct.values())).size if distinct else 0
    return list(_fitting(distinct.values(), count, max(byte_limit, longest)).values())
