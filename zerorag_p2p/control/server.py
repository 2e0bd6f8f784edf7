"""Serving the local interface on the Unix socket of the home, for its owner only."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.types import ASGIApp

from zerorag_p2p.config import CONTROL_DRAIN_S
from zerorag_p2p.control.api import build_app
from zerorag_p2p.home import Home
from zerorag_p2p.node.runtime import Node

_OWNER_ONLY: Final = 0o177


@asynccontextmanager
async def serving(node: Node, shutdown: trio.Event) -> AsyncIterator[None]:
    """Serve while the context is entered; clients can connect as soon as it is.

    Leaving it waits for `shutdown`, and then a moment for open requests to end. The running `node`
    holds the lock of its home, so a socket found there was left by a node that died and is
    replaced.

    Args:
        node: A running node.
        shutdown: Ends the server; a request may set it.
    """
    async with listening(build_app(node, shutdown), node.home, shutdown):
        yield


@asynccontextmanager
async def listening(app: ASGIApp, home: Home, shutdown: trio.Event) -> AsyncIterator[None]:
    """Serve an application on the socket of a home, as `serving` does a node.

    Args:
        app: The application.
        home: The caller makes sure that nobody else serves there.
        shutdown: Ends the server.
    """
    path = home.socket
    server_log = logging.getLogger("zerorag.control.server")
    server_log.setLevel(logging.WARNING)
    config = Config()
    config.bind = [f"unix:{path}"]
    config.umask = _OWNER_ONLY
    config.errorlog = server_log
    config.graceful_timeout = CONTROL_DRAIN_S
    # Two libraries' types for one interface, ASGI.
    served = cast("ASGIFramework", app)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(
                partial(serve, served, shutdown_trigger=shutdown.wait, mode="asgi"), config
            )
            yield
    finally:
        path.unlink(missing_ok=True)
