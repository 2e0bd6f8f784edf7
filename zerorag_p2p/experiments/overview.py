"""The experiments that there are and what each takes, and what workloads look like."""

from __future__ import annotations

from pathlib import Path

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.registry import EXPERIMENTS
from zerorag_p2p.experiments.run import OWN_FILES
from zerorag_p2p.experiments.scale import find_scale
from zerorag_p2p.workloads.folder import read_workload
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import WORKLOADS, Scenario
from zerorag_p2p.workloads.source import load_workload
from zerorag_p2p.workloads.statistics import PUBLISHED, describe_workload


def overview(scale: str) -> list[Json]:
    """Every experiment with its runs and questions at a scale, ready for JSON.

    `questions` is None where files of the user say how many there are.

    Raises:
        UsageError: There is no such scale.
    """
    size = find_scale(scale)
    entries = []
    for experiment in EXPERIMENTS.values():
        base = size.fit(experiment.base())
        variants = experiment.variants(base)
        questions = sum(item.scenario.peers * item.scenario.draws for item in variants)
        own_files = base.workload in OWN_FILES
        entries.append(
            {
                "name": experiment.name,
                "shows": experiment.shows,
                "published": experiment.source,
                "data": base.workload,
                "runs": size.seeds * len(variants),
                "questions": None if own_files else size.seeds * questions,
            }
        )
    return entries


def describe(name: str, *, peers: int, seed: int, folder: Path | None) -> list[Json]:
    """What a workload looks like, beside what is published of it, ready for JSON.

    Args:
        name: Of `scenario.WORKLOADS`.
        peers: How many; a folder of the user's has its own number.
        seed: Draws who holds and asks what.
        folder: Where the data is.

    Returns:
        `figure`, `ours`, `published` (None if it is not) and `note`, for each figure.

    Raises:
        UsageError: There is no such workload, or its data is missing.
    """
    if name not in WORKLOADS:
        raise UsageError(f"there is no workload {name!r}; known: {', '.join(WORKLOADS)}")
    if name == "folder" and folder is not None:
        peers = len(read_workload(folder, seed=seed).holdings)
    scenario = Scenario(name=name, shows=name, workload=name, peers=peers, seed=seed)
    published = PUBLISHED.get(name, {})
    figures = []
    for figure, ours in describe_workload(load_workload(scenario, folder)).items():
        known = published.get(figure)
        figures.append(
            {
                "figure": figure,
                "ours": round(ours, 4),
                "published": None if known is None else known.value,
                "note": "" if known is None else known.note,
            }
        )
    return figures
