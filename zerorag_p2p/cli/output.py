"""What commands print: one JSON document, or text and tables for people.

Much of it was written by other peers, so nothing reaches a terminal that could steer it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.wording import (
    counted,
    duration,
    milliseconds,
    moment,
    printable,
    short_peer,
    size,
    span,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "console",
    "counted",
    "duration",
    "milliseconds",
    "moment",
    "print_fields",
    "print_json",
    "print_json_line",
    "print_table",
    "printable",
    "progress_line",
    "short_peer",
    "size",
    "span",
]

#: Characters a line where the output is no terminal.
_WIDTH_WITHOUT_TERMINAL: Final = 160


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    """Print one JSON document as one line, at once: more follow."""
    click.echo(json.dumps(value, ensure_ascii=False))


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
