"""How fast `zerorag top` answers a key while much goes on.

    python -m benchmarks.top [--keys 100]

The window runs in a pseudo-terminal of 80 x 24 and watches a node of 500 peers on which the shipped
recording is replayed over and over, 100 events a second. The time of a key is from writing it into
the terminal to reading the drawn answer from it. Prints a sentence and a JSON object; fails if a
single key took longer than 200 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence

from zerorag_p2p.client import OnEvent
from zerorag_p2p.tui.app import TopApp
from zerorag_p2p.tui.nodes import NamedNodes
from zerorag_p2p.tui.recording import ReplayedNode
from zerorag_p2p.tui.screenshots import shipped_recording
from zerorag_p2p.tui.source import Json

PEERS = 500
EVENTS_PER_S = 100
LIMIT_MS = 200
TIMEOUT_S = 10.0

#: Keys, and what is on the screen only after each. Every other one shows the queries as they come.
ANSWERS = (
    ("2", "docs"),
    ("1", "useful"),
    ("2", "docs"),
    ("3", "standing"),
    ("2", "docs"),
    ("?", "follow the query"),
    ("\x1b", "docs"),
    ("4", "next expiry"),
    ("2", "docs"),
    ("6", "request"),
)


class BusyNode(ReplayedNode):
    """The recorded node with many more peers, where events never end."""

    def __init__(self, recording: Json) -> None:
        super().__init__(recording)
        self._recorded = recording

    async def neighbors(self) -> Sequence[Json]:
        return _many(await super().neighbors())

    async def peers(self) -> Sequence[Json]:
        return _many(await super().peers())

    async def events(self, on_event: OnEvent) -> Json:
        began = time.monotonic()
        for number, event in enumerate(_endless(self._recorded["events"])):
            late = time.monotonic() - began - number / EVENTS_PER_S
            await asyncio.sleep(max(-late, 0.0))
            on_event({**event, "at": time.time()})
        raise AssertionError("endless")


def _many(rows: Sequence[Json]) -> list[Json]:
    numbered = zip(range(PEERS), itertools.cycle(rows), strict=False)
    return [
        {
            **row,
            "peer": f"{row['peer'][:-4]}{number:04}",
            "organisation": f"{row['organisation']} {number}",
            "since": time.time() - 60 * number,
        }
        for number, row in numbered
    ]


def _endless(events: Sequence[Json]) -> Iterator[Json]:
    """The recorded events again and again, the queries of each time being others."""
    for time_around in itertools.count():
        for event in events:
            query = event.get("query")
            yield event if query is None else {**event, "query": f"{query}-{time_around}"}


def serve() -> None:
    """Run the window, in the terminal that standard input is."""
    node = BusyNode(shipped_recording())
    TopApp(NamedNodes({"busy": lambda: node})).run()


class Terminal:
    """The window in a process and a terminal of its own."""

    def __init__(self) -> None:
        self._screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("NO_COLOR", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.top", "--serve"],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=environment,
        )
        os.close(inside)

    def press(self, key: str) -> None:
        """Type a key."""
        os.write(self._screen, key.encode())

    def read_until(self, text: str) -> float:
        """Read until `text` was drawn; how many seconds that took."""
        began, seen = time.monotonic(), b""
        while text.encode() not in seen:
            seen += self._read(TIMEOUT_S - (time.monotonic() - began), text)
        return time.monotonic() - began

    def read_for(self, seconds: float) -> None:
        """Take in what is drawn for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._screen], [], [], left)[0]:
                os.read(self._screen, 1 << 16)

    def _read(self, timeout_s: float, waiting_for: str) -> bytes:
        if not select.select([self._screen], [], [], max(timeout_s, 0.0))[0]:
            raise SystemExit(f"{waiting_for!r} was not drawn within {TIMEOUT_S:g} s")
        return os.read(self._screen, 1 << 16)

    def close(self) -> None:
        """Quit."""
        self.press("q")
        with contextlib.suppress(OSError):  # A terminal that nobody is in cannot be read.
            self.read_for(TIMEOUT_S)
        self._process.kill()
        self._process.wait()
        os.close(self._screen)


def measure(keys: int) -> list[float]:
    """Milliseconds that each of so many keys took."""
    randomness = random.Random(1)
    terminal = Terminal()
    times = []
    try:
        terminal.read_until("useful")
        terminal.read_for(2.0)
        for key, answer in itertools.islice(itertools.cycle(ANSWERS), keys):
            terminal.press(key)
            times.append(1_000 * terminal.read_until(answer))
            terminal.read_for(randomness.uniform(0.1, 0.4))
    finally:
        terminal.close()
    return times


def main() -> int:
    """Measure; fails if any key took longer than the limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.top", description=__doc__)
    parser.add_argument("--keys", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    times = measure(options.keys)
    median, worst, load = statistics.median(times), max(times), os.getloadavg()[0]
    p95 = statistics.quantiles(times, n=20)[-1]
    print(
        f"zerorag top, {PEERS} peers and {EVENTS_PER_S} events a second: a key is answered in "
        f"{median:.0f} ms (median), {p95:.0f} ms (95%), {worst:.0f} ms (worst of {len(times)}); "
        f"the limit is {LIMIT_MS} ms, the load average of the machine was {load:.1f}"
    )
    print(
        json.dumps(
            {
                "benchmark": "top",
                "peers": PEERS,
                "events_per_s": EVENTS_PER_S,
                "keys": len(times),
                "median_ms": round(median, 1),
                "p95_ms": round(p95, 1),
                "worst_ms": round(worst, 1),
                "limit_ms": LIMIT_MS,
                "load_average": round(load, 2),
            }
        )
    )
    return 0 if worst <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
