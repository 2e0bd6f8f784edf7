"""Writes the vectors of protocols/{framing,hello,query,advertise,fetch}.

    python tests/vectors/generate_wire.py

The output depends on nothing but this file and the code. Vectors of a published version stay as
they are: a run that changes one shows a breaking change.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import numpy as np

from zerorag_p2p import cbor
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.model import Fingerprint, Vector
from zerorag_p2p.wire.advertise import (
    Advertisement,
    AdvertiseRequest,
    Estimates,
    decode_advertise_reply,
    decode_advertise_request,
    decode_advertisement,
    encode_advertise_reply,
    encode_advertise_request,
    encode_advertisement,
)
from zerorag_p2p.wire.codes import encode_codes, rotate, rotation
from zerorag_p2p.wire.embedding import Encoding, encode_embedding
from zerorag_p2p.wire.fetch import decode_fetch, decode_fetch_reply
from zerorag_p2p.wire.framing import FrameReader, encode_frame
from zerorag_p2p.wire.hello import decode_hello, decode_hello_reply
from zerorag_p2p.wire.query import decode_query, decode_query_reply

PROTOCOLS = Path(__file__).parents[2] / "protocols"
FRAME_LIMIT = 1024

# Sample keys, known to everybody. Never use them.
ALICE, BOB, CAROL = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
NOW = 1_800_000_000
MINILM = Fingerprint("all-MiniLM-L6-v2", "53aa51172d142c89", 384)
MPNET = Fingerprint("all-mpnet-base-v2", "78c0197b6159d92c", 768)
TINY = Fingerprint("sample", "1", 8)
RECORD = sign_record(BOB, ["/ip4/192.0.2.2/tcp/4001"], NOW)

QUESTION: Vector = np.array([0.5, -0.25, 0.125, 0, 0, 0.75, -0.5, 0.25], dtype=np.float32)
ANSWER: Vector = np.array([0.5, -0.5, 0.25, 0, 0.125, 0.5, -0.5, 0.125], dtype=np.float32)
ESTIMATES = Estimates(
    offsets=np.array([0.0, -0.125], dtype=np.float32), errors=np.array([0.0, 0.5], dtype=np.float32)
)
HASH = hashlib.sha256(b"answer").digest()
OTHER_HASH = hashlib.sha256(b"other").digest()


def frames(data: bytes) -> list[dict[str, Any]]:
    reader = FrameReader(FRAME_LIMIT)
    reader.feed(data)
    return [{"request-id": number, "payload": payload.hex()} for number, payload in reader.frames()]


#: How a vector's bytes are read, by its message.
DECODERS: dict[str, Callable[[bytes, dict[str, Any]], Any]] = {
    "frames": lambda data, _: frames(data),
    "hello": lambda data, _: decode_hello(data),
    "hello-reply": lambda data, _: decode_hello_reply(data),
    "query": lambda data, vector: decode_query(data, dimension=vector.get("dimension")),
    "query-reply": lambda data, vector: decode_query_reply(
        data, k=vector.get("k", 5), dimension=vector.get("dimension")
    ),
    "fetch": lambda data, _: decode_fetch(data),
    "fetch-reply": lambda data, vector: decode_fetch_reply(data, asked=vector["asked"]),
    "advertise": lambda data, _: decode_advertise_request(data),
    "advertise-reply": lambda data, _: decode_advertise_reply(data),
    "advertisement": lambda data, vector: decode_advertisement(
        data, dimension=vector.get("dimension")
    ),
}


def describe(value: Any) -> Any:
    """A decoded message as JSON: fields with their wire names, bytes in hexadecimal."""
    match value:
        case np.ndarray():
            return [describe(item) for item in value] if value.ndim > 1 else rounded(value)
        case enum.Enum():
            return value.value
        case bytes():
            return value.hex()
        case list() | tuple():
            return [describe(item) for item in value]
        case _ if dataclasses.is_dataclass(value):
            fields = {
                field.name.replace("_", "-"): getattr(value, field.name)
                for field in dataclasses.fields(value)
            }
            return {key: describe(item) for key, item in fields.items() if item is not None}
        case _:
            return value


def rounded(vector: Vector) -> list[float]:
    return [round(float(component), 6) + 0.0 for component in vector]


def build() -> dict[str, Any]:
    """The content of every file, by its path under protocols/."""
    files: dict[str, Any] = {
        "advertise/vectors/rotation.json": rotations(),
        "advertise/vectors/codes.json": codes(),
    }
    for folder, valid, invalid in (
        ("framing", framing_valid(), framing_invalid()),
        ("hello", hello_valid(), hello_invalid()),
        ("query", query_valid(), query_invalid()),
        ("advertise", advertise_valid(), advertise_invalid()),
        ("fetch", fetch_valid(), fetch_invalid()),
    ):
        files[f"{folder}/vectors/valid.json"] = valid
        files[f"{folder}/vectors/invalid.json"] = invalid
    return files


def render(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def valid(name: str, message: str, data: bytes, **more: Any) -> dict[str, Any]:
    vector = {"name": name, "message": message, **more, "hex": data.hex()}
    value = describe(DECODERS[message](data, vector))
    return vector | {"value": "unchanged" if value is None else value}


def invalid(message: str, cases: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Cases are names with the bytes (or the fields to encode) and the reason of the refusal."""
    return [
        {
            "name": name,
            "message": message,
            **more,
            "hex": (data if isinstance(data, bytes) else cbor.encode(data)).hex(),
            "reason": reason,
        }
        for name, (data, reason) in cases.items()
    ]


