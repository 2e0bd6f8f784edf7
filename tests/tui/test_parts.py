"""The parts of the window that draw nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.recorded import RecordedNode, answered_event, peer_id, walk_events
from zerorag_p2p.client import OnEvent
from zerorag_p2p.config import TOP_QUERIES, TOP_STEPS
from zerorag_p2p.tui import screenshots
from zerorag_p2p.tui.columns import GAP, Column, arrange, fit
from zerorag_p2p.tui.query_log import AskedQuery, QueryLog
from zerorag_p2p.tui.recording import ReplayedNode, record
from zerorag_p2p.tui.source import Json
from zerorag_p2p.tui.tabs import TABS, Tab, fields
from zerorag_p2p.tui.throughput import Throughput
from zerorag_p2p.tui.walk_drawing import draw


@pytest.mark.parametrize("tab", TABS, ids=lambda tab: tab.id)
@given(width=st.integers(0, 300))
def test_columns_fill_the_width_and_never_exceed_what_a_terminal_has(tab: Tab, width: int) -> None:
    fitted = fit(tab.columns, width)
    taken = sum(size for _, size in fitted) + GAP * (len(fitted) - 1)
    grows = any(column.grows for column, _ in fitted)
    if width >= 79:  # 80 columns less the scroll bar
        assert taken <= width
        assert taken == width or not grows
    assert all(size >= column.width for column, size in fitted)


def test_rows_are_filtered_by_every_word_and_unknown_values_come_last() -> None:
    columns = (
        Column("name", 5, lambda row, _: row[0]),
        Column("size", 5, lambda row, _: str(row[1]), sort_key=lambda row: row[1]),
    )
    rows = [("Bo ann", 3), ("ann", None), ("Ann b", 1), ("cid", 2)]

    def arranged(words: str, *, descending: bool) -> list[str]:
        found = arrange(rows, columns, sort="size", descending=descending, words=words, now=0.0)
        return [row[0] for row in found]

    assert arranged("", descending=False) == ["Ann b", "cid", "Bo ann", "ann"]
    assert arranged("", descending=True) == ["Bo ann", "cid", "Ann b", "ann"]
    assert arranged("ANN b", descending=False) == ["Ann b", "Bo ann"]


def test_rates_are_over_the_last_seconds_and_begin_anew_with_the_node() -> None:
    throughput = Throughput()
    assert throughput.rate("queries") == 0.0
    for second in range(30):
        throughput.sample(float(second), {"queries": 5 * second if second < 15 else 75})
    assert throughput.rate("queries") == 0.0
    throughput.sample(30.0, {"queries": 175})
    assert throughput.rate("queries") == pytest.approx(10.0)
    throughput.sample(31.0, {"queries": 2})
    assert throughput.rate("queries") == 0.0
    throughput.sample(33.0, {"queries": 4})
    assert throughput.rate("queries") == pytest.approx(1.0)


@given(st.lists(st.sampled_from(walk_events("a", contacts=4) + walk_events("b", contacts=2))))
def test_any_part_of_a_stream_in_any_order_can_be_drawn(events: list[dict[str, object]]) -> None:
    log = QueryLog()
    for event in events:
        log.handle(event)
    assert all(draw(query) for query in log)


def test_the_log_is_bounded_in_queries_and_steps() -> None:
    log = QueryLog()
    for number in range(TOP_QUERIES + 10):
        for event in (*walk_events(f"q{number}", contacts=1), answered_event(number)):
            log.handle(event)
    assert len(list(log)) == 2 * TOP_QUERIES
    assert log.asked("q9") is None
    assert log.asked("q10") is not None
    for event in walk_events("long", contacts=TOP_STEPS + 50):
        log.handle(event)
    long = log.asked("long")
    assert isinstance(long, AskedQuery)
    assert len(long.steps) == TOP_STEPS
    assert long.contacts == TOP_STEPS + 50
    assert any("50 more contacts" in line.plain for line in draw(long))


def test_a_query_that_began_unseen_is_shown_from_where_it_was() -> None:
    log = QueryLog()
    for event in walk_events("a1")[3:]:
        log.handle(event)
    query = log.asked("a1")
    assert query is not None
    text = "\n".join(line.plain for line in draw(query))
    assert "began before this window opened" in text
    assert "stopped: settled" in text


def test_fields_name_every_figure_of_a_row() -> None:
    row = {"since": 0.0, "session": {"a": None, "b": [1]}, "peer": "x", "flag": True}
    assert fields(row) == [
        ("since", "1970-01-01 00:00 UTC (0.000)"),
        ("session.a", "-"),
        ("session.b", "[1]"),
        ("peer", "x"),
        ("flag", "true"),
    ]


def test_a_recording_gives_back_what_was_recorded() -> None:
    class Talking(RecordedNode):
        async def events(self, on_event: OnEvent) -> Json:
            for event in walk_events():
                on_event(event)
            return {"reason": "the node ends"}

    async def run() -> None:
        recording = json.loads(json.dumps(await record(Talking(), 5.0)))
        assert recording["events"] == walk_events()
        replayed = ReplayedNode(recording)
        first, second = await replayed.status(), await replayed.status()
        assert (first["traffic"]["answered"], second["traffic"]["answered"]) == (10, 20)
        assert (await replayed.neighbors())[1]["peer"] == peer_id(1)
        assert replayed.clock() == recording["after"]["at"]

    asyncio.run(run())


def test_screenshots_are_made_from_the_shipped_recording(tmp_path: Path) -> None:
    assert screenshots.main([str(tmp_path)]) == 0
    neighbours = (tmp_path / "top-neighbours.svg").read_text()
    query = (tmp_path / "top-query.svg").read_text()
    assert "Northgate&#160;Heart&#160;Hospital" in neighbours
    assert "stopped:&#160;settled" in query
    assert "url(&quot;http" not in neighbours + query
    assert "@font-face" not in neighbours + query
