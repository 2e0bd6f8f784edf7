"""A peer: the pure parts put together.

A `Peer` answers queries of others, starts and ends its own walks, and keeps the state both need.
It does no input or output: documents come through a `Corpus`, messages as values, time (unix
seconds) and randomness as arguments. The same class runs in tests, in the simulator, in a testnet
and in a node.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np

from zerorag_p2p.config import COUNT_AT_LEAST, MAX_REFERRALS, WITHHELD_SCORE_STEP, RoutingConfig
from zerorag_p2p.model import (
    NEVER_COMPARED,
    ContentHash,
    HashPrefix,
    PeerId,
    RefusalCode,
    Score,
    ScoredDocument,
    SharingTerms,
    Vector,
    View,
    hash_prefix,
)
from zerorag_p2p.policy.decision import AccessRequest, Decision
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.rules import Act
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.routing.adverts import AdvertisementStore, HeldAdvertisement
from zerorag_p2p.routing.evidence import Advertised, PeerReferral
from zerorag_p2p.routing.memory import RoutedQueryMemory
from zerorag_p2p.routing.neighbors import NeighborView
from zerorag_p2p.routing.peers import PeerTable
from zerorag_p2p.routing.referrals import Preference, refer_to_few, refer_to_holders
from zerorag_p2p.routing.rows import MakeRows, MatrixRows, SharedRows
from zerorag_p2p.routing.strategy import Referring, Start, Strategy, strategy_from
from zerorag_p2p.routing.summaries import summarise
from zerorag_p2p.routing.walk import ReturnedDocument, Walk, everybody, float_score
from zerorag_p2p.wire.advertise import Estimates
from zerorag_p2p.wire.query import (
    AdvertisedEvidence,
    QueryRequest,
    QueryResult,
    Referral,
    ResultDocument,
)
from zerorag_p2p.wire.refusal import Refusal

#: Decides on the documents of a collection, by the owner's terms where they are copies.
Decide: TypeAlias = Callable[[str, SharingTerms | None], Decision]

#: Documents advertised to the querier that its walk starts from, for each that it wants.
KNOWN_PER_WANTED: Final = 4


class DocumentFacts(Protocol):
    """What a decision may look at without reading the document."""

    @property
    def content_hash(self) -> ContentHash:
        """SHA-256 of the content."""

    @property
    def collection(self) -> str:
        """Name of the collection it belongs to."""

    @property
    def terms(self) -> SharingTerms | None:
        """The owner's terms, where it is a copy; None where it is our own."""


class Searched(Protocol):
    """Documents that can be searched by the vectors of one embedding model."""

    def search(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[DocumentFacts], bool],
    ) -> Sequence[ScoredDocument]:
        """The k admitted documents most similar to `embedding`, best first.

        Scores are against the embeddings as they are transmitted. Admission is decided before the
        cut to k.
        """

    def count(
        self,
        embedding: Vector,
        above: Score,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[DocumentFacts], bool],
    ) -> int:
        """How many admitted documents score more than `above`, each content hash once."""


class Corpus(Searched, Protocol):
    """The documents of this peer, as far as routing needs them."""

    def sharing(self, collection: str) -> Sharing | None:
        """How a collection is shared; None if it is not."""

    def collections(self) -> Sequence[str]:
        """Names of all collections."""

    def vectors_to_advertise(
        self, collections: Sequence[str], *, admit: Callable[[DocumentFacts], bool]
    ) -> tuple[Vector, Sequence[ContentHash]]:
        """Vectors [n, d] of the admitted documents in `collections`, each content hash once."""


@dataclass(frozen=True, slots=True)
class OtherModel:
    """A second embedding model, by which queries are answered and nothing else is done.

    Attributes:
        fingerprint: Its digest.
        dimension: Components of a vector.
        corpus: Our documents by its vectors.
    """

    fingerprint: str
    dimension: int
    corpus: Searched


@dataclass(frozen=True, slots=True)
class Requester:
    """An authenticated peer that asks, and what the roster says of it."""

    peer: PeerId
    organisation: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnAdvertisement:
    """What this peer may tell every member about its documents.

    Attributes:
        vectors: float32 [n, d] unit rows, n at most the advertisement limit.
        entries: For every row the prefix of its document, or the number of its cluster.
        estimates: Of the best document of every cluster; None if the rows are documents.
    """

    vectors: Vector
    entries: tuple[HashPrefix | int, ...]
    estimates: Estimates | None = None