def without(fields: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != key}


def broken(fields: dict[str, Any]) -> dict[str, tuple[bytes, str]]:
    """Ways in which the encoding of any message can be wrong."""
    good = cbor.encode(fields)
    first = cbor.encode("type") + cbor.encode(fields["type"])
    rest = good[1:].replace(first, b"")
    return {
        "empty": (b"", "malformed CBOR"),
        "trailing byte": (good + b"\0", "bytes follow it"),
        "cut short": (good[:-1], "malformed CBOR"),
        "not a map": (cbor.encode([fields]), "expected a map"),
        "keys out of order": (good[:1] + rest + first, "deterministic"),
        "key twice": (bytes([good[0] + 1]) + good[1:] + first, "malformed CBOR"),
        "indefinite length": (b"\xbf" + good[1:] + b"\xff", "malformed CBOR"),
        "unknown key": (cbor.encode(fields | {"note": 1}), "unknown keys ['note']"),
        "null": (cbor.encode(fields | {"note": None}), "unknown keys ['note']"),
        "no type": (cbor.encode(without(fields, "type")), "'type' is missing"),
        "another type": (cbor.encode(fields | {"type": "other"}), "'type' is not"),
        "a tag": (cbor2.dumps(cbor2.CBORTag(55799, fields), canonical=True), "malformed CBOR"),
        "long integer": (
            b"\xa2" + cbor.encode("x-n") + b"\x18\x01" + first,
            "deterministic",
        ),
        "nested too deep": (cbor.encode(fields | {"x-n": nested(10)}), "malformed CBOR"),
        "not a number": (cbor.encode(fields | {"x-n": float("nan")}), "not finite"),
    }


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# Framing


def framing_valid() -> list[dict[str, Any]]:
    one = encode_frame(1, b"hello")
    cases = {
        "one frame": one,
        "two frames": one + encode_frame(2, b"world"),
        "no payload": encode_frame(3, b""),
        "largest request id": encode_frame(2**32 - 1, b"x"),
        "longest payload": encode_frame(4, bytes(FRAME_LIMIT)),
        "nothing": b"",
        "a frame and half of the next": one + one[:7],
    }
    return [valid(name, "frames", data, limit=FRAME_LIMIT) for name, data in cases.items()]


def framing_invalid() -> list[dict[str, Any]]:
    cases = {
        "a byte too long": (bytes.fromhex("00000405 00000001"), "the limit is 1024"),
        "four gigabytes, by the length alone": (bytes.fromhex("ffffffff"), "the limit is 1024"),
        "too long, after a good frame": (
            encode_frame(1, b"hello") + bytes.fromhex("10000000"),
            "the limit is 1024",
        ),
        "length 0": (bytes(4), "too short for a request id"),
        "length 3": (bytes.fromhex("00000003 000001"), "too short for a request id"),
        "text instead of a frame": (b"GET / HTTP/1.1\r\n", "the limit is 1024"),
    }
    return invalid("frames", cases, limit=FRAME_LIMIT)


# Refusals, the same for every reply


def refusal(**fields: Any) -> dict[str, Any]:
    return {"type": "refusal", "code": "busy", "reason": "64 requests are waiting"} | fields


def refusal_invalid() -> dict[str, Any]:
    return {
        "refusal: unknown code": (refusal(code="tired"), "'code' is not one of"),
        "refusal: no reason": (without(refusal(), "reason"), "'reason' is missing"),
        "refusal: reason too long": (refusal(reason="x" * 513), "0 to 512 bytes"),
        "refusal: escape sequence": (refusal(reason="\x1b[2J"), "cannot be printed"),
        "refusal: a day and a second": (refusal(**{"retry-after-s": 86_401}), "between 0 and"),
        "refusal: unknown key": (refusal(note=""), "unknown keys"),
    }


# hello


