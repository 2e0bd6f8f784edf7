"""The table of a testnet's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from zerorag_p2p.cli import output
from zerorag_p2p.cli.testnet_options import Json, imperfections

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Lines of a terminal that are not rows of the live table.
_TABLE_MARGIN: Final = 6

#: Of the table of nodes.
COLUMNS: Final = (
    "node",
    "organisation",
    "state",
    "docs",
    "nbrs",
    "conns",
    "adverts",
    "memory",
    "answered",
)


def _is_well(row: Json) -> bool:
    return row["state"] == "running" and not row["misbehaving"] and not row["clock_skew_s"]


def cells(row: Json) -> tuple[object, ...]:
    """A row of the table, a cell a column."""
    state = row["state"]
    if row["misbehaving"]:
        state += f", {row['misbehaving']}"
    if row["clock_skew_s"]:
        state += f", {row['clock_skew_s']:+g} s"
    figures = ("neighbors", "connections", "advertised_vectors", "remembered_queries", "answered")
    return (
        row["name"],
        row["organisation"],
        state,
        row["documents"],
        *(row.get(figure, "-") for figure in figures),
    )


def headline(snapshot: Json) -> str:
    """How the testnet is, in a line."""
    parts = [f"{snapshot['running']} of {output.counted(snapshot['nodes'], 'node')} running"]
    parts += [f"{snapshot[name]} {name}" for name in ("frozen", "stopped") if snapshot[name]]
    if snapshot["partitioned"]:
        parts.append("partitioned")
    if conditions := imperfections(snapshot):
        parts.append(conditions)
    if snapshot["window"]:
        parts.append(
            f"last {output.counted(snapshot['window'], 'question')}: "
            f"{snapshot['hit_rate']:.0%} found, {snapshot['contacts']:.1f} contacts each"
        )
    return "; ".join(parts)


@contextmanager
def live_table(shown: bool) -> Iterator[Callable[[Json], None]]:
    """A table that changes with the testnet; nothing where the output is no terminal."""
    console = output.console()
    if not shown or not console.is_terminal:
        yield lambda _: None
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:

        def show(snapshot: Json) -> None:
            live.update(_table(snapshot, console.height - _TABLE_MARGIN), refresh=True)

        yield show


def _table(snapshot: Json, height: int) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = snapshot["rows"]
    # Whatever is not as it should be comes first, then the busiest.
    order = sorted(rows, key=lambda row: (_is_well(row), -row.get("answered", 0)))
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
        expand=True,
    )
    for name in COLUMNS:
        # One line a node, whose name gives way in a narrow terminal.
        table.add_column(name, no_wrap=True, ratio=1 if name == "organisation" else None)
    styles = {"running": "", "frozen": "cyan", "stopped": "red"}
    for row in order[: max(height, 1)]:
        table.add_row(
            *(Text(output.printable(cell)) for cell in cells(row)), style=styles[row["state"]]
        )
    hidden = len(rows) - max(height, 1)
    if hidden > 0:
        table.caption = f"and {hidden} more: zerorag testnet status"
    return Group(Text(headline(snapshot)), table)
