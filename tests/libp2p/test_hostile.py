"""Peers that mean harm, are broken or die: what is refused, what survives, what is left behind."""

import contextlib
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import psutil
import pytest
import trio
from libp2p.io.exceptions import ConnectionClosedError
from libp2p.stream_muxer.yamux.yamux import FLAG_SYN, TYPE_DATA, TYPE_WINDOW_UPDATE
from libp2p.utils import encode_delim

from zerorag_p2p.config import (
    CONNECTION_BUFFER_BYTES,
    MAX_HANDSHAKES,
    MAX_INBOUND_PER_PEER,
    MAX_STREAMS_PER_PROTOCOL,
)
from zerorag_p2p.errors import ConnectionLost, NetworkError, PeerUnreachable, RequestTimeout
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.libp2p_network import Libp2pNetwork, _Libp2pLink
from zerorag_p2p.node.tcp_address import TcpAddress
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
    settled,
    tasks,
    until,
)
from zerorag_p2p.wire.framing import encode_frame

LOOPBACK = "/ip4/127.0.0.1/tcp/0"
QUICK = replace(SETTINGS, dial_timeout_s=0.5)
MULTISTREAM = encode_delim(b"/multistream/1.0.0")


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def make(**changes: object) -> Libp2pNetwork:
    network = Libp2pNetwork(
        changes.pop("seed", None) or os.urandom(32),  # type: ignore[arg-type]
        changes.pop("listen", [LOOPBACK]),  # type: ignore[arg-type]
        gate=changes.pop("gate", everyone),  # type: ignore[arg-type]
        settings=changes.pop("settings", SETTINGS),  # type: ignore[arg-type]
    )
    network.serve(ECHO, echo, LIMITS)
    network.serve(SLOW, changes.pop("slow", echo), LIMITS)  # type: ignore[arg-type]
    assert not changes
    return network


@contextlib.asynccontextmanager
async def victim_and_friend(
    **changes: object,
) -> AsyncIterator[tuple[Libp2pNetwork, Libp2pNetwork]]:
    """A network under attack, and a peer that has to be served all the while.

    Afterwards the friend still is, and neither task nor descriptor is left.
    """
    before = await settled(), files()
    victim, friend = make(**changes), make()
    async with victim.running(), friend.running():
        await connect(friend, victim)
        await ask(friend, victim)
        calm = await settled(), files()
        yield victim, friend
        await until(lambda: victim.connected() == {friend.peer_id})
        await ask(friend, victim)
        await until(lambda: tasks() <= calm[0] and files() <= calm[1])
    await until(lambda: (tasks(), files()) <= before)


@contextlib.asynccontextmanager
async def attacker(victim: Libp2pNetwork, **changes: object) -> AsyncIterator[_Libp2pLink]:
    """An authenticated connection to the victim, to misuse at will."""
    link = await make(**changes)._dial(victim.peer_id, victim.addresses()[0])
    assert isinstance(link, _Libp2pLink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link._muxer.start)
        await link._muxer.event_started.wait()
        try:
            yield link
        finally:
            link.abort()


async def raw(network: Libp2pNetwork) -> trio.SocketStream:
    address = TcpAddress.parse(network.addresses()[0])
    return await trio.open_tcp_stream(address.host, address.port)


async def drain(stream: trio.SocketStream) -> bytes:
    """What comes until the other side closes."""
    data = bytearray()
    with trio.fail_after(PATIENCE_S), contextlib.suppress(trio.BrokenResourceError):
        async for piece in stream:
            data += piece
    return bytes(data)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


async def test_plaintext_only_dialler(caplog: pytest.LogCaptureFixture) -> None:
    async with victim_and_friend() as (victim, _):
        for _ in range(3):
            async with await raw(victim) as stream:
                await stream.send_all(MULTISTREAM + encode_delim(b"/plaintext/2.0.0"))
                answer = bytearray()
                while not answer.endswith(encode_delim(b"na")):
                    answer += await stream.receive_some()
                await stream.send_eof()
                assert await drain(stream) == b""
    (warning,) = warnings(caplog)
    assert "/noise" in warning
    assert "/plaintext/2.0.0" in warning


