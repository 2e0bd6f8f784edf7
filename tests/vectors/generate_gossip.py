"""Writes the vectors of protocols/gossip.

    python -m tests.vectors.generate_gossip

The output depends on nothing but this file and the code. Vectors of a published version stay as
they are: a run that changes one shows a breaking change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from tests.vectors.generate_wire import (
    ALICE,
    BOB,
    CAROL,
    HASH,
    NOW,
    OTHER_HASH,
    PROTOCOLS,
    QUESTION,
    RECORD,
    describe,
    render,
    without,
)
from zerorag_p2p import cbor
from zerorag_p2p.audit.entries import Position
from zerorag_p2p.audit.heads import decode_head, sign_head
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.identity.withdrawal import SUMMARY_BYTES, decode_withdrawal, withdrawal_digest
from zerorag_p2p.wire.embedding import encode_embedding
from zerorag_p2p.wire.gossip import (
    AdvertisementsRequest,
    Exchange,
    Ping,
    PingRequest,
    RosterRequest,
    WithdrawalsRequest,
    advertisement_digest,
    decode_gossip,
    decode_gossip_reply,
)

OWN_RECORD = sign_record(ALICE, ["/ip4/192.0.2.1/tcp/4001"], NOW)

#: The head of Alice's audit log, and one that she signed a minute before.
HEAD = sign_head(ALICE, Position(8_191, HASH), NOW)
OLDER_HEAD = sign_head(ALICE, Position(8_000, OTHER_HASH), NOW - 60)

#: What a reply answers, by the vector's `asked`.
ASKED = {
    "exchange": Exchange(()),
    "ping": Ping(),
    "ping-request": PingRequest(BOB.peer_id, 6_000),
    "get-roster": RosterRequest(3),
    "get-advertisements": AdvertisementsRequest(()),
    "get-withdrawals": WithdrawalsRequest(()),
}

DECODERS: dict[str, Callable[[bytes, dict[str, Any]], Any]] = {
    "gossip": lambda data, _: decode_gossip(data),
    "gossip-reply": lambda data, vector: decode_gossip_reply(data, asked=ASKED[vector["asked"]]),
    "withdrawal": lambda data, _: decode_withdrawal(data),
    "audit-head": lambda data, _: decode_head(data, ALICE.peer_id),
}


def build() -> dict[str, Any]:
    """The content of every file, by its path under protocols/."""
    return {
        "gossip/vectors/valid.json": [
            *(vector("gossip", name, fields) for name, fields in requests().items()),
            *(
                vector("gossip-reply", name, fields, asked=asked)
                for name, (asked, fields) in replies().items()
            ),
            vector("withdrawal", "withdrawal", withdrawal()),
            vector("withdrawal", "two documents", withdrawal(documents=[HASH, OTHER_HASH])),
            vector("withdrawal", "document of a collection", withdrawal(collection="guidelines")),
            vector(
                "withdrawal",
                "whole collection",
                without(withdrawal(collection="guidelines"), "documents"),
            ),
            vector(
                "withdrawal", "withdrawal with an extension", withdrawal(**{"x-note": "ignored"})
            ),
            vector("audit-head", "audit head", audit_head()),
            vector("audit-head", "head of an empty log", audit_head(sequence=0, hash=bytes(32))),
        ],
        "gossip/vectors/invalid.json": [
            *broken("gossip", invalid_requests()),
            *broken("gossip-reply", invalid_exchange_replies(), asked="exchange"),
            *broken("gossip-reply", invalid_ping_replies(), asked="ping"),
            *broken("gossip-reply", invalid_rosters(), asked="get-roster"),
            *broken("gossip-reply", invalid_advertisements(), asked="get-advertisements"),
            *broken("gossip-reply", invalid_pulled_withdrawals(), asked="get-withdrawals"),
            *broken("withdrawal", invalid_withdrawals()),
            *broken("audit-head", invalid_audit_heads()),
        ],
    }


def vector(message: str, name: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {"name": name, "message": message, **more, "hex": cbor.encode(fields).hex()}
    return made | {"value": describe(DECODERS[message](bytes.fromhex(made["hex"]), made))}


def broken(
    message: str, cases: dict[str, tuple[dict[str, Any] | bytes, str]], **more: Any
) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "message": message,
            **more,
            "hex": (content if isinstance(content, bytes) else cbor.encode(content)).hex(),
            "reason": reason,
        }
        for name, (content, reason) in cases.items()
    ]


# Messages.


def entry(**fields: Any) -> dict[str, Any]:
    return {"record": RECORD, "age": 3} | fields


def update(**fields: Any) -> dict[str, Any]:
    return {"peer": CAROL.peer_id, "state": "suspect", "incarnation": NOW} | fields


def exchange(*entries: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "exchange", "entries": list(entries)} | fields


def ping(**news: Any) -> dict[str, Any]:
    return {"type": "ping", "news": news}


def ping_request(**fields: Any) -> dict[str, Any]:
    return {"type": "ping-request", "target": CAROL.peer_id, "deadline-ms": 6_000} | fields


def get_advertisements(known: bytes, **fields: Any) -> dict[str, Any]:
    return {"type": "get-advertisements", "known": known} | fields


def advertisements(*items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "advertisements", "advertisements": list(items)}


def get_withdrawals(known: bytes) -> dict[str, Any]:
    return {"type": "get-withdrawals", "known": known}


def pulled_withdrawals(*sealed: bytes) -> dict[str, Any]:
    return {"type": "withdrawals", "withdrawals": list(sealed)}


def withdrawal(**fields: Any) -> dict[str, Any]:
    return {
        "owner": BOB.peer_id,
        "consortium": "sample",
        "documents": [HASH],
        "issued-at": NOW,
        "expires-at": NOW + 86_400,
    } | fields


OWN_ENTRY = entry(record=OWN_RECORD, age=0)
SEALED_ADVERTISEMENT = b"sealed advertisement"
DIGESTS = sorted([advertisement_digest(SEALED_ADVERTISEMENT), advertisement_digest(b"another one")])
SEALED_WITHDRAWAL = seal(BOB, Domain.WITHDRAWAL, cbor.encode(withdrawal()))
WITHDRAWAL_DIGESTS = sorted([withdrawal_digest(SEALED_WITHDRAWAL), withdrawal_digest(b"another")])
WITHDRAWALS_HELD = hashlib.sha256(b"".join(WITHDRAWAL_DIGESTS)).digest()[:SUMMARY_BYTES]


def requests() -> dict[str, dict[str, Any]]:
    everything = {
        "roster-version": 4,
        "records": [RECORD],
        "updates": [update(), update(peer=BOB.peer_id, state="dead", incarnation=7)],
        "withdrawals": [SEALED_WITHDRAWAL],
        "withdrawals-held": WITHDRAWALS_HELD,
    }
    return {
        "exchange": exchange(OWN_ENTRY, entry(), news={"roster-version": 4}),
        "first exchange": exchange(OWN_ENTRY),
        "exchange without entries": exchange(),
        "exchange with a head": exchange(OWN_ENTRY, head=HEAD),
        "oldest entry": exchange(entry(age=65_535)),
        "ping": {"type": "ping"},
        "ping of a suspect": ping(records=[RECORD], updates=[update(peer=BOB.peer_id)]),
        "all kinds of news": ping(**everything),
        "ping request": ping_request(),
        "ping request with news": ping_request(news={"updates": [update()]}),
        "get roster": {"type": "get-roster", "known-version": 3},
        "get any advertisements": get_advertisements(b""),
        "get advertisements": get_advertisements(
            b"".join(DIGESTS), near=encode_embedding(QUESTION)
        ),
        "get any withdrawals": get_withdrawals(b""),
        "get withdrawals": get_withdrawals(b"".join(WITHDRAWAL_DIGESTS)),
        "holder of withdrawals": ping(**{"withdrawals-held": WITHDRAWALS_HELD}),
        "extension": {"type": "ping", "x-note": "ignored", "news": {"x-note": "ignored"}},
    }


def replies() -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        "entries": ("exchange", {"type": "entries", "entries": [entry(age=0)]}),
        "entries with a head returned": (
            "exchange",
            {"type": "entries", "entries": [entry(age=0)], "your-head": OLDER_HEAD},
        ),
        "exchange too soon": (
            "exchange",
            {
                "type": "refusal",
                "code": "rate-limited",
                "reason": "one view exchange in 2.5 s is enough",
                "retry-after-s": 3,
            },
        ),
        "ack": ("ping", {"type": "ack"}),
        "ack that refutes": ("ping", {"type": "ack", "news": {"records": [RECORD]}}),
        "helper reached the target": ("ping-request", {"type": "ack"}),
        "helper did not": ("ping-request", {"type": "nack", "news": {"roster-version": 4}}),
        "roster": ("get-roster", {"type": "roster", "roster": b"signed roster"}),
        "roster unchanged": ("get-roster", {"type": "unchanged"}),
        "advertisements": (
            "get-advertisements",
            advertisements(
                {"sealed": SEALED_ADVERTISEMENT, "record": RECORD}, {"sealed": b"another one"}
            ),
        ),
        "nothing new": ("get-advertisements", advertisements()),
        "withdrawals": ("get-withdrawals", pulled_withdrawals(SEALED_WITHDRAWAL)),
        "no withdrawals": ("get-withdrawals", pulled_withdrawals()),
    }


def invalid_requests() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    data = cbor.encode(exchange(OWN_ENTRY))
    many = [bytes([number]) for number in range(33)]
    return {
        "empty": (b"", "malformed CBOR"),
        "cut short": (data[:-1], "malformed CBOR"),
        "trailing byte": (data + b"\x00", "bytes follow it"),
        "no type": (without(exchange(OWN_ENTRY), "type"), "'type' is missing"),
        "type of a reply": ({"type": "ack"}, "'type' is not"),
        "unknown key": (exchange(OWN_ENTRY, note=""), "unknown keys"),
        "no entries": ({"type": "exchange"}, "'entries' is missing"),
        "65 entries": (
            exchange(*(entry(record=bytes([number])) for number in range(65))),
            "has 65 items",
        ),
        "entry twice": (exchange(entry(), entry(age=4)), "lists something twice"),
        "entry without an age": (exchange(without(entry(), "age")), "'age' is missing"),
        "entry too old": (exchange(entry(age=65_536)), "between 0 and 65535"),
        "negative age": (exchange(entry(age=-1)), "between 0 and 65535"),
        "record too long": (exchange(entry(record=bytes(4_097))), "1 to 4096 bytes"),
        "empty head": (exchange(OWN_ENTRY, head=b""), "1 to 512 bytes"),
        "head too long": (exchange(OWN_ENTRY, head=bytes(513)), "1 to 512 bytes"),
        "head as text": (exchange(OWN_ENTRY, head="head"), "not a byte string"),
        "head returned in a request": (exchange(OWN_ENTRY, **{"your-head": HEAD}), "unknown keys"),
        "head in a ping": ({"type": "ping", "head": HEAD}, "unknown keys"),
        "entry with more": (exchange(entry(address="/ip4/192.0.2.9")), "unknown keys"),
        "news that is no map": ({"type": "ping", "news": []}, "expected a map"),
        "unknown news": (ping(weather="fine"), "unknown keys"),
        "empty list": (ping(records=[]), "has 0 items"),
        "33 records": (ping(records=many), "has 33 items"),
        "record twice": (ping(records=[RECORD, RECORD]), "lists something twice"),
        "65 updates": (ping(updates=[update()] * 65), "has 65 items"),
        "two updates about one": (
            ping(updates=[update(), update(state="dead")]),
            "lists something twice",
        ),
        "update that says alive": (ping(updates=[update(state="alive")]), "'state' is not one of"),
        "update about nobody": (ping(updates=[update(peer="carol")]), "peer id"),
        "update without incarnation": (
            ping(updates=[without(update(), "incarnation")]),
            "'incarnation' is missing",
        ),
        "33 withdrawals": (ping(withdrawals=many), "has 33 items"),
        "withdrawal too long": (ping(withdrawals=[bytes(2_049)]), "1 to 2048 bytes"),
        "withdrawals held by half a digest": (
            ping(**{"withdrawals-held": bytes(8)}),
            "16 to 16 bytes",
        ),
        "get withdrawals without known ones": ({"type": "get-withdrawals"}, "'known' is missing"),
        "half a digest of a withdrawal": (get_withdrawals(bytes(12)), "not digests of 8 bytes"),
        "digest of a withdrawal twice": (
            get_withdrawals(2 * WITHDRAWAL_DIGESTS[0]),
            "not in ascending order",
        ),
        "16,385 digests of withdrawals": (get_withdrawals(bytes(8 * 16_385)), "131072 bytes"),
        "ping request without a target": (without(ping_request(), "target"), "'target' is missing"),
        "ping request without a deadline": (
            without(ping_request(), "deadline-ms"),
            "'deadline-ms' is missing",
        ),
        "get roster without a version": ({"type": "get-roster"}, "'known-version' is missing"),
        "get roster with news": (
            {"type": "get-roster", "known-version": 3, "news": {}},
            "unknown keys",
        ),
        "news of advertisements": (ping(advertisements=[SEALED_ADVERTISEMENT]), "unknown keys"),
        "get advertisements without known ones": (
            without(get_advertisements(b""), "known"),
            "'known' is missing",
        ),
        "half a digest": (get_advertisements(bytes(6)), "not digests of 4 bytes"),
        "digest twice": (get_advertisements(2 * DIGESTS[0]), "not in ascending order"),
        "digests out of order": (
            get_advertisements(b"".join(reversed(DIGESTS))),
            "not in ascending order",
        ),
        "16,385 digests": (get_advertisements(bytes(4 * 16_385)), "65536 bytes"),
        "near nothing": (get_advertisements(b"", near={}), "'values' is missing"),
        "near what is not of unit length": (
            get_advertisements(b"", near=encode_embedding(QUESTION) | {"scale": 1.0}),
            "unit length",
        ),
    }


def invalid_exchange_replies() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    return {
        "ack to an exchange": ({"type": "ack"}, "'type' is not"),
        "exchange as its own reply": (exchange(OWN_ENTRY), "'type' is not"),
        "head in a reply": ({"type": "entries", "entries": [], "head": HEAD}, "unknown keys"),
        "returned head too long": (
            {"type": "entries", "entries": [], "your-head": bytes(513)},
            "1 to 512 bytes",
        ),
        "reply without entries": ({"type": "entries"}, "'entries' is missing"),
    }


def invalid_ping_replies() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    return {
        "nack to a ping": ({"type": "nack"}, "'type' is not"),
        "ack with entries": ({"type": "ack", "entries": []}, "unknown keys"),
        "refusal without a code": ({"type": "refusal", "reason": ""}, "'code' is missing"),
    }


def invalid_rosters() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    return {
        "empty roster": ({"type": "roster", "roster": b""}, "1 to 4194304 bytes"),
        "roster as text": ({"type": "roster", "roster": "roster"}, "not a byte string"),
        "unchanged with a roster": ({"type": "unchanged", "roster": b"r"}, "unknown keys"),
    }


def invalid_advertisements() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    item = {"sealed": SEALED_ADVERTISEMENT}
    return {
        "no list of advertisements": ({"type": "advertisements"}, "is missing"),
        "33 advertisements": (
            advertisements(*({"sealed": bytes([number])} for number in range(33))),
            "has 33 items",
        ),
        "advertisement twice": (
            advertisements(item, item | {"record": RECORD}),
            "lists something twice",
        ),
        "advertisement that is not sealed": (advertisements({"record": RECORD}), "is missing"),
        "empty advertisement": (advertisements({"sealed": b""}), "1 to 262144 bytes"),
        "owner's record too long": (
            advertisements(item | {"record": bytes(4_097)}),
            "1 to 4096 bytes",
        ),
        "advertisement with more": (advertisements(item | {"owner": ""}), "unknown keys"),
    }


def invalid_pulled_withdrawals() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    many = [bytes([number, index]) for number in range(129) for index in range(2)]
    return {
        "withdrawals without a list": ({"type": "withdrawals"}, "'withdrawals' is missing"),
        "258 withdrawals": (pulled_withdrawals(*many), "has 258 items"),
        "pulled withdrawal twice": (
            pulled_withdrawals(SEALED_WITHDRAWAL, SEALED_WITHDRAWAL),
            "lists something twice",
        ),
        "pulled withdrawal too long": (pulled_withdrawals(bytes(2_049)), "1 to 2048 bytes"),
        "advertisements for withdrawals": (
            {"type": "advertisements", "advertisements": []},
            "type",
        ),
    }


def invalid_withdrawals() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    return {
        "withdrawal of nothing": (withdrawal(documents=[]), "has 0 items"),
        "33 documents": (
            withdrawal(documents=[bytes([number]) * 32 for number in range(33)]),
            "has 33 items",
        ),
        "document twice": (withdrawal(documents=[HASH, HASH]), "lists something twice"),
        "hash prefix": (withdrawal(documents=[HASH[:8]]), "32 to 32 bytes"),
        "withdrawal by nobody": (without(withdrawal(), "owner"), "'owner' is missing"),
        "withdrawal without a time": (without(withdrawal(), "issued-at"), "'issued-at' is missing"),
        "withdrawal without an end": (
            without(withdrawal(), "expires-at"),
            "'expires-at' is missing",
        ),
        "withdrawal that ends before it begins": (
            withdrawal(**{"expires-at": NOW - 1}),
            "'expires-at' is not between",
        ),
        "withdrawal in no consortium": (
            without(withdrawal(), "consortium"),
            "'consortium' is missing",
        ),
        "withdrawal of neither documents nor a collection": (
            without(withdrawal(), "documents"),
            "neither 'documents' nor a 'collection'",
        ),
        "collection without a name": (withdrawal(collection=""), "1 to 128 bytes"),
    }


def audit_head(**fields: Any) -> dict[str, Any]:
    return {"sequence": 8_191, "hash": HASH, "at": NOW} | fields


def invalid_audit_heads() -> dict[str, tuple[dict[str, Any] | bytes, str]]:
    return {
        "head without a sequence": (without(audit_head(), "sequence"), "'sequence' is missing"),
        "negative sequence": (audit_head(sequence=-1), "'sequence' is not between"),
        "head without a hash": (without(audit_head(), "hash"), "'hash' is missing"),
        "short hash": (audit_head(hash=HASH[:31]), "32 to 32 bytes"),
        "head without a time": (without(audit_head(), "at"), "'at' is missing"),
        "head with more": (audit_head(owner=ALICE.peer_id), "unknown keys"),
    }


if __name__ == "__main__":
    for name, content in build().items():
        path = PROTOCOLS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(content))
