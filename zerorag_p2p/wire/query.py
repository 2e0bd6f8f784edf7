"""query: one step of the walk, a question to one peer and what it answers (protocols/query)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    MAX_BUDGET,
    MAX_HAVE,
    MAX_INTEGER,
    MAX_K,
    MAX_REASON_BYTES,
    MAX_REFERRALS,
    QUERY_LIMIT,
    QUERY_RESULT_LIMIT,
    RECORD_LIMIT,
)
from zerorag_p2p.identity.fields import read_digest, read_name, read_peer, read_time
from zerorag_p2p.model import (
    ContentHash,
    HashPrefix,
    PeerId,
    Purpose,
    Score,
    Vector,
    View,
)
from zerorag_p2p.wire.embedding import (
    Encoding,
    decode_embedding,
    encode_embedding,
    encode_embeddings,
)
from zerorag_p2p.wire.message import (
    encode_message,
    item_readers,
    map_readers,
    prefix_bytes,
    read_attribution,
    read_choice,
    read_content_hash,
    read_deadline,
    read_message,
    read_prefix,
    read_score,
    refuse_repeats,
    wire_score,
)
from zerorag_p2p.wire.refusal import REFUSAL, Refusal, read_refusal

_QUERY: Final = "query"
_RESULT: Final = "result"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryRequest:
    """A question to one peer.

    Attributes:
        embedding: The question as transmitted, shape [d], unit length.
        encoding: How the embedding is sent, and how embeddings in the result are to be sent.
        fingerprint: Digest of the fingerprint the embedding belongs to, 64 hexadecimal digits.
        k: How many documents are wanted.
        budget_left: How many more peers the querier may ask after this one.
        deadline_ms: How long the querier waits for this reply, in milliseconds from now: clocks
            of peers differ.
        purpose: What the answer is wanted for.
        user: Pseudonym of the person who asks, of the asking organisation's making.
        audit: Reference under which both sides log this question.
        view: How much of a document the querier means to fetch.
        remember_until: Unix seconds until which the peer may keep the question in its memory of
            routed queries. Absent: it must not keep it.
        have: Documents that the querier has already found, as hash prefixes.
        above: Score that a document has to exceed to be of use, nor is a referral to what cannot.
        reason: Why emergency access is asked for, a sentence for the owner's people.
    """

    embedding: Vector
    encoding: Encoding = Encoding.INT8
    fingerprint: str
    k: int
    budget_left: int
    deadline_ms: int
    purpose: Purpose
    user: str
    audit: str
    view: View
    remember_until: int | None = None
    have: tuple[HashPrefix, ...] = ()
    above: Score | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultDocument:
    """A document that a queried peer holds.

    Attributes:
        content_hash: Which document.
        embedding: Its vector as transmitted, by which the querier scores it; absent where the
            owner's policy withholds it.
        score: The peer's own score; it counts, as unverified, only without the embedding.
        attribution: The owner's statement, then custody statements, oldest first.
    """

    content_hash: ContentHash
    embedding: Vector | None
    score: Score
    attribution: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AdvertisedEvidence:
    """A document, or a cluster of documents, that another peer advertises.

    Attributes:
        score: Estimated score of the advertised vector.
        document: The advertised document; absent for a centroid.
        error: Standard error of the score.
    """

    score: Score
    document: HashPrefix | None = None
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Referral:
    """A peer that may know more, with the evidence for it: at least one of two kinds.

    Attributes:
        peer: The peer.
        record: Its signed peer record, the only source of addresses to dial it by.
        advertised: What the peer advertises, best first.
        remembered: Best score of a question that the peer once asked.
    """

    peer: PeerId
    record: bytes
    advertised: tuple[AdvertisedEvidence, ...] = ()
    remembered: Score | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a queried peer holds, best first, and whom it would ask next, best first.

    Attributes:
        count: How many documents match, where only that was asked for; then no documents come.
    """

    documents: tuple[ResultDocument, ...] = ()
    referrals: tuple[Referral, ...] = ()
    count: int | None = None


