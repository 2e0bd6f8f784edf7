"""Peers in a tree by what they hold, after Semantica (see `baselines.semantic_tree`)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector
from zerorag_p2p.workloads.workload import Numbers, PeerDocuments

# Rounds after which 2-means stops even if it has not settled.
_MAX_ROUNDS: Final = 100


def mean_vectors(vectors: Vector, holdings: PeerDocuments) -> Vector:
    """Of every peer the mean of its documents' vectors, at unit length; zero without documents."""
    means = np.zeros((len(holdings), vectors.shape[1]), dtype=np.float32)
    for mean, documents in zip(means, holdings, strict=True):
        if documents:
            mean[:] = vectors[list(documents)].mean(axis=0)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    np.divide(means, lengths, out=means, where=lengths > 0)
    return means


class _Node:
    """A leaf with peers, or a fork with two centroids [2, d] and two children."""

    __slots__ = ("centroids", "children", "peers")

    def __init__(self, peers: list[int]) -> None:
        self.peers = peers
        self.centroids: Vector | None = None
        self.children: tuple[_Node, ...] = ()


class PeerTree:
    """A binary tree in which similar peers are close to each other.

    Args:
        means: float32 [peers, d], unit rows, of every peer that may join.
        leaf_limit: Peers in a leaf above which it forks.
        clone_margin: A peer whose distances to the centroids of a fork differ by less goes to
            both sides.
        generator: Decides where 2-means starts.
    """

    def __init__(
        self,
        means: Vector,
        *,
        leaf_limit: int,
        clone_margin: float,
        generator: np.random.Generator,
    ) -> None:
        self._means = means
        self._leaf_limit = leaf_limit
        self._clone_margin = clone_margin
        self._generator = generator
        self._root = _Node([])

    def join(self, peer: int) -> None:
        """Put a peer into the leaf, or the leaves, where it belongs."""
        pending = [self._root]
        while pending:
            node = pending.pop()
            if node.centroids is not None:
                sides = self._sides(node.centroids, self._means[[peer]])
                pending += [
                    child for child, in_it in zip(node.children, sides, strict=True) if in_it
                ]
                continue
            node.peers.append(peer)
            if len(node.peers) > self._leaf_limit:
                self._fork(node)

    def _sides(self, centroids: Vector, means: Vector) -> NDArray[np.bool_]:
        """To which of two sides `means` [n, d] belong, [2, n]; some to both."""
        first, second = np.linalg.norm(means - centroids[:, None], axis=2)
        return np.stack([first < second + self._clone_margin, second <= first + self._clone_margin])

    def _fork(self, leaf: _Node) -> None:
        """Make a fork of a leaf, unless its peers cannot be told apart."""
        means = self._means[leaf.peers]
        centroids = _two_means(means, self._generator)
        sides = self._sides(centroids, means)
        if sides.all(axis=1).any():
            return
        peers = np.array(leaf.peers)
        leaf.centroids = centroids
        leaf.children = tuple(_Node(peers[side].tolist()) for side in sides)
        leaf.peers = []

    def contacts(self, limit: int) -> Numbers:
        """The contacts of every peer, [peers, m], filled up with the number of peers.

        Args:
            limit: Contacts for each place of a peer in the tree.
        """
        peers = len(self._means)
        known: list[set[int]] = [set() for _ in range(peers)]
        pending = [(self._root, list(range(peers)))]
        while pending:
            node, around = pending.pop()
            below = _peers_below(node)
            if len(below) > limit:
                around = below
            for peer in node.peers:
                others = np.array([other for other in around if other != peer], dtype=np.int32)
                similar = np.argsort(-(self._means[others] @ self._means[peer]), kind="stable")
                known[peer].update(others[similar[:limit]].tolist())
            pending += [(child, around) for child in node.children]
        table = np.full((peers, max(1, *map(len, known))), peers, dtype=np.int32)
        for row, contacts in zip(table, known, strict=True):
            row[: len(contacts)] = sorted(contacts)
        return table


def _peers_below(node: _Node) -> list[int]:
    """Peers in the leaves under a node, each once."""
    peers: set[int] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        peers.update(current.peers)
        pending += current.children
    return sorted(peers)


def _two_means(points: Vector, generator: np.random.Generator) -> Vector:
    """Two centroids of points [n, d], [2, d]; the same one twice if all points are the same."""
    first = points[generator.integers(len(points))]
    second = points[np.argmax(np.linalg.norm(points - first, axis=1))]
    centroids = np.stack([first, second])
    for _ in range(_MAX_ROUNDS):
        distances = np.linalg.norm(points - centroids[:, None], axis=2)
        nearer_first = distances[0] < distances[1]
        if nearer_first.all() or not nearer_first.any():
            break
        moved = np.stack([points[nearer_first].mean(axis=0), points[~nearer_first].mean(axis=0)])
        if np.array_equal(moved, centroids):
            break
        centroids = moved
    return centroids
