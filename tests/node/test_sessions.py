"""Sessions that only one of two nodes knows of, and what becomes of requests under them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from zerorag_p2p.config import MembershipConfig
from zerorag_p2p.errors import PeerUnreachable
from zerorag_p2p.model import PeerId, RefusalCode
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.network import Handler
from zerorag_p2p.node.reports import ContactReport
from zerorag_p2p.node.sessions import Session
from zerorag_p2p.testnet.testnet import CONFIG, Testnet
from zerorag_p2p.wire.protocols import HELLO, QUERY
from zerorag_p2p.wire.refusal import Refusal, encode_refusal
from zerorag_p2p.workloads.synthetic import synthetic_workload

NEVER_S = 1e9

#: Nodes that ask nobody anything by themselves, once they have started.
QUIET = replace(
    CONFIG,
    network=replace(CONFIG.network, maintenance_interval_s=NEVER_S),
    membership=MembershipConfig(exchange_interval_s=NEVER_S, ping_interval_s=NEVER_S),
)


@asynccontextmanager
async def strangers() -> AsyncIterator[Testnet]:
    """Two nodes, p0 and p1, without a connection."""
    testnet = Testnet(synthetic_workload(peers=2, seed=1, draws=4), config=QUIET)
    async with testnet.running():
        await wait_all_tasks_blocked()
        await core(testnet, "p0").network.disconnect(testnet["p1"].peer_id)
        await wait_all_tasks_blocked()
        assert sessions(testnet) == (None, None)
        yield testnet


def core(testnet: Testnet, name: str) -> NodeCore:
    found = testnet[name].core
    assert found is not None
    return found


def sessions(testnet: Testnet) -> tuple[Session | None, Session | None]:
    """What p0 knows of p1, and p1 of p0."""
    return (
        core(testnet, "p0").sessions.get(testnet["p1"].peer_id),
        core(testnet, "p1").sessions.get(testnet["p0"].peer_id),
    )


async def say_hello(testnet: Testnet, timeout_s: float = 1.0) -> None:
    """Let p0 say hello to p1."""
    await core(testnet, "p0").sessions.ensure(testnet["p1"].peer_id, timeout_s=timeout_s)


async def ask(testnet: Testnet) -> ContactReport:
    """Let p1 ask p0."""
    report = await testnet.query("p1", testnet.workload.queries[0])
    (contact,) = report.contacts
    assert contact.peer == testnet["p0"].peer_id
    return contact


async def test_a_reply_to_hello_that_comes_too_late_costs_no_request(
    autojump_clock: object,
) -> None:
    async def late(protocol: str, peer: PeerId, payload: bytes, honest: Handler) -> bytes:
        reply = await honest(peer, payload)
        if protocol == HELLO:
            await trio.sleep(1.0)
        return reply

    async with strangers() as testnet:
        testnet.misbehave("p1", late)
        with pytest.raises(PeerUnreachable):
            await say_hello(testnet, timeout_s=0.5)
        ours, theirs = sessions(testnet)
        assert (ours is None, theirs is None) == (True, False)
        assert (await ask(testnet)).outcome == "answered"
        assert None not in sessions(testnet)


async def test_a_request_that_overtakes_the_reply_to_hello_is_answered(
    autojump_clock: object,
) -> None:
    overtaken = trio.Event()

    async def slow(protocol: str, peer: PeerId, payload: bytes, honest: Handler) -> bytes:
        reply = await honest(peer, payload)
        if protocol == HELLO:
            await overtaken.wait()
        return reply

    async with strangers() as testnet, trio.open_nursery() as nursery:
        testnet.misbehave("p1", slow)
        nursery.start_soon(say_hello, testnet)
        await wait_all_tasks_blocked()
        assert (await ask(testnet)).outcome == "answered"
        overtaken.set()


async def test_a_peer_that_never_knows_us_is_asked_twice(autojump_clock: object) -> None:
    asked: Counter[str] = Counter()

    async def forgetful(protocol: str, peer: PeerId, payload: bytes, honest: Handler) -> bytes:
        asked[protocol] += 1
        if protocol == QUERY:
            return encode_refusal(Refusal(RefusalCode.HELLO_REQUIRED, "who are you?"))
        return await honest(peer, payload)

    async with strangers() as testnet:
        await say_hello(testnet)
        testnet.misbehave("p0", forgetful)
        contact = await ask(testnet)
        assert (contact.outcome, contact.reason) == ("refused", "who are you?")
        assert asked == {QUERY: 2, HELLO: 1}
        (refusal,) = core(testnet, "p1").refusals()
        assert refusal["code"] == RefusalCode.HELLO_REQUIRED


async def test_whom_a_peer_does_not_want_any_more_learns_why(autojump_clock: object) -> None:
    async with strangers() as testnet:
        await say_hello(testnet)
        core(testnet, "p0").sessions.end(testnet["p1"].peer_id)
        testnet["p0"].clock_skew_s = 600.0
        contact = await ask(testnet)
        assert (contact.outcome, contact.code) == ("refused", RefusalCode.CLOCK_SKEW)
        assert sessions(testnet) == (None, None)
