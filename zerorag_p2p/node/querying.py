"""Running a query: the walk's requests, the checks on what comes back, and the fetches."""

from __future__ import annotations

import logging
import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import trio

from zerorag_p2p.audit.events import QueryAsked
from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.errors import AttributionError, DecodeError, IntegrityError
from zerorag_p2p.identity.attribution import Chain
from zerorag_p2p.model import (
    NEVER_COMPARED,
    ContentHash,
    PeerId,
    Purpose,
    RefusalCode,
    Score,
    Vector,
    View,
)
from zerorag_p2p.node.audit_entries import fetch_received, peer_contacted
from zerorag_p2p.node.auditing import Audit
from zerorag_p2p.node.checking import DocumentChecker
from zerorag_p2p.node.contacts import Failure
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.happenings import Observer
from zerorag_p2p.node.narration import Narration
from zerorag_p2p.node.outgoing import Exchanges, Traffic
from zerorag_p2p.node.reports import (
    AnswerDocument,
    ContactReport,
    DocumentStatus,
    OtherHolder,
    ProgressCallback,
    QueryProgress,
    QueryReport,
)
from zerorag_p2p.peer import Peer, read_result
from zerorag_p2p.policy.outbound import Sending, pseudonym
from zerorag_p2p.routing.evidence import PeerReferral
from zerorag_p2p.routing.strategy import Strategy
from zerorag_p2p.routing.walk import (
    Contact,
    Finished,
    FoundDocument,
    ReturnedDocument,
    Step,
    Waiting,
    Walk,
    everybody,
)
from zerorag_p2p.wire.fetch import FetchItem, FetchRefused
from zerorag_p2p.wire.query import QueryRequest, QueryResult

logger = logging.getLogger("zerorag.node")

#: Share of a query's time that the walk may use; the rest is for fetching.
_WALK_SHARE = 0.8

#: Share of the walk's time left that one contact may use, so that a silent peer leaves others time.
_CONTACT_SHARE = 0.5

#: Most documents reported as rejected, so that a liar cannot fill an answer.
_MAX_REJECTED = 100

DEADLINE_REACHED = "deadline reached"
GOOD_ENOUGH = "a document that is good enough was found"
NOT_YET_FETCHED = "its text is not fetched yet"


@dataclass(frozen=True, slots=True)
class RedactedQuestion:
    """What is sent of a question.

    Attributes:
        text: What is left of it.
        by_model: Embeddings of what is left, as they will be transmitted, by every model in use, by
            digest.
        rules: Ids of the rules that removed something.
    """

    text: str
    by_model: Mapping[str, Vector]
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """What one query asks for, defaults already applied.

    Attributes:
        embedding: Of the question, as it will be transmitted.
        user: Who asks, or "".
        remember: Whether the peers asked may remember the query.
        at_least: Score that a document has to exceed to be counted, where only a count is wanted.
        first: Score of a document that ends the walk.
        reason: Why emergency access is asked for.
        sent: What of the text the embedding is of: all of it, unless something was redacted.
        removed: Ids of the rules that removed something.
        sending: The rules about the question, which say whom it may go to.
        pseudonym_secret: Makes the pseudonym, where the question goes out under one of its own.
        fingerprint: Digest of the model behind the embedding.
        among: Who may be asked, as far as models decide.
        part_of: The reference of a query that this one is a part of, by another model; "" if it is
            one of its own.
    """

    text: str
    embedding: Vector
    k: int
    budget: int
    fanout: int
    timeout_s: float
    purpose: Purpose
    view: View
    user: str
    strategy: Strategy
    remember: bool
    at_least: Score | None = None
    first: Score | None = None
    reason: str | None = None
    sent: str = ""
    removed: tuple[str, ...] = ()
    sending: Sending = field(default_factory=Sending)
    pseudonym_secret: bytes = b""
    fingerprint: str
    among: Callable[[PeerId], bool] = everybody
    part_of: str = ""

    def sent_as(self, audit: str) -> str:
        """The name under which the question goes out."""
        if not self.sending.pseudonym:
            return self.user
        return pseudonym(self.pseudonym_secret, user=self.user, audit=audit)


@dataclass(frozen=True, slots=True)
class _Ended:
    """How one contact ended."""

    peer: PeerId
    reply: QueryResult | Failure
    milliseconds: float


