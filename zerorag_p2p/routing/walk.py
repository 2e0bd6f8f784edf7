"""The querier's best-first walk (paper, algorithm 1), as a step iterator.

The walk decides whom to ask next and what the answers amount to; somebody else sends the requests:

    while True:
        match walk.next():
            case Contact(peer): send the query to `peer`, later call on_reply or on_failure
            case Waiting():     nothing to send until one of the requests in flight ends
            case Finished():    read walk.results() and walk.new_neighbor()

It never has more than `fanout` requests in flight, never asks a peer twice, and never exceeds the
contact budget, requests in flight included. A reply to a request that was already given up changes
nothing. The querier itself is never contacted: its own state provides the start.

The five choices that distinguish routing algorithms are functions in `routing.strategy`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from zerorag_p2p.model import (
    NEVER_COMPARED,
    ContentHash,
    HashPrefix,
    PeerId,
    Score,
    Vector,
    hash_prefix,
)
from zerorag_p2p.routing.evidence import DOUBT, Advertised, PeerReferral
from zerorag_p2p.routing.referrals import Preference
from zerorag_p2p.routing.strategy import Strategy

#: Wanted documents that are looked at at a time.
MAX_WANTED: Final = 24


def everybody(peer: PeerId) -> bool:
    """Every peer may learn of the question."""
    del peer
    return True


@dataclass(slots=True)
class Candidate:
    """A peer in the frontier, with the best evidence so far and its frontier score.

    Attributes:
        peer: The peer.
        order: Grows from candidate to candidate.
        score: Frontier score.
        advertised: What it advertises, by document; a cluster of documents by the peer.
        remembered: Best score of a query that it once asked.
    """

    peer: PeerId
    order: int
    score: Score = NEVER_COMPARED
    advertised: dict[HashPrefix | PeerId, Advertised] = field(default_factory=dict)
    remembered: Score | None = None

    @property
    def best_advertised(self) -> Score:
        """The largest score of what it advertises."""
        return max((item.score for item in self.advertised.values()), default=NEVER_COMPARED)


@dataclass(frozen=True, slots=True)
class ReturnedDocument:
    """A document in a reply, scored by the querier.

    Attributes:
        score: Similarity with the query.
        embedding: The embedding as transmitted; None if the owner withheld it, and then `score`
            is the owner's own claim.
        attribution: The owner's statement, then a custody statement for each copy.
    """

    content_hash: ContentHash
    score: Score
    embedding: Vector | None = None
    attribution: tuple[bytes, ...] = ()


@dataclass(slots=True)
class FoundDocument:
    """A document among the best so far, and every peer that returned it, earliest first."""

    document: ReturnedDocument
    holders: list[PeerId]
    order: int

    @property
    def score(self) -> Score:
        """Similarity with the query."""
        return self.document.score


@dataclass(slots=True)
class Step:
    """What one contact was for and what came of it; the steps of a walk explain it."""

    peer: PeerId
    score: Score
    reason: str
    outcome: str = "in flight"
    documents: int = 0
    improved: bool = False
    referrals: int = 0
    new_candidates: int = 0


@dataclass(frozen=True, slots=True)
class Contact:
    """Send the query to `peer`.

    Attributes:
        peer: Whom to ask.
        budget_left: Contacts that remain after this one.
        have: Documents that it need not return or refer to.
        above: What the score of a document has to exceed to be of use, if anything.
    """

    peer: PeerId
    budget_left: int
    have: tuple[HashPrefix, ...] = ()
    above: Score | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing to send until a request in flight ends."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The walk is over, and why."""

    reason: str


Action: TypeAlias = Contact | Waiting | Finished


