"""A stretch of a node's life, recorded to be shown again without a node.

    python -m zerorag_p2p.tui.recording HOME FILE [--seconds 20]

A recording is JSON: every figure "before" and "after", each with its time "at", and the "events" in
between. Texts of queries are in it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from zerorag_p2p.client import AsyncClient, OnEvent
from zerorag_p2p.errors import ZeroRagError
from zerorag_p2p.tui.source import Json, Source, figures


class ReplayedNode:
    """Offers what a node offers, from a recording: first as it was before, then after.

    Figures are those of the end as soon as the status was asked for once; the events all come at
    once.
    """

    def __init__(self, recording: Json) -> None:
        self._recording = recording
        self._asked = 0

    def clock(self) -> float:
        """The time of the figures that are shown, in unix seconds."""
        at: float = self._moment["at"]
        return at

    @property
    def _moment(self) -> Json:
        moment: Json = self._recording["before" if self._asked < 2 else "after"]
        return moment

    async def status(self) -> Json:
        """See `Source`."""
        self._asked += 1
        return self._figure("status")

    async def neighbors(self) -> Sequence[Json]:
        """See `Source`."""
        return self._rows("neighbors")

    async def peers(self) -> Sequence[Json]:
        """See `Source`."""
        return self._rows("peers")

    async def memory(self) -> Json:
        """See `Source`."""
        return self._figure("memory")

    async def collections(self) -> Sequence[Json]:
        """See `Source`."""
        return self._rows("collections")

    async def refusals(self) -> Sequence[Json]:
        """See `Source`."""
        return self._rows("refusals")

    async def events(self, on_event: OnEvent) -> Json:
        """See `Source`. After the last event it waits like a node where nothing happens."""
        for event in self._recording["events"]:
            on_event(event)
        forever: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        return await forever

    async def close(self) -> None:
        """See `Source`."""

    def _figure(self, name: str) -> Json:
        figure: Json = self._moment[name]
        return figure

    def _rows(self, name: str) -> Sequence[Json]:
        rows: Sequence[Json] = self._moment[name]
        return rows


async def record(source: Source, seconds: float) -> Json:
    """Record a node for so long."""
    events: list[Json] = []
    before = {"at": time.time(), **await figures(source)}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await source.events(events.append)
    return {
        "before": before,
        "after": {"at": time.time(), **await figures(source)},
        "events": events,
    }


async def _record_home(home: Path, seconds: float) -> Json:
    async with AsyncClient(home) as client:
        return await record(client, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Record a running node; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m zerorag_p2p.tui.recording", description="Record a running node."
    )
    parser.add_argument("home", type=Path, help="folder of the node")
    parser.add_argument("file", type=Path, help="where the recording goes")
    parser.add_argument("--seconds", type=float, default=20.0, help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        recording = asyncio.run(_record_home(options.home, options.seconds))
    except ZeroRagError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    options.file.write_text(json.dumps(recording, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
