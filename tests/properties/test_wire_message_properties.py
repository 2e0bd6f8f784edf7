"""Messages survive the wire, and no bytes of another peer raise anything but `DecodeError`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p import cbor
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.identity.keys import peer_id_from_public_key
from zerorag_p2p.model import Fingerprint, Purpose, RefusalCode, Vector, View
from zerorag_p2p.wire.advertise import (
    Advertisement,
    Estimates,
    decode_advertise_reply,
    decode_advertise_request,
    decode_advertisement,
    encode_advertisement,
)
from zerorag_p2p.wire.codes import CODE_BITS
from zerorag_p2p.wire.embedding import Encoding, transmitted
from zerorag_p2p.wire.fetch import (
    FetchedDocument,
    FetchRefused,
    FetchRequest,
    FetchResult,
    decode_fetch,
    decode_fetch_reply,
    encode_fetch,
    encode_fetch_result,
)
from zerorag_p2p.wire.hello import Hello, decode_hello, decode_hello_reply, encode_hello
from zerorag_p2p.wire.query import (
    AdvertisedEvidence,
    QueryRequest,
    QueryResult,
    Referral,
    ResultDocument,
    decode_query,
    decode_query_reply,
    encode_query,
    encode_query_result,
)
from zerorag_p2p.wire.refusal import Refusal, encode_refusal

PROTOCOLS = Path(__file__).parents[2] / "protocols"

DECODERS: list[Callable[[bytes], Any]] = [
    decode_hello,
    decode_hello_reply,
    decode_query,
    decode_query_reply,
    decode_advertise_request,
    decode_advertise_reply,
    decode_advertisement,
    decode_fetch,
    lambda data: decode_fetch_reply(data, asked=["00" * 32]),
]


def samples() -> list[bytes]:
    return [
        bytes.fromhex(vector["hex"])
        for folder in ("hello", "query", "advertise", "fetch")
        for vector in json.loads((PROTOCOLS / folder / "vectors/valid.json").read_text())
    ]


SAMPLES = samples()


def decode_with_all(data: bytes) -> None:
    for decoder in DECODERS:
        with contextlib.suppress(DecodeError):
            decoder(data)


@given(st.binary(max_size=64))
def test_random_bytes(data: bytes) -> None:
    decode_with_all(data)


@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 4096),
)
def test_altered_messages(data: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    changed = bytearray(data)
    for place, value in changes:
        changed[place % len(changed)] = value
    decode_with_all(bytes(changed))
    decode_with_all(bytes(changed[: cut % len(changed)]))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=40)
    | st.builds(cbor2.CBORTag, st.sampled_from([2, 72, 81, 84, 85]), st.binary(max_size=16)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(SAMPLES), st.data())
def test_well_formed_messages_with_a_field_that_is_anything(
    data: bytes, draw: st.DataObject
) -> None:
    fields = cbor.decode(data, limit=1 << 20)
    places = [fields]
    while places:
        place = places.pop()
        key = draw.draw(st.sampled_from(sorted(place)))
        inner = place[key]
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            [inner, *_] = inner
        if isinstance(inner, dict) and inner and draw.draw(st.booleans()):
            places.append(inner)
        elif draw.draw(st.booleans()):
            place[key] = draw.draw(values)
        else:
            del place[key]
    decode_with_all(cbor.encode(fields))


names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=30)
numbers = st.integers(0, 2**53 - 1)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
prefixes = st.binary(min_size=8, max_size=8).map(bytes.hex)
peers = st.binary(min_size=32, max_size=32).map(peer_id_from_public_key)
scores = st.floats(-1, 1)
chains = st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=8).map(tuple)
deadlines = st.integers(1, 3_600_000)
fingerprints = st.builds(
    Fingerprint, names, names, st.integers(1, 4096), names, st.booleans(), names
)


@st.composite
def vectors(draw: st.DrawFn, dimension: int = 12) -> Vector:
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    return generator.standard_normal(dimension).astype(np.float32)


@given(
    st.builds(
        Hello,
        consortium=names,
        roster_version=numbers,
        fingerprints=st.lists(fingerprints, min_size=1, max_size=4, unique=True).map(tuple),
        protocols=st.lists(names, max_size=16, unique=True).map(tuple),
        clock_ms=numbers,
        software=names,
        record=st.binary(min_size=1, max_size=99),
    )
)
def test_hello(hello: Hello) -> None:
    assert decode_hello(encode_hello(hello)) == hello
    assert decode_hello_reply(encode_hello(hello)) == hello


@given(
    st.builds(
        QueryRequest,
        embedding=vectors().map(transmitted),
        encoding=st.just(Encoding.INT8),
        fingerprint=hashes,
        k=st.integers(1, 100),
        budget_left=st.integers(0, 10_000),
        deadline_ms=deadlines,
        purpose=st.sampled_from(Purpose),
        user=names,
        audit=names,
        view=st.sampled_from(View),
        remember_until=st.none() | numbers,
        have=st.lists(prefixes, max_size=256, unique=True).map(tuple),
        reason=st.none() | names,
    )
)
def test_query(request: QueryRequest) -> None:
    data = encode_query(request)
    received = decode_query(data, dimension=12)
    assert received.embedding.tobytes() == request.embedding.tobytes()
    assert received.have == request.have
    assert received.above == request.above
    assert received.remember_until == request.remember_until
    assert received.reason == request.reason
    assert encode_query(received) == data


documents = st.builds(
    ResultDocument,
    content_hash=hashes,
    embedding=st.none() | vectors(),
    score=scores,
    attribution=chains,
)
referrals = st.builds(
    Referral,
    peers,
    st.binary(min_size=1, max_size=99),
    st.lists(
        st.builds(AdvertisedEvidence, scores, st.none() | prefixes, st.floats(0, 1)),
        min_size=1,
        max_size=4,
        unique_by=lambda item: item.document,
    ).map(tuple),
    st.none() | scores,
) | st.builds(Referral, peers, st.binary(min_size=1, max_size=99), st.just(()), scores)


@given(
    st.lists(documents, max_size=5, unique_by=lambda item: item.content_hash).map(tuple),
    st.lists(referrals, max_size=32, unique_by=lambda item: item.peer).map(tuple),
)
def test_query_result(
    documents: tuple[ResultDocument, ...], referrals: tuple[Referral, ...]
) -> None:
    data = encode_query_result(QueryResult(documents, referrals))
    received = decode_query_reply(data, k=5, dimension=12)
    assert isinstance(received, QueryResult)
    assert received.referrals == referrals
    assert [item.score for item in received.documents] == [item.score for item in documents]
    assert encode_query_result(received) == data


@given(numbers, st.lists(referrals, max_size=32, unique_by=lambda item: item.peer).map(tuple))
def test_count(count: int, referrals: tuple[Referral, ...]) -> None:
    result = QueryResult((), referrals, count)
    assert decode_query_reply(encode_query_result(result), k=5) == result


@given(
    st.builds(
        FetchRequest,
        documents=st.lists(hashes, min_size=1, max_size=32, unique=True).map(tuple),
        purpose=st.sampled_from(Purpose),
        user=names,
        audit=names,
        view=st.sampled_from(View),
        deadline_ms=deadlines,
        reason=st.none() | names,
    )
)
def test_fetch(request: FetchRequest) -> None:
    assert decode_fetch(encode_fetch(request)) == request


@given(
    st.lists(
        st.builds(
            FetchedDocument,
            content_hash=hashes,
            content=st.binary(min_size=1, max_size=99),
            attribution=chains,
            release=st.binary(min_size=1, max_size=99),
        )
        | st.builds(FetchRefused, hashes, st.sampled_from(RefusalCode), names),
        max_size=32,
    )
)
def test_fetch_result(items: list[FetchedDocument | FetchRefused]) -> None:
    result = FetchResult(tuple(items))
    asked = [item.content_hash for item in items]
    assert decode_fetch_reply(encode_fetch_result(result), asked=asked) == result


@given(
    st.lists(prefixes | numbers, max_size=20, unique=True),
    st.sampled_from(CODE_BITS),
    hashes,
    st.booleans(),
)
def test_advertisement(entries: list[Any], bits: int, fingerprint: str, estimated: bool) -> None:
    generator = np.random.default_rng(len(entries))
    estimates = Estimates(
        offsets=generator.uniform(-0.5, 0.5, len(entries)).astype(np.float32),
        errors=generator.uniform(0.0, 0.5, len(entries)).astype(np.float32),
    )
    sent = Advertisement(
        owner=peer_id_from_public_key(bytes(32)),
        fingerprint=fingerprint,
        sequence=1,
        issued_at=10,
        expires_at=11,
        bits=bits,
        entries=tuple(entries),
        vectors=generator.standard_normal((len(entries), 12)).astype(np.float32),
        estimates=estimates if estimated else None,
    )
    received = decode_advertisement(encode_advertisement(sent), dimension=12)
    assert received.entries == sent.entries
    if entries:
        units = sent.vectors / np.linalg.norm(sent.vectors, axis=1, keepdims=True)
        assert (units * received.vectors).sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    if received.estimates is None:
        assert not (entries and estimated)
    else:
        assert np.array_equal(received.estimates.offsets, estimates.offsets)
        assert np.array_equal(received.estimates.errors, estimates.errors)


@given(st.sampled_from(RefusalCode), st.text(max_size=2_000), st.none() | st.integers(0, 1_000_000))
def test_any_refusal_can_be_sent(code: RefusalCode, reason: str, retry_after_s: int | None) -> None:
    data = encode_refusal(Refusal(code, reason, retry_after_s))
    for decode in (decode_hello_reply, decode_query_reply, decode_advertise_reply):
        received = decode(data)
        assert isinstance(received, Refusal)
        assert received.code is code
        assert (received.retry_after_s is None) == (retry_after_s is None)
        assert len(received.reason.encode()) <= 512
