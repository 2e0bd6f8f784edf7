"""fetch: documents from a peer that holds them, each with its proofs (protocols/fetch)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    FETCH_LIMIT,
    FETCH_RESULT_LIMIT,
    MAX_CONTENT_BYTES,
    MAX_FETCH_DOCUMENTS,
    MAX_REASON_BYTES,
    RELEASE_LIMIT,
)
from zerorag_p2p.identity.fields import read_name
from zerorag_p2p.model import ContentHash, Purpose, RefusalCode, View
from zerorag_p2p.wire.message import (
    encode_message,
    item_readers,
    map_readers,
    read_attribution,
    read_choice,
    read_content_hash,
    read_deadline,
    read_message,
    refuse_repeats,
)
from zerorag_p2p.wire.refusal import REFUSAL, Refusal, read_reason, read_refusal, wire_reason

_FETCH: Final = "fetch"
_DOCUMENTS: Final = "documents"


class _ItemType(enum.StrEnum):
    DOCUMENT = "document"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A request for documents.

    Attributes:
        documents: Which documents, each once; at least one.
        purpose: What they are wanted for.
        user: Pseudonym of the person who asks, of the asking organisation's making.
        audit: Reference under which both sides log this request.
        view: How much of them is wanted.
        deadline_ms: How long the asker waits for this reply, in milliseconds from now.
        reason: Why emergency access is asked for, a sentence for the owner's people.
    """

    documents: tuple[ContentHash, ...]
    purpose: Purpose
    user: str
    audit: str
    view: View
    deadline_ms: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedDocument:
    """A document, or the part of it that the policy of its holder lets out.

    Attributes:
        content_hash: Which document.
        content: The bytes that the release covers; for the whole document its canonical content.
        attribution: The owner's statement, then custody statements, oldest first.
        release: The sender's signed statement of what it sends.
    """

    content_hash: ContentHash
    content: bytes
    attribution: tuple[bytes, ...]
    release: bytes


@dataclass(frozen=True, slots=True)
class FetchRefused:
    """Why one document is not sent."""

    content_hash: ContentHash
    code: RefusalCode
    reason: str


FetchItem: TypeAlias = FetchedDocument | FetchRefused


@dataclass(frozen=True, slots=True)
class FetchResult:
    """One item for every document asked for, in the order of the request."""

    items: tuple[FetchItem, ...]


def encode_fetch(request: FetchRequest) -> bytes:
    """Encode a request for documents.

    Raises:
        LocalError: It is longer than `FETCH_LIMIT`.
    """
    fields: dict[str, object] = {
        "type": _FETCH,
        "documents": [bytes.fromhex(content_hash) for content_hash in request.documents],
        "purpose": request.purpose.value,
        "user": request.user,
        "audit": request.audit,
        "view": request.view.value,
        "deadline-ms": request.deadline_ms,
    }
    if request.reason is not None:
        fields["reason"] = request.reason
    return encode_message(fields, limit=FETCH_LIMIT)


def decode_fetch(data: bytes) -> FetchRequest:
    """Decode a request for documents.

    Raises:
        DecodeError: It is malformed.
    """
    _, reader = read_message(data, limit=FETCH_LIMIT, what=_FETCH, types=[_FETCH])
    key = "documents"
    items = item_readers(reader, key, min_items=1, max_items=MAX_FETCH_DOCUMENTS)
    documents = tuple(read_content_hash(item, key) for item in items)
    refuse_repeats(reader, key, documents)
    request = FetchRequest(
        documents=documents,
        purpose=read_choice(reader, "purpose", Purpose),
        user=read_name(reader, "user"),
        audit=read_name(reader, "audit"),
        view=read_choice(reader, "view", View),
        deadline_ms=read_deadline(reader),
        reason=(
            read_name(reader, "reason", max_bytes=MAX_REASON_BYTES)
            if reader.has("reason")
            else None
        ),
    )
    reader.finish()
    return request


def encode_fetch_result(result: FetchResult) -> bytes:
    """Encode the reply to a request for documents.

    Raises:
        LocalError: It is longer than `FETCH_RESULT_LIMIT`.
    """
    return encode_message(
        {"type": _DOCUMENTS, "items": [_item_fields(item) for item in result.items]},
        limit=FETCH_RESULT_LIMIT,
    )


def _item_fields(item: FetchItem) -> dict[str, object]:
    content_hash = bytes.fromhex(item.content_hash)
    if isinstance(item, FetchRefused):
        return {
            "type": _ItemType.REFUSED.value,
            "content-hash": content_hash,
            "code": item.code.value,
            "reason": wire_reason(item.reason),
        }
    return {
        "type": _ItemType.DOCUMENT.value,
        "content-hash": content_hash,
        "content": item.content,
        "attribution": list(item.attribution),
        "release": item.release,
    }


def decode_fetch_reply(data: bytes, *, asked: Sequence[ContentHash]) -> FetchResult | Refusal:
    """Decode the reply to a request for the documents `asked`.

    Nothing is verified here but the form: see `identity.attribution`.

    Raises:
        DecodeError: It is malformed, or does not answer for exactly these documents in their
            order.
    """
    message_type, reader = read_message(
        data, limit=FETCH_RESULT_LIMIT, what="fetch reply", types=[_DOCUMENTS, REFUSAL]
    )
    if message_type == REFUSAL:
        return read_refusal(reader)
    items = tuple(
        _read_item(item) for item in map_readers(reader, "items", max_items=MAX_FETCH_DOCUMENTS)
    )
    if [item.content_hash for item in items] != list(asked):
        reader.fail("'items' are not the documents asked for, in the order of the request")
    reader.finish()
    return FetchResult(items)


def _read_item(reader: MapReader) -> FetchItem:
    content_hash = read_content_hash(reader, "content-hash")
    item: FetchItem
    if read_choice(reader, "type", _ItemType) is _ItemType.REFUSED:
        item = FetchRefused(
            content_hash,
            read_choice(reader, "code", RefusalCode),
            read_reason(reader),
        )
    else:
        item = FetchedDocument(
            content_hash=content_hash,
            content=reader.binary("content", min_bytes=1, max_bytes=MAX_CONTENT_BYTES),
            attribution=read_attribution(reader),
            release=reader.binary("release", min_bytes=1, max_bytes=RELEASE_LIMIT),
        )
    reader.finish()
    return item