def hello(**fields: Any) -> dict[str, Any]:
    return {
        "type": "hello",
        "consortium": "sample-0123456789abcdef",
        "roster-version": 4,
        "fingerprints": [MINILM.to_map()],
        "protocols": [
            "/zerorag/hello/1.0.0",
            "/zerorag/query/1.0.0",
            "/zerorag/advertise/1.0.0",
            "/zerorag/fetch/1.0.0",
        ],
        "clock-ms": NOW * 1000 + 250,
        "software": "zerorag-p2p 0.1.0",
        "record": RECORD,
    } | fields


def hello_valid() -> list[dict[str, Any]]:
    migrating = hello(
        fingerprints=[MPNET.to_map(), MINILM.to_map() | {"prefix": "passage: "}],
        **{"roster-version": 2**53 - 1},
    )
    newer = hello(protocols=["/zerorag/query/1.0.0", "/zerorag/query/2.0.0"])
    return [
        valid("hello", "hello", cbor.encode(hello())),
        valid("two embeddings, largest version", "hello", cbor.encode(migrating)),
        valid("versions to come", "hello", cbor.encode(newer)),
        valid("no protocols", "hello", cbor.encode(hello(protocols=[]))),
        valid("extension", "hello", cbor.encode(hello(**{"x-note": {"ignored": [1]}}))),
        valid("the other's hello", "hello-reply", cbor.encode(hello())),
        *(
            valid(
                f"refused: {code}",
                "hello-reply",
                cbor.encode(refusal(code=code, reason=reason)),
            )
            for code, reason in {
                "wrong-consortium": "our consortium is 'north-1', yours is 'south-2'",
                "no-common-embedding": "no common embedding: we use one, you use another",
                "no-common-protocol": "no common version of query",
                "clock-skew": "clock skew 600 s",
                "not-a-member": "",
            }.items()
        ),
        valid("refused: busy", "hello-reply", cbor.encode(refusal(**{"retry-after-s": 30}))),
    ]


def hello_invalid() -> list[dict[str, Any]]:
    fingerprint = MINILM.to_map()
    cases = {
        "no fingerprint": (hello(fingerprints=[]), "has 0 items"),
        "five fingerprints": (
            hello(fingerprints=[fingerprint | {"model": f"m{n}"} for n in range(5)]),
            "has 5 items",
        ),
        "fingerprint twice": (hello(fingerprints=[fingerprint] * 2), "twice"),
        "fingerprint without a dimension": (
            hello(fingerprints=[without(fingerprint, "dimension")]),
            "'dimension' is missing",
        ),
        "dimension 4097": (
            hello(fingerprints=[fingerprint | {"dimension": 4097}]),
            "between 1 and 4096",
        ),
        "consortium missing": (without(hello(), "consortium"), "'consortium' is missing"),
        "consortium empty": (hello(consortium=""), "1 to 128 bytes"),
        "consortium with a line break": (hello(consortium="a\nb"), "cannot be printed"),
        "clock as a float": (hello(**{"clock-ms": 1.5}), "not an integer"),
        "clock before 1970": (hello(**{"clock-ms": -1}), "between 0 and"),
        "roster version too large": (hello(**{"roster-version": 2**53}), "between 0 and"),
        "protocol twice": (hello(protocols=["/a", "/a"]), "twice"),
        "seventeen protocols": (hello(protocols=[f"/{n}" for n in range(17)]), "has 17 items"),
        "no record": (hello(record=b""), "1 to 4096 bytes"),
        "record too long": (hello(record=bytes(4097)), "1 to 4096 bytes"),
        "longer than the limit": (hello(**{"x-n": bytes(1 << 14)}), "exceed the limit of 16384"),
        "a refusal for a request": (refusal(), "'type' is not 'hello'"),
    }
    return invalid("hello", broken(hello()) | cases) + invalid("hello-reply", refusal_invalid())


# query


def query(**fields: Any) -> dict[str, Any]:
    return {
        "type": "query",
        "embedding": encode_embedding(QUESTION, Encoding.INT8),
        "fingerprint": bytes.fromhex(TINY.digest()),
        "k": 5,
        "budget-left": 49,
        "deadline-ms": 10_000,
        "purpose": "TREAT",
        "user": "u-7f3a",
        "audit": "2027-01-15/0042",
        "view": "passage",
    } | fields


def document(**fields: Any) -> dict[str, Any]:
    return {
        "content-hash": HASH,
        "embedding": encode_embedding(ANSWER, Encoding.INT8),
        "score": 0.875,
        "attribution": [b"statement"],
    } | fields


def referral(**fields: Any) -> dict[str, Any]:
    return {
        "peer": BOB.peer_id,
        "record": RECORD,
        "advertised": [{"score": 0.75, "document": OTHER_HASH[:8], "error": 0.03125}],
        "remembered": 0.5,
    } | fields


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "documents": [document()], "referrals": [referral()]} | fields


