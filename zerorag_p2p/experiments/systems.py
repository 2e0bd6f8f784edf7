"""Running the systems that ZeroRAG is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from zerorag_p2p.baselines.dht_lsh import DhtLsh
from zerorag_p2p.baselines.drag import DragCounts, DragSystem
from zerorag_p2p.baselines.exact import ExactCentral
from zerorag_p2p.baselines.fewest_peers import FewestPeers
from zerorag_p2p.baselines.flooding import Flooding
from zerorag_p2p.baselines.hnsw import HnswCentral
from zerorag_p2p.baselines.random_walk import RandomWalk
from zerorag_p2p.baselines.semantic_tree import SemanticTree
from zerorag_p2p.baselines.system import OnProgress, System
from zerorag_p2p.baselines.tarw import TopicAwareRandomWalk
from zerorag_p2p.experiments.experiment import Baseline
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.workload import Workload

#: Points of the growth of mean messages (DRAG, figure 4: every 500 of 10,000 questions).
_POINTS: Final = 20

_Options = Mapping[str, int]

_SYSTEMS: Final[Mapping[str, Callable[[Scenario, _Options], System]]] = {
    "exact": lambda scenario, options: ExactCentral(),
    "fewest-peers": lambda scenario, options: FewestPeers(),
    "hnsw": lambda scenario, options: HnswCentral(),
    "dht-lsh": lambda scenario, options: DhtLsh(**options, seed=scenario.seed),
    "semantic-tree": lambda scenario, options: SemanticTree(
        **options,
        budget=scenario.routing.contact_budget,
        stop_at_target=scenario.stop_at_target,
        seed=scenario.seed,
    ),
    "tarw": lambda scenario, options: TopicAwareRandomWalk(**options, seed=scenario.seed),
    "random-walk": lambda scenario, options: RandomWalk(**options, seed=scenario.seed),
    "flooding": lambda scenario, options: Flooding(**options, seed=scenario.seed),
}


@dataclass(frozen=True, slots=True)
class SystemRun:
    """What a system gave.

    Attributes:
        name: As the system calls itself.
        outcomes: Of every question.
        particulars: What it counts beyond that, ready for JSON.
    """

    name: str
    outcomes: OutcomeTable
    particulars: Json


def run_system(
    baseline: Baseline, scenario: Scenario, workload: Workload, on_progress: OnProgress | None
) -> SystemRun:
    """Let a system answer a workload.

    Args:
        baseline: Which, with its options.
        scenario: The seed and the contact budget, where the system has one.
        workload: The workload.
        on_progress: Called while the run is under way.
    """
    system = _SYSTEMS[baseline.kind](scenario, baseline.options)
    if isinstance(system, DragSystem):
        outcomes, counts = system.run_counted(workload, on_progress)
        return SystemRun(system.name, outcomes, {"drag": _drag_figures(counts)})
    outcomes = system.run(workload, on_progress)
    particulars: Json = {}
    if isinstance(system, DhtLsh) and system.publication is not None:
        particulars["publication"] = asdict(system.publication)
    return SystemRun(system.name, outcomes, particulars)


def _drag_figures(counts: DragCounts) -> Json:
    """Means as in DRAG's table 1, and the mean of the messages so far as in its figure 4."""
    ends = np.arange(1, _POINTS + 1) * len(counts.messages) // _POINTS
    growth = np.cumsum(counts.messages)[ends - 1] / ends
    return {
        "hit_rate": round(float(counts.hit.mean()), 6),
        "hops": round(float(counts.hops.mean()), 6),
        "messages": round(float(counts.messages.mean()), 6),
        "mean_messages": [round(mean, 6) for mean in growth.tolist()],
    }
