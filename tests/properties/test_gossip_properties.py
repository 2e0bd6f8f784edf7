"""Gossip messages survive the wire, and no bytes raise anything but `DecodeError`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.config import (
    AUDIT_HEAD_LIMIT,
    GOSSIP_ADVERTISEMENT_BYTES,
    GOSSIP_LIMIT,
    MAX_DIMENSION,
    MAX_GOSSIP_ADVERTISEMENTS,
    MAX_GOSSIP_AGE,
    MAX_GOSSIP_ENTRIES,
    MAX_GOSSIP_RECORDS,
    MAX_GOSSIP_UPDATES,
    MAX_GOSSIP_WITHDRAWALS,
    MAX_INTEGER,
    MAX_KNOWN_ADVERTISEMENTS,
    MAX_PULLED_WITHDRAWALS,
    RECORD_LIMIT,
    WITHDRAWAL_LIMIT,
)
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.identity.keys import peer_id_from_public_key
from zerorag_p2p.identity.withdrawal import decode_withdrawal
from zerorag_p2p.wire.embedding import transmitted
from zerorag_p2p.wire.gossip import (
    Accusation,
    Ack,
    AdvertisementsReply,
    AdvertisementsRequest,
    Entry,
    Exchange,
    GossipReply,
    GossipRequest,
    Nack,
    News,
    PassedOn,
    Ping,
    PingRequest,
    RosterReply,
    RosterRequest,
    Update,
    WithdrawalsReply,
    WithdrawalsRequest,
    decode_gossip,
    decode_gossip_reply,
    encode_gossip,
    encode_gossip_reply,
)

VECTORS = Path(__file__).parents[2] / "protocols/gossip/vectors/valid.json"
SAMPLES = [bytes.fromhex(vector["hex"]) for vector in json.loads(VECTORS.read_text())]

peers = st.binary(min_size=32, max_size=32).map(peer_id_from_public_key)
objects = st.lists(st.binary(min_size=1, max_size=40), max_size=4, unique=True).map(tuple)
updates = st.lists(
    st.builds(
        Update, peers, st.sampled_from(Accusation), st.integers(min_value=0, max_value=MAX_INTEGER)
    ),
    max_size=4,
    unique_by=lambda update: update.peer,
).map(tuple)
news = st.builds(
    News,
    roster_version=st.none() | st.integers(0, MAX_INTEGER),
    records=objects,
    updates=updates,
    withdrawals=objects,
    withdrawals_held=st.just(b"") | st.binary(min_size=16, max_size=16),
)
entries = st.lists(
    st.builds(Entry, st.binary(min_size=1, max_size=40), st.integers(0, MAX_GOSSIP_AGE)),
    max_size=6,
    unique_by=lambda entry: entry.record,
).map(tuple)
heads = st.none() | st.binary(min_size=1, max_size=AUDIT_HEAD_LIMIT)
requests = (
    st.builds(Exchange, entries, news, head=heads)
    | st.builds(Ping, news)
    | st.builds(PingRequest, peers, st.integers(1, 3_600_000), news)
    | st.builds(RosterRequest, st.integers(0, MAX_INTEGER))
    | st.builds(
        WithdrawalsRequest,
        st.sets(st.binary(min_size=8, max_size=8), max_size=4).map(sorted).map(tuple),
    )
)


@given(requests)
def test_requests_come_back(request: GossipRequest) -> None:
    assert decode_gossip(encode_gossip(request)) == request


@given(
    st.tuples(st.just(Exchange(())), st.builds(Exchange, entries, news, your_head=heads))
    | st.tuples(st.just(Ping()), st.builds(Ack, news))
    | st.tuples(peers.map(lambda peer: PingRequest(peer, 1)), st.builds(Nack, news))
    | st.tuples(
        st.just(RosterRequest(1)),
        st.builds(RosterReply, st.none() | st.binary(min_size=1, max_size=40)),
    )
)
def test_replies_come_back(exchange: tuple[GossipRequest, GossipReply]) -> None:
    asked, reply = exchange
    assert decode_gossip_reply(encode_gossip_reply(reply), asked=asked) == reply


@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 4_096), st.integers(0, 255)), max_size=4),
    st.integers(0, 4_096),
)
def test_altered_messages(data: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    changed = bytearray(data)
    for place, value in changes:
        changed[place % len(changed)] = value
    for message in (bytes(changed), bytes(changed[: cut % len(changed)])):
        for decode in (decode_gossip, decode_withdrawal):
            with contextlib.suppress(DecodeError):
                decode(message)
        for asked in (Exchange(()), Ping(), RosterRequest(1), AdvertisementsRequest(())):
            with contextlib.suppress(DecodeError):
                decode_gossip_reply(message, asked=asked)


def filled(count: int, size: int) -> tuple[bytes, ...]:
    return tuple(number.to_bytes(2, "big") + bytes(size - 2) for number in range(count))


def test_the_fullest_message_fits() -> None:
    everybody = [peer_id_from_public_key(bytes([number]) * 32) for number in range(64)]
    news = News(
        roster_version=MAX_INTEGER,
        records=filled(MAX_GOSSIP_RECORDS, RECORD_LIMIT),
        updates=tuple(
            Update(peer, Accusation.SUSPECT, MAX_INTEGER) for peer in everybody[:MAX_GOSSIP_UPDATES]
        ),
        withdrawals=filled(MAX_GOSSIP_WITHDRAWALS, WITHDRAWAL_LIMIT),
    )
    entries = tuple(
        Entry(record, MAX_GOSSIP_AGE) for record in filled(MAX_GOSSIP_ENTRIES, RECORD_LIMIT)
    )
    data = encode_gossip(Exchange(entries, news))
    assert len(data) <= GOSSIP_LIMIT
    assert decode_gossip(data) == Exchange(entries, news)


passed_on = st.builds(
    PassedOn, st.binary(min_size=1, max_size=40), st.none() | st.binary(min_size=1, max_size=40)
)


@given(
    st.lists(st.binary(min_size=4, max_size=4), unique=True, max_size=8),
    st.none() | st.integers(1, 40),
)
def test_what_is_asked_of_advertisements_comes_back(
    digests: list[bytes], dimension: int | None
) -> None:
    near = None if dimension is None else np.arange(1, dimension + 1, dtype=np.float32)
    request = AdvertisementsRequest(tuple(sorted(digests)), near)
    decoded = decode_gossip(encode_gossip(request))
    assert isinstance(decoded, AdvertisementsRequest)
    assert decoded.known == request.known
    if near is None:
        assert decoded.near is None
    else:
        assert decoded.near is not None
        assert (decoded.near == transmitted(near)).all()


@given(st.lists(passed_on, max_size=4, unique_by=lambda item: item.sealed))
def test_advertisements_passed_on_come_back(items: list[PassedOn]) -> None:
    reply = AdvertisementsReply(tuple(items))
    assert decode_gossip_reply(encode_gossip_reply(reply), asked=AdvertisementsRequest(())) == reply


def test_the_longest_list_of_known_advertisements_fits() -> None:
    known = tuple(number.to_bytes(4, "big") for number in range(MAX_KNOWN_ADVERTISEMENTS))
    near = np.ones(MAX_DIMENSION, dtype=np.float32)
    decoded = decode_gossip(encode_gossip(AdvertisementsRequest(known, near)))
    assert isinstance(decoded, AdvertisementsRequest)
    assert decoded.known == known


def test_the_most_advertisements_fit_and_are_bounded_together() -> None:
    size = GOSSIP_ADVERTISEMENT_BYTES // MAX_GOSSIP_ADVERTISEMENTS
    record = bytes(RECORD_LIMIT)
    asked = AdvertisementsRequest(())
    fullest = AdvertisementsReply(
        tuple(PassedOn(sealed, record) for sealed in filled(MAX_GOSSIP_ADVERTISEMENTS, size))
    )
    assert decode_gossip_reply(encode_gossip_reply(fullest), asked=asked) == fullest
    too_much = AdvertisementsReply(tuple(map(PassedOn, filled(3, GOSSIP_ADVERTISEMENT_BYTES // 2))))
    with pytest.raises(DecodeError, match="bytes together"):
        decode_gossip_reply(encode_gossip_reply(too_much), asked=asked)


def test_the_most_withdrawals_fit_one_reply() -> None:
    fullest = WithdrawalsReply(filled(MAX_PULLED_WITHDRAWALS, WITHDRAWAL_LIMIT))
    encoded = encode_gossip_reply(fullest)
    assert decode_gossip_reply(encoded, asked=WithdrawalsRequest(())) == fullest
