"""From the outcome of every question to the result of a run."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.routing.strategy import strategy_from
from zerorag_p2p.workloads.outcome_table import NO_HIT, OutcomeTable
from zerorag_p2p.workloads.plan import CrashPeers, Plan, ReplacePeer
from zerorag_p2p.workloads.results import Json, make_result
from zerorag_p2p.workloads.scenario import Scenario

#: Metrics given by batch, of which there may be thousands.
_SERIES: Final = (
    "queries",
    "hit_rate",
    "recall_at_1",
    "requests_to_target",
    "random_order_hit_rate",
)

#: Those of the questions about a topic, and of all others.
_TOPIC_SERIES: Final = _SERIES[:2]


def measure_run(
    scenario: Scenario, plan: Plan, table: OutcomeTable, *, system: str, batches: bool
) -> Json:
    """The result of one run in the format of result files, as `workloads.results.make_result`.

    Args:
        scenario: What was run.
        plan: What became of it with a workload.
        table: Of every question asked.
        system: What ran it.
        batches: Whether metrics by batch are wanted; where a topic was introduced they are in it
            anyhow.
    """
    measuring = _Measuring(scenario, plan)
    result: Json = {
        **make_result(scenario, plan, (), system=system),
        "metrics": measuring.metrics(table, 0, measuring.events),
        "by_tenth": measuring.tenths(table),
    }
    if batches:
        result["by_batch"] = measuring.batches(table)
    else:
        del result["by_batch"]
    if plan.introduced:
        documents = plan.workload.events.documents[table.events]
        introduced = np.isin(documents, sorted(plan.introduced))
        for key, chosen in (("introduced", introduced), ("others", ~introduced)):
            rows = table.rows(chosen)
            result[key] = {
                "metrics": measuring.metrics(rows, 0, measuring.events),
                "by_batch": measuring.batches(rows, _TOPIC_SERIES),
            }
    return result


def parts_of(table: OutcomeTable, events: int, parts: int) -> list[OutcomeTable]:
    """The rows of a table by equal parts of a workload of `events` events."""
    rows = np.searchsorted(table.events, _ends(events, parts)).tolist()
    return [table.rows(slice(*span)) for span in pairwise(rows)]


def _ends(events: int, parts: int) -> list[int]:
    """Where equal parts of `events` events begin, and the last one ends."""
    return [-(-events * number // parts) for number in range(parts + 1)]


class _Measuring:
    """Metrics of stretches of a run, which know how many peers were up."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self.events = len(plan.workload.events)
        self._scenario = scenario
        changes: NDArray[np.int64] = np.zeros(self.events + 1, dtype=np.int64)
        for step in plan.steps:
            match step:
                case CrashPeers(before=before, peers=peers):
                    changes[before] -= len(peers)
                case ReplacePeer(before=before):
                    changes[before] += 1
        self._up = len(plan.workload.holdings) + np.cumsum(changes)

    def tenths(self, table: OutcomeTable) -> list[dict[str, float]]:
        return self._between(table, _ends(self.events, 10))

    def _between(self, table: OutcomeTable, ends: list[int]) -> list[dict[str, float]]:
        """Metrics of the questions between each two of `ends`."""
        rows = np.searchsorted(table.events, ends).tolist()
        return [
            self.metrics(table.rows(slice(*span)), start, end)
            for span, (start, end) in zip(pairwise(rows), pairwise(ends), strict=True)
        ]

    def batches(
        self, table: OutcomeTable, names: tuple[str, ...] = _SERIES
    ) -> list[dict[str, float]]:
        measured = self._between(table, [*range(0, self.events, self._scenario.batch), self.events])
        return [{name: metrics[name] for name in names if name in metrics} for metrics in measured]

    def metrics(self, table: OutcomeTable, start: int, end: int) -> dict[str, float]:
        """Metrics of the questions from `start` to `end`, with those of a whole run.

        The random order is drawn from as many peers as are up halfway through.
        """
        routing = self._scenario.routing
        others = int(self._up[(start + end) // 2]) - 1
        metrics = table.measure(others=others, budget=routing.contact_budget)
        if self._scenario.rounds and table.requests_to_target is not None:
            requests = table.requests_to_target[table.requests_to_target != NO_HIT]
            if len(requests):
                rounds = -(-requests // strategy_from(routing).fanout)
                metrics["rounds_to_target"] = round(float(rounds.mean()), 6)
        return metrics
