"""A workload: documents, who holds them at first, and questions in the order they are asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from zerorag_p2p.model import Content, Fingerprint, Vector


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
        holdings: For every peer the documents it holds at first.
        events: Questions in the order they are asked.
        statistics: What to compare with a publication, for instance documents on a peer's first
            three topics.
    """

    name: str
    fingerprint: Fingerprint
    documents: tuple[WorkloadDocument, ...]
    vectors: Vector
    queries: tuple[str, ...]
    query_vectors: Vector
    answers: tuple[int, ...]
    holdings: tuple[tuple[int, ...], ...]
    events: tuple[QueryEvent, ...]
    statistics: dict[str, float] = field(default_factory=dict)
