"""View, rumours and failure detector under arbitrary histories."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from zerorag_p2p.config import MAX_GOSSIP_AGE, MembershipConfig
from zerorag_p2p.identity.records import PeerRecord
from zerorag_p2p.membership.detector import (
    AskHelper,
    FailureDetector,
    Help,
    PeerState,
    PingPeer,
    Step,
)
from zerorag_p2p.membership.events import NoteDied, NoteRecovered, NoteSuspected
from zerorag_p2p.membership.health import LocalHealth
from zerorag_p2p.membership.records import Freshness, RecordBook
from zerorag_p2p.membership.rumours import RumourQueue
from zerorag_p2p.membership.view import PartialView
from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.gossip import Accusation, Update

PEERS = [PeerId(f"p{number}") for number in range(8)]
OWN = PEERS[0]
peers = st.sampled_from(PEERS)
entries = st.lists(st.tuples(peers, st.integers(0, MAX_GOSSIP_AGE)), max_size=12)


@given(
    st.integers(4, 8),
    st.lists(st.tuples(entries, st.lists(peers, max_size=4), st.booleans()), max_size=12),
    st.integers(0, 99),
)
def test_a_view_is_bounded_and_holds_everybody_once_but_its_owner(
    capacity: int,
    history: list[tuple[list[tuple[PeerId, int]], list[PeerId], bool]],
    seed: int,
) -> None:
    def run() -> list[list[tuple[PeerId, int]]]:
        view = PartialView(
            OWN, capacity=capacity, healer=1, swapper=1, randomness=random.Random(seed)
        )
        states = []
        for received, sent, grow in history:
            before = dict(view.entries())
            view.merge(received, sent)
            if grow:
                view.grow_older()
            after = dict(view.entries())
            assert len(view.entries()) == len(after) <= capacity
            assert OWN not in after
            assert after.keys() <= before.keys() | {peer for peer, _ in received}
            assert all(age <= MAX_GOSSIP_AGE for age in after.values())
            known = before.keys() | {peer for peer, _ in received if peer != OWN}
            assert len(after) == min(capacity, len(known))
            for peer, age in after.items():
                youngest = min(
                    [before.get(peer, MAX_GOSSIP_AGE)]
                    + [other for name, other in received if name == peer]
                )
                assert age == min(youngest + grow, MAX_GOSSIP_AGE)
            assert len(view.sample()) == min(len(view), capacity // 2 - 1)
            states.append(view.entries())
        return states

    assert run() == run()


@given(st.lists(st.tuples(peers, st.integers(0, 5), st.booleans()), max_size=30))
def test_the_newest_record_of_an_admitted_peer_wins(
    history: list[tuple[PeerId, int, bool]],
) -> None:
    admitted = set(PEERS[:5])
    opened: list[bytes] = []

    def open_record(data: bytes) -> PeerRecord:
        opened.append(data)
        peer, sequence, _ = data.decode().split()
        return PeerRecord(PeerId(peer), (), int(sequence))

    book = RecordBook(admitted.__contains__, open_record)
    model: dict[PeerId, tuple[int, bytes]] = {}
    for peer, sequence, variant in history:
        signed = f"{peer} {sequence} {variant}".encode()
        freshness = book.learn(book.verify(signed))
        held = model.get(peer)
        if peer not in admitted:
            assert freshness is None
        elif held is None or sequence > held[0]:
            model[peer] = (sequence, signed)
            assert freshness is (Freshness.FIRST if held is None else Freshness.NEWER)
        else:
            assert freshness is (Freshness.SAME if sequence == held[0] else Freshness.OLDER)
        for other in PEERS:
            expected = model.get(other)
            assert book.sequence(other) == (None if expected is None else expected[0])
            assert book.signed(other) == (None if expected is None else expected[1])
    opened.clear()
    for _, signed in model.values():
        book.verify(signed)
    assert not opened, "the newest record is verified once"
    admitted.clear()
    assert sorted(book.drop_strangers()) == sorted(model)
    assert all(book.signed(peer) is None for peer in PEERS)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.binary(min_size=1, max_size=9)), max_size=20),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_rumours_are_told_a_number_of_times_within_the_bounds(
    put: list[tuple[int, bytes]], times: int, count: int
) -> None:
    queue: RumourQueue[bytes] = RumourQueue(4)
    for key, item in put:
        queue.put(key, item)
        assert len(queue) <= 4
    told: dict[bytes, int] = {}
    for _ in range(times * 4 + 20):
        items = queue.take(count, times=times)
        assert len(items) <= count
        for item in items:
            told[item] = told.get(item, 0) + 1
    newest = dict(put)
    assert all(told[item] <= times * list(newest.values()).count(item) for item in told)


@given(st.integers(1, 8), st.lists(st.integers(-3, 3)))
def test_health_stays_within_its_scale(limit: int, changes: list[int]) -> None:
    health = LocalHealth(limit)
    assert health.factor == 1
    for change in changes:
        health.adjust(change)
        assert 1 <= health.factor <= limit


class Detector(RuleBasedStateMachine):
    """A detector whose pings, helpers and accusers do anything."""

    @initialize(seed=st.integers(0, 99))
    def start(self, seed: int) -> None:
        self.now = 1_000.0
        self.incarnations = dict.fromkeys(PEERS[1:7], 1)
        self.settings = MembershipConfig()
        self.detector = FailureDetector(
            self.settings,
            watched=lambda: PEERS[1:6],
            incarnation_of=self.incarnations.get,
            members=10,
            randomness=random.Random(seed),
        )
        self.detector.start(self.now)
        self.pinged: list[PeerId] = []
        self.asked: list[tuple[PeerId, PeerId]] = []
        self.states = dict.fromkeys(PEERS, PeerState.ALIVE)
        self.suspected_at: dict[PeerId, float] = {}

    def follow(self, steps: list[Step]) -> None:
        """Check that every change of state is announced, and is one that may happen."""
        for step in steps:
            match step:
                case PingPeer(peer):
                    self.pinged.append(peer)
                case AskHelper(helper, target):
                    assert helper != target
                    self.asked.append((helper, target))
                case NoteSuspected(peer, incarnation):
                    assert self.states[peer] is PeerState.ALIVE
                    assert incarnation == self.incarnations[peer]
                    self.states[peer] = PeerState.SUSPECT
                    self.suspected_at[peer] = self.now
                case NoteDied(peer, incarnation):
                    assert self.states[peer] is PeerState.SUSPECT
                    assert incarnation == self.incarnations[peer]
                    waited = self.now - self.suspected_at[peer]
                    assert waited >= self.detector.suspicion_timeout_s()
                    self.states[peer] = PeerState.DEAD
                case NoteRecovered(peer):
                    assert self.states[peer] is not PeerState.ALIVE
                    self.states[peer] = PeerState.ALIVE

    @rule(late_s=st.sampled_from([0.0, 0.5, 3.0, 20.0, 4_000.0]))
    def timer(self, late_s: float) -> None:
        self.now = max(self.now, self.detector.next_timeout()) + late_s
        self.follow(self.detector.on_timer(self.now))
        assert self.detector.next_timeout() > self.now

    @rule(reached=st.booleans())
    def ping_ended(self, reached: bool) -> None:
        if self.pinged:
            peer = self.pinged.pop(0)
            self.follow(self.detector.on_ping_ended(peer, reached=reached, now=self.now))

    @rule(outcome=st.sampled_from(Help))
    def help_ended(self, outcome: Help) -> None:
        if self.asked:
            helper, target = self.asked.pop(0)
            self.follow(self.detector.on_help_ended(helper, target, outcome, self.now))

    @rule(peer=peers, incarnation=st.integers(0, 4), dead=st.booleans())
    def accused(self, peer: PeerId, incarnation: int, dead: bool) -> None:
        state = Accusation.DEAD if dead else Accusation.SUSPECT
        before = dict(self.states)
        self.follow(self.detector.on_accused(Update(peer, state, incarnation), self.now))
        if incarnation != self.incarnations.get(peer):
            assert self.states == before, "only the newest incarnation can be accused"
        assert self.detector.state(peer) is not PeerState.DEAD or before[peer] is PeerState.DEAD

    @rule(peer=st.sampled_from(PEERS[1:7]), newer=st.booleans())
    def record(self, peer: PeerId, newer: bool) -> None:
        before = self.states[peer]
        self.incarnations[peer] += newer
        self.follow(self.detector.on_record(peer, self.incarnations[peer]))
        # A newer record refutes anything; an old one does not even bring back the dead.
        assert self.states[peer] is (PeerState.ALIVE if newer else before)

    @rule(peer=peers)
    def contact_failed(self, peer: PeerId) -> None:
        self.follow(self.detector.on_contact_failed(peer, self.now))

    @rule(peer=peers)
    def contact_succeeded(self, peer: PeerId) -> None:
        self.follow(self.detector.on_contact_succeeded(peer, self.now))

    @invariant()
    def states_agree_and_suspects_have_a_deadline(self) -> None:
        if not hasattr(self, "detector"):
            return
        for peer in PEERS:
            assert self.detector.state(peer) is self.states[peer]
        due = self.detector.next_timeout()
        assert math.isfinite(due)
        if PeerState.SUSPECT in self.states.values():
            assert due <= self.now + self.detector.suspicion_timeout_s()


TestDetector = Detector.TestCase
TestDetector.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
