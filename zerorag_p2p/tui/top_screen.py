"""The tables of one node, drawn anew as its figures change.

Figures of the tab in view are asked for every second, events come as they happen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, Static, TabbedContent, TabPane

from zerorag_p2p.config import TOP_REDRAW_S, TOP_REFRESH_S
from zerorag_p2p.errors import ZeroRagError
from zerorag_p2p.tui.key_line import KeyLine
from zerorag_p2p.tui.nodes import Nodes
from zerorag_p2p.tui.query_log import QueryLog
from zerorag_p2p.tui.row_table import RowTable
from zerorag_p2p.tui.screens import DetailScreen, HelpScreen, NodesScreen, QueryScreen
from zerorag_p2p.tui.source import Json, Source
from zerorag_p2p.tui.tabs import QUERIES, TABS, Tab
from zerorag_p2p.tui.throughput import Throughput
from zerorag_p2p.wording import counted, duration, printable, short_peer, size

_TABS: Final[Mapping[str, Tab]] = {tab.id: tab for tab in TABS}


class TopScreen(Screen[None]):
    """The tables, under a header with the node and its throughput.

    Args:
        nodes: What can be watched; the first is shown at first.
        clock: The present, in unix seconds.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"tab('{tab.id}')", tab.title, show=False)
            for number, tab in enumerate(TABS, start=1)
        ),
        Binding("question_mark", "help", "Help"),
        Binding("slash", "filter", "Filter"),
        Binding("f", "follow", "Follow"),
        Binding("n", "nodes", "Node"),
        Binding("left_square_bracket", "step_node(-1)", "Node before", show=False),
        Binding("right_square_bracket", "step_node(1)", "Node after", show=False),
        Binding("escape", "clear_filter", "Show all", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, nodes: Nodes, clock: Callable[[], float]) -> None:
        super().__init__()
        self.queries = QueryLog()
        self.node = nodes.names()[0]
        # Kept, not looked up: figures may still come in when the widgets are being removed.
        self._header = Static(id="node")
        self._rates = Static(id="throughput")
        self._tabs = TabbedContent(initial=TABS[0].id)
        self._tables = {
            tab.id: RowTable(
                tab.columns,
                row_id=tab.row_id,
                sort=tab.sort,
                descending=tab.descending,
                clock=clock,
                empty=tab.empty,
                id=f"{tab.id}-table",
            )
            for tab in TABS
        }
        self._field = Input(
            placeholder="show only rows that contain ...", id="filter", compact=True
        )
        self._keys = KeyLine()
        self._watchable = nodes
        self._clock = clock
        self._throughput = Throughput()
        self._status: Json | None = None
        self._drawn = -1
        self._wanted = asyncio.Event()

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield self._header
        yield self._rates
        with self._tabs:
            for number, tab in enumerate(TABS, start=1):
                with TabPane(f"{number} {tab.title}", id=tab.id):
                    yield self._tables[tab.id]
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        """Begin to watch the first node."""
        self.set_interval(TOP_REDRAW_S, self._draw_queries)
        self._table.focus()
        self.watch_node(self.node)

    # The figures.

    def watch_node(self, name: str) -> None:
        """Watch the node of this name from now on, and no other."""
        self.node = name
        self.queries = QueryLog()
        self._throughput = Throughput()
        self._status = None
        self._drawn = -1
        for tab in TABS:
            self._table_of(tab).show(())
        self._show_header("waiting for the node")
        self._watch(self._watchable.open(name))

    @work(exclusive=True)
    async def _watch(self, source: Source) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(source))
                tasks.create_task(self._ask(source))
        finally:
            await source.close()

    async def _listen(self, source: Source) -> None:
        log = self.queries
        while True:
            # Why there are no events is seen where the figures are asked for.
            with contextlib.suppress(ZeroRagError):
                await source.events(log.handle)
            await asyncio.sleep(TOP_REFRESH_S)

    async def _ask(self, source: Source) -> None:
        while True:
            self._wanted.clear()
            tab = self._tab
            try:
                status = await source.status()
                rows = None if tab.load is None else await tab.load(source)
            except ZeroRagError as error:
                self._show_header(str(error))
            else:
                self._status = status
                self._throughput.sample(self._clock(), _counts(status))
                self._show_header()
                if rows is not None:
                    self._table_of(tab).show(rows)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), TOP_REFRESH_S)

    def _draw_queries(self) -> None:
        if self._tab is QUERIES and self._drawn != self.queries.changes:
            self._drawn = self.queries.changes
            self._table.show(tuple(self.queries))

    # The header.

    def _show_header(self, problem: str = "") -> None:
        self._header.update(Text(self._node_line(), no_wrap=True), layout=False)
        self._rates.set_class(bool(problem), "problem")
        text = printable(problem).replace("\n", " ") or self._throughput_line()
        self._rates.update(Text(text), layout=False)

    def _node_line(self) -> str:
        """What matters least stands last: a narrow terminal cuts it off."""
        names, status = self._watchable.names(), self._status
        parts = []
        if len(names) > 1:
            position = names.index(self.node) + 1 if self.node in names else "-"
            parts.append(f"{self.node} [{position}/{len(names)}]")
        elif status is None:
            parts.append(self.node)
        if status is not None:
            parts += [
                f"{status['organisation']} ({short_peer(status['peer_id'])})",
                f"up {duration(status['uptime_s'])}",
                f"{status['consortium']} v{status['roster']['version']}",
            ]
        return printable("  ".join(parts)).replace("\n", " ")

    def _throughput_line(self) -> str:
        if self._status is None:
            return ""
        rate, status = self._throughput.rate, self._status
        lost = f"{counted(self.queries.lost, 'event')} lost │ " if self.queries.lost else ""
        return (
            f"{lost}asked {rate('queries'):.1f}/s  answered {rate('answered'):.1f}/s  "
            f"refused {rate('refusals'):.1f}/s  in {size(rate('bytes_received'))}/s  "
            f"out {size(rate('bytes_sent'))}/s\n"
            f"{_notice(status)}{counted(status['neighbors'], 'neighbour')}, "
            f"{status['connections']} connected, "
            f"{status['remembered_queries']} in query memory"
        )

    # The tabs.

    @property
    def _tab(self) -> Tab:
        return _TABS[self._tabs.active or TABS[0].id]

    @property
    def _table(self) -> RowTable:
        return self._table_of(self._tab)

    def _table_of(self, tab: Tab) -> RowTable:
        return self._tables[tab.id]

    def action_tab(self, name: str) -> None:
        """Go to a tab."""
        self._tabs.active = name

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Fill the tab at once; the filter stays with its table."""
        del event
        self._wanted.set()
        self._show_keys()
        self._drawn = -1
        self._draw_queries()
        self._show_filter(self._table.words)
        self._table.focus()

    def _show_keys(self) -> None:
        follow = [("f", "Follow")] if self._tab is QUERIES else []
        nodes = [("n", "Nodes")] if len(self._watchable.names()) > 1 else []
        self._keys.show(
            [
                *(("1-6", "Tab"), ("Enter", "Detail"), *follow, ("s", "Sort"), ("/", "Filter")),
                *(*nodes, ("?", "Help"), ("q", "Quit")),
            ]
        )

    # The filter.

    def _show_filter(self, words: str) -> None:
        self._field.set_class(bool(words), "shown")
        with self.prevent(Input.Changed):
            self._field.value = words

    def action_filter(self) -> None:
        """Type what rows have to contain."""
        self._field.add_class("shown")
        self._field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self._table.filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the table, filtered as it is."""
        event.input.set_class(bool(event.value), "shown")
        self._table.focus()

    def action_clear_filter(self) -> None:
        """Show every row again."""
        self._table.filter("")
        self._show_filter("")
        self._table.focus()

    # What opens over the tables.

    def on_row_table_chosen(self, message: RowTable.Chosen) -> None:
        """Open the details of a row."""
        self._open(message.row, follow=False)

    def _open(self, row: Any, *, follow: bool) -> None:
        if self._tab is QUERIES:
            self.app.push_screen(QueryScreen(row, follow=follow))
        else:
            title = str(row.get("organisation") or row.get("name"))
            self.app.push_screen(DetailScreen(printable(title).replace("\n", " "), row))

    def action_follow(self) -> None:
        """Open the query under the cursor and keep its newest step in view."""
        if self._tab is QUERIES and self._table.row is not None:
            self._open(self._table.row, follow=True)

    def action_help(self) -> None:
        """Open the help."""
        self.app.push_screen(HelpScreen())

    # The nodes.

    def action_nodes(self) -> None:
        """Choose another node."""

        def chosen(name: str | None) -> None:
            if name is not None and name != self.node:
                self.watch_node(name)

        if len(self._watchable.names()) > 1:
            self.app.push_screen(NodesScreen(self._watchable, self._clock), chosen)

    def action_step_node(self, by: int) -> None:
        """Go to the next node, or the one before."""
        names = self._watchable.names()
        if len(names) > 1:
            position = names.index(self.node) + by if self.node in names else 0
            self.watch_node(names[position % len(names)])

    def on_key(self, event: events.Key) -> None:
        """Escape leaves the filter's field, which keeps other keys to itself."""
        if event.key == "escape" and self.focused is self._field:
            self.action_clear_filter()


def _notice(status: Json) -> str:
    """Emergency access, a pause, and what runs out first, before the figures of a line."""
    notices = []
    if grants := status.get("emergencies", {}).get("grants"):
        notices.append(f"EMERGENCY ACCESS {grants} grant{'s' * (grants != 1)}")
    if pause := status.get("pause"):
        notices.append(f"PAUSED {pause['reason']}".strip())
    if expiring := status.get("expiring"):
        notices.append(expiring[0]["sentence"].partition(":")[0])
    return printable("".join(f"{notice} │ " for notice in notices))


def _counts(status: Json) -> dict[str, int]:
    counts: dict[str, int] = status["traffic"]
    return counts
