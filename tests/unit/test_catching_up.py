"""Whom a peer asks for withdrawals that it lacks."""

from __future__ import annotations

from tests.unit.test_membership import ALICE, NOW, Setup, only, record, reply_news
from zerorag_p2p.membership.catching_up import CatchingUp
from zerorag_p2p.membership.events import (
    Effect,
    PullWithdrawals,
    RequestReceived,
    WithdrawalsPulled,
)
from zerorag_p2p.wire.gossip import News, Ping

OURS, THEIRS, OTHERS = (bytes([number]) * 16 for number in range(1, 4))


def test_a_peer_that_holds_what_we_do_is_not_asked() -> None:
    held = CatchingUp(lambda: OURS, 2.5)
    assert not held.wants(OURS, NOW)
    assert not held.wants(b"", NOW)
    assert held.wants(THEIRS, NOW)


def test_one_is_asked_at_a_time_until_something_came() -> None:
    held = CatchingUp(lambda: OURS, 2.5)
    assert held.wants(THEIRS, NOW)
    assert not held.wants(OTHERS, NOW + 2.4)
    assert held.wants(OTHERS, NOW + 2.5)
    held.on_ended(OTHERS, gained=True)
    assert held.wants(THEIRS, NOW + 2.5)


def test_who_had_nothing_is_asked_again_when_we_have_changed() -> None:
    ours = OURS
    held = CatchingUp(lambda: ours, 2.5)
    assert held.wants(THEIRS, NOW)
    held.on_ended(THEIRS, gained=False)
    assert not held.wants(THEIRS, NOW + 60)
    assert held.wants(OTHERS, NOW + 60)
    ours = b"4" * 16
    assert held.wants(THEIRS, NOW + 120)


def test_what_is_of_no_use_is_remembered_within_bounds() -> None:
    held = CatchingUp(lambda: OURS, 0.0)
    assert held.wants(THEIRS, NOW)
    for number in range(200):
        held.on_ended(number.to_bytes(16, "big"), gained=False)
    assert held.wants((0).to_bytes(16, "big"), NOW)
    assert not held.wants((199).to_bytes(16, "big"), NOW + 1)


def heard(setup: Setup, held: bytes, now: float = NOW) -> list[Effect]:
    request = Ping(News(records=(record(ALICE),), withdrawals_held=held))
    return setup.membership.handle(RequestReceived(ALICE.peer_id, request), now)


def test_every_message_tells_what_is_held_and_leads_to_questions() -> None:
    setup = Setup()
    setup.membership._withdrawals_held = lambda: OURS
    setup.membership._catching_up._held = lambda: OURS
    effects = heard(setup, THEIRS)
    assert reply_news(effects).withdrawals_held == OURS
    pull = only(effects, PullWithdrawals)
    assert (pull.peer, pull.held) == (ALICE.peer_id, THEIRS)
    setup.membership.handle(WithdrawalsPulled(ALICE.peer_id, THEIRS, False), NOW)
    later = heard(setup, THEIRS, NOW + 60)
    assert not [effect for effect in later if isinstance(effect, PullWithdrawals)]
