"""What a query costs between real nodes, beside what nothing can undercut.

    python -m benchmarks.query

In one run, on loopback, every node a process of its own: a contact with a peer that knows nothing
and with one at full state, each beside a bare libp2p echo of the same sizes; `Peer.answer` at full
state beside one matrix-vector product of the same size; a query of 50 contacts with 1 and with 5 in
flight. Prints a sentence and a JSON object each.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import trio

from benchmarks.full_state import (
    ADVERTISED,
    DIMENSION,
    FINGERPRINT,
    NEIGHBORS,
    REMEMBERED,
    enrol,
    full_peer,
    random_vectors,
    texts,
    write_full_state,
)
from zerorag_p2p.model import PeerId, Purpose, View
from zerorag_p2p.node.contacts import Failure
from zerorag_p2p.node.outgoing import Traffic
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.peer import Requester
from zerorag_p2p.testnet.processes import LocalConsortium
from zerorag_p2p.wire.query import QueryRequest

CONTACTS = 400
QUERIES = 15


def report(name: str, sentence: str, **figures: float) -> None:
    """Print a result for people and for programs."""
    print(sentence)
    print(
        json.dumps({"benchmark": name, **{key: round(value, 4) for key, value in figures.items()}})
    )


def request(embedding: Any, deadline_ms: int) -> QueryRequest:
    """A query as the node would send it."""
    return QueryRequest(
        embedding=embedding,
        fingerprint=FINGERPRINT.digest(),
        k=5,
        budget_left=10,
        deadline_ms=deadline_ms,
        purpose=Purpose.TREAT,
        user="benchmark",
        audit="0123456789abcdef",
        view=View.WHOLE,
        remember_until=2_100_000_000,
    )


async def contact(node: Node, peer: PeerId) -> tuple[float, int, int]:
    """Median milliseconds of a contact, decoded and checked, and the bytes of one both ways."""
    times = []
    traffic = Traffic()
    for embedding in random_vectors(7, CONTACTS):
        traffic = Traffic()
        began = time.perf_counter()
        reply = await node.core.exchanges.query(
            peer,
            lambda deadline_ms, embedding=embedding: request(embedding, deadline_ms),
            dimension=DIMENSION,
            timeout_s=10.0,
            traffic=traffic,
        )
        times.append((time.perf_counter() - began) * 1_000)
        assert not isinstance(reply, Failure), reply
    return statistics.median(times), traffic.sent, traffic.received


def bare_echo(sent: int, received: int) -> float:
    """Median milliseconds of a bare libp2p echo of these sizes."""
    environment = os.environ | {
        "BENCHMARK_REQUEST_BYTES": str(sent),
        "BENCHMARK_REPLY_BYTES": str(received),
    }
    script = Path(__file__).with_name("contact.py")
    output = subprocess.run(
        [sys.executable, str(script)], env=environment, check=True, capture_output=True, text=True
    ).stdout
    return float(json.loads(output.splitlines()[-1])["echo_ms"])


def contacts(nodes: LocalConsortium) -> None:
    """A contact with a peer that knows nothing, and with one at full state."""
    client, empty, full = "n00", "n01", "n02"
    write_full_state(nodes, full)
    nodes.start(empty, full)
    folder = nodes[full].home.root / "documents"
    folder.mkdir()
    for number, text in enumerate(texts("document", 50)):
        (folder / f"{number}.txt").write_text(text)
    with nodes.client(full) as api:
        api.add_documents([folder], "documents")
        api.share("documents")

    async def measure() -> dict[str, tuple[float, int, int]]:
        async with Node(nodes[client].home) as node:
            found = {}
            for name in (empty, full):
                await node.core.sessions.ensure(nodes[name].peer_id, timeout_s=10.0)
                found[name] = await contact(node, nodes[name].peer_id)
            return found

    measured = trio.run(measure)
    nodes.stop(empty, full)
    answer_ms, product_ms = answer_cost(nodes)
    for state, name in (("empty", empty), ("full", full)):
        ours, sent, received = measured[name]
        echo = bare_echo(sent, received)
        allowed = 1.5 * echo + (answer_ms if state == "full" else 0.0)
        report(
            f"contact-{state}",
            f"A contact with a peer at {state} state ({sent} bytes, {received} back) takes "
            f"{ours:.2f} ms, a bare libp2p echo of these sizes {echo:.2f} ms "
            f"({ours / echo:.2f} times; the aim is {allowed:.2f} ms).",
            ours_ms=ours,
            echo_ms=echo,
            ratio=ours / echo,
            aim_ms=allowed,
        )
    report(
        "answer",
        f"Peer.answer at full state ({NEIGHBORS} neighbours x {ADVERTISED} advertisements, memory "
        f"{REMEMBERED}, dimension {DIMENSION}) takes {answer_ms:.3f} ms, one matrix-vector product "
        f"of that size {product_ms:.3f} ms ({answer_ms / product_ms:.2f} times).",
        answer_ms=answer_ms,
        product_ms=product_ms,
        ratio=answer_ms / product_ms,
    )


def answer_cost(nodes: LocalConsortium) -> tuple[float, float]:
    """Median milliseconds of `Peer.answer` at full state and of the bare product, alternating."""
    peer, _ = full_peer(nodes, "n02")
    requester = Requester(nodes["n00"].peer_id, "Hospital 0")
    matrix = random_vectors(3, NEIGHBORS * ADVERTISED + REMEMBERED)
    answers, products = [], []
    for embedding in random_vectors(4, 300):
        asked = request(embedding, 1_000)
        began = time.perf_counter()
        peer.answer(asked, requester, 2_000_000_001.0)
        middle = time.perf_counter()
        np.dot(matrix, embedding)
        answers.append((middle - began) * 1_000)
        products.append((time.perf_counter() - middle) * 1_000)
    return statistics.median(answers), statistics.median(products)


def fifty_contacts(nodes: LocalConsortium) -> None:
    """A query that contacts 50 nodes, sessions and streams being warm."""
    client, *others = list(nodes.members)[:51]
    nodes.start(*others)
    for number, name in enumerate(others):
        path = nodes[name].home.root / "document.txt"
        path.write_text(texts("document", 50)[number])
        with nodes.client(name) as api:
            api.add_documents([path], "documents")
            api.share("documents")

    async def measure() -> dict[int, list[float]]:
        found: dict[int, list[float]] = {1: [], 5: []}
        async with Node(nodes[client].home) as node:
            for text in texts("question", 3):
                await node.query(text, budget=50)
            for number, text in enumerate(texts("question", 2 * QUERIES)):
                fanout = (1, 5)[number % 2]
                answer = await node.query(text, budget=50, fanout=fanout)
                assert len(answer.contacts) == 50
                found[fanout].append(answer.milliseconds)
        return found

    for fanout, times in trio.run(measure).items():
        middle = statistics.median(times)
        report(
            f"query-50-contacts-f{fanout}",
            f"A query of 50 contacts, {fanout} in flight, 5 documents fetched and verified, takes "
            f"{middle:.0f} ms.",
            milliseconds=middle,
        )


def main() -> None:
    """Run all of it."""
    with tempfile.TemporaryDirectory(prefix="zerorag-") as name, enrol(Path(name), 53) as nodes:
        contacts(nodes)
        fifty_contacts(nodes)


if __name__ == "__main__":
    main()
