"""What every implementation of `node.network.Network` has to do: one check a promise.

An implementation is put to the test through a `Harness`. A check is an async function of a
harness that raises AssertionError, or the unexpected error, when a promise is broken; `CHECKS`
lists them all. Every check brings its networks up, takes them down and expects that no task is
left; it works on any trio clock.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final, Protocol

import trio
import trio.testing

from zerorag_p2p.config import NetworkConfig
from zerorag_p2p.errors import (
    ConnectionLost,
    NetworkError,
    PeerUnreachable,
    RemoteError,
    RequestTimeout,
    UsageError,
)
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import ConnectionEvent, Gate, Handler, Network, ProtocolLimits

ECHO: Final = "/conformance/echo/1.0.0"
SLOW: Final = "/conformance/slow/1.0.0"
LIMITS: Final = ProtocolLimits(request_bytes=2 << 20, reply_bytes=2 << 20)

#: Long enough for anything that works, on a busy machine.
PATIENCE_S: Final = 10.0
SETTINGS: Final = NetworkConfig(dial_timeout_s=5.0, close_timeout_s=2.0, stream_idle_s=60.0)


class Harness(Protocol):
    """Makes networks of one implementation that can reach each other."""

    def network(self, gate: Gate, settings: NetworkConfig) -> Network:
        """A new network with a new peer id, not running yet."""

    def dead_address(self) -> str:
        """An address where nobody listens."""

    async def silent_address(self) -> str:
        """An address that accepts a dial and never says a word."""


async def echo(_: PeerId, payload: bytes) -> bytes:
    """Reply with the request."""
    await trio.lowlevel.checkpoint()
    return payload


def everyone(_: PeerId) -> bool:
    """A gate that lets everyone in."""
    return True


@asynccontextmanager
async def running(
    harness: Harness,
    count: int = 2,
    *,
    gate: Gate = everyone,
    settings: NetworkConfig = SETTINGS,
    slow: Handler = echo,
) -> AsyncIterator[list[Network]]:
    """Networks that serve ECHO, and SLOW with the handler given; unconnected.

    Leaving the context expects that no task stays behind.
    """
    before = await settled()
    networks = [harness.network(gate, settings) for _ in range(count)]
    async with AsyncExitStack() as stack:
        for network in networks:
            network.serve(ECHO, echo, LIMITS)
            network.serve(SLOW, slow, LIMITS)
            await stack.enter_async_context(network.running())
        yield networks
    await until(lambda: tasks() <= before)


def tasks() -> int:
    """How many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living


