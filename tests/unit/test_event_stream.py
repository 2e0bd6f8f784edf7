"""Event streams of the local interface, as ASGI."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from starlette.types import Message

from zerorag_p2p.control.events import Emit, Event, EventStream


class Reader:
    """A client that takes an event only when it is told to."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.may_read = trio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            await self.may_read.wait()
            self.events.append(json.loads(message["body"]))

    async def receive(self) -> Message:
        await trio.sleep_forever()
        raise AssertionError("never")


async def serve(reader: Reader, stream: EventStream) -> None:
    with trio.fail_after(5):
        await stream({}, reader.receive, reader.send)


async def test_a_slow_reader_loses_events_and_is_told_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zerorag_p2p.control.events.CONTROL_PROGRESS_EVENTS", 10)
    reader = Reader()
    more = trio.Event()

    async def work(emit: Emit) -> Event:
        for number in range(1_000):
            emit({"event": "step", "number": number})  # Never waits for the reader.
        reader.may_read.set()
        await more.wait()
        emit({"event": "step", "number": 1_000})
        return {"event": "end", "end": {}}

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, reader, EventStream(work))
        with trio.fail_after(5):
            while len(reader.events) < 10:  # noqa: ASYNC110 - nothing tells of what was read
                await trio.sleep(0.001)
        more.set()
    numbers = [event["number"] for event in reader.events if event["event"] == "step"]
    assert numbers[:10] == list(range(10))
    assert numbers[-1] == 1_000
    (lost,) = (event for event in reader.events if event["event"] == "lost")
    assert lost["count"] == 1_001 - len(numbers)
    assert reader.events.index(lost) == len(reader.events) - 3
    assert reader.events[-1] == {"event": "end", "end": {}}


async def test_what_was_lost_last_is_told_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerorag_p2p.control.events.CONTROL_PROGRESS_EVENTS", 2)
    reader = Reader()

    async def work(emit: Emit) -> Event:
        for number in range(5):
            emit({"event": "step", "number": number})
        reader.may_read.set()
        return {"event": "end", "end": {}}

    await serve(reader, EventStream(work))
    *steps, lost, end = reader.events
    assert (lost["event"], end["event"]) == ("lost", "end")
    assert len(steps) + lost["count"] == 5
