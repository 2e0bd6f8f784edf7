"""The local interface of one node of a testnet, as `zerorag --home`, `zerorag top` and clients
of applications expect it of a node.

Documents and the roster come from memory, so what would change them is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from zerorag_p2p.control.api import make_app, serve_observed
from zerorag_p2p.errors import LocalError, UsageError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.happenings import Observer
from zerorag_p2p.node.process import process_figures
from zerorag_p2p.node.reports import QueryReport
from zerorag_p2p.testnet.live import LiveTestnet
from zerorag_p2p.testnet.testnet import TestnetNode


class ServedNode:
    """Implements `control.api.Observed` for a node of a testnet."""

    def __init__(self, live: LiveTestnet, node: TestnetNode) -> None:
        self._live = live
        self._node = node

    def _core(self) -> NodeCore:
        if self._node.core is None:
            name = self._node.name
            raise LocalError(f"{name} was killed; `zerorag testnet restart {name}` starts it again")
        return self._node.core

    @property
    def peer_id(self) -> PeerId:
        """Its peer id."""
        return self._node.peer_id

    def status(self) -> dict[str, Any]:
        """How it is. Its process is the testnet's, shared with the other nodes."""
        holdings = self._node.holdings
        return {
            **self._core().status(),
            "home": f"testnet node {self._node.name}",
            "uptime_s": round(self._live.testnet.now() - self._node.started_at, 3),
            "library": {
                "collections": len(holdings.collections()),
                "sources": len(holdings),
                "documents": len(holdings),
            },
            "process": process_figures(),
        }

    def peers(self) -> list[dict[str, Any]]:
        """The members of its roster."""
        return self._core().peers()

    def neighbors(self) -> list[dict[str, Any]]:
        """Its neighbours."""
        return self._core().neighbors()

    def memory(self) -> dict[str, Any]:
        """Whose queries it remembers."""
        return self._core().memory()

    def refusals(self) -> list[dict[str, Any]]:
        """The last refusals."""
        return self._core().refusals()

    @contextmanager
    def watching(self, observer: Observer) -> Iterator[None]:
        """Tell `observer` what happens while the context is entered, whenever the node runs."""
        self._node.observers.append(observer)
        try:
            yield
        finally:
            self._node.observers.remove(observer)

    async def query(self, text: str, **settings: Any) -> QueryReport:
        """Ask the testnet."""
        return await self._live.query(self._node.name, text, **settings)

    def documents(self, collection: str | None) -> list[dict[str, Any]]:
        """Its documents, of one collection or of all, each a source of its own."""
        holdings = self._node.holdings
        rows = []
        for number in holdings.numbers():
            (held,) = holdings.get(holdings.table.hashes[number])
            if collection in (None, held.collection):
                document = holdings.read(held)
                rows.append(
                    {
                        "collection": held.collection,
                        "name": document.source,
                        "title": document.title,
                        "documents": 1,
                        "metadata": {},
                    }
                )
        return rows

    def collections(self) -> list[dict[str, Any]]:
        """Its collections, and how they are shared."""
        holdings = self._node.holdings
        rows = []
        for name in holdings.collections():
            count = len(holdings.vectors_to_advertise([name])[1])
            sharing = holdings.sharing(name)
            rows.append(
                {
                    "name": name,
                    "sources": count,
                    "documents": count,
                    "sharing": sharing and sharing.to_json(),
                }
            )
        return rows


class NodeApp:
    """The application of one node, made when it is first asked for anything."""

    def __init__(self, live: LiveTestnet, node: TestnetNode, shutdown: trio.Event) -> None:
        self._live = live
        self._node = node
        self._shutdown = shutdown
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] == "lifespan":
            await _begin_and_end(receive, send)
            return
        if self._app is None:
            self._app = build_node_app(ServedNode(self._live, self._node), self._shutdown)
        await self._app(scope, receive, send)


async def _begin_and_end(receive: Receive, send: Send) -> None:
    """Tell the server that nothing has to be done when it starts or ends (ASGI lifespan)."""
    message = await receive()
    await send({"type": f"{message['type']}.complete"})
    message = await receive()
    await send({"type": f"{message['type']}.complete"})


def build_node_app(node: ServedNode, shutdown: trio.Event) -> FastAPI:
    """The application that serves one node; `shutdown` ends the whole testnet."""
    app = make_app("ZeroRAG P2P testnet node")
    serve_observed(app, node, shutdown)

    @app.get("/v1/collections")
    async def collections() -> dict[str, Any]:
        """Its collections and how they are shared."""
        return {"collections": node.collections()}

    @app.get("/v1/documents")
    async def documents(collection: str | None = None) -> dict[str, Any]:
        """Its documents."""
        return {"documents": node.documents(collection)}

    @app.api_route("/v1/{path:path}", methods=["GET", "POST", "DELETE"])
    async def fixed(path: str) -> None:
        """Nothing else: it would change what a testnet's node holds."""
        del path
        raise UsageError(
            "a node of a testnet is looked at and asked; its documents and roster are fixed when "
            "it starts"
        )

    return app
