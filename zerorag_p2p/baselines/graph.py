"""Barabási-Albert graphs: who is linked with whom in a network that grew."""

from __future__ import annotations

import random
from typing import TypeAlias

from zerorag_p2p.errors import UsageError

#: For every peer those that it is linked with, ascending. Links go both ways.
Graph: TypeAlias = tuple[tuple[int, ...], ...]


def grow_graph(peers: int, attachments: int, randomness: random.Random) -> Graph:
    """A graph that grew by preferential attachment (Barabási and Albert, Science 286, 1999).

    The first peer is linked with `attachments` others. Every peer that comes after them links to
    as many different ones, each drawn with a probability in proportion to its links.

    Args:
        peers: Number of peers.
        attachments: Links that a newcomer makes, m.
        randomness: Decides.

    Raises:
        UsageError: There are too few peers for as many links, or no links.
    """
    if not 1 <= attachments < peers:
        raise UsageError(
            f"a graph of {peers} peers cannot grow by {attachments} links a peer: "
            "ask for at least one link, and for more peers than links"
        )
    linked: list[set[int]] = [set() for _ in range(peers)]
    # Every peer once for each of its links: a uniform draw is in proportion to them.
    ends: list[int] = []
    chosen = {0}
    for newcomer in range(1, peers):
        if newcomer > attachments:
            chosen = set()
            while len(chosen) < attachments:
                chosen.add(randomness.choice(ends))
        for peer in sorted(chosen):
            linked[newcomer].add(peer)
            linked[peer].add(newcomer)
            ends += (newcomer, peer)
    return tuple(tuple(sorted(others)) for others in linked)
