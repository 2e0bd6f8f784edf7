"""The interface through which a running testnet is looked at and broken, on its Unix socket.

It follows `control.api`: everything under `/v1`, errors as `{"error": {...}}`. Each node has the
interface of a node besides, on a socket of its own (`served_node`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, TypeAlias

import trio
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from zerorag_p2p.config import MAX_BUDGET, MAX_FANOUT, MAX_K
from zerorag_p2p.control.api import make_app
from zerorag_p2p.errors import UsageError
from zerorag_p2p.node.reports import to_json
from zerorag_p2p.policy.purposes import parse_purpose
from zerorag_p2p.testnet.faults import AnswerHook, Conditions, black_hole, tarpit
from zerorag_p2p.testnet.live import LiveTestnet
from zerorag_p2p.testnet.testnet import NodeState, Testnet, TestnetNode

logger = logging.getLogger("zerorag.testnet")

#: A tarpit answers so late that nobody waits for it.
_TARPIT_S: Final = 3_600.0

#: What a node can be made to do.
MISBEHAVIOURS: Final[dict[str, Callable[[], AnswerHook | None]]] = {
    "honest": lambda: None,
    "tarpit": lambda: tarpit(_TARPIT_S),
    "black-hole": black_hole,
}

#: Gives nodes that joined the sockets that the others have.
ServeNodes: TypeAlias = Callable[[Sequence[TestnetNode]], Awaitable[None]]

_Name = Annotated[str, Field(min_length=1, max_length=32)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NodesBody(_Body):
    """Nodes by name, or a number of them, drawn from those in question."""

    nodes: list[_Name] = []
    count: int | None = Field(default=None, ge=1)


class QuestionBody(_Body):
    """A question; what is left out is chosen by the testnet."""

    node: _Name | None = None
    text: str | None = Field(default=None, min_length=1, max_length=100_000)
    k: int | None = Field(default=None, ge=1, le=MAX_K)
    budget: int | None = Field(default=None, ge=1, le=MAX_BUDGET)
    fanout: int | None = Field(default=None, ge=1, le=MAX_FANOUT)
    purpose: str = "TREAT"
    routing: str | None = None
    stopping: str | None = None


class PartitionBody(_Body):
    """Groups of nodes by name, or a number of groups that all nodes are dealt out to."""

    groups: list[list[_Name]] = []
    count: int | None = Field(default=None, ge=2)


class LinksBody(_Body):
    """Conditions of every link from now on."""

    latency_ms: float = Field(default=0.0, ge=0)
    jitter_ms: float = Field(default=0.0, ge=0)
    bandwidth: float = Field(default=0.0, ge=0)
    loss: float = Field(default=0.0, ge=0, le=1)


class MisbehaveBody(NodesBody):
    """Nodes, and what they do from now on: one of `MISBEHAVIOURS`."""

    how: str


class SkewBody(NodesBody):
    """Nodes, and how far their clocks are ahead."""

    seconds: float


class JoinBody(_Body):
    """How many nodes join; each holds the documents of a node that is there, drawn at random."""

    count: int = Field(default=1, ge=1, le=1_000)


def build_testnet_app(live: LiveTestnet, shutdown: trio.Event, serve_nodes: ServeNodes) -> FastAPI:
    """The application that serves a testnet; it sets `shutdown` when asked to end it."""
    app = make_app("ZeroRAG P2P testnet")
    testnet = live.testnet

    @app.get("/v1/testnet")
    async def status() -> dict[str, Any]:
        """The whole testnet at this moment."""
        return live.snapshot()

    @app.post("/v1/testnet/query")
    async def query(body: QuestionBody) -> Any:
        """Let a node ask; its report."""
        report = await live.query(
            body.node,
            body.text,
            k=body.k,
            budget=body.budget,
            fanout=body.fanout,
            purpose=parse_purpose(body.purpose),
            routing=body.routing,
            stopping=body.stopping,
        )
        return to_json(report)

    @app.post("/v1/testnet/kill")
    async def kill(body: NodesBody) -> dict[str, Any]:
        """Crash nodes."""
        names = _chosen(testnet, body, NodeState.RUNNING, NodeState.FROZEN)
        await testnet.kill(*names)
        return _done("killed", names)

    @app.post("/v1/testnet/restart")
    async def restart(body: NodesBody) -> dict[str, Any]:
        """Start nodes that were killed."""
        names = _chosen(testnet, body, NodeState.STOPPED, default_all=True)
        await testnet.restart(*names)
        return _done("restarted", names)

    @app.post("/v1/testnet/freeze")
    async def freeze(body: NodesBody) -> dict[str, Any]:
        """Stop nodes without a word."""
        names = _chosen(testnet, body, NodeState.RUNNING)
        testnet.freeze(*names)
        return _done("frozen", names)

    @app.post("/v1/testnet/thaw")
    async def thaw(body: NodesBody) -> dict[str, Any]:
        """Let frozen nodes go on."""
        names = _chosen(testnet, body, NodeState.FROZEN, default_all=True)
        testnet.thaw(*names)
        return _done("thawed", names)

    @app.post("/v1/testnet/partition")
    async def partition(body: PartitionBody) -> dict[str, Any]:
        """Let nothing pass between groups."""
        if body.groups:
            return {"groups": testnet.partition(body.groups)}
        return {"groups": testnet.split(body.count or 2)}

    @app.post("/v1/testnet/heal")
    async def heal() -> dict[str, Any]:
        """End the partition."""
        testnet.heal()
        return {"healed": True}

    @app.post("/v1/testnet/links")
    async def links(body: LinksBody) -> dict[str, Any]:
        """Change latency, bandwidth and loss."""
        testnet.set_conditions(
            Conditions(
                latency_s=body.latency_ms / 1000,
                jitter_s=body.jitter_ms / 1000,
                bandwidth=body.bandwidth,
                loss=body.loss,
            )
        )
        return body.model_dump()

    @app.post("/v1/testnet/misbehave")
    async def misbehave(body: MisbehaveBody) -> dict[str, Any]:
        """Make nodes misbehave, or behave again."""
        if body.how not in MISBEHAVIOURS:
            known = ", ".join(MISBEHAVIOURS)
            raise UsageError(f"{body.how!r} is no way to behave here; known: {known}")
        names = _chosen(testnet, body, NodeState.RUNNING, NodeState.FROZEN)
        for name in names:
            testnet.misbehave(name, MISBEHAVIOURS[body.how](), called=body.how)
        return _done(body.how, names)

    @app.post("/v1/testnet/skew")
    async def skew(body: SkewBody) -> dict[str, Any]:
        """Set clocks forward or back."""
        names = _chosen(testnet, body, *NodeState)
        for name in names:
            testnet[name].clock_skew_s = body.seconds
        return _done("skewed", names)

    @app.post("/v1/testnet/join")
    async def join(body: JoinBody) -> dict[str, Any]:
        """Let new nodes join."""
        holdings = testnet.workload.holdings
        new = await testnet.join(testnet.randomness.choices(holdings, k=body.count))
        await serve_nodes(new)
        return _done("joined", [node.name for node in new])

    @app.post("/v1/shutdown", status_code=202)
    async def stop() -> dict[str, Any]:
        """End the testnet, after this answer."""
        logger.info("asked to end over the local interface")
        shutdown.set()
        return {"stopping": True}

    return app


def _done(what: str, names: list[str]) -> dict[str, Any]:
    logger.info("%s: %s", what, ", ".join(names))
    return {"done": what, "nodes": names}


def _chosen(
    testnet: Testnet, body: NodesBody, *states: NodeState, default_all: bool = False
) -> list[str]:
    """The nodes that a request means: named, or drawn from those in one of the states.

    Raises:
        UsageError: None are named, there is none of a name, or one is in another state.
    """
    fitting = [node.name for node in testnet.nodes.values() if testnet.state(node) in states]
    if body.nodes and body.count is not None:
        raise UsageError("give names of nodes or a number of them, not both")
    if body.nodes:
        named = list(dict.fromkeys(testnet[name].name for name in body.nodes))
        for name in named:
            if name not in fitting:
                state = testnet.state(testnet[name])
                raise UsageError(f"{name} is {state}; this needs a {' or '.join(states)} node")
        return named
    if body.count is not None:
        drawn = testnet.randomness.sample(fitting, min(body.count, len(fitting)))
        return sorted(drawn, key=fitting.index)
    if default_all:
        return fitting
    raise UsageError("name nodes (p0, p1 ...) or give a number of them")
