"""Advertisements: what other peers say they hold (A in the paper's algorithms)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import HashPrefix, PeerId, Vector
from zerorag_p2p.routing.peers import PeerTable
from zerorag_p2p.routing.rows import MakeRows, MatrixRows

_FIRST_ROWS = 64
_KMEANS_ROUNDS = 10
#: Vectors that centroids are computed from, so that a node never stops for seconds to do it.
_SAMPLE_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class HeldAdvertisement:
    """An advertisement as a peer keeps it.

    Attributes:
        owner: The peer that signed it.
        sequence: Grows with every advertisement of the owner.
        expires_at: Unix seconds.
        vectors: float32 [n, d]; a dot product with a query estimates the cosine similarity.
        documents: For every row the prefix of the document it stands for; None for a centroid.
        signed: The signed object, to pass on or to save.
    """

    owner: PeerId
    sequence: int
    expires_at: float
    vectors: Vector
    documents: tuple[HashPrefix | None, ...]
    signed: bytes = b""


class AdvertisementStore:
    """Advertisements by owner, their vectors the rows of one matrix for scoring."""

    def __init__(self, dimension: int, peers: PeerTable, make_rows: MakeRows = MatrixRows) -> None:
        self._peers = peers
        self._by_owner: dict[PeerId, HeldAdvertisement] = {}
        self._rows = make_rows(dimension)
        self._owners: NDArray[np.intp] = np.zeros(_FIRST_ROWS, dtype=np.intp)
        self._documents: list[HashPrefix | None] = []
        # The rows of one owner lie together, and stay so when others are removed.
        self._first_rows: dict[PeerId, int] = {}

    def __len__(self) -> int:
        """Number of vectors held."""
        return len(self._documents)

    def __contains__(self, owner: PeerId) -> bool:
        return owner in self._by_owner

    def __iter__(self) -> Iterator[HeldAdvertisement]:
        return iter(self._by_owner.values())

    def get(self, owner: PeerId) -> HeldAdvertisement | None:
        """The advertisement of `owner`, if there is one."""
        return self._by_owner.get(owner)

    def put(self, advertisement: HeldAdvertisement) -> bool:
        """Keep an advertisement in place of an older one; False if the one held is as new."""
        held = self._by_owner.get(advertisement.owner)
        if held is not None:
            if held.sequence >= advertisement.sequence:
                return False
            self.remove(advertisement.owner)
        self._by_owner[advertisement.owner] = advertisement
        start = self._first_rows[advertisement.owner] = len(self._documents)
        end = start + len(advertisement.documents)
        self._reserve(end)
        if end > start:
            self._rows.write(start, advertisement.vectors)
            self._owners[start:end] = self._peers.acquire(advertisement.owner, end - start)
        self._documents.extend(advertisement.documents)
        return True

    def remove(self, owner: PeerId) -> bool:
        """Drop the advertisement of `owner`; whether there was one."""
        held = self._by_owner.pop(owner, None)
        if held is None:
            return False
        first = self._first_rows.pop(owner)
        count = len(held.documents)
        if count:
            size = len(self._documents)
            self._rows.move(first, np.arange(first + count, size))
            self._owners[first : size - count] = self._owners[first + count : size]
            del self._documents[first : first + count]
            for other, row in self._first_rows.items():
                if row > first:
                    self._first_rows[other] = row - count
            number = self._peers.number(owner)
            assert number is not None
            self._peers.release(number, count)
        return True

    def expire(self, now: float) -> list[PeerId]:
        """Drop what has expired; whose it was."""
        expired = [held.owner for held in self if held.expires_at <= now]
        for owner in expired:
            self.remove(owner)
        return expired

    def score_peers(self, embedding: Vector, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Raise each owner's entry of `scores` to its best similarity with `embedding`.

        `scores` is indexed by the numbers of the shared `PeerTable`. Returns the similarity of
        every row, for `best_document`.
        """
        size = len(self._documents)
        similarities = self._rows.dot(embedding, size)
        np.maximum.at(scores, self._owners[:size], similarities)
        return similarities

    def best_document(self, owner: PeerId, similarities: NDArray[np.float32]) -> HashPrefix | None:
        """Prefix of the document of `owner` with the largest similarity; None for a centroid."""
        first = self._first_rows[owner]
        count = len(self._by_owner[owner].documents)
        return self._documents[first + int(np.argmax(similarities[first : first + count]))]

    def _reserve(self, rows: int) -> None:
        if rows <= len(self._owners):
            return
        owners = np.zeros(max(rows, 2 * len(self._owners)), dtype=np.intp)
        owners[: len(self._documents)] = self._owners[: len(self._documents)]
        self._owners = owners


def summarise(vectors: Vector, limit: int, generator: np.random.Generator) -> Vector:
    """Centroids that stand for a library larger than what may be advertised.

    Spherical k-means: the centroids are unit vectors, and a vector belongs to the centroid of
    largest cosine similarity. Of a very large library a random sample is summarised.

    Args:
        vectors: float32 [n, d], unit rows, n > limit.
        limit: Number of centroids wanted, at least 1.
        generator: Chooses the first centroids.

    Returns:
        float32 [m, d], 1 <= m <= limit; fewer than `limit` when vectors coincide.
    """
    rows = vectors
    if len(vectors) > _SAMPLE_ROWS:
        rows = vectors[generator.choice(len(vectors), size=_SAMPLE_ROWS, replace=False)]
    centroids = rows[generator.choice(len(rows), size=limit, replace=False)].copy()
    for _ in range(_KMEANS_ROUNDS):
        sums = np.zeros_like(centroids)
        np.add.at(sums, np.argmax(rows @ centroids.T, axis=1), rows)
        norms = np.linalg.norm(sums, axis=1)
        filled = norms > 0
        updated = sums[filled] / norms[filled, np.newaxis]
        if updated.shape == centroids.shape and np.array_equal(updated, centroids):
            break
        centroids = updated
    return centroids
