"""Answering other peers: query, fetch and advertise requests of those with a session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import trio

from zerorag_p2p.audit.events import DocumentNote, Given
from zerorag_p2p.config import AUDIT_RETRY_AFTER_S, REFUSAL_HELD_S, SUMMARY_REST_S, RoutingConfig
from zerorag_p2p.errors import AuditError, DecodeError, RedactionError
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.release import sign_release
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.model import (
    Content,
    ContentHash,
    Document,
    PeerId,
    Purpose,
    RefusalCode,
    SharingTerms,
    View,
)
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.audit_entries import (
    collection_notes,
    emergency_access,
    fetch_answered,
    locked_out,
    query_answered,
    result_note,
)
from zerorag_p2p.node.auditing import Audit
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.emergencies import Emergencies
from zerorag_p2p.node.happenings import FetchAnswered, QueryAnswered
from zerorag_p2p.node.pausing import Pause
from zerorag_p2p.node.sessions import Sessions
from zerorag_p2p.peer import Corpus, Decide, Peer, Requester
from zerorag_p2p.policy.decision import AccessRequest
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.limits import Kind, Limits
from zerorag_p2p.policy.questions import RecentQuestions
from zerorag_p2p.policy.rules import Act, Policy
from zerorag_p2p.redaction.redaction import Redaction
from zerorag_p2p.wire.advertise import (
    Advertisement,
    decode_advertise_request,
    encode_advertise_reply,
    encode_advertisement,
)
from zerorag_p2p.wire.fetch import (
    FetchedDocument,
    FetchRefused,
    FetchRequest,
    FetchResult,
    decode_fetch,
    encode_fetch_result,
)
from zerorag_p2p.wire.protocols import ADVERTISE, FETCH, QUERY, family
from zerorag_p2p.wire.query import (
    QueryRequest,
    QueryResult,
    decode_query,
    encode_query_result,
)
from zerorag_p2p.wire.refusal import Refusal, encode_refusal

logger = logging.getLogger("zerorag.node")

#: A requester may not tell a document it may not see from one that is not there.
NOT_AVAILABLE = "no such document is available to you"
NOT_REDACTED = "its text could not be redacted, so it is not sent"


class Held(Protocol):
    """A document that is held, without its text."""

    @property
    def collection(self) -> str:
        """Name of the collection it belongs to."""

    @property
    def links(self) -> tuple[bytes, ...]:
        """Its attribution: the owner's statement, then a custody statement for each copy."""

    @property
    def terms(self) -> SharingTerms | None:
        """The owner's terms, where it is a copy; None where it is our own."""


class Holdings(Corpus, Protocol):
    """The documents of a node."""

    @property
    def generation(self) -> int:
        """A number that grows with every change of the documents or of how they are shared."""

    def get(self, content_hash: ContentHash) -> Sequence[Held]:
        """What is held of this content, one for each collection or source that has it."""

    def read(self, stored: Any, /) -> Document:
        """The document, with its text, of something that `get` returned."""

    def drop_withdrawn(self, withdrawal: Withdrawal) -> int:
        """Delete the copies of what their owner took back; how many that were."""


@dataclass(frozen=True, slots=True)
class _Advertised:
    """Our advertisement, what of our documents it was made from, and by which rules."""

    generation: int
    collections: tuple[str, ...]
    policy: Policy
    value: Advertisement
    sealed: bytes

    def holds(
        self,
        generation: int,
        collections: tuple[str, ...],
        policy: Policy,
        fingerprint: str,
        now: int,
    ) -> bool:
        """Whether it still tells what it should of these collections, by this embedding model.

        A summary takes a second or more. While a library grows it is not made anew for every batch:
        what it says is about many documents, of which a few more or less make no difference.
        """
        half_life = (self.value.issued_at + self.value.expires_at) // 2
        if (collections, fingerprint) != (self.collections, self.value.fingerprint):
            return False
        if policy is not self.policy:
            return False
        if now >= half_life:
            return False
        if generation == self.generation:
            return True
        return self.value.estimates is not None and now < self.value.issued_at + SUMMARY_REST_S


