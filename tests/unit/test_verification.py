from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from zerorag_p2p.errors import AttributionError, UsageError
from zerorag_p2p.identity.attribution import (
    Fault,
    embedding_hash,
    open_statement,
    sign_custody,
    sign_statement,
    verify_chain,
)
from zerorag_p2p.identity.enrolment import create_roster, revoke
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.release import open_release, sign_release
from zerorag_p2p.identity.roster import Member, Roster, Standing
from zerorag_p2p.identity.verification import Verified, check_chain, verify_document
from zerorag_p2p.model import (
    Content,
    Document,
    Fingerprint,
    Purpose,
    SharingTerms,
    View,
    hash_content,
)

AUTHORITY, OWNER, KEEPER, SECOND, READER, STRANGER = (
    Identity.from_seed(bytes([number]) * 32) for number in range(1, 7)
)
NOW = 1_800_000_000
DAY = 86_400
FINGERPRINT = Fingerprint("all-MiniLM-L6-v2", "53aa", 384)
DOCUMENT = Document("Sepsis", "Give antibiotics within the hour.", "guidelines", "sepsis.txt")
CONTENT = DOCUMENT.content()
RESHARE = SharingTerms(copy=True, reshare=True)


def consortium(**changes: Any) -> Roster:
    members = [
        Member(identity.peer_id, f"Hospital {number}", (), NOW - 10 * DAY, NOW + 10 * DAY)
        for number, identity in enumerate((OWNER, KEEPER, SECOND, READER))
    ]
    roster = create_roster(
        "sample", [AUTHORITY.peer_id], fingerprints=[FINGERPRINT], now=NOW - DAY, members=members
    )
    return dataclasses.replace(roster, **changes)


ROSTER = consortium()


def state(identity: Identity = OWNER, **changes: Any) -> bytes:
    values: dict[str, Any] = {
        "content_hash": DOCUMENT.content_hash(),
        "embedding_hash": embedding_hash(b"embedding"),
        "fingerprint": FINGERPRINT.digest(),
        "collection": DOCUMENT.collection,
        "terms": SharingTerms(),
        "consortium": ROSTER.consortium,
        "now": NOW - 100,
    } | changes
    return sign_statement(identity, **values)


def released(identity: Identity = OWNER, content: bytes = CONTENT, **changes: Any) -> bytes:
    values: dict[str, Any] = {
        "content_hash": DOCUMENT.content_hash(),
        "view": View.WHOLE,
        "receiver": READER.peer_id,
        "purpose": Purpose.TREAT,
        "now": NOW,
    } | changes
    return sign_release(identity, content, **values)


def check(
    links: list[bytes] | None = None,
    release: bytes | None = b"",
    content: bytes = CONTENT,
    **changes: Any,
) -> Verified:
    values: dict[str, Any] = {
        "roster": ROSTER,
        "now": NOW,
        "clock_tolerance_s": 120.0,
        "content_hash": DOCUMENT.content_hash(),
        "sender": OWNER.peer_id,
        "receiver": READER.peer_id,
    } | changes
    return verify_document(
        [state()] if links is None else links,
        released() if release == b"" else release,
        content,
        **values,
    )


def fault(*args: Any, **changes: Any) -> str:
    with pytest.raises(AttributionError) as caught:
        check(*args, **changes)
    assert str(caught.value).startswith(f"{caught.value.fault}: ")
    return caught.value.fault


def flip(data: bytes, position: int = -1) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


def test_a_document_from_its_owner_verifies() -> None:
    verified = check()
    assert verified.complete
    assert verified.owner_organisation == "Hospital 0"
    assert verified.owner_standing is Standing.MEMBER
    assert verified.chain.holder == OWNER.peer_id
    assert verified.release.bytes_hash == DOCUMENT.content_hash()


def test_offline_nothing_is_known_of_who_asked() -> None:
    assert check(content_hash=None, sender=None, receiver=None).complete


