"""Withdrawals by themselves, against a roster, and as they are kept."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.unit.test_verification import (
    CONTENT,
    DOCUMENT,
    KEEPER,
    NOW,
    OWNER,
    READER,
    RESHARE,
    ROSTER,
    SECOND,
    STRANGER,
    consortium,
    released,
    state,
)
from zerorag_p2p.errors import AttributionError, DecodeError, IntegrityError, UsageError
from zerorag_p2p.identity.attribution import Fault, sign_custody
from zerorag_p2p.identity.custody import take_custody
from zerorag_p2p.identity.enrolment import revoke
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.verification import check_withdrawal, verify_document
from zerorag_p2p.identity.withdrawal import (
    Withdrawal,
    WithdrawalBook,
    encode_withdrawal,
    open_withdrawal,
    sign_withdrawal,
)
from zerorag_p2p.model import ContentHash, SharingTerms

DAY = 86_400
HASH = DOCUMENT.content_hash()


def withdrawn(identity: Identity = OWNER, **changes: Any) -> Withdrawal:
    values: dict[str, Any] = {
        "owner": identity.peer_id,
        "consortium": ROSTER.consortium,
        "documents": (HASH,),
        "issued_at": NOW - 50,
        "expires_at": NOW + DAY,
    } | changes
    return Withdrawal(**values)


def book(*withdrawals: Withdrawal, **limits: int) -> WithdrawalBook:
    made = WithdrawalBook(**limits)
    for item in withdrawals:
        made.add(item, sign_withdrawal(OWNER, item), NOW)
    return made


class TestSealing:
    def test_what_was_sealed_is_read_back(self) -> None:
        for item in (withdrawn(), withdrawn(documents=(), collection="guidelines")):
            assert open_withdrawal(sign_withdrawal(OWNER, item)) == item

    def test_every_altered_byte_is_noticed(self) -> None:
        sealed = sign_withdrawal(OWNER, withdrawn())
        for position in range(len(sealed)):
            changed = bytearray(sealed)
            changed[position] ^= 1
            with pytest.raises((DecodeError, IntegrityError)):
                open_withdrawal(bytes(changed))

    def test_nobody_withdraws_for_another(self) -> None:
        sealed = seal(KEEPER, Domain.WITHDRAWAL, encode_withdrawal(withdrawn()))
        with pytest.raises(IntegrityError, match=f"{KEEPER.peer_id} withdraws documents of"):
            open_withdrawal(sealed)

    def test_no_other_message_of_the_owner_is_a_withdrawal(self) -> None:
        sealed = seal(OWNER, Domain.ADVERTISEMENT, encode_withdrawal(withdrawn()))
        with pytest.raises(IntegrityError, match="withdrawal/1"):
            open_withdrawal(sealed)

    @pytest.mark.parametrize(
        "changes",
        [
            {"documents": ()},
            {"documents": (HASH, HASH)},
            {"documents": tuple(ContentHash(f"{number:064x}") for number in range(33))},
            {"collection": "a\nb"},
            {"expires_at": NOW - 51},
        ],
    )
    def test_nobody_signs_what_others_would_refuse(self, changes: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            encode_withdrawal(withdrawn(**changes))


class TestAgainstARoster:
    def fault(self, withdrawal: Withdrawal, **changes: Any) -> str:
        values = {"roster": ROSTER, "now": NOW} | changes
        roster = values.pop("roster")
        with pytest.raises(AttributionError) as caught:
            check_withdrawal(withdrawal, roster, clock_tolerance_s=120.0, **values)
        return caught.value.fault

    def test_a_member_withdraws(self) -> None:
        check_withdrawal(withdrawn(), ROSTER, now=NOW, clock_tolerance_s=120.0)

    def test_what_is_not_followed_is_named(self) -> None:
        assert self.fault(withdrawn(consortium="other")) == Fault.WRONG_CONSORTIUM
        assert self.fault(withdrawn(issued_at=NOW + 121)) == Fault.DATED_IN_FUTURE
        assert self.fault(withdrawn(STRANGER)) == Fault.OWNER_NOT_MEMBER

    def test_a_former_member_withdrew_until_it_left(self) -> None:
        gone = revoke(ROSTER, OWNER.peer_id, "closed", NOW - 40)
        check_withdrawal(withdrawn(), gone, now=NOW, clock_tolerance_s=120.0)
        assert self.fault(withdrawn(issued_at=NOW - 40), roster=gone) == Fault.OWNER_NOT_MEMBER


class TestEffect:
    def verify(self, statement: bytes, held: WithdrawalBook, **changes: Any) -> object:
        return verify_document(
            [statement],
            released(),
            CONTENT,
            roster=ROSTER,
            now=NOW,
            clock_tolerance_s=120.0,
            content_hash=HASH,
            sender=OWNER.peer_id,
            receiver=READER.peer_id,
            withdrawn=held.covers,
            **changes,
        )

    @pytest.mark.parametrize(
        "item",
        [
            withdrawn(),
            withdrawn(collection=DOCUMENT.collection),
            withdrawn(documents=(), collection=DOCUMENT.collection),
            withdrawn(issued_at=NOW - 100),
        ],
    )
    def test_a_statement_that_was_taken_back_verifies_no_more(self, item: Withdrawal) -> None:
        with pytest.raises(AttributionError) as caught:
            self.verify(state(), book(item))
        assert caught.value.fault == Fault.WITHDRAWN

    @pytest.mark.parametrize(
        "item",
        [
            withdrawn(issued_at=NOW - 101),
            withdrawn(documents=(ContentHash("0" * 64),)),
            withdrawn(collection="another"),
            withdrawn(documents=(), collection="another"),
            withdrawn(KEEPER),
            withdrawn(consortium="other"),
        ],
    )
    def test_others_stay_valid(self, item: Withdrawal) -> None:
        assert self.verify(state(), book(item))

    def test_a_newer_statement_is_valid_whoever_replays_the_withdrawal(self) -> None:
        held = book(withdrawn(issued_at=NOW - 50))
        newer = state(now=NOW - 49)
        assert self.verify(newer, held)
        replayed = sign_withdrawal(OWNER, withdrawn(issued_at=NOW - 50))
        assert not held.add(withdrawn(issued_at=NOW - 50), replayed, NOW)
        assert self.verify(newer, held)


class TestBook:
    def test_it_lets_go_of_what_has_ended(self) -> None:
        held = book(withdrawn(expires_at=NOW + 10), withdrawn(issued_at=NOW - 40))
        before = held.summary()
        assert not held.expire(NOW + 9)
        assert held.expire(NOW + 10)
        assert len(held) == 1
        assert held.summary() != before
        assert not held.add(withdrawn(expires_at=NOW), b"", NOW)

    def test_nobody_fills_it_for_the_others(self) -> None:
        floods = [withdrawn(KEEPER, expires_at=NOW + DAY + number) for number in range(6)]
        others = [withdrawn(SECOND), withdrawn(OWNER)]
        held = WithdrawalBook(per_owner=4, limit=5)
        for item in [*others, *floods]:
            held.add(item, encode_withdrawal(item), NOW)
        kept = held.withdrawals()
        assert len(kept) == 5
        assert {item.owner for item in kept} == {item.owner for item in [*others, *floods]}

    def test_it_tells_what_others_lack(self) -> None:
        first, second = withdrawn(), withdrawn(issued_at=NOW - 40)
        held, other = book(first, second), book(first)
        (missing,) = held.missing(other.digests(), count=10)
        assert open_withdrawal(missing) == second
        assert other.add(second, missing, NOW)
        assert held.summary() == other.summary()
        assert len(held.missing((), count=1)) == 1
        assert WithdrawalBook().summary() == b""

    def test_it_knows_when_a_document_was_last_taken_back(self) -> None:
        held = book(withdrawn(), withdrawn(documents=(), collection="wards", issued_at=NOW - 30))
        owner = OWNER.peer_id
        assert held.latest(owner, HASH, "wards") == NOW - 30
        assert held.latest(owner, HASH, "guidelines") == NOW - 50
        assert held.latest(owner, ContentHash("0" * 64), "guidelines") == -1


class TestCustody:
    def test_a_chain_of_two_verifies(self) -> None:
        first, _ = take_custody(KEEPER, [state(terms=RESHARE)], NOW - 50)
        second, chain = take_custody(SECOND, first, NOW - 40)
        assert len(second) == 3
        assert [item.custodian for item in chain.custodians] == [KEEPER.peer_id, SECOND.peer_id]

    def test_a_clock_that_is_behind_breaks_no_chain(self) -> None:
        first, _ = take_custody(KEEPER, [state(terms=RESHARE)], NOW - 50)
        _, chain = take_custody(SECOND, first, NOW - 500)
        assert chain.custodians[-1].received_at == NOW - 50

    @pytest.mark.parametrize(
        ("terms", "fault"),
        [
            (SharingTerms(), Fault.COPY_NOT_ALLOWED),
            (SharingTerms(copy=True, reshare=True, expires_at=NOW - 50), Fault.TERMS_EXPIRED),
        ],
    )
    def test_terms_that_forbid_a_copy_are_named(self, terms: SharingTerms, fault: Fault) -> None:
        with pytest.raises(AttributionError) as caught:
            take_custody(KEEPER, [state(terms=terms)], NOW - 50)
        assert caught.value.fault == fault

    def test_a_copy_of_a_copy_needs_leave_to_pass_on(self) -> None:
        statement = state(terms=SharingTerms(copy=True))
        first, _ = take_custody(KEEPER, [statement], NOW - 50)
        with pytest.raises(AttributionError) as caught:
            take_custody(SECOND, first, NOW - 40)
        assert caught.value.fault == Fault.RESHARING_NOT_ALLOWED

    def test_a_full_chain_takes_no_more(self) -> None:
        links: tuple[bytes, ...] = (state(terms=RESHARE),)
        for number in range(10, 17):
            links, _ = take_custody(Identity.from_seed(bytes([number]) * 32), links, NOW - 50)
        with pytest.raises(AttributionError) as caught:
            take_custody(KEEPER, links, NOW - 50)
        assert caught.value.fault == Fault.CHAIN_FULL


def test_a_key_whose_membership_ran_out_states_nothing_more() -> None:
    members = tuple(
        dataclasses.replace(member, not_after=NOW - 120) if member.peer == OWNER.peer_id else member
        for member in ROSTER.members
    )
    roster = consortium(members=members)

    def verify(statement: bytes) -> object:
        links = [statement, sign_custody(KEEPER, statement, NOW - 50)]
        return verify_document(
            links,
            released(KEEPER),
            CONTENT,
            roster=roster,
            now=NOW,
            clock_tolerance_s=120.0,
            content_hash=HASH,
            sender=KEEPER.peer_id,
            receiver=READER.peer_id,
        )

    assert verify(state(terms=RESHARE, now=NOW - 121))
    with pytest.raises(AttributionError) as caught:
        verify(state(terms=RESHARE, now=NOW - 120))
    assert caught.value.fault == Fault.OWNER_NOT_MEMBER
