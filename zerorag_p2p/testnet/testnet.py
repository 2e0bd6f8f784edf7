"""A consortium of whole nodes in one process, to be looked at and broken on purpose.

    async with Testnet(workload).running() as testnet:
        report = await testnet.query("p0", testnet.workload.queries[0])
        await testnet.kill("p1", "p2")

Every node is a `node.core.NodeCore`, as in production, on the memory network or on libp2p over
loopback; only documents, keys and the roster come from memory. Nodes share what does not change:
vectors, texts, the roster, verified advertisements.
"""

from __future__ import annotations

import enum
import random
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import trio

from zerorag_p2p.config import NO_LIMITS, NetworkConfig, NodeConfig
from zerorag_p2p.errors import NetworkError, UsageError
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.library.contents import Retraction
from zerorag_p2p.model import ContentHash, PeerId, Vector
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.happenings import Happening, Observer
from zerorag_p2p.node.network import Network
from zerorag_p2p.node.outgoing import open_advertisement
from zerorag_p2p.node.reports import QueryReport
from zerorag_p2p.node.withdrawals import Withdrawals
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.testnet.authority import Authority, seeded_identity
from zerorag_p2p.testnet.collection import seldom_collected
from zerorag_p2p.testnet.faults import AnswerHook, Conditions, Faults
from zerorag_p2p.testnet.hooked_network import HookedNetwork
from zerorag_p2p.testnet.memory_network import MemoryHub, MemoryNetwork
from zerorag_p2p.testnet.plain_failure import failing_plainly
from zerorag_p2p.testnet.speaker import speaking_as
from zerorag_p2p.testnet.virtual_time import in_virtual_time, without_threads
from zerorag_p2p.wire.embedding import transmitted
from zerorag_p2p.workloads.holdings import ArrayHoldings, DocumentTable, statement_signer
from zerorag_p2p.workloads.workload import Workload

NETWORKS: Final = ("memory", "libp2p")

#: The collection of a node's own documents.
COLLECTION: Final = "documents"

#: Documents are this old when their node joins, so that no clock finds them in the future.
_DOCUMENT_AGE_S: Final = 3_600.0

#: Unix time at which virtual time begins, so that runs can be compared.
VIRTUAL_EPOCH: Final = 1_750_000_000.0

#: Deadlines for peers that are milliseconds apart. Streams go soon: each costs memory at both
#: ends. Connections stay for as long as a neighbour's advertisement takes to be asked for again.
CONFIG: Final = NodeConfig(
    network=NetworkConfig(
        dial_timeout_s=1.0,
        request_timeout_s=1.0,
        query_timeout_s=10.0,
        maintenance_interval_s=1.0,
        advertisement_refresh_s=20.0,
        stream_idle_s=2.0,
        connection_idle_s=30.0,
        departed_after_s=10.0,
    ),
    limits=NO_LIMITS,
)


class NodeState(enum.StrEnum):
    """What a node of a testnet is doing."""

    RUNNING = "running"
    FROZEN = "frozen"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False)
class TestnetNode:
    """One node of a testnet.

    Attributes:
        name: "p0", "p1" and so on.
        address: Where it listens, a multiaddr.
        holdings: Its documents; they stay when it is killed, as a disk would.
        withdrawals: What it knows to be taken back; that stays, too.
        core: While it runs.
        started_at: When it was last started, in the testnet's time.
        clock_skew_s: How far its clock is ahead of the testnet's; may be changed at any time.
        hook: What it makes of its answers, if it misbehaves.
        misbehaving: What that is called, "tarpit" for instance; empty while it is honest.
        observers: Told of everything that happens in it, also after it was killed and restarted.
    """

    __test__ = False  # pytest takes a class of this name for tests

    name: str
    organisation: str
    identity: Identity
    address: str
    holdings: ArrayHoldings
    withdrawals: Withdrawals
    core: NodeCore | None = None
    started_at: float = 0.0
    clock_skew_s: float = 0.0
    hook: AnswerHook | None = None
    misbehaving: str = ""
    observers: list[Observer] = field(default_factory=list)
    _network: HookedNetwork | None = None
    _scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    _ended: trio.Event = field(default_factory=trio.Event)
    _queries: dict[trio.CancelScope, None] = field(default_factory=dict)
    _saved: bytes | None = None

    @property
    def peer_id(self) -> PeerId:
        """Its peer id."""
        return self.identity.peer_id

    def tell(self, happening: Happening) -> None:
        """Pass on to the observers what happened."""
        for observer in tuple(self.observers):
            observer(happening)


