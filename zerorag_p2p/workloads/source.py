"""Where the workload of a scenario comes from."""

from __future__ import annotations

from pathlib import Path

from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.pubmedqa import PubMedQA, pubmedqa_workload
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.synthetic import synthetic_workload
from zerorag_p2p.workloads.workload import Workload


def load_workload(scenario: Scenario, folder: Path | None) -> Workload:
    """The workload that a scenario names, for its number of peers and from its seed.

    Args:
        scenario: The scenario.
        folder: Where PubMedQA is, for a scenario that wants it.

    Raises:
        UsageError: The folder is missing or does not hold PubMedQA.
    """
    if scenario.workload == "synthetic":
        return synthetic_workload(peers=scenario.peers, seed=scenario.seed, draws=scenario.draws)
    if folder is None:
        raise UsageError(
            f"the scenario {scenario.name!r} asks PubMedQA's questions: say in which folder "
            "PubMedQA is, or choose the synthetic workload"
        )
    return pubmedqa_workload(
        PubMedQA.load(folder), peers=scenario.peers, seed=scenario.seed, draws=scenario.draws
    )