class Service:
    """The handlers of a node's protocols, but for hello."""

    def __init__(
        self,
        *,
        identity: Identity,
        directory: Directory,
        sessions: Sessions,
        peer: Peer,
        holdings: Holdings,
        settings: RoutingConfig,
        clock: Callable[[], float],
        activity: Activity,
        limits: Limits,
        guard: Guard,
        redaction: Redaction,
        audit: Audit,
    ) -> None:
        self._identity = identity
        self._directory = directory
        self._sessions = sessions
        self._peer = peer
        self._holdings = holdings
        self._settings = settings
        self._clock = clock
        self._activity = activity
        self._limits = limits
        #: While it is set, every request is refused with it.
        self.pause: Pause | None = None
        self._guard = guard
        self._redaction = redaction
        self._audit = audit
        self._questions = RecentQuestions()
        #: Who was given emergency access.
        self.emergencies = Emergencies(guard.grants, activity, clock)
        self._advertisement: _Advertised | None = None
        #: Requests answered and refused since the start, by protocol name.
        self.answered = 0
        self.refused = 0

    async def answer_query(self, peer: PeerId, payload: bytes) -> bytes:
        """Answer a query (wire.query)."""
        return await self._answer(QUERY, peer, payload, self._query)

    async def answer_fetch(self, peer: PeerId, payload: bytes) -> bytes:
        """Deliver documents, each with its attribution and a release (wire.fetch)."""
        return await self._answer(FETCH, peer, payload, self._fetch)

    async def answer_advertise(self, peer: PeerId, payload: bytes) -> bytes:
        """Hand out our advertisement (wire.advertise)."""
        return await self._answer(ADVERTISE, peer, payload, self._advertise)

    async def _answer(
        self,
        protocol: str,
        peer: PeerId,
        payload: bytes,
        answer: Callable[[PeerId, bytes], bytes | Refusal],
    ) -> bytes:
        kind = Kind(family(protocol))
        too_early = self._limits.was_told_to_wait(peer, kind, self._clock())
        reply: bytes | Refusal | None = self._refusal(peer, kind, len(payload))
        if reply is None:
            try:
                reply = answer(peer, payload)
            except DecodeError as error:
                logger.warning("%s sent a malformed request: %s", peer, error)
                reply = Refusal(RefusalCode.MALFORMED, str(error))
            try:
                await self._audit.commit()
            except AuditError:
                reply = _unaudited()
        if isinstance(reply, Refusal):
            if too_early and _is_limit(reply):
                await trio.sleep(REFUSAL_HELD_S)  # its other requests wait: few are read at once
            self.refused += 1
            self._activity.tell_refusal(
                peer, by="us", request=family(protocol), code=reply.code, reason=reply.reason
            )
            return encode_refusal(reply)
        self.answered += 1
        self._limits.note_reply(peer, len(reply), self._clock())
        self._activity.figures.note(peer, sent=len(reply), received=len(payload))
        return reply

    def _refusal(self, peer: PeerId, kind: Kind, size: int) -> Refusal | None:
        """Why a request of `peer` is not even read, if that is so."""
        now = self._clock()
        if not self._directory.admits(peer, now):
            reason = f"{peer} {self._directory.standing(peer, now).describe()}"
            return Refusal(RefusalCode.NOT_A_MEMBER, reason)
        if self._sessions.get(peer) is None:
            return Refusal(RefusalCode.HELLO_REQUIRED, "say hello on this connection first")
        return self.withheld() or self._limits.admit(peer, kind, size, now)

    def withheld(self) -> Refusal | None:
        """Why nobody is told anything of documents at the moment, if that is so."""
        if self.pause is not None:
            return self.pause.refusal()
        if self._audit.failure:
            return _unaudited()
        return None

    def forget_expired(self, now: float) -> None:
        """Drop embeddings of questions that are not needed any more to judge what is asked next."""
        self._limits.forget_expired(now)
        self._questions.forget_expired(now)

    def _requester(self, peer: PeerId) -> Requester:
        return Requester(peer, self._directory.organisation(peer), self._directory.roles(peer))

    def _query(self, peer: PeerId, payload: bytes) -> bytes | Refusal:
        request = decode_query(payload)
        requester = self._requester(peer)
        decide = self._peer.deciding(request, requester, self._clock())
        reply = self._result(request, requester, decide)
        encoded = (
            encode_refusal(reply)
            if isinstance(reply, Refusal)
            else encode_query_result(reply, request.encoding)
        )
        if self._audit.active and not _is_limit(reply):
            self._audit.record(
                query_answered(
                    request,
                    requester,
                    reply,
                    query=self._audit.embedding_hash(request.embedding),
                    collections=collection_notes(
                        ((name, decide(name, None)) for name in self._holdings.collections()),
                        request.view,
                    ),
                    notes=self._result_notes(reply, decide),
                    received=len(payload),
                    sent=len(encoded),
                )
            )
        return reply if isinstance(reply, Refusal) else encoded

    def _result(
        self, request: QueryRequest, requester: Requester, decide: Decide
    ) -> QueryResult | Refusal:
        peer = requester.peer
        now = self._clock()
        if self._peer.uses(request.fingerprint, len(request.embedding)):
            refusal = self._limits.check_query(peer, request.embedding, now)
            if refusal is not None:
                self._audit.record(
                    locked_out(request, requester, refusal, kind=family(QUERY), now=now)
                )
                return refusal
        reply = self._peer.answer(request, requester, now, decide)
        if isinstance(reply, Refusal):
            return reply
        if self._guard.policy.judges_questions and self._peer.question_of(request) is not None:
            self._questions.note(peer, request.audit, request.embedding, now)
        if request.purpose is Purpose.ETREAT:
            self._note_emergency(request, requester, reply, decide)
        self._limits.note_results(peer, [item.content_hash for item in reply.documents], now)
        remembered = request.remember_until is not None
        if remembered:
            self._activity.figures.note(peer).asked_at = now
        self._activity.tell(
            QueryAnswered(
                at=now,
                peer=peer,
                organisation=requester.organisation,
                k=request.k,
                purpose=request.purpose,
                remembered=remembered,
                documents=len(reply.documents),
                referrals=len(reply.referrals),
            )
        )
        return reply

    def _result_notes(self, reply: QueryResult | Refusal, decide: Decide) -> list[DocumentNote]:
        """Every document of an answer, with the collection and the rule that let it out."""
        if isinstance(reply, Refusal):
            return []
        notes = []
        for document in reply.documents:
            note = result_note(document)
            for stored in self._holdings.get(document.content_hash):
                decision = decide(stored.collection, stored.terms)
                if decision.allowed:
                    note = result_note(document, collection=stored.collection, rule=decision.rule)
                    break
            notes.append(note)
        return notes

    # Fetching.

    def _fetch(self, peer: PeerId, payload: bytes) -> bytes | Refusal:
        request = decode_fetch(payload)
        requester = self._requester(peer)
        now = self._clock()
        refusal = self._limits.check_fetch(peer, request.documents, now)
        if refusal is not None:
            self._audit.record(locked_out(request, requester, refusal, kind=family(FETCH), now=now))
            return refusal
        by_emergency: set[ContentHash] = set()
        released = [
            self._release(document, request, requester, by_emergency)
            for document in request.documents
        ]
        if by_emergency:
            notes = [note for _, note in released if note.content_hash in by_emergency]
            self._tell_emergency(request, requester, notes, family(FETCH))
        items = tuple(item for item, _ in released)
        self._activity.tell(
            FetchAnswered(
                at=self._clock(),
                peer=peer,
                organisation=requester.organisation,
                purpose=request.purpose,
                documents=len(items),
                delivered=sum(isinstance(item, FetchedDocument) for item in items),
            )
        )
        encoded = encode_fetch_result(FetchResult(items))
        if self._audit.active:
            notes = [note for _, note in released]
            self._audit.record(
                fetch_answered(request, requester, notes, received=len(payload), sent=len(encoded))
            )
        return encoded

    def _release(
        self,
        content_hash: ContentHash,
        request: FetchRequest,
        requester: Requester,
        by_emergency: set[ContentHash],
    ) -> tuple[FetchedDocument | FetchRefused, DocumentNote]:
        """What is sent of a document, and what is noted about it.

        What an emergency rule alone lets out is added to `by_emergency`.
        """
        note = DocumentNote(content_hash=content_hash, given=Given.NOTHING)
        now = self._clock()
        access = AccessRequest(
            act=Act.FETCH,
            requester=requester.peer,
            organisation=requester.organisation,
            roles=requester.roles,
            purpose=request.purpose,
            view=request.view,
            query=self._questions.find(requester.peer, request.audit, now),
            reason=request.reason or "",
            at=now,
        )
        decide = self._guard.for_request(access, self._holdings.sharing)
        held = [
            (decide(stored.collection, stored.terms), stored)
            for stored in self._holdings.get(content_hash)
        ]
        # Without an alarm, if that can be.
        held.sort(key=lambda item: (not item[0].allowed, item[0].emergency))
        for decision, stored in held:
            note = replace(note, collection=stored.collection, rule=decision.rule)
            if decision.allowed:
                view, shown = _view_of(self._holdings.read(stored), request.view)
                try:
                    shown, redacted_by = self._redaction.redact(shown, stored.collection)
                except RedactionError as error:
                    return self._not_redacted(content_hash, requester, error), note
                content = shown.encode()
                release = sign_release(
                    self._identity,
                    content,
                    content_hash=content_hash,
                    view=view,
                    redaction=redacted_by,
                    receiver=requester.peer,
                    purpose=request.purpose,
                    audit=request.audit,
                    now=self._clock(),
                )
                if decision.emergency:
                    by_emergency.add(content_hash)
                delivered = FetchedDocument(
                    content_hash=content_hash,
                    content=content,
                    attribution=stored.links,
                    release=release,
                )
                return delivered, replace(note, given=Given(view.value), redacted=redacted_by)
            logger.info(
                "denied %s a fetch of %s: %s", requester.peer, content_hash[:16], decision.reason
            )
            self._activity.tell_refusal(
                requester.peer,
                by="us",
                request=family(FETCH),
                code=RefusalCode.DENIED,
                reason=decision.reason,
                document=content_hash,
            )
        return FetchRefused(content_hash, RefusalCode.DENIED, NOT_AVAILABLE), note

    def _not_redacted(
        self, content_hash: ContentHash, requester: Requester, error: RedactionError
    ) -> FetchRefused:
        logger.error("%s does not get %s: %s", requester.peer, content_hash[:16], error)
        self._activity.tell_refusal(
            requester.peer,
            by="us",
            request=family(FETCH),
            code=RefusalCode.INTERNAL,
            reason=str(error),
            document=content_hash,
        )
        return FetchRefused(content_hash, RefusalCode.INTERNAL, NOT_REDACTED)

    def _note_emergency(
        self, request: QueryRequest, requester: Requester, reply: QueryResult, decide: Decide
    ) -> None:
        """Note the documents of an answer that an emergency rule alone let out."""
        notes = []
        for document in reply.documents:
            decisions = [
                (stored.collection, decide(stored.collection, stored.terms))
                for stored in self._holdings.get(document.content_hash)
            ]
            allowing = [(name, decision) for name, decision in decisions if decision.allowed]
            if allowing and all(decision.emergency for _, decision in allowing):
                name, decision = allowing[0]
                notes.append(result_note(document, collection=name, rule=decision.rule))
        if notes:
            self._tell_emergency(request, requester, notes, family(QUERY))

    def _tell_emergency(
        self,
        request: QueryRequest | FetchRequest,
        requester: Requester,
        notes: Sequence[DocumentNote],
        kind: str,
    ) -> None:
        """Record and raise the alarm that emergency rules alone let out documents."""
        rules = list(dict.fromkeys(note.rule for note in notes))
        self._audit.record(emergency_access(request, requester, rules, notes))
        self.emergencies.note(
            requester.peer,
            requester.organisation,
            rules=rules,
            request=kind,
            user=request.user,
            audit=request.audit,
            reason=request.reason or "",
            documents=[note.content_hash for note in notes],
        )

    # Advertising.

    def _advertise(self, peer: PeerId, payload: bytes) -> bytes:
        del peer  # an advertisement is the same for every member
        request = decode_advertise_request(payload)
        advertisement, sealed = self.own_advertisement()
        unchanged = request.known_sequence == advertisement.sequence
        return encode_advertise_reply(None if unchanged else sealed)

    def own_advertisement(self) -> tuple[Advertisement, bytes]:
        """Our advertisement and its sealed form, renewed when documents change or it ages.

        A summary of many documents is renewed once in `SUMMARY_REST_S`, unless what may be
        advertised changes.
        """
        now = int(self._clock())
        generation = self._holdings.generation
        collections = self._peer.advertised_collections(now)
        policy = self._guard.policy
        if self._advertisement is not None and self._advertisement.holds(
            generation, collections, policy, self._peer.fingerprint, now
        ):
            return self._advertisement.value, self._advertisement.sealed
        # Seeded by what it summarises: the same library always advertises the same centroids.
        own = self._peer.advertisement(now, np.random.default_rng(generation))
        advertisement = Advertisement(
            owner=self._identity.peer_id,
            fingerprint=self._peer.fingerprint,
            sequence=self._next_sequence(now),
            issued_at=now,
            expires_at=now + int(self._settings.advertisement_lifetime_s),
            withdrawn=False,
            bits=self._settings.advertisement_bits,
            entries=own.entries,
            vectors=own.vectors,
            estimates=own.estimates,
        )
        sealed = seal(self._identity, Domain.ADVERTISEMENT, encode_advertisement(advertisement))
        self._advertisement = _Advertised(generation, collections, policy, advertisement, sealed)
        return advertisement, sealed

    def _next_sequence(self, now: int) -> int:
        """Time as a sequence number grows across restarts without being stored."""
        if self._advertisement is None:
            return now
        return max(now, self._advertisement.value.sequence + 1)


def _unaudited() -> Refusal:
    """The refusal of a node that cannot record what it gives."""
    reason = "this node cannot write its audit log, so it answers nobody"
    return Refusal(RefusalCode.PAUSED, reason, AUDIT_RETRY_AFTER_S)


def _is_limit(reply: object) -> bool:
    """Whether a limit refused it: whoever floods a node must not fill its log."""
    return isinstance(reply, Refusal) and reply.code is RefusalCode.RATE_LIMITED


def _view_of(document: Document, wanted: View) -> tuple[View, Content]:
    """Content that shows as much of a document as is wanted, and how much that is.

    A document is a passage already: the views of a passage and of the whole are the same bytes.
    """
    if wanted.rank > View.TITLE.rank:
        return View.WHOLE, document.whole()
    return View.TITLE, Content(document.title, "", document.part, document.parts)
