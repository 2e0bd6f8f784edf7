"""What whole nodes in one process cost: contacts a second, and memory.

    python -m benchmarks.memory_network [--peers 100] [--queries 30] [--dimension 768]

In one run: the memory of so many nodes after so many queries each, and with everything that their
limits allow, beside their arrays; then contacts through the memory network, frames and sessions
and all, beside what encoding and decoding plus `Peer.answer` alone allow. With 1,000 peers it takes
10 GB. Prints a sentence and a JSON object each; fails with a sentence if an aim is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
from dataclasses import replace

import numpy as np
import trio

from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import Content, Fingerprint, Purpose, Vector, View
from zerorag_p2p.node.contacts import Failure
from zerorag_p2p.node.outgoing import Traffic, open_advertisement
from zerorag_p2p.node.process import resident_bytes, return_large_memory
from zerorag_p2p.node.state import held_advertisement
from zerorag_p2p.peer import Requester
from zerorag_p2p.testnet.faults import Conditions
from zerorag_p2p.testnet.testnet import CONFIG, Testnet, TestnetNode
from zerorag_p2p.testnet.virtual_time import run_in_virtual_time
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.wire.query import (
    QueryRequest,
    decode_query,
    decode_query_reply,
    encode_query,
    encode_query_result,
)
from zerorag_p2p.wire.refusal import Refusal
from zerorag_p2p.workloads.workload import (
    Events,
    PeerDocuments,
    QueryEvent,
    Workload,
    WorkloadDocument,
)

HOLDERS = 40
CONTACTS = 200
ROUNDS = 5
DOCUMENTS = 1_000
HELD = 30
BUDGET = 10

#: Contacts a second through the memory network beside those by codec and answer alone, at least.
LEAST_CONTACTS = 0.5

#: Memory of the nodes beside the size of their arrays, at most.
MOST_MEMORY = 1.5


def report(name: str, sentence: str, **figures: float) -> None:
    print(sentence)
    rounded = {key: round(value, 4) for key, value in figures.items()}
    print(json.dumps({"benchmark": name, **rounded}), flush=True)


def make_workload(peers: int, queries: int, dimension: int) -> Workload:
    """Random unit vectors; every peer holds 30 documents and asks about others."""
    generator = np.random.default_rng(0)
    draw = random.Random(0)

    def unit(count: int) -> Vector:
        return transmitted_rows(generator.normal(size=(count, dimension)).astype(np.float32))

    text = "x" * 1_500  # an abstract
    return Workload(
        name="random",
        fingerprint=Fingerprint("benchmark", "1", dimension),
        documents=tuple(
            WorkloadDocument(Content(f"document {number}", f"{number} {text}"))
            for number in range(DOCUMENTS)
        ),
        vectors=unit(DOCUMENTS),
        queries=tuple(f"question {number}" for number in range(DOCUMENTS)),
        query_vectors=unit(DOCUMENTS),
        answers=tuple(range(DOCUMENTS)),
        holdings=PeerDocuments.of(
            sorted(draw.sample(range(DOCUMENTS), HELD)) for _ in range(peers)
        ),
        events=Events.of(
            QueryEvent(peer, draw.randrange(DOCUMENTS), 0)
            for _ in range(queries)
            for peer in range(peers)
        ),
    )


async def contacts(dimension: int) -> float:
    """Contacts of one node with others that know each other, warm and one after the other.

    Returns the ratio that `LEAST_CONTACTS` is the aim of.
    """
    workload = make_workload(HOLDERS, 20, dimension)
    async with Testnet(workload).running() as testnet:
        await trio.sleep(5)
        for event in workload.events:
            await testnet.query(f"p{event.peer}", workload.queries[event.query], budget=BUDGET)
        asker, *others = testnet.nodes.values()
        framed, direct, bytes_back = [], [], 0
        for number in range(ROUNDS):
            requests = [
                request(workload, draw)
                for draw in random.Random(number).sample(range(DOCUMENTS), CONTACTS)
            ]
            for other in others:
                assert asker.core is not None
                await asker.core.sessions.ensure(other.peer_id, timeout_s=1)
            began = time.perf_counter()
            for contact, asked in enumerate(requests):
                bytes_back += await through_frames(asker, others[contact % len(others)], asked)
            framed.append(CONTACTS / (time.perf_counter() - began))
            began = time.perf_counter()
            for contact, asked in enumerate(requests):
                without_network(asker, others[contact % len(others)], asked, testnet.now())
            direct.append(CONTACTS / (time.perf_counter() - began))
    ours, least = statistics.median(framed), statistics.median(direct)
    report(
        "memory-network-contacts",
        f"{ours:.0f} contacts a second through the memory network, {least:.0f} by codec and "
        f"Peer.answer alone: {ours / least:.2f} of them (the aim is {LEAST_CONTACTS}). A reply has "
        f"{bytes_back / (ROUNDS * CONTACTS) / 1_000:.1f} kB.",
        contacts_per_s=ours,
        codec_and_answer_per_s=least,
        ratio=ours / least,
    )
    return ours / least


def request(workload: Workload, query: int) -> QueryRequest:
    return QueryRequest(
        embedding=workload.query_vectors[query],
        fingerprint=workload.fingerprint.digest(),
        k=5,
        budget_left=10,
        deadline_ms=1_000,
        purpose=Purpose.TREAT,
        user="benchmark",
        audit="0123456789abcdef",
        view=View.WHOLE,
        remember_until=None,  # so that both ways find the same state
    )


async def through_frames(asker: TestnetNode, other: TestnetNode, asked: QueryRequest) -> int:
    assert asker.core is not None
    traffic = Traffic()
    reply = await asker.core.exchanges.query(
        other.peer_id,
        lambda _: asked,
        dimension=len(asked.embedding),
        timeout_s=10.0,
        traffic=traffic,
    )
    assert not isinstance(reply, Failure), reply
    return traffic.received


def without_network(
    asker: TestnetNode, other: TestnetNode, asked: QueryRequest, now: float
) -> None:
    assert other.core is not None
    decoded = decode_query(encode_query(asked))
    answer = other.core.peer.answer(decoded, Requester(asker.peer_id, asker.organisation), now)
    assert not isinstance(answer, Refusal)
    encoded = encode_query_result(answer, decoded.encoding)
    decode_query_reply(encoded, k=asked.k, dimension=len(asked.embedding))


async def memory(peers: int, queries: int, dimension: int) -> tuple[float, float]:
    """Memory after some queries of every node, and at full state.

    Returns the ratios that `MOST_MEMORY` is the aim of.
    """
    workload = make_workload(peers, queries, dimension)
    network = replace(CONFIG.network, maintenance_interval_s=5.0, advertisement_refresh_s=60.0)
    testnet = Testnet(
        workload,
        config=replace(CONFIG, network=network),
        conditions=Conditions(latency_s=0.02),  # so that time passes and connections go idle
    )
    gc.collect()
    before = resident_bytes()
    began = time.perf_counter()
    async with testnet.running():
        await trio.sleep(5)
        for turn in range(queries):
            async with trio.open_nursery() as nursery:
                for event in workload.events[turn * peers : (turn + 1) * peers]:
                    nursery.start_soon(ask, testnet, event)
        await trio.sleep(3 * network.connection_idle_s)
        queried = tell_memory(testnet, f"after {queries} queries each", "queried", before)
        fill(testnet)
        full = tell_memory(testnet, "at full state", "full", before)
    print(f"# {time.perf_counter() - began:.0f} s")
    return queried, full


async def ask(testnet: Testnet, event: QueryEvent) -> None:
    query = testnet.workload.queries[event.query]
    await testnet.query(f"p{event.peer}", query, k=1, budget=BUDGET)


def tell_memory(testnet: Testnet, when: str, name: str, before: int) -> float:
    """Report the memory in use since `before`; returns it beside the size of the arrays."""
    gc.collect()
    used = resident_bytes() - before
    row_bytes = 4 * testnet.workload.fingerprint.dimension
    nodes = testnet.nodes.values()
    cores = [node.core for node in nodes if node.core is not None]
    held = sum(len(core.peer.advertisements) for core in cores)
    remembered = sum(len(core.peer.memory) for core in cores)
    own = sum(len(node.holdings) for node in nodes)
    arrays = row_bytes * (held + remembered + own)
    peers = len(testnet.nodes)
    report(
        f"memory-network-{name}",
        f"{peers} nodes {when} use {used / 1e6:.0f} MB, {used / peers / 1e6:.2f} MB each; their "
        f"arrays ({remembered / peers:.0f} remembered queries, {held / peers:.0f} advertised "
        f"vectors, {own / peers:.0f} documents each) {arrays / 1e6:.0f} MB: "
        f"{used / arrays:.2f} times (the aim is {MOST_MEMORY}).",
        peers=peers,
        used_bytes=used,
        array_bytes=arrays,
        ratio=used / arrays,
    )
    return used / arrays


def fill(testnet: Testnet) -> None:
    """Give every node all the neighbours, advertisements and remembered queries it may have."""
    nodes = list(testnet.nodes.values())
    dimension = testnet.workload.fingerprint.dimension
    held = {}
    for node in nodes:
        assert node.core is not None
        sealed = node.core.service.own_advertisement()[1]
        opened = open_advertisement(sealed, owner=node.peer_id, dimension=dimension)
        held[node.peer_id] = held_advertisement(opened)
    routing = testnet.config.routing
    draw = random.Random(1)
    expires_at = testnet.now() + routing.memory_lifetime_s
    for node in nodes:
        assert node.core is not None
        peer = node.core.peer
        others = [other for other in nodes if other is not node]
        for other in draw.sample(others, min(routing.neighbor_limit, len(others))):
            peer.add_neighbor(other.peer_id, testnet.now())
            peer.on_advertisement(held[other.peer_id])
        while len(peer.memory) < routing.memory_limit:
            query = draw.randrange(DOCUMENTS)
            embedding = testnet.workload.query_vectors[query]
            peer.memory.add(draw.choice(others).peer_id, embedding, expires_at=expires_at)


def missed(contact_ratio: float, queried: float, full: float) -> list[str]:
    """A sentence for every aim that was missed."""
    problems = []
    if contact_ratio < LEAST_CONTACTS:
        problems.append(
            f"contacts through the memory network are {contact_ratio:.2f} of those by codec and "
            f"Peer.answer alone; the aim is at least {LEAST_CONTACTS}"
        )
    for ratio, when in ((queried, "after queries"), (full, "at full state")):
        if ratio > MOST_MEMORY:
            problems.append(
                f"nodes {when} use {ratio:.2f} times the memory of their arrays; the aim is at "
                f"most {MOST_MEMORY}"
            )
    return problems


def main() -> int:
    """Measure; fails if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=int, default=100)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--dimension", type=int, default=768)
    options = parser.parse_args()
    return_large_memory()
    if options.peers < 2:
        raise UsageError("--peers has to be at least 2")
    # Memory first: what another measurement has freed would be used again.
    ratios = run_in_virtual_time(memory, options.peers, options.queries, options.dimension)
    problems = missed(run_in_virtual_time(contacts, options.dimension), *ratios)
    for problem in problems:
        print(f"missed: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
