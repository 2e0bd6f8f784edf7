"""One reactor, with real signatures."""

from __future__ import annotations

import random
from typing import TypeVar

import pytest

from zerorag_p2p.config import WITHDRAWAL_LIMIT, MembershipConfig, NodeConfig
from zerorag_p2p.errors import ConfigError, DecodeError, IntegrityError, UsageError
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import open_record, sign_record
from zerorag_p2p.membership.detector import PeerState
from zerorag_p2p.membership.events import (
    AddressesChanged,
    ContactFailed,
    ContactSucceeded,
    Effect,
    Event,
    JudgeRoster,
    JudgeWithdrawal,
    LearnRecord,
    NeighborsChanged,
    NoteDied,
    NoteMisbehaved,
    NoteRecovered,
    NoteSuspected,
    RecordReceived,
    RelayEnded,
    RelayPing,
    Reply,
    ReplyReceived,
    RequestFailed,
    RequestReceived,
    RosterChanged,
    Send,
    Started,
    TimerFired,
    WithdrawalPublished,
)
from zerorag_p2p.membership.membership import Membership
from zerorag_p2p.model import PeerId, RefusalCode
from zerorag_p2p.wire.gossip import (
    Accusation,
    Ack,
    Entry,
    Exchange,
    Nack,
    News,
    Ping,
    PingRequest,
    RosterReply,
    RosterRequest,
    Update,
)
from zerorag_p2p.wire.refusal import Refusal

NOW = 1_800_000_000.0
OWN, ALICE, BOB, CAROL, EVE = (Identity.from_seed(bytes([number]) * 32) for number in range(1, 6))
ADDRESS = "/ip4/192.0.2.1/tcp/4001"
Kind = TypeVar("Kind")


def record(identity: Identity, sequence: int = 1) -> bytes:
    return sign_record(identity, [ADDRESS], sequence)


class Setup:
    def __init__(self, *introductions: Identity, saved: bytes | None = None) -> None:
        self.admitted = {peer.peer_id for peer in (OWN, ALICE, BOB, CAROL)}
        self.membership = Membership(
            OWN.peer_id,
            MembershipConfig(),
            sign=lambda sequence: record(OWN, sequence),
            admit=self.admitted.__contains__,
            introductions=[peer.peer_id for peer in introductions],
            roster_version=3,
            members=4,
            randomness=random.Random(1),
        )
        self.restored = [] if saved is None else self.membership.restore(saved)
        self.membership.handle(Started(), NOW)

    def exchange(self, *entries: bytes, sender: Identity = ALICE, now: float = NOW) -> list[Effect]:
        request = Exchange(tuple(Entry(item, 1) for item in entries))
        return self.membership.handle(RequestReceived(sender.peer_id, request), now)

    def tell(self, *, sender: Identity = ALICE, now: float = NOW, **news: object) -> list[Effect]:
        request = Ping(News(**news))
        return self.membership.handle(RequestReceived(sender.peer_id, request), now)

    def view(self) -> set[PeerId]:
        return {peer for peer, _ in self.membership.view()}

    def suspect(self, peer: Identity, sequence: int = 1) -> list[Effect]:
        update = Update(peer.peer_id, Accusation.SUSPECT, sequence)
        return self.tell(records=(record(peer, sequence),), updates=(update,))

    def bury(self, peer: Identity) -> list[Effect]:
        """Have `peer` accused, and let its time pass while nobody answers us."""
        self.suspect(peer)
        for seconds in range(0, 60, 2):
            effects = self.unanswered(TimerFired(), NOW + seconds)
            if NoteDied(peer.peer_id, 1) in effects:
                return effects
        raise AssertionError("it never died")

    def unanswered(self, event: Event, now: float) -> list[Effect]:
        """What an event leads to if every request that it leads to fails."""
        effects = self.membership.handle(event, now)
        for effect in effects:
            if isinstance(effect, Send):
                effects += self.unanswered(RequestFailed(effect.peer, effect.request), now)
        return effects


def only(effects: list[Effect], kind: type[Kind]) -> Kind:
    [effect] = [effect for effect in effects if isinstance(effect, kind)]
    return effect