def query_valid() -> list[dict[str, Any]]:
    requests = {
        "question": query(**{"remember-until": NOW + 86_400}, have=[OTHER_HASH[:8]], above=0.25),
        "not to be remembered, nothing found yet": query(),
        "float16": query(embedding=encode_embedding(QUESTION, Encoding.FLOAT16)),
        "float32": query(embedding=encode_embedding(QUESTION, Encoding.FLOAT32)),
        "one dimension": query(
            embedding=encode_embedding(np.array([-2], dtype=np.float32), Encoding.INT8)
        ),
        "smallest bounds": query(k=1, **{"budget-left": 0, "deadline-ms": 1}),
        "largest bounds": query(
            k=100,
            user="u" * 128,
            have=[number.to_bytes(8, "big") for number in range(256)],
            **{"budget-left": 10_000, "deadline-ms": 3_600_000},
        ),
        "emergency, with a reason": query(purpose="ETREAT", reason="unconscious, no kin"),
        "how many, not which": query(view="count", above=0.5),
        "extension": query(**{"x-note": "ignored"}),
    }
    withheld = document(attribution=[b"statement", b"custody"])
    replies = {
        "result": result(),
        "nothing": result(documents=[], referrals=[]),
        "a count": result(documents=[], count=17),
        "embedding withheld, a copy": result(documents=[without(withheld, "embedding")]),
        "float32 embedding": result(
            documents=[document(embedding=encode_embedding(ANSWER, Encoding.FLOAT32))]
        ),
        "a centroid, and memory only": result(
            referrals=[
                without(referral(advertised=[{"score": -1.0}]), "remembered"),
                without(referral(peer=CAROL.peer_id), "advertised"),
            ]
        ),
        "several documents of one peer": result(
            referrals=[
                referral(
                    advertised=[
                        {"score": 0.75, "document": OTHER_HASH[:8], "error": 0.03125},
                        {"score": 0.5, "document": HASH[:8]},
                        {"score": 0.5},
                    ]
                )
            ]
        ),
        "refused: denied": refusal(code="denied", reason="no rule allows HRESCH"),
        "refused: rate limited": refusal(code="rate-limited", **{"retry-after-s": 60}),
    }
    return [
        *(valid(name, "query", cbor.encode(fields)) for name, fields in requests.items()),
        *(valid(name, "query-reply", cbor.encode(fields)) for name, fields in replies.items()),
    ]


def typed(tag: int, data: bytes, **more: Any) -> dict[str, Any]:
    return {"values": cbor2.CBORTag(tag, data), **more}


