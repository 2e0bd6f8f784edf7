"""What DRAG's three searches have in common (arXiv 2505.00443, sections 3.2 and 4.1).

The peers are the nodes of a Barabási-Albert graph, and a question goes along its links. Each peer
that it reaches looks into its own documents. The search ends at the first whose documents are
relevant, and what this peer has is the result; without one the result is empty. A peer is asked if
the question reaches it over fewer than `max_hops` links: algorithm 1 drops what arrives with
h >= H_max.

Relevant means in DRAG that the best document is at least as similar to the question as the
threshold, 0.8. Its questions are those that its documents were made of, so that this singles out
the document asked for; with questions of one's own it need not. Unless a threshold is given, a
peer's documents are relevant if the one asked for is among them.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.baselines.graph import Graph, grow_graph
from zerorag_p2p.baselines.remote import NONE, RESULTS, RemoteDocuments
from zerorag_p2p.baselines.system import OnProgress
from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.outcome_table import NO_HIT, OutcomeTable
from zerorag_p2p.workloads.query_sizes import QuerySizes
from zerorag_p2p.workloads.workload import Numbers, QueryEvent, Workload

# Questions between two reports of progress.
_PROGRESS: Final = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class DragCounts:
    """DRAG's metrics for every question, as its table 1 counts them; their means are its figures.

    An asker looks into its own documents first, and an answer found there counts.

    Attributes:
        hit: bool [n], whether a relevant document was found.
        hops: int32 [n], links between the asker and the peer that had it, H_max without one.
        messages: int32 [n], peers that looked into their documents until then, the asker included.
            (In every row of the table that is about the random walk, messages exceed hops by just
            the hit rate: a hit after h hops costs h + 1 messages and a failure H_max of each.)
    """

    hit: NDArray[np.bool_]
    hops: Numbers
    messages: Numbers


class DragRun(NamedTuple):
    """What became of the questions of a workload, counted as everywhere here and as DRAG does."""

    outcomes: OutcomeTable
    counts: DragCounts


class Arrival(NamedTuple):
    """A peer that was asked: by which contact, counted from 1, and over how many links."""

    peer: int
    contact: int
    hops: int


class Network:
    """The peers of a workload, linked with each other.

    Attributes:
        workload: The workload.
        remote: What others hold.
        graph: Who is linked with whom.
        holders: For every document those that hold it.
    """

    def __init__(self, workload: Workload, graph: Graph, threshold: float | None) -> None:
        self.workload = workload
        self.remote = RemoteDocuments(workload)
        self.graph = graph
        self._threshold = threshold
        self._relevant: dict[int, frozenset[int]] = {}
        holders: list[list[int]] = [[] for _ in workload.documents]
        for peer, documents in enumerate(workload.holdings):
            for document in documents:
                holders[document].append(peer)
        self.holders = [frozenset(peers) for peers in holders]

    def relevant(self, event: QueryEvent) -> frozenset[int]:
        """The peers, the asker perhaps among them, at which a search ends."""
        if self._threshold is None:
            return self.holders[event.document]
        if event.query not in self._relevant:
            scores = self.remote.vectors @ self.remote.query_vectors[event.query]
            similar = np.flatnonzero(scores >= self._threshold).tolist()
            self._relevant[event.query] = frozenset().union(
                *(self.holders[document] for document in similar)
            )
        return self._relevant[event.query]

    def returned(self, peer: int) -> int:
        """How many documents a peer whose documents are relevant sends back."""
        starts = self.workload.holdings.starts
        return min(RESULTS, int(starts[peer + 1] - starts[peer]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What became of one question.

    Attributes:
        contacts: Requests that reached another peer than the asker for it to answer.
        hops: Most links between the asker and one that was asked.
        looked: Times that a peer looked into its documents until the answer was found, that of
            the asker at the start left out.
        target: The first that held the document asked for.
        answer: The first whose documents were relevant.
        requests: Messages that carried the question.
        replies: Messages back to the asker.
        returned: Documents in all of them.
    """

    contacts: int
    hops: int
    looked: int
    target: Arrival | None
    answer: Arrival | None
    requests: int
    replies: int
    returned: int


