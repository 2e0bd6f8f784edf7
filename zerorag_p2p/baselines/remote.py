"""What others hold, question by question: the yardstick that every system is measured with.

A document is remote to an asker if another peer holds a copy of it. Copies of one document are one
document, known by its number. Scores are cosine similarities of vectors as transmitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.baselines.system import OnProgress
from zerorag_p2p.model import Vector
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.workloads.outcome_table import NO_DOCUMENT, OutcomeTable
from zerorag_p2p.workloads.workload import Numbers, Workload

#: Documents of a result, and of the exact answer that it is compared with.
RESULTS: Final = 5

#: In a result: no document.
NONE: Final = NO_DOCUMENT

# Documents ranked before it is known how many of them are remote; doubled until they suffice.
_FIRST_RANKED: Final = 64

# Scores held at a time: 64 MB of float32.
_SCORES: Final = 1 << 24


class Questions(NamedTuple):
    """Events that ask some queries.

    Attributes:
        queries: The queries, [n].
        events: The events that ask one of them, [m].
        rows: For each of `events` the position of its query in `queries`, [m].
    """

    queries: Numbers
    events: NDArray[np.intp]
    rows: NDArray[np.intp]


class RemoteDocuments:
    """What the peers other than the asker hold, for every event of a workload.

    Attributes:
        workload: The workload.
        vectors: float32 [documents, d], as transmitted.
        query_vectors: float32 [queries, d], as transmitted.
        copies: int32 [documents], peers that hold each.
        holder: int32 [documents], one of them, or `NONE`.
        holders: int32 [events], other peers that hold the document asked for.
        best: int32 [events, `RESULTS`], the remote documents most similar to the question, best
            first, then `NONE`.

    Args:
        workload: The workload.
        on_progress: Told how many questions have their exact answer.
    """

    def __init__(self, workload: Workload, on_progress: OnProgress | None = None) -> None:
        self.workload = workload
        self.vectors: Vector = transmitted_rows(workload.vectors)
        self.query_vectors: Vector = transmitted_rows(workload.query_vectors)
        count = len(workload.documents)
        holdings = workload.holdings
        peers = np.repeat(np.arange(len(holdings)), np.diff(holdings.starts))
        pairs = np.unique(peers * count + holdings.documents)
        self.copies: Numbers = np.bincount(pairs % count, minlength=count).astype(np.int32)
        self.holder: Numbers = np.full(count, NONE, dtype=np.int32)
        self.holder[pairs % count] = pairs // count
        events = workload.events
        wanted = events.peers.astype(np.int64) * count + events.documents
        self.holders: Numbers = self.copies[events.documents] - np.isin(wanted, pairs)
        self.best: Numbers = np.full((len(events), RESULTS), NONE, dtype=np.int32)
        self._find_best(on_progress)

    def _find_best(self, on_progress: OnProgress | None) -> None:
        askers, count = self.workload.events.peers, len(self.vectors)
        done = 0
        for questions in self.questions(max(1, _SCORES // count)):
            scores = self.query_vectors[questions.queries] @ self.vectors.T
            events, rows, depth = questions.events, questions.rows, _FIRST_RANKED
            while True:
                ranked = rank(scores, depth)
                self.best[events] = self.first(askers[events], ranked[rows])
                short = self.best[events, -1] == NONE
                if depth >= count or not short.any():
                    break
                events, rows, depth = events[short], rows[short], 2 * depth
            done += len(questions.events)
            if on_progress is not None:
                on_progress(done, len(askers))

    def questions(self, size: int) -> Iterator[Questions]:
        """All events, those with the same query together, in parts of at most `size` queries."""
        asked, query = np.unique(self.workload.events.queries, return_inverse=True)
        order = np.argsort(query, kind="stable")
        starts = range(0, len(asked), size)
        firsts = np.searchsorted(query[order], [*starts, len(asked)]).tolist()
        for start, (first, end) in zip(starts, pairwise(firsts), strict=True):
            events = order[first:end]
            yield Questions(asked[start : start + size], events, query[events] - start)

    def sole_copies(self) -> Numbers:
        """How many documents each peer holds that nobody else does, int32 [peers]."""
        holders = self.holder[self.copies == 1]
        return np.bincount(holders, minlength=len(self.workload.holdings)).astype(np.int32)

    def first(self, askers: Numbers, ranked: Numbers) -> Numbers:
        """The first `RESULTS` remote documents of each row of `ranked`, then `NONE`.

        Args:
            askers: [n].
            ranked: Documents in order, [n, m]; `NONE` is passed over.
        """
        copies = self.copies[ranked]
        remote = (copies > 1) | ((copies == 1) & (self.holder[ranked] != askers[:, None]))
        remote &= ranked != NONE
        place = np.cumsum(remote, axis=1)
        rows, columns = np.nonzero(remote & (place <= RESULTS))
        found: Numbers = np.full((len(askers), RESULTS), NONE, dtype=np.int32)
        found[rows, place[rows, columns] - 1] = ranked[rows, columns]
        return found

    def share_of_best(self, results: Numbers) -> NDArray[np.float32]:
        """Share of `best` that is in `results` [events, k]; nan where nothing is remote."""
        there = self.best != NONE
        found = np.zeros(self.best.shape, dtype=np.bool_)
        for result in results.T:
            found |= self.best == result[:, None]
        with np.errstate(invalid="ignore"):
            shares: NDArray[np.float32] = np.divide(
                (found & there).sum(axis=1), there.sum(axis=1), dtype=np.float32
            )
        return shares

    def outcomes(
        self, results: Numbers, *, hit: NDArray[np.bool_] | None = None, **columns: NDArray[Any]
    ) -> OutcomeTable:
        """A row for every event.

        Args:
            results: int32 [events, k], remote documents found, best first, then `NONE`.
            hit: Whether a holder of the document was asked; whether the result has the document
                if absent.
            columns: Columns of `OutcomeTable` that only the system itself knows.
        """
        documents = self.workload.events.documents
        return OutcomeTable(
            events=np.arange(len(documents)),
            answerable=self.holders > 0,
            hit=(results == documents[:, None]).any(axis=1) if hit is None else hit,
            recall_at_1=results[:, 0] == documents,
            recall_at_5_exact=self.share_of_best(results),
            holders=self.holders,
            results=results,
            **columns,
        )


def rank(scores: Vector, depth: int) -> Numbers:
    """Positions of the `depth` best scores of each row, best first, equal ones ascending.

    There are fewer if a row is shorter. Which of equal scores at the end get in is left open.
    """
    if depth >= scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable").astype(np.int32)
    chosen = np.sort(np.argpartition(-scores, depth, axis=1)[:, :depth], axis=1)
    order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1).astype(np.int32)
