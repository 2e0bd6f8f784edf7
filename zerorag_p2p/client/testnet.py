"""A client of a testnet, for plain synchronous code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zerorag_p2p.client import calls
from zerorag_p2p.client.blocking import BlockingConnection, Client
from zerorag_p2p.client.calls import Call, Json
from zerorag_p2p.errors import NodeNotRunningError
from zerorag_p2p.home import Home, TestnetFolder


class TestnetClient(BlockingConnection):
    """A running testnet (`zerorag testnet up`), for plain synchronous code; see docs/testnet.md.

    Args:
        folder: The testnet's folder; by default the one that `zerorag testnet` uses.

    Nodes are named "p0", "p1" and so on; where they are drawn, `count` says how many. Every
    method raises `NodeNotRunningError` when no testnet answers.
    """

    __test__ = False  # pytest takes a class of this name for tests

    def __init__(self, folder: TestnetFolder | Path | str | None = None) -> None:
        if isinstance(folder, TestnetFolder):
            self.folder = folder
        else:
            chosen = None if folder is None else str(folder)
            self.folder = TestnetFolder.resolve(chosen, os.environ)
        super().__init__(Home(self.folder.root))

    def node(self, name: str) -> Client:
        """A client of one node, as of any other; to be closed by the caller."""
        return Client(self.folder.node(name))

    def status(self) -> Json:
        """How the testnet is: its nodes, and how the last questions went."""
        return self._json(Call("GET", "/v1/testnet"))

    def query(
        self,
        text: str | None = None,
        *,
        node: str | None = None,
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        purpose: str | None = None,
        routing: str | None = None,
        stopping: str | None = None,
    ) -> Json:
        """Let a node ask; the answer.

        Args:
            text: The question; by default the next of the testnet's own.
            node: Who asks; by default one that runs.
            k: How many documents.
            budget: How many peers may be asked at most.
            fanout: How many of them at once.
            purpose: Purpose of use.
            routing: "complete", "paper", or "random" for members in random order.
            stopping: "budget" or "settled".
        """
        return self._post(
            "query",
            text=text,
            node=node,
            k=k,
            budget=budget,
            fanout=fanout,
            purpose=purpose,
            routing=routing,
            stopping=stopping,
        )

    def kill(self, *nodes: str, count: int | None = None) -> Json:
        """Crash nodes."""
        return self._post("kill", nodes=list(nodes), count=count)

    def restart(self, *nodes: str, count: int | None = None) -> Json:
        """Start nodes that were killed, without names all of them."""
        return self._post("restart", nodes=list(nodes), count=count)

    def freeze(self, *nodes: str, count: int | None = None) -> Json:
        """Stop nodes without a word to anybody."""
        return self._post("freeze", nodes=list(nodes), count=count)

    def thaw(self, *nodes: str, count: int | None = None) -> Json:
        """Let frozen nodes go on, without names all of them."""
        return self._post("thaw", nodes=list(nodes), count=count)

    def partition(self, groups: Sequence[Sequence[str]] = (), *, count: int | None = None) -> Json:
        """Let nothing pass between groups: those given, or `count` random ones, two by default."""
        return self._post("partition", groups=[list(group) for group in groups], count=count)

    def heal(self) -> Json:
        """End the partition."""
        return self._post("heal")

    def links(
        self,
        *,
        latency_ms: float = 0.0,
        jitter_ms: float = 0.0,
        bandwidth: float = 0.0,
        loss: float = 0.0,
    ) -> Json:
        """Set the conditions of every link: milliseconds, bytes a second, share of lost writes."""
        return self._post(
            "links", latency_ms=latency_ms, jitter_ms=jitter_ms, bandwidth=bandwidth, loss=loss
        )

    def misbehave(self, how: str, *nodes: str, count: int | None = None) -> Json:
        """Make nodes a "tarpit" or a "black-hole", or "honest" again."""
        return self._post("misbehave", how=how, nodes=list(nodes), count=count)

    def skew(self, seconds: float, *nodes: str, count: int | None = None) -> Json:
        """Set clocks of nodes ahead by `seconds`, back if it is negative."""
        return self._post("skew", seconds=seconds, nodes=list(nodes), count=count)

    def join(self, count: int = 1) -> Json:
        """Let new nodes join."""
        return self._post("join", count=count)

    def shutdown(self) -> Json:
        """Ask the testnet to end; it answers before it does."""
        return self._json(Call("POST", "/v1/shutdown"))

    def _post(self, action: str, **body: Any) -> Json:
        return self._json(Call("POST", f"/v1/testnet/{action}", body=calls.given(**body)))

    def _not_running(self) -> NodeNotRunningError:
        return NodeNotRunningError(
            f"no testnet is running in {self.folder.root}; start one with `zerorag testnet up`"
        )

    def _ended(self) -> NodeNotRunningError:
        return NodeNotRunningError(f"the testnet in {self.folder.root} ended before it answered")
