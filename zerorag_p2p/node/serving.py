"""Answering other peers: query, fetch and advertise requests of those with a session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.release import sign_release
from zerorag_p2p.model import Content, ContentHash, Document, PeerId, RefusalCode, View
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.happenings import FetchAnswered, QueryAnswered
from zerorag_p2p.node.sessions import Sessions
from zerorag_p2p.peer import Corpus, Peer, Requester
from zerorag_p2p.policy.decision import AccessRequest, Act, Decision, decide
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
from zerorag_p2p.wire.query import decode_query, encode_query_result
from zerorag_p2p.wire.refusal import Refusal, encode_refusal

logger = logging.getLogger("zerorag.node")

#: A requester may not tell a document it may not see from one that is not there.
NOT_AVAILABLE = "no such document is available to you"


class Held(Protocol):
    """A document that is held, without its text."""

    @property
    def collection(self) -> str:
        """Name of the collection it belongs to."""

    @property
    def links(self) -> tuple[bytes, ...]:
        """Its attribution: the owner's statement, then a custody statement for each copy."""


class Holdings(Corpus, Protocol):
    """The documents of a node."""

    @property
    def generation(self) -> int:
        """A number that grows with every change of the documents or of how they are shared."""

    def get(self, content_hash: ContentHash) -> Sequence[Held]:
        """What is held of this content, one for each collection or source that has it."""

    def read(self, stored: Any, /) -> Document:
        """The document, with its text, of something that `get` returned."""


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
    ) -> None:
        self._identity = identity
        self._directory = directory
        self._sessions = sessions
        self._peer = peer
        self._holdings = holdings
        self._settings = settings
        self._clock = clock
        self._activity = activity
        self._advertisement: tuple[int, Advertisement, bytes] | None = None
        #: Requests answered and refused since the start, by protocol name.
        self.answered = 0
        self.refused = 0

    async def answer_query(self, peer: PeerId, payload: bytes) -> bytes:
        """Answer a query (wire.query)."""
        return self._answer(QUERY, peer, payload, self._query)

    async def answer_fetch(self, peer: PeerId, payload: bytes) -> bytes:
        """Deliver documents, each with its attribution and a release (wire.fetch)."""
        return self._answer(FETCH, peer, payload, self._fetch)

    async def answer_advertise(self, peer: PeerId, payload: bytes) -> bytes:
        """Hand out our advertisement (wire.advertise)."""
        return self._answer(ADVERTISE, peer, payload, self._advertise)

    def _answer(
        self,
        protocol: str,
        peer: PeerId,
        payload: bytes,
        answer: Callable[[PeerId, bytes], bytes | Refusal],
    ) -> bytes:
        reply: bytes | Refusal | None = self._refusal(peer)
        if reply is None:
            try:
                reply = answer(peer, payload)
            except DecodeError as error:
                logger.warning("%s sent a malformed request: %s", peer, error)
                reply = Refusal(RefusalCode.MALFORMED, str(error))
        if isinstance(reply, Refusal):
            self.refused += 1
            self._activity.tell_refusal(
                peer, by="us", request=family(protocol), code=reply.code, reason=reply.reason
            )
            return encode_refusal(reply)
        self.answered += 1
        self._activity.figures.note(peer, sent=len(reply), received=len(payload))
        return reply

    def _refusal(self, peer: PeerId) -> Refusal | None:
        """Why nothing is answered to `peer`, if that is so."""
        now = self._clock()
        if not self._directory.admits(peer, now):
            reason = f"{peer} {self._directory.standing(peer, now).describe()}"
            return Refusal(RefusalCode.NOT_A_MEMBER, reason)
        if self._sessions.get(peer) is None:
            return Refusal(RefusalCode.HELLO_REQUIRED, "say hello on this connection first")
        return None

    def _requester(self, peer: PeerId) -> Requester:
        return Requester(peer, self._directory.organisation(peer))

    def _query(self, peer: PeerId, payload: bytes) -> bytes | Refusal:
        request = decode_query(payload)
        reply = self._peer.answer(request, self._requester(peer), self._clock())
        if isinstance(reply, Refusal):
            return reply
        now = self._clock()
        remembered = request.remember_until is not None
        if remembered:
            self._activity.figures.note(peer).asked_at = now
        self._activity.tell(
            QueryAnswered(
                at=now,
                peer=peer,
                organisation=self._directory.organisation(peer),
                k=request.k,
                purpose=request.purpose,
                remembered=remembered,
                documents=len(reply.documents),
                referrals=len(reply.referrals),
            )
        )
        return encode_query_result(reply, request.encoding)

    # Fetching.

    def _fetch(self, peer: PeerId, payload: bytes) -> bytes:
        request = decode_fetch(payload)
        requester = self._requester(peer)
        items = [self._release(document, request, requester) for document in request.documents]
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
        return encode_fetch_result(FetchResult(tuple(items)))

    def _release(
        self, content_hash: ContentHash, request: FetchRequest, requester: Requester
    ) -> FetchedDocument | FetchRefused:
        access = AccessRequest(
            act=Act.FETCH,
            requester=requester.peer,
            organisation=requester.organisation,
            purpose=request.purpose,
            view=request.view,
        )
        for stored in self._holdings.get(content_hash):
            decision = self._decide(access, stored.collection, content_hash)
            if decision.allowed:
                view, content = _view_of(self._holdings.read(stored), request.view)
                release = sign_release(
                    self._identity,
                    content,
                    content_hash=content_hash,
                    view=view,
                    receiver=requester.peer,
                    purpose=request.purpose,
                    audit=request.audit,
                    now=self._clock(),
                )
                return FetchedDocument(
                    content_hash=content_hash,
                    content=content,
                    attribution=stored.links,
                    release=release,
                )
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
        return FetchRefused(content_hash, RefusalCode.DENIED, NOT_AVAILABLE)

    def _decide(
        self, access: AccessRequest, collection: str, content_hash: ContentHash
    ) -> Decision:
        return decide(
            access,
            collection=collection,
            sharing=self._holdings.sharing(collection),
            document=content_hash,
        )

    # Advertising.

    def _advertise(self, peer: PeerId, payload: bytes) -> bytes:
        del peer  # an advertisement is the same for every member
        request = decode_advertise_request(payload)
        advertisement, sealed = self.own_advertisement()
        unchanged = request.known_sequence == advertisement.sequence
        return encode_advertise_reply(None if unchanged else sealed)

    def own_advertisement(self) -> tuple[Advertisement, bytes]:
        """Our advertisement and its sealed form, renewed when documents change or it ages."""
        now = int(self._clock())
        generation = self._holdings.generation
        if self._advertisement is not None:
            made_for, advertisement, sealed = self._advertisement
            half_life = (advertisement.issued_at + advertisement.expires_at) // 2
            if made_for == generation and now < half_life:
                return advertisement, sealed
        # Seeded by what it summarises: the same library always advertises the same centroids.
        own = self._peer.advertisement(np.random.default_rng(generation))
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
        self._advertisement = (generation, advertisement, sealed)
        return advertisement, sealed

    def _next_sequence(self, now: int) -> int:
        """Time as a sequence number grows across restarts without being stored."""
        if self._advertisement is None:
            return now
        return max(now, self._advertisement[1].sequence + 1)


def _view_of(document: Document, wanted: View) -> tuple[View, bytes]:
    """The bytes that show as much of a document as is wanted, and how much that is.

    A document is a passage already: the views of a passage and of the whole are the same bytes.
    """
    if wanted.rank > View.TITLE.rank:
        return View.WHOLE, document.content()
    title_only = Content(document.title, "", document.part, document.parts)
    return View.TITLE, title_only.encode()