def test_every_altered_byte_is_noticed() -> None:
    statement, release = state(), released()
    for position in range(len(statement)):
        assert fault([flip(statement, position)]) in {"malformed", "signature-invalid"}
    for position in range(len(release)):
        assert fault(None, flip(release, position)) in {"malformed", "signature-invalid"}
    for position in range(len(CONTENT)):
        assert fault(None, b"", flip(CONTENT, position)) == "content-hash-mismatch"


def test_the_first_fault_is_named() -> None:
    other_content = Content("Sepsis", "Wait and see.").encode()
    other_hash = hash_content(other_content)
    assert fault([]) == Fault.MALFORMED
    assert fault([state(KEEPER)]) == Fault.SENDER_NOT_HOLDER
    assert fault([state(content_hash=other_hash)]) == Fault.OTHER_DOCUMENT
    assert fault([state(consortium="other-0123456789abcdef")]) == Fault.WRONG_CONSORTIUM
    assert fault([state(now=NOW + 121)]) == Fault.DATED_IN_FUTURE
    assert fault([state(terms=SharingTerms(expires_at=NOW))]) == Fault.TERMS_EXPIRED
    assert fault(None, None) == Fault.RELEASE_MISSING
    assert fault(None, b"\x00") == Fault.MALFORMED
    assert fault(None, released(KEEPER)) == Fault.RELEASE_BY_OTHER_SENDER
    assert fault(None, released(receiver=KEEPER.peer_id)) == Fault.RELEASE_FOR_OTHER_RECEIVER
    assert fault(None, released(content_hash=other_hash)) == Fault.RELEASE_OF_OTHER_DOCUMENT
    assert fault(None, released(now=NOW + 121)) == Fault.DATED_IN_FUTURE
    assert fault(None, released(content=other_content)) == Fault.RELEASE_OF_OTHER_BYTES
    assert fault(None, released(content=other_content), other_content) == (
        Fault.CONTENT_HASH_MISMATCH
    )
    research_only = state(terms=SharingTerms(purposes=(Purpose.HRESCH,)))
    assert fault([research_only]) == Fault.PURPOSE_NOT_ALLOWED
    assert check([research_only], released(purpose=Purpose.HRESCH)).complete
    to_owner = released(receiver=OWNER.peer_id)
    assert check([research_only], to_owner, receiver=OWNER.peer_id).complete


def test_a_statement_is_no_release_and_a_release_no_statement() -> None:
    assert fault([released()]) == Fault.SIGNATURE_INVALID
    assert fault(None, state()) == Fault.SIGNATURE_INVALID


def test_a_redacted_text_is_covered_by_the_sender_only() -> None:
    shown = Content("Sepsis", "Give [...] within the hour.").encode()
    redacted = released(content=shown, redaction=["drug-names"])
    verified = check(None, redacted, shown)
    assert not verified.complete
    assert verified.release.redaction == ("drug-names",)
    assert fault(None, redacted, CONTENT) == Fault.RELEASE_OF_OTHER_BYTES
    assert not check(None, released(content=b"Sepsis", view=View.TITLE), b"Sepsis").complete


