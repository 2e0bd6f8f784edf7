"""A table of many rows that change all the time.

Only the lines in view are made. (Textual's `DataTable` measures every cell that is added, and a
live list is replaced several times a second.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from zerorag_p2p.tui.columns import GAP, Column, arrange, fit

_HEADING_LINES = 1


class RowTable(ScrollView, can_focus=True):
    """Rows under a heading, with a cursor that stays with its row.

    Args:
        columns: Every column; those that do not fit are left out.
        row_id: Tells rows apart, also after they changed.
        sort: Name of the column that rows are ordered by at first.
        descending: Whether the largest comes first.
        clock: The present, in unix seconds.
        empty: Shown where there is no row.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "row-table--heading",
        "row-table--cursor",
        "row-table--good",
        "row-table--bad",
        "row-table--dim",
    }

    DEFAULT_CSS = """
    RowTable { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    RowTable > .row-table--heading { text-style: bold; }
    RowTable > .row-table--cursor { text-style: reverse; }
    RowTable > .row-table--good { color: $text-success; }
    RowTable > .row-table--bad { color: $text-error; }
    RowTable > .row-table--dim { text-style: dim; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "end(0)", "First", show=False),
        Binding("end", "end(-1)", "Last", show=False),
        Binding("enter", "choose", "Detail"),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse", show=False),
    ]

    class Chosen(Message):
        """Enter or a double click on a row."""

        def __init__(self, table: RowTable, row: Any) -> None:
            super().__init__()
            self.table = table
            self.row = row

        @property
        def control(self) -> RowTable:
            """The table."""
            return self.table

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        row_id: Callable[[Any], str],
        sort: str,
        descending: bool,
        clock: Callable[[], float],
        empty: str,
        id: str | None = None,  # noqa: A002 - textual's name for it
    ) -> None:
        super().__init__(id=id)
        self.sort = sort
        self.descending = descending
        self.words = ""
        self._columns = tuple(columns)
        self._row_id = row_id
        self._clock = clock
        self._empty = empty
        self._all: Sequence[Any] = ()
        self._rows: list[Any] = []
        self._cursor = 0

    # What is shown.

    @property
    def row(self) -> Any | None:
        """The row under the cursor."""
        return self._rows[self._cursor] if self._rows else None

    @property
    def rows(self) -> Sequence[Any]:
        """The rows that pass the filter, in order."""
        return self._rows

    @property
    def total(self) -> int:
        """How many rows there are, the filtered ones included."""
        return len(self._all)

    def show(self, rows: Sequence[Any]) -> None:
        """Replace the rows. The cursor stays with its row, else where it is."""
        self._all = rows
        self._rearrange()

    def filter(self, words: str) -> None:
        """Show only rows that contain every word."""
        self.words = words
        self._rearrange()

    def _rearrange(self) -> None:
        chosen = None if self.row is None else self._row_id(self.row)
        self._rows = arrange(
            self._all,
            self._columns,
            sort=self.sort,
            descending=self.descending,
            words=self.words,
            now=self._clock(),
        )
        # At the top, the cursor stays there and shows what is newest.
        if self._cursor:
            ids = (self._row_id(row) for row in self._rows)
            found = next((index for index, one in enumerate(ids) if one == chosen), self._cursor)
            self._cursor = max(min(found, len(self._rows) - 1), 0)
        self.virtual_size = Size(0, len(self._rows) + _HEADING_LINES)
        self._keep_cursor_in_view()
        self.refresh()

    # Drawing.

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width = self._width
        base = self.rich_style
        fitted = fit(self._columns, width)
        if y < _HEADING_LINES:
            style = base + self._style("heading")
            segments = [
                Segment(_cell(self._heading(column), size, right=column.right), style)
                for column, size in fitted
            ]
            return self._line(segments, style)
        index = self.scroll_offset.y + y - _HEADING_LINES
        if index >= len(self._rows):
            empty = self._empty if not self._rows and y == _HEADING_LINES else ""
            return Strip([Segment(_cell(empty, width), base + self._style("dim"))], width)
        row, now = self._rows[index], self._clock()
        under_cursor = index == self._cursor
        style = base + self._style("cursor") if under_cursor else base
        segments = []
        for column, size in fitted:
            name = column.style(row) if column.style is not None else ""
            cell_style = style + self._style(name) if name and not under_cursor else style
            segments.append(
                Segment(_cell(column.text(row, now), size, right=column.right), cell_style)
            )
        return self._line(segments, style)

    def _line(self, cells: list[Segment], style: Style) -> Strip:
        width = self._width
        gap = Segment(" " * GAP, style)
        segments = [part for cell in cells for part in (cell, gap)][:-1]
        return Strip(segments).adjust_cell_length(width, style)

    def _heading(self, column: Column) -> str:
        if column.name != self.sort:
            return column.name
        return f"{column.name}{'▼' if self.descending else '▲'}"

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"row-table--{name}", partial=True)

    # Moving.

    def _move_to(self, index: int) -> None:
        self._cursor = max(min(index, len(self._rows) - 1), 0)
        self._keep_cursor_in_view()
        self.refresh()

    def _keep_cursor_in_view(self) -> None:
        lines = max(self.size.height - _HEADING_LINES, 1)
        top = self.scroll_offset.y
        if not top <= self._cursor < top + lines:
            top = self._cursor if self._cursor < top else self._cursor - lines + 1
            self.scroll_to(y=top, animate=False, force=True, immediate=True)

    def action_move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        self._move_to(self._cursor + by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a screenful."""
        self._move_to(self._cursor + direction * max(self.size.height - _HEADING_LINES, 1))

    def action_end(self, index: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        self._move_to(index % len(self._rows) if self._rows else 0)

    def action_choose(self) -> None:
        """Tell that the row under the cursor was chosen."""
        if self.row is not None:
            self.post_message(self.Chosen(self, self.row))

    # Sorting.

    def action_sort(self) -> None:
        """Sort by the next column in view."""
        names = [column.name for column, _ in fit(self._columns, self._width)]
        position = names.index(self.sort) if self.sort in names else -1
        self._sort_by(names[(position + 1) % len(names)])

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.descending = not self.descending
        self._rearrange()

    def _sort_by(self, name: str) -> None:
        if name == self.sort:
            self.descending = not self.descending
        self.sort = name
        self._rearrange()

    # The mouse.

    def on_click(self, event: events.Click) -> None:
        """Sort by a heading, move to a row, or choose it with a second click."""
        if event.y >= _HEADING_LINES:
            index = self.scroll_offset.y + event.y - _HEADING_LINES
            if index < len(self._rows):
                self._move_to(index)
                if event.chain > 1:
                    self.action_choose()
            return
        start = 0
        for column, size in fit(self._columns, self._width):
            if start <= event.x < start + size + GAP:
                self._sort_by(column.name)
            start += size + GAP


def _cell(text: str, width: int, *, right: bool = False) -> str:
    """A text in exactly `width` cells; an ellipsis shows that it was cut."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return " " * (width - length) + text if right else text + " " * (width - length)
