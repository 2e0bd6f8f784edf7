"""What peers have learned about the expertise of their neighbors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise


class Expertise:
    """For every topic and peer, the neighbors through whom an answer on the topic has come.

    It grows to at most one entry for each topic and direction of a link.
    """

    def __init__(self) -> None:
        self._experts: defaultdict[str, defaultdict[int, set[int]]] = defaultdict(
            lambda: defaultdict(set)
        )

    def learn(self, path: Sequence[int], topics: Iterable[str]) -> None:
        """An answer about `topics` came from the last peer of `path`, which begins at the asker.

        Every peer on the path credits the neighbor that it passed the question to.
        """
        for topic in topics:
            experts = self._experts[topic]
            for peer, neighbor in pairwise(path):
                experts[peer].add(neighbor)

    def relevance(self, topics: Iterable[str]) -> Callable[[int], dict[int, int]]:
        """A function that tells for a peer in how many of `topics` it credits which neighbors."""
        known = [self._experts[topic] for topic in topics if topic in self._experts]

        def credited(peer: int) -> dict[int, int]:
            counts: dict[int, int] = {}
            for experts in known:
                for neighbor in experts.get(peer, ()):
                    counts[neighbor] = counts.get(neighbor, 0) + 1
            return counts

        return credited
