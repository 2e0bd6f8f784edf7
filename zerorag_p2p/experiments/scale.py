"""How large an experiment is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.scenario import Introduce, Scenario


@dataclass(frozen=True, slots=True)
class Scale:
    """A size.

    Attributes:
        seeds: Runs of each variant unless the user says otherwise.
        fit: Makes a scenario this large.
    """

    seeds: int
    fit: Callable[[Scenario], Scenario]


def _smoke(scenario: Scenario) -> Scenario:
    """Seconds: shows that everything runs, and no figure worth quoting."""
    routing = replace(scenario.routing, contact_budget=6)
    # Fewer questions in the same time, so that a batch lasts about as long as ever.
    network = replace(scenario.network, queries_per_s=scenario.network.queries_per_s / 10)
    return replace(scenario, peers=60, draws=10, batch=60, routing=routing, network=network)


def _nodes(scenario: Scenario) -> Scenario:
    """What whole nodes can do in minutes."""
    # A tenth of the questions, so what happens between them has to happen sooner.
    network = replace(scenario.network, refresh_s=20.0)
    # How a topic spreads is decided within its first thousand questions.
    introduces = any(isinstance(entry, Introduce) for entry in scenario.timeline)
    draws = scenario.draws // 3 if introduces else scenario.draws
    batch = scenario.batch // 2
    return replace(scenario, peers=500, draws=draws, batch=batch, network=network)


def _laptop(scenario: Scenario) -> Scenario:
    """Minutes."""
    return replace(scenario, peers=5_000)


def _paper(scenario: Scenario) -> Scenario:
    """The peers, runs and batches that are the default in the paper (sections 4.1.1 to 4.1.5)."""
    return replace(scenario, peers=50_000, batch=1_000)


SCALES: Final[Mapping[str, Scale]] = {
    "smoke": Scale(1, _smoke),
    "nodes": Scale(1, _nodes),
    "laptop": Scale(1, _laptop),
    "paper": Scale(5, _paper),
}


def find_scale(name: str) -> Scale:
    """The scale of this name.

    Raises:
        UsageError: There is none; the message lists them.
    """
    if name not in SCALES:
        raise UsageError(f"there is no scale {name!r}; known: {', '.join(SCALES)}")
    return SCALES[name]
