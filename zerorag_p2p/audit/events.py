"""What an audit log records: a closed set of kinds, each a dataclass of what people ask later.

A new kind is a dataclass here with a `kind` of its own, made of fields that `_FIELDS` knows, and a
line in `Event` and `_KINDS`. Both sides of a query or fetch record its `reference`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    AUDIT_HEAD_LIMIT,
    MAX_AUDIT_COLLECTIONS,
    MAX_AUDIT_DOCUMENTS,
    MAX_AUDIT_TEXT_BYTES,
    MAX_INTEGER,
    MAX_NAME_BYTES,
    MAX_REASON_BYTES,
    MAX_REDACTIONS,
    MAX_ROSTER_MEMBERS,
)
from zerorag_p2p.identity.fields import (
    read_digest,
    read_name,
    read_names,
    read_peer,
    read_purpose,
    read_view,
)
from zerorag_p2p.model import ContentHash, PeerId, Purpose, View
from zerorag_p2p.wire.message import map_readers, read_choice, read_content_hash


class Given(enum.StrEnum):
    """What of a document was given to the other side, or came from it."""

    NOTHING = "nothing"
    COUNT = "count"
    EMBEDDING = "embedding"
    TITLE = "title"
    PASSAGE = "passage"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentNote:
    """A document in an entry.

    Attributes:
        collection: Of the holder; "" where it is not known.
        given: What of it went from the holder to the asker.
        rule: The rule of the policy that decided, at its holder.
        redacted: Ids of the redaction rules that removed something of what was given.
    """

    content_hash: ContentHash
    collection: str = ""
    given: Given
    rule: str = ""
    redacted: tuple[str, ...] = ()


class Decided(enum.StrEnum):
    """What was decided on the documents of a collection that a question was asked of."""

    ALLOWED = "allowed"
    COUNTED = "counted"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionNote:
    """A collection that was considered for an answer, and the rule of the policy that decided."""

    collection: str
    decided: Decided
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The log was opened for writing.

    Attributes:
        software: Name and version.
        peer: The owner of the log.
        cut: Bytes that were cut off: of entries that a crash kept from being finished.
        reason: What else was wrong with the log then, or "".
    """

    kind: ClassVar[str] = "started"
    software: str
    peer: PeerId
    cut: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAsked:
    """A question was asked here; whom it went to, the contacts of the same reference say.

    A `reason` is what was stated for emergency access.

    Attributes:
        user: Who asked.
        sent_as: The pseudonym under which the question went out, where that is another.
        query: Keyed hash of the question, 64 hexadecimal digits.
        text: The question, where the owner wants it kept.
    """

    kind: ClassVar[str] = "query-asked"
    reference: str
    user: str
    purpose: Purpose
    view: View
    query: str
    text: str | None = None
    sent_as: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerContacted:
    """A question of ours went to a peer; `documents` are what it returned.

    Attributes:
        outcome: "answered", how the contact failed, or that it was given up.
        sent, received: Bytes of the question and of the answer.
    """

    kind: ClassVar[str] = "peer-contacted"
    reference: str
    peer: PeerId
    organisation: str
    outcome: str
    reason: str = ""
    documents: tuple[DocumentNote, ...] = ()
    sent: int | None = None
    received: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReceived:
    """Documents were asked of a peer, and it delivered or refused them.

    Attributes:
        sent, received: Bytes of the requests and of their answers.
    """

    kind: ClassVar[str] = "fetch-received"
    reference: str
    peer: PeerId
    organisation: str
    user: str
    purpose: Purpose
    view: View
    outcome: str
    reason: str = ""
    documents: tuple[DocumentNote, ...] = ()
    sent: int | None = None
    received: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswered:
    """A question of another peer was answered or refused; `documents` are the results it got.

    Attributes:
        query: Keyed hash of the question's embedding, 64 hexadecimal digits.
        outcome: "answered", "partly answered" where some collections were denied, "denied" where
            all were, or the code of the refusal.
        count: How many documents match, where that is all the peer was told.
        collections: What was decided on each collection, those that were denied at the end.
        received, sent: Bytes of the request and of the answer.
    """

    kind: ClassVar[str] = "query-answered"
    reference: str
    peer: PeerId
    organisation: str
    user: str
    purpose: Purpose
    view: View
    query: str
    outcome: str
    reason: str = ""
    count: int | None = None
    collections: tuple[CollectionNote, ...] = ()
    documents: tuple[DocumentNote, ...] = ()
    received: int
    sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswered:
    """Documents were delivered to another peer, or refused: each note says what was given."""

    kind: ClassVar[str] = "fetch-answered"
    reference: str
    peer: PeerId
    organisation: str
    user: str
    purpose: Purpose
    view: View
    outcome: str
    reason: str = ""
    documents: tuple[DocumentNote, ...] = ()
    received: int
    sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmergencyAccess:
    """A peer used an emergency rule, for the `reason` that it stated.

    Attributes:
        view: How much of the documents it asked for.
        rule: Names of the rules.
    """

    kind: ClassVar[str] = "emergency-access"
    reference: str
    peer: PeerId
    organisation: str
    user: str
    view: View | None = None
    reason: str
    rule: str
    documents: tuple[DocumentNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedOut:
    """A peer probes: from the request of this `reference` on it is refused, without more entries.

    Attributes:
        request: What it is refused: "query" or "fetch".
        until: Unix seconds.
    """

    kind: ClassVar[str] = "locked-out"
    reference: str
    peer: PeerId
    organisation: str
    request: str
    reason: str
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyKept:
    """A copy of a document of another owner was taken into a collection of ours.

    Attributes:
        reference: Of the delivery that it is a copy of.
        peer: Who delivered it.
        owner: Whose document it is.
        documents: The document; its collection is ours.
    """

    kind: ClassVar[str] = "copy-kept"
    reference: str
    peer: PeerId
    organisation: str
    owner: PeerId
    documents: tuple[DocumentNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """The owner's rules, when the node started or since they changed.

    Attributes:
        source: Where they are: "policy.toml", or the sharing of a collection.
        digest: SHA-256 of them, 64 hexadecimal digits.
        reason: What it says, in a sentence.
    """

    kind: ClassVar[str] = "policy-in-force"
    source: str
    digest: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterInForce:
    """The roster, when the node started or since it changed.

    Attributes:
        digest: SHA-256 of the signed roster, 64 hexadecimal digits.
        members, former: How many it lists.
    """

    kind: ClassVar[str] = "roster-in-force"
    version: int
    digest: str
    members: int
    former: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsWithdrawn:
    """An owner, we or another `peer`, withdrew documents."""

    kind: ClassVar[str] = "documents-withdrawn"
    peer: PeerId
    organisation: str
    reason: str = ""
    documents: tuple[DocumentNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringPaused:
    """The operator paused the node, or let it go on."""

    kind: ClassVar[str] = "answering-paused"
    paused: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesPurged:
    """Entries were removed from the beginning of the log, for they were older than is kept.

    Attributes:
        up_to: Sequence of the last of them.
        seal: The head that this entry was, sealed by the log's owner (`audit.heads.seal_purge`).
    """

    kind: ClassVar[str] = "entries-purged"
    up_to: int
    seal: bytes


Event: TypeAlias = (
    Started
    | QueryAsked
    | PeerContacted
    | FetchReceived
    | QueryAnswered
    | FetchAnswered
    | EmergencyAccess
    | LockedOut
    | CopyKept
    | PolicyInForce
    | RosterInForce
    | DocumentsWithdrawn
    | AnsweringPaused
    | EntriesPurged
)

_KINDS: Final[dict[str, type[Event]]] = {
    kind.kind: kind
    for kind in (
        Started,
        QueryAsked,
        PeerContacted,
        FetchReceived,
        QueryAnswered,
        FetchAnswered,
        EmergencyAccess,
        LockedOut,
        CopyKept,
        PolicyInForce,
        RosterInForce,
        DocumentsWithdrawn,
        AnsweringPaused,
        EntriesPurged,
    )
}

#: The names of all kinds of entries.
KINDS: Final = tuple(_KINDS)


@dataclass(frozen=True, slots=True)
class _Codec:
    """How a field of an event is written and read."""

    write: Callable[[Any], object]
    read: Callable[[MapReader, str], Any]


def _name(max_bytes: int) -> _Codec:
    def read(reader: MapReader, key: str) -> str:
        return read_name(reader, key, min_bytes=0, max_bytes=max_bytes)

    return _Codec(lambda text: _line(text, max_bytes), read)


def _integer(maximum: int) -> _Codec:
    return _Codec(int, lambda reader, key: reader.integer(key, maximum=maximum))


def _line(text: str, max_bytes: int) -> str:
    """A text as an entry holds it: printable, and cut where it is too long."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return text.encode()[:max_bytes].decode(errors="ignore")


def _write_notes(notes: tuple[DocumentNote, ...]) -> object:
    return [
        {
            "hash": bytes.fromhex(note.content_hash),
            "given": note.given.value,
            **({"collection": _line(note.collection, MAX_NAME_BYTES)} if note.collection else {}),
            **({"rule": _line(note.rule, MAX_NAME_BYTES)} if note.rule else {}),
            **({"redacted": list(note.redacted)} if note.redacted else {}),
        }
        for note in notes[:MAX_AUDIT_DOCUMENTS]
    ]


def _read_notes(reader: MapReader, key: str) -> tuple[DocumentNote, ...]:
    notes = []
    for item in map_readers(reader, key, max_items=MAX_AUDIT_DOCUMENTS):
        notes.append(
            DocumentNote(
                content_hash=read_content_hash(item, "hash"),
                given=read_choice(item, "given", Given),
                collection=read_name(item, "collection") if item.has("collection") else "",
                rule=read_name(item, "rule") if item.has("rule") else "",
                redacted=(
                    read_names(item, "redacted", max_items=MAX_REDACTIONS)
                    if item.has("redacted")
                    else ()
                ),
            )
        )
        item.finish()
    return tuple(notes)


def _write_collections(notes: tuple[CollectionNote, ...]) -> object:
    return [
        {
            "collection": _line(note.collection, MAX_NAME_BYTES),
            "decided": note.decided.value,
            "rule": _line(note.rule, MAX_NAME_BYTES),
        }
        for note in notes[:MAX_AUDIT_COLLECTIONS]
    ]


def _read_collections(reader: MapReader, key: str) -> tuple[CollectionNote, ...]:
    notes = []
    for item in map_readers(reader, key, max_items=MAX_AUDIT_COLLECTIONS):
        notes.append(
            CollectionNote(
                collection=read_name(item, "collection", min_bytes=0),
                decided=read_choice(item, "decided", Decided),
                rule=read_name(item, "rule", min_bytes=0),
            )
        )
        item.finish()
    return tuple(notes)


_DIGEST: Final = _Codec(bytes.fromhex, read_digest)
_NAME: Final = _name(MAX_NAME_BYTES)

_FIELDS: Final[dict[str, _Codec]] = {
    "reference": _NAME,
    "peer": _Codec(str, read_peer),
    "organisation": _NAME,
    "user": _NAME,
    "sent_as": _NAME,
    "purpose": _Codec(str, read_purpose),
    "view": _Codec(str, read_view),
    "query": _DIGEST,
    "text": _name(MAX_AUDIT_TEXT_BYTES),
    "outcome": _NAME,
    "reason": _name(MAX_REASON_BYTES),
    "rule": _NAME,
    "documents": _Codec(_write_notes, _read_notes),
    "collections": _Codec(_write_collections, _read_collections),
    "owner": _Codec(str, read_peer),
    "request": _NAME,
    "until": _integer(MAX_INTEGER),
    "count": _integer(MAX_INTEGER),
    "received": _integer(MAX_INTEGER),
    "sent": _integer(MAX_INTEGER),
    "source": _name(2 * MAX_NAME_BYTES),
    "digest": _DIGEST,
    "version": _integer(MAX_INTEGER),
    "members": _integer(MAX_ROSTER_MEMBERS),
    "former": _integer(MAX_INTEGER),
    "paused": _Codec(bool, MapReader.boolean),
    "software": _NAME,
    "cut": _integer(MAX_INTEGER),
    "up_to": _integer(MAX_INTEGER),
    "seal": _Codec(
        bytes, lambda reader, key: reader.binary(key, min_bytes=1, max_bytes=AUDIT_HEAD_LIMIT)
    ),
}


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a kind of events."""

    name: str
    key: str
    codec: _Codec
    default: object


_FIELDS_OF: Final[dict[str, tuple[_Field, ...]]] = {
    name: tuple(
        _Field(item.name, item.name.replace("_", "-"), _FIELDS[item.name], item.default)
        for item in dataclasses.fields(kind)
    )
    for name, kind in _KINDS.items()
}


def event_fields(event: Event) -> dict[str, object]:
    """The fields of an entry's map that say what happened; what has its default is left out."""
    fields: dict[str, object] = {"kind": event.kind}
    for field in _FIELDS_OF[event.kind]:
        value = getattr(event, field.name)
        if value != field.default:
            fields[field.key] = field.codec.write(value)
    return fields


def read_event(reader: MapReader) -> Event:
    """Take what `event_fields` gave.

    Raises:
        DecodeError: The kind is unknown, or a field is missing, of another type or out of bounds.
    """
    name = reader.text("kind", max_bytes=MAX_NAME_BYTES)
    kind = _KINDS.get(name)
    if kind is None:
        reader.fail(f"{name!r} is no kind of entry that this version knows")
    values = {
        field.name: field.codec.read(reader, field.key)
        for field in _FIELDS_OF[name]
        if field.default is dataclasses.MISSING or reader.has(field.key)
    }
    return kind(**values)
