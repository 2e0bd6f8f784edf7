"""A workload made from a seed alone: topics on the sphere, documents around them.

Topics are random directions, a document is a direction near its topic's and a query a direction
near its document's. The distances are chosen so that an exhaustive search puts the document that
a query was made from first in about 97% of the cases, as all-mpnet-base-v2 does on PubMedQA. The
texts are made up to be told apart; the vectors were not computed from them.
"""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from zerorag_p2p.model import Content, Fingerprint, Vector
from zerorag_p2p.wire.embedding import normalised_rows
from zerorag_p2p.workloads.interests import DOCUMENTS_PER_PEER, draw_interests
from zerorag_p2p.workloads.workload import Workload, WorkloadDocument

DIMENSION: Final = 128
TOPICS: Final = 100
DOCUMENTS_PER_TOPIC: Final = 10
_OPENINGS: Final = (
    "What is known about",
    "Does treatment change",
    "How is it measured,",
    "Who should be screened for",
    "What are the risks of",
    "Is there evidence for",
)
QUERIES_PER_DOCUMENT: Final = len(_OPENINGS)

#: Length of the random part of a document and of a query beside a topic or document of length 1.
DOCUMENT_NOISE: Final = 0.8
QUERY_NOISE: Final = 1.85

FINGERPRINT: Final = Fingerprint("synthetic", "topics-on-the-sphere-1", DIMENSION)

_ONSETS: Final = ("b", "br", "c", "cl", "d", "f", "g", "l", "m", "n", "p", "pr", "r", "s", "t", "v")
_VOWELS: Final = ("a", "e", "i", "o", "u", "ia", "eo")
_ENDINGS: Final = ("n", "r", "s", "sis", "tin", "x", "ma", "lis")


def synthetic_workload(
    *, peers: int, seed: int, draws: int = DOCUMENTS_PER_PEER, topics: int = TOPICS
) -> Workload:
    """A workload of `topics` topics of ten documents and six queries a document.

    Args:
        peers: Number of peers.
        seed: Everything follows from it.
        draws: Documents drawn, and questions asked, by a peer (`workloads.interests`).
        topics: Number of topics.
    """
    generator = np.random.default_rng(seed)
    count = topics * DOCUMENTS_PER_TOPIC
    centres = _directions(topics, generator)
    vectors = _near(np.repeat(centres, DOCUMENTS_PER_TOPIC, axis=0), DOCUMENT_NOISE, generator)
    query_vectors = _near(np.repeat(vectors, QUERIES_PER_DOCUMENT, axis=0), QUERY_NOISE, generator)
    by_topic = [
        range(topic * DOCUMENTS_PER_TOPIC, (topic + 1) * DOCUMENTS_PER_TOPIC)
        for topic in range(topics)
    ]
    by_document = [
        range(document * QUERIES_PER_DOCUMENT, (document + 1) * QUERIES_PER_DOCUMENT)
        for document in range(count)
    ]
    interests = draw_interests(by_topic, by_document, peers=peers, draws=draws, generator=generator)
    words = _words(topics + 2 * count, random.Random(f"words {seed}"))
    names, terms = words[:topics], words[topics:]
    documents = tuple(
        _document(names[document // DOCUMENTS_PER_TOPIC], *terms[2 * document : 2 * document + 2])
        for document in range(count)
    )
    return Workload(
        name="synthetic",
        fingerprint=FINGERPRINT,
        documents=documents,
        vectors=vectors,
        queries=tuple(
            f"{_OPENINGS[query]} {terms[2 * document]} in {terms[2 * document + 1]}?"
            for document in range(count)
            for query in range(QUERIES_PER_DOCUMENT)
        ),
        query_vectors=query_vectors,
        answers=tuple(query // QUERIES_PER_DOCUMENT for query in range(len(query_vectors))),
        holdings=interests.holdings,
        events=interests.events,
        statistics=interests.statistics,
    )


def _directions(count: int, generator: np.random.Generator) -> Vector:
    return normalised_rows(generator.standard_normal((count, DIMENSION)).astype(np.float32))


def _near(rows: Vector, noise: float, generator: np.random.Generator) -> Vector:
    return normalised_rows(rows + np.float32(noise) * _directions(len(rows), generator))


def _document(topic: str, subject: str, setting: str) -> WorkloadDocument:
    text = f"A made-up note of the field of {topic}. It describes {subject} in {setting}."
    return WorkloadDocument(Content(f"{topic}: {subject}", text), (topic,))


def _words(count: int, randomness: random.Random) -> list[str]:
    """Made-up words, each once."""
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = [
            randomness.choice(_ONSETS) + randomness.choice(_VOWELS)
            for _ in range(randomness.randint(2, 3))
        ]
        words.setdefault("".join(syllables) + randomness.choice(_ENDINGS))
    return list(words)
