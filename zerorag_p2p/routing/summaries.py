"""Summaries: what is advertised of a library that is larger than what may be advertised.

A library is cut into clusters, and the centroid of each is advertised. How well a question is
answered depends on the best document of a cluster, not on its centroid, so that an estimate of the
best document's score goes with each: the centroid's plus an offset. The best of n scores that
scatter around a mean lies above it by about as much as the logarithm of n grows, so the offset is a
linear function of that, which the owner fits to its own documents: each in turn is taken for a
query, and left out of the library and of its cluster. What the fit misses is the error.

Clusters are those of spherical k-means (Dhillon and Modha, Machine Learning 42, 2001) from first
centroids as k-means++ draws them (Arthur and Vassilvitskii, SODA 2007). How this compares with
other summaries is measured (docs/large-libraries.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import NEVER_COMPARED, Vector
from zerorag_p2p.wire.advertise import MAX_ESTIMATE_ERROR, MAX_OFFSET, Estimates

#: Documents that a summary is computed from, so that a node does not stop for seconds to do it. A
#: quarter of it, as "k-means" in docs/large-libraries.md, finds less.
SAMPLE_ROWS: Final = 16_384
#: Documents that first centroids are drawn from; one after the other, which takes its time.
_SEED_ROWS: Final = 4_096  # guess
_ROUNDS: Final = 4  # ten were no better
_PROBES: Final = 256  # guess
# Which cluster promises most depends on the offsets, and they on which does; twice is enough.
_FITS: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Clusters of a library.

    Attributes:
        centroids: float32 [m, d], unit rows.
        estimates: Of the best document of each cluster.
    """

    centroids: Vector
    estimates: Estimates


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Documents in clusters, none of them empty.

    Attributes:
        rows: float32 [n, d], the documents.
        centroids: float32 [m, d].
        members: int64 [n], the cluster of each document.
        counts: int64 [m], documents of each cluster.
        sums: float32 [m, d], of the documents of each cluster.
    """

    rows: Vector
    centroids: Vector
    members: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: Vector

    @classmethod
    def around(cls, rows: Vector, centroids: Vector) -> Clusters:
        """Put every row to the nearest of `centroids`; those without a row are left out."""
        nearest = np.argmax(rows @ centroids.T, axis=1)
        used, members, counts = np.unique(nearest, return_inverse=True, return_counts=True)
        order = np.argsort(members, kind="stable")
        sums = np.add.reduceat(rows[order], np.cumsum(counts) - counts, axis=0)
        return cls(rows, centroids[used], members, counts, sums)

    def scores_without(self, probes: NDArray[np.int64]) -> tuple[Vector, Vector]:
        """Scores of documents as queries, each left out itself.

        Args:
            probes: int64 [p], which documents.

        Returns:
            Of every probe the score of each centroid, float32 [p, m], and of the best document,
            float32 [p].
        """
        queries, everyone = self.rows[probes], np.arange(len(probes))
        documents = queries @ self.rows.T
        documents[everyone, probes] = NEVER_COMPARED
        own = self.members[probes]
        rest, _ = _directions(self.sums[own] - queries)
        scores = queries @ self.centroids.T
        left = np.einsum("pd,pd->p", queries, rest)
        scores[everyone, own] = np.where(self.counts[own] > 1, left, NEVER_COMPARED)
        return scores, documents.max(axis=1)


def summarise(
    vectors: Vector, limit: int, generator: np.random.Generator, *, least: int = 1
) -> Summary:
    """Clusters that stand for a library; of a very large one a sample is taken.

    Args:
        vectors: float32 [n, d], unit rows, n > limit.
        limit: Number of clusters wanted, at least 1.
        generator: Draws the sample, the first centroids and the documents to try.
        least: Fewest documents of a cluster, at most n. From 2 on every centroid is the direction
            of the mean of exactly its documents.

    Returns:
        The summary; it has fewer clusters than `limit` where vectors coincide.
    """
    rows = vectors
    if len(rows) > SAMPLE_ROWS:
        rows = rows[generator.choice(len(rows), size=SAMPLE_ROWS, replace=False)]
    clusters = _cluster(rows, limit, generator)
    if least > 1:
        clusters = _of_at_least(clusters, least)
    estimates = estimate(clusters, len(vectors) / len(rows), generator)
    return Summary(clusters.centroids, estimates)


def estimate(clusters: Clusters, scale: float, generator: np.random.Generator) -> Estimates:
    """How the best document of each cluster scores beside the centroid.

    Args:
        clusters: A library, or a sample of it, in clusters; two documents at least.
        scale: How many times larger than what was clustered the library is.
        generator: Draws the documents that are taken for queries.
    """
    count = len(clusters.rows)
    probes = generator.choice(count, size=min(_PROBES, count), replace=False)
    scores, best = clusters.scores_without(probes)
    logarithms = np.log(clusters.counts)
    offsets = missed = np.zeros(len(logarithms))
    slope = 0.0
    for _ in range(_FITS):
        chosen = np.argmax(scores + offsets, axis=1)
        gaps = best - scores[np.arange(len(probes)), chosen]
        terms = np.stack([np.ones(len(probes)), logarithms[chosen]], axis=1)
        intercept, slope = np.linalg.lstsq(terms, gaps)[0]
        if slope < 0:  # a cluster does not promise less for being larger
            intercept, slope = gaps.mean(), 0.0
        offsets = intercept + slope * logarithms
        missed = gaps - offsets[chosen]
    offsets += slope * np.log(scale)
    error = min(float(np.sqrt(np.square(missed).mean())), MAX_ESTIMATE_ERROR)
    return Estimates(
        offsets=np.clip(offsets, -MAX_OFFSET, MAX_OFFSET).astype(np.float32),
        errors=np.full(len(offsets), error, dtype=np.float32),
    )


def _cluster(rows: Vector, limit: int, generator: np.random.Generator) -> Clusters:
    seeds = rows
    if len(rows) > _SEED_ROWS:
        seeds = rows[generator.choice(len(rows), size=_SEED_ROWS, replace=False)]
    clusters = Clusters.around(rows, _first_centroids(seeds, limit, generator))
    for _ in range(_ROUNDS):
        directions, lengths = _directions(clusters.sums)
        centroids = np.where(lengths[:, None] > 0, directions, clusters.centroids)
        clusters = Clusters.around(rows, centroids)
    return clusters


def _of_at_least(clusters: Clusters, least: int) -> Clusters:
    """The clusters without the small ones, whose documents go to the nearest that is left."""
    members, counts = clusters.members.copy(), clusters.counts
    left = np.ones(len(counts), dtype=bool)
    while left.sum() > 1:
        numbers = np.flatnonzero(left)
        smallest = int(numbers[np.argmin(counts[numbers])])
        if counts[smallest] >= least:
            break
        left[smallest] = False
        numbers = np.flatnonzero(left)
        moved = np.flatnonzero(members == smallest)
        nearest = np.argmax(clusters.rows[moved] @ clusters.centroids[numbers].T, axis=1)
        members[moved] = numbers[nearest]
        counts = np.bincount(members, minlength=len(left))
    numbers, members, counts = np.unique(members, return_inverse=True, return_counts=True)
    order = np.argsort(members, kind="stable")
    sums = np.add.reduceat(clusters.rows[order], np.cumsum(counts) - counts, axis=0)
    directions, lengths = _directions(sums)
    centroids = np.where(lengths[:, None] > 0, directions, clusters.centroids[numbers])
    return Clusters(clusters.rows, centroids, members, counts, sums)


def _first_centroids(rows: Vector, limit: int, generator: np.random.Generator) -> Vector:
    """Rows far from each other: each is drawn by its squared distance from those before it."""
    chosen = [int(generator.integers(len(rows)))]
    distances = 1.0 - rows @ rows[chosen[0]]
    while len(chosen) < limit:
        weights = np.maximum(distances, 0.0, dtype=np.float64)
        if not weights.any():
            break
        row = int(generator.choice(len(rows), p=weights / weights.sum()))
        chosen.append(row)
        np.minimum(distances, 1.0 - rows @ rows[row], out=distances)
    return rows[chosen]


def _directions(rows: Vector) -> tuple[Vector, Vector]:
    """Rows at unit length, zero where they are zero, and their lengths."""
    lengths: Vector = np.linalg.norm(rows, axis=1).astype(np.float32)
    divisors: Vector = np.where(lengths > 0, lengths, 1.0).astype(np.float32)
    directions: Vector = rows / divisors[:, None]
    return directions, lengths
