"""Event streams: a response of one JSON object a line (NDJSON), while the work goes on."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from zerorag_p2p.config import CONTROL_HEARTBEAT_S, CONTROL_PROGRESS_EVENTS
from zerorag_p2p.control import faults
from zerorag_p2p.errors import ZeroRagError

Event: TypeAlias = Mapping[str, Any]

#: Gives out an event. If the client is slow to read, the event is dropped, and a "lost" event tells
#: how many were as soon as there is room again. Never waits. Call it from trio's thread.
Emit: TypeAlias = Callable[[Event], None]


class EventStream(Response):
    """Runs `work` and sends what it emits, then the event it returns, or an "error" event.

    A client that leaves cancels the work. While nothing happens, an "alive" event tells the client
    every few seconds that the node still works.
    """

    media_type = "application/x-ndjson"

    def __init__(self, work: Callable[[Emit], Awaitable[Event]]) -> None:
        super().__init__()
        self._work = work
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_gone, receive, nursery.cancel_scope)
            await self._send_events(send)
            nursery.cancel_scope.cancel()

    async def _send_events(self, send: Send) -> None:
        # More than `emit` fills: the last event, and one on what was lost, always find room.
        source, sink = trio.open_memory_channel[tuple[Event, bool]](CONTROL_PROGRESS_EVENTS + 2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run, source)
            ended = False
            while not ended:
                event: Event = {"event": "alive"}
                with trio.move_on_after(CONTROL_HEARTBEAT_S):
                    event, ended = await sink.receive()
                body = json.dumps(event, allow_nan=False).encode() + b"\n"
                await send({"type": "http.response.body", "body": body, "more_body": not ended})

    async def _run(self, source: trio.MemorySendChannel[tuple[Event, bool]]) -> None:
        lost = 0

        def tell_lost() -> None:
            nonlocal lost
            if lost:
                source.send_nowait(({"event": "lost", "count": lost}, False))
                lost = 0

        def emit(event: Event) -> None:
            nonlocal lost
            if source.statistics().current_buffer_used < CONTROL_PROGRESS_EVENTS:
                tell_lost()
                source.send_nowait((event, False))
            else:
                lost += 1

        try:
            last = await self._work(emit)
        except ZeroRagError as error:
            last = {"event": "error", "error": faults.to_json(error)}
        except Exception as error:  # The boundary of the process: a defect ends one request only.
            last = {"event": "error", "error": faults.report_defect(error)}
        tell_lost()
        source.send_nowait((last, True))


async def _cancel_when_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
