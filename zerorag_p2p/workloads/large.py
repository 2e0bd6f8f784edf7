"""Libraries of many thousand documents, made from a seed and one peer at a time.

No array holds all documents, so that millions of them need little memory: the documents of a peer
are computed when they are asked for, each time the same.

Topics are a tree. Every topic has `_CHILDREN` that lie around it, the nearer the deeper they are;
a document lies around one of the deepest. How much is new at each level was chosen so that of a
thousand documents drawn from all, similarities resemble those of PubMedQA's thousand abstracts by
all-mpnet-base-v2 (docs/large-libraries.md): of a document and of a query with the first, fifth,
twentieth and hundredth other document, and of a query with its own document.

Specialties: a peer's documents fall from the root to the deepest topics, at every topic by shares
that are the peer's own and of which any are as likely as any other.

Questions: a share of them, `STRAY`, is about any document of another peer; the rest are about a
document of another peer under one of the `FIELDS` of the asker, in proportion to how many
documents it has there. A query has its document's topic, part of what is the document's own, and
noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector
from zerorag_p2p.wire.embedding import normalised_rows
from zerorag_p2p.workloads.consortium import STRAY
from zerorag_p2p.workloads.workload import Numbers

DIMENSION: Final = 128

_CHILDREN: Final = 4
_LEVELS: Final = 8
_FIELD_LEVEL: Final = 4
TOPICS: Final = _CHILDREN**_LEVELS
FIELDS: Final = _CHILDREN**_FIELD_LEVEL

# What a document is made of, as shares of its squared length: what all have in common, what is its
# own, and between them the levels of topics, each with less than the one above. Fitted.
_COMMON: Final = 0.115
_OWN: Final = 0.175
_LEVEL_RATIO: Final = 0.9
#: The variance of component i is in proportion to i to this power: some directions matter more.
_SPECTRUM: Final = -0.5
# Of what is a document's own, what a query keeps; the length of its noise, and the deviation of the
# logarithm of that length. Fitted.
_KEPT: Final = 0.5
_NOISE: Final = 0.75
_NOISE_SKEW: Final = 0.3

#: Documents of a peer where sizes are skewed: a log-normal distribution, and its limits. Guess.
MEDIAN_SIZE: Final = 7_000
SIZE_SKEW: Final = 1.0
SMALLEST_SIZE: Final = 1_000
LARGEST_SIZE: Final = 100_000

# Streams of random numbers, one for each purpose.
_TREE, _SIZES, _QUESTIONS, _PEER = range(4)


@dataclass(frozen=True, slots=True)
class Questions:
    """Who asks what.

    Attributes:
        askers: int32 [n].
        owners: int32 [n], whose document a question is about.
        vectors: float32 [n, d], unit rows.
        documents: float32 [n, d], unit rows, what the questions are about.
    """

    askers: Numbers
    owners: Numbers
    vectors: Vector
    documents: Vector


class LargeLibraries:
    """Libraries of peers and questions about them.

    Args:
        sizes: int64 [peers], documents of each peer.
        seed: Everything follows from it.
    """

    def __init__(self, sizes: NDArray[np.int64], seed: int) -> None:
        self.sizes = sizes
        self._seed = seed
        spectrum = np.arange(1, DIMENSION + 1, dtype=np.float64) ** _SPECTRUM
        self._scale = np.sqrt(spectrum / spectrum.sum()).astype(np.float32)
        self._topics = self._grow()

    def __len__(self) -> int:
        """Number of peers."""
        return len(self.sizes)

    def documents(self, peer: int) -> Vector:
        """The documents of `peer`: float32 [n, d], unit rows, those of a topic together."""
        topics, own = self._parts(peer)
        return normalised_rows(topics + own)

    def ask(self, count: int) -> Questions:
        """`count` questions, each about a document of another peer than the asker."""
        generator = self._generator(_QUESTIONS)
        held = np.stack([self._in_fields(peer) for peer in range(len(self))])
        askers = generator.integers(len(self), size=count).astype(np.int32)
        owners, places = np.empty(count, np.int32), np.empty(count, np.int64)
        for number, asker in enumerate(askers.tolist()):
            owners[number], places[number] = _choose(held, asker, generator)
        vectors, documents = np.empty((2, count, DIMENSION), np.float32)
        for owner in np.unique(owners).tolist():
            asked = np.flatnonzero(owners == owner)
            topics, own = (part[places[asked]] for part in self._parts(owner))
            vectors[asked] = topics + np.float32(_KEPT) * own
            documents[asked] = topics + own
        lengths = _NOISE * np.exp(_NOISE_SKEW * generator.standard_normal((count, 1)))
        vectors += lengths.astype(np.float32) * self._noise(count, generator)
        return Questions(askers, owners, normalised_rows(vectors), normalised_rows(documents))

    def _grow(self) -> Vector:
        """The deepest topics: float32 [TOPICS, d], neighbours in the tree side by side."""
        generator = self._generator(_TREE)
        shares = _LEVEL_RATIO ** np.arange(_LEVELS)
        shares *= (1 - _COMMON - _OWN) / shares.sum()
        common = generator.standard_normal((1, DIMENSION)).astype(np.float32)
        topics = np.float32(np.sqrt(_COMMON)) * normalised_rows(common)
        for share in shares:
            topics = np.repeat(topics, _CHILDREN, axis=0)
            topics += np.float32(np.sqrt(share)) * self._noise(len(topics), generator)
        return topics

    def _parts(self, peer: int) -> tuple[Vector, Vector]:
        """Of every document of a peer its topic and what is its own."""
        generator = self._generator(_PEER, peer)
        counts = self._split(peer, generator)[-1]
        topics = self._topics[np.repeat(np.arange(TOPICS), counts)]
        return topics, np.float32(np.sqrt(_OWN)) * self._noise(len(topics), generator)

    def _in_fields(self, peer: int) -> NDArray[np.int64]:
        """How many documents a peer has in each field."""
        return self._split(peer, self._generator(_PEER, peer))[_FIELD_LEVEL - 1]

    def _split(self, peer: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
        """How many documents of a peer fall to the topics of each level."""
        counts = self.sizes[peer : peer + 1]
        levels = []
        for _ in range(_LEVELS):
            below = np.zeros((len(counts), _CHILDREN), dtype=np.int64)
            used = np.flatnonzero(counts)
            shares = generator.dirichlet(np.ones(_CHILDREN), size=len(used))
            below[used] = generator.multinomial(counts[used], shares)
            counts = below.reshape(-1)
            levels.append(counts)
        return levels

    def _noise(self, count: int, generator: np.random.Generator) -> Vector:
        """Random vectors [count, d] of mean squared length 1."""
        noise: Vector = generator.standard_normal((count, DIMENSION), dtype=np.float32)
        noise *= self._scale
        return noise

    def _generator(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, *stream))


def skewed_sizes(peers: int, seed: int) -> NDArray[np.int64]:
    """Sizes of `peers` libraries, few large and many small."""
    generator = np.random.default_rng((seed, _SIZES))
    sizes = MEDIAN_SIZE * generator.lognormal(sigma=SIZE_SKEW, size=peers)
    return np.clip(sizes, SMALLEST_SIZE, LARGEST_SIZE).astype(np.int64)


def _choose(held: NDArray[np.int64], asker: int, generator: np.random.Generator) -> tuple[int, int]:
    """Whose document is asked for, and which of it."""
    by_field = held.sum(axis=0) - held[asker]
    if generator.random() >= STRAY and (by_field * held[asker]).any():
        by_field = by_field * held[asker]
    field = _draw(by_field, generator)
    by_owner = held[:, field].copy()
    by_owner[asker] = 0
    owner = _draw(by_owner, generator)
    first = int(held[owner, :field].sum())
    return owner, first + int(generator.integers(held[owner, field]))


def _draw(weights: NDArray[np.int64], generator: np.random.Generator) -> int:
    """A place, in proportion to its weight."""
    ends = np.cumsum(weights)
    return int(np.searchsorted(ends, generator.integers(ends[-1]), side="right"))
