"""Several right answers to a question: what share of them is found (ZeroRAG, figures 4 and 7(b)).

A document is available to a question if it is relevant to the query, another peer holds it, and
the asker does not (section 4.1.5). Questions are put in bins by how many documents are available,
and the result of a question is as long as the largest number of its bin (section 4.2.2). Two shares
of the available documents are taken:

- those *reached*: a holder was asked;
- *recall*: those among the best of the result, which has everything that the peers asked hold and
  the asker does not, the most similar to the question first.

The second is at most the first. Neither says anything where no document is available.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.workload import Events, Numbers, Workload

# Questions looked at together; each comes with a few hundred documents.
_TOGETHER: Final = 2_000


class Bin(NamedTuple):
    """Questions to which at least and at most so many documents are available."""

    least: int
    most: int

    @property
    def name(self) -> str:
        """As it stands under the paper's bars, "11-50"."""
        return f"{self.least}-{self.most}"


BINS: Final = (Bin(1, 10), Bin(11, 50), Bin(51, 100))


@dataclass(frozen=True, slots=True)
class Shares:
    """Of every question the shares of the available documents.

    Attributes:
        available: int32 [n], how many documents are available.
        reached: float64 [n], nan where none is available.
        recall: float64 [n], nan outside all bins; None where it is not known who was asked.
    """

    available: Numbers
    reached: NDArray[np.float64]
    recall: NDArray[np.float64] | None = None

    def by_bin(self, first: int = 0) -> Json:
        """Means over the questions of each bin, from the question `first` on, ready for JSON."""
        figures: Json = {}
        for bounds in BINS:
            chosen = (self.available >= bounds.least) & (self.available <= bounds.most)
            chosen[:first] = False
            figures[bounds.name] = {"questions": int(chosen.sum())}
            for name, shares in (("reached", self.reached), ("recall", self.recall)):
                if shares is not None and chosen.any():
                    figures[bounds.name][name] = round(float(shares[chosen].mean()), 6)
        return figures


def name_available(workload: Workload, seed: int) -> Workload:
    """The workload with an available document, drawn, in place of the one a question names.

    The mean of what is 1 if a holder of that one was asked, else 0, is the share reached. So it is
    estimated for any system whose searches do not depend on the document named. A question to which
    no document is available keeps the one that it names.

    Args:
        workload: With `Workload.relevant`.
        seed: Decides the draw.
    """
    generator = np.random.default_rng(seed)
    events = workload.events
    named = events.documents.copy()
    for part in _parts(workload):
        draws = np.where(part.available, generator.random(part.available.shape), -1.0)
        some = part.available.any(axis=1)
        named[part.events[some]] = part.documents[draws.argmax(axis=1)[some]]
    return replace(workload, events=Events(events.peers, events.queries, named))


def shares_by_hit(workload: Workload, hit: NDArray[np.bool_]) -> Shares:
    """The share reached, estimated.

    Args:
        workload: From `name_available`.
        hit: bool [events], whether a holder of the document named was asked.
    """
    available = np.zeros(len(workload.events), dtype=np.int32)
    for part in _parts(workload):
        available[part.events] = part.available.sum(axis=1)
    return Shares(available, np.where(available > 0, hit, np.nan))


def shares_by_visits(workload: Workload, visited: Numbers) -> Shares:
    """The shares that follow from whom every question went to.

    Args:
        workload: With `Workload.relevant`; what peers held when asked is what they hold at first.
        visited: int32 [events, contacts], the peers asked, less than 0 where there is none.
    """
    count, documents = len(workload.events), len(workload.documents)
    vectors = transmitted_rows(workload.vectors)
    queries = transmitted_rows(workload.query_vectors)
    available, reached, within = np.zeros((3, count), dtype=np.int32)
    lengths = np.zeros(count, dtype=np.int32)
    for part in _parts(workload):
        order = np.argsort(-(vectors @ queries[part.query]), kind="stable")
        rank = np.empty(documents, dtype=np.int64)
        rank[order] = np.arange(documents)
        relevant = np.zeros(documents, dtype=np.bool_)
        relevant[rank[part.documents]] = True
        available[part.events] = numbers = part.available.sum(axis=1)
        lengths[part.events] = length = _result_lengths(numbers)
        # A document of a question as one number, in the order of results.
        rows, found = _held(workload, visited[part.events])
        keys = np.sort(rows * documents + rank[found])
        keys = keys[np.diff(keys, prepend=-1) > 0]
        rows, found = _held(workload, workload.events.peers[part.events, None])
        keys = keys[~np.isin(keys, rows * documents + rank[found])]
        rows, ranks = np.divmod(keys, documents)
        place = np.arange(len(rows)) - np.searchsorted(rows, rows)
        right = relevant[ranks]
        size = len(part.events)
        reached[part.events] = np.bincount(rows[right], minlength=size)
        right &= place < length[rows]
        within[part.events] = np.bincount(rows[right], minlength=size)
    with np.errstate(invalid="ignore"):
        return Shares(
            available, reached / available, np.where(lengths > 0, within / available, np.nan)
        )


def _result_lengths(available: Numbers) -> Numbers:
    """How many documents the results of questions have; 0 outside all bins."""
    lengths = np.zeros(len(available), dtype=np.int32)
    for bounds in BINS:
        lengths[(available >= bounds.least) & (available <= bounds.most)] = bounds.most
    return lengths


class _Part(NamedTuple):
    """Some of the questions that ask a query.

    Attributes:
        query: The query.
        documents: Those that are relevant to it and that somebody holds, [m].
        events: Numbers of the questions, [n].
        available: bool [n, m].
    """

    query: int
    documents: Numbers
    events: NDArray[np.intp]
    available: NDArray[np.bool_]


def _parts(workload: Workload) -> Iterator[_Part]:
    """All questions about what somebody holds, a part at a time."""
    assert workload.relevant is not None
    holdings, events = workload.holdings, workload.events
    count = len(workload.documents)
    holders = np.repeat(np.arange(len(holdings), dtype=np.int64), np.diff(holdings.starts))
    held = np.unique(holders * count + holdings.documents)
    copied = np.bincount(held % count, minlength=count) > 0
    order = np.argsort(events.queries, kind="stable")
    firsts = np.searchsorted(events.queries[order], np.arange(len(workload.queries) + 1)).tolist()
    for query, relevant in enumerate(workload.relevant):
        documents = np.array(relevant, dtype=np.int32)
        documents = documents[copied[documents]]
        if not len(documents):
            continue
        for first in range(firsts[query], firsts[query + 1], _TOGETHER):
            chosen = order[first : min(first + _TOGETHER, firsts[query + 1])]
            own = events.peers[chosen, None].astype(np.int64) * count + documents
            place = np.minimum(np.searchsorted(held, own), len(held) - 1)
            yield _Part(query, documents, chosen, held[place] != own)


def _held(workload: Workload, peers: Numbers) -> tuple[NDArray[np.int64], Numbers]:
    """What peers hold: rows of `peers` [n, m] and documents, a pair for each document of a row."""
    rows, columns = np.nonzero(peers >= 0)
    starts = workload.holdings.starts
    first = starts[peers[rows, columns]]
    sizes = starts[peers[rows, columns] + 1] - first
    # Positions of the documents of each peer, one peer after the other.
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    documents: Numbers = workload.holdings.documents[np.repeat(first, sizes) + within]
    return np.repeat(rows, sizes), documents
