"""What opens over the tables: the details of a row, a query's walk, the nodes, and the help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Static

from zerorag_p2p.config import TOP_REDRAW_S, TOP_REFRESH_S
from zerorag_p2p.errors import ZeroRagError
from zerorag_p2p.tui.key_line import KeyLine
from zerorag_p2p.tui.line_view import LineView
from zerorag_p2p.tui.nodes import Nodes
from zerorag_p2p.tui.query_log import AnsweredQuery, AskedQuery
from zerorag_p2p.tui.row_table import RowTable
from zerorag_p2p.tui.source import Json
from zerorag_p2p.tui.tabs import NODE_COLUMNS, fields
from zerorag_p2p.tui.walk_drawing import draw
from zerorag_p2p.wording import printable

_HELP: Final = (
    ("1 ... 6", "go to a tab; a click does, too"),
    ("↑ ↓ PgUp PgDn", "move; also j, k, Home and End"),
    ("Enter", "everything about the row; of a query, its walk"),
    ("f", "follow the query: the newest step stays in view"),
    ("s", "sort by the next column; S reverses the order"),
    ("/", "show only rows that contain what you type; Esc shows all"),
    ("n", "choose another node; [ and ] are the one before and after"),
    ("Esc", "back"),
    ("q", "quit"),
)

_ABOUT: Final = (
    "The window shows; it changes nothing. Figures are asked for every second, events come as they "
    "happen. Every figure is also printed by a command: zerorag status, neighbors, peers, memory, "
    "docs stats, refusals and events, each with --json; of all nodes of a testnet, zerorag testnet "
    "status."
)


class _Sheet(Screen[None]):
    """A screen with a title over lines of text."""

    DEFAULT_CSS = """
    _Sheet > Vertical { background: $surface; }
    _Sheet .title { height: 1; padding: 0 1; background: $primary; color: $text; text-style: bold; }
    _Sheet LineView { height: 1fr; padding: 0 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "dismiss", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]

    KEYS: ClassVar[Sequence[tuple[str, str]]] = (("Esc", "Back"), ("q", "Quit"))

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """The widgets."""
        with Vertical():
            yield Static(Text(self._title), classes="title")
            yield LineView()
            yield KeyLine()

    def lines(self) -> list[Text]:
        """What is shown."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show the lines."""
        self.query_one(KeyLine).show(self.KEYS)
        self.call_after_refresh(self.update)

    def update(self, *, to_end: bool = False) -> None:
        """Show the lines anew."""
        self.query_one(LineView).show(self.lines(), to_end=to_end)


class DetailScreen(_Sheet):
    """Every figure of one row."""

    def __init__(self, title: str, row: Json) -> None:
        super().__init__(title)
        self._row = row

    def lines(self) -> list[Text]:
        """A line a figure."""
        found = fields(self._row)
        width = max((len(name) for name, _ in found), default=0)
        return [
            Text.assemble((f"{name:<{width}}  ", "dim"), printable(text).replace("\n", " "))
            for name, text in found
        ]


class HelpScreen(_Sheet):
    """The keys."""

    def __init__(self) -> None:
        super().__init__("Keys")

    def lines(self) -> list[Text]:
        """A line a key."""
        width = max(len(keys) for keys, _ in _HELP)
        keys = [Text.assemble((f"{keys:<{width}}  ", "bold"), text) for keys, text in _HELP]
        return [*keys, Text(), Text(_ABOUT)]


class QueryScreen(_Sheet):
    """The walk of one query, as it goes on."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f", "follow", "Follow")]

    KEYS: ClassVar[Sequence[tuple[str, str]]] = (("Esc", "Back"), ("f", "Follow"), ("q", "Quit"))

    def __init__(self, query: AskedQuery | AnsweredQuery, *, follow: bool) -> None:
        super().__init__("Query")
        self._query = query
        self._drawn = -1
        self.following = follow

    def lines(self) -> list[Text]:
        """The walk so far."""
        return draw(self._query)

    def on_mount(self) -> None:
        """Draw again whenever something has happened."""
        self._show_title()
        self.set_interval(TOP_REDRAW_S, self._redraw)

    def _redraw(self) -> None:
        changes = self._query.changes if isinstance(self._query, AskedQuery) else 0
        if changes != self._drawn:
            self._drawn = changes
            self.update(to_end=self.following)

    def action_follow(self) -> None:
        """Keep the newest step in view, or stop that."""
        self.following = not self.following
        self._show_title()
        self.update(to_end=self.following)

    def _show_title(self) -> None:
        title = "Query, following its newest step" if self.following else "Query"
        self.query_one(".title", Static).update(Text(title))


class NodesScreen(Screen[str | None]):
    """Shows how all nodes are and chooses the one to watch; dismissed with its name."""

    DEFAULT_CSS = """
    NodesScreen > Vertical { background: $surface; }
    NodesScreen .title {
        height: 1; padding: 0 1; background: $primary; color: $text; text-style: bold;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, nodes: Nodes, clock: Callable[[], float]) -> None:
        super().__init__()
        self._watchable = nodes
        self._title = Static("Nodes", classes="title")
        self._table = RowTable(
            NODE_COLUMNS,
            row_id=lambda row: str(row["name"]),
            sort="node",
            descending=False,
            clock=clock,
            empty="no node",
        )

    def compose(self) -> ComposeResult:
        """The widgets."""
        with Vertical():
            yield self._title
            yield self._table
            yield KeyLine()

    def on_mount(self) -> None:
        """Show the nodes, and go on asking how they are."""
        keys = (("Enter", "Watch"), ("s", "Sort"), ("Esc", "Back"), ("q", "Quit"))
        self.query_one(KeyLine).show(keys)
        self._table.show([{"name": name} for name in self._watchable.names()])
        self._ask()

    @work(exclusive=True)
    async def _ask(self) -> None:
        told = ""
        while True:
            problem = ""
            try:
                self._table.show(await self._watchable.rows())
            except ZeroRagError as error:
                problem = str(error)
            if problem != told:  # What was said of a choice stays.
                self._show_title(problem)
                told = problem
            await asyncio.sleep(TOP_REFRESH_S)

    def _show_title(self, problem: str) -> None:
        text = printable(problem).replace("\n", " ")
        self._title.update(Text(f"Nodes: {text}" if text else "Nodes"))

    def on_row_table_chosen(self, message: RowTable.Chosen) -> None:
        """Take the chosen node, if it can be watched."""
        message.stop()
        name = message.row["name"]
        if message.row.get("watchable", True):
            self.dismiss(name)
        else:
            self._show_title(f"{name} has no home in the testnet's folder to watch it by")
