"""gossip: finding peers, noticing who is gone, and news for everybody (protocols/gossip).

Every message but those about the roster and advertisements carries `News`, whatever else it is for.
Signed objects inside stay the bytes that their authors made; whoever receives them verifies them.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    AUDIT_HEAD_LIMIT,
    GOSSIP_ADVERTISEMENT_BYTES,
    GOSSIP_LIMIT,
    GOSSIP_REPLY_LIMIT,
    MAX_GOSSIP_ADVERTISEMENTS,
    MAX_GOSSIP_AGE,
    MAX_GOSSIP_ENTRIES,
    MAX_GOSSIP_RECORDS,
    MAX_GOSSIP_UPDATES,
    MAX_GOSSIP_WITHDRAWALS,
    MAX_HELD_WITHDRAWALS,
    MAX_INTEGER,
    MAX_KNOWN_ADVERTISEMENTS,
    MAX_PULLED_WITHDRAWALS,
    MAX_ROSTER_BYTES,
    RECORD_LIMIT,
    WITHDRAWAL_LIMIT,
)
from zerorag_p2p.identity.fields import read_peer
from zerorag_p2p.identity.withdrawal import DIGEST_BYTES as WITHDRAWAL_DIGEST_BYTES
from zerorag_p2p.identity.withdrawal import SUMMARY_BYTES
from zerorag_p2p.model import PeerId, Vector
from zerorag_p2p.wire.embedding import decode_embedding, encode_embedding
from zerorag_p2p.wire.message import (
    encode_message,
    item_readers,
    map_readers,
    read_choice,
    read_deadline,
    read_message,
    refuse_repeats,
)
from zerorag_p2p.wire.refusal import REFUSAL, Refusal, encode_refusal, read_refusal

_EXCHANGE: Final = "exchange"
_PING: Final = "ping"
_PING_REQUEST: Final = "ping-request"
_GET_ROSTER: Final = "get-roster"
_GET_ADVERTISEMENTS: Final = "get-advertisements"
_GET_WITHDRAWALS: Final = "get-withdrawals"
_ENTRIES: Final = "entries"
_ACK: Final = "ack"
_NACK: Final = "nack"
_ROSTER: Final = "roster"
_UNCHANGED: Final = "unchanged"
_ADVERTISEMENTS: Final = "advertisements"
_WITHDRAWALS: Final = "withdrawals"

#: Bytes of the digest that names an advertisement.
DIGEST_BYTES: Final = 4


class Accusation(enum.StrEnum):
    """What a peer may say against another; that a peer is alive, only its own record says."""

    SUSPECT = "suspect"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Update:
    """An accusation against a peer.

    Attributes:
        peer: Who does not answer.
        state: How sure the accuser is.
        incarnation: Sequence of the newest record of the peer that the accuser holds. A record
            with a higher one refutes the accusation.
    """

    peer: PeerId
    state: Accusation
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What goes from peer to peer until everybody has it.

    Attributes:
        roster_version: Version of the roster that the sender holds and hands out when asked.
        records: Signed peer records (protocols/peer-record).
        updates: Accusations, at most one a peer.
        withdrawals: Sealed withdrawals of documents.
        withdrawals_held: Digest of all withdrawals that the sender holds, 16 bytes; empty while it
            holds none. A peer that holds others asks for what it lacks.
    """

    roster_version: int | None = None
    records: tuple[bytes, ...] = ()
    updates: tuple[Update, ...] = ()
    withdrawals: tuple[bytes, ...] = ()
    withdrawals_held: bytes = b""


@dataclass(frozen=True, slots=True)
class Entry:
    """A peer in a view.

    Attributes:
        record: Its signed peer record.
        age: Rounds since the peer itself gave out the entry, as far as the holders counted.
    """

    record: bytes
    age: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """Half of a view, as a request and as its reply; the sender's own entry comes first.

    Attributes:
        head: In a request, the newest signed head of the sender's audit log (`audit.heads`).
        your_head: In a reply, the newest head of the receiver's log that the sender held before
            this exchange, if that is another.
    """

    entries: tuple[Entry, ...]
    news: News = field(default_factory=News)
    head: bytes | None = None
    your_head: bytes | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    """A question whether the peer is there."""

    news: News = field(default_factory=News)


@dataclass(frozen=True, slots=True)
class PingRequest:
    """A request to ping another peer.

    Attributes:
        target: Whom to ping.
        deadline_ms: How long the asker waits for the outcome, in milliseconds.
    """

    target: PeerId
    deadline_ms: int
    news: News = field(default_factory=News)