def reply_news(effects: list[Effect]) -> News:
    message = only(effects, Reply).message
    assert not isinstance(message, Refusal)
    return message.news


# Views.


def test_a_first_round_asks_an_introduction_with_our_own_record() -> None:
    setup = Setup(ALICE)
    send = only(setup.membership.handle(TimerFired(), NOW), Send)
    assert send.peer == ALICE.peer_id
    assert isinstance(send.request, Exchange)
    assert open_record(send.request.entries[0].record).peer == OWN.peer_id
    reply = Exchange((Entry(record(ALICE), 0), Entry(record(BOB), 2)))
    effects = setup.membership.handle(ReplyReceived(send.peer, send.request, reply), NOW)
    assert LearnRecord(BOB.peer_id, record(BOB)) in effects
    assert setup.view() == {BOB.peer_id}, "the introducer is not kept where others are known"


def test_a_lone_introducer_is_kept() -> None:
    setup = Setup(ALICE)
    send = only(setup.membership.handle(TimerFired(), NOW), Send)
    reply = Exchange((Entry(record(ALICE), 0),))
    setup.membership.handle(ReplyReceived(send.peer, send.request, reply), NOW)
    assert setup.view() == {ALICE.peer_id}


def test_an_exchange_is_answered_and_merged() -> None:
    setup = Setup()
    effects = setup.exchange(record(ALICE), record(BOB))
    message = only(effects, Reply).message
    assert isinstance(message, Exchange)
    assert [open_record(entry.record).peer for entry in message.entries] == [OWN.peer_id]
    assert setup.view() == {ALICE.peer_id, BOB.peer_id}


def test_strangers_and_ourselves_stay_out_of_the_view() -> None:
    setup = Setup()
    effects = setup.exchange(record(EVE), record(OWN, 5))
    assert setup.view() == set()
    assert not [effect for effect in effects if isinstance(effect, LearnRecord)]


def test_a_forged_record_costs_the_whole_message() -> None:
    setup = Setup()
    forged = bytearray(record(BOB))
    forged[-1] ^= 1
    effects = setup.exchange(record(ALICE, 9), bytes(forged))
    assert only(effects, NoteMisbehaved).peer == ALICE.peer_id
    message = only(effects, Reply).message
    assert isinstance(message, Refusal)
    assert message.code is RefusalCode.MALFORMED
    assert setup.view() == set()
    # Nothing of it was learnt: the same record is still news.
    assert LearnRecord(ALICE.peer_id, record(ALICE, 9)) in setup.exchange(record(ALICE, 9))


def test_a_forged_record_in_a_reply_counts_as_none() -> None:
    setup = Setup(ALICE, BOB)
    [first, second] = setup.membership.handle(TimerFired(), NOW)
    assert isinstance(first, Send)
    assert isinstance(second, Send)
    forged = Exchange((Entry(b"\xff", 0),))
    effects = setup.membership.handle(ReplyReceived(first.peer, first.request, forged), NOW)
    assert only(effects, NoteMisbehaved).peer == ALICE.peer_id
    assert setup.view() == set()


def test_a_replayed_record_is_refused_and_corrected() -> None:
    setup = Setup()
    setup.tell(records=(record(BOB, 7),))
    effects = setup.exchange(record(BOB, 6))
    assert setup.view() == set()
    assert reply_news(effects).records == (record(BOB, 7),)


def test_views_are_not_exchanged_as_often_as_a_peer_likes() -> None:
    setup = Setup()
    setup.exchange(record(ALICE))
    message = only(setup.exchange(record(CAROL), now=NOW + 1), Reply).message
    assert isinstance(message, Refusal)
    assert message.code is RefusalCode.RATE_LIMITED
    assert setup.view() == {ALICE.peer_id}
    assert isinstance(only(setup.exchange(record(CAROL), now=NOW + 3), Reply).message, Exchange)


