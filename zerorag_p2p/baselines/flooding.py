"""Flooding: everybody passes the question on to everybody they are linked with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from zerorag_p2p.baselines.drag import Arrival, DragSystem, Network, Search
from zerorag_p2p.baselines.graph import Graph


class Flood:
    """How far a question spreads, over fewer than `max_hops` links.

    A peer that hears it for the first time passes it on to everybody it is linked with, but for
    the one it has it from; it ignores it when it hears it again.

    Attributes:
        arrivals: Everybody that the question reaches, the asker left out, in order of time.
        hops: Links to those farthest away.
        requests: Messages that carry it, those included that are ignored.
    """

    def __init__(self, graph: Graph, asker: int, max_hops: int) -> None:
        self.arrivals: dict[int, Arrival] = {}
        self.hops = 0
        self.requests = 0
        queue = deque([(asker, 0)])
        while queue:
            peer, self.hops = queue.popleft()
            if self.hops + 1 == max_hops:
                break  # so far away are all that are still in the queue
            self.requests += len(graph[peer]) - (peer != asker)
            for neighbor in graph[peer]:
                if neighbor != asker and neighbor not in self.arrivals:
                    contact = len(self.arrivals) + 1
                    self.arrivals[neighbor] = Arrival(neighbor, contact, self.hops + 1)
                    queue.append((neighbor, self.hops + 1))

    def reaching(self, peers: Iterable[int]) -> list[Arrival]:
        """Those of `peers` that it reaches, in order of time."""
        reached = [self.arrivals[peer] for peer in peers if peer in self.arrivals]
        return sorted(reached, key=lambda arrival: arrival.contact)


@dataclass(frozen=True, kw_only=True)
class Flooding(DragSystem):
    """DRAG's flooding: all that are near enough hear every question.

    A flood cannot be called back. Its messages are all that are sent until it ebbs away, and a
    reply of every peer whose documents are relevant; the earliest reply is the result.
    `DragCounts` goes through the peers in the same order and stops at the first relevant one, as
    DRAG's figures do.
    """

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "flooding"

    def _searches(self, network: Network) -> Iterator[tuple[int, Search]]:
        # A flood leaves nothing behind: one for each asker does for all of its questions.
        events = network.workload.events
        asker = flood = None
        for number in np.argsort(events.peers, kind="stable").tolist():
            event = events[number]
            if flood is None or event.peer != asker:
                asker, flood = event.peer, Flood(network.graph, event.peer, self.max_hops)
            targets = flood.reaching(network.holders[event.document])
            answers = flood.reaching(network.relevant(event))
            yield (
                number,
                Search(
                    contacts=len(flood.arrivals),
                    hops=flood.hops,
                    looked=answers[0].contact if answers else len(flood.arrivals),
                    target=targets[0] if targets else None,
                    answer=answers[0] if answers else None,
                    requests=flood.requests,
                    replies=len(answers),
                    returned=sum(network.returned(arrival.peer) for arrival in answers),
                ),
            )
