"""The window as its user drives it, key by key."""

from __future__ import annotations

import asyncio

import pytest
from textual.pilot import Pilot

from tests.tui.recorded import (
    RecordedNode,
    answered_event,
    hides,
    neighbor,
    peer_id,
    play,
    play_nodes,
    screen,
    shows,
    walk_events,
)
from zerorag_p2p.config import TOP_QUERIES
from zerorag_p2p.errors import NodeNotRunningError
from zerorag_p2p.tui.app import TopApp
from zerorag_p2p.tui.row_table import RowTable
from zerorag_p2p.tui.screens import QueryScreen
from zerorag_p2p.tui.source import Json


def organisations(app: TopApp) -> list[str]:
    return [row["organisation"] for row in app.screen.query_one("#neighbors-table", RowTable).rows]


def chosen(app: TopApp) -> str:
    row = app.screen.query_one("#neighbors-table", RowTable).row
    assert row is not None
    return str(row["organisation"])


def test_neighbours_fit_a_small_terminal_with_header_and_keys() -> None:
    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 005", "? Help")
        lines = screen(app).splitlines()
        assert len(lines) == 24
        assert {len(line) for line in lines} == {80}
        assert "General Hospital (12D3KooW…000999)  up 2 h 0 min  cardio-net v3" in lines[0]
        assert "asked 0.0/s" in lines[1]
        assert lines[2].strip() == "6 neighbours, 4 connected, 12 in query memory"
        for name in ("organisation", "state", "age▼", "useful", "trip", "vectors"):
            assert name in lines[5]
        assert "received" not in lines[5]  # There is no room for it.
        row = next(line for line in lines if "Hospital 003" in line)
        assert row.split() == [
            *("Hospital", "003", "12D3KooW…000003", "unreachable"),
            *("4", "h", "3", "min", "4.5", "ms", "30"),
        ]

    play(scene)


def test_what_calls_for_attention_stands_before_the_figures() -> None:
    node = RecordedNode()
    node.expiring = [{"sentence": "the roster expires in 9 days: an authority has to renew it"}]

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "the roster expires in 9 days │ 6 neighbours")
        node.pause, node.expiring = {"since": 0.0, "reason": "stocktaking"}, []
        await shows(app, pilot, "PAUSED stocktaking │ 6 neighbours")
        node.pause, node.emergency_grants = None, 2
        await shows(app, pilot, "EMERGENCY ACCESS 2 grants │ 6 neighbours")
        node.emergency_grants = 0
        await hides(app, pilot, "EMERGENCY")

    play(scene, node)


def test_a_wide_terminal_shows_more_columns() -> None:
    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "received", "sent", "advert", "25.0 kB", "6.0 kB")

    play(scene, size=(130, 24))


def test_sorting_goes_through_the_columns_and_can_be_reversed() -> None:
    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 000")
        assert organisations(app)[0] == "Hospital 005"  # the oldest neighbour
        await pilot.press("S")
        assert organisations(app)[0] == "Hospital 000"
        await shows(app, pilot, "age▲")
        await pilot.press("s", "s")  # useful, then trip
        await shows(app, pilot, "trip▲")
        assert organisations(app)[:2] == ["Hospital 000", "Hospital 001"]
        assert organisations(app)[-1] == "Hospital 004"  # nothing is known of it
        await pilot.press("S")
        assert organisations(app)[0] == "Hospital 005"
        assert organisations(app)[-1] == "Hospital 004"

    play(scene)


def test_a_click_on_a_heading_sorts_and_one_on_a_row_chooses_it() -> None:
    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 005")
        await pilot.click("#neighbors-table", offset=(2, 0))
        assert organisations(app)[0] == "Hospital 005"
        await pilot.click("#neighbors-table", offset=(2, 0))
        assert organisations(app)[0] == "Hospital 000"
        await pilot.click("#neighbors-table", offset=(2, 3))
        assert chosen(app) == "Hospital 002"
        await pilot.click("#neighbors-table", offset=(2, 3), times=2)
        await shows(app, pilot, "last_useful")

    play(scene)


