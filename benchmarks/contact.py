"""What a contact costs: our network against a bare libp2p echo of the same sizes.

    python benchmarks/contact.py [--contacts 200] [--rounds 5]

A contact is a request of 3 KB and a reply of 20 KB. The bare echo is a stock py-libp2p host with
Noise and Yamux, one long-lived stream and length-prefixed messages: the least that a contact over
libp2p can be. Each client and each server is a process of its own; rounds of both alternate, so
that a busy machine slows both. Prints a sentence, and a JSON object on the last line.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import trio

# The processes of one measurement inherit the sizes.
REQUEST = bytes(int(os.environ.get("BENCHMARK_REQUEST_BYTES", "3000")))
REPLY = bytes(int(os.environ.get("BENCHMARK_REPLY_BYTES", "20000")))
PROTOCOL = "/benchmark/contact/1.0.0"
LENGTH = struct.Struct(">I")


async def ours_server() -> None:
    from zerorag_p2p.config import NetworkConfig
    from zerorag_p2p.node.libp2p_network import Libp2pNetwork
    from zerorag_p2p.node.network import ProtocolLimits

    async def answer(_peer: str, _request: bytes) -> bytes:
        return REPLY

    network = Libp2pNetwork(
        os.urandom(32),
        ["/ip4/127.0.0.1/tcp/0"],
        gate=lambda _: True,
        settings=NetworkConfig(),
    )
    network.serve(PROTOCOL, answer, ProtocolLimits(1 << 20, 1 << 20))
    async with network.running():
        print(network.peer_id, network.addresses()[0], flush=True)
        await trio.sleep_forever()


async def ours_client(peer: str, address: str) -> None:
    from zerorag_p2p.config import NetworkConfig
    from zerorag_p2p.model import PeerId
    from zerorag_p2p.node.libp2p_network import Libp2pNetwork
    from zerorag_p2p.node.network import ProtocolLimits

    async def answer(_peer: str, _request: bytes) -> bytes:
        return REPLY

    network = Libp2pNetwork(os.urandom(32), [], gate=lambda _: True, settings=NetworkConfig())
    network.serve(PROTOCOL, answer, ProtocolLimits(1 << 20, 1 << 20))
    other = PeerId(peer)

    async def contact() -> None:
        await network.request(other, PROTOCOL, REQUEST, timeout_s=10)

    async def cold() -> None:
        await network.disconnect(other)
        await network.connect(other, [address], timeout_s=10)
        await contact()

    async with network.running():
        await network.connect(other, [address], timeout_s=10)
        await measure(contact, cold)


def bare_host():  # type: ignore[no-untyped-def]
    from libp2p import new_host
    from libp2p.crypto.ed25519 import create_new_key_pair
    from libp2p.crypto.x25519 import create_new_key_pair as new_x25519
    from libp2p.network.config import ConnectionConfig
    from libp2p.security.noise.transport import PROTOCOL_ID, Transport
    from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX_ID
    from libp2p.stream_muxer.yamux.yamux import Yamux
    from multiaddr import Multiaddr

    keys = create_new_key_pair()
    address = Multiaddr("/ip4/127.0.0.1/tcp/0")
    host = new_host(
        key_pair=keys,
        listen_addrs=[address],
        connection_config=ConnectionConfig(
            min_connections=0, low_watermark=0, max_connections_per_peer=1
        ),
        sec_opt={PROTOCOL_ID: Transport(keys, noise_privkey=new_x25519().private_key)},
        muxer_opt={YAMUX_ID: Yamux},
    )
    return host, address


async def read_message(stream, buffer: bytearray) -> bytes:  # type: ignore[no-untyped-def]
    while len(buffer) < 4 or len(buffer) < 4 + LENGTH.unpack_from(buffer)[0]:
        buffer += await stream.read(262_144)
    end = 4 + LENGTH.unpack_from(buffer)[0]
    message = bytes(buffer[4:end])
    del buffer[:end]
    return message


async def echo_server() -> None:
    host, address = bare_host()

    async def serve(stream) -> None:  # type: ignore[no-untyped-def]
        buffer = bytearray()
        while True:
            await read_message(stream, buffer)
            await stream.write(LENGTH.pack(len(REPLY)) + REPLY)

    host.set_stream_handler(PROTOCOL, serve)
    async with host.run([address]):
        print(host.get_id(), host.get_transport_addrs()[0], flush=True)
        await trio.sleep_forever()


async def echo_client(peer: str, address: str) -> None:
    from libp2p.peer.id import ID
    from libp2p.peer.peerinfo import PeerInfo
    from multiaddr import Multiaddr

    host, _ = bare_host()
    info = PeerInfo(ID.from_base58(peer), [Multiaddr(address)])
    async with host.run([]):
        await host.connect(info)
        stream = await host.new_stream(info.peer_id, [PROTOCOL])
        buffer = bytearray()

        async def contact() -> None:
            await stream.write(LENGTH.pack(len(REQUEST)) + REQUEST)
            await read_message(stream, buffer)

        await measure(contact, None)


async def measure(
    contact: Callable[[], Awaitable[None]], cold: Callable[[], Awaitable[None]] | None
) -> None:
    """Time what the parent asks for on standard input: "warm N" or "cold N"."""
    for _ in range(100):
        await contact()
    print("ready", flush=True)
    while line := await trio.to_thread.run_sync(sys.stdin.readline):
        kind, count = line.split()
        work = contact if kind == "warm" else cold
        assert work is not None
        times = []
        for _ in range(int(count)):
            started = time.perf_counter()
            await work()
            times.append(time.perf_counter() - started)
        print(statistics.median(times) * 1_000, flush=True)


class Process:
    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--role", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def time_ms(self, kind: str, count: int) -> float:
        assert self.process.stdin is not None
        print(kind, count, file=self.process.stdin, flush=True)
        return float(self.line())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contacts", type=int, default=200, help="contacts a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        name, *values = arguments.role
        trio.run(globals()[name], *values)
        return

    processes: list[Process] = []
    try:
        clients = {}
        for kind in ("ours", "echo"):
            server = Process(f"{kind}_server")
            processes.append(server)
            client = clients[kind] = Process(f"{kind}_client", *server.line().split())
            processes.append(client)
        for client in clients.values():
            assert client.line() == "ready"
        warm: dict[str, list[float]] = {"ours": [], "echo": []}
        for _ in range(arguments.rounds):
            for kind, client in clients.items():
                warm[kind].append(client.time_ms("warm", arguments.contacts))
        cold = clients["ours"].time_ms("cold", 50)
    finally:
        for process in reversed(processes):
            process.process.kill()
            process.process.communicate()
    ours, echo = (statistics.median(warm[kind]) for kind in ("ours", "echo"))
    print(
        f"A contact (3 KB, 20 KB back) takes {ours:.2f} ms over a warm stream of ours, "
        f"{echo:.2f} ms over a bare libp2p echo: {ours / echo:.2f} times. "
        f"Dial, stream and contact: {cold:.1f} ms."
    )
    print(
        json.dumps(
            {
                "benchmark": "contact",
                "ours_ms": round(ours, 3),
                "echo_ms": round(echo, 3),
                "ratio": round(ours / echo, 3),
                "cold_ms": round(cold, 3),
                "contacts": arguments.contacts,
                "rounds": arguments.rounds,
            }
        )
    )


if __name__ == "__main__":
    main()
