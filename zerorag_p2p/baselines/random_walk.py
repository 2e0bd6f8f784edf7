"""A random walk: the question goes from peer to peer, no matter what it is about."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from zerorag_p2p.baselines.drag import Arrival, DragSystem, Network, Search
from zerorag_p2p.workloads.workload import QueryEvent


@dataclass(frozen=True, kw_only=True)
class RandomWalk(DragSystem):
    """DRAG's random walk: one walker, which may come to a peer again.

    With H_max = 6 it makes five steps at most. The peer that has relevant documents replies to
    the asker; nobody else does. A peer that the walk comes to again is contacted again.

    Attributes:
        restart: Probability that a step leads back to the asker. The paper does not mention it;
            the default is that of a public copy of its program (docs/baselines.md).
    """

    restart: float = 0.1

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "random walk"

    def _searches(self, network: Network) -> Iterator[tuple[int, Search]]:
        randomness = random.Random(f"random walk {self.seed}")
        for number, event in enumerate(network.workload.events):
            yield number, self._walk(network, event, randomness)

    def _walk(self, network: Network, event: QueryEvent, randomness: random.Random) -> Search:
        holders, relevant = network.holders[event.document], network.relevant(event)
        peer, contacts, requests, steps, hops = event.peer, 0, 0, 0, 0
        target: Arrival | None = None
        answer: Arrival | None = None
        while answer is None and steps + 1 < self.max_hops:
            steps += 1
            previous = peer
            if randomness.random() < self.restart:
                peer = event.peer
            else:
                peer = randomness.choice(network.graph[peer])
            requests += peer != previous
            if peer == event.peer:
                continue
            contacts, hops = contacts + 1, steps
            arrival = Arrival(peer, contacts, steps)
            if target is None and peer in holders:
                target = arrival
            if peer in relevant:
                answer = arrival
        return Search(
            contacts=contacts,
            hops=hops,
            looked=steps,
            target=target,
            answer=answer,
            requests=requests,
            replies=0 if answer is None else 1,
            returned=0 if answer is None else network.returned(answer.peer),
        )
