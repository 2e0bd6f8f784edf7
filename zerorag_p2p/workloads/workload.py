"""A workload: documents, who holds them at first, and questions in the order they are asked.

There may be 100,000 peers and millions of questions, so both are kept in arrays that read like
sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Content, Fingerprint, Vector

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class WorkloadDocument:
    """A document that peers may hold, with the topics it belongs to."""

    content: Content
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """`peer` asks `query`, whose answer is `document`. All are positions in the workload."""

    peer: int
    query: int
    document: int


class Events(Sequence[QueryEvent]):
    """Questions in the order they are asked.

    Attributes:
        peers: int32 [n], who asks.
        queries: int32 [n], what.
        documents: int32 [n], the document that answers it.
    """

    def __init__(self, peers: Numbers, queries: Numbers, documents: Numbers) -> None:
        self.peers = peers
        self.queries = queries
        self.documents = documents

    @classmethod
    def of(cls, events: Iterable[QueryEvent]) -> Events:
        """Put events into arrays."""
        columns = np.array(
            [(event.peer, event.query, event.document) for event in events], dtype=np.int32
        ).reshape(-1, 3)
        return cls(*np.ascontiguousarray(columns.T))

    def __len__(self) -> int:
        return len(self.peers)

    @overload
    def __getitem__(self, index: int) -> QueryEvent: ...

    @overload
    def __getitem__(self, index: slice) -> Events: ...

    def __getitem__(self, index: int | slice) -> QueryEvent | Events:
        if isinstance(index, slice):
            return Events(self.peers[index], self.queries[index], self.documents[index])
        return QueryEvent(
            int(self.peers[index]), int(self.queries[index]), int(self.documents[index])
        )

    def __iter__(self) -> Iterator[QueryEvent]:
        columns = (self.peers.tolist(), self.queries.tolist(), self.documents.tolist())
        return (QueryEvent(*event) for event in zip(*columns, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Events):
            return NotImplemented
        return (
            np.array_equal(self.peers, other.peers)
            and np.array_equal(self.queries, other.queries)
            and np.array_equal(self.documents, other.documents)
        )

    __hash__ = None  # type: ignore[assignment]


class PeerDocuments(Sequence[tuple[int, ...]]):
    """For every peer the documents that it holds.

    Attributes:
        starts: int64 [peers + 1], where the documents of each peer begin in `documents`.
        documents: int32, the documents of all peers one after the other.
    """

    def __init__(self, starts: NDArray[np.int64], documents: Numbers) -> None:
        self.starts = starts
        self.documents = documents

    @classmethod
    def of(cls, holdings: Iterable[Sequence[int]]) -> PeerDocuments:
        """Put the documents of each peer into arrays."""
        held = list(holdings)
        starts = np.cumsum([0, *map(len, held)], dtype=np.int64)
        documents = np.fromiter(chain.from_iterable(held), dtype=np.int32, count=int(starts[-1]))
        return cls(starts, documents)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return tuple(self.documents[self.starts[index] : self.starts[index + 1]].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        documents = self.documents.tolist()
        return (tuple(documents[start:end]) for start, end in pairwise(self.starts.tolist()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PeerDocuments):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(
            self.documents, other.documents
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything an experiment feeds to a network of peers.

    Attributes:
        name: "pubmedqa", "synthetic" or what the user's folder is called.
        fingerprint: Of the model behind every vector.
        documents: The documents.
        vectors: float32 [documents, d], unit rows.
        queries: Texts of the questions.
        query_vectors: float32 [queries, d], unit rows.
        answers: For every query the document that answers it.
        relevant: For every query all documents that are relevant to it, ascending, where there may
            be several; None if there is only the one that answers it.
        holdings: For every peer the documents it holds at first.
        events: Questions in the order they are asked.
        statistics: What to compare with a publication, for instance documents on a peer's first
            three topics.
        decisions: For every query the word that answers it, "yes" for instance, where the data has
            one.
    """

    name: str
    fingerprint: Fingerprint
    documents: tuple[WorkloadDocument, ...]
    vectors: Vector
    queries: tuple[str, ...]
    query_vectors: Vector
    answers: tuple[int, ...]
    holdings: PeerDocuments
    events: Events
    relevant: tuple[tuple[int, ...], ...] | None = None
    statistics: dict[str, float] = field(default_factory=dict)
    decisions: tuple[str, ...] = ()
