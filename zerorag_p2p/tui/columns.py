"""Columns of a table: what a cell shows, how it sorts, and which columns fit a width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from zerorag_p2p.wording import printable

#: The text of a cell, from a row and the present (unix seconds).
Cell: TypeAlias = Callable[[Any, float], str]

GAP = 1


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: Its heading.
        width: Cells that it needs at least.
        cell: What it shows of a row.
        sort_key: What rows are ordered by; None sorts last. The text, if not given.
        grows: Whether it takes width that is left.
        right: Whether it is flush right.
        optional: Left out where the width does not suffice, the largest number first.
        style: Name of a style for the cell, as the style sheet has it, or "".
    """

    name: str
    width: int
    cell: Cell
    sort_key: Callable[[Any], Any] | None = None
    grows: bool = False
    right: bool = False
    optional: int = 0
    style: Callable[[Any], str] | None = None

    def text(self, row: Any, now: float) -> str:
        """What a terminal may show of the cell: one line without control characters."""
        return printable(self.cell(row, now)).replace("\n", " ")


def fit(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that fit `width`, and how wide each is."""
    chosen = list(columns)
    while _needed(chosen) > width:
        least = max(chosen, key=lambda column: column.optional)
        if least.optional == 0:
            break
        chosen.remove(least)
    left = max(width - _needed(chosen), 0)
    growing = [column for column in chosen if column.grows]
    extra = {column.name: left // len(growing) for column in growing}
    if growing:
        extra[growing[-1].name] += left % len(growing)
    return [(column, column.width + extra.get(column.name, 0)) for column in chosen]


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def arrange(
    rows: Sequence[Any],
    columns: Sequence[Column],
    *,
    sort: str,
    descending: bool,
    words: str,
    now: float,
) -> list[Any]:
    """The rows of which a cell contains every word of `words`, in the order of column `sort`."""
    wanted = words.lower().split()
    kept = [
        row
        for row in rows
        if not wanted or _contains(" ".join(column.text(row, now) for column in columns), wanted)
    ]
    by = next(column for column in columns if column.name == sort)

    def key(row: Any) -> Any:
        return by.text(row, now).lower() if by.sort_key is None else by.sort_key(row)

    known = [row for row in kept if key(row) is not None]
    unknown = [row for row in kept if key(row) is None]
    return sorted(known, key=key, reverse=descending) + unknown


def _contains(text: str, words: Sequence[str]) -> bool:
    text = text.lower()
    return all(word in text for word in words)