async def settled() -> int:
    """How many tasks there are once none has anything left to do for now."""
    await trio.testing.wait_all_tasks_blocked()
    return tasks()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has no event to wait for."""
    with trio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await trio.sleep(0.002)


async def connect(network: Network, other: Network, addresses: Sequence[str] | None = None) -> None:
    """Connect, and wait until both sides know."""
    where = other.addresses() if addresses is None else addresses
    await network.connect(other.peer_id, where, timeout_s=PATIENCE_S)
    await until(lambda: network.peer_id in other.connected())


async def ask(network: Network, other: Network, payload: bytes = b"hello") -> None:
    """Send a request for ECHO and expect its reply."""
    reply = await network.request(other.peer_id, ECHO, payload, timeout_s=PATIENCE_S)
    assert reply == payload


async def expect(error: type[Exception], work: Awaitable[object]) -> str:
    """Expect that `work` ends in exactly this error; return its sentence."""
    raised: Exception | None = None
    try:
        with trio.fail_after(PATIENCE_S):
            await work
    except error as caught:
        raised = caught
    assert type(raised) is error, f"expected {error.__name__}, got {raised!r}"
    return str(raised)


class Gatekeeper:
    """A handler that keeps requests until they are let go, in any order."""

    def __init__(self) -> None:
        self.waiting: dict[bytes, trio.Event] = {}
        self.most = 0
        self.cancelled = 0

    async def __call__(self, _: PeerId, payload: bytes) -> bytes:
        """Wait, then echo."""
        self.waiting[payload] = trio.Event()
        self.most = max(self.most, len(self.waiting))
        try:
            await self.waiting[payload].wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            del self.waiting[payload]
        return payload

    def let_go(self, payload: bytes) -> None:
        """Let one request be answered."""
        self.waiting[payload].set()


async def check_requests_of_many_sizes(harness: Harness) -> None:
    """Payloads arrive whole, from nothing to the limit."""
    async with running(harness) as (a, b):
        await connect(a, b)
        for size in (0, 1, 3_000, 65_507, 65_536, 300_000, LIMITS.request_bytes):
            await ask(a, b, bytes(range(256)) * (size // 256) + b"x" * (size % 256))


async def check_no_time_left(harness: Harness) -> None:
    """A deadline that has passed already is one that passes, not a mistake."""
    async with running(harness) as (a, b):
        await expect(PeerUnreachable, a.connect(b.peer_id, b.addresses(), timeout_s=-1.0))
        await connect(a, b)
        await expect(RequestTimeout, a.request(b.peer_id, ECHO, b"late", timeout_s=-1.0))
        await ask(a, b)


async def check_connection_serves_both_ways(harness: Harness) -> None:
    """Whoever opened a connection, both sides ask over it."""
    async with running(harness) as (a, b):
        await connect(a, b)
        await ask(a, b)
        await ask(b, a)


async def check_replies_in_any_order(harness: Harness) -> None:
    """A slow request holds up no other."""
    keeper = Gatekeeper()
    names = [b"%d" % number for number in range(20)]
    answered: list[bytes] = []
    async with running(harness, slow=keeper) as (a, b):
        await connect(a, b)

        async def one(name: bytes) -> None:
            assert await a.request(b.peer_id, SLOW, name, timeout_s=PATIENCE_S) == name
            answered.append(name)

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(one, name)
            await until(lambda: len(keeper.waiting) == len(names))
            for name in reversed(names):
                keeper.let_go(name)
                await until(functools.partial(answered.__contains__, name))
        assert answered == names[::-1]


async def check_late_reply_is_dropped(harness: Harness) -> None:
    """After a timeout the stream works on, and nobody gets the reply of another."""
    keeper = Gatekeeper()
    async with running(harness, slow=keeper) as (a, b):
        await connect(a, b)
        await expect(RequestTimeout, a.request(b.peer_id, SLOW, b"late", timeout_s=0.05))
        await until(lambda: b"late" in keeper.waiting)
        async with trio.open_nursery() as nursery:

            async def second() -> None:
                reply = await a.request(b.peer_id, SLOW, b"second", timeout_s=PATIENCE_S)
                assert reply == b"second"

            nursery.start_soon(second)
            await until(lambda: b"second" in keeper.waiting)
            keeper.let_go(b"late")
            await until(lambda: b"late" not in keeper.waiting)
            keeper.let_go(b"second")


async def check_cancelled_callers_harm_nothing(harness: Harness) -> None:
    """Hundreds of requests, cancelled at every stage, leave the connection as it was."""
    events: list[ConnectionEvent] = []
    async with running(harness) as (a, b):
        await connect(a, b)
        a.watch(events.append)
        payload = bytes(100_000)
        for number in range(400):
            with trio.move_on_after((number % 40) * 0.0002):
                await a.request(b.peer_id, ECHO, payload, timeout_s=PATIENCE_S)
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ask, a, b, payload)
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await ask(a, b)
        await ask(b, a)
    assert len([event for event in events if not event.connected]) <= 1, "the connection broke"


async def check_failing_handler(harness: Harness) -> None:
    """A handler that raises costs its stream, not the connection."""

    async def fail(_: PeerId, payload: bytes) -> bytes:
        if payload == b"lost":  # of somebody else: must not pass for a loss of ours
            raise ConnectionLost("elsewhere")
        raise RuntimeError("a bug")

    async with running(harness, slow=fail) as (a, b):
        await connect(a, b)
        for payload in (b"", b"lost", b""):
            await expect(ConnectionLost, a.request(b.peer_id, SLOW, payload, timeout_s=PATIENCE_S))
            await ask(a, b)
        assert b.peer_id in a.connected()


async def check_size_limits(harness: Harness) -> None:
    """Each side enforces the limits it was given, and the connection survives."""

    async def double(_: PeerId, payload: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        return payload * 2

    a = harness.network(everyone, SETTINGS)
    b = harness.network(everyone, SETTINGS)
    for network, request_bytes, reply_bytes in ((a, 2_000, 3_000), (b, 1_000, 4_000)):
        network.serve(SLOW, double, ProtocolLimits(request_bytes, reply_bytes))
        network.serve(ECHO, echo, LIMITS)
    async with a.running(), b.running():
        await connect(a, b)

        async def send(size: int) -> bytes:
            return await a.request(b.peer_id, SLOW, bytes(size), timeout_s=PATIENCE_S)

        assert len(await send(1_000)) == 2_000
        await expect(UsageError, send(2_001))  # more than we may ask
        await expect(ConnectionLost, send(1_500))  # more than b accepts
        assert len(await send(1_000)) == 2_000
        await ask(a, b)


async def check_oversized_replies(harness: Harness) -> None:
    """A reply beyond the limit is not sent; one that is sent all the same is refused."""

    async def big(_: PeerId, payload: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        return bytes(int(payload))

    a = harness.network(everyone, SETTINGS)
    b = harness.network(everyone, SETTINGS)
    a.serve(SLOW, big, ProtocolLimits(100, 1_000))
    b.serve(SLOW, big, ProtocolLimits(100, 5_000))
    async with a.running(), b.running():
        await connect(a, b)
        assert len(await a.request(b.peer_id, SLOW, b"1000", timeout_s=PATIENCE_S)) == 1_000
        await expect(RemoteError, a.request(b.peer_id, SLOW, b"1001", timeout_s=PATIENCE_S))
        await expect(ConnectionLost, a.request(b.peer_id, SLOW, b"5001", timeout_s=PATIENCE_S))
        assert len(await a.request(b.peer_id, SLOW, b"1000", timeout_s=PATIENCE_S)) == 1_000


async def check_gate_refuses_inbound(harness: Harness) -> None:
    """Whom the gate refuses gets no connection and is not listed, not even for a moment."""
    events: list[ConnectionEvent] = []
    outsider = harness.network(everyone, SETTINGS)
    member = harness.network(lambda peer: peer != outsider.peer_id, SETTINGS)
    member.watch(events.append)
    async with member.running(), outsider.running():
        for _ in range(3):
            await expect(
                PeerUnreachable,
                outsider.connect(member.peer_id, member.addresses(), timeout_s=PATIENCE_S),
            )
        assert not events
        assert not outsider.connected()


async def check_gate_refuses_outbound(harness: Harness) -> None:
    """Whom the gate refuses is not dialled."""
    async with running(harness, gate=lambda _: False) as (a, b):
        await expect(PeerUnreachable, a.connect(b.peer_id, b.addresses(), timeout_s=PATIENCE_S))
        assert not a.connected()


async def check_simultaneous_dials(harness: Harness) -> None:
    """Peers that dial each other at once can ask each other at once."""
    for _ in range(8):
        async with running(harness) as (a, b):

            async def side(ours: Network, theirs: Network) -> None:
                await ours.connect(theirs.peer_id, theirs.addresses(), timeout_s=PATIENCE_S)
                for _ in range(3):
                    await ask(ours, theirs)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(side, a, b)
                nursery.start_soon(side, b, a)
            await ask(a, b)
            await ask(b, a)
            await a.disconnect(b.peer_id)
            await until(lambda: not a.connected() and not b.connected())


async def check_simultaneous_connects_share_a_dial(harness: Harness) -> None:
    """However many tasks want a peer, it is dialled once."""
    events: list[ConnectionEvent] = []
    async with running(harness) as (a, b):
        b.watch(events.append)
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(connect, a, b)
        await ask(a, b)
        assert events == [ConnectionEvent(a.peer_id, connected=True)]


async def check_disconnect_wakes_waiters(harness: Harness) -> None:
    """Whoever waits for a reply learns at once that the connection is gone, at both ends."""
    keeper = Gatekeeper()
    async with running(harness, slow=keeper) as (a, b):
        await connect(a, b)
        async with trio.open_nursery() as nursery:
            for ours, theirs, name in ((a, b, b"1"), (a, b, b"2"), (b, a, b"3")):
                request = ours.request(theirs.peer_id, SLOW, name, timeout_s=PATIENCE_S)
                nursery.start_soon(expect, ConnectionLost, request)
            await until(lambda: len(keeper.waiting) == 3)
            await a.disconnect(b.peer_id)
            assert not a.connected()
        await until(lambda: keeper.cancelled == 3)
        await until(lambda: not b.connected())
        await expect(ConnectionLost, a.request(b.peer_id, ECHO, b"", timeout_s=PATIENCE_S))


async def check_reconnect(harness: Harness) -> None:
    """A peer can be dialled again at once, by either side."""
    async with running(harness) as (a, b):
        for dialler, dialled in ((a, b), (b, a), (a, b)):
            await connect(dialler, dialled)
            await ask(a, b)
            await ask(b, a)
            await a.disconnect(b.peer_id)
            await until(lambda: not a.connected() and not b.connected())


async def check_disconnect_from_a_handler(harness: Harness) -> None:
    """A handler may drop the peer it serves; it ends with it."""
    network: list[Network] = []

    async def drop(peer: PeerId, _: bytes) -> bytes:
        await network[0].disconnect(peer)
        return b"never"

    async with running(harness, slow=drop) as (a, b):
        network.append(b)
        await connect(a, b)
        await expect(ConnectionLost, a.request(b.peer_id, SLOW, b"", timeout_s=PATIENCE_S))
        await until(lambda: not a.connected() and not b.connected())
        await connect(a, b)
        await ask(a, b)


async def check_unknown_protocols(harness: Harness) -> None:
    """A protocol that the peer lacks is the peer's refusal, one that we lack is our mistake."""
    a = harness.network(everyone, SETTINGS)
    b = harness.network(everyone, SETTINGS)
    a.serve(SLOW, echo, LIMITS)
    for network in (a, b):
        network.serve(ECHO, echo, LIMITS)
    async with a.running(), b.running():
        await connect(a, b)
        for _ in range(3):
            await expect(RemoteError, a.request(b.peer_id, SLOW, b"", timeout_s=PATIENCE_S))
        await expect(UsageError, b.request(a.peer_id, SLOW, b"", timeout_s=PATIENCE_S))
        await ask(a, b)