class Peer:
    """The state of one peer and what it does with queries.

    Args:
        peer_id: Our own id.
        corpus: Our documents.
        settings: Limits and the choice of routing algorithm.
        fingerprint: Digest of the embedding model that every vector here comes from.
        dimension: Components of a vector.
        record_of: The signed record through which a peer can be dialled, if known; peers without
            one are not referred to.
        make_rows: Where the vectors of advertisements and of remembered queries are kept, if not in
            arrays of this peer.
        preference: Tells peers apart that would do equally well; without it every peer has a
            preference of its own, so that load is spread.
        guard: Decides what is let out; by default by how collections are shared.
        withholds: Whether a collection's embeddings are kept from others.

    Attributes:
        other: A second model that queries are answered by, if there is one.
    """

    def __init__(
        self,
        peer_id: PeerId,
        corpus: Corpus,
        settings: RoutingConfig,
        *,
        fingerprint: str,
        dimension: int,
        record_of: Callable[[PeerId], bytes | None],
        make_rows: MakeRows | None = None,
        preference: Preference | None = None,
        guard: Guard | None = None,
        withholds: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.peer_id = peer_id
        self.strategy: Strategy = strategy_from(settings)
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.other: OtherModel | None = None
        self.neighbors = NeighborView(settings.neighbor_limit)
        self._make_rows = make_rows
        self._sketches: dict[PeerId, None] = {}
        self._preference = preference or self._hashed
        self._guard = guard or Guard()
        self._withholds = withholds
        self._corpus = corpus
        self._settings = settings
        self._record_of = record_of
        self._forget_vectors()

    def _forget_vectors(self) -> None:
        dimension, make_rows = self.dimension, self._make_rows
        self._peers = PeerTable()
        self.advertisements = AdvertisementStore(dimension, self._peers, make_rows or SharedRows)
        self.memory = RoutedQueryMemory(
            self._settings.memory_limit, dimension, self._peers, make_rows or MatrixRows
        )
        self._sketches.clear()

    def change_model(self, fingerprint: str, dimension: int, *, other: OtherModel | None) -> None:
        """Route by another model from now on; what was advertised and asked by the old one goes.

        Args:
            fingerprint: Digest of the model, whose vectors the corpus has from now on.
            dimension: Components of a vector.
            other: What queries are answered by besides.
        """
        self.fingerprint, self.dimension, self.other = fingerprint, dimension, other
        self._forget_vectors()

    def uses(self, fingerprint: str, dimension: int) -> bool:
        """Whether queries by a model, with vectors of so many components, are answered."""
        models = [(self.fingerprint, self.dimension)]
        if self.other is not None:
            models.append((self.other.fingerprint, self.other.dimension))
        return (fingerprint, dimension) in models

    # As the queried peer (algorithm 2).

    def answer(
        self,
        request: QueryRequest,
        requester: Requester,
        now: float,
        decide: Decide | None = None,
    ) -> QueryResult | Refusal:
        """Answer a query of another peer and remember it, if it may be remembered.

        Args:
            request: What is asked.
            requester: Who asks.
            now: Unix seconds.
            decide: What `deciding` returned for it, where the caller needs the decisions as well.
        """
        if not self.uses(request.fingerprint, len(request.embedding)):
            return Refusal(
                RefusalCode.NO_COMMON_EMBEDDING,
                f"the query was embedded with {request.fingerprint[:12]} "
                f"({len(request.embedding)} dimensions), this peer uses {self.fingerprint[:12]} "
                f"({self.dimension} dimensions)",
            )
        count = None
        documents: list[ResultDocument] = []
        decide = decide or self.deciding(request, requester, now)
        if request.view is View.COUNT:
            count = self._count(request, decide)
        else:
            documents = self._search(request, decide)
        if request.fingerprint != self.fingerprint:  # what is known of others is by our own model
            return QueryResult(documents=tuple(documents), referrals=(), count=count)
        referrals = self._refer(request, requester.peer, now)
        until = request.remember_until if self.strategy.uses_memory else None
        if until is not None and until > now:
            lifetime = now + self._settings.memory_lifetime_s
            expires_at = min(float(until), lifetime)
            self.memory.add(requester.peer, request.embedding, expires_at=expires_at)
        return QueryResult(documents=tuple(documents), referrals=tuple(referrals), count=count)

    def _search(self, request: QueryRequest, decide: Decide) -> list[ResultDocument]:
        admit_collection, admit = _admission(request, decide)
        found = self._searched(request).search(
            request.embedding, request.k, admit_collection=admit_collection, admit=admit
        )
        results = [self._result(document, request.view) for document in found]
        above = NEVER_COMPARED if request.above is None else request.above
        return [document for document in results if document.score > above]

    def _result(self, document: ScoredDocument, view: View) -> ResultDocument:
        withheld = self._withholds(document.collection)
        # An embedding tells what a whole text is about.
        shown = view.rank >= View.PASSAGE.rank and not withheld
        return ResultDocument(
            content_hash=document.content_hash,
            embedding=document.embedding if shown else None,
            score=document.score if shown else _coarse(document.score),
            attribution=document.attribution,
        )

    def _count(self, request: QueryRequest, decide: Decide) -> int:
        admit_collection, admit = _admission(request, decide)
        # Who could choose any threshold would find out the scores, and the embedding by many.
        above = _coarse(COUNT_AT_LEAST if request.above is None else request.above)
        return self._searched(request).count(
            request.embedding, above, admit_collection=admit_collection, admit=admit
        )

    def _searched(self, request: QueryRequest) -> Searched:
        if request.fingerprint == self.fingerprint:
            return self._corpus
        assert self.other is not None, "queries by unknown models are refused"
        return self.other.corpus

    def question_of(self, request: QueryRequest) -> Vector | None:
        """What rules on questions compare: their examples are embedded by our own model."""
        return request.embedding if request.fingerprint == self.fingerprint else None

    def deciding(self, request: QueryRequest, requester: Requester, now: float) -> Decide:
        """Decides what may be in the answer to a query, each collection once."""
        access = AccessRequest(
            act=Act.RESULT,
            requester=requester.peer,
            organisation=requester.organisation,
            roles=requester.roles,
            purpose=request.purpose,
            view=request.view,
            query=self.question_of(request),
            reason=request.reason or "",
            at=now,
        )
        return self._guard.for_request(access, self._corpus.sharing)

    def _refer(self, request: QueryRequest, requester: PeerId, now: float) -> list[Referral]:
        referrals = []
        for referral in self._referrals_for(request, requester, now):
            record = self._record_of(referral.peer)
            if record is None:
                continue
            evidence = tuple(
                AdvertisedEvidence(item.score, item.document, item.error)
                for item in referral.advertised
            )
            referrals.append(Referral(referral.peer, record, evidence, referral.remembered))
        return referrals

    def _referrals_for(
        self, request: QueryRequest, requester: PeerId, now: float
    ) -> list[PeerReferral]:
        if self.strategy.referring is Referring.BEST_PEERS:
            return self._best_referrals(request.embedding, excluded=requester, now=now)
        self.advertisements.expire(now)
        documents = self.advertisements.best_documents(
            request.embedding,
            self._settings.referral_limit,
            clusters=self._settings.referral_limit,
            margin=self._settings.margin,
            have=frozenset(request.have),
            above=NEVER_COMPARED if request.above is None else request.above,
            excluded=(requester, self.peer_id),
        )
        referrals = refer_to_few(documents, self._preference)
        referrals += self._by_memory(request.embedding, referrals, requester, now)
        return referrals[:MAX_REFERRALS]

    def _by_memory(
        self, embedding: Vector, known: Sequence[PeerReferral], requester: PeerId, now: float
    ) -> list[PeerReferral]:
        """The best peers by query memory alone, that are not among the `known`."""
        limit = self.strategy.memory_referral_limit
        if limit == 0:
            return []
        self.memory.expire(now)
        scores = np.full(len(self._peers), NEVER_COMPARED, dtype=np.float32)
        self.memory.score_peers(embedding, scores)
        for peer in (requester, self.peer_id, *(referral.peer for referral in known)):
            number = self._peers.number(peer)
            if number is not None:
                scores[number] = NEVER_COMPARED
        best = [
            (float(scores[number]), self._peers.peer(number))
            for number in np.flatnonzero(scores > NEVER_COMPARED).tolist()
        ]
        best.sort(key=lambda item: (-item[0], self._preference(item[1])))
        return [PeerReferral(peer, remembered=score) for score, peer in best[:limit]]

    def _hashed(self, peer: PeerId) -> float:
        digest = hashlib.sha256(f"{self.peer_id} {peer}".encode()).digest()
        return float(int.from_bytes(digest[:6], "big"))

    def _best_referrals(
        self, embedding: Vector, *, excluded: PeerId, now: float
    ) -> list[PeerReferral]:
        """The best r peers by either evidence; ties go to the peer numbered last."""
        self.memory.expire(now)
        self.advertisements.expire(now)
        count = len(self._peers)
        advertised = np.full(count, NEVER_COMPARED, dtype=np.float32)
        remembered = np.full(count, NEVER_COMPARED, dtype=np.float32)
        similarities = self.advertisements.score_peers(embedding, advertised)
        self.memory.score_peers(embedding, remembered)
        best = np.maximum(advertised, remembered)
        for peer in (excluded, self.peer_id):
            number = self._peers.number(peer)
            if number is not None:
                best[number] = NEVER_COMPARED
        limit = min(self._settings.referral_limit, count)
        order = np.argsort(best, kind="stable")[::-1][:limit]
        referrals = []
        for number in order[best[order] > NEVER_COMPARED].tolist():
            peer = self._peers.peer(number)
            evidence: tuple[Advertised, ...] = ()
            if advertised[number] > NEVER_COMPARED:
                evidence = (self.advertisements.best_of(peer, similarities),)
            memory = float(remembered[number])
            referrals.append(
                PeerReferral(
                    peer,
                    advertised=evidence,
                    remembered=memory if memory > NEVER_COMPARED else None,
                )
            )
        return referrals

    # As the querier (algorithm 1).

    def begin_query(
        self,
        embedding: Vector,
        *,
        now: float,
        randomness: random.Random,
        roster: Sequence[PeerId] = (),
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        strategy: Strategy | None = None,
        may_ask: Callable[[PeerId], bool] = everybody,
    ) -> Walk:
        """Start a walk for the query `embedding`, which has to be as it will be transmitted.

        Nobody that `may_ask` excludes is asked.
        """
        walk = Walk(
            querier=self.peer_id,
            k=k or self._settings.k,
            budget=budget or self._settings.contact_budget,
            fanout=fanout or (strategy or self.strategy).fanout,
            patience=(strategy or self.strategy).patience,
            strategy=strategy or self.strategy,
            margin=self._settings.margin,
            preference=self._preference,
            may_ask=may_ask,
            roster=roster,
            randomness=randomness,
        )
        walk.start_from(self._first_candidates(walk, embedding, now))
        return walk

    def _first_candidates(self, walk: Walk, embedding: Vector, now: float) -> list[PeerReferral]:
        match walk.strategy.start:
            case Start.OWN_STATE_FIRST if walk.strategy.referring is Referring.BEST_DOCUMENTS:
                self.advertisements.expire(now)
                documents = self.advertisements.best_documents(
                    embedding,
                    KNOWN_PER_WANTED * walk.k,
                    # What is in a cluster is not known: whoever has one may have to be asked.
                    clusters=walk.budget,
                    margin=walk.margin,
                    excluded=(self.peer_id,),
                )
                referrals = refer_to_holders(documents, self._preference)
                return referrals + self._by_memory(embedding, referrals, self.peer_id, now)
            case Start.OWN_STATE_FIRST:
                return self._best_referrals(embedding, excluded=self.peer_id, now=now)
            case Start.PAPER:
                peers = [neighbor.peer for neighbor in self.neighbors]
            case Start.ROSTER:
                peers = list(walk.roster)
                walk.randomness.shuffle(peers)
        return [PeerReferral(peer) for peer in peers]

    def finish_query(self, walk: Walk, now: float) -> PeerId | None:
        """Note what a walk taught about neighbours; the new one to connect to, if any."""
        results = walk.results()
        if results:
            self.neighbors.mark_useful(results[0].holders[0], now)
        chosen = walk.new_neighbor()
        if chosen is None or chosen == self.peer_id or chosen in self.neighbors:
            return None
        return chosen

    def add_neighbor(self, peer: PeerId, now: float) -> PeerId | None:
        """Make `peer` a neighbour; the one it pushed out, whose advertisement is dropped."""
        evicted = self.neighbors.add(peer, now)
        if evicted is not None and evicted not in self._sketches:
            self.advertisements.remove(evicted)
        return evicted

    def on_advertisement(self, advertisement: HeldAdvertisement) -> bool:
        """Keep what a neighbour or sketched peer advertises; False if nobody's or nothing new."""
        if advertisement.owner not in self.neighbors and advertisement.owner not in self._sketches:
            return False
        return self.advertisements.put(advertisement)

    # Advertisements of peers that are no neighbours.

    @property
    def sketch_limit(self) -> int:
        """Most sketches that the routing algorithm makes use of."""
        return self.strategy.sketch_limit

    @property
    def sketches(self) -> Collection[PeerId]:
        """Peers whose advertisements are kept though they need not be neighbours."""
        return self._sketches.keys()

    def keep_sketch(self, advertisement: HeldAdvertisement) -> bool:
        """Keep what a peer advertises, neighbour or not; False if nothing new.

        Whoever calls this sees to it that there are not more than `sketch_limit`.
        """
        if advertisement.owner == self.peer_id:
            return False
        self._sketches[advertisement.owner] = None
        return self.advertisements.put(advertisement)

    def drop_sketch(self, owner: PeerId) -> None:
        """Let go of what a peer advertises, unless it is a neighbour."""
        self._sketches.pop(owner, None)
        if owner not in self.neighbors:
            self.advertisements.remove(owner)

    def forget_expired(self, now: float) -> None:
        """Forget the advertisements and remembered queries whose time is over."""
        self.advertisements.expire(now)
        self.memory.expire(now)

    def on_departed(self, peer: PeerId) -> None:
        """Forget a peer that left: neighbour, advertisement and remembered queries."""
        self.neighbors.remove(peer)
        self._sketches.pop(peer, None)
        self.advertisements.remove(peer)
        self.memory.remove(peer)

    def advertised_collections(self, now: float) -> tuple[str, ...]:
        """Collections of which every member may know what our own documents are about."""
        advertises = self._advertises(now)
        return tuple(name for name in self._corpus.collections() if advertises(name, None))

    def _advertises(self, now: float) -> Callable[[str, SharingTerms | None], bool]:
        """Decides by collection and owner's terms what every member may know."""
        access = AccessRequest(
            act=Act.ADVERTISE,
            requester=None,
            organisation="",
            purpose=None,
            view=View.PASSAGE,
            at=now,
        )
        decide = self._guard.for_request(access, self._corpus.sharing)
        # Documents of which no embedding may leave can only be in a cluster of several.
        whole = self._settings.advertisement_form == "documents"
        return lambda collection, terms: (
            decide(collection, terms).allowed and not (whole and self._withholds(collection))
        )

    def advertisement(self, now: float, generator: np.random.Generator) -> OwnAdvertisement:
        """What every member may know exists here at unix time `now`, summarised if it is much."""
        form, limit, least = self._settings.advertisement_form, 0, 1
        advertises = self._advertises(now)
        vectors, hashes = self._corpus.vectors_to_advertise(
            self._corpus.collections(),
            admit=lambda document: advertises(document.collection, document.terms),
        )
        if form != "none":
            limit = self._settings.advertisement_limit
        if form == "centroids":
            least = self._settings.advertisement_min_cluster
            limit = min(limit, len(hashes) // least)
        if limit == 0:
            return OwnAdvertisement(vectors[:0], ())
        if len(hashes) > limit:
            summary = summarise(vectors, limit, generator, least=least)
            numbers = tuple(range(len(summary.centroids)))
            return OwnAdvertisement(summary.centroids, numbers, summary.estimates)
        return OwnAdvertisement(vectors, tuple(hash_prefix(item) for item in hashes))


def _admission(
    request: QueryRequest, decide: Decide
) -> tuple[Callable[[str], bool], Callable[[DocumentFacts], bool]]:
    """Which collections, and which documents in them, may be in the answer."""
    have = frozenset(request.have)

    def admit_collection(collection: str) -> bool:
        return decide(collection, None).allowed

    def admit(document: DocumentFacts) -> bool:
        if have and hash_prefix(document.content_hash) in have:
            return False
        return decide(document.collection, document.terms).allowed

    return admit_collection, admit


def _coarse(score: Score) -> Score:
    """A score from which the embedding behind it is hard to tell."""
    return round(math.floor(score / WITHHELD_SCORE_STEP) * WITHHELD_SCORE_STEP, 2)


def read_result(
    query: Vector, result: QueryResult
) -> tuple[list[ReturnedDocument], list[PeerReferral]]:
    """Turn a reply into what a walk takes in; the querier scores what came with an embedding."""
    documents = [
        ReturnedDocument(
            content_hash=document.content_hash,
            score=(
                document.score
                if document.embedding is None
                else float_score(query, document.embedding)
            ),
            embedding=document.embedding,
            attribution=document.attribution,
        )
        for document in result.documents
    ]
    referrals = []
    for referral in result.referrals:
        advertised = tuple(
            Advertised(item.score, item.document, item.error) for item in referral.advertised
        )
        referrals.append(PeerReferral(referral.peer, advertised, referral.remembered))
    return documents, referrals
