"""Running a testnet in the foreground, until a signal or a request ends it."""

from __future__ import annotations

import logging
import re
import resource
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

import trio

from zerorag_p2p.control.server import listening
from zerorag_p2p.errors import LocalError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home, TestnetFolder
from zerorag_p2p.identity.keys import encode_key_file
from zerorag_p2p.node.files import LOCK_NAME, HomeLock
from zerorag_p2p.node.process import return_large_memory
from zerorag_p2p.testnet.control_api import build_testnet_app
from zerorag_p2p.testnet.live import LiveTestnet
from zerorag_p2p.testnet.served_node import NodeApp
from zerorag_p2p.testnet.sources import Source
from zerorag_p2p.testnet.speaker import note_speaker
from zerorag_p2p.testnet.testnet import Testnet, TestnetNode

Json: TypeAlias = dict[str, Any]

#: Nodes that get a home with a socket at most: as many as a testnet may be started with.
MAX_SERVED: Final = 1_000

#: The file in the testnet's folder that nodes log to.
LOG_NAME: Final = "testnet.log"

_NODE_FOLDER: Final = re.compile(r"p\d+")

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(speaker)s: %(message)s"
_TABLE_INTERVAL_S: Final = 0.5


@contextmanager
def claimed(folder: TestnetFolder) -> Iterator[None]:
    """Hold a folder for one testnet while the context is entered; it is made if it is not there.

    What a testnet left there that was killed is removed.

    Raises:
        LocalError: Another testnet has it, it cannot be made, or it holds homes of real nodes.
        ConfigError: Its path is too long for sockets.
    """
    root = folder.root
    _ = folder.node(f"p{MAX_SERVED - 1}").socket
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"{root} cannot be created: {error.strerror}") from None
    with HomeLock(root, holder="a testnet"):
        homes = [Home(path) for path in root.iterdir() if _NODE_FOLDER.fullmatch(path.name)]
        for home in homes:
            _check_ours(home)
        for home in homes:
            shutil.rmtree(home.root)
        yield


def _check_ours(home: Home) -> None:
    """Make sure that a folder holds no more than a testnet puts there: no real node's key."""
    ours = {home.key.name, home.socket.name, LOCK_NAME}
    if not home.root.is_dir() or {path.name for path in home.root.iterdir()} - ours:
        raise LocalError(
            f"{home.root} was not made by a testnet and would be replaced; choose another folder "
            "with --testnet"
        )


def run_testnet(
    folder: TestnetFolder,
    testnet: Testnet,
    source: Source,
    *,
    rate: float,
    on_ready: Callable[[Json], None],
    on_snapshot: Callable[[Json], None],
) -> None:
    """Run a testnet until SIGINT, SIGTERM or a request over its interface ends it.

    Args:
        folder: Where its sockets go; `claimed`.
        testnet: Not running yet.
        source: What it was made of.
        rate: Questions that nodes ask by themselves, a second.
        on_ready: Told when every node runs: "folder", "nodes" and "socket".
        on_snapshot: Told how everything is, about twice a second.

    Raises:
        ZeroRagError: It cannot start.
    """
    return_large_memory()
    _allow_descriptors()
    trio.run(
        partial(
            _run,
            folder,
            testnet,
            source,
            rate=rate,
            on_ready=on_ready,
            on_snapshot=on_snapshot,
        )
    )


async def _run(
    folder: TestnetFolder,
    testnet: Testnet,
    source: Source,
    *,
    rate: float,
    on_ready: Callable[[Json], None],
    on_snapshot: Callable[[Json], None],
) -> None:
    shutdown = trio.Event()
    _log_to(folder)
    async with serving(folder, testnet, source, shutdown) as live:
        # From here on. While nodes start, Ctrl-C interrupts as it does any other command.
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_await_signal, signals, shutdown)
                nursery.start_soon(live.ask_regularly, rate)
                on_ready(
                    {
                        "folder": str(folder.root),
                        "socket": str(folder.socket),
                        "nodes": len(testnet.nodes),
                    }
                )
                nursery.start_soon(_show, live, on_snapshot)
                await shutdown.wait()
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving(
    folder: TestnetFolder, testnet: Testnet, source: Source, shutdown: trio.Event
) -> AsyncIterator[LiveTestnet]:
    """Run a testnet and serve it, and each of its nodes, while the context is entered.

    Leaving it waits for `shutdown`. The caller makes sure that nobody else uses the folder.
    """
    async with testnet.running(), trio.open_nursery() as nursery:
        live = LiveTestnet(testnet, source.embed)

        async def serve_node(node: TestnetNode, served: trio.Event) -> None:
            home = folder.node(node.name)
            try:
                _make_home(home, node)
                async with listening(NodeApp(live, node, shutdown), home, shutdown):
                    served.set()
            finally:
                _remove_home(home)

        async def serve_nodes(nodes: Sequence[TestnetNode]) -> None:
            places = max(_served_limit() - len(nursery.child_tasks), 0)
            served = [(node, trio.Event()) for node in nodes[:places]]
            # All at once: while nodes get to know each other, every turn of a task takes long.
            for node, event in served:
                nursery.start_soon(serve_node, node, event)
            for _, event in served:
                await event.wait()

        await serve_nodes(list(testnet.nodes.values()))
        testnet_app = build_testnet_app(live, shutdown, serve_nodes)
        async with listening(testnet_app, Home(folder.root), shutdown):
            yield live


def _allow_descriptors() -> None:
    """Let this process open as many descriptors as the system grants it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _served_limit() -> int:
    """How many nodes get a socket: it takes a descriptor, and as many are left for all else."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MAX_SERVED
    return min(MAX_SERVED, descriptors // 2)


def _make_home(home: Home, node: TestnetNode) -> None:
    """What commands expect of a home: a folder with a key."""
    home.root.mkdir(mode=0o700, exist_ok=True)
    write_atomic(home.key, encode_key_file(node.identity), mode=0o600)


def _remove_home(home: Home) -> None:
    home.key.unlink(missing_ok=True)
    home.lock.unlink(missing_ok=True)  # Left by a command that wanted the home for itself.
    with suppress(OSError):  # Not ours alone: somebody put a file into it.
        home.root.rmdir()


def _log_to(folder: TestnetFolder) -> None:
    """Keep what nodes complain about in a file: it would tear the table apart."""
    handler = logging.FileHandler(folder.root / LOG_NAME, mode="w")
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    handler.addFilter(note_speaker)
    log = logging.getLogger("zerorag")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


async def _await_signal(signals: AsyncIterator[int], shutdown: trio.Event) -> None:
    async for _ in signals:
        shutdown.set()


async def _show(live: LiveTestnet, on_snapshot: Callable[[Json], None]) -> None:
    while True:
        on_snapshot(live.snapshot())
        await trio.sleep(_TABLE_INTERVAL_S)