def test_a_peer_that_does_not_answer_falls_out_and_another_is_tried() -> None:
    setup = Setup()
    setup.exchange(record(ALICE), record(BOB), record(CAROL))
    send = only(setup.membership.handle(TimerFired(), NOW), Send)
    effects = setup.membership.handle(RequestFailed(send.peer, send.request), NOW + 3)
    assert send.peer not in setup.view()
    others = [effect for effect in effects if isinstance(effect, Send)]
    assert any(isinstance(other.request, Exchange) and other.peer != send.peer for other in others)
    asked = [other.request for other in others if isinstance(other.request, PingRequest)]
    assert {request.target for request in asked} == {send.peer}, "helpers look into it"


# Failure detection.


def test_an_accused_peer_has_its_time_then_dies_and_comes_back_only_anew() -> None:
    setup = Setup()
    setup.exchange(record(BOB))
    assert NoteSuspected(BOB.peer_id, 1) in setup.suspect(BOB)
    assert setup.membership.state(BOB.peer_id) is PeerState.SUSPECT
    setup.bury(BOB)
    assert setup.membership.state(BOB.peer_id) is PeerState.DEAD
    assert BOB.peer_id not in setup.view()

    late = NOW + 100
    effects = setup.exchange(record(BOB), sender=CAROL, now=late)
    assert BOB.peer_id not in setup.view(), "an old incarnation stays dead"
    assert Update(BOB.peer_id, Accusation.DEAD, 1) in reply_news(effects).updates
    effects = setup.exchange(record(BOB, 2), sender=ALICE, now=late)
    assert NoteRecovered(BOB.peer_id) in effects
    assert BOB.peer_id in setup.view()


@pytest.mark.parametrize("reached_by", ["us", "a helper"])
def test_a_suspect_that_can_be_reached_is_never_buried(reached_by: str) -> None:
    setup = Setup()
    setup.exchange(record(BOB), record(CAROL))
    assert NoteSuspected(BOB.peer_id, 1) in setup.suspect(BOB)

    def answered(send: Send) -> Event:
        if isinstance(send.request, Exchange):
            return ReplyReceived(send.peer, send.request, Exchange(()))
        to_bob = isinstance(send.request, Ping) and send.peer == BOB.peer_id
        if to_bob and reached_by != "us":
            return RequestFailed(send.peer, send.request)
        return ReplyReceived(send.peer, send.request, Ack(News()))

    for seconds in range(0, 200, 2):
        effects = setup.membership.handle(TimerFired(), NOW + seconds)
        for effect in effects:
            if isinstance(effect, Send):
                effects += setup.membership.handle(answered(effect), NOW + seconds)
        assert NoteDied(BOB.peer_id, 1) not in effects
    assert setup.membership.state(BOB.peer_id) is PeerState.SUSPECT, "it has not refuted"


def test_word_of_a_death_is_but_an_accusation() -> None:
    setup = Setup()
    setup.exchange(record(BOB))
    effects = setup.tell(updates=(Update(BOB.peer_id, Accusation.DEAD, 1),))
    assert NoteSuspected(BOB.peer_id, 1) in effects
    assert setup.membership.state(BOB.peer_id) is PeerState.SUSPECT


@pytest.mark.parametrize("incarnation", [0, 2, 1 << 52])
def test_an_accusation_of_another_incarnation_counts_for_nothing(incarnation: int) -> None:
    setup = Setup()
    setup.exchange(record(BOB))
    setup.tell(updates=(Update(BOB.peer_id, Accusation.SUSPECT, incarnation),))
    assert setup.membership.state(BOB.peer_id) is PeerState.ALIVE


def test_we_refute_what_is_said_against_us() -> None:
    setup = Setup()
    before = open_record(setup.membership.own_record).sequence
    update = Update(OWN.peer_id, Accusation.SUSPECT, before)
    news = reply_news(setup.tell(updates=(update,)))
    assert open_record(setup.membership.own_record).sequence == before + 1
    assert setup.membership.own_record in news.records
    # The same accusation again is outdated.
    news = reply_news(setup.tell(updates=(update,), sender=BOB))
    assert open_record(setup.membership.own_record).sequence == before + 1
    assert setup.membership.own_record in news.records


