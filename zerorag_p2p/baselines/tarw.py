"""TARW, the topic-aware random walk: neighbors who had answers on the topic are asked first."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zerorag_p2p.baselines.drag import Arrival, DragSystem, Network, Search
from zerorag_p2p.baselines.expertise import Expertise
from zerorag_p2p.baselines.topics import question_topics
from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.workload import QueryEvent


@dataclass(frozen=True, kw_only=True)
class TopicAwareRandomWalk(DragSystem):
    """DRAG's own search, algorithm 1.

    It is no walk but a breadth-first search with one queue. Each peer that was asked in vain names
    the `k` of its neighbors to be asked in turn, those first who have shown expertise in most of
    the question's topics, and at random among equals. One peer is asked at a time, with a request
    and a reply.

    What the paper leaves open is read as follows. The cache of expertise is emptied in the
    algorithm at every question, but its section 3.1 has peers keep the topics of their neighbors'
    "successful contributions", and its figure 4 has them learn: here every peer has a cache of its
    own, which lasts, and the peers along the path of an answer each credit the neighbor through
    which it came. The relevance of a neighbor is the number of the question's topics in which it
    is credited. Topics are those of the most similar document (`topics`), without a language
    model. Links stay as they are.

    Attributes:
        k: Neighbors that a peer names.
    """

    k: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise UsageError(f"k = {self.k}: a peer has to name at least one neighbor")

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return f"tarw (k = {self.k})"

    def _searches(self, network: Network) -> Iterator[tuple[int, Search]]:
        topics = question_topics(network.remote)
        expertise = Expertise()
        randomness = random.Random(f"tarw {self.seed}")
        for number, event in enumerate(network.workload.events):
            about = topics[event.query]
            yield number, self._ask(network, event, about, expertise, randomness)

    def _ask(
        self,
        network: Network,
        event: QueryEvent,
        topics: Sequence[str],
        expertise: Expertise,
        randomness: random.Random,
    ) -> Search:
        holders, relevant = network.holders[event.document], network.relevant(event)
        came_from: dict[int, int] = {event.peer: event.peer}
        queue = deque([(event.peer, 0)])
        credited = expertise.relevance(topics)
        contacts, hops = 0, 0
        target: Arrival | None = None
        answer: Arrival | None = None
        while queue:
            peer, hops = queue.popleft()
            if peer != event.peer:
                contacts += 1
                if target is None and peer in holders:
                    target = Arrival(peer, contacts, hops)
                if peer in relevant:
                    answer = Arrival(peer, contacts, hops)
                    expertise.learn(_path(came_from, peer), topics)
                    break
            if hops + 1 < self.max_hops:
                counts = credited(peer)
                # A random part below one only decides among equals.
                ranked = sorted(
                    (-counts.get(neighbor, 0) - randomness.random(), neighbor)
                    for neighbor in network.graph[peer]
                    if neighbor not in came_from
                )
                for _, neighbor in ranked[: self.k]:
                    came_from[neighbor] = peer
                    queue.append((neighbor, hops + 1))
        return Search(
            contacts=contacts,
            hops=hops,
            looked=contacts,
            target=target,
            answer=answer,
            requests=contacts,
            replies=contacts,
            returned=0 if answer is None else network.returned(answer.peer),
        )


def _path(came_from: dict[int, int], peer: int) -> list[int]:
    """How the question came to a peer, from the asker on."""
    path = [peer]
    while came_from[path[-1]] != path[-1]:
        path.append(came_from[path[-1]])
    return path[::-1]
