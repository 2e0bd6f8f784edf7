"""Results as they are printed and stored: JSON that says what was run and what came of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from zerorag_p2p.workloads.outcome import (
    QueryOutcome,
    measure,
    measure_by_batch,
    measure_by_tenth,
)
from zerorag_p2p.workloads.plan import Plan
from zerorag_p2p.workloads.scenario import Scenario

Json: TypeAlias = dict[str, Any]

#: Metrics given by batch, of which there are hundreds.
_SERIES: Final = ("queries", "hit_rate", "requests_to_target", "random_order_hit_rate")


def make_result(
    scenario: Scenario, plan: Plan, outcomes: Sequence[QueryOutcome], *, system: str
) -> Json:
    """The result of one run, apart from when, where and by whom it was run.

    Beside the overall metrics and those by tenth of the run there are some by batch (`by_batch`);
    where documents are introduced, the questions about them and all `others` are
    also counted apart.

    Args:
        scenario: What was run.
        plan: What became of it with a workload.
        outcomes: Of every question asked.
        system: What ran it, "event simulator" for instance.
    """
    events = len(plan.workload.events)
    result: Json = {
        "name": scenario.name,
        "system": system,
        "workload": plan.workload.name,
        "peers": scenario.peers,
        "seed": scenario.seed,
        "settings": _settings(scenario),
        "statistics": plan.workload.statistics,
        "events": events,
        "metrics": measure(outcomes),
        "by_tenth": measure_by_tenth(outcomes, events),
        "by_batch": _series(outcomes, events, scenario.batch, _SERIES),
    }
    if plan.introduced:
        for key, wanted in (("introduced", True), ("others", False)):
            chosen = [outcome for outcome in outcomes if outcome.introduced is wanted]
            result[key] = {
                "metrics": measure(chosen),
                "by_batch": _series(chosen, events, scenario.batch, _SERIES[:2]),
            }
    return result


def place_of(result: Json, at: float) -> float:
    """Where in the batches of a run something happens, counted in batches from its beginning.

    Args:
        result: What `make_result` made.
        at: When, as a share of the run.
    """
    return round(at * int(result["events"])) / int(result["settings"]["batch"])


def time_of(result: Json, action: str) -> float:
    """When the first entry of the timeline with this action happens, as a share of the run."""
    timeline = result["settings"]["timeline"]
    return float(next(entry["at"] for entry in timeline if entry["action"] == action))


def _series(
    outcomes: Sequence[QueryOutcome], events: int, batch: int, names: Sequence[str]
) -> list[dict[str, float]]:
    return [
        {name: metrics[name] for name in names if name in metrics}
        for metrics in measure_by_batch(outcomes, events, batch)
    ]


def _settings(scenario: Scenario) -> Json:
    settings = asdict(scenario)
    for name in ("name", "shows", "workload", "peers", "seed"):
        del settings[name]
    settings["timeline"] = [
        {"action": type(entry).__name__.lower(), **asdict(entry)} for entry in scenario.timeline
    ]
    return settings


def mean_metrics(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of the metrics that all of several runs have."""
    return {
        name: round(statistics.fmean(item[name] for item in measured), 6)
        for name in measured[0]
        if all(name in item for item in measured)
    }


def spread_of_metrics(
    measured: Sequence[Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Smallest and largest value and standard deviation of the metrics of two runs or more."""
    spread = {}
    for name in mean_metrics(measured):
        values = [item[name] for item in measured]
        spread[name] = {
            "min": min(values),
            "max": max(values),
            "deviation": round(statistics.stdev(values), 6),
        }
    return spread
