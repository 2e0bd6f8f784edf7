"""A stock py-libp2p host and our network understand each other, whoever dials."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import trio

from zerorag_p2p.config import NetworkConfig
from zerorag_p2p.errors import RemoteError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.libp2p_network import Libp2pNetwork
from zerorag_p2p.testnet.conformance import ECHO, LIMITS, PATIENCE_S, SLOW, echo, everyone, expect

STOCK_HOST = """
import logging, struct, sys
logging.getLogger().addHandler(logging.NullHandler())
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as new_x25519
from libp2p.peer.peerinfo import PeerInfo
from libp2p.peer.id import ID
from libp2p.security.noise.transport import PROTOCOL_ID, Transport
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX_ID, Yamux
from multiaddr import Multiaddr

keys = create_new_key_pair()
listen = [Multiaddr("/ip4/127.0.0.1/tcp/0")]
host = new_host(
    key_pair=keys,
    listen_addrs=listen,
    sec_opt={PROTOCOL_ID: Transport(keys, noise_privkey=new_x25519().private_key)},
    muxer_opt={YAMUX_ID: Yamux},
)

async def read_exactly(stream, size):
    data = b""
    while len(data) < size:
        data += await stream.read(size - len(data))
    return data

async def answer(stream):
    while True:
        length, request_id = struct.unpack(">II", await read_exactly(stream, 8))
        payload = await read_exactly(stream, length - 4)
        await stream.write(struct.pack(">II", length, request_id) + payload[::-1])

async def main():
    host.set_stream_handler("/conformance/echo/1.0.0", answer)
    async with host.run(listen):
        print(host.get_id(), host.get_transport_addrs()[0], flush=True)
        peer, address = (await trio.to_thread.run_sync(sys.stdin.readline)).split()
        info = PeerInfo(ID.from_base58(peer), [Multiaddr(address)])
        await host.connect(info)
        stream = await host.new_stream(info.peer_id, ["/unknown/1", "/conformance/echo/1.0.0"])
        await stream.write(struct.pack(">II", 4 + 100_000, 9) + b"y" * 100_000)
        await stream.close_write()
        print(await read_exactly(stream, 8 + 100_000) ==
              struct.pack(">II", 4 + 100_000, 9) + b"y" * 100_000, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.fixture
def stock_host() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", STOCK_HOST]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


@pytest.mark.processes
async def test_both_directions(stock_host: subprocess.Popen[str]) -> None:
    assert stock_host.stdin is not None
    assert stock_host.stdout is not None
    text, address = stock_host.stdout.readline().split()
    peer = PeerId(text)
    network = Libp2pNetwork(
        os.urandom(32), ["/ip4/127.0.0.1/tcp/0"], gate=everyone, settings=NetworkConfig()
    )
    network.serve(ECHO, echo, LIMITS)
    network.serve(SLOW, echo, LIMITS)
    async with network.running():
        await network.connect(peer, [address], timeout_s=PATIENCE_S)
        for size in (0, 3_000, 500_000):
            payload = os.urandom(size)
            reply = await network.request(peer, ECHO, payload, timeout_s=PATIENCE_S)
            assert reply == payload[::-1]
        await expect(RemoteError, network.request(peer, SLOW, b"", timeout_s=PATIENCE_S))
        stock_host.stdin.write(f"{network.peer_id} {network.addresses()[0]}\n")
        stock_host.stdin.flush()
        assert await trio.to_thread.run_sync(stock_host.stdout.readline) == "True\n"
