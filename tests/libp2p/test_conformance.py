import os
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from zerorag_p2p.config import NetworkConfig
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.libp2p_network import Libp2pNetwork
from zerorag_p2p.node.network import Gate, Network
from zerorag_p2p.testnet.conformance import CHECKS, Harness, until
from zerorag_p2p.testnet.faults import Conditions, Faults
from zerorag_p2p.testnet.memory_network import MemoryHub, MemoryNetwork

LOOPBACK = "/ip4/127.0.0.1/tcp/0"


class Libp2pHarness:
    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []

    def network(self, gate: Gate, settings: NetworkConfig) -> Network:
        return Libp2pNetwork(os.urandom(32), [LOOPBACK], gate=gate, settings=settings)

    def _bound(self) -> tuple[socket.socket, str]:
        bound = socket.socket()
        self.sockets.append(bound)
        bound.bind(("127.0.0.1", 0))
        return bound, f"/ip4/127.0.0.1/tcp/{bound.getsockname()[1]}"

    def dead_address(self) -> str:
        _, address = self._bound()  # bound, so that nobody else gets it, but not listening
        return address

    async def silent_address(self) -> str:
        listener, address = self._bound()
        listener.listen()  # the kernel accepts; nobody reads
        return address


class MemoryHarness:
    def __init__(self, conditions: Conditions | None = None) -> None:
        self.hub = MemoryHub(Faults(conditions))
        self.peers = 0

    def network(self, gate: Gate, settings: NetworkConfig) -> Network:
        self.peers += 1
        # Not in order of creation: which of two ids is smaller decides who keeps a link.
        peer = PeerId(f"peer-{self.peers * 7 % 10}-{self.peers}")
        return MemoryNetwork(self.hub, peer, gate=gate, settings=settings)

    def dead_address(self) -> str:
        return "/memory/0"

    async def silent_address(self) -> str:
        self.hub.silence("/memory/silent")
        return "/memory/silent"


@pytest.fixture(params=["libp2p", "memory", "memory-virtual-time", "memory-delayed"])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    if request.param == "libp2p":
        made = Libp2pHarness()
        yield made
        for bound in made.sockets:
            bound.close()
        return
    if request.param != "memory":
        request.getfixturevalue("autojump_clock")
    delayed = Conditions(latency_s=0.002, jitter_s=0.001, bandwidth=1e9)
    yield MemoryHarness(delayed if request.param == "memory-delayed" else None)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_promise(check: Callable[[Harness], Awaitable[None]], harness: Harness) -> None:
    before = open_files()
    await check(harness)
    held = len(getattr(harness, "sockets", ()))
    await until(lambda: open_files() <= before + held)
