"""What commands print: one JSON document, or text and tables for people.

Much of it was written by other peers, so nothing reaches a terminal that could steer it.
"""

from __future__ import annotations

import json
import os
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
    from rich.table import Table

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

#: Characters a line where the output is no terminal and COLUMNS is not set.
_WIDTH_WITHOUT_TERMINAL: Final = 160

#: More characters than any line has.
_UNBOUNDED: Final = 1 << 20


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    """Print one JSON document as one line, at once: more follow."""
    click.echo(json.dumps(value, ensure_ascii=False))


def console() -> Console:
    """Where tables and styled text go; NO_COLOR and COLUMNS are respected."""
    from rich.console import Console

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if known else _WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False, markup=False, emoji=False)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, optional: Sequence[str] = ()
) -> None:
    """Print a table with a heading.

    Args:
        columns: The headings.
        rows: The cells of each row.
        optional: Columns that are left out, one after the other, while the table is too wide.
    """
    from rich.measure import Measurement

    out = console()
    unbounded = out.options.update(max_width=_UNBOUNDED)
    shown = list(range(len(columns)))
    table = _table(columns, rows, shown)
    for name in optional:
        if Measurement.get(out, unbounded, table).maximum <= out.width:
            break
        shown.remove(columns.index(name))
        table = _table(columns, rows, shown)
    out.print(table)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]], shown: Sequence[int]) -> Table:
    """A table of the columns at these positions."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for position in shown:
        # A peer id is there to be copied whole.
        table.add_column(columns[position], overflow="fold", no_wrap=columns[position] == "peer")
    for row in rows:
        table.add_row(*(Text(printable(row[position])) for position in shown))
    return table


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
