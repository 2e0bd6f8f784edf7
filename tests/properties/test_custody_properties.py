"""Chains of custody and withdrawals, whatever their length, order and terms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.config import MAX_CHAIN_LINKS
from zerorag_p2p.errors import AttributionError, DecodeError
from zerorag_p2p.identity.attribution import (
    Fault,
    Statement,
    open_statement,
    sign_statement,
    verify_chain,
)
from zerorag_p2p.identity.custody import NOT_ALLOWED, take_custody
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.withdrawal import (
    Withdrawal,
    WithdrawalBook,
    decode_withdrawal,
    encode_withdrawal,
    sign_withdrawal,
)
from zerorag_p2p.model import ContentHash, Purpose, SharingTerms

NOW = 1_800_000_000
PEOPLE = [Identity.from_seed(bytes([number]) * 32) for number in range(1, 11)]
OWNER = PEOPLE[0]
HASHES = [ContentHash(f"{number:064x}") for number in range(4)]

terms = st.builds(
    SharingTerms,
    copy=st.booleans(),
    reshare=st.booleans(),
    purposes=st.sets(st.sampled_from(Purpose), max_size=3).map(sorted).map(tuple),
    expires_at=st.none() | st.integers(NOW - 10, NOW + 100),
)
OPEN = SharingTerms(copy=True, reshare=True)


def stated(
    allowed: SharingTerms = OPEN, content: ContentHash = HASHES[0], issued_at: int = NOW
) -> bytes:
    return sign_statement(
        OWNER,
        content_hash=content,
        embedding_hash="ab" * 32,
        fingerprint="cd" * 32,
        collection="wards",
        terms=allowed,
        consortium="sample",
        now=issued_at,
    )


def kept_by(count: int, statement: bytes) -> tuple[bytes, ...]:
    links: tuple[bytes, ...] = (statement,)
    for number in range(1, count + 1):
        links, _ = take_custody(PEOPLE[number], links, NOW + number)
    return links


def fault_of(act: Callable[[], object]) -> str:
    with pytest.raises((AttributionError, DecodeError)) as caught:
        act()
    error = caught.value
    return error.fault if isinstance(error, AttributionError) else Fault.MALFORMED


@given(terms, st.lists(st.integers(1, 9), min_size=1, max_size=9, unique=True), st.data())
def test_custody_is_taken_exactly_where_the_terms_allow(
    allowed: SharingTerms, keepers: list[int], data: st.DataObject
) -> None:
    links: tuple[bytes, ...] = (stated(allowed),)
    now = NOW
    for position, keeper in enumerate(keepers):
        now += data.draw(st.integers(0, 30))
        may = (
            allowed.copy
            and (position == 0 or allowed.reshare)
            and (allowed.expires_at is None or now < allowed.expires_at)
            and len(links) < MAX_CHAIN_LINKS
        )
        if not may:
            refused = fault_of(partial(take_custody, PEOPLE[keeper], links, now))
            assert refused in NOT_ALLOWED
            return
        links, chain = take_custody(PEOPLE[keeper], links, now)
        assert chain == verify_chain(links)
        assert chain.holder == PEOPLE[keeper].peer_id
        assert chain.statement.owner == OWNER.peer_id


@given(st.integers(2, 7), st.data())
def test_no_link_can_be_left_out_exchanged_or_repeated(count: int, data: st.DataObject) -> None:
    links = kept_by(count, stated())
    position = data.draw(st.integers(0, count - 1), label="position")
    changed = list(links)
    match data.draw(st.sampled_from(["left out", "exchanged", "repeated", "of another document"])):
        case "left out":
            del changed[position]
        case "exchanged":
            changed[position], changed[position + 1] = changed[position + 1], changed[position]
        case "repeated":
            changed.insert(position, changed[position])
        case "of another document":
            changed[position] = kept_by(count, stated(content=HASHES[1]))[position]
    assert fault_of(lambda: verify_chain(changed)) in {
        Fault.CHAIN_BROKEN,
        Fault.SIGNATURE_INVALID,
        Fault.MALFORMED,
    }


@given(st.integers(1, 7), st.data())
def test_no_bit_of_a_chain_can_be_changed(count: int, data: st.DataObject) -> None:
    links = list(kept_by(count, stated()))
    position = data.draw(st.integers(0, count), label="link")
    bit = data.draw(st.integers(0, 8 * len(links[position]) - 1), label="bit")
    changed = bytearray(links[position])
    changed[bit // 8] ^= 1 << bit % 8
    links[position] = bytes(changed)
    assert fault_of(lambda: verify_chain(links))


@given(terms, terms)
def test_wider_terms_allow_whatever_narrower_ones_do(
    one: SharingTerms, other: SharingTerms
) -> None:
    def allows(given_terms: SharingTerms, purpose: Purpose, now: int) -> tuple[bool, bool]:
        ended = given_terms.expires_at is not None and now >= given_terms.expires_at
        serves = not given_terms.purposes or purpose in given_terms.purposes
        usable = serves and not ended
        return usable and given_terms.copy, usable and given_terms.reshare

    wider = all(
        mine >= theirs
        for purpose in Purpose
        for now in range(NOW - 11, NOW + 101)
        for mine, theirs in zip(allows(one, purpose, now), allows(other, purpose, now), strict=True)
    )
    if one.allow_all_of(other):
        assert wider


withdrawals = st.builds(
    Withdrawal,
    owner=st.sampled_from(PEOPLE[:3]).map(lambda identity: identity.peer_id),
    consortium=st.just("sample"),
    documents=st.lists(st.sampled_from(HASHES), max_size=3, unique=True).map(tuple),
    collection=st.sampled_from(["wards", "letters"]),
    issued_at=st.integers(NOW - 20, NOW + 20),
    expires_at=st.integers(NOW + 21, NOW + 60),
)


@given(withdrawals)
def test_withdrawals_come_back(withdrawal: Withdrawal) -> None:
    assert decode_withdrawal(encode_withdrawal(withdrawal)) == withdrawal


def filled(items: list[Withdrawal], **limits: int) -> WithdrawalBook:
    book = WithdrawalBook(**limits)
    for item in items:
        book.add(item, encode_withdrawal(item), NOW)
    return book


@given(st.lists(withdrawals, max_size=12), st.integers(NOW - 20, NOW + 20), st.data())
def test_a_book_tells_the_same_in_whatever_order_withdrawals_came(
    items: list[Withdrawal], issued_at: int, data: st.DataObject
) -> None:
    book, other = filled(items), filled(data.draw(st.permutations([*items, *items])))
    assert book.summary() == other.summary()
    for content in HASHES:
        statement = open_statement(stated(content=content, issued_at=issued_at))
        expected = any(item.covers(statement) for item in items)
        assert book.covers(statement) is other.covers(statement) is expected
        latest = book.latest(statement.owner, content, "wards")
        assert (issued_at <= latest) is expected


@given(st.lists(withdrawals, max_size=20), st.data())
def test_a_full_book_keeps_the_same_in_whatever_order(
    items: list[Withdrawal], data: st.DataObject
) -> None:
    one = filled(items, per_owner=3, limit=5)
    other = filled(data.draw(st.permutations(items)), per_owner=3, limit=5)
    assert one.summary() == other.summary()


@given(st.lists(withdrawals, max_size=8), st.lists(withdrawals, max_size=8))
def test_two_books_that_exchange_what_they_lack_become_equal(
    mine: list[Withdrawal], theirs: list[Withdrawal]
) -> None:
    one, other = filled(mine), filled(theirs)
    for taker, giver in ((one, other), (other, one)):
        for payload in giver.missing(taker.digests(), count=100):
            taker.add(decode_withdrawal(payload), payload, NOW)
    assert one.digests() == other.digests()


@given(st.integers(NOW - 5, NOW + 5), st.integers(NOW - 5, NOW + 5))
def test_a_statement_counts_exactly_if_it_is_newer_than_its_withdrawal(
    stated_at: int, withdrawn_at: int
) -> None:
    item = Withdrawal(
        owner=OWNER.peer_id,
        consortium="sample",
        documents=(HASHES[0],),
        issued_at=withdrawn_at,
        expires_at=NOW + 60,
    )
    book = WithdrawalBook()
    book.add(item, sign_withdrawal(OWNER, item), NOW)
    statement: Statement = open_statement(stated(issued_at=stated_at))
    assert book.covers(statement) is (stated_at <= withdrawn_at)
