"""Twenty node processes answer PubMedQA's questions over libp2p on loopback.

    python -m benchmarks.twenty_nodes FOLDER

FOLDER holds PubMedQA's `ori_pqal.json`, the rephrasings and the embeddings. Prints JSON: how often
the full budget finds exactly what an exhaustive search finds, and how often five contacts reach the
owner of the answer after the nodes have learnt, beside members asked in random order.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.forking import fork_node
from benchmarks.pubmedqa import PubMedConsortium, PubMedQA
from zerorag_p2p.testnet.processes import LocalConsortium

NODES = 20


def measure(
    consortium: PubMedConsortium, *, exact: int, warm_up: int, measured: int, seed: int
) -> dict[str, Any]:
    """Run the questions and count; all rates are shares of 1."""
    clients = {name: consortium.nodes.client(name) for name in consortium.names}
    try:
        same = 0
        for asker, question in consortium.draw(exact, seed):
            answer = clients[asker].query(question.text, k=5, budget=NODES - 1)
            found = [document["content_hash"] for document in answer["documents"]]
            verified = all(document["status"] == "verified" for document in answer["documents"])
            same += verified and found == consortium.exact(asker, question, 5)
        for asker, question in consortium.draw(warm_up, seed + 1):
            clients[asker].query(question.text, k=5, budget=5)
        hits = {"paper": 0, "random": 0}
        milliseconds = {"paper": 0.0, "random": 0.0}
        for routing in hits:
            for asker, question in consortium.draw(measured, seed + 2):
                answer = clients[asker].query(
                    question.text, k=5, budget=5, routing=routing, remember=routing == "paper"
                )
                hits[routing] += consortium.reached_owner(question, answer)
                milliseconds[routing] += answer["milliseconds"]
    finally:
        for client in clients.values():
            client.close()
    return {
        "exact_top5_at_full_budget": same / exact,
        "hit_rate_at_5": hits["paper"] / measured,
        "hit_rate_at_5_random_order": hits["random"] / measured,
        "milliseconds_at_5": milliseconds["paper"] / measured,
        "questions": {"exact": exact, "warm_up": warm_up, "measured": measured},
    }


def main() -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    data = PubMedQA.load(options.folder)
    with (
        tempfile.TemporaryDirectory(prefix="zerorag-") as name,
        LocalConsortium(Path(name), launch=fork_node) as nodes,
    ):
        consortium = PubMedConsortium.set_up(
            data, nodes, Path(name), count=NODES, seed=options.seed
        )
        metrics = measure(consortium, exact=200, warm_up=1_000, measured=500, seed=options.seed)
    result = {
        "name": "twenty-nodes",
        "peers": NODES,
        "seed": options.seed,
        "metrics": metrics,
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "wall_s": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