@dataclass(slots=True, kw_only=True)
class Walk:
    """The state of one query at its querier.

    Attributes:
        querier: Who asks; never contacted, never referred to.
        k: Number of documents wanted.
        budget: Most peers that may be contacted.
        fanout: Most requests in flight at a time.
        patience: Contacts without a change after which "settled" may stop.
        strategy: The functions that make up the routing algorithm.
        roster: Peers that exploration may add, in any order.
        randomness: Order of exploration.
        margin: Standard errors by which advertised scores may be off.
        hurried: Whether time is short, so that as much as may be is asked at once.
        preference: Tells peers apart that would do equally well.
        may_ask: Whether a peer may learn of the question; nobody else becomes a candidate.
        steps: What was done so far.
        visited: Everybody asked so far.
        frontier: Everybody to be asked, perhaps.
        unchanged: Contacts since the result changed last.
        known: Documents that the querier's own state knows to be advertised.
    """

    querier: PeerId
    k: int
    budget: int
    strategy: Strategy
    randomness: random.Random
    fanout: int = 1
    patience: int = 3
    roster: Sequence[PeerId] = ()
    margin: float = 1.25
    hurried: bool = False
    preference: Preference = hash
    may_ask: Callable[[PeerId], bool] = everybody
    steps: list[Step] = field(default_factory=list)
    visited: dict[PeerId, Step] = field(default_factory=dict)
    frontier: dict[PeerId, Candidate] = field(default_factory=dict)
    unchanged: int = 0
    known: set[HashPrefix | PeerId] = field(default_factory=set)
    _found: dict[ContentHash, FoundDocument] = field(default_factory=dict)
    _best: dict[PeerId, Score] = field(default_factory=dict)
    _in_flight: dict[PeerId, Candidate] = field(default_factory=dict)
    # Documents that were returned, or turned out not to be good enough.
    _settled: set[HashPrefix | PeerId] = field(default_factory=set)
    _finished: Finished | None = None
    _explored: bool = False
    _order: int = 0

    def start_from(self, referrals: Iterable[PeerReferral]) -> None:
        """Put the first candidates into the frontier, from the querier's own state."""
        for referral in referrals:
            self._consider(referral)
        for candidate in self.frontier.values():
            self.known.update(candidate.advertised)

    def next(self) -> Action:
        """What to do now."""
        if self._finished is not None:
            return self._finished
        if len(self._in_flight) >= self.fanout:
            return Waiting()
        reason = self._why_stop()
        if reason is not None:
            if self._in_flight:
                return Waiting()
            self._finished = Finished(reason)
            return self._finished
        candidate = self.strategy.choose_next(self)
        if candidate is None:
            return Waiting()
        del self.frontier[candidate.peer]
        step = Step(candidate.peer, candidate.score, self.strategy.describe(candidate))
        self.steps.append(step)
        self.visited[candidate.peer] = step
        self._in_flight[candidate.peer] = candidate
        budget_left = self.budget - len(self.visited)
        if not self.strategy.tells_found:
            return Contact(candidate.peer, budget_left)
        worst = self.worst_score()
        return Contact(
            candidate.peer,
            budget_left,
            have=tuple(hash_prefix(content_hash) for content_hash in self._found),
            above=None if worst == NEVER_COMPARED else worst,
        )

    def on_reply(
        self,
        peer: PeerId,
        documents: Sequence[ReturnedDocument],
        referrals: Sequence[PeerReferral],
    ) -> None:
        """Take in the answer of `peer`; without effect unless its request is in flight."""
        candidate = self._in_flight.pop(peer, None)
        if candidate is None:
            return
        step = self.visited[peer]
        step.outcome = "answered"
        step.documents = len(documents)
        step.referrals = len(referrals)
        step.improved = self._merge(peer, documents)
        self._settle(candidate, documents)
        self.unchanged = 0 if step.improved else self.unchanged + 1
        before = len(self.frontier)
        for referral in referrals:
            self._consider(referral)
        step.new_candidates = len(self.frontier) - before

    def on_failure(self, peer: PeerId, outcome: str) -> None:
        """Give up the request to `peer`, "timed out" for instance: no documents, no referrals."""
        if self._in_flight.pop(peer, None) is None:
            return
        self.visited[peer].outcome = outcome
        self.unchanged += 1

    def stop(self, reason: str) -> None:
        """End the walk now; requests in flight count as given up."""
        if self._finished is None:
            for peer in sorted(self._in_flight):
                self.on_failure(peer, reason)
            self._finished = Finished(reason)

    @property
    def in_flight(self) -> int:
        """Number of requests whose answer is awaited."""
        return len(self._in_flight)

    def would_enter(self, document: ReturnedDocument) -> bool:
        """Whether a document would be among the best k found so far."""
        if document.content_hash in self._found or len(self._found) < self.k:
            return True
        return document.score > min(found.score for found in self._found.values())

    def results(self) -> list[FoundDocument]:
        """The best k documents so far, best first; ties go to the earliest found."""
        return sorted(self._found.values(), key=lambda found: (-found.score, found.order))

    def discard(self, content_hash: ContentHash) -> None:
        """Take a document that did not verify out of the results."""
        self._found.pop(content_hash, None)

    @property
    def cold(self) -> bool:
        """Whether fewer than k documents are found or promised by who is being asked."""
        return len(self._found) + len(self._promises(self._in_flight)) < self.k

    def wanted(self, *, expected: bool = False) -> dict[HashPrefix | PeerId, Advertised]:
        """Advertised documents that may belong into the result and that nobody was asked for yet.

        The k-th best is compared with, of what was found by its score and of what is advertised by
        the least that its score may be.

        Args:
            expected: Only those that belong into it if their scores are as advertised.
        """
        margin = 0.0 if expected else self.margin
        open_, coming = self._promises(self.frontier), self._promises(self._in_flight)
        promised = sorted((open_ | coming).values(), key=lambda item: -item.score)[:MAX_WANTED]
        sure = [found.score for found in self._found.values()]
        sure += [item.floor(margin) for item in promised]
        threshold = sorted(sure)[-self.k] if len(sure) >= self.k else NEVER_COMPARED
        return {
            key: item
            for key, item in open_.items()
            if key not in coming and item in promised and item.reach(margin) >= threshold
        }

    def _promises(
        self, candidates: Mapping[PeerId, Candidate]
    ) -> dict[HashPrefix | PeerId, Advertised]:
        """What is advertised and not settled, each by its best score."""
        best: dict[HashPrefix | PeerId, Advertised] = {}
        for candidate in candidates.values():
            for key, item in candidate.advertised.items():
                known = best.get(key)
                if key not in self._settled and (known is None or item.score > known.score):
                    best[key] = item
        return best

    def best_referral(self) -> PeerId | None:
        """The peer with the best referral score, visited or not; ties go to the earliest."""
        return max(self._best, key=self._best.__getitem__, default=None)

    def new_neighbor(self) -> PeerId | None:
        """The peer that should become a neighbour after this walk, if any."""
        return self.strategy.choose_neighbor(self)

    def _why_stop(self) -> str | None:
        if len(self.visited) >= self.budget:
            return "contact budget spent"
        reason = self.strategy.stop(self)
        if reason is not None:
            return reason
        if not self.frontier and not self._in_flight:
            self._explore()
        if not self.frontier:
            return "nobody left to ask"
        return None

    def _explore(self) -> None:
        """Once the frontier is dry: candidates beyond all evidence, in random order."""
        if not self._explored:
            self._explored = True
            peers = sorted(self.strategy.explore(self))
            self.randomness.shuffle(peers)
            for peer in peers:
                self._consider(PeerReferral(peer))

    def _consider(self, referral: PeerReferral) -> None:
        peer = referral.peer
        if peer == self.querier or peer in self.visited or not self.may_ask(peer):
            return
        score = self.strategy.score(referral)
        best = self._best.get(peer)
        if score > NEVER_COMPARED and (best is None or score > best):
            self._best[peer] = score
        candidate = self.frontier.get(peer)
        if candidate is None:
            self._order += 1
            candidate = self.frontier[peer] = Candidate(peer, self._order)
        candidate.score = max(candidate.score, score)
        for item in referral.advertised:
            key = peer if item.document is None else item.document
            known = candidate.advertised.get(key)
            if known is None or item.score > known.score:
                candidate.advertised[key] = item
        remembered = referral.remembered
        if remembered is not None and (
            candidate.remembered is None or remembered > candidate.remembered
        ):
            candidate.remembered = remembered

    def _settle(self, candidate: Candidate, documents: Sequence[ReturnedDocument]) -> None:
        """Want no more what was returned, nor what was not as it was not good enough.

        A document that anybody's advertisement says is good enough, and that was not returned,
        stays wanted, since another peer that has it may return it.
        """
        self._settled.update(hash_prefix(document.content_hash) for document in documents)
        worst = self.worst_score()
        others = (*self.frontier.values(), *self._in_flight.values())
        for key in candidate.advertised:
            claims = [
                item.advertised[key] for item in (candidate, *others) if key in item.advertised
            ]
            if key == candidate.peer or all(
                claim.score - DOUBT * claim.error <= worst for claim in claims
            ):
                self._settled.add(key)

    def _merge(self, peer: PeerId, documents: Sequence[ReturnedDocument]) -> bool:
        """R = top-k of R and H; whether R changed."""
        improved = False
        for document in documents:
            known = self._found.get(document.content_hash)
            if known is not None:
                if peer not in known.holders:
                    known.holders.append(peer)
                continue
            if not self.would_enter(document):
                continue
            self._order += 1
            self._found[document.content_hash] = FoundDocument(document, [peer], self._order)
            improved = True
            if len(self._found) > self.k:
                worst = max(self._found.values(), key=lambda found: (-found.score, found.order))
                del self._found[worst.document.content_hash]
        return improved

    def held_prefixes(self) -> frozenset[HashPrefix]:
        """Prefixes of the documents found so far."""
        return frozenset(hash_prefix(content_hash) for content_hash in self._found)

    def worst_score(self) -> Score:
        """Score of the k-th document; minus infinity while there are fewer than k."""
        if len(self._found) < self.k:
            return NEVER_COMPARED
        return min(found.score for found in self._found.values())


def float_score(query: Vector, embedding: Vector) -> Score:
    """Cosine similarity of two unit vectors, summed in double precision.

    Both ends of a contact compute this from the same transmitted numbers, whatever the order in
    which their linear algebra libraries add.
    """
    return float(np.dot(query.astype(np.float64), embedding.astype(np.float64)))