def query_invalid() -> list[dict[str, Any]]:
    embeddings = {
        "int8 without a scale": (typed(72, b"\x7f"), "'scale' is missing"),
        "int8 code -128": (typed(72, b"\x80\x01", scale=1 / 128), "largest int8 code"),
        "int8 codes not stretched": (typed(72, b"\x01\x01", scale=0.5), "largest int8 code"),
        "int8 all zero": (typed(72, bytes(8), scale=1.0), "largest int8 code"),
        "int8 scale off by a bit": (
            typed(72, b"\x7f", scale=float(np.nextafter(np.float32(1 / 127), np.float32(1)))),
            "unit length",
        ),
        "float32 not a number": (typed(85, bytes.fromhex("0000c07f")), "not finite"),
        "float16 infinite": (typed(84, bytes.fromhex("007c")), "not finite"),
        "float32 zero": (typed(85, bytes(32)), "has length 0"),
        "float32 not of unit length": (typed(85, bytes.fromhex("0000003f")), "has length 0.5"),
        "float32 with a scale": (typed(85, bytes.fromhex("0000803f"), scale=1.0), "unknown keys"),
        "float32 of 3 bytes": (typed(85, bytes(3)), "components of 4 bytes"),
        "no components": (typed(85, b""), "1 to 4096 components"),
        "4097 dimensions": (typed(72, bytes(4097), scale=1.0), "1 to 4096 components"),
        "big-endian float32": (typed(81, bytes.fromhex("3f800000")), "malformed CBOR"),
        "plain bytes": ({"values": b"\x7f", "scale": 1.0}, "not a typed array"),
        "list of numbers": ({"values": [1.0]}, "not a typed array"),
    }
    requests = {
        "k 0": (query(k=0), "between 1 and 100"),
        "k 101": (query(k=101), "between 1 and 100"),
        "k true": (query(k=True), "not an integer"),
        "budget too large": (query(**{"budget-left": 10_001}), "between 0 and 10000"),
        "no time": (query(**{"deadline-ms": 0}), "between 1 and"),
        "unknown purpose": (query(purpose="MARKETING"), "'purpose' is not one of"),
        "unknown view": (query(view="everything"), "'view' is not one of"),
        "no user": (without(query(), "user"), "'user' is missing"),
        "no audit reference": (query(audit=""), "1 to 128 bytes"),
        "short fingerprint": (query(fingerprint=bytes(31)), "32 to 32 bytes"),
        "fingerprint as text": (query(fingerprint=TINY.digest()), "not a byte string"),
        "remembered until a fraction": (query(**{"remember-until": 1.5}), "not an integer"),
        "empty have": (query(have=[]), "has 0 items"),
        "above 1": (query(above=1.5), "between -1.0 and 1.0"),
        "above an integer": (query(above=0), "not a float"),
        "empty reason": (query(reason=""), "1 to 512 bytes"),
        "reason too long": (query(reason="r" * 513), "1 to 512 bytes"),
        "reason with a line break": (query(reason="a\nb"), "cannot be printed"),
        "short hash prefix": (query(have=[bytes(7)]), "8 to 8 bytes"),
        "hash prefix twice": (query(have=[bytes(8)] * 2), "lists something twice"),
        "257 hash prefixes": (
            query(have=[number.to_bytes(8, "big") for number in range(257)]),
            "has 257 items",
        ),
    }
    replies = {
        "more documents than asked for": (
            result(documents=[document(**{"content-hash": bytes([n]) * 32}) for n in range(6)]),
            "has 6 items, not 0 to 5",
        ),
        "document twice": (result(documents=[document()] * 2), "lists something twice"),
        "a count with documents": (result(count=1), "'count' comes with documents"),
        "a negative count": (result(documents=[], count=-1), "between 0 and"),
        "no attribution": (result(documents=[document(attribution=[])]), "has 0 items"),
        "statement too long": (
            result(documents=[document(attribution=[bytes(2049)])]),
            "1 to 2048 bytes",
        ),
        "score above 1": (result(documents=[document(score=1.5)]), "between -1.0 and 1.0"),
        "score as an integer": (result(documents=[document(score=1)]), "not a float"),
        "unknown key in a document": (result(documents=[document(note="")]), "unknown keys"),
        "document as bytes": (result(documents=[HASH]), "expected a map"),
        "peer referred to twice": (result(referrals=[referral()] * 2), "lists something twice"),
        "33 referrals": (result(referrals=[referral()] * 33), "has 33 items"),
        "no evidence": (
            result(referrals=[without(without(referral(), "advertised"), "remembered")]),
            "neither 'advertised' nor 'remembered'",
        ),
        "not a peer id": (result(referrals=[referral(peer="bob")]), "not an Ed25519 peer id"),
        "no peer record": (result(referrals=[without(referral(), "record")]), "is missing"),
        "evidence without a score": (
            result(referrals=[referral(advertised=[{"document": bytes(8)}])]),
            "'score' is missing",
        ),
        "no advertised document": (result(referrals=[referral(advertised=[])]), "has 0 items"),
        "33 advertised documents": (
            result(referrals=[referral(advertised=[{"score": 0.5}] * 33)]),
            "has 33 items",
        ),
        "advertised document twice": (
            result(referrals=[referral(advertised=[{"score": 0.5, "document": bytes(8)}] * 2)]),
            "lists something twice",
        ),
        "negative error": (
            result(referrals=[referral(advertised=[{"score": 0.5, "error": -0.5}])]),
            "between 0.0 and 1.0",
        ),
        "a question for a reply": (query(), "'type' is not 'result' or 'refusal'"),
    }
    embedded = {
        f"embedding: {name}": (query(embedding=fields), reason)
        for name, (fields, reason) in embeddings.items()
    }
    return [
        *invalid("query", broken(query()) | embedded | requests),
        *invalid("query", {"another dimension": (query(), "expected 16")}, dimension=16),
        *invalid("query-reply", broken(result()) | replies | refusal_invalid()),
    ]


# advertise


def advertisement(**fields: Any) -> Advertisement:
    values: dict[str, Any] = {
        "owner": ALICE.peer_id,
        "fingerprint": TINY.digest(),
        "sequence": 7,
        "issued_at": NOW,
        "expires_at": NOW + 3_600,
        "bits": 4,
        "entries": (HASH[:8].hex(), OTHER_HASH[:8].hex()),
        "vectors": np.stack([ANSWER, QUESTION]),
    }
    return Advertisement(**values | fields)


