"""The rules of links that the conformance suite cannot see from outside."""

from dataclasses import replace

import trio
import trio.testing

from zerorag_p2p.config import MAX_INBOUND_PER_PEER
from zerorag_p2p.model import PeerId
from zerorag_p2p.testnet.conformance import ECHO, LIMITS, SETTINGS, ask, echo, everyone
from zerorag_p2p.testnet.memory_network import MemoryHub, MemoryNetwork

IDLE = replace(SETTINGS, stream_idle_s=10.0, connection_idle_s=500.0)


def pair() -> tuple[MemoryNetwork, MemoryNetwork]:
    """Two networks; the first has the smaller id, so its dials are preferred."""
    hub = MemoryHub()
    networks = [
        MemoryNetwork(hub, PeerId(name), gate=everyone, settings=IDLE) for name in ("a", "b")
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
