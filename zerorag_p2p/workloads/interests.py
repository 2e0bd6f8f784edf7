"""Who holds and asks what, by interests: the user model of the paper's PubMedQA workload (4.1.1).

A peer's interests are a draw from a symmetric Dirichlet distribution over the topics that have
documents, so that most of its documents come from one to three of them. It draws its documents
topic by topic, each document uniformly from its topic and with it one of the document's queries.
Every draw is a question that it will ask; what it drew more than once it holds once. (With 30
draws out of PubMedQA a peer holds 8.4 different documents, and 50 random others hold the document
that it asks for in 40% of the cases. Draws without repetition would make that 79%.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zerorag_p2p.workloads.workload import Events, PeerDocuments

#: Total concentration of the Dirichlet distribution: the paper's 7e-5 times 23,904 topics.
CONCENTRATION = 1.67

#: Draws of a peer (paper, section 4.1.1).
DOCUMENTS_PER_PEER = 30


@dataclass(frozen=True, slots=True)
class Interests:
    """The draws of all peers.

    Attributes:
        holdings: For every peer its documents, ascending.
        events: Every draw as a question, in random order.
        statistics: Means over the peers: draws from a peer's first, second and third topic (the
            paper: 15.9, 6.6, 3.4) and different documents of a peer.
    """

    holdings: PeerDocuments
    events: Events
    statistics: dict[str, float]


def draw_interests(
    topics: Sequence[Sequence[int]],
    queries: Sequence[Sequence[int]],
    *,
    peers: int,
    draws: int,
    generator: np.random.Generator,
) -> Interests:
    """Draw `draws` documents for each of `peers` peers.

    Args:
        topics: Of every topic the documents, at least one.
        queries: Of every document the queries that it answers, at least one.
        peers: Number of peers.
        draws: Draws of a peer.
        generator: Decides.
    """
    concentrations = np.full(len(topics), CONCENTRATION / len(topics))
    holdings: list[list[int]] = []
    documents = np.empty((peers, draws), dtype=np.int32)
    variants = np.empty((peers, draws), dtype=np.int32)
    largest = np.zeros(3)
    for peer in range(peers):
        counts = generator.multinomial(draws, generator.dirichlet(concentrations))
        drawn: list[int] = []
        for topic in np.flatnonzero(counts).tolist():
            members = topics[topic]
            chosen = generator.integers(len(members), size=counts[topic])
            drawn += [members[number] for number in chosen.tolist()]
        documents[peer] = drawn
        choices = [len(queries[document]) for document in drawn]
        picked = generator.integers(choices).tolist()
        variants[peer] = [
            queries[document][number] for document, number in zip(drawn, picked, strict=True)
        ]
        holdings.append(sorted(set(drawn)))
        first = np.sort(counts)[: -len(largest) - 1 : -1]
        largest[: len(first)] += first
    order = generator.permutation(peers * draws)
    askers = np.repeat(np.arange(peers, dtype=np.int32), draws)
    events = Events(askers[order], variants.reshape(-1)[order], documents.reshape(-1)[order])
    statistics = {
        "draws_from_first_topic": float(largest[0]) / peers,
        "draws_from_second_topic": float(largest[1]) / peers,
        "draws_from_third_topic": float(largest[2]) / peers,
        "documents_a_peer": sum(map(len, holdings)) / peers,
    }
    return Interests(PeerDocuments.of(holdings), events, statistics)
