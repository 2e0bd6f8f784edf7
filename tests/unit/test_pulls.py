"""When advertisements of others are asked for, and of whom."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest

from zerorag_p2p.config import MembershipConfig
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.membership.events import (
    AdvertisementsLost,
    Effect,
    PullAdvertisements,
    PullEnded,
    PullWanted,
    RequestReceived,
    RosterChanged,
    Started,
    TimerFired,
)
from zerorag_p2p.membership.membership import Membership
from zerorag_p2p.membership.pulls import PullSchedule
from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.gossip import Entry, Exchange

NOW = 1_800_000_000.0
SETTINGS = MembershipConfig()
ROUND_S = SETTINGS.exchange_interval_s
OWN, ALICE, BOB = (Identity.from_seed(bytes([number]) * 32) for number in range(1, 4))
NEAR, FAR = PeerId("near"), PeerId("far")


class Pulls:
    """A schedule and its clock."""

    def __init__(self, near: Iterable[PeerId] = (NEAR,), view: Iterable[PeerId] = (FAR,)) -> None:
        self.usable = {*near, *view}
        self.now = NOW
        self.schedule = PullSchedule(
            SETTINGS,
            near=lambda: near,
            view=lambda: view,
            usable=self.usable.__contains__,
            randomness=random.Random(1),
        )

    def next(self) -> PeerId | None:
        self.now = self.schedule.next_timeout()
        return self.schedule.begin(self.now)

    def pause(self, *, gained: bool) -> float:
        """Seconds until the pull after the next one, which brings something or not."""
        peer = self.next()
        assert peer is not None
        self.schedule.on_ended(peer, gained=gained, now=self.now)
        return self.schedule.next_timeout() - self.now


def test_nothing_is_due_before_the_start_nor_afterwards_by_hurrying() -> None:
    pulls = Pulls()
    pulls.schedule.hurry(NOW)
    assert pulls.schedule.next_timeout() == math.inf


def test_near_peers_and_the_view_are_asked_in_turn() -> None:
    pulls = Pulls()
    pulls.schedule.start(NOW)
    assert [pulls.next() for _ in range(4)] == [FAR, NEAR, FAR, NEAR]


def test_who_may_not_be_asked_is_left_out() -> None:
    pulls = Pulls()
    pulls.schedule.start(NOW)
    pulls.usable.discard(NEAR)
    assert [pulls.next() for _ in range(3)] == [FAR, FAR, FAR]
    pulls.usable.clear()
    assert pulls.next() is None
    assert pulls.schedule.next_timeout() > pulls.now


def test_pauses_double_up_to_a_bound_and_halve_down_to_a_round() -> None:
    pulls = Pulls()
    pulls.schedule.start(NOW)
    planned = ROUND_S
    for _ in range(12):
        planned = min(2 * planned, SETTINGS.sketch_pause_s)
        assert pulls.pause(gained=False) == pytest.approx(planned, rel=0.251)
    assert planned == SETTINGS.sketch_pause_s
    for _ in range(12):
        planned = max(planned / 2, ROUND_S)
        assert pulls.pause(gained=True) == pytest.approx(planned, rel=0.251)
    assert planned == ROUND_S


def test_a_loss_ends_a_long_pause() -> None:
    pulls = Pulls()
    pulls.schedule.start(NOW)
    for _ in range(8):
        pulls.pause(gained=False)
    pulls.schedule.hurry(pulls.now)
    assert pulls.schedule.next_timeout() - pulls.now < 2 * ROUND_S


def test_whoever_would_be_kept_is_asked_back_and_others_as_planned() -> None:
    pulls = Pulls()
    asker = PeerId("asker")
    pulls.usable.add(asker)
    pulls.schedule.start(NOW)
    planned = pulls.schedule.next_timeout()
    for _ in range(9):
        pulls.schedule.ask_back(asker, NOW)
        assert pulls.schedule.next_timeout() == NOW
        assert pulls.next() == asker
        pulls.schedule.on_ended(asker, gained=False, now=NOW)
    assert pulls.schedule.next_timeout() == planned
    assert pulls.pause(gained=False) == pytest.approx(2 * ROUND_S, rel=0.251)


# In the reactor.


def reactor(near: tuple[PeerId, ...] | None = ()) -> Membership:
    membership = Membership(
        OWN.peer_id,
        SETTINGS,
        sign=lambda sequence: sign_record(OWN, [], sequence),
        admit=lambda _: True,
        introductions=(),
        roster_version=1,
        members=3,
        randomness=random.Random(1),
        near=None if near is None else lambda: near,
    )
    membership.handle(Started(), NOW)
    entries = tuple(Entry(sign_record(peer, [], 1), 0) for peer in (ALICE, BOB))
    membership.handle(RequestReceived(ALICE.peer_id, Exchange(entries)), NOW)
    return membership


def pulled(
    membership: Membership, *, until: float, since: float = NOW
) -> list[tuple[float, Effect]]:
    """The pulls that a reactor wants in a span of time; none of them brings anything."""
    found: list[tuple[float, Effect]] = []
    while (now := max(membership.next_timeout(), since)) < until:
        for effect in membership.handle(TimerFired(), now):
            if isinstance(effect, PullAdvertisements):
                found.append((now, effect))
                membership.handle(PullEnded(effect.peer, gained=False), now)
    return found


def test_a_reactor_that_wants_no_advertisements_of_others_asks_for_none() -> None:
    assert pulled(reactor(None), until=NOW + 3_600) == []


def test_a_reactor_asks_back() -> None:
    membership = reactor()
    membership.handle(PullWanted(BOB.peer_id), NOW)
    assert pulled(membership, until=NOW + 0.1) == [(NOW, PullAdvertisements(BOB.peer_id, 3.0))]


def test_a_reactor_asks_rarely_once_nothing_new_comes() -> None:
    membership = reactor((ALICE.peer_id,))
    early = pulled(membership, until=NOW + 3_600)
    assert {effect.peer for _, effect in early if isinstance(effect, PullAdvertisements)} == {
        ALICE.peer_id,
        BOB.peer_id,
    }
    late = pulled(membership, since=NOW + 3_600, until=NOW + 2 * 3_600)
    assert 4 <= len(late) <= 8, "one in 640 s, a quarter more or less"


@pytest.mark.parametrize("event", [AdvertisementsLost(), RosterChanged(2, 4)])
def test_a_reactor_asks_soon_when_something_is_lost_or_members_change(
    event: AdvertisementsLost | RosterChanged,
) -> None:
    membership = reactor()
    pulled(membership, until=NOW + 3_600)
    later = NOW + 3_600
    membership.handle(event, later)
    assert pulled(membership, since=later, until=later + 2 * ROUND_S)
