"""The vectorised simulator: what a contact costs, and how time and memory grow with the network.

    python -m benchmarks.vectorised [contact] [growth] [--pubmedqa FOLDER]

`contact` fills every peer to its limits (1,000 remembered queries, 50 neighbours), asks questions
to the end of their budget, and divides the time of a contact by that of a bare compiled loop that
reads as many entries of the same similarity tables, at random. `growth` runs networks of 1,000 to
100,000 peers, each in a process of its own, 30 questions a peer, until the target is found.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numba import njit

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.simulation import arrays, peer_state
from zerorag_p2p.simulation.vectorised import VectorisedSimulation
from zerorag_p2p.workloads.plan import make_plan
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.source import load_workload

SIZES = (1_000, 10_000, 50_000, 100_000)
FULL_PEERS = 2_000
QUESTIONS = 4_000


@njit
def _fill(peers: arrays.Peers, queries: int, seed: int) -> None:
    np.random.seed(seed)
    count = len(peers.state)
    for peer in range(count):
        for _ in range(peers.memory_query.shape[1]):
            peer_state.remember(peers, peer, np.random.randint(count), np.random.randint(queries))


@njit
def _read_at_random(
    tables: arrays.Similarities, entries: int, questions: int, seed: int
) -> np.float32:
    """Read `entries` entries of the row of each question, wherever a generator says."""
    queries, documents = tables.remembered.shape[0], tables.advertised.shape[1]
    state = np.uint32(seed)
    total = np.float32(0)
    for question in range(questions):
        remembered = tables.remembered[question % queries]
        advertised = tables.advertised[question % queries]
        for number in range(entries):
            state = np.uint32(state * np.uint32(1_664_525) + np.uint32(1_013_904_223))
            if number % 3:
                total += remembered[(np.uint64(state) * np.uint64(queries)) >> np.uint64(32)]
            else:
                total += advertised[(np.uint64(state) * np.uint64(documents)) >> np.uint64(32)]
    return total


def _scenario(folder: Path | None, peers: int, **settings: bool) -> Scenario:
    return Scenario(
        name="benchmark",
        shows="",
        workload="synthetic" if folder is None else "pubmedqa",
        peers=peers,
        routing=RoutingConfig(
            routing="paper", start="paper", exploration="none", advertisement_limit=100
        ),
        **settings,
    )


def contact(folder: Path | None) -> None:
    """A contact at full state beside the bare loop."""
    scenario = _scenario(folder, FULL_PEERS, stop_at_target=False)
    plan = make_plan(scenario, load_workload(scenario, folder))
    simulation = VectorisedSimulation(scenario, plan)
    peers = simulation.peers
    draw = np.random.default_rng(1)
    pairs = [(peer, other) for peer in range(FULL_PEERS) for other in draw.choice(FULL_PEERS, 60)]
    peer_state.add_neighbors(peers, np.array([p for p in pairs if p[0] != p[1]], dtype=np.int32))
    _fill(peers, len(plan.workload.queries), 1)
    print(
        f"{FULL_PEERS:,} peers, {peers.state['memory_count'].mean():.0f} remembered queries and "
        f"{peers.state['neighbor_count'].mean():.0f} neighbours each"
    )
    simulation.ask(0, 10)  # compiled
    began = time.perf_counter()
    simulation.ask(10, 10 + QUESTIONS)
    seconds = time.perf_counter() - began
    contacts = int(simulation.outcomes.rows["contacts"][10 : 10 + QUESTIONS].sum())
    remembered, neighbors = (
        peers.state[name].mean() for name in ("memory_count", "neighbor_count")
    )
    entries = round(remembered + (1 + neighbors) * peers.held[:, 0].mean())
    _read_at_random(simulation.similarities, 1, 1, 1)
    began = time.perf_counter()
    _read_at_random(simulation.similarities, entries * contacts // QUESTIONS, QUESTIONS, 1)
    bare = time.perf_counter() - began
    print(f"{contacts:,} contacts, {entries:,} entries each")
    print(f"contact   {1e6 * seconds / contacts:6.2f} us")
    print(f"bare loop {1e6 * bare / contacts:6.2f} us for as many entries")
    print(f"ratio     {seconds / bare:6.2f}")


def growth(folder: Path | None) -> None:
    """Networks of several sizes, a process each."""
    print("peers     questions  seconds  us a question  contacts  GB")
    for peers in SIZES:
        command = [sys.executable, "-m", "benchmarks.vectorised", "--peers", str(peers)]
        if folder is not None:
            command += ["--pubmedqa", str(folder)]
        subprocess.run(command, check=True)


def one_size(folder: Path | None, peers: int) -> None:
    """A line of the table of `growth`."""
    scenario = _scenario(folder, peers)
    plan = make_plan(scenario, load_workload(scenario, folder))
    simulation = VectorisedSimulation(scenario, plan)
    questions = len(plan.workload.events)
    simulation.ask(0, 10)  # compiled
    began = time.perf_counter()
    simulation.ask(10, questions)
    seconds = time.perf_counter() - began
    contacts = simulation.outcomes.rows["contacts"].mean()
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{peers:<9,} {questions:<10,} {seconds:<8.1f} {1e6 * seconds / questions:<14.1f} "
        f"{contacts:<9.2f} {gigabytes:.1f}",
        flush=True,
    )


def main() -> None:
    """Both parts, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=("contact", "growth", []))
    parser.add_argument("--pubmedqa", type=Path)
    parser.add_argument("--peers", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peers:
        one_size(options.pubmedqa, options.peers)
        return
    for part in options.parts or ("contact", "growth"):
        {"contact": contact, "growth": growth}[part](options.pubmedqa)


if __name__ == "__main__":
    main()
