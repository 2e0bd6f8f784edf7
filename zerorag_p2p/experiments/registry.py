"""The experiments by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.ablations import TABLES
from zerorag_p2p.experiments.all_systems import ALL_SYSTEMS
from zerorag_p2p.experiments.churn import CHURN
from zerorag_p2p.experiments.complete import COMPLETE_EXPERIMENTS
from zerorag_p2p.experiments.drag import DRAG
from zerorag_p2p.experiments.experiment import Experiment
from zerorag_p2p.experiments.logs import LOGS
from zerorag_p2p.experiments.new_topic import NEW_TOPIC
from zerorag_p2p.experiments.retrieval import RETRIEVAL

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    experiment.name: experiment
    for experiment in (
        *TABLES,
        *LOGS,
        RETRIEVAL,
        CHURN,
        NEW_TOPIC,
        ALL_SYSTEMS,
        *DRAG,
        *COMPLETE_EXPERIMENTS,
    )
}

#: What a reader of the paper would call them.
_OTHER_NAMES: Final[Mapping[str, str]] = {"fig6": "churn", "fig8": "new-topic"}


def find_experiment(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        UsageError: There is none; the message lists them.
    """
    experiment = EXPERIMENTS.get(_OTHER_NAMES.get(name, name))
    if experiment is None:
        known = ", ".join((*EXPERIMENTS, *_OTHER_NAMES))
        raise UsageError(f"there is no experiment {name!r}; known: {known}")
    return experiment
