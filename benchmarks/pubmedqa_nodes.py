"""Recall of node processes on PubMedQA, beside exact and approximate central search.

    python -m benchmarks.pubmedqa_nodes FOLDER [--nodes 50] [--questions 500]

FOLDER holds PubMedQA's `ori_pqal.json`, the rephrasings and the embeddings. Every abstract has one
owner; nodes run with the default settings, over libp2p on loopback. Once they have learnt what all
others advertise, questions are asked of them one after the other. Prints JSON: recall@5 against an
exhaustive search of everybody's documents but the asker's, for the nodes and for one HNSW graph of
all documents, how often the abstract asked for is among the five, contacts and time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.forking import fork_node
from benchmarks.pubmedqa import PubMedConsortium, Question
from zerorag_p2p.library.vectors import build_graph, search_graph
from zerorag_p2p.model import ContentHash
from zerorag_p2p.testnet.processes import LocalConsortium
from zerorag_p2p.workloads.pubmedqa import PubMedQA

K = 5

#: Seconds that the nodes have to learn what all others advertise.
_LEARNING_S = 300.0


class CentralGraph:
    """One HNSW graph of all documents, that leaves out the asker's."""

    def __init__(self, consortium: PubMedConsortium) -> None:
        self._consortium = consortium
        self._owner = np.array(consortium.owner)
        numbers = np.arange(len(self._owner))
        self._graph = build_graph(numbers, consortium.transmitted)

    def best(self, asker: str, question: Question) -> list[ContentHash]:
        """The `K` best documents of everybody but the asker, best first."""
        own = self._owner == self._consortium.names.index(asker)
        wanted = K + int(own.sum())
        (found,) = search_graph(self._graph, question.embedding[np.newaxis], wanted)
        remote = [int(number) for number in found if not own[number]]
        return [self._consortium.data.hash_of(number) for number in remote[:K]]


def measure(consortium: PubMedConsortium, *, questions: int, seed: int) -> dict[str, Any]:
    """Ask the questions; rates are shares of 1, `contacts` and times means and medians."""
    graph = CentralGraph(consortium)
    recall: dict[str, list[float]] = {"nodes": [], "hnsw": []}
    hits = {"nodes": 0, "hnsw": 0, "exact": 0}
    contacts, milliseconds, unverified = [], [], 0
    for asker, question in consortium.draw(questions, seed):
        with consortium.nodes.client(asker) as client:
            answer = client.query(question.text, k=K)
        unverified += sum(item["status"] != "verified" for item in answer["documents"])
        exact = consortium.exact(asker, question, K)
        found = {
            "exact": exact,
            "nodes": [item["content_hash"] for item in answer["documents"]],
            "hnsw": graph.best(asker, question),
        }
        for system, shares in recall.items():
            shares.append(len({*found[system]} & {*exact}) / K)
        for system, hashes in found.items():
            hits[system] += consortium.data.hash_of(question.abstract) in hashes
        contacts.append(len(answer["contacts"]))
        milliseconds.append(answer["milliseconds"])
    return {
        "recall_at_5": {system: statistics.fmean(shares) for system, shares in recall.items()},
        "abstract_among_5": {system: count / questions for system, count in hits.items()},
        "contacts": statistics.fmean(contacts),
        "median_milliseconds": statistics.median(milliseconds),
        "slowest_in_twenty_milliseconds": float(np.percentile(milliseconds, 95)),
        "unverified": unverified,
        "questions": questions,
    }


def main() -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    data = PubMedQA.load(options.folder)
    with (
        tempfile.TemporaryDirectory(prefix="zerorag-") as name,
        LocalConsortium(Path(name), launch=fork_node) as nodes,
    ):
        consortium = PubMedConsortium.set_up(
            data, nodes, Path(name), count=options.nodes, seed=options.seed
        )
        learning_s = consortium.await_learning(_LEARNING_S)
        metrics = measure(consortium, questions=options.questions, seed=options.seed)
    result = {
        "name": "pubmedqa-nodes",
        "peers": options.nodes,
        "seed": options.seed,
        "metrics": {**metrics, "seconds_to_learn": round(learning_s)},
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