class Testnet:
    """Nodes of one consortium, and what may be done to them.

    Args:
        workload: Documents, who holds them, and the questions; a node for each holder.
        config: Settings of every node; its addresses do not count.
        network: "memory" or "libp2p".
        conditions: Of the links; on the memory network only.
        seed: Keys, and the choices of nodes and of the network, follow from it.
        organisations: Of the nodes, in order; "Hospital 0" and so on by default.
        sharing: How every node shares its documents.

    Attributes:
        table: The documents that there are.
        nodes: By name, in the order in which they joined.
        randomness: Decides whenever nodes are drawn.
    """

    __test__ = False  # pytest takes a class of this name for tests

    def __init__(
        self,
        workload: Workload,
        *,
        config: NodeConfig = CONFIG,
        network: str = "memory",
        conditions: Conditions | None = None,
        seed: int = 0,
        organisations: Sequence[str] = (),
        sharing: Sharing | None = None,
    ) -> None:
        if network not in NETWORKS:
            raise UsageError(f"network {network!r} is unknown; known: {', '.join(NETWORKS)}")
        if network != "memory" and conditions is not None:
            raise UsageError("latency and loss need the memory network")
        self.workload = workload
        self.table = DocumentTable(workload)
        self.config = config
        self.network = network
        self.seed = seed
        self.sharing = sharing or Sharing()
        self.nodes: dict[str, TestnetNode] = {}
        self._organisations = tuple(organisations)
        self._faults = Faults(conditions, seed=seed)
        self._hub = MemoryHub(self._faults)
        self.randomness = random.Random(f"testnet {seed}")
        self._by_organisation: dict[str, TestnetNode] = {}
        self._by_peer: dict[PeerId, TestnetNode] = {}
        self._query_numbers: dict[str, int] = {}
        self._partitioned = False
        # Nodes verify and decode each other's advertisements once for all of them.
        self._open_advertisement = lru_cache(maxsize=2 * len(workload.holdings))(open_advertisement)
        self._epoch = 0.0
        self._authority: Authority
        self._nursery: trio.Nursery

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Testnet]:
        """Run every node while the context is entered.

        Raises:
            UsageError: The clock is virtual and the network is not the memory network, or a
                thread worked for a task in virtual time.
        """
        virtual = in_virtual_time()
        if virtual and self.network != "memory":
            raise UsageError(
                f"virtual time needs the memory network: it would jump past what the "
                f"{self.network} network waits for"
            )
        self._epoch = (VIRTUAL_EPOCH if virtual else time.time()) - trio.current_time()
        self._authority = Authority(
            "testnet", self.workload.fingerprint, seed=self.seed, now=self.now()
        )
        with failing_plainly(), seldom_collected(), without_threads():
            async with trio.open_nursery() as self._nursery:
                await self.join(self.workload.holdings)
                yield self
                self._nursery.cancel_scope.cancel()

    def now(self) -> float:
        """Unix time of the testnet, before the skew of a node."""
        return self._epoch + trio.current_time()

    # Who takes part.

    def __getitem__(self, name: str) -> TestnetNode:
        node = self.nodes.get(name) or self._by_organisation.get(name)
        if node is None:
            raise UsageError(
                f"there is no node {name!r}; there are p0 to p{len(self.nodes) - 1}, and each "
                "answers to its organisation"
            )
        return node

    def by_peer(self, peer: PeerId) -> TestnetNode | None:
        """The node of a peer id."""
        return self._by_peer.get(peer)

    def state(self, node: TestnetNode) -> NodeState:
        """What a node is doing."""
        if node.core is None:
            return NodeState.STOPPED
        return NodeState.FROZEN if self._faults.frozen(node.peer_id) else NodeState.RUNNING

    def running_nodes(self) -> list[TestnetNode]:
        """The nodes that are neither stopped nor frozen, in order."""
        return [node for node in self.nodes.values() if self.state(node) is NodeState.RUNNING]

    def pick(self, count: int) -> list[str]:
        """Names of `count` running nodes, drawn at random."""
        running = [node.name for node in self.running_nodes()]
        return self.randomness.sample(running, min(count, len(running)))

    async def join(
        self, holdings: Iterable[Collection[int]], *, organisations: Sequence[str] = ()
    ) -> list[TestnetNode]:
        """Admit and start a new node for every collection of documents, all at once.

        Args:
            holdings: Of each node the documents it holds, as positions in the workload.
            organisations: Of the new nodes, in order.
        """
        first = len(self.nodes)
        names = organisations or self._organisations[first:]
        new = []
        for number, documents in enumerate(holdings):
            index = first + number
            organisation = names[number] if number < len(names) else f"Hospital {index}"
            new.append(self._enrol(f"p{index}", organisation, documents))
        for node in new:
            self.nodes[node.name] = node
            self._by_organisation.setdefault(node.organisation, node)
            self._by_peer[node.peer_id] = node
        authority = self._authority
        authority.admit((node.identity, node.organisation, (node.address,)) for node in new)
        for node in list(self.nodes.values()):
            if node.core is not None:
                with speaking_as(node.name):
                    await node.core.replace_roster(authority.roster, authority.signed)
        for node in new:
            await self._start(node)
        return new

    def _enrol(self, name: str, organisation: str, documents: Collection[int]) -> TestnetNode:
        identity = seeded_identity(self.seed, name)
        sign = statement_signer(
            identity,
            self.table,
            terms=self.sharing.terms,
            consortium=self._authority.roster.consortium,
            now=self.now() - _DOCUMENT_AGE_S,
        )
        holdings = ArrayHoldings(self.table, sign)
        holdings.own(documents, COLLECTION)
        holdings.share(COLLECTION, self.sharing)
        address = f"/memory/{name}" if self.network == "memory" else _free_address()
        withdrawals = Withdrawals(
            identity,
            self._authority.roster.consortium,
            self.now,
            clock_tolerance_s=self.config.network.clock_tolerance_s,
        )
        return TestnetNode(name, organisation, identity, address, holdings, withdrawals)

    async def _start(self, node: TestnetNode) -> None:
        node.core = self._make_core(node)
        if node._saved is not None:
            with speaking_as(node.name):
                node.core.restore_state(node._saved)
            node._saved = None
        node.started_at = self.now()
        node._scope, node._ended = trio.CancelScope(), trio.Event()
        started = trio.Event()
        self._nursery.start_soon(self._carry, node, node.core, started)
        await started.wait()

    async def _carry(self, node: TestnetNode, core: NodeCore, started: trio.Event) -> None:
        try:
            with node._scope, speaking_as(node.name), core.activity.watching(node.tell):
                async with core.running():
                    started.set()
                    await trio.sleep_forever()
        finally:
            node.core = None
            node._ended.set()

    def _make_core(self, node: TestnetNode) -> NodeCore:
        authority = self._authority
        directory = Directory(node.peer_id, authority.roster, authority.signed)

        def clock() -> float:
            return self.now() + node.clock_skew_s

        def gate(peer: PeerId) -> bool:
            return directory.admits(peer, clock())

        node._network = HookedNetwork(self._make_network(node, gate))
        node._network.hook = node.hook
        return NodeCore(
            identity=node.identity,
            directory=directory,
            network=node._network,
            holdings=node.holdings,
            fingerprint=self.workload.fingerprint,
            config=self.config,
            bootstrap=(),
            clock=clock,
            randomness=random.Random(f"{self.seed} {node.name}"),
            open_advertisement=self._open_advertisement,
            withdrawals=node.withdrawals,
        )

    def _make_network(self, node: TestnetNode, gate: Callable[[PeerId], bool]) -> Network:
        settings = self.config.network
        if self.network == "memory":
            return MemoryNetwork(
                self._hub, node.peer_id, gate=gate, settings=settings, address=node.address
            )
        from zerorag_p2p.node.libp2p_network import Libp2pNetwork

        return Libp2pNetwork(node.identity.seed, [node.address], gate=gate, settings=settings)

    # Asking.

    async def query(
        self, name: str, text: str, embedding: Vector | None = None, **settings: Any
    ) -> QueryReport:
        """Let a node ask the others.

        Args:
            name: Of the node.
            text: The question.
            embedding: Of the question; by default the text is one of the workload's questions.
            settings: As for `NodeCore.query`.

        Raises:
            UsageError: The node does not run, or the text is no question of the workload and came
                without an embedding.
            NetworkError: The node was killed meanwhile.
        """
        core, node = self._core(name), self[name]
        if embedding is None:
            embedding = self._embedding_of(text)
        with trio.CancelScope() as scope, speaking_as(node.name):
            node._queries[scope] = None
            try:
                return await core.query(text, transmitted(embedding), **settings)
            finally:
                del node._queries[scope]
        raise NetworkError(f"{name} was killed before its query ended")

    def _core(self, name: str) -> NodeCore:
        node = self[name]
        if node.core is None:
            raise UsageError(f"{name} does not run; restart it first")
        return node.core

    def _embedding_of(self, text: str) -> Vector:
        if not self._query_numbers:
            queries = enumerate(self.workload.queries)
            self._query_numbers = {query: number for number, query in queries}
        number = self._query_numbers.get(text)
        if number is None:
            raise UsageError(
                "without an embedding, only the questions of the workload can be asked; "
                f"one of them is {self.workload.queries[0]!r}"
            )
        row: Vector = self.workload.query_vectors[number]
        return row

    def withdraw(self, name: str, *documents: ContentHash) -> list[Withdrawal]:
        """Let a node take documents of its own back, and tell the others.

        Raises:
            UsageError: The node does not own one of them.
        """
        node = self[name]
        held = [
            stored
            for document in documents
            for stored in node.holdings.get(document)
            if stored.terms is None
        ]
        if len(held) != len(documents):
            raise UsageError(f"{name} does not own each of these documents")
        retraction = Retraction(
            collection=None,
            documents=documents,
            statements=tuple(stored.links[0] for stored in held),
        )
        with speaking_as(node.name):
            made = node.withdrawals.retract(retraction)
        for withdrawal in made:
            node.holdings.drop_withdrawn(withdrawal)
        return made

    # Breaking and mending.

    async def kill(self, *names: str, keep_state: bool = True) -> None:
        """End nodes at once, as a crash of their processes would; connections break.

        Args:
            names: Of the nodes; those that do not run are left alone.
            keep_state: Whether a restart finds the routing state that the node had.
        """
        running = [node for node in map(self.__getitem__, names) if node.core is not None]
        for node in running:
            assert node.core is not None
            node._saved = node.core.encode_state() if keep_state else None
            self._faults.thaw(node.peer_id)
            for scope in (*node._queries, node._scope):
                scope.cancel()
        for node in running:
            await node._ended.wait()

    async def restart(self, *names: str) -> None:
        """Start nodes that were killed, at their old addresses."""
        for node in map(self.__getitem__, names):
            if node.core is None:
                await self._start(node)

    def freeze(self, *names: str) -> None:
        """Stop nodes without a word to anybody; see `faults`.

        Raises:
            UsageError: A node does not run, or the network is not the memory network.
        """
        self._need_memory("freeze")
        for name in names:
            self._faults.freeze(self._core(name).peer_id)

    def thaw(self, *names: str) -> None:
        """Let frozen nodes go on."""
        for name in names:
            self._faults.thaw(self[name].peer_id)

    def partition(self, groups: Sequence[Collection[str]]) -> list[list[str]]:
        """Let nothing pass between groups of nodes; those in no group form one more.

        Returns:
            The names in every group, those of the rest last. Nodes that join later are of the rest.

        Raises:
            UsageError: A node is in two groups, nobody is apart, or the network is not the memory
                network.
        """
        self._need_memory("partition")
        apart = [list(dict.fromkeys(self[name].name for name in group)) for group in groups]
        in_groups = Counter(name for group in apart for name in group)
        for name, count in in_groups.items():
            if count > 1:
                raise UsageError(f"{name} cannot be in two groups of a partition")
        rest = [name for name in self.nodes if name not in in_groups]
        everybody = [group for group in (*apart, rest) if group]
        if len(everybody) < 2:
            raise UsageError("all nodes are in one group, which parts nobody; name a second group")
        self._faults.partition([[self[name].peer_id for name in group] for group in apart])
        self._partitioned = True
        return everybody

    def split(self, count: int) -> list[list[str]]:
        """Partition all nodes into `count` groups of about the same size, drawn at random."""
        if not 2 <= count <= len(self.nodes):
            raise UsageError(f"a partition has 2 to {len(self.nodes)} groups here, not {count}")
        names = list(self.nodes)
        self.randomness.shuffle(names)
        groups = [sorted(names[number::count], key=_number) for number in range(count)]
        return self.partition(groups)

    def heal(self) -> None:
        """End the partition."""
        self._faults.heal()
        self._partitioned = False

    def set_conditions(self, conditions: Conditions) -> None:
        """Change latency, bandwidth and loss of every link from now on."""
        self._need_memory("latency or loss")
        self._faults.conditions = conditions

    def misbehave(self, name: str, hook: AnswerHook | None, *, called: str = "misbehaving") -> None:
        """Let a node answer what `hook` makes of its answers; honestly again with None.

        Args:
            name: Of the node.
            hook: Answers in its place.
            called: A word for it, to be shown.
        """
        node = self[name]
        node.hook = hook
        node.misbehaving = "" if hook is None else called
        if node._network is not None:
            node._network.hook = hook

    def _need_memory(self, what: str) -> None:
        if self.network != "memory":
            raise UsageError(f"{what} needs the memory network; kill works on every network")

    async def revoke(self, name: str, reason: str, *, told: str) -> None:
        """Let the authority revoke a node; only `told` gets the roster from it, others by gossip.

        Raises:
            UsageError: The node that is told does not run.
        """
        core = self._core(told)
        self._authority.revoke(self[name].peer_id, reason, self.now())
        await core.import_roster(self._authority.signed)

    # Looking.

    def snapshot(self) -> dict[str, Any]:
        """The whole testnet at this moment, ready for JSON."""
        states = [self.state(node) for node in self.nodes.values()]
        conditions = self._faults.conditions
        return {
            "network": self.network,
            "workload": self.workload.name,
            "seed": self.seed,
            "time": self.now(),
            "nodes": len(states),
            **{state.value: states.count(state) for state in NodeState},
            "partitioned": self._partitioned,
            "latency_ms": conditions.latency_s * 1000,
            "jitter_ms": conditions.jitter_s * 1000,
            "bandwidth": conditions.bandwidth,
            "loss": conditions.loss,
            "rows": [self._row(node) for node in self.nodes.values()],
        }

    def _row(self, node: TestnetNode) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": node.name,
            "organisation": node.organisation,
            "peer": node.peer_id,
            "state": self.state(node).value,
            "misbehaving": node.misbehaving,
            "clock_skew_s": node.clock_skew_s,
            "documents": len(node.holdings),
        }
        core = node.core
        if core is not None:
            row |= {
                "connections": len(core.network.connected()),
                "neighbors": len(core.peer.neighbors),
                "advertised_vectors": len(core.peer.advertisements),
                "remembered_queries": len(core.peer.memory),
                "answered": core.service.answered,
                "refused": core.service.refused,
            }
        return row


def _number(name: str) -> int:
    return int(name.removeprefix("p"))


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return f"/ip4/127.0.0.1/tcp/{port}"
