"""The floor: whoever knew who holds what would ask the fewest peers that hold the exact answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.baselines.remote import NONE, RemoteDocuments
from zerorag_p2p.baselines.system import OnProgress
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.workload import Workload


class FewestPeers:
    """An oracle: for every question the fewest other peers that together hold its exact answer."""

    name = "fewest peers"

    def run(self, workload: Workload, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of a workload; see `System.run`."""
        remote = RemoteDocuments(workload, on_progress)
        holders = _holders(workload)
        askers = workload.events.peers.tolist()
        contacts = np.array(
            [
                _fewest([holders[document] for document in best if document != NONE], asker)
                for best, asker in zip(remote.best.tolist(), askers, strict=True)
            ],
            dtype=np.int32,
        )
        return remote.outcomes(remote.best, contacts=contacts, messages=2 * contacts)


def _holders(workload: Workload) -> list[NDArray[np.int64]]:
    """For every document the peers that hold it, ascending."""
    peers = np.repeat(np.arange(len(workload.holdings)), np.diff(workload.holdings.starts))
    order = np.argsort(workload.holdings.documents, kind="stable")
    counts = np.bincount(workload.holdings.documents, minlength=len(workload.documents))
    return np.split(peers[order], np.cumsum(counts)[:-1])


def _fewest(holders: list[NDArray[np.int64]], asker: int) -> int:
    """The smallest number of peers, `asker` not among them, that together hold all documents."""
    peers, numbers = np.unique(np.concatenate(holders), return_inverse=True)
    held = np.zeros(len(peers), dtype=np.int64)
    bits = np.repeat(1 << np.arange(len(holders)), [len(some) for some in holders])
    np.bitwise_or.at(held, numbers, bits)
    sets = np.unique(held[peers != asker]).tolist()
    wanted = (1 << len(holders)) - 1
    reached, count = {0}, 0
    while wanted not in reached:
        reached = {have | more for have in reached for more in sets}
        count += 1
    return count
