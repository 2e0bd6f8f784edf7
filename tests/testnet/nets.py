"""Small testnets for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import trio

from zerorag_p2p.node.reports import QueryReport
from zerorag_p2p.testnet.testnet import CONFIG, Testnet
from zerorag_p2p.workloads.synthetic import synthetic_workload
from zerorag_p2p.workloads.workload import Events, QueryEvent, Workload

PEERS = 8


def workload(peers: int = PEERS) -> Workload:
    """A workload in which every event has an answer that another peer holds."""
    made = synthetic_workload(peers=peers, seed=1, draws=6, topics=6)
    answerable = [
        event
        for event in made.events
        if any(
            event.document in held for peer, held in enumerate(made.holdings) if peer != event.peer
        )
    ]
    assert answerable
    return replace(made, events=Events.of(answerable))


def small(**settings: Any) -> Testnet:
    """A testnet of eight peers."""
    return Testnet(workload(), **settings)


def with_network(**changes: Any) -> dict[str, Any]:
    """The usual settings of a testnet with other deadlines."""
    return {"config": replace(CONFIG, network=replace(CONFIG.network, **changes))}


async def asked(testnet: Testnet, event: QueryEvent, **settings: Any) -> QueryReport:
    """Let the peer of an event ask its question."""
    query = testnet.workload.queries[event.query]
    return await testnet.query(f"p{event.peer}", query, **settings)


def hit(testnet: Testnet, event: QueryEvent, report: QueryReport) -> bool:
    """Whether the document asked for was delivered."""
    target = testnet.table.hashes[event.document]
    return any(
        document.content_hash == target and document.status == "verified"
        for document in report.documents
    )


async def eventually(condition: Callable[[], bool], within_s: float = 300.0) -> None:
    """Wait for a state that other tasks bring about."""
    with trio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - nothing tells of another task's progress
            await trio.sleep(0.1)
