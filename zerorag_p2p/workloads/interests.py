"""Who holds and asks what, by interests: the user model of the paper's PubMedQA workload (4.1.1).

A peer's interests are a draw from a symmetric Dirichlet distribution over the topics that have
documents, so that most of its documents come from one to three of them. It draws its documents
topic by topic, each document uniformly from its topic and with it one of the document's queries.
Every draw is a question that it will ask; what it drew more than once it holds once. (With 30
draws out of PubMedQA a peer holds 8.3 different documents, and 50 random others hold the document
that it asks for in 40% of the cases. Draws without repetition would make that 79%.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zerorag_p2p.workloads.workload import Events, Numbers, PeerDocuments

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
    drawn_topics = _draw_topics(len(topics), peers=peers, draws=draws, generator=generator)
    documents = _draw_members(topics, drawn_topics, generator)
    variants = _draw_members(queries, documents, generator)
    askers = np.repeat(np.arange(peers, dtype=np.int32), draws)
    order = generator.permutation(peers * draws)
    holdings = _each_once(documents, len(queries))
    largest = _largest_topics(drawn_topics)
    statistics = {
        "draws_from_first_topic": largest[0],
        "draws_from_second_topic": largest[1],
        "draws_from_third_topic": largest[2],
        "documents_a_peer": len(holdings.documents) / peers,
    }
    events = Events(askers[order], variants.reshape(-1)[order], documents.reshape(-1)[order])
    return Interests(holdings, events, statistics)


def _draw_topics(topics: int, *, peers: int, draws: int, generator: np.random.Generator) -> Numbers:
    """The topic of every draw [peers, draws].

    Draws from a Dirichlet-distributed preference, the preference itself left out: draw n takes a
    topic that is new to it with probability C / (C + n), else that of an earlier draw, each alike
    (the urn of Blackwell and MacQueen, Ann. Statist. 1(2), 1973).
    """
    drawn = np.empty((peers, draws), dtype=np.int32)
    everybody = np.arange(peers)
    for number in range(draws):
        new = generator.random(peers) < CONCENTRATION / (CONCENTRATION + number)
        earlier = drawn[everybody, generator.integers(max(number, 1), size=peers)]
        drawn[:, number] = np.where(new, generator.integers(topics, size=peers), earlier)
    return drawn


def _draw_members(
    groups: Sequence[Sequence[int]], chosen: Numbers, generator: np.random.Generator
) -> Numbers:
    """A member of every `chosen` group, each alike."""
    sizes = np.array([len(group) for group in groups])
    members = np.array([member for group in groups for member in group], dtype=np.int32)
    starts = np.cumsum(sizes) - sizes
    drawn: Numbers = members[starts[chosen] + generator.integers(sizes[chosen])]
    return drawn


def _each_once(documents: Numbers, count: int) -> PeerDocuments:
    """For every row of `documents` [peers, draws] its different ones, ascending."""
    peers = len(documents)
    rows = np.arange(peers, dtype=np.int64)[:, None]
    held = np.unique(rows * count + documents)
    starts = np.searchsorted(held, np.arange(peers + 1, dtype=np.int64) * count)
    return PeerDocuments(starts.astype(np.int64), (held % count).astype(np.int32))


def _largest_topics(topics: Numbers) -> list[float]:
    """Mean number of draws from a peer's first, second and third topic."""
    peers = len(topics)
    rows = np.arange(peers, dtype=np.int64)[:, None]
    count = int(topics.max(initial=0)) + 1
    pairs, times = np.unique(rows * count + topics, return_counts=True)
    owners = pairs // count
    order = np.lexsort((-times, owners))
    place = np.arange(len(pairs)) - np.searchsorted(owners, owners)
    return [float(times[order][place == rank].sum()) / peers for rank in range(3)]
