"""Audit entries survive the disk, and no bytes raise anything but what says that they are none."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.audit import events
from zerorag_p2p.audit.entries import (
    GENESIS,
    Position,
    TornEntry,
    decode_entry,
    encode_entry,
)
from zerorag_p2p.audit.events import CollectionNote, Decided, DocumentNote, Event, Given
from zerorag_p2p.audit.segments import Chain, contents
from zerorag_p2p.config import (
    AUDIT_ENTRY_LIMIT,
    MAX_AUDIT_COLLECTIONS,
    MAX_AUDIT_DOCUMENTS,
    MAX_INTEGER,
    MAX_REDACTIONS,
)
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.identity.keys import peer_id_from_public_key
from zerorag_p2p.model import ContentHash, Purpose, View

names = st.text(st.characters(categories=["L", "N", "P"]), max_size=20)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
integers = st.integers(0, MAX_INTEGER)
notes = st.lists(
    st.builds(
        DocumentNote,
        content_hash=digests,
        collection=names,
        given=st.sampled_from(Given),
        rule=names,
        redacted=st.lists(names.filter(bool), max_size=3, unique=True).map(tuple),
    ),
    max_size=3,
).map(tuple)
collections = st.lists(
    st.builds(CollectionNote, collection=names, decided=st.sampled_from(Decided), rule=names),
    max_size=3,
).map(tuple)
peers = st.binary(min_size=32, max_size=32).map(peer_id_from_public_key)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "peer": peers,
    "owner": peers,
    "purpose": st.sampled_from(Purpose),
    "view": st.sampled_from(View),
    "query": digests,
    "digest": digests,
    "text": st.none() | names,
    "documents": notes,
    "collections": collections,
    "until": integers,
    "count": st.none() | integers,
    "received": integers,
    "sent": integers,
    "version": integers,
    "members": st.integers(0, 10_000),
    "former": integers,
    "paused": st.booleans(),
    "cut": integers,
    "up_to": integers,
    "seal": st.binary(min_size=1, max_size=40),
}

KINDS = {
    kind.kind: kind
    for kind in vars(events).values()
    if dataclasses.is_dataclass(kind) and hasattr(kind, "kind")
}


def of_kind(name: str) -> st.SearchStrategy[Event]:
    kind = KINDS[name]
    fields = {item.name: FIELDS.get(item.name, names) for item in dataclasses.fields(kind)}
    return st.builds(kind, **fields)


any_event = st.sampled_from(events.KINDS).flatmap(of_kind)
times = st.integers(0, 4_000_000_000_000).map(lambda milliseconds: milliseconds / 1000)


def test_every_kind_is_tried() -> None:
    assert set(KINDS) == set(events.KINDS)


@given(any_event, times, integers.map(lambda number: min(number, MAX_INTEGER - 1)))
def test_entries_come_back(event: Event, at: float, sequence: int) -> None:
    before = Position(sequence, GENESIS)
    frame, position = encode_entry(event, at, before)
    entry, end = decode_entry(frame, 0)
    assert end == len(frame)
    assert (entry.event(), entry.at, entry.previous) == (event, at, GENESIS)
    assert entry.position == position
    assert not Chain(before).follow(entry)


@given(st.lists(any_event, max_size=5), st.data())
def test_a_log_cut_anywhere_holds_its_whole_entries(
    found: list[Event], data: st.DataObject
) -> None:
    log, ends, position = b"", [0], Position()
    for event in found:
        frame, position = encode_entry(event, 1.0, position)
        log += frame
        ends.append(len(log))
    size = data.draw(st.integers(0, len(log)))
    held = contents(log[:size])
    assert held.size == max(end for end in ends if end <= size)
    assert held.rest == size - held.size
    assert not held.fault
    assert [entry.event() for entry in held.entries] == found[: len(held.entries)]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_entry_are_refused(data: bytes) -> None:
    with pytest.raises((TornEntry, DecodeError)):
        decode_entry(data, 0)


@given(st.text(max_size=3_000))
def test_what_others_write_is_kept_printable_and_within_bounds(text: str) -> None:
    event = events.AnsweringPaused(paused=True, reason=text)
    frame, _ = encode_entry(event, 1.0, Position())
    kept = decode_entry(frame, 0)[0].event()
    assert isinstance(kept, events.AnsweringPaused)
    assert kept.reason.isprintable()
    assert len(kept.reason.encode()) <= 512
    assert len(kept.reason) == len(text) or len(text.encode()) > 512 - 4


def test_the_longest_entry_is_within_its_limit() -> None:
    longest = "\N{SNOWMAN}" * 10_000
    note = DocumentNote(
        content_hash=ContentHash("f" * 64),
        collection="c" * 128,
        given=Given.EMBEDDING,
        rule=longest,
        redacted=tuple(f"{number:0128}" for number in range(MAX_REDACTIONS)),
    )
    denied = CollectionNote(collection="c" * 128, decided=Decided.DENIED, rule=longest)
    event = events.QueryAnswered(
        reference=longest,
        peer=peer_id_from_public_key(bytes(32)),
        organisation=longest,
        user=longest,
        purpose=Purpose.ETREAT,
        view=View.WHOLE,
        query="f" * 64,
        outcome=longest,
        reason=longest,
        collections=(denied,) * (MAX_AUDIT_COLLECTIONS + 1),
        documents=(note,) * (MAX_AUDIT_DOCUMENTS + 1),
        count=MAX_INTEGER,
        received=MAX_INTEGER,
        sent=MAX_INTEGER,
    )
    frame, _ = encode_entry(event, 1.0, Position())
    assert len(frame) < AUDIT_ENTRY_LIMIT
    kept = decode_entry(frame, 0)[0].event()
    assert isinstance(kept, events.QueryAnswered)
    assert len(kept.documents) == MAX_AUDIT_DOCUMENTS
    assert len(kept.collections) == MAX_AUDIT_COLLECTIONS
    assert kept.documents[0].redacted == note.redacted
