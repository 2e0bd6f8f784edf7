"""Membership of one peer: the reactor that a node, a simulator or a test drives.

    membership = Membership(own, settings, sign=..., admit=..., ...)
    membership.restore(saved, now)                     # if there is a saved state
    effects = membership.handle(Started(), now)        # once addresses are known

From then on the driver carries out every effect it is given and reports what happens:

- When `next_timeout()` has come it reports `TimerFired`, however late.
- Each `Send` ends in one `ReplyReceived` (a refusal is a reply) or `RequestFailed`, and each
  `RelayPing` in one `RelayEnded`, within its timeout.
- A decoded request of an admitted peer is reported as `RequestReceived`. The effects of that call,
  or of the `RelayEnded` that follows a `RelayPing`, hold the `Reply`. Requests for the roster the
  driver answers itself.
- `LearnRecord`, `JudgeRoster`, `JudgeObject` and the `Note...` effects are for the owner.

Time is unix seconds and never waited for here; randomness is given. The same events give the same
effects. Everything kept is bounded by the roster or by a limit in `MembershipConfig`.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    GOSSIP_ADVERTISEMENT_BYTES,
    MAX_DEADLINE_MS,
    MAX_GOSSIP_ADVERTISEMENTS,
    MAX_GOSSIP_AGE,
    MAX_GOSSIP_ENTRIES,
    MAX_GOSSIP_RECORDS,
    MAX_GOSSIP_REVOCATIONS,
    MAX_GOSSIP_UPDATES,
    MAX_GOSSIP_WITHDRAWALS,
    RECORD_LIMIT,
    REVOCATION_LIMIT,
    WITHDRAWAL_LIMIT,
    MembershipConfig,
)
from zerorag_p2p.errors import DecodeError, IntegrityError, UsageError
from zerorag_p2p.identity.records import PeerRecord, open_record
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
    ContactFailed,
    ContactSucceeded,
    Effect,
    Event,
    JudgeObject,
    JudgeRoster,
    LearnRecord,
    NeighborsChanged,
    NoteDied,
    NoteMisbehaved,
    NoteRecovered,
    NoteSuspected,
    ObjectKind,
    ObjectPublished,
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
)
from zerorag_p2p.membership.records import Freshness, Learned, RecordBook
from zerorag_p2p.membership.rumours import RumourQueue, retransmissions
from zerorag_p2p.membership.sampling import PeerSampler
from zerorag_p2p.model import PeerId, RefusalCode
from zerorag_p2p.wire.gossip import (
    Accusation,
    Ack,
    Entry,
    Exchange,
    GossipReply,
    GossipRequest,
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

_OBJECT_COUNTS: Final = {
    ObjectKind.REVOCATION: MAX_GOSSIP_REVOCATIONS,
    ObjectKind.ADVERTISEMENT: MAX_GOSSIP_ADVERTISEMENTS,
    ObjectKind.WITHDRAWAL: MAX_GOSSIP_WITHDRAWALS,
}
_OBJECT_BYTES: Final = {
    ObjectKind.REVOCATION: REVOCATION_LIMIT,
    ObjectKind.ADVERTISEMENT: GOSSIP_ADVERTISEMENT_BYTES,
    ObjectKind.WITHDRAWAL: WITHDRAWAL_LIMIT,
}


@dataclass(slots=True)
class _Corrections:
    """What a peer that believes something outdated should be told."""

    records: dict[PeerId, bytes] = field(default_factory=dict)
    updates: dict[PeerId, Update] = field(default_factory=dict)


class Membership:
    """The view, the failure detector and the rumours of one peer.

    Args:
        own: The owner.
        sign: Signs the owner's record, with its present addresses and a given sequence.
        admit: Whether a peer is a member by the roster in force.
        introductions: Peers whose addresses are configured or in the roster, preferred first. One
            that answers is enough.
        roster_version: Version of the roster held.
        members: Number of its members.
        open_record: Verifies a record; a simulator of many peers may put in something faster.
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
        open_record: Callable[[bytes], PeerRecord] = open_record,
    ) -> None:
        self.own = own
        self._settings = settings
        self._sign = sign
        self._admit = admit
        self._roster_version = roster_version
        self._roster_retry_at = -math.inf
        self.records = RecordBook(lambda peer: peer == own or admit(peer), open_record)
        self.sampler = PeerSampler(
            own, settings, introductions=introductions, usable=self._usable, randomness=randomness
        )
        self.detector = FailureDetector(
            settings,
            watched=self._watched,
            incarnation_of=self.records.sequence,
            members=members,
            randomness=randomness,
        )
        self._neighbors: tuple[PeerId, ...] = ()
        self._sequence = 0
        self._own_record = b""
        limit = settings.rumour_limit
        self._record_rumours: RumourQueue[bytes] = RumourQueue(limit)
        self._update_rumours: RumourQueue[Update] = RumourQueue(limit)
        self._object_rumours: dict[ObjectKind, RumourQueue[bytes]] = {
            kind: RumourQueue(limit, size=len) for kind in ObjectKind
        }
        # Digests of objects already judged, the oldest first.
        self._judged: dict[bytes, None] = {}
        self._merged_at: dict[PeerId, float] = {}

    @property
    def own_record(self) -> bytes:
        """Our newest signed record, for hello; empty before `Started`."""
        return self._own_record

    def view(self) -> list[tuple[PeerId, int]]:
        """The peers in the view with their ages in rounds."""
        return self.sampler.view.entries()

    def state(self, peer: PeerId) -> PeerState:
        """What the failure detector thinks of `peer`."""
        return self.detector.state(peer)

    def next_timeout(self) -> float:
        """When to report `TimerFired`, unix seconds; infinite before `Started`."""
        return min(self.sampler.next_timeout(), self.detector.next_timeout())

    def handle(self, event: Event, now: float) -> list[Effect]:
        """What `event` leads to.

        Raises:
            UsageError: An object to publish is too long for gossip.
        """
        match event:
            case TimerFired():
                return self._on_timer(now)
            case RequestReceived():
                return self._on_request(event.peer, event.request, now)
            case ReplyReceived():
                return self._on_reply(event.peer, event.request, event.reply, now)
            case RequestFailed():
                return self._on_failure(event.peer, event.request, now)
            case RelayEnded():
                return self._on_relay_ended(event.origin, event.target, event.answer, now)
            case ContactFailed():
                return self._carry_out(self.detector.on_contact_failed(event.peer, now))
            case ContactSucceeded():
                return self._carry_out(self.detector.on_contact_succeeded(event.peer, now))
            case NeighborsChanged():
                self._neighbors = event.peers
            case RosterChanged():
                self._on_roster_changed(event)
            case Started():
                self._renew_record(max(int(now), self._sequence + 1))
                self.sampler.start(now)
                self.detector.start(now)
            case AddressesChanged():
                self._renew_record(max(int(now), self._sequence + 1))
                self._record_rumours.put(self.own, self._own_record)
            case ObjectPublished():
                self._publish(event)
        return []

    def _usable(self, peer: PeerId) -> bool:
        return self._admit(peer) and self.detector.state(peer) is not PeerState.DEAD

    def _watched(self) -> list[PeerId]:
        peers = dict.fromkeys(self.sampler.view)
        peers.update(dict.fromkeys(peer for peer in self._neighbors if self._admit(peer)))
        return list(peers)

    def _renew_record(self, sequence: int) -> None:
        self._sequence = sequence
        self._own_record = self._sign(sequence)
        self.records.learn(self._own_record)

    # Time.

    def _on_timer(self, now: float) -> list[Effect]:
        effects = self._carry_out(self.detector.on_timer(now))
        effects += [self._exchange(peer) for peer in self.sampler.begin_round(now)]
        return effects

    def _exchange(self, peer: PeerId) -> Send:
        entries = self._entries(self.sampler.sample_for(peer))
        timeout_s = self._settings.ping_timeout_s * self.detector.health.factor
        return Send(peer, Exchange(entries, self._news_for(peer)), timeout_s)

    def _entries(self, sample: Iterable[tuple[PeerId, int]]) -> tuple[Entry, ...]:
        entries = [Entry(self._own_record, 0)]
        for peer, age in sample:
            record = self.records.signed(peer)
            assert record is not None, "a peer in the view came with its record"
            entries.append(Entry(record, age))
        return tuple(entries)

    def _carry_out(self, steps: Iterable[Step]) -> list[Effect]:
        """Turn what the detector wants into messages, and spread its verdicts."""
        effects: list[Effect] = []
        timeout_s = self._settings.ping_timeout_s * self.detector.health.factor
        for step in steps:
            match step:
                case PingPeer(peer):
                    effects.append(Send(peer, Ping(self._news_for(peer)), timeout_s))
                case AskHelper(helper, target):
                    # The helper waits for half of it, as long as we did ourselves.
                    deadline_ms = min(int(2_000 * timeout_s), MAX_DEADLINE_MS)
                    request = PingRequest(target, deadline_ms, self._news_for(helper))
                    effects.append(Send(helper, request, 2 * timeout_s))
                case NoteSuspected(peer, incarnation):
                    self._update_rumours.put(peer, Update(peer, Accusation.SUSPECT, incarnation))
                    effects.append(step)
                case NoteDied(peer, incarnation):
                    self._update_rumours.put(peer, Update(peer, Accusation.DEAD, incarnation))
                    self.sampler.on_died(peer)
                    effects.append(step)
                case NoteRecovered(peer):
                    self._update_rumours.discard(peer)
                    effects.append(step)
        return effects

    # Messages.

    def _on_request(
        self, peer: PeerId, request: Exchange | Ping | PingRequest, now: float
    ) -> list[Effect]:
        corrections = _Corrections()
        try:
            effects, entries = self._take_in(peer, request, corrections, now)
        except (DecodeError, IntegrityError) as error:
            refusal = Refusal(RefusalCode.MALFORMED, str(error))
            return [NoteMisbehaved(peer, str(error)), Reply(refusal)]
        match request:
            case Exchange():
                effects.append(Reply(self._answer_exchange(peer, entries, corrections, now)))
            case Ping():
                effects.append(Reply(Ack(self._news_for(peer, corrections))))
            case PingRequest(target, deadline_ms) if self._usable(target) and target != self.own:
                relayed = Ping(self._news_for(target))
                effects.append(RelayPing(peer, target, relayed, deadline_ms / 2_000))
            case PingRequest():
                effects.append(Reply(Nack(self._news_for(peer, corrections))))
        return effects

    def _answer_exchange(
        self,
        peer: PeerId,
        entries: list[tuple[PeerId, int]],
        corrections: _Corrections,
        now: float,
    ) -> Exchange | Refusal:
        # Whoever asks more often than the rounds go would fill our view with what it likes.
        pause_s = self._settings.exchange_interval_s / 2
        if now - self._merged_at.get(peer, -math.inf) < pause_s:
            return Refusal(
                RefusalCode.RATE_LIMITED,
                f"one view exchange in {pause_s:g} s is enough",
                math.ceil(pause_s),
            )
        self._merged_at[peer] = now
        sample = self.sampler.on_request(peer, entries)
        return Exchange(self._entries(sample), self._news_for(peer, corrections))

    def _on_reply(
        self, peer: PeerId, request: GossipRequest, reply: GossipReply, now: float
    ) -> list[Effect]:
        corrections = _Corrections()
        effects: list[Effect] = []
        entries: list[tuple[PeerId, int]] = []
        if isinstance(reply, Exchange | Ack | Nack):
            try:
                effects, entries = self._take_in(peer, reply, corrections, now)
            except (DecodeError, IntegrityError) as error:
                return [
                    NoteMisbehaved(peer, str(error)),
                    *self._on_failure(peer, request, now),
                ]
        match request, reply:
            case Exchange(), Exchange():
                self.sampler.on_reply(peer, entries)
                if corrections.records or corrections.updates:
                    timeout_s = self._settings.ping_timeout_s
                    effects.append(
                        Send(peer, Ping(self._news_for(peer, corrections)), timeout_s)
                    )
            case Exchange(), _:
                self.sampler.on_refusal(peer)
            case Ping(), _:
                steps = self.detector.on_ping_ended(peer, reached=True, now=now)
                effects += self._carry_out(steps)
            case PingRequest(target), _:
                outcome = Help.REACHED if isinstance(reply, Ack) else Help.NOT_REACHED
                steps = self.detector.on_help_ended(peer, target, outcome, now)
                effects += self._carry_out(steps)
            case RosterRequest(), RosterReply(bytes(roster)):
                effects.append(JudgeRoster(peer, roster))
        return effects

    def _on_failure(self, peer: PeerId, request: GossipRequest, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match request:
            case Exchange():
                steps = self.detector.on_contact_failed(peer, now)
                effects = self._carry_out(steps)
                other = self.sampler.on_failure(peer)
                if other is not None:
                    effects.append(self._exchange(other))
            case Ping():
                steps = self.detector.on_ping_ended(peer, reached=False, now=now)
                effects = self._carry_out(steps)
            case PingRequest(target):
                steps = self.detector.on_help_ended(peer, target, Help.SILENT, now)
                effects = self._carry_out(steps)
        return effects

    def _on_relay_ended(
        self, origin: PeerId, target: PeerId, answer: Ack | None, now: float
    ) -> list[Effect]:
        if answer is None:
            return [Reply(Nack(self._news_for(origin)))]
        corrections = _Corrections()
        try:
            effects, _ = self._take_in(target, answer, corrections, now)
        except (DecodeError, IntegrityError) as error:
            return [NoteMisbehaved(target, str(error)), Reply(Nack(self._news_for(origin)))]
        # What refutes the accusation of the one who asked is the target's newest record.
        record = self.records.signed(target)
        if record is not None:
            corrections.records = {target: record}
        corrections.updates = {}
        return [*effects, Reply(Ack(self._news_for(origin, corrections)))]

    # Taking in what a message tells.

    def _take_in(
        self,
        peer: PeerId,
        message: Exchange | Ping | PingRequest | Ack | Nack,
        corrections: _Corrections,
        now: float,
    ) -> tuple[list[Effect], list[tuple[PeerId, int]]]:
        """Learn from a message; effects, and the view entries that may be merged.

        Raises:
            DecodeError, IntegrityError: A record is malformed or forged; then nothing is learnt
                but the records before it.
        """
        received = message.entries if isinstance(message, Exchange) else ()
        opened = [(self.records.learn(entry.record), entry.age) for entry in received]
        told = [self.records.learn(record) for record in message.news.records]
        effects: list[Effect] = []
        entries = []
        for learned, age in opened:
            if learned is None:
                continue
            effects += self._on_record(learned, corrections)
            replayed = learned.freshness is Freshness.OLDER
            if not replayed and self._usable(learned.peer):
                entries.append((learned.peer, age))
        for learned in told:
            if learned is not None:
                effects += self._on_record(learned, corrections)
        for update in message.news.updates:
            effects += self._on_update(update, corrections, now)
        effects += self._on_objects(peer, message.news)
        version = message.news.roster_version
        if version is not None and version > self._roster_version and now >= self._roster_retry_at:
            self._roster_retry_at = now + self._settings.roster_timeout_s
            request = RosterRequest(self._roster_version)
            effects.append(Send(peer, request, self._settings.roster_timeout_s))
        return effects, entries

    def _on_record(self, learned: Learned, corrections: _Corrections) -> list[Effect]:
        peer = learned.peer
        if peer == self.own:
            if learned.freshness is Freshness.NEWER:
                # Signed in an earlier life that we do not remember.
                self._refute(learned.sequence + 1)
            elif learned.freshness is Freshness.OLDER:
                corrections.records[peer] = self._own_record
            return []
        match learned.freshness:
            case Freshness.OLDER:
                newest = self.records.signed(peer)
                if newest is not None:
                    corrections.records[peer] = newest
                return []
            case Freshness.SAME:
                if self.detector.state(peer) is PeerState.DEAD:
                    self._accuse(peer, corrections)
                return []
            case Freshness.NEWER:
                self._record_rumours.put(peer, learned.signed)
        steps = self.detector.on_record(peer, learned.sequence)
        return [LearnRecord(peer, learned.signed), *self._carry_out(steps)]

    def _accuse(self, peer: PeerId, corrections: _Corrections) -> None:
        accusation = self.detector.accusation(peer)
        if accusation is not None:
            corrections.updates[peer] = accusation

    def _on_update(
        self, update: Update, corrections: _Corrections, now: float
    ) -> list[Effect]:
        known = self.records.sequence(update.peer)
        newest = self.records.signed(update.peer)
        if known is None or newest is None:
            return []
        if update.incarnation < known:
            corrections.records[update.peer] = newest
            return []
        if update.peer != self.own:
            return self._carry_out(self.detector.on_accused(update, now))
        if update.incarnation == known:
            self._refute(known + 1)
            self.detector.health.adjust(1)
            corrections.records[self.own] = self._own_record
        return []

    def _refute(self, sequence: int) -> None:
        self._renew_record(sequence)
        self._record_rumours.put(self.own, self._own_record)

    def _on_objects(self, peer: PeerId, news: News) -> list[Effect]:
        kinds = (
            (ObjectKind.REVOCATION, news.revocations),
            (ObjectKind.ADVERTISEMENT, news.advertisements),
            (ObjectKind.WITHDRAWAL, news.withdrawals),
        )
        effects: list[Effect] = []
        for kind, objects in kinds:
            for data in objects:
                digest = hashlib.sha256(data).digest()
                if digest not in self._judged:
                    self._remember_judged(digest)
                    effects.append(JudgeObject(peer, kind, data))
        return effects

    def _remember_judged(self, digest: bytes) -> None:
        self._judged[digest] = None
        if len(self._judged) > self._settings.rumour_limit:
            del self._judged[next(iter(self._judged))]

    def _publish(self, published: ObjectPublished) -> None:
        kind, data = published.kind, published.data
        if len(data) > _OBJECT_BYTES[kind]:
            raise UsageError(
                f"{len(data)} bytes are too long for gossip, which carries a "
                f"{kind.name.lower()} of {_OBJECT_BYTES[kind]} at most"
            )
        self._remember_judged(hashlib.sha256(data).digest())
        self._object_rumours[kind].put(published.key, data)

    # News to send.

    def _news_for(self, peer: PeerId, corrections: _Corrections | None = None) -> News:
        """News for one message: what concerns the receiver first, then rumours."""
        times = retransmissions(self._settings.retransmit_multiplier, self.detector.members)
        records: dict[bytes, None] = {}
        updates: dict[PeerId, Update] = {}
        accusation = self.detector.accusation(peer)
        if accusation is not None:
            # The receiver refutes only what names its newest record; it may not know which.
            updates[peer] = accusation
            newest = self.records.signed(peer)
            if newest is not None:
                records[newest] = None
        if corrections is not None:
            for record in corrections.records.values():
                if len(records) < MAX_GOSSIP_RECORDS:
                    records[record] = None
            for accused, update in corrections.updates.items():
                if len(updates) < MAX_GOSSIP_UPDATES:
                    updates[accused] = update
        room = MAX_GOSSIP_RECORDS - len(records)
        records.update(dict.fromkeys(self._record_rumours.take(room, times=times)))
        room = MAX_GOSSIP_UPDATES - len(updates)
        for update in self._update_rumours.take(room, times=times):
            updates.setdefault(update.peer, update)
        objects = {
            kind: tuple(
                queue.take(
                    _OBJECT_COUNTS[kind], times=times, max_bytes=GOSSIP_ADVERTISEMENT_BYTES
                )
            )
            for kind, queue in self._object_rumours.items()
        }
        return News(
            roster_version=self._roster_version,
            records=tuple(records),
            updates=tuple(updates.values()),
            revocations=objects[ObjectKind.REVOCATION],
            advertisements=objects[ObjectKind.ADVERTISEMENT],
            withdrawals=objects[ObjectKind.WITHDRAWAL],
        )

    # The roster, and state across restarts.

    def _on_roster_changed(self, event: RosterChanged) -> None:
        self._roster_version = event.version
        self._roster_retry_at = -math.inf
        self.detector.members = event.members
        for peer in self.records.drop_strangers():
            self.sampler.forget(peer)
            self.detector.forget(peer)
            self._merged_at.pop(peer, None)
            self._record_rumours.discard(peer)
            self._update_rumours.discard(peer)

    def snapshot(self) -> bytes:
        """The state that a restart needs, for `restore`."""
        lost = (self.records.signed(peer) for peer in self.sampler.lost())
        return cbor.encode(
            {
                "version": _SNAPSHOT_VERSION,
                "sequence": self._sequence,
                "view": [
                    {"record": self.records.signed(peer), "age": age} for peer, age in self.view()
                ],
                "lost": [record for record in lost if record is not None],
            }
        )

    def restore(self, data: bytes) -> list[Effect]:
        """Take over a snapshot before `Started`; peers that are no members now are left out.

        Raises:
            DecodeError: It is malformed.
            IntegrityError: A record in it does not verify.
        """
        reader = MapReader(cbor.decode(data, limit=_SNAPSHOT_LIMIT), "membership state")
        reader.integer("version", minimum=_SNAPSHOT_VERSION, maximum=_SNAPSHOT_VERSION)
        sequence = reader.integer("sequence", maximum=cbor_max_integer())
        view = reader.items("view", max_items=2 * MAX_GOSSIP_ENTRIES)
        lost = reader.items("lost", max_items=self._settings.lost_limit)
        reader.finish()
        return []
