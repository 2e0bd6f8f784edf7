"""What a workload looks like, and what publications say of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.workloads.workload import PeerDocuments, Workload

_K: Final = 5  # paper, section 4.3


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A figure of a publication, to be put beside one of ours.

    Attributes:
        value: The figure.
        source: Where it is printed.
        note: How it differs from what we count under the same name, if it does.
    """

    value: float
    source: str
    note: str = ""


_WORKLOADS: Final = "arXiv 2611.07928, section 4.1.1"

#: By name of the workload and of the figure in `describe_workload`.
PUBLISHED: Final[Mapping[str, Mapping[str, PublishedFigure]]] = MappingProxyType(
    {
        "pubmedqa": {
            "draws_from_first_topic": PublishedFigure(15.9, _WORKLOADS),
            "draws_from_second_topic": PublishedFigure(6.6, _WORKLOADS),
            "draws_from_third_topic": PublishedFigure(3.4, _WORKLOADS),
            "topics": PublishedFigure(
                23_904, _WORKLOADS, "all topics of the preferences, also those without a document"
            ),
            "documents": PublishedFigure(1_000, _WORKLOADS),
            "peers": PublishedFigure(50_000, _WORKLOADS),
            "questions": PublishedFigure(1_500_000, _WORKLOADS),
        },
        "aol-ia": {
            "documents": PublishedFigure(428_157, _WORKLOADS, "before users were selected"),
            "peers": PublishedFigure(10_000, _WORKLOADS),
            "questions": PublishedFigure(2_171_460, _WORKLOADS),
        },
        "amazon": {
            "documents": PublishedFigure(63_001, _WORKLOADS),
        },
    }
)


def describe_workload(workload: Workload) -> dict[str, float]:
    """Sizes of a workload, who holds what, and what can be found of what is asked for.

    Of `documents_a_peer` (different ones) and `holders_a_document` there are the mean, under that
    name, and `_min`, `_p25`, `_median`, `_p75` and `_max`. `share_answerable` is over questions:
    whether a peer other than the asker holds the document. For `recall_if_own_counted` see there.
    The workload's own statistics, such as draws from a peer's first topics, come last.

    Args:
        workload: A workload with documents and questions.
    """
    holdings = _Holders(workload.holdings, len(workload.documents))
    events = workload.events
    return {
        "peers": len(workload.holdings),
        "documents": len(workload.documents),
        "topics": len({topic for item in workload.documents for topic in item.topics}),
        "queries": len(workload.queries),
        "questions": len(events),
        **_spread("documents_a_peer", holdings.documents_a_peer()),
        **_spread("holders_a_document", holdings.holders),
        "share_answerable": _mean(holdings.others(events.peers, events.documents) > 0),
        "recall_if_own_counted": recall_if_own_counted(workload),
        **workload.statistics,
    }


def recall_if_own_counted(workload: Workload) -> float:
    """The most that recall@5 could be if the asker's own documents counted in the exact top 5.

    The mean over the questions of the share of the five best documents of all peers, the asker
    included, that another peer holds. Our recall@5 is against the documents of other peers, of
    which all can be found; a figure against all documents has to be compared with this one.

    Args:
        workload: A workload with documents that somebody holds, and questions.
    """
    events = workload.events
    asked, rows = np.unique(events.queries, return_inverse=True)
    holders = _Holders(workload.holdings, len(workload.documents))
    held = np.flatnonzero(holders.holders)
    documents = transmitted_rows(workload.vectors[held])
    best = held[_best(transmitted_rows(workload.query_vectors[asked]), documents)]
    remote = [holders.others(events.peers, best[rows, place]) > 0 for place in range(best.shape[1])]
    return _mean(np.array(remote))


#: Rows of queries that are compared with all documents at once; bounds memory, not results.
_ROWS: Final = 1_024


def _best(queries: NDArray[np.float32], documents: NDArray[np.float32]) -> NDArray[np.intp]:
    """Of every query the five best documents, or all if there are fewer, in any order."""
    k = min(_K, len(documents))
    parts = [
        np.argpartition(-(queries[start : start + _ROWS] @ documents.T), k - 1, axis=1)[:, :k]
        for start in range(0, len(queries), _ROWS)
    ]
    return np.concatenate(parts)


class _Holders:
    """Who holds what, for many questions at once.

    Attributes:
        holders: int64 [documents], peers that hold each.
    """

    def __init__(self, holdings: PeerDocuments, documents: int) -> None:
        self._documents = documents
        peers = np.repeat(np.arange(len(holdings)), np.diff(holdings.starts))
        self._pairs = np.unique(peers * documents + holdings.documents)
        self._peers = len(holdings)
        self.holders = np.bincount(self._pairs % documents, minlength=documents)

    def documents_a_peer(self) -> NDArray[np.int64]:
        """int64 [peers], different documents of each."""
        return np.bincount(self._pairs // self._documents, minlength=self._peers)

    def others(self, peers: NDArray[Any], documents: NDArray[Any]) -> NDArray[np.int64]:
        """For pairs of a peer and a document, how many others hold the document."""
        pairs = peers.astype(np.int64) * self._documents + documents
        others: NDArray[np.int64] = self.holders[documents] - np.isin(pairs, self._pairs)
        return others


def _spread(name: str, values: NDArray[np.int64]) -> dict[str, float]:
    marks = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    suffixes = ("min", "p25", "median", "p75", "max")
    quantiles = {f"{name}_{end}": mark for end, mark in zip(suffixes, marks, strict=True)}
    return {name: _mean(values), **quantiles}


def _mean(values: NDArray[Any]) -> float:
    return round(float(np.mean(values, dtype=np.float64)), 6)