def test_nobody_can_make_us_use_up_sequences() -> None:
    setup = Setup()
    before = setup.membership.own_record
    setup.tell(updates=(Update(OWN.peer_id, Accusation.DEAD, (1 << 53) - 1),))
    assert setup.membership.own_record == before


def test_a_record_of_ours_that_we_forgot_is_exceeded() -> None:
    setup = Setup()
    forgotten = int(NOW) + 500
    setup.tell(records=(record(OWN, forgotten),))
    assert open_record(setup.membership.own_record).sequence == forgotten + 1


def test_a_suspect_hears_of_it_in_every_message() -> None:
    setup = Setup()
    setup.suspect(BOB)
    news = reply_news(setup.tell(sender=BOB))
    assert Update(BOB.peer_id, Accusation.SUSPECT, 1) in news.updates
    assert record(BOB) in news.records


def test_a_failed_contact_asks_helpers_and_their_failure_makes_a_suspect() -> None:
    setup = Setup()
    setup.exchange(record(ALICE), record(BOB), record(CAROL))
    effects = setup.membership.handle(ContactFailed(BOB.peer_id), NOW)
    requests = [effect for effect in effects if isinstance(effect, Send)]
    assert {send.peer for send in requests} == {ALICE.peer_id, CAROL.peer_id}
    first, second = requests
    failed = setup.membership.handle(ReplyReceived(first.peer, first.request, Nack()), NOW + 6)
    assert failed == []
    failed = setup.membership.handle(RequestFailed(second.peer, second.request), NOW + 6)
    assert NoteSuspected(BOB.peer_id, 1) in failed
    assert setup.membership.health_factor == 2, "a helper that is silent speaks against us"


def test_a_helper_that_gets_through_clears_a_peer() -> None:
    setup = Setup()
    setup.exchange(record(ALICE), record(BOB))
    send = only(setup.membership.handle(ContactFailed(BOB.peer_id), NOW), Send)
    setup.membership.handle(ReplyReceived(send.peer, send.request, Ack()), NOW + 1)
    assert setup.membership.state(BOB.peer_id) is PeerState.ALIVE


def test_a_suspect_that_answers_something_is_pinged_to_let_it_refute() -> None:
    setup = Setup()
    setup.suspect(BOB)
    send = only(setup.membership.handle(ContactSucceeded(BOB.peer_id), NOW + 5), Send)
    assert send.peer == BOB.peer_id
    assert isinstance(send.request, Ping)
    assert send.request.news.updates == (Update(BOB.peer_id, Accusation.SUSPECT, 1),)
    refuted = Ack(News(records=(record(BOB, 2),)))
    effects = setup.membership.handle(ReplyReceived(BOB.peer_id, send.request, refuted), NOW + 6)
    assert NoteRecovered(BOB.peer_id) in effects


def test_a_relayed_ping_is_answered_by_its_outcome() -> None:
    setup = Setup()
    setup.tell(records=(record(BOB),))
    request = PingRequest(BOB.peer_id, 6_000)
    for answer, kind in ((Ack(News(records=(record(BOB, 2),))), Ack), (None, Nack)):
        effects = setup.membership.handle(RequestReceived(ALICE.peer_id, request), NOW)
        relay = only(effects, RelayPing)
        assert (relay.origin, relay.target, relay.timeout_s) == (ALICE.peer_id, BOB.peer_id, 3.0)
        ended = RelayEnded(relay.origin, relay.target, answer)
        message = only(setup.membership.handle(ended, NOW + 1), Reply).message
        assert isinstance(message, kind)
        if isinstance(message, Ack):
            assert record(BOB, 2) in message.news.records, "the refutation comes along"


def test_nobody_is_made_to_ping_strangers() -> None:
    setup = Setup()
    request = PingRequest(EVE.peer_id, 6_000)
    effects = setup.membership.handle(RequestReceived(ALICE.peer_id, request), NOW)
    assert isinstance(only(effects, Reply).message, Nack)


def test_neighbours_are_watched_besides_the_view() -> None:
    setup = Setup()
    setup.membership.handle(RecordReceived(record(BOB)), NOW)
    setup.membership.handle(NeighborsChanged((BOB.peer_id,)), NOW)
    effects = setup.membership.handle(TimerFired(), NOW + 6)
    assert [effect.peer for effect in effects if isinstance(effect, Send)] == [BOB.peer_id]


