"""Twenty node processes answer PubMedQA's questions over libp2p on loopback.

    python -m benchmarks.twenty_nodes FOLDER

FOLDER holds PubMedQA's `ori_pqal.json`, the rephrasings and the embeddings. Prints JSON of two
consortia. In one that routes as published: how often the full budget finds exactly what an
exhaustive search finds, and how often five contacts reach the owner of the answer after the nodes
have learnt, beside members asked in random order. In one with complete routing and every document
advertised: how much of what the full budget finds a walk finds that stops by itself, how many
contacts it takes, and how long beside the full budget with as many requests at once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.forking import fork_node
from benchmarks.pubmedqa import PubMedConsortium, PubMedQA
from zerorag_p2p.testnet.processes import LocalConsortium

NODES = 20

#: A node owns fifty abstracts or so: more may be advertised than by default, so that all are.
PUBLISHED: dict[str, object] = {"routing.routing": "paper"}
COMPLETE: dict[str, object] = {
    "routing.routing": "complete",
    "routing.advertisement_limit": 200,
    "membership.exchange_interval_s": 1.0,
}

#: Seconds that the nodes have to learn what all others advertise.
_LEARNING_S = 120.0


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


def measure_complete(
    consortium: PubMedConsortium, *, measured: int, fanout: int, seed: int
) -> dict[str, Any]:
    """Ask every question twice, once as long as the budget lasts; rates are shares of 1."""
    clients = {name: consortium.nodes.client(name) for name in consortium.names}
    shares, contacts, quick_ms, full_ms = [], [], [], []
    try:
        consortium.await_learning(_LEARNING_S)
        for asker, question in consortium.draw(measured, seed):
            quick = clients[asker].query(question.text, budget=NODES - 1, fanout=fanout)
            full = clients[asker].query(
                question.text, budget=NODES - 1, fanout=fanout, stopping="budget"
            )
            wanted = {document["content_hash"] for document in full["documents"]}
            found = {document["content_hash"] for document in quick["documents"]}
            shares.append(len(wanted & found) / len(wanted))
            contacts.append(len(quick["contacts"]))
            quick_ms.append(quick["milliseconds"])
            full_ms.append(full["milliseconds"])
    finally:
        for client in clients.values():
            client.close()
    return {
        "recall_at_5_of_full_budget": statistics.fmean(shares),
        "contacts": statistics.fmean(contacts),
        "median_time_of_full_budget": statistics.median(quick_ms) / statistics.median(full_ms),
        "median_milliseconds": statistics.median(quick_ms),
        "fanout": fanout,
        "questions": measured,
    }


def main() -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    data = PubMedQA.load(options.folder)
    metrics = {}
    with _consortium(data, PUBLISHED, options.seed) as consortium:
        metrics["published"] = measure(
            consortium, exact=200, warm_up=1_000, measured=500, seed=options.seed
        )
    with _consortium(data, COMPLETE, options.seed) as consortium:
        metrics["complete"] = measure_complete(
            consortium, measured=500, fanout=4, seed=options.seed
        )
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


@contextmanager
def _consortium(
    data: PubMedQA, settings: dict[str, object], seed: int
) -> Iterator[PubMedConsortium]:
    with (
        tempfile.TemporaryDirectory(prefix="zerorag-") as name,
        LocalConsortium(Path(name), launch=fork_node) as nodes,
    ):
        yield PubMedConsortium.set_up(
            data, nodes, Path(name), count=NODES, seed=seed, settings=settings
        )


if __name__ == "__main__":
    sys.exit(main())