@dataclass(frozen=True, slots=True)
class RosterRequest:
    """A request for the roster, if it is newer than `known_version`."""

    known_version: int


@dataclass(frozen=True, slots=True)
class Ack:
    """The peer that was pinged is there; answered to `Ping` and to `PingRequest`."""

    news: News = field(default_factory=News)


@dataclass(frozen=True, slots=True)
class Nack:
    """The helper is there, but the target of a `PingRequest` did not answer it in time."""

    news: News = field(default_factory=News)


@dataclass(frozen=True, slots=True)
class RosterReply:
    """The signed roster (protocols/roster), or None where the asker's is as new."""

    roster: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class AdvertisementsRequest:
    """A request for advertisements of any peers, those left out that the asker knows.

    Attributes:
        known: Digests of advertisements that are of no use (`advertisement_digest`), ascending.
        near: Direction, shape [d], that the asker's own documents lie in; advertisements of
            similar documents are of most use to it.
    """

    known: tuple[bytes, ...]
    near: Vector | None = None


@dataclass(frozen=True, slots=True)
class PassedOn:
    """An advertisement that is passed on, and how its owner can be reached.

    Attributes:
        sealed: The sealed advertisement (protocols/advertise).
        record: The owner's signed peer record, if the sender has it.
    """

    sealed: bytes
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class AdvertisementsReply:
    """Some of the advertisements that the peer holds, the most useful first."""

    advertisements: tuple[PassedOn, ...]


@dataclass(frozen=True, slots=True)
class WithdrawalsRequest:
    """A request for withdrawals, those left out that the asker knows.

    Attributes:
        known: Digests of those it holds (`identity.withdrawal.withdrawal_digest`), ascending.
    """

    known: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class WithdrawalsReply:
    """Sealed withdrawals that the asker did not name; where there are more, it asks again."""

    withdrawals: tuple[bytes, ...]


GossipRequest: TypeAlias = (
    Exchange | Ping | PingRequest | RosterRequest | AdvertisementsRequest | WithdrawalsRequest
)
GossipReply: TypeAlias = (
    Exchange | Ack | Nack | RosterReply | AdvertisementsReply | WithdrawalsReply | Refusal
)


def advertisement_digest(sealed: bytes) -> bytes:
    """What an advertisement is called in `AdvertisementsRequest.known`."""
    return hashlib.sha256(sealed).digest()[:DIGEST_BYTES]


def encode_gossip(request: GossipRequest) -> bytes:
    """Encode a request.

    Raises:
        LocalError: It is longer than `GOSSIP_LIMIT`.
    """
    match request:
        case Exchange():
            fields = _exchange_fields(_EXCHANGE, request)
            if request.head is not None:
                fields["head"] = request.head
        case Ping():
            fields = _with_news({"type": _PING}, request.news)
        case PingRequest():
            fields = _with_news(
                {
                    "type": _PING_REQUEST,
                    "target": request.target,
                    "deadline-ms": request.deadline_ms,
                },
                request.news,
            )
        case RosterRequest():
            fields = {"type": _GET_ROSTER, "known-version": request.known_version}
        case AdvertisementsRequest():
            fields = {"type": _GET_ADVERTISEMENTS, "known": b"".join(request.known)}
            if request.near is not None:
                fields["near"] = encode_embedding(request.near)
        case WithdrawalsRequest():
            fields = {"type": _GET_WITHDRAWALS, "known": b"".join(request.known)}
    return encode_message(fields, limit=GOSSIP_LIMIT)


def encode_gossip_reply(reply: GossipReply) -> bytes:
    """Encode a reply.

    Raises:
        LocalError: It is longer than `GOSSIP_REPLY_LIMIT`.
    """
    match reply:
        case Exchange():
            fields = _exchange_fields(_ENTRIES, reply)
            if reply.your_head is not None:
                fields["your-head"] = reply.your_head
        case Ack():
            fields = _with_news({"type": _ACK}, reply.news)
        case Nack():
            fields = _with_news({"type": _NACK}, reply.news)
        case RosterReply(None):
            fields = {"type": _UNCHANGED}
        case RosterReply():
            fields = {"type": _ROSTER, "roster": reply.roster}
        case AdvertisementsReply():
            items = [_passed_on_fields(item) for item in reply.advertisements]
            fields = {"type": _ADVERTISEMENTS, "advertisements": items}
        case WithdrawalsReply():
            fields = {"type": _WITHDRAWALS, "withdrawals": list(reply.withdrawals)}
        case Refusal():
            return encode_refusal(reply)
    return encode_message(fields, limit=GOSSIP_REPLY_LIMIT)