@pytest.mark.parametrize(
    "garbage",
    [
        MULTISTREAM + b"\x03\xff\xfe\n",
        b"\xff" * 64,
        b"\x00" * 64,
        MULTISTREAM + b"\xff\xff\xff\xff\x0f" + b"x" * 100,
        MULTISTREAM + encode_delim(b"/noise") + b"\x00\x20" + b"e" * 32 + b"\x00\x05hello",
        MULTISTREAM + encode_delim(b"/noise") + b"\xff\xff" + b"x" * 65_535,
        b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
        b"",
    ],
    ids=["utf8", "ones", "zeros", "length", "noise", "noise-long", "http", "nothing"],
)
async def test_garbage_before_the_handshake(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with victim_and_friend(settings=QUICK) as (victim, _):
        for _ in range(2):
            async with await raw(victim) as stream:
                with contextlib.suppress(trio.BrokenResourceError):
                    await stream.send_all(garbage)
                await drain(stream)
    assert len(warnings(caplog)) == 1


async def test_silent_connections_do_not_keep_others_out() -> None:
    async with victim_and_friend(settings=replace(SETTINGS, dial_timeout_s=2.0)) as (victim, _):
        silent = [await raw(victim) for _ in range(MAX_HANDSHAKES + 20)]
        other = make()
        async with other.running():
            await connect(other, victim)
            await ask(other, victim)
        for stream in silent:
            await drain(stream)
            await stream.aclose()


async def test_bad_protocol_ids_on_a_stream() -> None:
    async with victim_and_friend() as (victim, _), attacker(victim) as link:
        for line in (b"\x03\xff\xfe\n", encode_delim(b""), encode_delim(b"ls"), b"\xff" * 20):
            stream = await link._muxer.open_stream()
            await stream.write(MULTISTREAM + line)
        opened = await link.open_stream(ECHO)  # the connection itself is well
        await opened.send(struct.pack(">II", 6, 7) + b"ok")
        assert await opened.receive() == struct.pack(">II", 6, 7) + b"ok"


async def test_frame_that_claims_4_gib(caplog: pytest.LogCaptureFixture) -> None:
    async with victim_and_friend() as (victim, _), attacker(victim) as link:
        memory = psutil.Process().memory_info().rss
        for _ in range(3):
            stream = await link.open_stream(ECHO)
            await stream.send(struct.pack(">II", 0xFFFF_FFFF, 1) + bytes(1_000))
            await expect(ConnectionLost, stream.receive())
        assert psutil.Process().memory_info().rss - memory < 50 << 20
    (warning,) = warnings(caplog)
    assert "broke the framing" in warning


async def test_data_beyond_the_window() -> None:
    keeper = Gatekeeper()
    settings = replace(SETTINGS, max_requests_per_peer=1)
    async with (
        victim_and_friend(settings=settings, slow=keeper) as (victim, _),
        attacker(victim) as link,
    ):
        stream = await link.open_stream(SLOW)
        for _ in range(2):  # the first is served, the second waits: nothing more is read
            await stream.send(struct.pack(">II", 5, 1) + b"1")
        await until(lambda: bool(keeper.waiting))
        stream_id = next(iter(link._muxer.streams))
        piece = struct.pack("!BBHII", 0, TYPE_DATA, 0, stream_id, 65_000) + bytes(65_000)
        sent = 0
        with contextlib.suppress(ConnectionClosedError):
            while not link._muxer.event_shutting_down.is_set():
                await link._muxer._write_frame(piece)
                sent += len(piece)
                assert sent < 3 * CONNECTION_BUFFER_BYTES
        await until(lambda: len(victim.connected()) == 1)


async def test_streams_without_a_protocol() -> None:
    async with victim_and_friend() as (victim, _), attacker(victim) as link:
        for number in range(1_001, 1_401, 2):
            frame = struct.pack("!BBHII", 0, TYPE_WINDOW_UPDATE, FLAG_SYN, number, 0)
            await link._muxer._write_frame(frame)
        stream = await link._muxer.open_stream()
        await until(lambda: stream.closed)  # there are too many: dropped


async def test_too_many_streams_for_a_protocol(caplog: pytest.LogCaptureFixture) -> None:
    async with victim_and_friend() as (victim, _), attacker(victim) as link:
        streams = [await link.open_stream(ECHO) for _ in range(MAX_STREAMS_PER_PROTOCOL)]

        async def one_more() -> None:
            await (await link.open_stream(ECHO)).receive()

        for _ in range(2):
            await expect(ConnectionLost, one_more())
        await streams[0].send(struct.pack(">II", 4, 7))
        assert await streams[0].receive() == struct.pack(">II", 4, 7)
    assert len(warnings(caplog)) == 1


async def test_many_streams_have_no_more_requests_in_progress_than_one() -> None:
    keeper = Gatekeeper()
    settings = replace(SETTINGS, max_requests_per_peer=2)
    other = make()
    async with (
        victim_and_friend(settings=settings, slow=keeper) as (victim, _),
        other.running(),
        attacker(victim) as link,
        trio.open_nursery() as nursery,
    ):
        await connect(other, victim)
        for number in range(MAX_STREAMS_PER_PROTOCOL):
            stream = await link.open_stream(SLOW)
            for request in range(3):
                await stream.send(encode_frame(request, b"%d of %d" % (request, number)))
        await until(lambda: len(keeper.waiting) == 2)
        nursery.start_soon(
            lambda: other.request(victim.peer_id, SLOW, b"other", timeout_s=PATIENCE_S)
        )
        await until(lambda: b"other" in keeper.waiting)
        for _ in range(3 * MAX_STREAMS_PER_PROTOCOL):
            await until(lambda: len(keeper.waiting) > 1)
            name = next(name for name in keeper.waiting if name != b"other")
            keeper.let_go(name)
            await until(lambda name=name: name not in keeper.waiting)
        assert set(keeper.waiting) == {b"other"}
        assert keeper.most == 3
        keeper.let_go(b"other")


async def test_garbage_after_the_handshake() -> None:
    async with victim_and_friend() as (victim, _):
        for garbage in (b"\xff" * 12, os.urandom(4_096), b"\x00" * 11):
            async with attacker(victim) as link:
                await link._muxer.secured_conn.write(garbage)
        async with attacker(victim) as link:
            await link._muxer._socket.write(b"\x00\x20" + bytes(32))  # not a Noise message
            await until(lambda: len(victim.connected()) == 1)


async def test_peer_outside_the_roster(caplog: pytest.LogCaptureFixture) -> None:
    outsider = make()
    async with victim_and_friend(gate=lambda peer: peer != outsider.peer_id) as (victim, _):
        async with outsider.running():
            for _ in range(3):
                with pytest.raises(PeerUnreachable):
                    await outsider.connect(victim.peer_id, victim.addresses(), timeout_s=5)
        assert len(victim.connected()) == 1
    assert [outsider.peer_id in text for text in warnings(caplog)] == [True]


async def test_revoked_peer_is_evicted_and_stays_out() -> None:
    revoked: set[PeerId] = set()
    async with victim_and_friend(gate=lambda peer: peer not in revoked) as (victim, _):
        member = make()
        async with member.running():
            await connect(member, victim)
            await ask(victim, member)
            revoked.add(member.peer_id)
            await victim.disconnect(member.peer_id)
            await until(lambda: not member.connected())
            await expect(
                PeerUnreachable,
                member.connect(victim.peer_id, victim.addresses(), timeout_s=PATIENCE_S),
            )


async def test_revoked_peer_that_is_still_connected_gets_no_new_stream() -> None:
    revoked: set[PeerId] = set()
    async with victim_and_friend(gate=lambda peer: peer not in revoked) as (victim, _):
        member = make()
        async with member.running():
            await connect(member, victim)
            revoked.add(member.peer_id)
            await expect(
                ConnectionLost, member.request(victim.peer_id, ECHO, b"", timeout_s=PATIENCE_S)
            )


async def test_many_connections_of_one_peer() -> None:
    seed = os.urandom(32)
    async with victim_and_friend() as (victim, _), contextlib.AsyncExitStack() as stack:
        links = [
            await stack.enter_async_context(attacker(victim, seed=seed))
            for _ in range(MAX_INBOUND_PER_PEER + 3)
        ]
        for link in links[:3]:
            await until(link._muxer.event_shutting_down.is_set)
        for link in links[3:]:
            await link.open_stream(ECHO)


async def test_peer_that_accepts_and_never_answers() -> None:
    # The attacker runs Yamux, and nobody accepts its streams.
    async with victim_and_friend(settings=QUICK) as (victim, _), attacker(victim) as link:
        silent = link_peer(victim)
        await expect(RequestTimeout, victim.request(silent, ECHO, b"", timeout_s=0.1))
        await expect(ConnectionLost, victim.request(silent, ECHO, b"", timeout_s=5))
        await victim.disconnect(silent)
        await until(link._muxer.event_shutting_down.is_set)


def link_peer(victim: Libp2pNetwork) -> PeerId:
    """The peer that dialled last."""
    return list(victim._links)[-1]


@pytest.mark.slow
async def test_peer_that_asks_and_never_reads() -> None:
    async with victim_and_friend() as (victim, _), attacker(victim) as link:
        stream = await link.open_stream(ECHO)
        request = struct.pack(">II", 4 + 1_000_000, 1) + bytes(1_000_000)
        with contextlib.suppress(ConnectionLost):
            for _ in range(20):
                await stream.send(request)
        await until(lambda: not victim._links[link_peer(victim)][0].streams)


PEER_PROCESS = """
import os, trio
from zerorag_p2p.config import NetworkConfig
from zerorag_p2p.node.libp2p_network import Libp2pNetwork
from zerorag_p2p.node.network import ProtocolLimits
from zerorag_p2p.testnet.conformance import ECHO, LIMITS, SLOW, echo, everyone

async def never(peer, payload):
    await trio.sleep_forever()

async def main():
    network = Libp2pNetwork(
        os.urandom(32), ["/ip4/127.0.0.1/tcp/0"], gate=everyone, settings=NetworkConfig())
    network.serve(ECHO, echo, LIMITS)
    network.serve(SLOW, never, LIMITS)
    async with network.running():
        print(network.peer_id, network.addresses()[0], flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@contextlib.contextmanager
def peer_process() -> Iterator[tuple[subprocess.Popen[str], PeerId, str]]:
    command = [sys.executable, "-c", PEER_PROCESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            peer, address = process.stdout.readline().split()
            yield process, PeerId(peer), address
        finally:
            process.kill()


@pytest.mark.processes
async def test_kill_while_requests_wait() -> None:
    with peer_process() as (process, peer, address):
        async with victim_and_friend() as (victim, _):
            await victim.connect(peer, [address], timeout_s=PATIENCE_S)
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    request = victim.request(peer, SLOW, bytes(1_000), timeout_s=PATIENCE_S)
                    nursery.start_soon(expect, ConnectionLost, request)
                await settled()
                process.kill()
            await expect(PeerUnreachable, victim.connect(peer, [address], timeout_s=PATIENCE_S))


@pytest.mark.processes
@pytest.mark.parametrize("size", [1_000, 2_000_000], ids=["small", "blocked"])
async def test_frozen_peer_is_dropped_in_time(size: int) -> None:
    with peer_process() as (process, peer, address):
        async with victim_and_friend(settings=QUICK) as (victim, _):
            await victim.connect(peer, [address], timeout_s=PATIENCE_S)
            await victim.request(peer, ECHO, b"", timeout_s=PATIENCE_S)
            process.send_signal(signal.SIGSTOP)
            async with trio.open_nursery() as nursery:

                async def one() -> None:
                    with pytest.raises(RequestTimeout):
                        await victim.request(peer, ECHO, bytes(size), timeout_s=0.3)

                for _ in range(10):
                    nursery.start_soon(one)
            started = trio.current_time()
            await victim.disconnect(peer)
            assert trio.current_time() - started < QUICK.close_timeout_s
            await expect(PeerUnreachable, victim.connect(peer, [address], timeout_s=PATIENCE_S))


async def fails_to_listen(listen: str) -> str:
    async def run() -> None:
        async with make(listen=[listen]).running():
            pass

    return await expect(NetworkError, run())


async def test_port_that_is_taken() -> None:
    before = files()
    async with make().running() as _, contextlib.AsyncExitStack() as stack:
        network = make()
        await stack.enter_async_context(network.running())
        (address,) = network.addresses()
        assert await fails_to_listen(address) == (
            f"{address} is already in use; choose another port in network.listen"
        )
    with socket.socket() as shared:  # as a stock py-libp2p host listens
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(("127.0.0.1", 0))
        shared.listen()
        address = f"/ip4/127.0.0.1/tcp/{shared.getsockname()[1]}"
        assert "already in use" in await fails_to_listen(address)
    assert files() == before


@pytest.mark.parametrize(
    ("listen", "problem"),
    [
        ("nonsense", "not a multiaddr"),
        ("/ip4/127.0.0.1/udp/1", "not the address of a TCP port"),
        ("/dns4/localhost/tcp/0", "has to be an IP address"),
        ("/ip4/192.0.2.1/tcp/4001", "not an address of this machine"),
        ("/ip4/127.0.0.1/tcp/0/ws", "beyond a TCP port"),
    ],
)
async def test_address_that_cannot_be_listened_on(listen: str, problem: str) -> None:
    assert problem in await fails_to_listen(listen)


async def test_wildcards_are_neither_announced_nor_dialled() -> None:
    network = make(listen=["/ip4/0.0.0.0/tcp/0"])
    other = make(listen=[])
    async with network.running(), other.running():
        assert network.addresses()
        assert not any(TcpAddress.parse(item).is_wildcard for item in network.addresses())
        await other.connect(network.peer_id, network.addresses(), timeout_s=PATIENCE_S)
        await ask(other, network)
        await ask(network, other)
        assert other.addresses() == ()
        port = TcpAddress.parse(network.addresses()[0]).port
        await other.disconnect(network.peer_id)
        sentence = await expect(
            PeerUnreachable,
            other.connect(network.peer_id, [f"/ip4/0.0.0.0/tcp/{port}"], timeout_s=PATIENCE_S),
        )
        assert "cannot be dialled" in sentence


async def test_names_and_peer_ids_in_addresses() -> None:
    network, other = make(), make()
    async with network.running(), other.running():
        port = TcpAddress.parse(network.addresses()[0]).port
        address = f"/dns4/localhost/tcp/{port}/p2p/{network.peer_id}"
        await other.connect(network.peer_id, [address], timeout_s=PATIENCE_S)
        await other.disconnect(network.peer_id)
        address = f"{network.addresses()[0]}/p2p/{other.peer_id}"
        await expect(
            PeerUnreachable, other.connect(network.peer_id, [address], timeout_s=PATIENCE_S)
        )


async def test_peer_ids_that_are_none() -> None:
    network = make()
    async with network.running():
        for peer in ("", "0OIl", "x" * 500):
            dial = network.connect(PeerId(peer), network.addresses(), timeout_s=PATIENCE_S)
            await expect(PeerUnreachable, dial)