def advertise_valid() -> list[dict[str, Any]]:
    nothing: dict[str, Any] = {"entries": (), "vectors": np.empty((0, 0), dtype=np.float32)}
    sealed = seal(ALICE, Domain.ADVERTISEMENT, encode_advertisement(advertisement()))
    extended = cbor.decode(encode_advertisement(advertisement()), limit=1 << 16)
    payloads = {
        **{
            f"{bits} bits": encode_advertisement(advertisement(bits=bits)) for bits in (4, 2, 1, 32)
        },
        "a document and a centroid": encode_advertisement(
            advertisement(entries=(HASH[:8].hex(), 3))
        ),
        "clusters with estimates": encode_advertisement(
            advertisement(entries=(0, 1), estimates=ESTIMATES)
        ),
        "float32 with estimates": encode_advertisement(
            advertisement(bits=32, entries=(HASH[:8].hex(), 3), estimates=ESTIMATES)
        ),
        "padding bits": encode_advertisement(
            advertisement(bits=1, vectors=np.stack([ANSWER, QUESTION])[:, :5])
        ),
        "nothing to advertise": encode_advertisement(advertisement(**nothing)),
        "withdrawal": encode_advertisement(advertisement(withdrawn=True, sequence=8, **nothing)),
        "extension": cbor.encode(extended | {"x-note": "ignored"}),
    }
    requests = {
        "first request": encode_advertise_request(AdvertiseRequest()),
        "later request": encode_advertise_request(AdvertiseRequest(known_sequence=7)),
    }
    replies = {
        "sealed advertisement": encode_advertise_reply(sealed),
        "unchanged": encode_advertise_reply(None),
        "refused: paused": cbor.encode(refusal(code="paused", **{"retry-after-s": 600})),
    }
    return [
        *(valid(name, "advertisement", data) for name, data in payloads.items()),
        *(valid(name, "advertise", data) for name, data in requests.items()),
        *(valid(name, "advertise-reply", data) for name, data in replies.items()),
    ]


def advertise_invalid() -> list[dict[str, Any]]:
    base = cbor.decode(encode_advertisement(advertisement()), limit=1 << 16)
    floats = cbor.decode(encode_advertisement(advertisement(bits=32)), limit=1 << 16)
    padded = cbor.decode(
        encode_advertisement(advertisement(bits=1, vectors=np.stack([ANSWER, QUESTION])[:, :5])),
        limit=1 << 16,
    )

    def payload(**fields: Any) -> dict[str, Any]:
        return base | fields

    def vectors(of: dict[str, Any] = base, **fields: Any) -> dict[str, Any]:
        return of | {"vectors": of["vectors"] | fields}

    def numbers(*values: float) -> cbor2.CBORTag:
        return cbor2.CBORTag(85, np.array(values, dtype="<f4").tobytes())

    def estimates(**fields: Any) -> dict[str, Any]:
        return vectors(estimates={"offsets": numbers(0, 0.25), "errors": numbers(0, 0.25)} | fields)

    payloads = {
        "expires when issued": (payload(**{"expires-at": NOW}), "not after 'issued-at'"),
        "a withdrawal with vectors": (payload(withdrawn=True), "a withdrawal has no 'vectors'"),
        "not saying whether withdrawn": (without(base, "withdrawn"), "'withdrawn' is missing"),
        "owner not a peer id": (payload(owner="alice"), "not an Ed25519 peer id"),
        "sequence negative": (payload(sequence=-1), "between 0 and"),
        "3 bits": (vectors(bits=3), "'bits' is not one of"),
        "8 bits": (vectors(bits=8), "'bits' is not one of"),
        "no entries": (vectors(entries=[], codes=b"", factors=numbers()), "has 0 items"),
        "an entry too few": (vectors(entries=[HASH[:8]]), "'codes' is not 4 to 4 bytes"),
        "entry twice": (vectors(entries=[HASH[:8]] * 2), "lists something twice"),
        "entry of 32 bytes": (vectors(entries=[HASH, OTHER_HASH]), "8 to 8 bytes"),
        "entry as text": (vectors(entries=["a", "b"]), "not an integer"),
        "cluster negative": (vectors(entries=[-1, 1]), "between 0 and"),
        "codes too short": (vectors(codes=bytes(7)), "'codes' is not 8 to 8 bytes"),
        "codes too long": (vectors(codes=bytes(9)), "'codes' is not 8 to 8 bytes"),
        "factors missing": (
            base | {"vectors": without(base["vectors"], "factors")},
            "'factors' is missing",
        ),
        "a factor too few": (vectors(factors=numbers(0.9)), "does not hold 2 numbers"),
        "factor too small": (vectors(factors=numbers(0.9, 0.25)), "not between 0.5 and 1"),
        "factor above 1": (vectors(factors=numbers(0.9, 1.5)), "not between 0.5 and 1"),
        "factor not a number": (
            vectors(factors=numbers(0.9, float("nan"))),
            "not between 0.5 and 1",
        ),
        "padding bit set": (vectors(padded, codes=b"\x1f\x3f"), "padding bit"),
        "float32 with factors": (vectors(floats, factors=numbers(1, 1)), "unknown keys"),
        "float32 not a number": (
            vectors(floats, codes=np.full(16, np.nan, dtype="<f4").tobytes()),
            "not finite",
        ),
        "float32 not of unit length": (
            vectors(floats, codes=np.ones(16, dtype="<f4").tobytes()),
            "unit length",
        ),
        "estimates without errors": (
            vectors(estimates={"offsets": numbers(0, 0)}),
            "'errors' is missing",
        ),
        "estimates without offsets": (
            vectors(estimates={"errors": numbers(0, 0)}),
            "'offsets' is missing",
        ),
        "an offset too few": (
            estimates(offsets=numbers(0.25)),
            "'offsets' does not hold 2 numbers",
        ),
        "an error too many": (
            estimates(errors=numbers(0, 0, 0)),
            "'errors' is longer than 8 bytes",
        ),
        "offset too large": (estimates(offsets=numbers(0, 0.75)), "not between -0.5 and 0.5"),
        "offset too small": (estimates(offsets=numbers(0, -0.75)), "not between -0.5 and 0.5"),
        "offset not a number": (
            estimates(offsets=numbers(0, float("nan"))),
            "not between -0.5 and 0.5",
        ),
        "error negative": (estimates(errors=numbers(0, -0.25)), "not between 0 and 0.5"),
        "error too large": (estimates(errors=numbers(0, 0.75)), "not between 0 and 0.5"),
        "errors as bytes": (estimates(errors=bytes(8)), "not a typed array"),
        "unknown key in the estimates": (estimates(note=""), "unknown keys"),
        "dimension 0": (vectors(dimension=0), "between 1 and 4096"),
        "unknown key in the vectors": (vectors(note=""), "unknown keys"),
    }
    return [
        *invalid("advertisement", broken(base) | payloads),
        *invalid("advertisement", {"another dimension": (base, "expected 16")}, dimension=16),
        *invalid(
            "advertise",
            {
                "known sequence as text": (
                    {"type": "get", "known-sequence": "7"},
                    "not an integer",
                ),
                "request too long": (
                    {"type": "get", "x-n": bytes(1024)},
                    "exceed the limit of 1024",
                ),
                "request of another type": ({"type": "put"}, "'type' is not 'get'"),
            },
        ),
        *invalid(
            "advertise-reply",
            {
                "no object": ({"type": "advertisement"}, "'object' is missing"),
                "object empty": ({"type": "advertisement", "object": b""}, "not 1 to"),
                "unchanged with an object": (
                    {"type": "unchanged", "object": b"x"},
                    "unknown keys",
                ),
            }
            | refusal_invalid(),
        ),
    ]


