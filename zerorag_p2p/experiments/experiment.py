"""What an experiment is: the runs it consists of, and what is read off them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from zerorag_p2p.config import MAX_ADVERTISED, RoutingConfig
from zerorag_p2p.experiments.quantity import Quantity
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import NetworkModel, Scenario

#: Worlds: arrays, which keep the outcome of every question, and peers as values on an event queue.
VECTORISED: Final = "vectorised"
SIMULATOR: Final = "simulator"

#: The two readings of where a walk starts (the paper's algorithm 1 and its prose). The first also
#: asks random members when nobody promising is left; the second ends there, as published.
OWN_STATE_FIRST: Final = "own-state-first"
PAPER: Final = "paper"
READINGS: Final[Mapping[str, Callable[[RoutingConfig], RoutingConfig]]] = {
    OWN_STATE_FIRST: lambda routing: routing,
    PAPER: lambda routing: replace(routing, start="paper", exploration="none"),
}

#: Complete routing (docs/routing.md), where it stands beside the two readings.
COMPLETE: Final = "complete"

#: Every peer advertises all that it has: the paper's peers have thirty documents and no limit.
PAPER_ROUTING: Final = RoutingConfig(routing="paper", advertisement_limit=MAX_ADVERTISED)

#: One question at a time and nothing lost, as in the paper's simulator.
PAPER_NETWORK: Final = NetworkModel(latency_ms=0.0, jitter_ms=0.0, queries_per_s=0.0)


def as_published(
    name: str, shows: str, workload: str = "pubmedqa", **settings: Any
) -> Callable[[], Scenario]:
    """Makes a scenario with the paper's setting, apart from what `settings` say."""
    return partial(
        Scenario,
        name=name,
        shows=shows,
        workload=workload,
        routing=PAPER_ROUTING,
        network=PAPER_NETWORK,
        **settings,
    )


@dataclass(frozen=True, slots=True)
class Baseline:
    """A system that is not ZeroRAG, by the name under which `systems` builds it."""

    kind: str
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the runs that an experiment compares.

    Attributes:
        name: The reading, then what is varied: "paper, memory 10"; of a baseline its name first.
        scenario: Peers, workload and, of ZeroRAG, the routing.
        baseline: The system that runs instead of ZeroRAG.
        x: The value that is varied, where the experiment varies a number.
    """

    name: str
    scenario: Scenario
    baseline: Baseline | None = None
    x: float | None = None


#: Draws the figure of a result as PNG.
Draw: TypeAlias = Callable[[Json, Path], None]


def _read_nothing(result: Json) -> Json:
    del result
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment, declared.

    Attributes:
        name: By which it is asked for.
        shows: What it shows, in a sentence without its full stop.
        source: Where the figures to compare with are published; "" if nowhere.
        base: Makes the scenario that its runs vary. `workload` names the data that it wants.
        variants: The runs, the one that stands for the experiment first.
        quantities: What its table shows.
        draw: Draws its figure.
        read: What is read off the JSON of a run besides, ready for JSON.
        read_table: The same from the outcome of every question and the number of questions; only
            worlds that keep outcomes can run such an experiment.
        batches: Whether runs keep their metrics by batch; those about a topic do anyhow.
        world: Where it runs unless another is asked for.
        relevant: Whether questions have several right answers, and runs keep which share of them is
            found (`relevant`).
        sampled: Questions of the last tenth whose results runs keep, for a language model to answer
            (`answers`).
    """

    name: str
    shows: str
    source: str
    base: Callable[[], Scenario]
    variants: Callable[[Scenario], Sequence[Variant]]
    quantities: Sequence[Quantity]
    draw: Draw
    read: Callable[[Json], Json] = _read_nothing
    read_table: Callable[[OutcomeTable, int], Json] | None = None
    batches: bool = False
    world: str = VECTORISED
    relevant: bool = False
    sampled: int = 0


def in_readings(scenario: Scenario, setting: str = "", x: float | None = None) -> list[Variant]:
    """A variant for each reading, named after it and what is set otherwise."""
    return [
        Variant(
            f"{reading}, {setting}" if setting else reading,
            replace(scenario, routing=adapt(scenario.routing)),
            x=x,
        )
        for reading, adapt in READINGS.items()
    ]


def sweep(
    scenario: Scenario,
    setting: str,
    values: Iterable[int],
    change: Callable[[Scenario, int], Scenario],
) -> list[Variant]:
    """A variant for each reading and value; `setting` names what is varied, "memory"."""
    return [
        variant
        for value in values
        for variant in in_readings(change(scenario, value), f"{setting} {value}", value)
    ]


def with_routing(scenario: Scenario, **settings: Any) -> Scenario:
    """The scenario with other settings of its routing."""
    return replace(scenario, routing=replace(scenario.routing, **settings))


def completed(scenario: Scenario, **settings: Any) -> Scenario:
    """The scenario with complete routing, one request at a time unless `settings` say otherwise."""
    return with_routing(scenario, **{"routing": COMPLETE, "fanout": 1, **settings})


def completed_to_target(scenario: Scenario, **settings: Any) -> Scenario:
    """The scenario with complete routing that ends where the paper's runs do, as far as it says."""
    return completed(scenario, stopping="budget", **settings)


def setting_of(variant: str) -> str:
    """The name of a variant without its reading or COMPLETE: "memory 10"."""
    reading, _, setting = variant.partition(", ")
    return setting if reading in READINGS or reading == COMPLETE else variant


def runs_by_variant(result: Json) -> dict[str, list[Json]]:
    """The runs of every variant, one a seed; of a result of a single run, that run."""
    runs: list[Json] = result.get("runs") or [{**result, "variant": result["system"]}]
    grouped: dict[str, list[Json]] = {}
    for run in runs:
        grouped.setdefault(run["variant"], []).append(run)
    return grouped