def encode_query(request: QueryRequest) -> bytes:
    """Encode a question.

    Raises:
        EmbeddingError: The embedding is not finite, is zero or has the wrong shape.
        LocalError: The message is longer than `QUERY_LIMIT`.
    """
    fields: dict[str, object] = {
        "type": _QUERY,
        "embedding": encode_embedding(request.embedding, request.encoding),
        "fingerprint": bytes.fromhex(request.fingerprint),
        "k": request.k,
        "budget-left": request.budget_left,
        "deadline-ms": request.deadline_ms,
        "purpose": request.purpose.value,
        "user": request.user,
        "audit": request.audit,
        "view": request.view.value,
    }
    if request.remember_until is not None:
        fields["remember-until"] = request.remember_until
    if request.have:
        fields["have"] = [prefix_bytes(prefix) for prefix in request.have]
    if request.above is not None:
        fields["above"] = wire_score(request.above)
    if request.reason is not None:
        fields["reason"] = request.reason
    return encode_message(fields, limit=QUERY_LIMIT)


def decode_query(data: bytes, *, dimension: int | None = None) -> QueryRequest:
    """Decode a question, whose embedding has to have `dimension` when that is given.

    Raises:
        DecodeError: It is malformed.
    """
    _, reader = read_message(data, limit=QUERY_LIMIT, what=_QUERY, types=[_QUERY])
    embedding, encoding = decode_embedding(reader.map("embedding"), dimension=dimension)
    request = QueryRequest(
        embedding=embedding,
        encoding=encoding,
        fingerprint=read_digest(reader, "fingerprint"),
        k=reader.integer("k", minimum=1, maximum=MAX_K),
        budget_left=reader.integer("budget-left", maximum=MAX_BUDGET),
        deadline_ms=read_deadline(reader),
        purpose=read_choice(reader, "purpose", Purpose),
        user=read_name(reader, "user"),
        audit=read_name(reader, "audit"),
        view=read_choice(reader, "view", View),
        remember_until=(
            read_time(reader, "remember-until") if reader.has("remember-until") else None
        ),
        have=_read_have(reader) if reader.has("have") else (),
        above=read_score(reader, "above") if reader.has("above") else None,
        reason=(
            read_name(reader, "reason", max_bytes=MAX_REASON_BYTES)
            if reader.has("reason")
            else None
        ),
    )
    reader.finish()
    return request


def _read_have(reader: MapReader) -> tuple[HashPrefix, ...]:
    items = item_readers(reader, "have", min_items=1, max_items=MAX_HAVE)
    have = tuple(read_prefix(item, "have") for item in items)
    refuse_repeats(reader, "have", have)
    return have


def encode_query_result(result: QueryResult, encoding: Encoding = Encoding.INT8) -> bytes:
    """Encode the reply to a question, embeddings in the encoding of the question.

    Raises:
        EmbeddingError: An embedding is not finite, is zero or has the wrong shape.
        LocalError: The message is longer than `QUERY_RESULT_LIMIT`.
    """
    fields: dict[str, object] = {
        "type": _RESULT,
        "documents": _document_fields(result.documents, encoding),
        "referrals": [_referral_fields(item) for item in result.referrals],
    }
    if result.count is not None:
        fields["count"] = result.count
    return encode_message(fields, limit=QUERY_RESULT_LIMIT)


def _document_fields(
    documents: Sequence[ResultDocument], encoding: Encoding
) -> list[dict[str, object]]:
    items: list[dict[str, object]] = [
        {
            "content-hash": bytes.fromhex(document.content_hash),
            "score": wire_score(document.score),
            "attribution": list(document.attribution),
        }
        for document in documents
    ]
    rows = [
        (item, document.embedding)
        for item, document in zip(items, documents, strict=True)
        if document.embedding is not None
    ]
    if rows:
        encoded = encode_embeddings(np.stack([row for _, row in rows]), encoding)
        for (item, _), embedding in zip(rows, encoded, strict=True):
            item["embedding"] = embedding
    return items


