from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.config import MAX_INTEGER
from zerorag_p2p.errors import AttributionError, DecodeError, IntegrityError, RosterError
from zerorag_p2p.identity import cose, keys
from zerorag_p2p.identity.attribution import open_custody, open_statement, sign_statement
from zerorag_p2p.identity.enrolment import (
    JoinRequest,
    approve,
    create_roster,
    open_join_request,
    revoke,
    sign_join_request,
)
from zerorag_p2p.identity.envelope import Domain, open_envelope, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import open_record, sign_record
from zerorag_p2p.identity.release import open_release, sign_release
from zerorag_p2p.identity.roster import accept_roster, open_roster, sign_roster
from zerorag_p2p.model import ContentHash, Fingerprint, PeerId, Purpose, SharingTerms, View

ALICE, BOB = Identity.from_seed(bytes([1]) * 32), Identity.from_seed(bytes([2]) * 32)
NOW = 1_800_000_000
DAY = 86_400
FINGERPRINT = Fingerprint("model", "revision", 384)

seeds = st.binary(min_size=32, max_size=32)
times = st.integers(0, MAX_INTEGER)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
names = st.text(min_size=1, max_size=30).filter(str.isprintable)
purposes = st.lists(st.sampled_from(Purpose), unique=True, max_size=7).map(tuple)
terms = st.builds(SharingTerms, st.booleans(), st.booleans(), purposes, st.none() | times)

STATEMENT: dict[str, Any] = {
    "content_hash": ContentHash("00" * 32),
    "embedding_hash": "11" * 32,
    "fingerprint": FINGERPRINT.digest(),
    "collection": "guidelines",
    "terms": SharingTerms(),
    "consortium": "sample",
    "now": NOW,
}
REQUEST = sign_join_request(
    BOB, organisation="North", addresses=[], fingerprints=[FINGERPRINT], now=NOW
)
ROSTER = create_roster("sample", [ALICE.peer_id], fingerprints=[FINGERPRINT], now=NOW)
MESSAGES = (
    sign_record(ALICE, ["/ip4/192.0.2.1/tcp/4001"], 1),
    REQUEST,
    sign_roster(
        approve(ROSTER, open_join_request(REQUEST), roles=["a"], not_after=NOW + DAY, now=NOW),
        ALICE,
    ),
    sign_statement(ALICE, **STATEMENT),
)
OPENERS = (open_record, open_join_request, open_roster, open_statement, open_custody, open_release)


@given(seeds)
def test_a_key_survives_its_file_and_its_peer_id(seed: bytes) -> None:
    identity = Identity.from_seed(seed)
    assert keys.decode_key_file(keys.encode_key_file(identity)).seed == seed
    assert keys.public_key_of(identity.peer_id) == identity.public_key


@given(st.text(max_size=60) | st.binary(min_size=38, max_size=38).map(lambda raw: raw.hex()))
def test_texts_are_peer_ids_in_one_form_only(text: str) -> None:
    with contextlib.suppress(DecodeError):
        assert keys.peer_id_from_public_key(keys.public_key_of(PeerId(text))) == text


@given(seeds, st.sampled_from(Domain), st.binary(max_size=200))
def test_envelope_and_cose_give_back_what_was_signed(
    seed: bytes, domain: Domain, payload: bytes
) -> None:
    identity = Identity.from_seed(seed)
    envelope = open_envelope(seal(identity, domain, payload), domain, limit=1000)
    assert (envelope.signer, envelope.payload) == (identity.peer_id, payload)
    message = cose.sign1(identity, payload, aad=domain.encode())
    assert cose.verify1(message, aad=domain.encode(), limit=1000) == (identity.peer_id, payload)


@given(digests, digests, names, terms, times)
def test_statement_round_trip(
    content: str, embedding: str, name: str, terms: SharingTerms, now: int
) -> None:
    fields = STATEMENT | {
        "content_hash": ContentHash(content),
        "embedding_hash": embedding,
        "collection": name,
        "terms": terms,
        "consortium": name,
        "now": now,
    }
    statement = open_statement(sign_statement(ALICE, **fields))
    assert (statement.owner, statement.issued_at) == (ALICE.peer_id, fields.pop("now"))
    for field, value in fields.items():
        assert getattr(statement, field) == value


@given(
    st.binary(max_size=100),
    st.sampled_from(View),
    st.lists(names, unique=True, max_size=5),
    st.sampled_from(Purpose),
    times,
)
def test_release_round_trip(
    content: bytes, view: View, redaction: list[str], purpose: Purpose, now: int
) -> None:
    release = open_release(
        sign_release(
            ALICE,
            content,
            content_hash=ContentHash("00" * 32),
            view=view,
            redaction=redaction,
            receiver=BOB.peer_id,
            purpose=purpose,
            now=now,
        )
    )
    assert (release.sender, release.receiver) == (ALICE.peer_id, BOB.peer_id)
    assert (release.view, release.redaction, release.purpose) == (view, tuple(redaction), purpose)
    assert release.issued_at == now


@given(st.sampled_from(OPENERS), st.sampled_from(MESSAGES), st.data())
def test_mutated_messages_are_refused_with_a_remote_error(
    opener: Any, message: bytes, data: st.DataObject
) -> None:
    mutated = bytearray(message)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(mutated) - 1))
        mutated[position] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.integers(0, len(mutated)))
    with contextlib.suppress(DecodeError, IntegrityError):
        opened = opener(bytes(mutated[:end]))
        # Two mutations of one byte may cancel out; nothing else passes.
        assert mutated[:end] == message, opened


@given(st.sampled_from(OPENERS), st.binary(max_size=300))
def test_random_bytes_are_refused_with_a_remote_error(opener: Any, data: bytes) -> None:
    with contextlib.suppress(DecodeError, RosterError, AttributionError):
        opener(data)
        raise AssertionError("random bytes were accepted")


identities = [Identity.from_seed(bytes([number]) * 32) for number in range(10, 18)]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=20))
def test_any_history_of_changes_is_accepted_version_by_version(
    history: list[tuple[bool, int]],
) -> None:
    held = ROSTER
    for joins, index in history:
        peer = identities[index].peer_id
        request = JoinRequest(peer, "North", (), (FINGERPRINT,), NOW)
        try:
            if joins:
                newer = approve(held, request, roles=[], not_after=NOW + DAY, now=NOW)
            else:
                newer = revoke(held, peer, "left", NOW)
        except RosterError:
            continue  # revoked before, or not a member
        assert newer.version == held.version + 1
        assert accept_roster(held, sign_roster(newer, ALICE), NOW) == newer
        assert (newer.member(peer) is not None) == joins
        assert (newer.former_member(peer) is not None) == (not joins)
        held = newer