def _passed_on_fields(item: PassedOn) -> dict[str, object]:
    record = {} if item.record is None else {"record": item.record}
    return {"sealed": item.sealed, **record}


def _exchange_fields(message_type: str, exchange: Exchange) -> dict[str, object]:
    entries = [{"record": entry.record, "age": entry.age} for entry in exchange.entries]
    return _with_news({"type": message_type, "entries": entries}, exchange.news)


def _with_news(fields: dict[str, object], news: News) -> dict[str, object]:
    """Add the fields of `news`; a list that is empty is left out, and so is empty news."""
    lists: dict[str, Sequence[object]] = {
        "records": news.records,
        "updates": [
            {"peer": item.peer, "state": item.state.value, "incarnation": item.incarnation}
            for item in news.updates
        ],
        "withdrawals": news.withdrawals,
    }
    told: dict[str, object] = {key: list(items) for key, items in lists.items() if items}
    if news.roster_version is not None:
        told["roster-version"] = news.roster_version
    if news.withdrawals_held:
        told["withdrawals-held"] = news.withdrawals_held
    if told:
        fields["news"] = told
    return fields


def decode_gossip(data: bytes) -> GossipRequest:
    """Decode a request.

    Raises:
        DecodeError: It is malformed.
    """
    message_type, reader = read_message(
        data,
        limit=GOSSIP_LIMIT,
        what="gossip request",
        types=[
            _EXCHANGE,
            _PING,
            _PING_REQUEST,
            _GET_ROSTER,
            _GET_ADVERTISEMENTS,
            _GET_WITHDRAWALS,
        ],
    )
    request: GossipRequest
    match message_type:
        case "exchange":
            request = Exchange(
                _read_entries(reader), _read_news(reader), head=_read_head(reader, "head")
            )
        case "ping":
            request = Ping(_read_news(reader))
        case "ping-request":
            request = PingRequest(
                target=read_peer(reader, "target"),
                deadline_ms=read_deadline(reader),
                news=_read_news(reader),
            )
        case "get-roster":
            request = RosterRequest(reader.integer("known-version", maximum=MAX_INTEGER))
        case "get-withdrawals":
            request = WithdrawalsRequest(
                _read_digests(reader, WITHDRAWAL_DIGEST_BYTES, MAX_HELD_WITHDRAWALS)
            )
        case _:
            request = AdvertisementsRequest(
                known=_read_digests(reader, DIGEST_BYTES, MAX_KNOWN_ADVERTISEMENTS),
                near=decode_embedding(reader.map("near"))[0] if reader.has("near") else None,
            )
    reader.finish()
    return request


def _read_digests(reader: MapReader, size: int, max_items: int) -> tuple[bytes, ...]:
    data = reader.binary("known", max_bytes=size * max_items)
    if len(data) % size:
        reader.fail(f"'known' is not digests of {size} bytes")
    digests = tuple(data[start : start + size] for start in range(0, len(data), size))
    if any(first >= second for first, second in itertools.pairwise(digests)):
        reader.fail("'known' is not in ascending order")
    return digests


def decode_gossip_reply(data: bytes, *, asked: GossipRequest) -> GossipReply:
    """Decode the reply to a request.

    Raises:
        DecodeError: It is malformed, or no reply to what was asked.
    """
    message_type, reader = read_message(
        data, limit=GOSSIP_REPLY_LIMIT, what="gossip reply", types=[*_replies_to(asked), REFUSAL]
    )
    if message_type == REFUSAL:
        return read_refusal(reader)
    reply: GossipReply
    match message_type:
        case "entries":
            reply = Exchange(
                _read_entries(reader), _read_news(reader), your_head=_read_head(reader, "your-head")
            )
        case "ack":
            reply = Ack(_read_news(reader))
        case "nack":
            reply = Nack(_read_news(reader))
        case "roster":
            reply = RosterReply(reader.binary("roster", min_bytes=1, max_bytes=MAX_ROSTER_BYTES))
        case "unchanged":
            reply = RosterReply(None)
        case "withdrawals":
            reply = WithdrawalsReply(_read_withdrawals(reader))
        case _:
            reply = AdvertisementsReply(_read_passed_on(reader))
    reader.finish()
    return reply