def test_the_filter_acts_while_it_is_typed_and_escape_shows_all() -> None:
    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 005")
        await pilot.press("slash", *"unreach")
        await hides(app, pilot, "Hospital 005")
        assert organisations(app) == ["Hospital 003", "Hospital 000"]
        await pilot.press("space", *"003", "enter")
        assert organisations(app) == ["Hospital 003"]
        await pilot.press("2")  # The filter is of the one table.
        await shows(app, pilot, "no query since")
        await hides(app, pilot, "unreach 003")
        await pilot.press("1")
        await shows(app, pilot, "unreach 003")
        await pilot.press("escape")
        assert len(organisations(app)) == 6
        await pilot.press("slash", *"xyz", "escape")
        assert len(organisations(app)) == 6

    play(scene)


def test_the_cursor_stays_with_its_row_when_rows_change() -> None:
    node = RecordedNode(neighbors=40)

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 039")
        await pilot.press("pagedown", "down")
        name = chosen(app)
        await shows(app, pilot, name)
        node.neighbor_rows = [neighbor(number) for number in range(45)]
        async with asyncio.timeout(5):
            while len(organisations(app)) < 45:
                await pilot.pause(0.01)
        assert chosen(app) == name
        await shows(app, pilot, name)
        await pilot.press("end")
        assert chosen(app) == "Hospital 000"
        node.neighbor_rows = []
        await shows(app, pilot, "no neighbours yet")
        await pilot.press("enter", "down", "end", "f")

    play(scene, node)


def test_detail_shows_every_figure_of_a_row() -> None:
    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 005")
        await pilot.press("enter")
        await shows(app, pilot, peer_id(5), "advertisement.sequence", "round_trip_ms", "7.5")
        await shows(app, pilot, "2027-01-15 02:00 UTC")
        await pilot.press("escape")
        await shows(app, pilot, "age▼")

    play(scene)


def test_queries_come_as_they_happen_the_newest_on_top() -> None:
    node = RecordedNode()

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(app, pilot, "no query since")
        *events, end = walk_events()
        node.tell(*events)
        await shows(app, pilot, "dose of apixaban", "running")
        node.tell(end, answered_event(7))
        await shows(app, pilot, "settled: 3", "44 ms", "(k 5, TREAT)", "Hospital…")
        lines = screen(app).splitlines()
        (mine,) = (line for line in lines if "apixaban" in line)
        assert mine.split()[:2] == ["08:00:00", "here"]
        (others,) = (line for line in lines if "(k 5, TREAT)" in line)
        assert lines.index(others) < lines.index(mine)

    play(scene, node)


def test_a_query_s_walk_is_drawn_step_by_step_with_its_end() -> None:
    node = RecordedNode()

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        events = walk_events()
        node.tell(*events[:4])
        await pilot.press("2")
        await shows(app, pilot, "apixaban")
        await pilot.press("enter")
        await shows(app, pilot, "audit a1, k 5, budget 50", "waiting for the answer", "● running")
        node.tell(*events[4:])
        await shows(
            app,
            pilot,
            "1 Hospital 001 (12D3KooW…000001)",
            "led by advertisement 0.510",
            "✓ 4.2 ms: 2 documents (better), 4 referrals (3 new); 2 held, best 0.710",
            "led by query memory 0.520",
            "led by exploration",
            "✗ refused after 4.2 ms: this node is paused",
            "2 texts from Hospital 001 (12D3KooW…000001): 2 verified in 9.0 ms",
            "■ stopped: settled: 3 contacts changed nothing",
            "2 documents, 3 contacts, 1.5 kB sent, 9.0 kB received, 44 ms",
        )
        await hides(app, pilot, "waiting")
        await pilot.press("escape")
        node.tell(answered_event(3))
        await shows(app, pilot, "(k 5, TREAT)")
        await pilot.press("home", "enter")
        await shows(app, pilot, "A query of Hospital 003", "3 documents and 10 referrals")

    play(scene, node)


