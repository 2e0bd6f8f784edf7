"""Membership of one peer: the reactor that a node, a simulator or a test drives.

    membership = Membership(own, settings, sign=..., admit=..., ...)
    effects = membership.restore(saved)                # if there is a saved state
    effects += membership.handle(Started(), now)       # once our addresses are known

From then on the driver carries out every effect it is given and reports what happens:

- When the time that `next_timeout()` names has come it reports `TimerFired`, however late.
- Each `Send` ends in one `ReplyReceived` (a refusal is a reply) or `RequestFailed`, and each
  `RelayPing` in one `RelayEnded`, within its timeout.
- A decoded request of an admitted peer is reported as `RequestReceived`. The effects of that call,
  or of the `RelayEnded` that follows a `RelayPing`, hold the `Reply`. Requests for the roster and
  for advertisements the driver answers itself.
- `PullAdvertisements` tells when to ask whom; what is asked and kept is the owner's business.
- `LearnRecord`, `JudgeRoster`, `JudgeWithdrawal` and the `Note...` effects are for the owner.

Time is unix seconds; randomness is given. The same events give the same effects. Everything that is
kept is bounded by the roster or by a limit in `MembershipConfig`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    MAX_DEADLINE_MS,
    MAX_GOSSIP_AGE,
    MAX_GOSSIP_ENTRIES,
    MAX_INTEGER,
    MAX_ROSTER_MEMBERS,
    RECORD_LIMIT,
    MembershipConfig,
)
from zerorag_p2p.errors import DecodeError, IntegrityError
from zerorag_p2p.identity.records import PeerRecord, open_record
from zerorag_p2p.membership.catching_up import CatchingUp
from zerorag_p2p.membership.detector import (
    AskHelper,
    FailureDetector,
    Help,
    PeerState,
    PingPeer,
    Step,
)
from zerorag_p2p.membership.events import (
    AddressesChanged,
    AdvertisementsLost,
    ContactFailed,
    ContactSucceeded,
    Effect,
    Event,
    JudgeRoster,
    JudgeWithdrawal,
    LearnRecord,
    MembershipRequest,
    NeighborsChanged,
    NoteDied,
    NoteMisbehaved,
    NoteRecovered,
    NoteSuspected,
    PullAdvertisements,
    PullEnded,
    PullWanted,
    PullWithdrawals,
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
    WithdrawalsPulled,
)
from zerorag_p2p.membership.news import Corrections, NewsDesk
from zerorag_p2p.membership.pulls import PullSchedule
from zerorag_p2p.membership.records import Freshness, RecordBook, SignedRecord
from zerorag_p2p.membership.sampling import PeerSampler
from zerorag_p2p.model import PeerId, RefusalCode
from zerorag_p2p.wire.gossip import (
    Accusation,
    Ack,
    Entry,
    Exchange,
    GossipReply,
    Nack,
    News,
    Ping,
    PingRequest,
    RosterReply,
    RosterRequest,
    Update,
)
from zerorag_p2p.wire.refusal import Refusal

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_LIMIT: Final = 64 << 20


class Membership:
    """The view, the failure detector and the news of one peer.

    Args:
        own: The owner.
        sign: Signs the owner's record, with its present addresses and a given sequence.
        admit: Whether a peer is a member by the roster in force.
        introductions: Peers whose addresses are configured or in the roster, preferred first. One
            that answers is enough.
        roster_version: Version of the roster held.
        members: Number of its members.
        near: Peers that are nearest by content, to be asked for advertisements of others; without
            it nobody is.
        withdrawals_held: Digest of the withdrawals that the owner holds; empty while it has none.
        open_record: Verifies a record; a simulation of many peers may put in something faster.
    """

    def __init__(
        self,
        own: PeerId,
        settings: MembershipConfig,
        *,
        sign: Callable[[int], bytes],
        admit: Callable[[PeerId], bool],
        introductions: Sequence[PeerId],
        roster_version: int,
        members: int,
        randomness: random.Random,
        near: Callable[[], Iterable[PeerId]] | None = None,
        withdrawals_held: Callable[[], bytes] = lambda: b"",
        open_record: Callable[[bytes], PeerRecord] = open_record,
    ) -> None:
        self.own = own
        self._settings = settings
        self._sign = sign
        self._admit = admit
        self._roster_version = roster_version
        self._roster_retry_at = -math.inf
        self._neighbors: tuple[PeerId, ...] = ()
        self._own_record = SignedRecord(own, 0, b"")
        # When a peer's request for an exchange was last granted, unix seconds.
        self._exchanged_at: dict[PeerId, float] = {}
        self._records = RecordBook(lambda peer: peer == own or admit(peer), open_record)
        self._news = NewsDesk(settings, members)
        self._withdrawals_held = withdrawals_held
        self._catching_up = CatchingUp(withdrawals_held, settings.exchange_interval_s / 2)
        self._sampler = PeerSampler(
            own, settings, introductions=introductions, usable=self._usable, randomness=randomness
        )
        self._detector = FailureDetector(
            settings,
            watched=self._watched,
            incarnation_of=self._records.sequence,
            members=members,
            randomness=randomness,
        )
        self._pulls: PullSchedule | None = None
        if near is not None:
            self._pulls = PullSchedule(
                settings,
                near=near,
                view=self._sampler.view.__iter__,
                usable=self._usable,
                randomness=randomness,
            )

    @property
    def own_record(self) -> bytes:
        """Our newest signed record, for hello; empty before `Started`."""
        return self._own_record.signed

    @property
    def health_factor(self) -> int:
        """What our timeouts are multiplied by at the moment; 1 while our messages get through."""
        return self._detector.health.factor

    def view(self) -> list[tuple[PeerId, int]]:
        """The peers in the view with their ages in rounds."""
        return self._sampler.view.entries()

    def state(self, peer: PeerId) -> PeerState:
        """What the failure detector thinks of `peer`."""
        return self._detector.state(peer)

    def next_timeout(self) -> float:
        """When to report `TimerFired`, unix seconds; infinite before `Started`."""
        due = min(self._sampler.next_timeout(), self._detector.next_timeout())
        return due if self._pulls is None else min(due, self._pulls.next_timeout())

    def handle(self, event: Event, now: float) -> list[Effect]:
        """What `event`, which happened at `now`, leads to.

        Raises:
            DecodeError, IntegrityError: The record of a `RecordReceived` does not verify. What
                peers send in gossip raises nothing.
            UsageError: A withdrawal to publish is too long for gossip.
        """
        match event:
            case Started():
                self._renew_record(max(int(now), self._own_record.sequence + 1))
                self._sampler.start(now)
                self._detector.start(now)
                if self._pulls is not None:
                    self._pulls.start(now)
            case TimerFired():
                return self._on_timer(now)
            case RequestReceived(peer, request):
                return self._on_request(peer, request, now)
            case ReplyReceived(peer, request, reply):
                return self._on_reply(peer, request, reply, now)
            case RequestFailed(peer, request):
                return self._on_failure(peer, request, now)
            case RelayEnded(origin, target, answer):
                return self._on_relay_ended(origin, target, answer, now)
            case RecordReceived(signed):
                effects: list[Effect] = []
                self._learn(self._records.verify(signed), Corrections(), effects)
                return effects
            case ContactFailed(peer):
                return self._carry_out(self._detector.on_contact_failed(peer, now))
            case ContactSucceeded(peer):
                return self._carry_out(self._detector.on_contact_succeeded(peer, now))
            case NeighborsChanged(peers):
                self._neighbors = peers
            case RosterChanged(version, members):
                self._on_roster_changed(version, members)
                self._pull_afresh(now)
            case AddressesChanged():
                self._announce(max(int(now), self._own_record.sequence + 1))
            case WithdrawalPublished(sealed):
                self._news.publish_withdrawal(sealed)
            case PullEnded(peer, gained):
                if self._pulls is not None:
                    self._pulls.on_ended(peer, gained=gained, now=now)
                return self._carry_out(self._detector.on_contact_succeeded(peer, now))
            case PullWanted(peer):
                if self._pulls is not None:
                    self._pulls.ask_back(peer, now)
            case AdvertisementsLost():
                self._pull_afresh(now)
            case WithdrawalsPulled(peer, held, gained):
                self._catching_up.on_ended(held, gained=gained)
                return self._carry_out(self._detector.on_contact_succeeded(peer, now))
        return []

    def _on_timer(self, now: float) -> list[Effect]:
        effects = self._carry_out(self._detector.on_timer(now))
        effects += [self._exchange(peer) for peer in self._sampler.begin_round(now)]
        peer = None if self._pulls is None else self._pulls.begin(now)
        if peer is not None:
            timeout_s = self._settings.ping_timeout_s * self.health_factor
            effects.append(PullAdvertisements(peer, timeout_s))
        return effects

    def _pull_afresh(self, now: float) -> None:
        if self._pulls is not None:
            self._pulls.hurry(now)

    def _usable(self, peer: PeerId) -> bool:
        return self._admit(peer) and self._detector.state(peer) is not PeerState.DEAD

    def _watched(self) -> list[PeerId]:
        watched = dict.fromkeys(self._sampler.view)
        watched.update((peer, None) for peer in self._neighbors if self._admit(peer))
        return list(watched)

    def _renew_record(self, sequence: int) -> None:
        self._own_record = SignedRecord(self.own, sequence, self._sign(sequence))
        self._records.learn(self._own_record)

    def _announce(self, sequence: int) -> None:
        """Sign a new record and let everybody know."""
        self._renew_record(sequence)
        self._news.records.put(self.own, self.own_record)

    # Messages of ours.

    def _exchange(self, peer: PeerId) -> Send:
        entries = self._entries(self._sampler.sample_for(peer))
        timeout_s = self._settings.ping_timeout_s * self.health_factor
        return Send(peer, Exchange(entries, self._news_for(peer)), timeout_s)

    def _entries(self, sample: Iterable[tuple[PeerId, int]]) -> tuple[Entry, ...]:
        entries = [Entry(self.own_record, 0)]
        for peer, age in sample:
            record = self._records.signed(peer)
            assert record is not None, "a peer in the view came with its record"
            entries.append(Entry(record, age))
        return tuple(entries)

    def _news_for(self, peer: PeerId, owed: Corrections | None = None) -> News:
        """News for a message to `peer`, what we have against itself included."""
        owed = Corrections() if owed is None else owed
        accusation = self._detector.accusation(peer)
        record = self._records.signed(peer)
        if accusation is not None and record is not None:
            # With the record, a peer that forgot what it signed knows what it has to exceed.
            owed.updates[peer] = accusation
            owed.records[peer] = record
        return self._news.compose(
            self._roster_version, owed, withdrawals_held=self._withdrawals_held()
        )

    def _carry_out(self, steps: Sequence[Step]) -> list[Effect]:
        """Turn the detector's steps into messages, and spread its verdicts."""
        effects: list[Effect] = []
        if not steps:
            return effects
        timeout_s = self._settings.ping_timeout_s * self.health_factor
        for step in steps:
            match step:
                case PingPeer(peer):
                    effects.append(Send(peer, Ping(self._news_for(peer)), timeout_s))
                case AskHelper(helper, target):
                    # The helper takes half of it, so that it waits as long as we did.
                    deadline_ms = min(int(2_000 * timeout_s), MAX_DEADLINE_MS)
                    request = PingRequest(target, deadline_ms, self._news_for(helper))
                    effects.append(Send(helper, request, 2 * timeout_s))
                case NoteSuspected(peer, incarnation):
                    suspicion = Update(peer, Accusation.SUSPECT, incarnation)
                    self._news.updates.put(peer, suspicion)
                    effects.append(step)
                case NoteDied(peer, incarnation):
                    self._news.updates.put(peer, Update(peer, Accusation.DEAD, incarnation))
                    self._sampler.on_died(peer)
                    effects.append(step)
                case NoteRecovered(peer):
                    self._news.updates.discard(peer)
                    effects.append(step)
        return effects

    # Messages of others.

    def _on_request(
        self, peer: PeerId, request: Exchange | Ping | PingRequest, now: float
    ) -> list[Effect]:
        owed = Corrections()
        try:
            effects, entries = self._take_in(peer, request, owed, now)
        except (DecodeError, IntegrityError) as error:
            refusal = Refusal(RefusalCode.MALFORMED, str(error))
            return [NoteMisbehaved(peer, str(error)), Reply(refusal)]
        match request:
            case Exchange():
                effects.append(Reply(self._answer_exchange(peer, entries, owed, now)))
            case Ping():
                effects.append(Reply(Ack(self._news_for(peer, owed))))
            case PingRequest(target, deadline_ms) if target != self.own and self._admit(target):
                ping = Ping(self._news_for(target))
                effects.append(RelayPing(peer, target, ping, deadline_ms / 2_000))
            case PingRequest():
                effects.append(Reply(Nack(self._news_for(peer, owed))))
        return effects

    def _answer_exchange(
        self, peer: PeerId, entries: list[tuple[PeerId, int]], owed: Corrections, now: float
    ) -> Exchange | Refusal:
        # Whoever asks more often than rounds go would fill our view with what it likes.
        pause_s = self._settings.exchange_interval_s / 2
        if now - self._exchanged_at.get(peer, -math.inf) < pause_s:
            return Refusal(
                RefusalCode.RATE_LIMITED,
                f"one view exchange in {pause_s:g} s is enough",
                math.ceil(pause_s),
            )
        self._exchanged_at[peer] = now
        sample = self._sampler.on_request(peer, entries)
        return Exchange(self._entries(sample), self._news_for(peer, owed))

    def _on_reply(
        self, peer: PeerId, request: MembershipRequest, reply: GossipReply, now: float
    ) -> list[Effect]:
        owed = Corrections()
        effects: list[Effect] = []
        entries: list[tuple[PeerId, int]] = []
        if isinstance(reply, Exchange | Ack | Nack):
            try:
                effects, entries = self._take_in(peer, reply, owed, now)
            except (DecodeError, IntegrityError) as error:
                return [NoteMisbehaved(peer, str(error)), *self._on_failure(peer, request, now)]
        match request:
            case Exchange() if isinstance(reply, Exchange):
                self._sampler.on_reply(peer, entries)
                if owed:
                    ping = Ping(self._news_for(peer, owed))
                    effects.append(Send(peer, ping, self._settings.ping_timeout_s))
            case Exchange():
                self._sampler.on_refusal(peer)
            case Ping():
                steps = self._detector.on_ping_ended(peer, reached=True, now=now)
                effects += self._carry_out(steps)
            case PingRequest(target):
                outcome = Help.REACHED if isinstance(reply, Ack) else Help.NOT_REACHED
                steps = self._detector.on_help_ended(peer, target, outcome, now)
                effects += self._carry_out(steps)
            case RosterRequest():
                if isinstance(reply, RosterReply) and reply.roster is not None:
                    effects.append(JudgeRoster(peer, reply.roster))
        return effects

    def _on_failure(self, peer: PeerId, request: MembershipRequest, now: float) -> list[Effect]:
        match request:
            case Exchange():
                effects = self._carry_out(self._detector.on_contact_failed(peer, now))
                other = self._sampler.on_failure(peer)
                return effects if other is None else [*effects, self._exchange(other)]
            case Ping():
                return self._carry_out(self._detector.on_ping_ended(peer, reached=False, now=now))
            case PingRequest(target):
                return self._carry_out(self._detector.on_help_ended(peer, target, Help.SILENT, now))
            case RosterRequest():
                return []

    def _on_relay_ended(
        self, origin: PeerId, target: PeerId, answer: Ack | None, now: float
    ) -> list[Effect]:
        if answer is None:
            return [Reply(Nack(self._news_for(origin)))]
        try:
            effects, _ = self._take_in(target, answer, Corrections(), now)
        except (DecodeError, IntegrityError) as error:
            return [NoteMisbehaved(target, str(error)), Reply(Nack(self._news_for(origin)))]
        # The target's newest record refutes what the one who asks may have against it.
        record = self._records.signed(target)
        refutation = Corrections({} if record is None else {target: record})
        return [*effects, Reply(Ack(self._news_for(origin, refutation)))]

    # What a message tells.

    def _take_in(
        self,
        peer: PeerId,
        message: Exchange | Ping | PingRequest | Ack | Nack,
        owed: Corrections,
        now: float,
    ) -> tuple[list[Effect], list[tuple[PeerId, int]]]:
        """Learn from a message: the effects, and the view entries by up-to-date records.

        What the sender believes wrongly is noted in `owed`.

        Raises:
            DecodeError, IntegrityError: A record is malformed or forged; then nothing is learnt.
        """
        received = message.entries if isinstance(message, Exchange) else ()
        held = [(self._records.verify(entry.record), entry.age) for entry in received]
        told = [self._records.verify(record) for record in message.news.records]
        effects: list[Effect] = []
        entries = []
        for record, age in held:
            freshness = self._learn(record, owed, effects)
            # An entry by an outdated record is a replay, or as good as one.
            if freshness is not None and freshness is not Freshness.OLDER:
                entries.append((record.peer, age))
        for record in told:
            self._learn(record, owed, effects)
        for update in message.news.updates:
            effects += self._on_update(update, owed, now)
        effects += [JudgeWithdrawal(peer, sealed) for sealed in self._news.unjudged(message.news)]
        if self._catching_up.wants(message.news.withdrawals_held, now):
            timeout_s = self._settings.ping_timeout_s * self.health_factor
            effects.append(PullWithdrawals(peer, message.news.withdrawals_held, timeout_s))
        version = message.news.roster_version
        if version is not None and version > self._roster_version and now >= self._roster_retry_at:
            timeout_s = self._settings.roster_timeout_s
            self._roster_retry_at = now + timeout_s
            effects.append(Send(peer, RosterRequest(self._roster_version), timeout_s))
        return effects, entries

    def _learn(
        self, record: SignedRecord, owed: Corrections, effects: list[Effect]
    ) -> Freshness | None:
        freshness = self._records.learn(record)
        peer = record.peer
        match freshness:
            case Freshness.SAME:
                if self._detector.state(peer) is PeerState.DEAD:
                    self._accuse(peer, owed)
            case Freshness.OLDER:
                owed.records[peer] = self._newest(peer)
            case Freshness.NEWER if peer == self.own:
                # We signed it in an earlier life and forgot.
                self._announce(record.sequence + 1)
            case Freshness.FIRST | Freshness.NEWER:
                effects.append(LearnRecord(peer, record.signed))
                effects += self._carry_out(self._detector.on_record(peer, record.sequence))
                if freshness is Freshness.NEWER:
                    self._news.records.put(peer, record.signed)
        return freshness

    def _newest(self, peer: PeerId) -> bytes:
        record = self._records.signed(peer)
        assert record is not None, "only a newer record makes another one older"
        return record

    def _accuse(self, peer: PeerId, owed: Corrections) -> None:
        accusation = self._detector.accusation(peer)
        if accusation is not None:
            owed.updates[peer] = accusation

    def _on_update(self, update: Update, owed: Corrections, now: float) -> list[Effect]:
        known = self._records.sequence(update.peer)
        if known is None or update.incarnation > known:
            return []
        if update.incarnation < known:
            owed.records[update.peer] = self._newest(update.peer)
            return []
        if update.peer == self.own:
            self._announce(known + 1)
            self._detector.health.adjust(1)
            owed.records[self.own] = self.own_record
            return []
        return self._carry_out(self._detector.on_accused(update, now))

    # The roster, and state across restarts.

    def _on_roster_changed(self, version: int, members: int) -> None:
        self._roster_version = version
        self._roster_retry_at = -math.inf
        self._detector.members = self._news.members = members
        for peer in self._records.drop_strangers():
            self._sampler.forget(peer)
            self._detector.forget(peer)
            self._news.drop(peer)
            self._exchanged_at.pop(peer, None)

    def snapshot(self) -> bytes:
        """The state that a restart needs, for `restore`."""
        return cbor.encode(
            {
                "version": _SNAPSHOT_VERSION,
                "sequence": self._own_record.sequence,
                "view": [{"record": self._newest(peer), "age": age} for peer, age in self.view()],
                "lost": [self._newest(peer) for peer in self._sampler.lost()],
            }
        )

    def restore(self, data: bytes) -> list[Effect]:
        """Take over a snapshot, before `Started`; peers that are members no more are left out.

        Raises:
            DecodeError: It is malformed.
            IntegrityError: A record in it does not verify.
        """
        reader = MapReader(cbor.decode(data, limit=_SNAPSHOT_LIMIT), "membership state")
        reader.integer("version", minimum=_SNAPSHOT_VERSION, maximum=_SNAPSHOT_VERSION)
        sequence = reader.integer("sequence", maximum=MAX_INTEGER)
        entries = [
            self._saved_entry(MapReader(item, "saved entry"))
            for item in reader.items("view", max_items=2 * MAX_GOSSIP_ENTRIES)
        ]
        lost = [
            self._saved_record(MapReader({"record": item}, "lost peer"))
            for item in reader.items("lost", max_items=MAX_ROSTER_MEMBERS)
        ]
        reader.finish()
        self._own_record = SignedRecord(self.own, sequence, b"")
        effects: list[Effect] = []
        for record in (*(record for record, _ in entries), *lost):
            self._learn(record, Corrections(), effects)
        self._sampler.restore(
            [(record.peer, age) for record, age in entries], [record.peer for record in lost]
        )
        return effects

    def _saved_entry(self, reader: MapReader) -> tuple[SignedRecord, int]:
        entry = (self._saved_record(reader), reader.integer("age", maximum=MAX_GOSSIP_AGE))
        reader.finish()
        return entry

    def _saved_record(self, reader: MapReader) -> SignedRecord:
        return self._records.verify(reader.binary("record", max_bytes=RECORD_LIMIT))