def _replies_to(request: GossipRequest) -> tuple[str, ...]:
    match request:
        case Exchange():
            return (_ENTRIES,)
        case Ping():
            return (_ACK,)
        case PingRequest():
            return (_ACK, _NACK)
        case RosterRequest():
            return (_ROSTER, _UNCHANGED)
        case AdvertisementsRequest():
            return (_ADVERTISEMENTS,)
        case WithdrawalsRequest():
            return (_WITHDRAWALS,)


def _read_passed_on(reader: MapReader) -> tuple[PassedOn, ...]:
    items = []
    for fields in map_readers(reader, "advertisements", max_items=MAX_GOSSIP_ADVERTISEMENTS):
        sealed = fields.binary("sealed", min_bytes=1, max_bytes=GOSSIP_ADVERTISEMENT_BYTES)
        record = None
        if fields.has("record"):
            record = fields.binary("record", min_bytes=1, max_bytes=RECORD_LIMIT)
        fields.finish()
        items.append(PassedOn(sealed, record))
    if sum(len(item.sealed) for item in items) > GOSSIP_ADVERTISEMENT_BYTES:
        reader.fail(f"'advertisements' are longer than {GOSSIP_ADVERTISEMENT_BYTES} bytes together")
    refuse_repeats(reader, "advertisements", [item.sealed for item in items])
    return tuple(items)


def _read_withdrawals(reader: MapReader) -> tuple[bytes, ...]:
    key = "withdrawals"
    items = item_readers(reader, key, max_items=MAX_PULLED_WITHDRAWALS)
    withdrawals = tuple(item.binary(key, min_bytes=1, max_bytes=WITHDRAWAL_LIMIT) for item in items)
    refuse_repeats(reader, key, withdrawals)
    return withdrawals


def _read_entries(reader: MapReader) -> tuple[Entry, ...]:
    entries = []
    for item in item_readers(reader, "entries", max_items=MAX_GOSSIP_ENTRIES):
        fields = item.map("entries")
        record = fields.binary("record", min_bytes=1, max_bytes=RECORD_LIMIT)
        entries.append(Entry(record, fields.integer("age", maximum=MAX_GOSSIP_AGE)))
        fields.finish()
    refuse_repeats(reader, "entries", [entry.record for entry in entries])
    return tuple(entries)


def _read_head(reader: MapReader, key: str) -> bytes | None:
    if not reader.has(key):
        return None
    return reader.binary(key, min_bytes=1, max_bytes=AUDIT_HEAD_LIMIT)


def _read_news(message: MapReader) -> News:
    if not message.has("news"):
        return News()
    reader = message.map("news")
    news = News(
        roster_version=(
            reader.integer("roster-version", maximum=MAX_INTEGER)
            if reader.has("roster-version")
            else None
        ),
        records=_read_objects(reader, "records", MAX_GOSSIP_RECORDS, RECORD_LIMIT),
        updates=_read_updates(reader),
        withdrawals=_read_objects(reader, "withdrawals", MAX_GOSSIP_WITHDRAWALS, WITHDRAWAL_LIMIT),
        withdrawals_held=(
            reader.binary("withdrawals-held", min_bytes=SUMMARY_BYTES, max_bytes=SUMMARY_BYTES)
            if reader.has("withdrawals-held")
            else b""
        ),
    )
    reader.finish()
    return news


def _read_objects(reader: MapReader, key: str, max_items: int, max_bytes: int) -> tuple[bytes, ...]:
    if not reader.has(key):
        return ()
    items = item_readers(reader, key, min_items=1, max_items=max_items)
    objects = tuple(item.binary(key, min_bytes=1, max_bytes=max_bytes) for item in items)
    refuse_repeats(reader, key, objects)
    return objects


def _read_updates(reader: MapReader) -> tuple[Update, ...]:
    if not reader.has("updates"):
        return ()
    updates = []
    for item in item_readers(reader, "updates", min_items=1, max_items=MAX_GOSSIP_UPDATES):
        fields = item.map("updates")
        updates.append(
            Update(
                peer=read_peer(fields, "peer"),
                state=read_choice(fields, "state", Accusation),
                incarnation=fields.integer("incarnation", maximum=MAX_INTEGER),
            )
        )
        fields.finish()
    refuse_repeats(reader, "updates", [update.peer for update in updates])
    return tuple(updates)
