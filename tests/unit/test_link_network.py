"""The rules of links that the conformance suite cannot see from outside."""

from dataclasses import replace
from functools import partial

import trio
import trio.testing

from zerorag_p2p.config import MAX_INBOUND_PER_PEER, MAX_STREAMS_PER_PROTOCOL, NetworkConfig
from zerorag_p2p.errors import ConnectionLost
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.link_network import Link
from zerorag_p2p.node.request_streams import Asker
from zerorag_p2p.testnet.conformance import (
    ECHO,
    LIMITS,
    PATIENCE_S,
    SETTINGS,
    SLOW,
    Gatekeeper,
    ask,
    connect,
    echo,
    everyone,
    expect,
)
from zerorag_p2p.testnet.memory_network import MemoryHub, MemoryNetwork

IDLE = replace(SETTINGS, stream_idle_s=10.0, connection_idle_s=500.0)


def pair(settings: NetworkConfig = IDLE) -> tuple[MemoryNetwork, MemoryNetwork]:
    """Two networks; the first has the smaller id, so its dials are preferred."""
    hub = MemoryHub()
    networks = [
        MemoryNetwork(hub, PeerId(name), gate=everyone, settings=settings) for name in ("a", "b")
    ]
    for network in networks:
        network.serve(ECHO, echo, LIMITS)
    return networks[0], networks[1]


def links(network: MemoryNetwork) -> int:
    return sum(map(len, network._links.values()))


async def add_link(dialler: MemoryNetwork, dialled: MemoryNetwork) -> None:
    """Make one more link, as if the dial had begun before there was another."""
    assert dialler._nursery is not None
    link = await dialler._dial(dialled.peer_id, dialled.addresses()[0])
    dialler._nursery.start_soon(dialler._carry, link)
    await trio.testing.wait_all_tasks_blocked()


async def test_both_sides_prefer_the_link_that_the_smaller_id_dialled(
    autojump_clock: object,
) -> None:
    for order in (("ab", "ba"), ("ba", "ab")):
        a, b = pair()
        async with a.running(), b.running():
            for dialler, dialled in ((a, b) if item == "ab" else (b, a) for item in order):
                await add_link(dialler, dialled)
            assert links(a) == links(b) == 2
            assert a._links[b.peer_id][0].link.dialled
            assert not b._links[a.peer_id][0].link.dialled


async def test_redundant_link_goes_once_it_is_idle_and_no_request_is_lost(
    autojump_clock: object,
) -> None:
    a, b = pair()
    async with a.running(), b.running():
        await add_link(b, a)
        await ask(a, b)
        await ask(b, a)
        await add_link(a, b)
        for _ in range(100):
            await trio.sleep(0.5)
            await ask(a, b)
            await ask(b, a)
        assert links(a) == links(b) == 1
        assert a._links[b.peer_id][0].link.dialled
        assert a.connected() == {b.peer_id}


async def test_redundant_link_in_use_stays(autojump_clock: object) -> None:
    a, b = pair()
    keep = trio.Event()

    async def slow(_: PeerId, payload: bytes) -> bytes:
        await keep.wait()
        return payload

    for network in (a, b):
        network.serve("/slow", slow, LIMITS)
    async with a.running(), b.running(), trio.open_nursery() as nursery:
        await add_link(b, a)

        async def long_request() -> None:
            assert await b.request(a.peer_id, "/slow", b"x", timeout_s=1_000) == b"x"

        nursery.start_soon(long_request)
        await trio.testing.wait_all_tasks_blocked()
        await add_link(a, b)
        await trio.sleep(100)
        assert links(b) == 2
        keep.set()
        await trio.sleep(100)
        assert links(b) == links(a) == 1


async def test_preferred_link_that_ends_leaves_the_other(autojump_clock: object) -> None:
    a, b = pair()
    async with a.running(), b.running():
        events = []
        a.watch(events.append)
        await add_link(a, b)
        await add_link(b, a)
        a._links[b.peer_id][0].link.abort()
        await trio.testing.wait_all_tasks_blocked()
        assert links(a) == links(b) == 1
        await trio.sleep(100)  # what is left is not redundant any more
        await ask(a, b)
        await ask(b, a)
        assert [event.connected for event in events] == [True]