def test_following_a_query_keeps_its_newest_step_in_view() -> None:
    node = RecordedNode()

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        events = walk_events(contacts=40)
        node.tell(*events[:2])
        await pilot.press("2")
        await shows(app, pilot, "apixaban")
        await pilot.press("f")
        await shows(app, pilot, "following its newest step", " 1 Hospital 001")
        node.tell(*events[2:60])
        await shows(app, pilot, "30 Hospital 030")
        assert "1 Hospital 001" not in screen(app)
        await pilot.press("f", "home")
        await shows(app, pilot, " 1 Hospital 001")
        node.tell(*events[60:])
        await pilot.pause(0.1)
        assert " 1 Hospital 001" in screen(app)
        await pilot.press("f")
        await shows(app, pilot, "■ stopped")

    play(scene, node)


def test_the_other_tabs_show_members_memory_documents_and_refusals() -> None:
    node = RecordedNode()

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(app, pilot, "standing", "member", "detector", "suspect", "view")
        await pilot.press("enter")
        await shows(app, pilot, "session.software", "zerorag-p2p/0.1.0")
        await pilot.press("escape", "4")
        await shows(app, pilot, "Hospital 001", "30 s", "20 d")
        await pilot.press("5")
        await shows(app, pilot, "guidelines", "every member", "HRESCH", "nobody")
        await pilot.press("enter")
        await shows(app, pilot, "sharing.terms.copy", "false")
        await pilot.press("escape", "6")
        await shows(app, pilot, "07:59:55 us", "denied", "the collection is not")
        await pilot.press("enter")
        await shows(app, pilot, "the collection is not shared for research", "ab" * 32)

    play(scene, node)
    # It asks for nothing but figures, and only for those in view.
    assert set(node.calls) == {
        *("status", "events", "neighbors", "peers", "memory", "collections", "refusals")
    }


def test_help_tells_the_keys_and_q_quits() -> None:
    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 005")
        await pilot.press("question_mark")
        await shows(app, pilot, "follow the query", "it changes nothing", "--json")
        await pilot.press("escape")
        await shows(app, pilot, "Hospital 005")
        await pilot.press("question_mark")
        await pilot.press("q")
        assert not app.is_running or app._exit

    play(scene)


def test_a_node_that_ends_is_told_and_found_again() -> None:
    node = RecordedNode()

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Hospital 005")
        await pilot.press("enter")  # Nor does it matter what is open.
        await shows(app, pilot, "round_trip_ms")
        node.runs = False
        await pilot.pause(0.1)
        await pilot.press("escape")
        await shows(app, pilot, "no node is running here; start it with", "Hospital 005")
        node.runs = True
        await shows(app, pilot, "asked 0.0/s")

    play(scene, node)


def test_several_nodes_are_watched_in_turn() -> None:
    first, second = RecordedNode("Clinic A"), RecordedNode("Clinic B", neighbors=2)

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Clinic A", "[1/2]", "Hospital 005")
        await pilot.press("right_square_bracket")
        await shows(app, pilot, "Clinic B", "[2/2]", "Hospital 001")
        await hides(app, pilot, "Hospital 005")
        assert first.closed
        second.tell(*walk_events())
        await pilot.press("2")
        await shows(app, pilot, "apixaban")
        await pilot.press("n")
        await shows(app, pilot, "nbrs", "running", " 43 ")
        first.runs = False
        await shows(app, pilot, "stopped")
        by_name = {line.split()[1]: line.split()[2:] for line in screen(app).splitlines()[2:4]}
        assert by_name["A"] == ["-", "stopped", *"-----"]
        assert by_name["B"][:-1] == ["Clinic", "B", "running", "43", "2", "4", "12"]
        first.runs = True
        await pilot.press("enter")
        await shows(app, pilot, "Clinic A [1/2]", "no query since")
        await pilot.press("left_square_bracket")
        await shows(app, pilot, "[2/2]")

    play(scene, first, second)
    assert second.closed