# News.


def test_a_newer_roster_is_asked_for_once_and_handed_on() -> None:
    setup = Setup()
    send = only(setup.tell(roster_version=4), Send)
    assert (send.peer, send.request) == (ALICE.peer_id, RosterRequest(3))
    assert not [e for e in setup.tell(roster_version=4, sender=BOB) if isinstance(e, Send)]
    reply = RosterReply(b"signed roster")
    effects = setup.membership.handle(ReplyReceived(send.peer, send.request, reply), NOW)
    assert effects == [JudgeRoster(ALICE.peer_id, b"signed roster")]
    setup.membership.handle(RosterChanged(4, 4), NOW)
    assert reply_news(setup.tell(roster_version=4)).roster_version == 4


def test_who_leaves_the_roster_leaves_view_and_records() -> None:
    setup = Setup()
    setup.exchange(record(ALICE), record(BOB))
    setup.admitted.discard(BOB.peer_id)
    setup.membership.handle(RosterChanged(4, 3), NOW)
    assert setup.view() == {ALICE.peer_id}
    assert setup.membership.handle(ContactFailed(BOB.peer_id), NOW) == []


def test_withdrawals_are_judged_once_and_passed_on_when_published() -> None:
    setup = Setup()
    effects = setup.tell(withdrawals=(b"w",))
    judged = [effect for effect in effects if isinstance(effect, JudgeWithdrawal)]
    assert judged == [JudgeWithdrawal(ALICE.peer_id, b"w")]
    news = reply_news(effects)
    assert news == News(roster_version=3), "nothing is passed on before it was judged"
    setup.membership.handle(WithdrawalPublished(b"w"), NOW)
    effects = setup.tell(withdrawals=(b"w",), sender=BOB)
    assert not [effect for effect in effects if isinstance(effect, JudgeWithdrawal)]
    assert reply_news(effects).withdrawals == (b"w",)


def test_a_withdrawal_that_is_too_long_is_not_published() -> None:
    setup = Setup()
    with pytest.raises(UsageError, match="at most"):
        setup.membership.handle(WithdrawalPublished(bytes(WITHDRAWAL_LIMIT + 1)), NOW)


def test_new_addresses_are_told() -> None:
    setup = Setup()
    before = setup.membership.own_record
    setup.membership.handle(AddressesChanged(), NOW + 60)
    assert setup.membership.own_record != before
    assert setup.membership.own_record in reply_news(setup.tell()).records


# Restarts.


def test_a_saved_view_is_taken_over_without_those_who_left() -> None:
    setup = Setup()
    setup.exchange(record(ALICE), record(BOB), record(CAROL))
    saved = setup.membership.snapshot()
    sequence = open_record(setup.membership.own_record).sequence
    restarted = Setup(saved=saved)
    assert restarted.view() == setup.view()
    assert LearnRecord(BOB.peer_id, record(BOB)) in restarted.restored
    assert open_record(restarted.membership.own_record).sequence == sequence + 1
    again = Setup()
    again.admitted.discard(BOB.peer_id)
    again.membership.restore(saved)
    assert again.view() == {ALICE.peer_id, CAROL.peer_id}


def test_a_broken_snapshot_is_refused() -> None:
    setup = Setup()
    setup.exchange(record(ALICE))
    saved = setup.membership.snapshot()
    with pytest.raises(DecodeError):
        setup.membership.restore(saved[:-1])
    forged = bytearray(saved)
    forged[saved.index(b"4001")] ^= 1
    with pytest.raises((DecodeError, IntegrityError)):
        setup.membership.restore(bytes(forged))


def test_healer_and_swapper_fit_the_view() -> None:
    with pytest.raises(ConfigError, match="more than half the view"):
        NodeConfig.from_toml("[membership]\nview_size = 10\n")
    text = '[membership]\nview_size = 10\nhealer = 1\nswapper = 4\npeer_selection = "random"\n'
    assert NodeConfig.from_toml(text).membership.swapper == 4
