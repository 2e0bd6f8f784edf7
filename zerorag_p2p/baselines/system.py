"""What is compared: anything that answers the questions of a workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.workload import Workload

#: Told how many questions are done, and of how many.
OnProgress: TypeAlias = Callable[[int, int], None]


class System(Protocol):
    """A way to find documents, with its settings."""

    @property
    def name(self) -> str:
        """What tables and figures call it, settings that matter included."""
        ...

    def run(self, workload: Workload, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of a workload; one row for each of its events.

        Args:
            workload: Who holds what and asks what. The asker's own copies never count.
            on_progress: Told now and then how far the run is.
        """
        ...
