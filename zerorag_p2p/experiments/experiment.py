"""The experiments by name: which runs each consists of, and what is read off them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import Crash, Introduce, Scenario

#: The two readings of where a walk starts (the paper's algorithm 1 and its prose). The first also
#: asks random members when nobody promising is left; the second ends there, as published.
OWN_STATE_FIRST: Final = "own-state-first"
PAPER: Final = "paper"
READINGS: Final[Mapping[str, Callable[[RoutingConfig], RoutingConfig]]] = {
    OWN_STATE_FIRST: lambda routing: routing,
    PAPER: lambda routing: replace(routing, start="paper", exploration="none"),
}

#: Owners of a new topic (paper, figure 8), by reading: the slower one is run for two of them.
OWNERS: Final[Mapping[str, Sequence[int]]] = {OWN_STATE_FIRST: (1, 5, 10, 25, 50), PAPER: (1, 10)}

#: Published figures (paper, section 4.4).
PAPER_CHURN: Final = {
    "hit_rate_last_tenth": 0.955,
    "requests_before": 8.9,
    "requests_after": 15.1,
}

#: What a rate has to reach to count as 1.0 in a figure of two decimals.
_AS_GOOD_AS_ONE: Final = 0.995


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the runs that an experiment compares."""

    name: str
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment.

    Attributes:
        scenario: Name of the scenario it starts from.
        variants: The runs, the one that stands for the experiment first.
        read: What is read off the result of a run, ready for JSON.
    """

    scenario: str
    variants: Callable[[Scenario], Sequence[Variant]]
    read: Callable[[Json], dict[str, Any]]


def _churn_variants(scenario: Scenario) -> list[Variant]:
    return [Variant(reading, _with_reading(scenario, reading)) for reading in READINGS]


def _new_topic_variants(scenario: Scenario) -> list[Variant]:
    return [
        Variant(
            f"{reading}, {owners} owners", _with_owners(_with_reading(scenario, reading), owners)
        )
        for reading in READINGS
        for owners in OWNERS[reading]
        if owners <= scenario.peers // 4
    ]


def _with_reading(scenario: Scenario, reading: str) -> Scenario:
    return replace(scenario, routing=READINGS[reading](scenario.routing))


def _with_owners(scenario: Scenario, owners: int) -> Scenario:
    timeline = tuple(
        replace(entry, owners=owners) if isinstance(entry, Introduce) else entry
        for entry in scenario.timeline
    )
    return replace(scenario, timeline=timeline)


def _read_churn(result: Json) -> dict[str, Any]:
    """Before, at and after the crash; `at` is the batch that begins with it."""
    tenths, batches = result["by_tenth"], result["by_batch"]
    crash_at = _at(result, Crash)
    tenth, batch = int(10 * crash_at), int(crash_at * len(batches))
    after = tenths[tenth:]
    return {
        "before": tenths[tenth - 1],
        "at": batches[batch],
        "last_tenth": tenths[-1],
        "requests_after": sum(item["requests_to_target"] for item in after) / len(after),
        "published": PAPER_CHURN,
    }


def _read_new_topic(result: Json) -> dict[str, Any]:
    """How many batches after its introduction every question about the topic is answered."""
    batches = result["introduced"]["by_batch"]
    first = int(_at(result, Introduce) * len(batches))
    rates = [batch.get("hit_rate") for batch in batches[first:]]
    return {
        "introduced_at_batch": first,
        "hit_rates": rates,
        "batches_to_0.995": _first(rates, _AS_GOOD_AS_ONE),
        "batches_to_1": _first(rates, 1.0),
    }


def _at(result: Json, kind: type) -> float:
    action = kind.__name__.lower()
    timeline = result["settings"]["timeline"]
    return next(float(entry["at"]) for entry in timeline if entry["action"] == action)


def _first(rates: Sequence[float | None], least: float) -> int | None:
    """Number, from 1, of the first batch whose rate is at least `least`."""
    for number, rate in enumerate(rates, start=1):
        if rate is not None and rate >= least:
            return number
    return None


EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "churn": Experiment("churn", _churn_variants, _read_churn),
    "new-topic": Experiment("new-topic", _new_topic_variants, _read_new_topic),
}


def find_experiment(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        UsageError: There is none; the message lists them.
    """
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
