"""Where the workload of a scenario comes from."""

from __future__ import annotations

from pathlib import Path

from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.amazon import AmazonElectronics, amazon_workload
from zerorag_p2p.workloads.aol import AolIa, aol_workload
from zerorag_p2p.workloads.consortium import consortium_workload
from zerorag_p2p.workloads.folder import read_workload
from zerorag_p2p.workloads.pubmedqa import PubMedQA, pubmedqa_workload
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.synthetic import synthetic_workload
from zerorag_p2p.workloads.vectors_file import read_vectors_by_id
from zerorag_p2p.workloads.workload import Workload


def load_workload(scenario: Scenario, folder: Path | None) -> Workload:
    """The workload that a scenario names, for its number of peers and from its seed.

    Args:
        scenario: The scenario. Its `draws` are the questions of a peer of "synthetic", "pubmedqa"
            and "consortium"; peers of the others ask what they asked.
        folder: Where the data is (docs/workloads.md): PubMedQA for "pubmedqa", and for "consortium"
            if not synthetic documents are to be owned; the user's own for "folder"; AOL-IA for
            "aol-ia"; Amazon Electronics for "amazon".

    Raises:
        UsageError: The folder is missing, does not hold what it should, or has another number of
            peers.
    """
    match scenario.workload:
        case "synthetic":
            return _synthetic(scenario)
        case "consortium":
            return consortium_workload(
                _synthetic(scenario) if folder is None else _pubmedqa(scenario, folder),
                peers=scenario.peers,
                seed=scenario.seed,
                questions=scenario.draws,
            )
    if folder is None:
        data = {"pubmedqa": "PubMedQA", "aol-ia": "AOL-IA", "amazon": "Amazon Electronics"}
        what = data.get(scenario.workload, "files of yours")
        raise UsageError(
            f"the workload {scenario.workload!r} needs {what}: say in which folder that is, or "
            "choose the synthetic workload"
        )
    match scenario.workload:
        case "aol-ia":
            users = AolIa.load(folder, users=scenario.peers)
            vectors = read_vectors_by_id(folder, documents=users.page_ids, queries=users.query_ids)
            return aol_workload(users, vectors, seed=scenario.seed)
        case "amazon":
            shoppers = AmazonElectronics.load(folder, reviewers=scenario.peers)
            vectors = read_vectors_by_id(
                folder, documents=shoppers.asins, queries=shoppers.query_ids
            )
            return amazon_workload(shoppers, vectors, seed=scenario.seed)
        case "folder":
            workload = read_workload(folder, seed=scenario.seed)
            if len(workload.holdings) != scenario.peers:
                raise UsageError(
                    f"{folder} has {len(workload.holdings)} peers, the scenario {scenario.name!r} "
                    f"{scenario.peers}: give it as many peers as the folder has"
                )
            return workload
    return _pubmedqa(scenario, folder)


def _synthetic(scenario: Scenario) -> Workload:
    return synthetic_workload(peers=scenario.peers, seed=scenario.seed, draws=scenario.draws)


def _pubmedqa(scenario: Scenario, folder: Path) -> Workload:
    return pubmedqa_workload(
        PubMedQA.load(folder), peers=scenario.peers, seed=scenario.seed, draws=scenario.draws
    )