@dataclass(frozen=True, slots=True)
class _Claim:
    """A holder's attribution of a result, as it came and verified."""

    chain: Chain
    attribution: tuple[bytes, ...]


@dataclass(slots=True)
class _Running:
    """A query under way; times are trio's. After `half_time` the walk hurries."""

    settings: QuerySettings
    walk: Walk
    audit: str
    sent_as: str
    withheld: tuple[PeerId, ...]
    narration: Narration
    half_time: float
    walk_deadline: float
    deadline: float
    on_progress: ProgressCallback | None
    traffic: Traffic = field(default_factory=Traffic)
    ended: dict[PeerId, _Ended] = field(default_factory=dict)
    claims: dict[ContentHash, dict[PeerId, _Claim]] = field(default_factory=dict)
    rejected: list[AnswerDocument] = field(default_factory=list)

    @property
    def time_left(self) -> float:
        return self.deadline - trio.current_time()


class Querier:
    """Runs the queries of a node over its network."""

    def __init__(
        self,
        *,
        exchanges: Exchanges,
        directory: Directory,
        peer: Peer,
        checker: DocumentChecker,
        settings: RoutingConfig,
        clock: Callable[[], float],
        randomness: random.Random,
        tell: Observer,
        audit: Audit,
    ) -> None:
        self._exchanges = exchanges
        self._directory = directory
        self._peer = peer
        self._checker = checker
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._tell = tell
        self._audit = audit

    async def run(
        self, settings: QuerySettings, on_progress: ProgressCallback | None = None
    ) -> tuple[QueryReport, Walk]:
        """Walk, fetch, verify. Returns by the query's deadline with what could be had.

        Raises:
            AuditError: It cannot be recorded, so nothing is asked, or nothing shown.
        """
        started_at = self._clock()
        started = trio.current_time()
        members = self._directory.members(started_at)
        walk = self._peer.begin_query(
            settings.embedding,
            now=started_at,
            randomness=self._randomness,
            roster=members,
            k=settings.k,
            budget=settings.budget,
            fanout=settings.fanout,
            strategy=settings.strategy,
            may_ask=partial(self._may_ask, settings),
        )
        audit = settings.part_of or secrets.token_hex(8)
        running = _Running(
            settings=settings,
            walk=walk,
            audit=audit,
            sent_as=settings.sent_as(audit),
            withheld=tuple(peer for peer in members if not self._may_receive(settings, peer)),
            narration=Narration(audit, self._directory, self._clock, self._tell),
            half_time=started + settings.timeout_s * _WALK_SHARE / 2,
            walk_deadline=started + settings.timeout_s * _WALK_SHARE,
            deadline=started + settings.timeout_s,
            on_progress=on_progress,
        )
        if not settings.part_of:
            self._record_question(running)
        await self._audit.commit()
        running.narration.begin(
            text=settings.text,
            k=settings.k,
            budget=settings.budget,
            fanout=settings.fanout,
            purpose=settings.purpose,
        )
        report = None
        try:
            with trio.move_on_at(running.walk_deadline):
                await self._walk(running)
            self._give_up(running)
            documents = await self._fetch(running)
            report = self._report(running, documents, started_at, trio.current_time() - started)
            await self._audit.commit()
        finally:
            running.narration.end(report, walk, running.traffic, trio.current_time() - started)
        return report, walk

    def _record_question(self, running: _Running) -> None:
        settings = running.settings
        query, text = self._audit.question(settings.text)
        self._audit.record(
            QueryAsked(
                reference=running.audit,
                user=settings.user,
                sent_as=running.sent_as if running.sent_as != settings.user else "",
                purpose=settings.purpose,
                view=settings.view,
                query=query,
                text=text,
                reason=settings.reason or "",
            )
        )

    def _may_ask(self, settings: QuerySettings, peer: PeerId) -> bool:
        return settings.among(peer) and self._may_receive(settings, peer)

    def _may_receive(self, settings: QuerySettings, peer: PeerId) -> bool:
        """Whether our own rules let a member have the question."""
        directory = self._directory
        return settings.sending.may_receive(
            peer, directory.organisation(peer), directory.roles(peer)
        )

    # The walk.

    def _give_up(self, running: _Running) -> None:
        """End the walk at its deadline; without effect if it has finished."""
        walk = running.walk
        walk.stop(DEADLINE_REACHED)
        for step in walk.steps:
            if step.peer not in running.ended:
                self._narrate_contact_end(running, step.peer)

    async def _walk(self, running: _Running) -> None:
        walk = running.walk
        send, receive = trio.open_memory_channel[_Ended](walk.fanout)
        async with trio.open_nursery() as nursery:
            while True:
                walk.hurried = trio.current_time() > running.half_time
                match walk.next():
                    case Contact(peer, budget_left) as contact:
                        self._progress(running, "contact", peer)
                        running.narration.contact(walk.visited[peer], budget_left)
                        nursery.start_soon(self._contact, running, contact, send)
                    case Waiting():
                        self._take_in(running, await receive.receive())
                    case Finished():
                        # In flight are only requests that were given up.
                        nursery.cancel_scope.cancel()
                        return

    async def _contact(
        self,
        running: _Running,
        contact: Contact,
        send: trio.MemorySendChannel[_Ended],
    ) -> None:
        settings = running.settings
        remember_until = None
        if settings.remember and self._peer.strategy.uses_memory:
            remember_until = int(self._clock() + self._settings.memory_lifetime_s)

        def request(deadline_ms: int) -> QueryRequest:
            return QueryRequest(
                embedding=settings.embedding,
                fingerprint=settings.fingerprint,
                k=settings.k,
                budget_left=contact.budget_left,
                deadline_ms=deadline_ms,
                purpose=settings.purpose,
                user=running.sent_as,
                audit=running.audit,
                view=settings.view,
                remember_until=remember_until,
                have=contact.have,
                above=contact.above if settings.at_least is None else settings.at_least,
                reason=settings.reason,
            )

        began = trio.current_time()
        traffic = Traffic()
        reply = None
        try:
            reply = await self._exchanges.query(
                contact.peer,
                request,
                dimension=len(settings.embedding),
                timeout_s=(running.walk_deadline - began) * _CONTACT_SHARE,
                traffic=traffic,
            )
        finally:
            running.traffic.add(traffic)
            name = self._directory.name(contact.peer)
            self._audit.record(peer_contacted(running.audit, name, reply, traffic))
        await send.send(_Ended(contact.peer, reply, (trio.current_time() - began) * 1000))

    def _take_in(self, running: _Running, ended: _Ended) -> None:
        walk, peer = running.walk, ended.peer
        running.ended[peer] = ended
        if isinstance(ended.reply, Failure):
            walk.on_failure(peer, ended.reply.outcome)
            self._progress(running, "failure", peer, ended.reply.reason)
            self._narrate_contact_end(running, peer)
            return
        documents, referrals = read_result(running.settings.embedding, ended.reply)
        accepted = [item for item in documents if self._accept(running, item, peer)]
        known = {found.document.content_hash for found in walk.results()}
        records = {referral.peer: referral.record for referral in ended.reply.referrals}
        walk.on_reply(peer, accepted, self._members_among(referrals, records))
        self._progress(running, "reply", peer)
        self._narrate_contact_end(running, peer)
        results = walk.results()
        self._tell_found(
            running, [item for item in results if item.document.content_hash not in known], peer
        )
        first = running.settings.first
        if first is not None and results and results[0].score >= first:
            walk.stop(GOOD_ENOUGH)

    def _tell_found(self, running: _Running, hits: Iterable[FoundDocument], holder: PeerId) -> None:
        """Tell of hits that entered the result; their texts are fetched after the walk."""
        if running.on_progress is not None:
            for found in hits:
                hit = self._without_text(
                    running, found, holder, DocumentStatus.UNAVAILABLE, NOT_YET_FETCHED
                )
                self._progress(running, "found", holder, document=hit)

    def _narrate_contact_end(self, running: _Running, peer: PeerId) -> None:
        walk = running.walk
        running.narration.contact_ended(self._contact_report(running, walk.visited[peer]), walk)

    def _accept(self, running: _Running, document: ReturnedDocument, holder: PeerId) -> bool:
        """Whether a result may count. What cannot enter the result anyway is not checked."""
        if not running.walk.would_enter(document):
            return False
        try:
            chain = self._checker.check_result(document, holder)
        except (AttributionError, DecodeError) as error:
            self._reject(running, document, holder, str(error))
            return False
        claims = running.claims.setdefault(document.content_hash, {})
        claims[holder] = _Claim(chain, document.attribution)
        return True

    def _members_among(
        self, referrals: Sequence[PeerReferral], records: dict[PeerId, bytes]
    ) -> list[PeerReferral]:
        """Referrals to members, whose signed records are learned; others are nobody to us."""
        now = self._clock()
        members = []
        for referral in referrals:
            if not self._directory.admits(referral.peer, now):
                continue
            try:
                self._directory.learn(records[referral.peer], referral.peer)
            except (DecodeError, IntegrityError) as error:
                logger.warning("a referral to %s has a bad record: %s", referral.peer, error)
                continue
            members.append(referral)
        return members

    def _reject(
        self, running: _Running, document: ReturnedDocument, holder: PeerId, fault: str
    ) -> None:
        logger.warning("rejected a document from %s: %s", holder, fault)
        if len(running.rejected) < _MAX_REJECTED:
            name = self._directory.name(holder)
            running.rejected.append(
                AnswerDocument(
                    content_hash=document.content_hash,
                    status=DocumentStatus.REJECTED,
                    score=document.score,
                    score_verified=document.embedding is not None,
                    owner=name,
                    holder=name,
                    fault=fault,
                    attribution=document.attribution,
                )
            )

    # The fetches.

    async def _fetch(self, running: _Running) -> list[AnswerDocument]:
        """The documents of the result, each from the first holder that delivers it whole.

        What a holder delivers that does not verify is reported as rejected, and the next holder
        is asked.
        """
        results = running.walk.results()
        answers = {
            found.document.content_hash: self._without_text(
                running, found, found.holders[0], DocumentStatus.UNAVAILABLE, DEADLINE_REACHED
            )
            for found in results
        }
        with trio.move_on_at(running.deadline):
            for attempt in range(max((len(found.holders) for found in results), default=0)):
                by_holder: dict[PeerId, list[FoundDocument]] = {}
                for found in results:
                    delivered = answers[found.document.content_hash].status
                    if delivered is not DocumentStatus.VERIFIED and attempt < len(found.holders):
                        by_holder.setdefault(found.holders[attempt], []).append(found)
                async with trio.open_nursery() as nursery:
                    for holder, wanted in by_holder.items():
                        nursery.start_soon(self._fetch_from, running, holder, wanted, answers)
        return list(answers.values())

    async def _fetch_from(
        self,
        running: _Running,
        holder: PeerId,
        wanted: Sequence[FoundDocument],
        answers: dict[ContentHash, AnswerDocument],
    ) -> None:
        self._progress(running, "fetch", holder)
        running.narration.fetch(holder, len(wanted))
        began = trio.current_time()
        hashes = [found.document.content_hash for found in wanted]
        traffic = Traffic()
        reply = None
        try:
            reply = await self._exchanges.fetch(
                holder,
                hashes,
                purpose=running.settings.purpose,
                view=running.settings.view,
                user=running.sent_as,
                audit=running.audit,
                timeout_s=running.time_left,
                traffic=traffic,
                reason=running.settings.reason,
            )
        finally:
            running.traffic.add(traffic)
            self._audit.record(
                fetch_received(
                    hashes,
                    reply,
                    reference=running.audit,
                    holder=self._directory.name(holder),
                    user=running.sent_as,
                    purpose=running.settings.purpose,
                    view=running.settings.view,
                    traffic=traffic,
                )
            )
        delivered = []
        for number, found in enumerate(wanted):
            if isinstance(reply, Failure):
                answer = self._without_text(
                    running, found, holder, DocumentStatus.UNAVAILABLE, reply.reason
                )
            else:
                answer = self._delivered(running, found, holder, reply[number])
            if answer.status is DocumentStatus.REJECTED:
                running.rejected.append(answer)
            answers[found.document.content_hash] = answer
            delivered.append(answer)
            # The proofs are long, and come with the whole answer.
            told = replace(answer, content=b"", attribution=(), release=b"")
            self._progress(running, "document", holder, document=told)
        running.narration.fetch_ended(holder, delivered, trio.current_time() - began)

    def _delivered(
        self, running: _Running, found: FoundDocument, holder: PeerId, item: FetchItem
    ) -> AnswerDocument:
        if isinstance(item, FetchRefused):
            denied = item.code is RefusalCode.DENIED
            status = DocumentStatus.DENIED if denied else DocumentStatus.UNAVAILABLE
            return self._without_text(running, found, holder, status, item.reason)
        try:
            return self._checker.check_delivery(
                item,
                holder,
                score=found.score,
                score_verified=found.document.embedding is not None,
                embedding=found.document.embedding,
            )
        except AttributionError as error:
            logger.warning("rejected a document fetched from %s: %s", holder, error)
            return self._without_text(running, found, holder, DocumentStatus.REJECTED, str(error))

    def _without_text(
        self,
        running: _Running,
        found: FoundDocument,
        holder: PeerId,
        status: DocumentStatus,
        fault: str,
    ) -> AnswerDocument:
        claims = running.claims[found.document.content_hash]
        statement = claims[found.holders[0]].chain.statement
        return AnswerDocument(
            content_hash=found.document.content_hash,
            status=status,
            score=found.score,
            score_verified=found.document.embedding is not None,
            owner=self._directory.name(statement.owner),
            holder=self._directory.name(holder),
            fault=fault,
            collection=statement.collection,
            issued_at=statement.issued_at,
            attribution=found.document.attribution,
        )

    def _with_others(self, running: _Running, document: AnswerDocument) -> AnswerDocument:
        claims = running.claims.get(document.content_hash, {})
        others = tuple(
            OtherHolder(
                owner=self._directory.name(claim.chain.statement.owner),
                holder=self._directory.name(peer),
                collection=claim.chain.statement.collection,
                attribution=claim.attribution,
            )
            for peer, claim in claims.items()
            if peer != document.holder.peer
        )
        return replace(document, others=others)

    # The report.

    def _report(
        self,
        running: _Running,
        documents: Sequence[AnswerDocument],
        started_at: float,
        seconds: float,
    ) -> QueryReport:
        settings = running.settings
        finished = running.walk.next()
        assert isinstance(finished, Finished)
        unavailable = any(item.status is DocumentStatus.UNAVAILABLE for item in documents)
        return QueryReport(
            audit=running.audit,
            query=settings.text,
            asker=self._directory.name(self._peer.peer_id),
            purpose=settings.purpose,
            k=settings.k,
            budget=settings.budget,
            fanout=settings.fanout,
            started_at=started_at,
            milliseconds=seconds * 1000,
            documents=tuple(self._with_others(running, document) for document in documents),
            rejected=tuple(running.rejected),
            contacts=tuple(self._contacts(running)),
            stopped=finished.reason,
            complete=finished.reason != DEADLINE_REACHED and not unavailable,
            bytes_sent=running.traffic.sent,
            bytes_received=running.traffic.received,
            fingerprint=settings.fingerprint,
            consortium=self._directory.roster.consortium,
            sent=settings.sent or settings.text,
            sent_as=running.sent_as,
            removed=settings.removed,
            outbound=tuple(rule.name for rule in settings.sending.rules),
            withheld=tuple(self._directory.name(peer) for peer in running.withheld),
            count=self._count(running) if settings.view is View.COUNT else None,
        )

    def _count(self, running: _Running) -> int:
        replies = (ended.reply for ended in running.ended.values())
        return sum(reply.count or 0 for reply in replies if isinstance(reply, QueryResult))

    def _contacts(self, running: _Running) -> Iterable[ContactReport]:
        return (self._contact_report(running, step) for step in running.walk.steps)

    def _contact_report(self, running: _Running, step: Step) -> ContactReport:
        ended = running.ended.get(step.peer)
        failure = ended.reply if ended and isinstance(ended.reply, Failure) else None
        return ContactReport(
            peer=step.peer,
            organisation=self._directory.organisation(step.peer),
            evidence=step.reason,
            score=step.score if step.score > NEVER_COMPARED else None,
            outcome=step.outcome,
            reason=failure.reason if failure else "",
            code=failure.code if failure else "",
            documents=step.documents,
            improved=step.improved,
            referrals=step.referrals,
            new_candidates=step.new_candidates,
            milliseconds=ended.milliseconds if ended else 0.0,
            count=ended.reply.count if ended and isinstance(ended.reply, QueryResult) else None,
        )

    def _progress(
        self,
        running: _Running,
        event: str,
        peer: PeerId,
        detail: str = "",
        *,
        document: AnswerDocument | None = None,
    ) -> None:
        if running.on_progress is None:
            return
        results = running.walk.results()
        running.on_progress(
            QueryProgress(
                event=event,
                peer=peer,
                organisation=self._directory.organisation(peer),
                contacted=len(running.walk.visited),
                budget=running.walk.budget,
                found=len(results),
                best=results[0].score if results else None,
                detail=detail,
                document=document,
            )
        )
