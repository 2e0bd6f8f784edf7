"""Whole nodes in one process, over either network."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import trio

from zerorag_p2p.config import (
    EmbeddingConfig,
    MembershipConfig,
    NetworkConfig,
    NodeConfig,
    RoutingConfig,
)
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.library.records import Record
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.files import load_identity
from zerorag_p2p.node.libp2p_network import Libp2pNetwork
from zerorag_p2p.node.network import Gate, Network, ProtocolLimits
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.testnet.memory_network import MemoryHub, MemoryNetwork
from zerorag_p2p.testnet.processes import LocalConsortium
from zerorag_p2p.wire.protocols import LIMITS, SUPPORTED

NETWORKS = ("memory", "libp2p")


@dataclass
class Lab:
    """Homes of one consortium, and the nodes that were started in them.

    On the memory network an address is the number of the start, so every node is told beforehand
    where the others will be: start them in the order in which they were added.
    """

    folder: Path
    network: str
    names: Sequence[str]
    title: str = "lab"
    routing: str = "complete"
    homes: LocalConsortium = field(init=False)
    hub: MemoryHub = field(default_factory=MemoryHub)

    def __post_init__(self) -> None:
        self.homes = LocalConsortium(self.folder)
        for name in self.names:
            self.homes.add(name, name.title(), {"embedding.embedder": "hashing"})
        self.homes.enrol(self.title)

    def peer(self, name: str) -> PeerId:
        return self.homes[name].peer_id

    def config(self, name: str, **routing: Any) -> NodeConfig:
        addresses = [
            f"/memory/{number}/p2p/{member.peer_id}"
            for number, member in enumerate(self.homes, start=1)
            if member.name != name
        ]
        network = NetworkConfig(
            listen=(self.homes[name].address,),
            bootstrap=tuple(addresses) if self.network == "memory" else (),
            dial_timeout_s=6.0,  # a machine with much to do takes seconds for a handshake
            request_timeout_s=6.0,
            query_timeout_s=15.0,
            maintenance_interval_s=0.1,
            advertisement_refresh_s=1.0,
        )
        return NodeConfig(
            organisation=name.title(),
            network=network,
            routing=RoutingConfig(**{"routing": self.routing, **routing}),
            embedding=EmbeddingConfig(embedder="hashing"),
            membership=MembershipConfig(
                exchange_interval_s=0.2,
                ping_interval_s=0.2,
                ping_timeout_s=0.2,
                suspicion_multiplier=2.0,
            ),
        )

    @asynccontextmanager
    async def node(
        self,
        name: str,
        *,
        config: NodeConfig | None = None,
        clock: Callable[[], float] = time.time,
        home: Path | None = None,
    ) -> AsyncIterator[Node]:
        node = Node(
            home or self.homes[name].home,
            config or self.config(name),
            clock=clock,
            **({"make_network": self.memory_network} if self.network == "memory" else {}),
        )
        with trio.fail_after(30):
            async with node:
                yield node

    def bare_network(self, name: str) -> Network:
        """A network with the key of `name` and no node on it, that admits everybody."""
        identity = load_identity(self.homes[name].home.key)
        settings = self.config(name).network
        if self.network == "memory":
            network: Network = MemoryNetwork(
                self.hub, identity.peer_id, gate=lambda _: True, settings=settings
            )
        else:
            network = Libp2pNetwork(identity.seed, [], gate=lambda _: True, settings=settings)
        for protocol in SUPPORTED:
            network.serve(protocol, _answer_nothing, ProtocolLimits(*LIMITS[protocol]))
        return network

    def memory_network(
        self, seed: bytes, listen: Sequence[str], *, gate: Gate, settings: NetworkConfig
    ) -> Network:
        del listen
        peer_id = Identity.from_seed(seed).peer_id
        return MemoryNetwork(self.hub, peer_id, gate=gate, settings=settings)


async def _answer_nothing(peer: PeerId, payload: bytes) -> bytes:
    del peer, payload
    await trio.sleep_forever()
    raise AssertionError


EVERYBODY = Sharing()


def add(node: Node, *texts: str, sharing: Sharing | None = EVERYBODY) -> None:
    """Add a document for each text to the node's only collection, and share it."""
    records = [Record(name=text[:20], title=text[:20], text=text) for text in texts]
    node.library.add_records(records, "notes")
    if sharing is not None:
        node.library.share("notes", sharing)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a state that other tasks bring about; the test's deadline bounds the wait."""
    while not condition():  # noqa: ASYNC110 - nothing tells a test of another task's progress
        await trio.sleep(0.01)


def impatient(config: NodeConfig, **network: Any) -> NodeConfig:
    """The same configuration with other deadlines."""
    return replace(config, network=replace(config.network, **network))
