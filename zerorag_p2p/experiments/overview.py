"""The experiments that there are, and what each takes."""

from __future__ import annotations

from zerorag_p2p.experiments.registry import EXPERIMENTS
from zerorag_p2p.experiments.run import OWN_FILES
from zerorag_p2p.experiments.scale import find_scale
from zerorag_p2p.workloads.results import Json


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