class _Grown:
    """Nodes of a testnet: more of them at every look, and no longer any when it ends."""

    def __init__(self) -> None:
        self.runs = True
        self.node = RecordedNode()

    def names(self) -> list[str]:
        return ["p0", "p2", "p10"] if self.runs else []  # and p11, which cannot be watched

    def open(self, name: str) -> RecordedNode:
        del name
        return self.node

    async def rows(self) -> list[Json]:
        if not self.runs:
            raise NodeNotRunningError("no testnet is running")
        states = {"p0": "running", "p2": "frozen", "p10": "running", "p11": "running"}
        return [
            {
                "name": name,
                "organisation": f"Hospital {name}",
                "state": states[name],
                "misbehaving": "tarpit" if name == "p0" else "",
                "clock_skew_s": -5.0 if name == "p10" else 0.0,
                "watchable": name in self.names(),
            }
            for name in states
        ]


def test_nodes_of_a_testnet_are_chosen_by_what_was_done_to_them() -> None:
    nodes = _Grown()

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "p0 [1/3]")
        await pilot.press("n")
        await shows(app, pilot, "tarpit", "frozen", "clock -5 s")
        lines = screen(app).splitlines()[2:6]
        assert [line.split()[0] for line in lines] == ["p0", "p2", "p10", "p11"]
        assert "no home" in lines[3]
        await pilot.press("end", "enter")
        await shows(app, pilot, "p11 has no home")
        await pilot.press("up", "enter")
        await shows(app, pilot, "p10 [3/3]")
        await pilot.press("n")
        nodes.runs = False
        await shows(app, pilot, "Nodes: no testnet is running")
        await pilot.press("escape", "right_square_bracket", "n")
        await shows(app, pilot, "General Hospital")

    play_nodes(scene, nodes)


def test_what_other_peers_wrote_cannot_steer_the_terminal() -> None:
    node = RecordedNode()
    node.neighbor_rows[5]["organisation"] = "Evil\x1b[2J\nName [red]x[/red]"

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await shows(app, pilot, "Evil\ufffd[2J Name")
        assert "\x1b" not in screen(app)
        await pilot.press("enter")
        await shows(app, pilot, "Evil\ufffd[2J Name [red]x[/red]")

    play(scene, node, size=(120, 24))


def test_without_colour_the_cursor_still_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    node = RecordedNode()

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        node.tell(*walk_events())
        await shows(app, pilot, "Hospital 005")
        for keys in ((), ("2",), ("enter",)):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            segments = [
                segment
                for strip in app.screen._compositor.render_strips()
                for segment in strip.apply_filter(app._filters[-1], app.screen.background_colors[1])
                if segment.style is not None
            ]
            colours = {
                colour.name
                for segment in segments
                for colour in (segment.style.color, segment.style.bgcolor)
                if colour is not None
            }
            assert colours <= {"default"}
            if keys != ("enter",):
                assert any(segment.style.reverse for segment in segments)

    play(scene, node)


def test_a_flood_of_events_is_bounded_and_leaves_the_keys_alone() -> None:
    node = RecordedNode(neighbors=500)

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await pilot.pause(0.05)
        for number in range(10):
            node.tell(*(answered_event(index) for index in range(200)))
            node.tell(*walk_events(f"q{number}"))
        for number in range(2 * TOP_QUERIES):
            node.tell(*walk_events(f"r{number}", contacts=1))
        node.tell({"event": "lost", "count": 12})
        await shows(app, pilot, "12 events lost")
        assert len(list(app.top.queries)) == 2 * TOP_QUERIES
        await pilot.press("end", "enter")
        assert isinstance(app.screen, QueryScreen)

    play(scene, node)
