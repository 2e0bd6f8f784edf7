"""Running a node in the foreground, until a signal or a request ends it."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final

import trio

from zerorag_p2p.control.server import serving
from zerorag_p2p.home import Home
from zerorag_p2p.node.process import return_large_memory
from zerorag_p2p.node.runtime import Node

logger = logging.getLogger("zerorag.control")

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def run_node(home: Home, on_ready: Callable[[dict[str, object]], None], *, verbose: bool) -> None:
    """Run the node of `home` until SIGINT, SIGTERM or a request over its interface ends it.

    Args:
        home: A home with a roster.
        on_ready: Told when the node can be reached: "peer_id", "organisation", "addresses" and
            "socket".
        verbose: Log what helps to find a defect.

    Raises:
        LocalError: The node cannot start; the sentence says why.
    """
    _log_to_standard_error(verbose=verbose)
    return_large_memory()
    # Asked for first: a path that is too long for a socket is refused before anything starts.
    trio.run(_run, home, str(home.socket), on_ready)


def _log_to_standard_error(*, verbose: bool) -> None:
    logging.basicConfig(stream=sys.stderr, format=_LOG_FORMAT, level=logging.WARNING)
    logging.getLogger("zerorag").setLevel(logging.DEBUG if verbose else logging.INFO)


async def _run(home: Home, socket: str, on_ready: Callable[[dict[str, object]], None]) -> None:
    # Before all else, so that a signal during the start ends the node in good order, too.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        while await _run_once(home, socket, on_ready, signals):
            logger.info("the node starts anew, with its new key")
    logger.info("the node has ended")


async def _run_once(
    home: Home,
    socket: str,
    on_ready: Callable[[dict[str, object]], None],
    signals: AsyncIterator[int],
) -> bool:
    """Run the node to its end; whether it ended for its new key alone."""
    shutdown = trio.Event()
    renewed = False

    async def await_new_key(node: Node) -> None:
        nonlocal renewed
        await node.superseded.wait()
        renewed = not shutdown.is_set()
        shutdown.set()

    # The node outside of the nursery: why it cannot start is one error, not a group.
    async with Node(home) as node, serving(node, shutdown), trio.open_nursery() as nursery:
        nursery.start_soon(_await_signal, signals, shutdown)
        nursery.start_soon(await_new_key, node)
        status = node.status()
        ready = {name: status[name] for name in ("peer_id", "organisation", "addresses")}
        on_ready({**ready, "socket": socket})
        await shutdown.wait()
        nursery.cancel_scope.cancel()
    return renewed


async def _await_signal(signals: AsyncIterator[int], shutdown: trio.Event) -> None:
    async for number in signals:
        logger.info("%s: the node ends", signal.Signals(number).name)
        shutdown.set()