def sample_vector(dimension: int) -> Vector:
    """Component i is ((7919 i + 13) mod 257) - 128, before the vector is put to unit length."""
    return ((np.arange(dimension) * 7919 + 13) % 257 - 128).astype(np.float32)


def rotations() -> list[dict[str, Any]]:
    """The rotation of a few dimensions; of the larger ones, digests."""
    vectors = []
    for dimension in (5, 8, 12, 384, 768):
        rounds = []
        for signs, permutation in rotation(dimension):
            listed = {"signs": signs.astype(int).tolist(), "permutation": permutation.tolist()}
            rounds.append(
                listed
                if dimension <= 12
                else {
                    f"{name}-sha256": hashlib.sha256(
                        ",".join(map(str, values)).encode()
                    ).hexdigest()
                    for name, values in listed.items()
                }
            )
        vector: dict[str, Any] = {"dimension": dimension, "rounds": rounds}
        if dimension <= 12:
            sample = sample_vector(dimension)
            vector |= {"vector": sample.tolist(), "rotated": rounded(rotate(sample[None])[0])}
        vectors.append(vector)
    return vectors


def codes() -> list[dict[str, Any]]:
    """Codes and factors of the sample vector of each dimension."""
    vectors = []
    for dimension in (5, 8, 12, 384, 768):
        for bits in (4, 2, 1):
            packed, factors = encode_codes(sample_vector(dimension)[None], bits)
            vectors.append(
                {
                    "dimension": dimension,
                    "bits": bits,
                    "code": packed[0].tobytes().hex(),
                    "factor": round(float(factors[0]), 6),
                }
            )
    return vectors


# fetch


def fetch(**fields: Any) -> dict[str, Any]:
    return {
        "type": "fetch",
        "documents": [HASH, OTHER_HASH],
        "purpose": "TREAT",
        "user": "u-7f3a",
        "audit": "2027-01-15/0042",
        "view": "whole",
        "deadline-ms": 10_000,
    } | fields


