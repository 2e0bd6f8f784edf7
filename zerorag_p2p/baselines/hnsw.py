"""A central server with an approximate index: one HNSW graph of all documents."""

from __future__ import annotations

from typing import Final

import numpy as np

from zerorag_p2p.baselines.exact import central_outcomes
from zerorag_p2p.baselines.remote import NONE, RESULTS, RemoteDocuments
from zerorag_p2p.baselines.system import OnProgress
from zerorag_p2p.library.vectors import build_graph, search_graph
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.workload import Numbers, Workload

# Queries searched for between two reports of progress.
_BATCH: Final = 1_000


class HnswCentral:
    """A graph search over all documents, in the order in which the graph returns them.

    Each document is in the graph once, however many peers hold it. The graph is asked for as many
    documents as could be the asker's alone beyond the five wanted, and those are left out.
    """

    name = "hnsw"

    def run(self, workload: Workload, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of a workload; see `System.run`."""
        remote = RemoteDocuments(workload)
        held = np.flatnonzero(remote.copies)
        graph = build_graph(held, remote.vectors[held])
        askers = workload.events.peers
        wanted = np.minimum(RESULTS + remote.sole_copies(), len(held))[askers]
        results: Numbers = np.full((len(askers), RESULTS), NONE, dtype=np.int32)
        done = 0
        for questions in remote.questions(_BATCH):
            for count in np.unique(wanted[questions.events]).tolist():
                chosen = wanted[questions.events] == count
                events = questions.events[chosen]
                rows, row = np.unique(questions.rows[chosen], return_inverse=True)
                queries = remote.query_vectors[questions.queries[rows]]
                found = search_graph(graph, queries, count).astype(np.int32)
                results[events] = remote.first(askers[events], found[row])
            done += len(questions.events)
            if on_progress is not None:
                on_progress(done, len(askers))
        return central_outcomes(remote, results)
