"""Advertisements: what other peers say they hold (A in the paper's algorithms)."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import NEVER_COMPARED, HashPrefix, PeerId, Score, Vector
from zerorag_p2p.routing.evidence import Advertised
from zerorag_p2p.routing.peers import PeerTable
from zerorag_p2p.routing.rows import MakeRows, MatrixRows
from zerorag_p2p.wire.advertise import Estimates
from zerorag_p2p.wire.codes import score_errors

_FIRST_ROWS = 64


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
        estimates: What the best document of each row's cluster may score beyond the row; None if
            every row is a document.
    """

    owner: PeerId
    sequence: int
    expires_at: float
    vectors: Vector
    documents: tuple[HashPrefix | None, ...]
    signed: bytes = b""
    estimates: Estimates | None = None


@dataclass(frozen=True, slots=True)
class AdvertisedDocument:
    """A document, or a cluster of one owner, with all known peers that advertise it."""

    advertised: Advertised
    owners: tuple[PeerId, ...]


class AdvertisementStore:
    """Advertisements by owner, their vectors the rows of one matrix for scoring."""

    def __init__(self, dimension: int, peers: PeerTable, make_rows: MakeRows = MatrixRows) -> None:
        self._peers = peers
        self._by_owner: dict[PeerId, HeldAdvertisement] = {}
        self._rows = make_rows(dimension)
        self._owners: NDArray[np.intp] = np.zeros(_FIRST_ROWS, dtype=np.intp)
        self._offsets: Vector = np.zeros(_FIRST_ROWS, dtype=np.float32)
        self._errors: Vector = np.zeros(_FIRST_ROWS, dtype=np.float32)
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
            errors = score_errors(advertisement.vectors)
            estimates = advertisement.estimates
            self._offsets[start:end] = 0.0 if estimates is None else estimates.offsets
            self._errors[start:end] = (
                errors if estimates is None else np.hypot(errors, estimates.errors)
            )
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
            for column in (self._owners, self._offsets, self._errors):
                column[first : size - count] = column[first + count : size]
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
        every row, for `best_of`.
        """
        similarities = self._similarities(embedding)
        np.maximum.at(scores, self._owners[: len(similarities)], similarities)
        return similarities

    def best_of(self, owner: PeerId, similarities: NDArray[np.float32]) -> Advertised:
        """What `owner` advertises with the largest of the `similarities`."""
        first = self._first_rows[owner]
        count = len(self._by_owner[owner].documents)
        return self._advertised(
            first + int(np.argmax(similarities[first : first + count])), similarities
        )

    def best_documents(
        self,
        embedding: Vector,
        limit: int,
        *,
        clusters: int,
        margin: float,
        have: Container[HashPrefix] = (),
        above: Score = NEVER_COMPARED,
        excluded: Container[PeerId] = (),
    ) -> list[AdvertisedDocument]:
        """The advertised documents that promise most, best first, each with all who advertise it.

        Args:
            embedding: The query.
            limit: Most documents.
            clusters: Most clusters, of different owners.
            margin: How far scores may be off, in standard errors.
            have: Documents that are of no use.
            above: What a score has to exceed, if it may be `margin` standard errors better.
            excluded: Peers whose advertisements do not count.
        """
        size = len(self._documents)
        similarities = self._similarities(embedding)
        rows = np.arange(size)
        if above > NEVER_COMPARED:
            reach = similarities.astype(np.float64) + margin * self._errors[:size]
            rows = np.flatnonzero(reach > above)
        rows = rows[np.argsort(-similarities[rows], kind="stable")]
        found: dict[HashPrefix | PeerId, tuple[int, list[PeerId]]] = {}
        left = {True: limit, False: clusters if None in self._documents else 0}
        for row in rows.tolist():
            owner = self._peers.peer(int(self._owners[row]))
            document = self._documents[row]
            if owner in excluded or (document is not None and document in have):
                continue
            key = owner if document is None else document
            if key in found:
                if document is not None:  # else a lesser cluster of the same owner
                    found[key][1].append(owner)
            elif left[document is not None]:
                left[document is not None] -= 1
                found[key] = (row, [owner])
            elif not any(left.values()):
                break  # copies of a document have the same code, so that they lie together
        return [
            AdvertisedDocument(self._advertised(row, similarities), tuple(owners))
            for row, owners in found.values()
        ]

    def _similarities(self, embedding: Vector) -> NDArray[np.float32]:
        """Of every row the document's estimated score, of a cluster its best document's."""
        size = len(self._documents)
        similarities = self._rows.dot(embedding, size)
        return similarities + self._offsets[:size]

    def _advertised(self, row: int, similarities: NDArray[np.float32]) -> Advertised:
        return Advertised(float(similarities[row]), self._documents[row], float(self._errors[row]))

    def _reserve(self, rows: int) -> None:
        if rows <= len(self._owners):
            return
        size, capacity = len(self._documents), max(rows, 2 * len(self._owners))
        owners = np.zeros(capacity, dtype=np.intp)
        offsets, errors = np.zeros((2, capacity), dtype=np.float32)
        owners[:size] = self._owners[:size]
        offsets[:size], errors[:size] = self._offsets[:size], self._errors[:size]
        self._owners, self._offsets, self._errors = owners, offsets, errors