class SearchLog:
    """What became of every question, in columns."""

    def __init__(self, network: Network, max_hops: int) -> None:
        count = len(network.workload.events)
        self._network = network
        self._contacts, self._hops, self._messages, self._target, self._answerer = (
            np.zeros(count, dtype=np.int32) for _ in range(5)
        )
        self._bytes = np.zeros(count, dtype=np.int64)
        self._sizes = QuerySizes.measure(network.workload.fingerprint, k=RESULTS)
        self._counts = DragCounts(
            hit=np.zeros(count, dtype=np.bool_),
            hops=np.full(count, max_hops, dtype=np.int32),
            messages=np.zeros(count, dtype=np.int32),
        )

    def note(self, number: int, search: Search) -> None:
        """The search for the event of this number is over."""
        target, answer, sizes = search.target, search.answer, self._sizes
        self._contacts[number] = search.contacts
        self._hops[number] = search.hops if target is None else target.hops
        self._messages[number] = search.requests + search.replies
        self._target[number] = NO_HIT if target is None else target.contact
        self._answerer[number] = NONE if answer is None else answer.peer
        self._bytes[number] = (
            sizes.request * search.requests
            + sizes.empty_result * search.replies
            + sizes.document * search.returned
        )
        event, looked = self._network.workload.events[number], search.looked
        if event.peer in self._network.relevant(event):
            answer, looked = Arrival(event.peer, 0, 0), 0
        self._counts.messages[number] = looked + 1
        if answer is not None:
            self._counts.hit[number] = True
            self._counts.hops[number] = answer.hops

    def finish(self) -> DragRun:
        """The outcomes, once every event was noted."""
        outcomes = self._network.remote.outcomes(
            self._results(),
            hit=self._target != NO_HIT,
            requests_to_target=self._target,
            contacts=self._contacts,
            messages=self._messages,
            bytes=self._bytes,
            hops=self._hops,
        )
        return DragRun(outcomes, self._counts)

    def _results(self) -> Numbers:
        """The best documents of the peers that answered, [events, `RESULTS`]."""
        remote, workload = self._network.remote, self._network.workload
        holdings, queries = workload.holdings, workload.events.queries
        results: Numbers = np.full((len(queries), RESULTS), NONE, dtype=np.int32)
        for number in np.flatnonzero(self._answerer != NONE).tolist():
            peer = self._answerer[number]
            held = np.unique(holdings.documents[holdings.starts[peer] : holdings.starts[peer + 1]])
            scores = remote.vectors[held] @ remote.query_vectors[queries[number]]
            best = held[np.argsort(-scores, kind="stable")[:RESULTS]]
            results[number, : len(best)] = best
        return results


@dataclass(frozen=True, kw_only=True)
class DragSystem(ABC):
    """One of DRAG's searches with its settings; the defaults are those of section 4.1.

    Systems with the same seed and number of links have the same graph.

    Attributes:
        attachments: Links that a peer makes when it joins, DRAG's connectivity.
        max_hops: H_max.
        threshold: Theta, the least similarity of a relevant document; None if only the document
            asked for is relevant. DRAG has 0.8 and questions of which that is true as well.
        seed: Decides the graph and every random choice.
    """

    attachments: int = 4
    max_hops: int = 6
    threshold: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if self.max_hops < 2:
            raise UsageError(
                f"max_hops = {self.max_hops}: nobody beside the asker is less than that many "
                "links away; the least is 2"
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables and figures call it."""

    @abstractmethod
    def _searches(self, network: Network) -> Iterator[tuple[int, Search]]:
        """What becomes of each event of the network's workload, by its number, in any order."""

    def run(self, workload: Workload, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of a workload; see `System.run`."""
        return self.run_counted(workload, on_progress).outcomes

    def run_counted(self, workload: Workload, on_progress: OnProgress | None = None) -> DragRun:
        """`run`, counted also as DRAG's figures are.

        Raises:
            UsageError: The workload has too few peers for the links, or no topics for a search
                that needs them.
        """
        graph = grow_graph(
            len(workload.holdings), self.attachments, random.Random(f"graph {self.seed}")
        )
        network = Network(workload, graph, self.threshold)
        log = SearchLog(network, self.max_hops)
        count = len(workload.events)
        for done, (number, search) in enumerate(self._searches(network), start=1):
            log.note(number, search)
            if on_progress is not None and (done % _PROGRESS == 0 or done == count):
                on_progress(done, count)
        return log.finish()
