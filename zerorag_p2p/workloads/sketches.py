"""Whose advertisements a peer keeps beside its neighbours', once gossip has done its work.

Some are of the peers nearest by content, the others of peers drawn at random, as `routing.sketches`
chooses them. Simulators take this state for given: a peer that is replaced is followed by its
successor, and nothing takes time.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector
from zerorag_p2p.workloads.workload import PeerDocuments, Workload

#: Peers compared with all others at a time.
_CHUNK: Final = 512

# The last choice. Runs that follow each other mostly share their peers, and to compare all of
# 50,000 with each other takes longer than to ask their questions.
_kept: dict[bytes, NDArray[np.int32]] = {}


def sketched_places(
    workload: Workload, limit: int, *, near_share: float, seed: int
) -> NDArray[np.int32]:
    """For every place the places whose advertisements it keeps.

    Nearness is the cosine of the mean vectors of what is held.

    Args:
        workload: Who holds what at first.
        limit: Most places for each.
        near_share: Share of them that are the nearest.
        seed: Draws the random ones.

    Returns:
        int32 [places, min(limit, places - 1)], the nearest first.
    """
    holdings = workload.holdings
    digest = hashlib.sha256(repr((limit, near_share, seed)).encode())
    for array in (holdings.starts, holdings.documents, workload.vectors):
        digest.update(np.ascontiguousarray(array).data)
    key = digest.digest()
    if key not in _kept:
        _kept.clear()
        _kept[key] = _choose(workload, limit, near_share, seed)
    return _kept[key].copy()


def _choose(workload: Workload, limit: int, near_share: float, seed: int) -> NDArray[np.int32]:
    places = len(workload.holdings)
    limit = min(limit, places - 1)
    sketched = np.zeros((places, limit), dtype=np.int32)
    if limit == places - 1:
        everybody = np.arange(places, dtype=np.int32)
        for place in range(places):
            sketched[place] = np.delete(everybody, place)
        return sketched
    near = round(limit * near_share)
    generator = np.random.default_rng(seed)
    means = mean_vectors(workload.holdings, workload.vectors)
    for start in range(0, places, _CHUNK):
        chunk = np.arange(start, min(places, start + _CHUNK))
        sketched[chunk, :near] = _nearest(means, chunk, near)
        for place in chunk.tolist():
            taken = {place, *sketched[place, :near].tolist()}
            sketched[place, near:] = _others(places, taken, limit - near, generator)
    return sketched


def mean_vectors(holdings: PeerDocuments, vectors: Vector) -> Vector:
    """For every peer the direction of the mean of its documents' vectors; zero without any."""
    means = np.zeros((len(holdings), vectors.shape[1]), dtype=np.float32)
    for peer, held in enumerate(holdings):
        if held:
            mean = vectors[list(held)].mean(axis=0)
            means[peer] = mean / max(float(np.linalg.norm(mean)), 1e-9)
    return means


def _nearest(means: Vector, chunk: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    if count == 0:
        return np.zeros((len(chunk), 0), dtype=np.int64)
    cosines = means[chunk] @ means.T
    cosines[np.arange(len(chunk)), chunk] = -np.inf
    nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1)


def _others(places: int, taken: set[int], count: int, generator: np.random.Generator) -> list[int]:
    """`count` places at random that are not among those `taken`."""
    drawn: dict[int, None] = {}
    while len(drawn) < count:
        for place in generator.integers(places, size=count).tolist():
            if place not in taken and len(drawn) < count:
                drawn[place] = None
    return list(drawn)
