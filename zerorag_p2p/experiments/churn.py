"""Half of the peers crash and are replaced (paper, section 4.4 and figure 6)."""

from __future__ import annotations

from functools import partial
from typing import Final

from zerorag_p2p.experiments.experiment import (
    COMPLETE,
    Experiment,
    Variant,
    completed_to_target,
    in_readings,
)
from zerorag_p2p.experiments.plots import draw_churn
from zerorag_p2p.experiments.quantity import (
    HIT_RATE_AFTER,
    HIT_RATE_AT,
    HIT_RATE_BEFORE,
    REQUESTS_AFTER,
    REQUESTS_BEFORE,
)
from zerorag_p2p.workloads.results import Json, place_of, time_of
from zerorag_p2p.workloads.scenario import Scenario, load_scenario


def _variants(scenario: Scenario) -> list[Variant]:
    return [*in_readings(scenario), Variant(COMPLETE, completed_to_target(scenario))]


def _read(result: Json) -> Json:
    """Before, at and after the crash; `at` is the batch in which it happens."""
    tenths, batches = result["by_tenth"], result["by_batch"]
    crash_at = time_of(result, "crash")
    tenth, batch = int(10 * crash_at), int(place_of(result, crash_at))
    after = [item["requests_to_target"] for item in tenths[tenth:] if "requests_to_target" in item]
    return {
        "before": tenths[tenth - 1],
        "at": batches[batch],
        "last_tenth": tenths[-1],
        "requests_after": sum(after) / len(after) if after else None,
    }


CHURN: Final = Experiment(
    name="churn",
    shows="What is lost when half of the peers crash, and how it comes back",
    source="ZeroRAG, figure 6",
    base=partial(load_scenario, "churn"),
    variants=_variants,
    quantities=(HIT_RATE_BEFORE, HIT_RATE_AT, HIT_RATE_AFTER, REQUESTS_BEFORE, REQUESTS_AFTER),
    draw=draw_churn,
    read=_read,
    batches=True,
)