async def check_events(harness: Harness) -> None:
    """Events tell every change of `connected`, once."""
    async with running(harness, 3) as (a, b, c):
        events: list[ConnectionEvent] = []
        a.watch(events.append)
        await connect(a, b)
        await connect(c, a)
        await a.connect(b.peer_id, b.addresses(), timeout_s=PATIENCE_S)  # there is one already
        await b.disconnect(a.peer_id)
        await until(lambda: len(events) == 3)
        assert a.connected() == {c.peer_id}
        assert events == [
            ConnectionEvent(b.peer_id, connected=True),
            ConnectionEvent(c.peer_id, connected=True),
            ConnectionEvent(b.peer_id, connected=False),
        ]
        assert await expect(ConnectionLost, a.request(b.peer_id, ECHO, b"", timeout_s=1))


async def check_addresses_that_do_not_answer(harness: Harness) -> None:
    """A dial ends by its deadline, says what it tried, and leaves nothing."""
    async with running(harness) as (a, b):
        before = await settled()
        silent = await harness.silent_address()
        sentence = await expect(
            PeerUnreachable, a.connect(b.peer_id, [harness.dead_address()], timeout_s=PATIENCE_S)
        )
        assert b.peer_id in sentence
        started = trio.current_time()
        sentence = await expect(PeerUnreachable, a.connect(b.peer_id, [silent], timeout_s=0.2))
        assert trio.current_time() - started < 1.0
        assert silent in sentence
        await expect(PeerUnreachable, a.connect(b.peer_id, [], timeout_s=PATIENCE_S))
        await expect(PeerUnreachable, a.connect(b.peer_id, ["nonsense"], timeout_s=PATIENCE_S))
        with trio.move_on_after(0.1):
            await a.connect(b.peer_id, [silent], timeout_s=PATIENCE_S)
        await until(lambda: tasks() <= before)
        await connect(a, b)


