"""Twenty node processes over real libp2p on loopback."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.forking import fork_node
from benchmarks.pubmedqa import PubMedConsortium, PubMedQA
from benchmarks.twenty_nodes import measure
from zerorag_p2p.client import Client
from zerorag_p2p.testnet.demo import corpus_folder
from zerorag_p2p.testnet.processes import LocalConsortium

pytestmark = [pytest.mark.slow, pytest.mark.processes]

NODES = 20
PUBMEDQA = Path(__file__).parents[3] / "shared" / "data" / "pubmedqa"


@pytest.mark.skipif(not PUBMEDQA.is_dir(), reason=f"needs PubMedQA in {PUBMEDQA}")
def test_full_budget_equals_exhaustive_search_and_five_contacts_beat_chance(tmp_path: Path) -> None:
    with LocalConsortium(tmp_path, launch=fork_node) as nodes:
        consortium = PubMedConsortium.set_up(
            PubMedQA.load(PUBMEDQA), nodes, tmp_path, count=NODES, seed=1
        )
        metrics = measure(consortium, exact=200, warm_up=1_000, measured=200, seed=1)
    assert metrics["exact_top5_at_full_budget"] == 1.0
    assert metrics["hit_rate_at_5"] > 2 * metrics["hit_rate_at_5_random_order"]


@pytest.fixture
def consortium(tmp_path: Path) -> Iterator[LocalConsortium]:
    """Twenty nodes that share the built-in corpus, a document each in turn."""
    settings = {
        "embedding.embedder": "hashing",
        "network.maintenance_interval_s": 0.5,
        "network.dial_timeout_s": 2.0,
        "network.request_timeout_s": 3.0,
        "network.stream_idle_s": 1.0,
    }
    with LocalConsortium(tmp_path, launch=fork_node) as nodes:
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
        answer = client.query(text, budget=NODES - 1, fanout=4, timeout_s=10.0)
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

    def __call__(self) -> Counts:
        """The least of a few readings: answering one takes tasks itself, now more, now fewer."""
        return {name: self._least(client) for name, client in self._clients.items()}

    @staticmethod
    def _least(client: Client) -> tuple[int, int, int]:
        readings = []
        for _ in range(5):
            status = client.status()
            process = status["process"]
            readings.append((process["tasks"], status["connections"], process["descriptors"]))
        return min(readings)


def settled(read: Callable[[], Any], good: Callable[[Any], bool], timeout_s: float = 30.0) -> Any:
    """The first reading that is good and stays so for a second."""
    deadline = time.monotonic() + timeout_s
    last, since = None, time.monotonic()
    while True:
        reading = read()
        if reading != last or not good(reading):
            last, since = reading, time.monotonic()
        elif time.monotonic() - since > 1.0:
            return reading
        assert time.monotonic() < deadline, f"never settled: {reading}"
        time.sleep(0.1)


def test_kill_9_of_five_nodes_leaves_nothing_behind(
    consortium: LocalConsortium, stack: ExitStack
) -> None:
    names = list(consortium.members)
    doomed, survivors = names[:5], names[5:]
    meet(consortium, names)

    def full(reading: Counts) -> bool:
        return all(connections == NODES - 1 for _, connections, _ in reading.values())

    count = Counter(consortium, survivors, stack)
    before = settled(count, full)

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
        assert answer["seconds"] < 11.0
        assert answer["documents"]
        silent = {item["peer"] for item in answer["contacts"] if item["outcome"] != "answered"}
        assert silent <= dead
    assert any(
        {item["peer"] for item in answer["contacts"] if item["outcome"] != "answered"} == dead
        for answer in answers
    )

    def only_survivors(reading: Counts) -> bool:
        return all(
            connections == NODES - 6
            and before[name][0] - tasks > 0
            and (before[name][0] - tasks) % 5 == 0
            and before[name][2] - descriptors == 5
            for name, (tasks, connections, descriptors) in reading.items()
        )

    settled(count, only_survivors)

    consortium.start(*doomed)
    meet(consortium, names)
    settled(count, lambda reading: reading == before)


def test_a_frozen_node_costs_a_query_its_deadline_at_most(consortium: LocalConsortium) -> None:
    names = list(consortium.members)
    ask(consortium, names[1], "insulin in ketoacidosis")
    consortium.signal(signal.SIGSTOP, names[0])
    try:
        first = ask(consortium, names[1], "insulin in ketoacidosis")
        assert first["seconds"] < 11.0
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
