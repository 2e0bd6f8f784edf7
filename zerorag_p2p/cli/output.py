"""What commands print: one JSON document, or text and tables for people.

Much of it was written by other peers, so nothing reaches a terminal that could steer it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

#: Characters a line where the output is no terminal.
_WIDTH_WITHOUT_TERMINAL: Final = 160

_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def printable(text: object) -> str:
    """A text without control characters: they could clear a screen or turn a line around."""
    return "".join(
        character if character.isprintable() or character == "\n" else "\ufffd"
        for character in str(text)
    )


def short_peer(peer: str) -> str:
    """A peer id as people compare it: all begin alike, so the end tells them apart."""
    return f"{peer[:8]}…{peer[-6:]}"


def console() -> Console:
    """Where tables and styled text go; NO_COLOR is respected."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False, markup=False, emoji=False)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table with a heading."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        *columns, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold"
    )
    for column in table.columns:
        column.overflow = "fold"
        column.no_wrap = column.header == "peer"  # To be copied whole.
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console().print(table)


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one a line."""
    width = max(len(name) for name, _ in fields)
    for name, value in fields:
        click.echo(f"{name:<{width}}  {printable(value)}")


@contextmanager
def progress_line(shown: bool) -> Iterator[Callable[[str], None]]:
    """A line on standard error that changes while work goes on; silent without a terminal."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text("")) as status:
        yield lambda text: status.update(Text(printable(text).replace("\n", " ")))


def moment(timestamp: float | None) -> str:
    """A unix time in UTC, to the minute."""
    if timestamp is None:
        return "-"
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M UTC")


def duration(seconds: float) -> str:
    """A span of time in its two largest units, for instance "3 h 20 min"."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f} h {seconds % _HOUR_S // _MINUTE_S:.0f} min"
    return f"{seconds // _DAY_S:.0f} d {seconds % _DAY_S // _HOUR_S:.0f} h"


def counted(number: int, noun: str) -> str:
    """A number and its noun, for instance "1 document" or "2 documents"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(count: float) -> str:
    """A number of bytes in a decimal unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} GB"