async def check_every_address_is_tried(harness: Harness) -> None:
    """One address that answers is enough, wherever it stands in the list."""
    async with running(harness) as (a, b):
        silent = await harness.silent_address()
        addresses = [silent, harness.dead_address(), *b.addresses()]
        await a.connect(b.peer_id, addresses, timeout_s=PATIENCE_S)
        await ask(a, b)


async def check_second_caller_brings_addresses(harness: Harness) -> None:
    """Joining a dial that fails does not lose the addresses that only the second caller knew."""
    async with running(harness) as (a, b), trio.open_nursery() as nursery:
        silent = await harness.silent_address()
        known = [silent, harness.dead_address()]
        nursery.start_soon(connect, a, b, known)
        await trio.lowlevel.checkpoint()
        started = trio.current_time()
        await connect(a, b, [harness.dead_address(), *b.addresses()])
        assert trio.current_time() - started < SETTINGS.dial_timeout_s / 2


async def check_wrong_peers(harness: Harness) -> None:
    """A connection is to the peer that was asked for, and never to ourselves."""
    async with running(harness, 3) as (a, b, c):
        await expect(PeerUnreachable, a.connect(b.peer_id, c.addresses(), timeout_s=PATIENCE_S))
        await expect(PeerUnreachable, a.connect(a.peer_id, a.addresses(), timeout_s=PATIENCE_S))
        await expect(PeerUnreachable, a.connect(b.peer_id, a.addresses(), timeout_s=PATIENCE_S))
        await until(lambda: not a.connected() and not c.connected())


