"""`zerorag top`: a window on running nodes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, home_type, json_option
from zerorag_p2p.errors import UsageError
from zerorag_p2p.home import Home


@click.command(epilog=example("zerorag top", "zerorag top --home /srv/hospital --home /srv/clinic"))
@click.option(
    "--home",
    "homes",
    type=home_type,
    multiple=True,
    default=lambda: [Home.resolve(None, os.environ)],
    help="Folder of a node; repeatable.  [default: $ZERORAG_HOME, else the user's data folder]",
)
@json_option
def top(homes: Sequence[Home], as_json: bool) -> None:
    """Watch running nodes in the terminal; nothing can be changed there.

    Neighbours, queries with their walk, members, query memory, documents and refusals; press ? for
    the keys. With --json: every figure once, and no window.
    """
    for home in homes:
        home.require()
    if as_json:
        output.print_json({"nodes": asyncio.run(_figures(homes))})
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
    run_top(homes)


async def _figures(homes: Sequence[Home]) -> list[dict[str, Any]]:
    from zerorag_p2p.client import AsyncClient
    from zerorag_p2p.tui.source import figures

    nodes = []
    for home in homes:
        async with AsyncClient(home) as client:
            nodes.append({"home": str(home.root), "at": time.time(), **await figures(client)})
    return nodes
