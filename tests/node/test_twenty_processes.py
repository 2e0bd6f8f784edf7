"""Twenty node processes over real libp2p on loopback."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.forking import fork_node
from benchmarks.pubmedqa import PubMedConsortium, PubMedQA
from benchmarks.twenty_nodes import PUBLISHED, measure
from zerorag_p2p.testnet.demo import corpus_folder
from zerorag_p2p.testnet.processes import LocalConsortium

pytestmark = [pytest.mark.slow, pytest.mark.processes]

NODES = 20
TIMEOUT_S = 60.0
PUBMEDQA = Path(__file__).parents[3] / "shared" / "data" / "pubmedqa"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Memory in place of a disk, where there is any: twenty audit logs would wait for one disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.mark.skipif(not PUBMEDQA.is_dir(), reason=f"needs PubMedQA in {PUBMEDQA}")
def test_full_budget_equals_exhaustive_search_and_five_contacts_beat_chance(folder: Path) -> None:
    with LocalConsortium(folder, launch=fork_node) as nodes:
        consortium = PubMedConsortium.set_up(
            PubMedQA.load(PUBMEDQA), nodes, folder, count=NODES, seed=1, settings=PUBLISHED
        )
        metrics = measure(consortium, exact=30, warm_up=300, measured=50, seed=1)
    assert metrics["exact_top5_at_full_budget"] == 1.0
    # Fifty questions in random order stray too far from what they hit on average.
    assert metrics["hit_rate_at_5"] > 2 * 5 / (NODES - 1)
    assert metrics["hit_rate_at_5"] > metrics["hit_rate_at_5_random_order"]


@pytest.fixture
def consortium(folder: Path) -> Iterator[LocalConsortium]:
    """Twenty nodes that share the built-in corpus, a document each in turn."""
    settings = {
        "routing.routing": "paper",  # a walk that asks everybody
        "embedding.embedder": "hashing",
        "network.maintenance_interval_s": 0.5,
        "network.dial_timeout_s": 8.0,  # twenty processes share the machine
        "network.request_timeout_s": 8.0,
        "network.stream_idle_s": 1.0,
        # Gossip opens streams now and then; it should not do so while tasks are counted.
        "membership.exchange_interval_s": 60.0,
        "membership.ping_interval_s": 60.0,
    }
    with LocalConsortium(folder, launch=fork_node) as nodes:
        for number in range(NODES):
            nodes.add(f"n{number:02}", f"Hospital {number}", settings)
        nodes.enrol("twenty")
        nodes.start()
        documents = sorted(str(path) for path in Path(str(corpus_folder())).glob("*/*.md"))
        for number, name in enumerate(nodes.members):
            with nodes.client(name) as client:
                client.add_documents(documents[number::NODES], "guidelines")
                client.share("guidelines")
        yield nodes


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def ask(nodes: LocalConsortium, name: str, text: str) -> dict[str, Any]:
    with nodes.client(name) as client:
        began = time.monotonic()
        answer = client.query(text, budget=NODES - 1, fanout=4, timeout_s=30.0)
        answer["seconds"] = time.monotonic() - began
        return answer


def meet(nodes: LocalConsortium, names: list[str]) -> None:
    """Let every node ask all others, again if the machine was too slow for somebody's deadline."""
    for _ in range(5):
        with ThreadPoolExecutor(len(names)) as threads:
            answers = list(threads.map(lambda name: ask(nodes, name, "dialysis"), names))
        outcomes = {item["outcome"] for answer in answers for item in answer["contacts"]}
        if outcomes == {"answered"}:
            return
    pytest.fail(f"not everybody could be reached: {outcomes}")


Counts = dict[str, tuple[int, int, int]]


class Counter:
    """Reads tasks, connections and descriptors of nodes, each through one lasting client."""

    def __init__(self, nodes: LocalConsortium, names: list[str], stack: ExitStack) -> None:
        self._clients = {name: stack.enter_context(nodes.client(name)) for name in names}

    def _read(self, name: str) -> tuple[int, int, int]:
        status = self._clients[name].status()
        process = status["process"]
        return process["tasks"], status["connections"], process["descriptors"]

    def least(self, connections: int) -> Counts:
        """What nodes come down to with so many connections.

        Work under way and the answer to the question itself take tasks for a while: the least
        counts, once there has been nothing less for three seconds.
        """
        with ThreadPoolExecutor(len(self._clients)) as threads:
            counts = threads.map(lambda name: self._least(name, connections), self._clients)
            return dict(zip(self._clients, counts, strict=True))

    def _least(self, name: str, connections: int) -> tuple[int, int, int]:
        deadline = time.monotonic() + TIMEOUT_S
        least, since = (10**9, connections, 10**9), time.monotonic()
        while time.monotonic() - since < 3.0 or least[0] == 10**9:
            tasks, connected, descriptors = self._read(name)
            if connected == connections and (tasks < least[0] or descriptors < least[2]):
                least = (min(tasks, least[0]), connected, min(descriptors, least[2]))
                since = time.monotonic()
            assert time.monotonic() < deadline, f"{name} has {connected} connections"
            time.sleep(0.1)
        return least


def test_kill_9_of_five_nodes_leaves_nothing_behind(
    consortium: LocalConsortium, stack: ExitStack
) -> None:
    names = list(consortium.members)
    doomed, survivors = names[:5], names[5:]
    meet(consortium, names)

    count = Counter(consortium, survivors, stack)
    before = count.least(NODES - 1)

    questions = [f"apixaban and surgery {number}" for number in range(4)]
    with ThreadPoolExecutor(len(survivors)) as threads:
        running = [
            threads.submit(ask, consortium, name, text)
            for name, text in itertools.product(survivors, questions)
        ]
        next(iter(running)).result()
        consortium.signal(signal.SIGKILL, *doomed)
        answers = [future.result() for future in running]
    consortium.kill(*doomed)
    dead = {consortium[name].peer_id for name in doomed}
    for answer in answers:
        assert answer["seconds"] < 31.0
        assert answer["documents"]
        silent = {item["peer"] for item in answer["contacts"] if item["outcome"] != "answered"}
        assert silent <= dead
    assert any(
        {item["peer"] for item in answer["contacts"] if item["outcome"] != "answered"} == dead
        for answer in answers
    )

    without = count.least(NODES - 6)
    for name in survivors:
        tasks, _, descriptors = (
            now - then for now, then in zip(before[name], without[name], strict=True)
        )
        assert tasks > 0
        assert tasks % 5 == 0  # as many for each of the five
        assert descriptors == 5  # a socket each

    consortium.start(*doomed)
    meet(consortium, names)
    assert count.least(NODES - 1) == before


def test_a_frozen_node_costs_a_query_its_deadline_at_most(consortium: LocalConsortium) -> None:
    names = list(consortium.members)
    ask(consortium, names[1], "insulin in ketoacidosis")
    consortium.signal(signal.SIGSTOP, names[0])
    try:
        first = ask(consortium, names[1], "insulin in ketoacidosis")
        assert first["seconds"] < 31.0
        assert first["documents"]
        outcomes = {item["peer"]: item["outcome"] for item in first["contacts"]}
        assert outcomes.pop(consortium[names[0]].peer_id) in {"timed out", "unreachable"}
        assert set(outcomes.values()) == {"answered"}
    finally:
        consortium.signal(signal.SIGCONT, names[0])
    deadline = time.monotonic() + 20
    while True:
        again = ask(consortium, names[1], "insulin in ketoacidosis")
        if {item["outcome"] for item in again["contacts"]} == {"answered"}:
            break
        assert time.monotonic() < deadline
