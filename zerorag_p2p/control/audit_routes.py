"""The part of the local interface that is about the audit log.

What is read may be much, so that every answer but that of a purge is an event stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import trio
from fastapi import Depends, FastAPI
from pydantic import BaseModel, ConfigDict, Field

from zerorag_p2p.audit.reading import Selection
from zerorag_p2p.config import MAX_INTEGER
from zerorag_p2p.control import audit
from zerorag_p2p.control.events import Emit, Event, EventStream
from zerorag_p2p.node.runtime import Node


class PurgeBody(BaseModel):
    """Up to when entries are removed, unix seconds."""

    model_config = ConfigDict(extra="forbid")

    before: float = Field(ge=0, le=MAX_INTEGER)


def _selection(
    since: float | None = None,
    peer: str | None = None,
    kind: str | None = None,
    document: str | None = None,
    reference: str | None = None,
) -> Selection:
    return audit.make_selection(
        since=since, peer=peer, kind=kind, document=document, reference=reference
    )


_Selected = Annotated[Selection, Depends(_selection)]


def serve_audit(app: FastAPI, node: Node) -> None:
    """Add the routes for the audit log."""
    ledger = node.audit.ledger

    def read(look: Callable[[Path], dict[str, Any]]) -> EventStream:
        def work_in_thread() -> dict[str, Any]:
            with ledger.log.reading() as folder:
                return look(folder)

        return _report(work_in_thread)

    @app.get("/v1/audit", status_code=200, response_class=EventStream)
    async def newest(selection: _Selected, limit: int = 100) -> EventStream:
        """The last entries that are selected, oldest first, in a "report" event."""
        return read(partial(audit.newest, selection=selection, limit=limit))

    @app.get("/v1/audit/page", status_code=200, response_class=EventStream)
    async def page(selection: _Selected, after: int = 0) -> EventStream:
        """Selected entries after a number, in a "report" event that says where to go on."""
        return read(partial(audit.page, after=after, selection=selection))

    @app.get("/v1/audit/verify", status_code=200, response_class=EventStream)
    async def verify() -> EventStream:
        """Whether the log is whole: a "report" event."""
        return _report(lambda: ledger.verify().to_json())

    @app.get("/v1/audit/disclosures/{content_hash}", status_code=200, response_class=EventStream)
    async def disclosures(content_hash: str) -> EventStream:
        """Who was given what of a document, in a "report" event."""
        return read(partial(audit.disclosures, document=content_hash))

    @app.post("/v1/audit/purge")
    async def purge(body: PurgeBody) -> dict[str, Any]:
        """Remove the files of the log whose entries are all older."""
        return audit.purged(await node.audit.purge(body.before, time.time()))


def _report(look: Callable[[], dict[str, Any]]) -> EventStream:
    async def work(emit: Emit) -> Event:
        del emit  # there is nothing to tell before the end
        return {"event": "report", "report": await trio.to_thread.run_sync(look)}

    return EventStream(work)
