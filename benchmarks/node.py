"""How long a node takes to start, what it occupies, and how fast it takes in documents.

python -m benchmarks.node
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.errors import EmbedderUnavailable
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.records import Record
from zerorag_p2p.testnet.processes import LocalConsortium


def start() -> dict[str, float]:
    """Start `zerorag node run` and wait until it answers."""
    with (
        tempfile.TemporaryDirectory(prefix="zerorag-") as name,
        LocalConsortium(Path(name)) as nodes,
    ):
        nodes.add("node", "Hospital", {"embedding.embedder": "hashing"})
        nodes.enrol("benchmark")
        began = time.perf_counter()
        nodes.start()
        seconds = time.perf_counter() - began
        with nodes.client("node") as client:
            status = client.status()
    return {"start_s": seconds, "rss_mb": status["process"]["rss_bytes"] / 2**20}


def ingest(embedder_name: str, count: int) -> float:
    """Documents a second that a library stores, embedding included."""
    embedder = open_embedder(EmbeddingConfig(embedder=embedder_name))
    words = [
        "renal",
        "cardiac",
        "dose",
        "potassium",
        "stroke",
        "insulin",
        "fever",
        "antibiotic",
        "scan",
        "ward",
    ]
    draw = np.random.default_rng(0)
    records = [
        Record(
            name=str(number),
            title=f"Note {number}",
            text=" ".join(draw.choice(words, 60)) + f" {number}.",
        )
        for number in range(count)
    ]
    embedder.embed_query("load the model first")
    with (
        tempfile.TemporaryDirectory() as name,
        Library(Path(name), embedder, lambda *_: b"unsigned") as library,
    ):
        began = time.perf_counter()
        library.add_records(records, "notes")
        return count / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    started = start()
    print(
        f"A node is ready {started['start_s']:.1f} s after its start, with "
        f"{started['rss_mb']:.0f} MB in memory."
    )
    print(json.dumps({"benchmark": "node-start", **started}))
    for embedder, count in (("hashing", 2_000), ("sentence-transformers", 200)):
        try:
            rate = ingest(embedder, count)
        except EmbedderUnavailable as error:
            print(f"{embedder}: {error}")
            continue
        print(f"{embedder}: {rate:.0f} documents of 60 words a second.")
        print(json.dumps({"benchmark": f"ingest-{embedder}", "documents_per_s": rate}))


if __name__ == "__main__":
    main()