async def test_connection_that_nobody_uses_is_closed_and_comes_back(
    autojump_clock: object,
) -> None:
    a, b = pair()
    async with a.running(), b.running():
        await a.connect(b.peer_id, b.addresses(), timeout_s=10)
        for _ in range(4):  # b asks, a dialled: either side keeps it alive
            await ask(b, a)
            await trio.sleep(IDLE.connection_idle_s)
        assert a.connected() == {b.peer_id}
        await trio.sleep(IDLE.connection_idle_s + IDLE.stream_idle_s)
        assert not a.connected()
        assert not b.connected()
        await b.connect(a.peer_id, a.addresses(), timeout_s=10)
        await ask(a, b)


async def test_newest_inbound_links_replace_the_oldest(autojump_clock: object) -> None:
    a, b = pair()
    async with a.running(), b.running():
        for _ in range(MAX_INBOUND_PER_PEER + 3):
            await add_link(a, b)
        assert links(b) == MAX_INBOUND_PER_PEER
        await ask(a, b)
        await ask(b, a)


async def test_larger_id_gives_up_its_dial_when_the_other_comes_first(
    autojump_clock: object,
) -> None:
    a, b = pair()
    async with a.running(), b.running(), trio.open_nursery() as nursery:
        b._hub.silence("/memory/silent")

        async def dial() -> None:
            await b.connect(a.peer_id, ["/memory/silent"], timeout_s=1_000)

        nursery.start_soon(dial)
        await trio.testing.wait_all_tasks_blocked()
        started = trio.current_time()
        await a.connect(b.peer_id, b.addresses(), timeout_s=10)
        await trio.testing.wait_all_tasks_blocked()
        assert not b._dials
        assert trio.current_time() == started


async def test_requests_in_progress_are_bounded_over_all_links_and_streams_of_a_peer(
    autojump_clock: object,
) -> None:
    keeper = Gatekeeper()
    a, b = pair(replace(IDLE, max_requests_per_peer=4))
    for network in (a, b):
        network.serve(SLOW, keeper, LIMITS)
    async with a.running(), b.running():
        await add_link(a, b)
        await add_link(b, a)
        async with trio.open_nursery() as nursery:

            def ask_over(link: Link, names: list[bytes]) -> None:
                asker = Asker(LIMITS.reply_bytes, max_pending=8, idle_s=1.0)
                nursery.start_soon(asker.run, partial(link.open_stream, SLOW))
                for name in names:
                    nursery.start_soon(asker.ask, name)

            streams = 2 * MAX_STREAMS_PER_PROTOCOL
            for number in range(streams):
                link = a._links[b.peer_id][number % 2].link
                ask_over(link, [b"%d of %d" % (request, number) for request in range(3)])
            for left in range(3 * streams, 0, -1):
                await trio.testing.wait_all_tasks_blocked()
                assert len(keeper.waiting) == min(4, left)
                await ask(a, b)  # another protocol is not held up
                await ask(b, a)
                keeper.let_go(next(iter(keeper.waiting)))
        assert keeper.most == 4


async def test_who_comes_back_has_as_many_requests_as_before(autojump_clock: object) -> None:
    keeper = Gatekeeper()
    a, b = pair(replace(IDLE, max_requests_per_peer=4))
    for network in (a, b):
        network.serve(SLOW, keeper, LIMITS)
    async with a.running(), b.running():
        for _ in range(3):
            await connect(a, b)
            async with trio.open_nursery() as nursery:
                for number in range(6):
                    request = a.request(b.peer_id, SLOW, b"%d" % number, timeout_s=PATIENCE_S)
                    nursery.start_soon(expect, ConnectionLost, request)
                await trio.testing.wait_all_tasks_blocked()
                assert len(keeper.waiting) == 4
                await a.disconnect(b.peer_id)
            await trio.testing.wait_all_tasks_blocked()
            assert not keeper.waiting
