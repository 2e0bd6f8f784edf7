"""What the audit log costs a contact: two nodes in one run, one that records and one that does not.

    python -m benchmarks.audit [--contacts 200] [--rounds 5]

The nodes are processes of their own on loopback, over libp2p, with fifty documents each; both run
the same code, but the log of one takes no entries. Contacts alternate in rounds, one at a time and
sixteen at once, so that a busy machine slows both. Beside them: a bare write and sync of the size
of an entry, and how fast a log is verified. Prints a sentence and a JSON object each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from benchmarks.full_state import DIMENSION, DOCUMENTS, FINGERPRINT, random_vectors, texts
from benchmarks.query import report, request
from zerorag_p2p.audit.events import DocumentNote, FetchAnswered, Given
from zerorag_p2p.audit.ledger import Ledger
from zerorag_p2p.embedding.precomputed import write_precomputed
from zerorag_p2p.home import Home
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash, PeerId, Purpose, View
from zerorag_p2p.node.auditing import NoAudit, NodeAudit
from zerorag_p2p.node.contacts import Failure
from zerorag_p2p.node.outgoing import Traffic
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.testnet.processes import LocalConsortium, Process

CLIENT, RECORDING, SILENT = "client", "recording", "silent"
AT_ONCE = 16
SYNCS = 200
VERIFIED = 20_000


def serve(home: str) -> None:
    """Run a node as `zerorag node run` does; that of `SILENT` records nothing."""
    from zerorag_p2p.control.run import run_node

    if Path(home).name == SILENT:
        # What a core without a log does, in the place of what this one would.
        NodeAudit.active = False
        NodeAudit.record = NoAudit.record  # type: ignore[assignment, method-assign]
        NodeAudit.commit = NoAudit.commit  # type: ignore[assignment, method-assign]
    run_node(Home(Path(home)), lambda _: None, verbose=False)


def launch(home: Home, log: Path) -> Process:
    """Start a node of this measurement."""
    command = [sys.executable, "-m", "benchmarks.audit", "--serve", str(home.root)]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def enrol(folder: Path) -> LocalConsortium:
    """The three homes of one consortium."""
    known = [*texts("document", DOCUMENTS), *texts("question", 100)]
    vectors = folder / "vectors.npz"
    write_precomputed(vectors, known, random_vectors(0, len(known)), FINGERPRINT)
    nodes = LocalConsortium(folder, launch=launch)
    settings: dict[str, object] = {
        "embedding.embedder": "precomputed",
        "embedding.vectors": str(vectors),
        "limits.requests_per_minute": 0,
        "limits.bytes_per_minute": 0,
        "limits.repeated_queries": 0,
    }
    for name in (CLIENT, RECORDING, SILENT):
        nodes.add(name, name.title(), settings)
    nodes.enrol("benchmark")
    return nodes


def contacts(nodes: LocalConsortium, count: int, rounds: int) -> None:
    """A contact with either node, one at a time and several at once."""
    servers = (RECORDING, SILENT)
    nodes.start(*servers)
    for name in servers:
        folder = nodes[name].home.root / "documents"
        folder.mkdir()
        for number, text in enumerate(texts("document", 50)):
            (folder / f"{number}.txt").write_text(text)
        with nodes.client(name) as api:
            api.add_documents([folder], "documents")
            api.share("documents")

    async def measure() -> dict[tuple[str, int], list[float]]:
        found: dict[tuple[str, int], list[float]] = {}
        async with Node(nodes[CLIENT].home) as node:
            for name in servers:
                await node.core.sessions.ensure(nodes[name].peer_id, timeout_s=10.0)
                await several(node, nodes[name].peer_id, 50, 1)
            for _ in range(rounds):
                for width in (1, AT_ONCE):
                    for name in servers:
                        times = await several(node, nodes[name].peer_id, count, width)
                        found.setdefault((name, width), []).append(times)
        return found

    measured = {key: statistics.median(times) for key, times in trio.run(measure).items()}
    nodes.stop(*servers)
    for width, how in ((1, "one at a time"), (AT_ONCE, f"{AT_ONCE} at once")):
        with_ms, without_ms = measured[RECORDING, width], measured[SILENT, width]
        report(
            f"audit-contact-{width}",
            f"Contacts, {how}, take {with_ms:.2f} ms each with a peer that records them and "
            f"{without_ms:.2f} ms with one that does not: {with_ms / without_ms:.2f} times.",
            with_ms=with_ms,
            without_ms=without_ms,
            ratio=with_ms / without_ms,
        )


async def several(node: Node, peer: PeerId, count: int, width: int) -> float:
    """Milliseconds a contact, of `count` contacts with `width` in flight."""
    embeddings = iter(random_vectors(7, count))

    async def ask() -> None:
        for embedding in embeddings:
            reply = await node.core.exchanges.query(
                peer,
                lambda deadline_ms, embedding=embedding: request(embedding, deadline_ms),
                dimension=DIMENSION,
                timeout_s=10.0,
                traffic=Traffic(),
            )
            assert not isinstance(reply, Failure), reply

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(width):
            nursery.start_soon(ask)
    return (time.perf_counter() - began) * 1_000 / count


def entry(number: int) -> FetchAnswered:
    """An entry as a fetch makes it."""
    notes = tuple(
        DocumentNote(
            content_hash=ContentHash(f"{number + part:064x}"),
            collection="documents",
            given=Given.WHOLE,
            rule="sharing of documents",
        )
        for part in range(5)
    )
    return FetchAnswered(
        reference=f"{number:016x}",
        peer=Identity.from_seed(bytes(32)).peer_id,
        organisation="Client",
        user="benchmark",
        purpose=Purpose.TREAT,
        view=View.WHOLE,
        outcome="delivered 5 of 5",
        documents=notes,
        received=300,
        sent=20_000,
    )


def disk(folder: Path) -> None:
    """A bare write and sync beside an entry, and the verification of a log."""

    def median_ms(work: Callable[[int], Any]) -> float:
        times = []
        for number in range(SYNCS):
            began = time.perf_counter()
            work(number)
            times.append((time.perf_counter() - began) * 1_000)
        return statistics.median(times)

    ledger = Ledger(folder / "audit", Identity.from_seed(bytes(32)), time.time())

    def record(number: int) -> None:
        ledger.log.append(entry(number), time.time())
        ledger.log.write()

    descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def bare(number: int) -> None:
        os.write(descriptor, bytes(size))
        os.fdatasync(descriptor)

    record(0)
    size = next((folder / "audit").glob("*.log")).stat().st_size
    entry_ms, bare_ms = median_ms(record), median_ms(bare)
    os.close(descriptor)
    report(
        "audit-entry",
        f"A durable entry of {size} bytes takes {entry_ms:.2f} ms, a bare write and sync of this "
        f"size {bare_ms:.2f} ms: {entry_ms / bare_ms:.2f} times.",
        entry_ms=entry_ms,
        bare_ms=bare_ms,
        ratio=entry_ms / bare_ms,
        bytes=size,
    )
    for number in range(VERIFIED):
        ledger.log.append(entry(number), time.time())
    began = time.perf_counter()
    ledger.log.write()
    written_s = time.perf_counter() - began
    ledger.sign_head(time.time())
    began = time.perf_counter()
    assert not ledger.verify().faults
    verified_s = time.perf_counter() - began
    ledger.close(time.time())
    report(
        "audit-verify",
        f"{VERIFIED} entries in one group are durable after {written_s:.2f} s and verify in "
        f"{verified_s:.2f} s, {VERIFIED / verified_s:.0f} a second.",
        written_s=written_s,
        verified_s=verified_s,
        verified_per_s=VERIFIED / verified_s,
    )


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contacts", type=int, default=200, help="contacts a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    with tempfile.TemporaryDirectory(prefix="zerorag-") as name:
        disk(Path(name))
        with enrol(Path(name)) as nodes:
            contacts(nodes, arguments.contacts, arguments.rounds)


if __name__ == "__main__":
    main()
