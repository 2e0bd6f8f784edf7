"""What a peer that floods a node costs the others that ask it.

    python -m benchmarks.flooding [--contacts 100] [--rounds 5]

Three nodes on loopback, each a process of its own: one answers, one asks it a question after the
other, and one sends it queries 64 at once, again and again, whatever it says. Rounds with
and without the flood alternate. Measured with the limits of the configuration and without any.
Prints a sentence, and a JSON object on the last line.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import trio

from benchmarks.forking import ForkedProcess, fork_node
from zerorag_p2p.client import Client
from zerorag_p2p.control.setup import config_text
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.model import PeerId, Purpose, Vector, View
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.testnet.processes import LocalConsortium, Member
from zerorag_p2p.wire.embedding import transmitted
from zerorag_p2p.wire.protocols import QUERY
from zerorag_p2p.wire.query import QueryRequest, encode_query

BURST = 64  # as many as a node reads before it has answered
DIMENSION = 256
DOCUMENTS = 200
UNLIMITED = {
    f"limits.{name}": 0
    for name in (
        *("requests_per_minute", "gossip_per_minute", "bytes_per_minute"),
        *("repeated_queries", "unreturned_fetches"),
    )
}


def questions(seed: int, count: int) -> list[Vector]:
    """Random unit vectors, as they are transmitted."""
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return [transmitted(row / np.linalg.norm(row)) for row in rows]


def payload(fingerprint: str, embedding: Vector) -> bytes:
    """A query as a node sends it."""
    return encode_query(
        QueryRequest(
            embedding=embedding,
            fingerprint=fingerprint,
            k=5,
            budget_left=10,
            deadline_ms=10_000,
            purpose=Purpose.TREAT,
            user="benchmark",
            audit="0123456789abcdef",
            view=View.WHOLE,
        )
    )


async def flood(home: Home, target: PeerId, switch: Path) -> None:
    """Send queries to `target` while the file `switch` exists, until this process is killed."""
    async with Node(home) as node:
        await node.core.sessions.ensure(target, timeout_s=30.0)
        payloads = [payload(node.core.peer.fingerprint, item) for item in questions(1, 512)]
        numbers = itertools.count()

        async def one() -> None:
            chosen = payloads[next(numbers) % len(payloads)]
            await node.core.network.request(target, QUERY, chosen, timeout_s=30.0)

        while True:
            while not os.path.exists(switch):  # noqa: ASYNC110, ASYNC240 - made by another process
                await trio.sleep(0.01)
            async with trio.open_nursery() as nursery:
                for _ in range(BURST):
                    nursery.start_soon(one)


def fork_flooder(home: Home, target: PeerId, switch: Path) -> ForkedProcess:
    """Run `flood` in a child of this process."""
    pid = os.fork()
    if pid:
        return ForkedProcess(pid)
    try:
        trio.run(flood, home, target, switch)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


async def ask(home: Home, owner: Member, switch: Path, rounds: int, contacts: int) -> list[float]:
    """Milliseconds of a contact without and with a flood, medians and then 95th percentiles.

    Last of all, how many replies a second the flood gets.
    """
    times: dict[bool, list[float]] = {False: [], True: []}
    flooded_s = 0.0
    answered = 0
    async with Node(home) as node:
        await node.core.sessions.ensure(owner.peer_id, timeout_s=30.0)
        payloads = [payload(node.core.peer.fingerprint, item) for item in questions(2, 600)]
        numbers = itertools.count()
        with Client(owner.home) as client:
            for number in range(2 * rounds):
                flooded = bool(number % 2)
                turn(switch, on=flooded)
                await trio.sleep(0.5)
                before, began_round = client.status()["requests"], time.perf_counter()
                for _ in range(contacts):
                    chosen = payloads[next(numbers) % len(payloads)]
                    began = time.perf_counter()
                    reply = await node.core.network.request(
                        owner.peer_id, QUERY, chosen, timeout_s=30.0
                    )
                    times[flooded].append((time.perf_counter() - began) * 1_000)
                    assert b"refusal" not in reply[:64], reply
                    await trio.sleep(0.002)
                if flooded:
                    after = client.status()["requests"]
                    flooded_s += time.perf_counter() - began_round
                    answered += sum(after.values()) - sum(before.values()) - contacts
            turn(switch, on=False)
    return [
        statistics.median(times[False]),
        statistics.median(times[True]),
        statistics.quantiles(times[False], n=20)[-1],
        statistics.quantiles(times[True], n=20)[-1],
        answered / flooded_s,
    ]


def turn(switch: Path, *, on: bool) -> None:
    """Let the flood begin, or end."""
    if on:
        switch.touch()
    else:
        switch.unlink(missing_ok=True)


def measure(limited: bool, rounds: int, contacts: int) -> dict[str, float]:
    """One consortium of three, measured."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        homes = LocalConsortium(folder)
        for name in ("owner", "asker", "flooder"):
            homes.add(name, name.title(), {"embedding.embedder": "hashing"})
        homes.enrol("flooding")
        owner = homes["owner"]
        # The asker may ask as fast as it can: it stands for many that ask.
        chosen = {"limits.requests_per_minute": 1_200} if limited else UNLIMITED
        settings = {
            "organisation": "Owner",
            "network.listen": [owner.address],
            "embedding.embedder": "hashing",
            **chosen,
        }
        write_atomic(owner.home.config, config_text(settings).encode())
        switch = folder / "flood"
        processes = [fork_node(owner.home, owner.log)]
        try:
            await_ready(owner)
            fill(owner)
            processes.append(fork_flooder(homes["flooder"].home, owner.peer_id, switch))
            quiet, flooded, quiet_95, flooded_95, answered = trio.run(
                ask, homes["asker"].home, owner, switch, rounds, contacts
            )
        finally:
            for process in processes:
                process.send_signal(9)
                process.wait()
    return {
        "quiet_ms": round(quiet, 3),
        "flooded_ms": round(flooded, 3),
        "ratio": round(flooded / quiet, 2),
        "quiet_p95_ms": round(quiet_95, 3),
        "flooded_p95_ms": round(flooded_95, 3),
        "flood_replies_per_s": round(answered),
    }


def await_ready(owner: Member) -> None:
    """Wait until the node answers."""
    deadline = time.monotonic() + 60
    with Client(owner.home) as client:
        while True:
            try:
                client.status()
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return


def fill(owner: Member) -> None:
    """Give the node documents to search."""
    texts = owner.home.root / "texts"
    texts.mkdir()
    for number in range(DOCUMENTS):
        (texts / f"{number}.txt").write_text(f"Note {number}: dose {number * 7} of drug {number}.")
    with Client(owner.home) as client:
        client.add_documents([texts], "notes")
        client.share("notes")


def main() -> None:
    """Measure, and print a sentence and a JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--contacts", type=int, default=100, help="contacts a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    arguments = parser.parse_args()
    figures: dict[str, object] = {"benchmark": "flooding"}
    for name, limited in (("limited", True), ("unlimited", False)):
        result = measure(limited, arguments.rounds, arguments.contacts)
        figures[name] = result
        print(
            f"A contact takes {result['quiet_ms']:.2f} ms, and {result['flooded_ms']:.2f} ms "
            f"({result['ratio']:.1f} times) while another peer floods, {name}: the flood gets "
            f"{result['flood_replies_per_s']:.0f} replies a second."
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