async def check_idle_streams_close(harness: Harness) -> None:
    """A stream that nobody uses goes, and comes back when it is needed; the connection stays."""
    async with running(harness, settings=replace(SETTINGS, stream_idle_s=0.1)) as (a, b):
        await connect(a, b)
        before = await settled()
        for _ in range(3):
            await ask(a, b)
            await until(lambda: tasks() <= before)
        assert a.connected() == {b.peer_id}


async def check_request_bound(harness: Harness) -> None:
    """No more requests of a peer are served at a time than allowed; the others wait."""
    keeper = Gatekeeper()
    settings = replace(SETTINGS, max_requests_per_peer=4)
    names = [b"%d" % number for number in range(13)]
    async with running(harness, settings=settings, slow=keeper) as (a, b):
        await connect(a, b)
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(
                    lambda name: a.request(b.peer_id, SLOW, name, timeout_s=PATIENCE_S), name
                )
            for _ in names:
                await until(lambda: bool(keeper.waiting))
                await ask(a, b)  # another protocol is not held up
                keeper.let_go(next(iter(keeper.waiting)))
                await trio.lowlevel.checkpoint()
        assert keeper.most <= 4


async def check_connection_bound(harness: Harness) -> None:
    """Beyond the limit nobody gets in or out, until somebody leaves."""
    settings = replace(SETTINGS, max_connections=2)
    async with running(harness, 4, settings=settings) as (a, b, c, d):
        await connect(a, b)
        await connect(c, a)
        for dialler, dialled in ((d, a), (a, d)):
            await expect(
                PeerUnreachable,
                dialler.connect(dialled.peer_id, dialled.addresses(), timeout_s=PATIENCE_S),
            )
        await c.disconnect(a.peer_id)
        await until(lambda: a.connected() == {b.peer_id})
        await connect(d, a)


async def check_end_of_running(harness: Harness) -> None:
    """Stopping wakes whoever waits, and the peers learn of it."""
    keeper = Gatekeeper()
    async with running(harness, 1, slow=keeper) as (b,), trio.open_nursery() as nursery:
        a = harness.network(everyone, SETTINGS)
        a.serve(SLOW, keeper, LIMITS)
        async with a.running():
            await connect(a, b)
            nursery.start_soon(
                expect, ConnectionLost, a.request(b.peer_id, SLOW, b"1", timeout_s=PATIENCE_S)
            )
            nursery.start_soon(
                expect, ConnectionLost, b.request(a.peer_id, SLOW, b"2", timeout_s=PATIENCE_S)
            )
            await until(lambda: len(keeper.waiting) == 2)
        assert not a.connected()
        await until(lambda: not b.connected())
        await expect(PeerUnreachable, b.connect(a.peer_id, a.addresses(), timeout_s=PATIENCE_S))
        await expect(PeerUnreachable, a.connect(b.peer_id, b.addresses(), timeout_s=PATIENCE_S))


async def check_errors_pass_through(harness: Harness) -> None:
    """An error raised while a network runs comes out as it is."""

    async def run() -> None:
        async with running(harness):
            raise NetworkError("of the caller")

    assert await expect(NetworkError, run()) == "of the caller"


async def check_many_connects(harness: Harness) -> None:
    """Peers that come and go leave nothing behind, and the network reachable."""
    async with running(harness) as (a, b):
        before = await settled()
        for number in range(300):
            await connect(a, b)
            if number % 10 == 0:
                await ask(a, b)
            leaver, left = (a, b) if number % 2 else (b, a)
            await leaver.disconnect(left.peer_id)
            await until(lambda: not a.connected() and not b.connected())
        await until(lambda: tasks() <= before)
        await connect(b, a)
        await ask(a, b)


CHECKS: Final[tuple[Callable[[Harness], Awaitable[None]], ...]] = (
    check_requests_of_many_sizes,
    check_no_time_left,
    check_connection_serves_both_ways,
    check_replies_in_any_order,
    check_late_reply_is_dropped,
    check_cancelled_callers_harm_nothing,
    check_failing_handler,
    check_size_limits,
    check_oversized_replies,
    check_gate_refuses_inbound,
    check_gate_refuses_outbound,
    check_simultaneous_dials,
    check_simultaneous_connects_share_a_dial,
    check_disconnect_wakes_waiters,
    check_reconnect,
    check_disconnect_from_a_handler,
    check_unknown_protocols,
    check_events,
    check_addresses_that_do_not_answer,
    check_every_address_is_tried,
    check_second_caller_brings_addresses,
    check_wrong_peers,
    check_idle_streams_close,
    check_request_bound,
    check_connection_bound,
    check_end_of_running,
    check_errors_pass_through,
    check_many_connects,
)