CONTENT = cbor.encode({"title": "Answer", "text": "Yes.", "part": 0, "parts": 1})


def sent(**fields: Any) -> dict[str, Any]:
    return {
        "type": "document",
        "content-hash": HASH,
        "content": CONTENT,
        "attribution": [b"statement"],
        "release": b"release",
    } | fields


def refused(**fields: Any) -> dict[str, Any]:
    return {
        "type": "refused",
        "content-hash": OTHER_HASH,
        "code": "denied",
        "reason": "the collection 'staff' is not shared",
    } | fields


def documents(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "documents", "items": list(items)} | fields


def fetch_valid() -> list[dict[str, Any]]:
    both = [HASH.hex(), OTHER_HASH.hex()]
    requests = {
        "two documents": fetch(),
        "one title": fetch(documents=[HASH], view="title"),
        "as many as allowed": fetch(documents=[bytes([number]) * 32 for number in range(32)]),
        "research": fetch(purpose="HRESCH", view="count", **{"deadline-ms": 3_600_000}),
        "emergency, with a reason": fetch(purpose="ETREAT", reason="unconscious, no kin"),
        "extension": fetch(**{"x-note": "ignored"}),
    }
    copy = sent(attribution=[b"statement", b"custody"])
    salted = cbor.decode(CONTENT, limit=1024) | {"salt": bytes(range(16))}
    replies = {
        "one sent, one refused": (documents(sent(), refused()), both),
        "salted content": (documents(sent(content=cbor.encode(salted))), both[:1]),
        "a copy": (documents(copy), both[:1]),
        "no reason given": (documents(refused(reason="")), both[1:]),
        "refused as a whole": (refusal(code="hello-required", reason="say hello first"), both),
    }
    return [
        *(valid(name, "fetch", cbor.encode(fields)) for name, fields in requests.items()),
        *(
            valid(name, "fetch-reply", cbor.encode(fields), asked=hashes)
            for name, (fields, hashes) in replies.items()
        ),
    ]


def fetch_invalid() -> list[dict[str, Any]]:
    requests = {
        "no documents": (fetch(documents=[]), "has 0 items"),
        "33 documents": (
            fetch(documents=[bytes([number]) * 32 for number in range(33)]),
            "has 33 items",
        ),
        "document twice": (fetch(documents=[HASH, HASH]), "lists something twice"),
        "hash prefix": (fetch(documents=[HASH[:8]]), "32 to 32 bytes"),
        "hash as text": (fetch(documents=[HASH.hex()]), "not a byte string"),
        "empty reason": (fetch(reason=""), "1 to 512 bytes"),
        "reason with an escape sequence": (fetch(reason="\x1b[2J"), "cannot be printed"),
        "unknown purpose": (fetch(purpose="treat"), "'purpose' is not one of"),
        "no purpose": (without(fetch(), "purpose"), "'purpose' is missing"),
        "no audit reference": (without(fetch(), "audit"), "'audit' is missing"),
        "no view": (without(fetch(), "view"), "'view' is missing"),
        "deadline too long": (fetch(**{"deadline-ms": 3_600_001}), "between 1 and 3600000"),
    }
    replies = {
        "another document": (documents(sent(**{"content-hash": OTHER_HASH})), "asked for"),
        "one more than asked for": (documents(sent(), refused()), "asked for"),
        "none": (documents(), "asked for"),
        "no content": (documents(sent(content=b"")), "1 to 1048576 bytes"),
        "no attribution": (documents(without(sent(), "attribution")), "'attribution' is missing"),
        "nine links": (documents(sent(attribution=[b"link"] * 9)), "has 9 items"),
        "no release": (documents(without(sent(), "release")), "'release' is missing"),
        "release too long": (documents(sent(release=bytes(8193))), "1 to 8192 bytes"),
        "unknown key": (documents(sent(note="")), "unknown keys"),
        "item without a type": (documents(without(sent(), "type")), "'type' is missing"),
        "item of another type": (documents(sent(type="maybe")), "'type' is not one of"),
        "refused with content": (
            documents(refused(content=b"x")),
            "unknown keys",
        ),
        "refused without a code": (documents(without(refused(), "code")), "'code' is missing"),
    }
    hashes = [HASH.hex()]
    return [
        *invalid("fetch", broken(fetch()) | requests),
        *invalid("fetch-reply", broken(documents(sent())) | replies, asked=hashes),
        *invalid("fetch-reply", refusal_invalid(), asked=hashes),
    ]


if __name__ == "__main__":
    for name, content in build().items():
        path = PROTOCOLS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(content))
