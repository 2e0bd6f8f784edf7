"""What a node tells about a query: progress while it runs, and the answer at its end."""

from __future__ import annotations

import base64
import dataclasses
import enum
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from zerorag_p2p.model import ContentHash, PeerId, Score, Vector

#: Marks a field that is left out of the JSON.
_UNTOLD: Final = MappingProxyType({"json": False})


class DocumentStatus(enum.StrEnum):
    """What could be established about a document of an answer.

    VERIFIED: content, attribution and release verify.
    REJECTED: something does not verify; `fault` names the first thing.
    DENIED: the holder refused the text; the attribution of the hit verifies.
    UNAVAILABLE: no holder delivered the text in time; the attribution of the hit verifies.
    """

    VERIFIED = "verified"
    REJECTED = "rejected"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class PeerName:
    """A peer and the organisation that the roster names for it."""

    peer: PeerId
    organisation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherHolder:
    """A further peer that returned the same content, and the attribution it gave; it verifies."""

    owner: PeerName
    holder: PeerName
    collection: str
    attribution: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDocument:
    """One document of an answer.

    Attributes:
        score: Cosine similarity with the query.
        score_verified: Whether the querier computed the score from the document's embedding.
        holder: Who delivered it, or returned the hit.
        fault: For REJECTED, DENIED and UNAVAILABLE: why.
        redaction: Rules by which the holder removed something; it alone vouches for such a text.
        content: Canonical content; `attribution` and `release` prove where it comes from.
        embedding: The embedding that came with the hit, checked against the owner's statement; not
            part of the JSON.
        others: Who returned the same content besides `holder`.
        metadata: Of a document of our own: what is kept beside its text, page and section included.
    """

    content_hash: ContentHash
    status: DocumentStatus
    score: float
    score_verified: bool
    owner: PeerName
    holder: PeerName
    fault: str | None = None
    collection: str = ""
    title: str = ""
    text: str = ""
    part: int = 0
    parts: int = 1
    issued_at: int | None = None
    redaction: tuple[str, ...] = ()
    content: bytes = b""
    attribution: tuple[bytes, ...] = ()
    release: bytes = b""
    others: tuple[OtherHolder, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    embedding: Vector | None = field(default=None, repr=False, compare=False, metadata=_UNTOLD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactReport:
    """One contact of a query and what came of it.

    Attributes:
        outcome: "answered", "refused", "timed out", "unreachable", "broke the protocol", or
            why it was given up.
        reason: The peer's sentence for a refusal, ours for a failure; empty for an answer.
        evidence: What led to the contact: "advertisement", "query memory" or "exploration".
        score: Score of that evidence; None for exploration.
        count: How many documents match, where only that was asked for and told.
    """

    peer: PeerId
    organisation: str
    evidence: str
    score: float | None
    outcome: str
    reason: str = ""
    code: str = ""
    documents: int = 0
    improved: bool = False
    referrals: int = 0
    new_candidates: int = 0
    milliseconds: float = 0.0
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """The answer to a query and how it was found.

    Attributes:
        audit: Reference that both sides of every contact record.
        stopped: Why the walk ended.
        complete: False when the deadline cut the walk or a document could not be fetched.
        bytes_sent, bytes_received: Payload bytes of every contact and fetch.
        new_neighbor: The peer that became a neighbour through this query.
        sent: What of the query was embedded and sent; less than `query` if something was redacted.
        sent_as: The name under which it was sent.
        removed: Ids of the redaction rules that removed something.
        outbound: Names of our own rules about the query.
        withheld: Members that these rules keep the query from; none of them was asked.
        count: How many documents match at the peers asked, where only that was asked for.
    """

    audit: str
    query: str
    asker: PeerName
    purpose: str
    k: int
    budget: int
    fanout: int
    started_at: float
    milliseconds: float
    documents: tuple[AnswerDocument, ...]
    rejected: tuple[AnswerDocument, ...]
    contacts: tuple[ContactReport, ...]
    stopped: str
    complete: bool
    bytes_sent: int
    bytes_received: int
    fingerprint: str
    consortium: str
    new_neighbor: PeerName | None = None
    sent: str = ""
    sent_as: str = ""
    removed: tuple[str, ...] = ()
    outbound: tuple[str, ...] = ()
    withheld: tuple[PeerName, ...] = ()
    count: int | None = None


def joined(
    first: QueryReport, second: QueryReport, scores: Mapping[ContentHash, Score] | None
) -> QueryReport:
    """One answer of two to the same question, found by different embedding models.

    Args:
        first: The one whose scores count.
        second: The other one.
        scores: Of the documents of `second` by the model of `first`, as far as there is a text;
            the others come last. Without it the two cannot be compared: the best of each comes
            first, then the second best of each.
    """
    others = second.documents
    if scores is None:
        pairs = itertools.zip_longest(first.documents, others)
        ranked = [document for pair in pairs for document in pair if document is not None]
    else:
        scored = [
            replace(item, score=scores[item.content_hash], score_verified=True)
            for item in others
            if item.content_hash in scores
        ]
        ranked = sorted((*first.documents, *scored), key=lambda item: -item.score)
        ranked += [item for item in others if item.content_hash not in scores]
    documents: dict[ContentHash, AnswerDocument] = {}
    for document in ranked:
        known = documents.setdefault(document.content_hash, document)
        if known.status is not DocumentStatus.VERIFIED:
            documents[document.content_hash] = document
    counts = [report.count for report in (first, second) if report.count is not None]
    return replace(
        first,
        documents=tuple(documents.values())[: first.k],
        rejected=(*first.rejected, *second.rejected),
        contacts=(*first.contacts, *second.contacts),
        milliseconds=first.milliseconds + second.milliseconds,
        complete=first.complete and second.complete,
        bytes_sent=first.bytes_sent + second.bytes_sent,
        bytes_received=first.bytes_received + second.bytes_received,
        count=sum(counts) if counts else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """Something happened in a running query.

    Attributes:
        event: "contact", "reply", "failure", "found", "fetch" or "document".
        contacted: Contacts so far.
        found: Documents held so far.
        best: Score of the best of them.
        document: With "found", a hit that is among the best so far, its text not yet fetched; with
            "document", what a holder delivered of a result, without its proofs.
    """

    event: str
    peer: PeerId
    organisation: str
    contacted: int
    budget: int
    found: int
    best: float | None = None
    detail: str = ""
    document: AnswerDocument | None = None


#: Called from the query's own task; must not block.
ProgressCallback: TypeAlias = Callable[[QueryProgress], None]


def to_json(report: Any) -> Any:
    """A report as JSON values; bytes become base64 text, minus infinity never occurs."""
    if dataclasses.is_dataclass(report) and not isinstance(report, type):
        return {
            item.name: to_json(getattr(report, item.name))
            for item in dataclasses.fields(report)
            if item.metadata != _UNTOLD
        }
    if isinstance(report, bytes):
        return base64.b64encode(report).decode()
    if isinstance(report, enum.Enum):
        return report.value
    if isinstance(report, list | tuple):
        return [to_json(item) for item in report]
    if isinstance(report, dict):
        return {str(key): to_json(value) for key, value in report.items()}
    return report