class TestMembership:
    def test_a_stranger_owns_nothing_here(self) -> None:
        assert fault([state(STRANGER)]) == Fault.OWNER_NOT_MEMBER

    def test_what_a_revoked_owner_signed_before_stays_valid(self) -> None:
        statement, custody = state(terms=RESHARE), b""
        custody = sign_custody(KEEPER, statement, NOW - 50)
        gone = revoke(ROSTER, OWNER.peer_id, "closed", NOW - 60)
        verified = check([statement, custody], released(KEEPER), roster=gone, sender=KEEPER.peer_id)
        assert verified.owner_standing is Standing.REVOKED
        assert verified.owner_organisation == "Hospital 0"
        earlier = revoke(ROSTER, OWNER.peer_id, "closed", NOW - 100)
        assert (
            fault([statement, custody], released(KEEPER), roster=earlier, sender=KEEPER.peer_id)
            == Fault.OWNER_NOT_MEMBER
        )

    def test_a_revoked_sender_releases_nothing_more(self) -> None:
        gone = revoke(ROSTER, OWNER.peer_id, "closed", NOW - 60)
        assert fault(roster=gone) == Fault.SENDER_NOT_MEMBER

    def test_what_was_sent_in_time_still_verifies_years_later(self) -> None:
        later = NOW + 1_000 * DAY
        assert check(now=later).owner_standing is Standing.EXPIRED
        late = released(now=later)
        assert fault(None, late, now=later) == Fault.SENDER_NOT_MEMBER

    def test_a_revoked_custodian_breaks_what_it_took_afterwards(self) -> None:
        statement = state(terms=RESHARE)
        first = sign_custody(KEEPER, statement, NOW - 50)
        links = [statement, first, sign_custody(SECOND, first, NOW - 40)]
        changes = {"sender": SECOND.peer_id}
        assert check(links, released(SECOND), **changes).chain.holder == SECOND.peer_id
        gone = revoke(ROSTER, KEEPER.peer_id, "left", NOW - 60)
        assert fault(links, released(SECOND), roster=gone, **changes) == Fault.CUSTODIAN_NOT_MEMBER


class TestCopies:
    def test_a_keeper_passes_on_what_the_terms_allow(self) -> None:
        statement = state(terms=RESHARE)
        links = [statement, sign_custody(KEEPER, statement, NOW - 50)]
        verified = check(links, released(KEEPER), sender=KEEPER.peer_id)
        assert verified.complete
        assert [custody.custodian for custody in verified.chain.custodians] == [KEEPER.peer_id]

    def test_a_copy_that_may_be_kept_may_not_be_passed_on(self) -> None:
        statement = state(terms=SharingTerms(copy=True))
        links = [statement, sign_custody(KEEPER, statement, NOW - 50)]
        assert verify_chain(links).holder == KEEPER.peer_id
        assert fault(links, released(KEEPER), sender=KEEPER.peer_id) == Fault.RESHARING_NOT_ALLOWED

    def test_a_copy_that_may_not_be_kept_has_no_chain(self) -> None:
        links = [state(), sign_custody(KEEPER, state(), NOW - 50)]
        assert fault(links, released(KEEPER), sender=KEEPER.peer_id) == Fault.COPY_NOT_ALLOWED

    def test_a_sender_outside_the_chain_is_noticed(self) -> None:
        statement = state(terms=RESHARE)
        assert fault([statement], released(KEEPER), sender=KEEPER.peer_id) == (
            Fault.SENDER_NOT_HOLDER
        )


def test_nobody_signs_what_others_would_refuse() -> None:
    with pytest.raises(UsageError, match="collection"):
        state(collection="")
    with pytest.raises(UsageError, match="redaction"):
        released(redaction=["names", "names"])


def test_terms_survive_the_statement() -> None:
    terms = SharingTerms(True, True, (Purpose.TREAT, Purpose.ETREAT), NOW + DAY)
    assert open_statement(state(terms=terms)).terms == terms
    assert open_release(released(audit="case-17")).audit == "case-17"


def test_a_result_is_checked_by_its_chain_alone() -> None:
    statement = state(terms=RESHARE)
    chain = verify_chain([statement, sign_custody(KEEPER, statement, NOW - 50)])
    fields: dict[str, Any] = {
        "now": NOW,
        "clock_tolerance_s": 120.0,
        "content_hash": DOCUMENT.content_hash(),
    }
    check_chain(chain, ROSTER, holder=KEEPER.peer_id, **fields)
    with pytest.raises(AttributionError) as caught:
        check_chain(chain, ROSTER, holder=OWNER.peer_id, **fields)
    assert caught.value.fault == Fault.SENDER_NOT_HOLDER
    kept = state(terms=SharingTerms(copy=True))
    chain = verify_chain([kept, sign_custody(KEEPER, kept, NOW - 50)])
    with pytest.raises(AttributionError) as caught:
        check_chain(chain, ROSTER, holder=KEEPER.peer_id, **fields)
    assert caught.value.fault == Fault.RESHARING_NOT_ALLOWED
