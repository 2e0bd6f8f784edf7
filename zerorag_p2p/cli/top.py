"""`zerorag top`: a window on running nodes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, home_type, json_option
from zerorag_p2p.cli.testnet_options import TestnetFolderType
from zerorag_p2p.errors import UsageError
from zerorag_p2p.home import Home, TestnetFolder

Json = dict[str, Any]


@click.command(
    epilog=example(
        "zerorag top",
        "zerorag top --home /srv/hospital --home /srv/clinic",
        "zerorag top --testnet",
    )
)
@click.option(
    "--home",
    "homes",
    type=home_type,
    multiple=True,
    help="Folder of a node; repeatable.  [default: $ZERORAG_HOME, else the user's data folder]",
)
@click.option(
    "--testnet",
    type=TestnetFolderType(),
    is_flag=False,
    flag_value="",
    metavar="[FOLDER]",
    help="The nodes of a running testnet, up to 1,000, in its default folder unless one is given.",
)
@json_option
def top(homes: Sequence[Home], testnet: TestnetFolder | None, as_json: bool) -> None:
    """Watch running nodes in the terminal; nothing can be changed there.

    Neighbours, queries with their walk, members, query memory, documents and refusals; press ? for
    the keys. With --json: every figure once, and no window.
    """
    if homes and testnet is not None:
        raise UsageError("give homes of nodes or a testnet, not both")
    if testnet is None:
        homes = list(dict.fromkeys(homes)) or [Home.resolve(None, os.environ)]
        for home in homes:
            home.require()
    if as_json:
        output.print_json(_all_figures(homes) if testnet is None else _testnet_figures(testnet))
        return
    try:
        from zerorag_p2p.tui.app import run_top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise UsageError(
            "the window needs the extra `tui`; install it with `pip install 'zerorag-p2p[tui]'`, "
            "or use --json"
        ) from None
    from zerorag_p2p.tui.nodes import TestnetNodes, nodes_of

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the window needs a terminal; without one, use --json")
    if testnet is None:
        run_top(nodes_of(homes))
    else:
        _snapshot(testnet)
        run_top(TestnetNodes(testnet))


def _snapshot(testnet: TestnetFolder) -> Json:
    """How the testnet is; raises where none runs."""
    from zerorag_p2p.client import TestnetClient

    with TestnetClient(testnet) as client:
        return client.status()


def _testnet_figures(testnet: TestnetFolder) -> Json:
    from zerorag_p2p.tui.nodes import TestnetNodes

    snapshot = _snapshot(testnet)
    stopped = {row["name"] for row in snapshot["rows"] if row["state"] == "stopped"}
    names = [name for name in TestnetNodes(testnet).names() if name not in stopped]
    return {"testnet": snapshot, **_all_figures([testnet.node(name) for name in names])}


def _all_figures(homes: Sequence[Home]) -> Json:
    return {"nodes": asyncio.run(_figures(homes))}


async def _figures(homes: Sequence[Home]) -> list[Json]:
    from zerorag_p2p.client import AsyncClient
    from zerorag_p2p.tui.source import figures

    nodes = []
    for home in homes:
        async with AsyncClient(home) as client:
            nodes.append({"home": str(home.root), "at": time.time(), **await figures(client)})
    return nodes