def _referral_fields(referral: Referral) -> dict[str, object]:
    fields: dict[str, object] = {"peer": referral.peer, "record": referral.record}
    if referral.advertised:
        fields["advertised"] = [_evidence_fields(item) for item in referral.advertised]
    if referral.remembered is not None:
        fields["remembered"] = wire_score(referral.remembered)
    return fields


def _evidence_fields(evidence: AdvertisedEvidence) -> dict[str, object]:
    fields: dict[str, object] = {"score": wire_score(evidence.score)}
    if evidence.document is not None:
        fields["document"] = prefix_bytes(evidence.document)
    if evidence.error:
        fields["error"] = min(1.0, evidence.error)  # of few dimensions a score says nothing
    return fields


def decode_query_reply(
    data: bytes, *, k: int = MAX_K, dimension: int | None = None
) -> QueryResult | Refusal:
    """Decode the reply to a question for `k` documents.

    Raises:
        DecodeError: It is malformed, holds more than `k` documents, or an embedding does not have
            `dimension`.
    """
    message_type, reader = read_message(
        data, limit=QUERY_RESULT_LIMIT, what="query reply", types=[_RESULT, REFUSAL]
    )
    if message_type == REFUSAL:
        return read_refusal(reader)
    documents = tuple(
        _read_document(item, dimension) for item in map_readers(reader, "documents", max_items=k)
    )
    refuse_repeats(reader, "documents", [document.content_hash for document in documents])
    referrals = tuple(
        _read_referral(item) for item in map_readers(reader, "referrals", max_items=MAX_REFERRALS)
    )
    refuse_repeats(reader, "referrals", [referral.peer for referral in referrals])
    count = reader.integer("count", maximum=MAX_INTEGER) if reader.has("count") else None
    if count is not None and documents:
        reader.fail("'count' comes with documents")
    reader.finish()
    return QueryResult(documents, referrals, count)


def _read_document(reader: MapReader, dimension: int | None) -> ResultDocument:
    embedding = None
    if reader.has("embedding"):
        embedding, _ = decode_embedding(reader.map("embedding"), dimension=dimension)
    document = ResultDocument(
        content_hash=read_content_hash(reader, "content-hash"),
        embedding=embedding,
        score=read_score(reader, "score"),
        attribution=read_attribution(reader),
    )
    reader.finish()
    return document


def _read_referral(reader: MapReader) -> Referral:
    referral = Referral(
        peer=read_peer(reader, "peer"),
        record=reader.binary("record", min_bytes=1, max_bytes=RECORD_LIMIT),
        advertised=_read_advertised(reader) if reader.has("advertised") else (),
        remembered=read_score(reader, "remembered") if reader.has("remembered") else None,
    )
    if not referral.advertised and referral.remembered is None:
        reader.fail("neither 'advertised' nor 'remembered' is there")
    reader.finish()
    return referral


def _read_advertised(reader: MapReader) -> tuple[AdvertisedEvidence, ...]:
    items = map_readers(reader, "advertised", min_items=1, max_items=MAX_REFERRALS)
    advertised = tuple(_read_evidence(item) for item in items)
    refuse_repeats(
        reader, "advertised", [item.document for item in advertised if item.document is not None]
    )
    return advertised


def _read_evidence(reader: MapReader) -> AdvertisedEvidence:
    evidence = AdvertisedEvidence(
        score=read_score(reader, "score"),
        document=read_prefix(reader, "document") if reader.has("document") else None,
        error=reader.number("error", minimum=0.0, maximum=1.0) if reader.has("error") else 0.0,
    )
    reader.finish()
    return evidence
