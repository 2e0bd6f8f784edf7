"""Drives the membership reactor of a node: timers, messages, and what its verdicts lead to."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

import trio

from zerorag_p2p.config import REFUSAL_HELD_S
from zerorag_p2p.errors import DecodeError, IntegrityError, RosterError
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.membership.events import (
    AdvertisementsLost,
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
from zerorag_p2p.membership.membership import Membership
from zerorag_p2p.model import PeerId, RefusalCode
from zerorag_p2p.node.auditing import Audit
from zerorag_p2p.node.contacts import Failure, Outcome
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.happenings import MemberChanged, Observer
from zerorag_p2p.node.outgoing import Exchanges
from zerorag_p2p.node.sessions import Sessions
from zerorag_p2p.node.sketching import Sketching
from zerorag_p2p.node.withdrawals import Withdrawals
from zerorag_p2p.peer import Peer
from zerorag_p2p.policy.limits import Kind, Limits
from zerorag_p2p.wire.gossip import (
    Ack,
    AdvertisementsReply,
    AdvertisementsRequest,
    Exchange,
    GossipReply,
    GossipRequest,
    RosterReply,
    RosterRequest,
    WithdrawalsReply,
    WithdrawalsRequest,
    decode_gossip,
    encode_gossip_reply,
)
from zerorag_p2p.wire.refusal import Refusal, encode_refusal

logger = logging.getLogger("zerorag.node")


class Gossip:
    """Runs `membership` over the network of a node.

    Args:
        peer: Routing state; its neighbours are watched.
        sketching: Asks and answers for advertisements of others.
        withheld: Why nobody is told anything of documents at the moment, if that is so.
        import_roster: Takes over a newer roster, or raises `RosterError`.
        on_died: Told of a peer that is gone, with a reason for people.
        withdrawals: What owners took back.
        on_withdrawn: Told of every withdrawal that another owner made.
        clock: Unix seconds.
        tell: Takes in what the failure detector finds.
        limits: Counts what others ask.
        audit: Keeps heads of audit logs, ours and those of others.
    """

    def __init__(
        self,
        *,
        membership: Membership,
        peer: Peer,
        sketching: Sketching,
        withheld: Callable[[], Refusal | None],
        directory: Directory,
        sessions: Sessions,
        exchanges: Exchanges,
        import_roster: Callable[[bytes], Awaitable[object]],
        on_died: Callable[[PeerId, str], Awaitable[None]],
        withdrawals: Withdrawals,
        on_withdrawn: Callable[[Withdrawal], object],
        clock: Callable[[], float],
        tell: Observer,
        limits: Limits,
        audit: Audit,
    ) -> None:
        self.membership = membership
        self._peer = peer
        self._sketching = sketching
        self._withheld = withheld
        self._directory = directory
        self._sessions = sessions
        self._exchanges = exchanges
        self._import_roster = import_roster
        self._on_died = on_died
        self._withdrawals = withdrawals
        self._on_withdrawn = on_withdrawn
        self._clock = clock
        self._tell = tell
        self._limits = limits
        self._audit = audit
        self._nursery: trio.Nursery | None = None
        self._changed = trio.Event()
        self._neighbors: tuple[PeerId, ...] = ()

    def start(self) -> None:
        """Sign our record; our addresses have to be known by now."""
        self._handle(Started())
        self._directory.on_learned = lambda record: self._handle(RecordReceived(record))

    async def run(self) -> None:
        """Take part in gossip until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await self._keep_time()
            finally:
                self._nursery = None  # others may still tell how their requests ended

    async def _keep_time(self) -> None:
        while True:
            self._watch_neighbors()
            if self._sketching.drop_lost():
                self._handle(AdvertisementsLost())
            delay = self.membership.next_timeout() - self._clock()
            self._changed = trio.Event()
            with trio.move_on_after(max(delay, 0.0)):
                await self._changed.wait()
            if self.membership.next_timeout() <= self._clock():
                self._handle(TimerFired())

    def on_outcome(self, peer: PeerId, outcome: Outcome) -> None:
        """A query or another request to `peer` ended; that is evidence too."""
        if outcome in {Outcome.UNREACHABLE, Outcome.TIMED_OUT}:
            self._handle(ContactFailed(peer))
        else:
            self._handle(ContactSucceeded(peer))

    def on_roster_changed(self) -> None:
        """Another roster is in force."""
        roster = self._directory.roster
        self._handle(RosterChanged(roster.version, len(roster.members)))

    async def answer(self, peer: PeerId, payload: bytes) -> bytes:
        """Answer a gossip request of another peer (wire.gossip)."""
        now = self._clock()
        if not self._directory.admits(peer, now):
            reason = f"{peer} {self._directory.standing(peer, now).describe()}"
            return encode_refusal(Refusal(RefusalCode.NOT_A_MEMBER, reason))
        if self._sessions.get(peer) is None:
            reason = "say hello on this connection first"
            return encode_refusal(Refusal(RefusalCode.HELLO_REQUIRED, reason))
        too_early = self._limits.was_told_to_wait(peer, Kind.GOSSIP, now)
        refusal = self._limits.admit(peer, Kind.GOSSIP, len(payload), now)
        if refusal is not None:
            if too_early:
                await trio.sleep(REFUSAL_HELD_S)
            return encode_refusal(refusal)
        reply = await self._answer(peer, payload)
        self._limits.note_reply(peer, len(reply), self._clock())
        return reply

    async def _answer(self, peer: PeerId, payload: bytes) -> bytes:
        try:
            request = decode_gossip(payload)
        except DecodeError as error:
            return encode_refusal(Refusal(RefusalCode.MALFORMED, str(error)))
        if isinstance(request, RosterRequest):
            newer = self._directory.roster.version > request.known_version
            signed = self._directory.signed_roster if newer else None
            return encode_gossip_reply(RosterReply(signed))
        if isinstance(request, AdvertisementsRequest):
            withheld = self._withheld()
            if withheld is not None:
                return encode_gossip_reply(withheld)
            if self._routes_otherwise(peer):
                reason = "this peer routes by another embedding model"
                return encode_gossip_reply(Refusal(RefusalCode.NO_COMMON_EMBEDDING, reason))
            answer = self._sketching.answer(peer, request)
            if isinstance(answer, AdvertisementsReply) and self._sketching.wants(peer, request):
                self._handle(PullWanted(peer))
            return encode_gossip_reply(answer)
        if isinstance(request, WithdrawalsRequest):
            missing = self._withdrawals.missing(request.known)
            return encode_gossip_reply(WithdrawalsReply(tuple(missing)))
        effects = self._reactor(RequestReceived(peer, request))
        for effect in effects:
            if isinstance(effect, RelayPing):
                effects = [*effects, *await self._relay(effect)]
        self._carry_out(effects)
        replies = [effect.message for effect in effects if isinstance(effect, Reply)]
        return encode_gossip_reply(self._with_your_head(peer, request, replies[0]))

    # Heads of audit logs ride on exchanges; the reactor knows nothing of them.

    def _with_your_head(
        self, peer: PeerId, request: GossipRequest, reply: GossipReply
    ) -> GossipReply:
        """A reply to an exchange, with the head of the asker's log that was held before."""
        if (
            isinstance(request, Exchange)
            and isinstance(reply, Exchange)
            and request.head is not None
        ):
            try:
                return replace(reply, your_head=self._audit.on_head(peer, request.head))
            except (DecodeError, IntegrityError) as error:
                logger.warning("%s shows a bad head of its audit log: %s", peer, error)
        return reply

    def _take_head_back(self, peer: PeerId, reply: Exchange) -> None:
        if reply.your_head is None:
            return
        try:
            self._audit.on_head_returned(peer, reply.your_head)
        except (DecodeError, IntegrityError) as error:
            logger.warning("%s returned a bad head of our audit log: %s", peer, error)

    def publish_withdrawal(self, sealed: bytes) -> None:
        """Pass a withdrawal of ours, or one that is new to us, on."""
        self._handle(WithdrawalPublished(sealed))

    async def _relay(self, effect: RelayPing) -> list[Effect]:
        reply = await self._exchanges.gossip(
            effect.target, effect.request, timeout_s=effect.timeout_s
        )
        answer = reply if isinstance(reply, Ack) else None
        return self._reactor(RelayEnded(effect.origin, effect.target, answer))

    def _handle(self, event: Event) -> None:
        self._carry_out(self._reactor(event))

    def _reactor(self, event: Event) -> list[Effect]:
        due = self.membership.next_timeout()
        effects = self.membership.handle(event, self._clock())
        if self.membership.next_timeout() < due:
            self._changed.set()  # `run` waits for too long
        return effects

    def _watch_neighbors(self) -> None:
        neighbors = tuple(neighbor.peer for neighbor in self._peer.neighbors)
        if neighbors != self._neighbors:
            self._neighbors = neighbors
            self._handle(NeighborsChanged(neighbors))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._start(self._send, effect)
                case PullAdvertisements():
                    self._start(self._pull, effect)
                case PullWithdrawals():
                    self._start(self._pull_withdrawals, effect)
                case LearnRecord(peer, record):
                    self._directory.learn(record, peer)
                case JudgeRoster():
                    self._start(self._judge_roster, effect)
                case JudgeWithdrawal(peer, sealed):
                    if self._take_withdrawal_in(peer, sealed):
                        self.publish_withdrawal(sealed)
                case NoteDied(peer):
                    logger.info("%s does not answer any more and is forgotten", peer)
                    self._tell_state(peer)
                    self._start(self._on_died, peer, "does not answer any more")
                case NoteSuspected(peer):
                    logger.debug("%s is suspected to be gone", peer)
                    self._tell_state(peer)
                case NoteRecovered(peer):
                    logger.info("%s is back", peer)
                    self._tell_state(peer)
                case NoteMisbehaved(peer, reason):
                    logger.warning("%s sent bad gossip: %s", peer, reason)
                case Reply() | RelayPing():
                    pass  # `answer` sees to these

    def _tell_state(self, peer: PeerId) -> None:
        self._tell(
            MemberChanged(
                at=self._clock(),
                peer=peer,
                organisation=self._directory.organisation(peer),
                state=self.membership.state(peer),
            )
        )

    def _start(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        if self._nursery is not None:  # nothing is sent before `run`
            self._nursery.start_soon(work, *arguments)

    async def _send(self, effect: Send) -> None:
        request = effect.request
        if isinstance(request, Exchange):
            request = replace(request, head=self._audit.head)
        reply = await self._exchanges.gossip(effect.peer, request, timeout_s=effect.timeout_s)
        if isinstance(reply, Exchange):
            self._take_head_back(effect.peer, reply)
        if isinstance(reply, Failure) and reply.outcome is not Outcome.REFUSED:
            self._handle(RequestFailed(effect.peer, effect.request))
        elif isinstance(reply, Failure):
            refusal = Refusal(RefusalCode(reply.code), reply.reason)
            self._handle(ReplyReceived(effect.peer, effect.request, refusal))
        else:
            self._handle(ReplyReceived(effect.peer, effect.request, reply))

    def _routes_otherwise(self, peer: PeerId) -> bool:
        """Whether a peer is known to prefer another embedding model, and to advertise by that."""
        session = self._sessions.get(peer)
        return session is not None and (
            session.hello.fingerprints[0].digest() != self._peer.fingerprint
        )

    async def _pull(self, effect: PullAdvertisements) -> None:
        if self._routes_otherwise(effect.peer):
            self._handle(PullEnded(effect.peer, False))
            return
        request = self._sketching.request()
        if self._withheld() is not None:
            request = replace(request, near=None)  # it tells what our documents are about
        reply = await self._exchanges.gossip(effect.peer, request, timeout_s=effect.timeout_s)
        if isinstance(reply, Failure) and reply.outcome is not Outcome.REFUSED:
            self._handle(ContactFailed(effect.peer))
            return
        gained = isinstance(reply, AdvertisementsReply) and self._sketching.take_in(
            effect.peer, reply
        )
        self._handle(PullEnded(effect.peer, gained))

    async def _pull_withdrawals(self, effect: PullWithdrawals) -> None:
        request = WithdrawalsRequest(tuple(self._withdrawals.digests()))
        reply = await self._exchanges.gossip(effect.peer, request, timeout_s=effect.timeout_s)
        if isinstance(reply, Failure) and reply.outcome is not Outcome.REFUSED:
            self._handle(ContactFailed(effect.peer))
            return
        gained = False
        for sealed in reply.withdrawals if isinstance(reply, WithdrawalsReply) else ():
            gained |= self._take_withdrawal_in(effect.peer, sealed)
        self._handle(WithdrawalsPulled(effect.peer, effect.held, gained))

    # What other peers pass on.

    async def _judge_roster(self, effect: JudgeRoster) -> None:
        try:
            await self._import_roster(effect.data)
        except RosterError as error:
            logger.warning("%s passed on a roster that is refused: %s", effect.peer, error)
        else:
            logger.info(
                "took over roster version %d from %s", self._directory.roster.version, effect.peer
            )

    def _take_withdrawal_in(self, peer: PeerId, sealed: bytes) -> bool:
        """Follow a withdrawal that `peer` passed on; whether it was new and is good."""
        try:
            withdrawal = self._withdrawals.take_in(sealed, self._directory.roster)
        except (DecodeError, IntegrityError) as error:
            logger.warning("%s passed on a withdrawal that is refused: %s", peer, error)
            return False
        if withdrawal is not None:
            self._on_withdrawn(withdrawal)
        return withdrawal is not None
