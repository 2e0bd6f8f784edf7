"""What became of millions of questions, in columns; the same figures as `workloads.outcome`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.workloads.outcome import random_hit

#: In `requests_to_target`: no peer that holds the document was asked.
NO_HIT = 0

#: In `results`: fewer documents were found.
NO_DOCUMENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeTable:
    """One row for every question that was asked, in the order of the events.

    What a system cannot have, or did not measure, is None.

    Attributes:
        events: int64 [n], numbers of the events in the workload, ascending.
        answerable: bool [n], whether another peer than the asker held the document.
        hit: bool [n], whether the document was reached: a holder was asked, or, at a system that
            asks no holders, its result has the document.
        recall_at_1: bool [n], whether the best document of the result is the one asked for.
        recall_at_5_exact: float32 [n], share of the five best documents of all other peers that
            the result holds; nan where nobody else has a document.
        requests_to_target: int32 [n], contacts up to the one that hit, or `NO_HIT`.
        contacts: int32 [n], peers contacted.
        rounds: int32 [n], times that contacts were sent out at once.
        failures: int32 [n], contacts that gave no answer.
        messages: int32 [n], messages sent for the question, replies included.
        bytes: int64 [n], their bytes.
        hops: int32 [n], longest path of a message away from the asker, up to the hit if there was
            one.
        holders: int32 [n], other peers that held the document.
        results: int32 [n, k], the documents of the result, best first, then `NO_DOCUMENT`.
    """

    events: NDArray[np.int64]
    answerable: NDArray[np.bool_]
    hit: NDArray[np.bool_]
    recall_at_1: NDArray[np.bool_]
    recall_at_5_exact: NDArray[np.float32] | None = None
    requests_to_target: NDArray[np.int32] | None = None
    contacts: NDArray[np.int32] | None = None
    rounds: NDArray[np.int32] | None = None
    failures: NDArray[np.int32] | None = None
    messages: NDArray[np.int32] | None = None
    bytes: NDArray[np.int64] | None = None
    hops: NDArray[np.int32] | None = None
    holders: NDArray[np.int32] | None = None
    results: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.events)

    def rows(self, chosen: slice | NDArray[np.bool_]) -> OutcomeTable:
        """Some of the rows: a slice of them, or those where a mask [n] is true."""
        columns: dict[str, Any] = {}
        for item in fields(self):
            column = getattr(self, item.name)
            columns[item.name] = None if column is None else column[chosen]
        return OutcomeTable(**columns)

    def measure(self, *, others: int = 0, budget: int = 0) -> dict[str, float]:
        """The metrics of a result file: means over questions; what was not measured is absent.

        `hit_rate`, `recall_at_1`, `requests_to_target` and `random_order_hit_rate` are over
        answerable questions, `requests_to_target` over those of them that hit.

        Args:
            others: Peers beside the asker, for `random_order_hit_rate`; 0 leaves it out.
            budget: Contacts of the random order that is compared with.
        """
        metrics: dict[str, float] = {"queries": len(self)}
        answerable = self.answerable
        if answerable.any():
            metrics["hit_rate"] = _mean(self.hit[answerable])
            metrics["recall_at_1"] = _mean(self.recall_at_1[answerable])
        if self.recall_at_5_exact is not None:
            known = self.recall_at_5_exact[~np.isnan(self.recall_at_5_exact)]
            if len(known):
                metrics["recall_at_5_exact"] = _mean(known)
        if self.requests_to_target is not None:
            requests = self.requests_to_target[answerable & (self.requests_to_target != NO_HIT)]
            if len(requests):
                metrics["requests_to_target"] = _mean(requests)
        for name in ("contacts", "rounds", "failures", "messages", "bytes", "hops"):
            column = getattr(self, name)
            if column is not None and len(column):
                metrics[name] = _mean(column)
        if others and self.holders is not None and answerable.any():
            counts, times = np.unique(self.holders[answerable], return_counts=True)
            rates = [random_hit(others, count, budget) for count in counts.tolist()]
            metrics["random_order_hit_rate"] = round(float(np.average(rates, weights=times)), 6)
        return metrics

    def by_tenth(self, events: int, *, others: int = 0, budget: int = 0) -> list[dict[str, float]]:
        """`measure` of each tenth of a workload of `events` events."""
        ends = [-(-events * number // 10) for number in range(11)]
        return [part.measure(others=others, budget=budget) for part in self._parts(ends)]

    def by_batch(self, events: int, batch: int) -> list[dict[str, float]]:
        """`measure` of every `batch` events of a workload; the last ones may be fewer."""
        return [part.measure() for part in self._parts([*range(0, events, batch), events])]

    def _parts(self, ends: Sequence[int]) -> Iterator[OutcomeTable]:
        rows = np.searchsorted(self.events, ends).tolist()
        return (self.rows(slice(start, end)) for start, end in pairwise(rows))


def _mean(values: NDArray[Any]) -> float:
    return round(float(np.mean(values, dtype=np.float64)), 6)
