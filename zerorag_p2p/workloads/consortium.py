"""A consortium: every document has one owner, and who asks is not the one who knows.

Any workload's documents and queries are dealt out anew. Two documents are the closer, the more
topics they share and the fewer others have these: their affinity is the cosine of their topics,
weighted by inverse document frequency.

Sizes: every peer owns a document; each of the others falls to a peer in proportion to weights that
are drawn from a log-normal distribution, so that few peers own much and many little.

Specialties: peers take documents in turns, in random order, as many turns as they have documents.
A peer's first is drawn; from then on it takes, of those left, the one with the greatest affinity to
all that it owns.

Questions: a peer asks for documents of others. A share of the questions, `STRAY`, is about any of
them; the rest are drawn in proportion to the square of the mean affinity to what the peer owns, so
that most are near its specialty. Each of a document's queries is as likely as the others, and a
question may come again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import Vector
from zerorag_p2p.workloads.interests import DOCUMENTS_PER_PEER
from zerorag_p2p.workloads.statistics import recall_if_own_counted
from zerorag_p2p.workloads.workload import Events, Numbers, PeerDocuments, Workload

#: Standard deviation of the logarithm of a peer's weight. Guess.
SKEW: Final = 1.0

#: Share of the questions that have nothing to do with the asker's specialty. Guess.
STRAY: Final = 0.2

#: Topics that count as what a peer is about, in the statistics.
_MAIN_TOPICS: Final = 3


def consortium_workload(
    base: Workload, *, peers: int, seed: int, questions: int = DOCUMENTS_PER_PEER
) -> Workload:
    """Deal out the documents of `base` to `peers` owners, and draw questions for each.

    Of the documents of others every one can be found, so attainable recall@5 against them is 1.
    The statistics are `largest_peer` and `smallest_peer`, in documents; `share_on_main_topics`, of
    the documents those that have one of their owner's three main topics, and
    `share_if_dealt_at_random` to compare it with; `affinity_of_askers`, the mean affinity of what
    is asked for to what the asker owns, and `affinity_of_others`, of all that others own; and
    `recall_if_own_counted`.

    Args:
        base: Whose documents and queries are used; its holdings and events are not.
        peers: Number of peers.
        seed: Decides.
        questions: Questions that each peer asks.

    Raises:
        UsageError: There are too few peers or documents, or documents without a query.
    """
    documents = len(base.documents)
    if not 2 <= peers <= documents:
        raise UsageError(
            f"{base.name!r} has {documents} documents, each to have one owner: that makes a "
            f"consortium of 2 to {documents} peers, not of {peers}"
        )
    generator = np.random.default_rng(seed)
    affinity = TopicAffinity([document.topics for document in base.documents])
    sizes = draw_sizes(documents, peers, generator)
    owners, near = _deal(affinity, sizes, generator)
    events = _ask(base, owners, near, questions, generator)
    holdings = _holdings(owners, peers)
    others = owners[None] != np.arange(peers)[:, None]
    workload = replace(
        base, name=f"consortium-{base.name}", holdings=holdings, events=events, statistics={}
    )
    shuffled = _holdings(generator.permutation(owners), peers)
    statistics = {
        "largest_peer": int(sizes.max()),
        "smallest_peer": int(sizes.min()),
        "share_on_main_topics": _share_on_main_topics(base, holdings, affinity),
        "share_if_dealt_at_random": _share_on_main_topics(base, shuffled, affinity),
        "affinity_of_askers": float(np.mean(near[events.peers, events.documents])),
        "affinity_of_others": float(np.mean(near[others])),
        "recall_if_own_counted": recall_if_own_counted(workload),
    }
    return replace(workload, statistics=statistics)


def draw_sizes(documents: int, peers: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """How many documents each peer owns: int64 [peers], each at least 1, `documents` in all."""
    weights = generator.lognormal(sigma=SKEW, size=peers)
    return 1 + generator.multinomial(documents - peers, weights / weights.sum())


class TopicAffinity:
    """How close documents are by their topics: 1 for the same topics, 0 for none in common.

    Attributes:
        weights: Of every topic its inverse document frequency, the logarithm of the number of
            documents over that of those that have the topic.
    """

    def __init__(self, topics: Sequence[Sequence[str]]) -> None:
        by_topic: dict[str, list[int]] = {}
        for document, named in enumerate(topics):
            for topic in named:
                by_topic.setdefault(topic, []).append(document)
        count = len(topics)
        self.weights = {topic: np.log(count / len(held)) for topic, held in by_topic.items()}
        self._topics = topics
        self._documents = {topic: np.array(held) for topic, held in by_topic.items()}
        lengths = np.zeros(count)
        for topic, held in by_topic.items():
            lengths[held] += self.weights[topic] ** 2
        # Documents without a topic, or with such as all have, are close to none.
        self._lengths = np.sqrt(np.where(lengths > 0, lengths, 1.0))

    def to_all(self, document: int) -> Vector:
        """Affinities of a document to every one: float32 [documents]."""
        affinities = np.zeros(len(self._topics))
        for topic in self._topics[document]:
            affinities[self._documents[topic]] += self.weights[topic] ** 2
        affinities /= self._lengths * self._lengths[document]
        return affinities.astype(np.float32)


def _deal(
    affinity: TopicAffinity, sizes: NDArray[np.int64], generator: np.random.Generator
) -> tuple[Numbers, Vector]:
    """Of every document the owner, and of peers and documents [peers, documents] the affinity.

    A peer's affinity to a document is the mean over the documents it owns.
    """
    peers, documents = len(sizes), int(sizes.sum())
    turns = generator.permutation(np.repeat(np.arange(peers), sizes - 1))
    firsts = generator.permutation(documents)[:peers]
    owners = np.full(documents, -1, np.int32)
    near = np.zeros((peers, documents), np.float32)

    def take(peer: int, document: int) -> None:
        owners[document] = peer
        near[peer] += affinity.to_all(document)

    for peer, document in enumerate(firsts.tolist()):
        take(peer, document)
    for peer in turns.tolist():
        left = np.flatnonzero(owners < 0)
        wanted = near[peer, left]
        best = left[wanted == wanted.max()]
        take(peer, int(best[generator.integers(len(best))]))
    near /= sizes[:, None]
    return owners, near


def _ask(
    base: Workload,
    owners: Numbers,
    near: Vector,
    questions: int,
    generator: np.random.Generator,
) -> Events:
    peers = len(near)
    by_document: list[list[int]] = [[] for _ in owners]
    for query, document in enumerate(base.answers):
        by_document[document].append(query)
    queried = np.array([bool(queries) for queries in by_document])
    documents = np.empty((peers, questions), np.int32)
    for peer in range(peers):
        foreign = queried & (owners != peer)
        if not foreign.any():
            raise UsageError(f"{base.name!r} has no query about a document of another peer")
        documents[peer] = generator.choice(
            len(owners), size=questions, p=_chances(near[peer], foreign)
        )
    asked = documents.reshape(-1)
    picks = generator.integers([len(by_document[document]) for document in asked.tolist()])
    queries = np.array(
        [
            by_document[document][pick]
            for document, pick in zip(asked.tolist(), picks.tolist(), strict=True)
        ],
        np.int32,
    )
    order = generator.permutation(len(asked))
    askers = np.repeat(np.arange(peers, dtype=np.int32), questions)
    return Events(askers[order], queries[order], asked[order])


def _chances(near: Vector, allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """How likely a peer is to ask for each document."""
    anything: NDArray[np.float64] = allowed / allowed.sum()
    specialty = np.where(allowed, near.astype(np.float64) ** 2, 0.0)
    if not specialty.any():
        return anything
    chances: NDArray[np.float64] = STRAY * anything + (1 - STRAY) * specialty / specialty.sum()
    return chances


def _holdings(owners: Numbers, peers: int) -> PeerDocuments:
    return PeerDocuments.of(np.flatnonzero(owners == peer).tolist() for peer in range(peers))


def _share_on_main_topics(
    base: Workload, holdings: PeerDocuments, affinity: TopicAffinity
) -> float:
    """Share of the documents that have one of their owner's main topics.

    Main are those that add most to affinities: the greatest number of documents times squared
    weight.
    """
    found = 0
    for held in holdings:
        topics = [base.documents[document].topics for document in held]
        counts = Counter(topic for named in topics for topic in named)
        total = {topic: count * affinity.weights[topic] ** 2 for topic, count in counts.items()}
        main = set(sorted(total, key=lambda topic: (-total[topic], topic))[:_MAIN_TOPICS])
        found += sum(not main.isdisjoint(named) for named in topics)
    return found / len(base.documents)
