"""What each fault does to two networks that share a hub."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from zerorag_p2p.errors import PeerUnreachable, RequestTimeout, UsageError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import ConnectionEvent, Handler
from zerorag_p2p.testnet.conformance import (
    ECHO,
    LIMITS,
    SETTINGS,
    SLOW,
    ask,
    connect,
    echo,
    everyone,
)
from zerorag_p2p.testnet.faults import Conditions, Faults
from zerorag_p2p.testnet.memory_network import MemoryHub, MemoryNetwork

A, B = PeerId("a"), PeerId("b")


@asynccontextmanager
async def pair(
    faults: Faults, handler: Handler = echo
) -> AsyncIterator[tuple[MemoryNetwork, MemoryNetwork]]:
    hub = MemoryHub(faults)
    a, b = (MemoryNetwork(hub, peer, gate=everyone, settings=SETTINGS) for peer in (A, B))
    for network in (a, b):
        network.serve(ECHO, handler, LIMITS)
        network.serve(SLOW, handler, LIMITS)
    async with a.running(), b.running():
        await connect(a, b)
        yield a, b


async def took(a: MemoryNetwork, b: MemoryNetwork, size: int = 0) -> float:
    started = trio.current_time()
    await ask(a, b, bytes(size))
    return trio.current_time() - started


async def asks_in_vain(a: MemoryNetwork, b: MemoryNetwork, timeout_s: float = 1.0) -> None:
    with pytest.raises(RequestTimeout):
        await a.request(b.peer_id, ECHO, b"", timeout_s=timeout_s)


async def test_latency_is_paid_each_way(autojump_clock: object) -> None:
    faults = Faults()
    async with pair(faults) as (a, b):
        await ask(a, b)
        assert await took(a, b) == 0.0
        faults.conditions = Conditions(latency_s=0.05)
        assert await took(a, b) == pytest.approx(0.1)
        assert await took(b, a) == pytest.approx(0.1)


async def test_a_dial_takes_a_round_trip(autojump_clock: object) -> None:
    async with pair(Faults(Conditions(latency_s=0.05))) as (a, b):
        await a.disconnect(b.peer_id)
        started = trio.current_time()
        await a.connect(b.peer_id, b.addresses(), timeout_s=1)
        assert trio.current_time() - started == pytest.approx(0.1)


async def test_jitter_varies(autojump_clock: object) -> None:
    faults = Faults(seed=1)
    async with pair(faults) as (a, b):
        await ask(a, b)
        faults.conditions = Conditions(jitter_s=0.05)
        times = [await took(a, b) for _ in range(5)]
    assert len(set(times)) == 5


async def test_jitter_lets_no_request_overtake_another(autojump_clock: object) -> None:
    """As far as the network goes: handlers, and so replies, run side by side."""
    faults = Faults(seed=1)
    arrived: list[int] = []

    async def note(requester: PeerId, payload: bytes) -> bytes:
        arrived.append(int(payload))
        return await echo(requester, payload)

    async with pair(faults, note) as (a, b):

        async def one(number: int, protocol: str) -> None:
            await trio.sleep(number / 1_000)
            await a.request(b.peer_id, protocol, b"%d" % number, timeout_s=10)

        for _ in range(10):
            arrived.clear()
            async with trio.open_nursery() as nursery:
                for number in range(6):  # on two streams; more would be joined in one write
                    nursery.start_soon(one, number, (ECHO, SLOW)[number % 2])
            assert arrived == list(range(6))
            faults.conditions = Conditions(jitter_s=0.05)


async def test_bandwidth_is_of_a_peer_and_shared(autojump_clock: object) -> None:
    faults = Faults()
    async with pair(faults) as (a, b):
        await ask(a, b)
        faults.conditions = Conditions(bandwidth=100_000)
        assert await took(a, b, 50_000) == pytest.approx(1.0, rel=0.01)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask, a, b, bytes(50_000))
        assert trio.current_time() - started == pytest.approx(1.5, rel=0.4)


async def test_a_lost_request_times_out_and_the_stream_works_on(autojump_clock: object) -> None:
    faults = Faults()
    async with pair(faults) as (a, b):
        await ask(a, b)
        events: list[ConnectionEvent] = []
        a.watch(events.append)
        faults.conditions = Conditions(loss=1.0)
        await asks_in_vain(a, b)
        faults.conditions = Conditions()
        await ask(a, b)
        await ask(b, a)
        assert not events


async def test_loss_loses_about_its_share(autojump_clock: object) -> None:
    faults = Faults(Conditions(loss=0.25), seed=3)
    lost = 0
    async with pair(faults) as (a, b):
        for _ in range(200):
            try:
                await a.request(b.peer_id, ECHO, b"", timeout_s=1)
            except RequestTimeout:
                lost += 1
    assert lost / 200 == pytest.approx(1 - 0.75**2, abs=0.1)  # there and back


async def test_a_partition_is_silent_and_heals(autojump_clock: object) -> None:
    faults = Faults()
    async with pair(faults) as (a, b):
        await ask(a, b)
        faults.partition([[A], [B]])
        await asks_in_vain(a, b)
        await asks_in_vain(b, a)
        assert a.connected() == {B}
        faults.heal()
        await ask(a, b)
        await ask(b, a)


async def test_nobody_gets_through_a_partition(autojump_clock: object) -> None:
    faults = Faults()
    async with pair(faults) as (a, b):
        faults.partition([[A]])
        await a.disconnect(b.peer_id)
        assert not a.connected()
        assert b.connected() == {A}  # it cannot know
        with pytest.raises(PeerUnreachable):
            await a.connect(b.peer_id, b.addresses(), timeout_s=3)
        faults.heal()
        await trio.testing.wait_all_tasks_blocked()
        assert not b.connected()
        await connect(a, b)
        await ask(b, a)


async def test_a_frozen_peer_answers_when_it_thaws(autojump_clock: object) -> None:
    faults = Faults()
    async with pair(faults) as (a, b):
        await ask(a, b)
        faults.freeze(B)
        await asks_in_vain(a, b)
        answered = trio.Event()

        async def patient() -> None:
            assert await a.request(b.peer_id, ECHO, b"late", timeout_s=100) == b"late"
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(patient)
            await trio.sleep(50)
            assert not answered.is_set()
            faults.thaw(B)
            await answered.wait()
            assert trio.current_time() > 50


async def test_a_dial_to_a_frozen_peer_waits(autojump_clock: object) -> None:
    faults = Faults()
    async with pair(faults) as (a, b):
        await a.disconnect(b.peer_id)
        faults.freeze(B)
        with pytest.raises(PeerUnreachable):
            await a.connect(b.peer_id, b.addresses(), timeout_s=2)
        faults.thaw(B)
        await connect(a, b)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        Conditions(loss=1.5)
    with pytest.raises(UsageError, match="negative"):
        Conditions(latency_s=-1)
    with pytest.raises(UsageError, match="two groups"):
        Faults().partition([[A], [A, B]])
