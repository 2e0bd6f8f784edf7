"""A central server that compares every question with every document."""

from __future__ import annotations

import numpy as np

from zerorag_p2p.baselines.remote import NONE, RESULTS, RemoteDocuments
from zerorag_p2p.baselines.system import OnProgress
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.query_sizes import QuerySizes
from zerorag_p2p.workloads.workload import Numbers, Workload


class ExactCentral:
    """Exhaustive search over all documents: the best that any system can do on its vectors."""

    name = "exact"

    def run(self, workload: Workload, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of a workload; see `System.run`."""
        remote = RemoteDocuments(workload, on_progress)
        return central_outcomes(remote, remote.best)


def central_outcomes(remote: RemoteDocuments, results: Numbers) -> OutcomeTable:
    """Outcomes of a central server, which is sent a question and sends back a result.

    Args:
        remote: Of the workload.
        results: int32 [events, `RESULTS`], what the server finds.
    """
    sizes = QuerySizes.measure(remote.workload.fingerprint, k=RESULTS)
    returned = (results != NONE).sum(axis=1)
    return remote.outcomes(
        results,
        messages=np.full(len(results), 2, dtype=np.int32),
        bytes=sizes.request + sizes.empty_result + sizes.document * returned.astype(np.int64),
    )
