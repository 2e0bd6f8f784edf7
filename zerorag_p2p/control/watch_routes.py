"""The part of the local interface that is about reading files: options, and watched folders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from zerorag_p2p.config import MAX_NAME_BYTES, WATCH_INTERVAL_S
from zerorag_p2p.control import documents
from zerorag_p2p.errors import UsageError
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.node.runtime import Node

_Result = TypeVar("_Result")


class ReadingBody(BaseModel):
    """How files are read where their readers shall not decide themselves."""

    model_config = ConfigDict(extra="forbid")

    encoding: str = Field(default="", max_length=MAX_NAME_BYTES)
    text_columns: list[str] = []
    title_column: str = ""
    id_column: str = ""

    def options(self) -> ReadingOptions:
        """As the library takes them."""
        return ReadingOptions(
            encoding=self.encoding,
            text_columns=tuple(self.text_columns),
            title_column=self.title_column,
            id_column=self.id_column,
        )


class WatchBody(ReadingBody):
    """A folder of this machine, by absolute path, and the collection that follows it."""

    folder: str
    collection: str = Field(min_length=1, max_length=MAX_NAME_BYTES)
    interval_s: float = WATCH_INTERVAL_S


def serve_watches(app: FastAPI, node: Node) -> None:
    """Add the routes for watched folders."""

    @app.get("/v1/watches")
    async def watches() -> dict[str, Any]:
        """The folders that are watched, and what the last look at each found."""
        rows = await _in_thread(documents.watches, node.library, node.follower.describe)
        return {"watches": rows}

    @app.post("/v1/watches")
    async def watch(body: WatchBody) -> dict[str, Any]:
        """Let a collection follow a folder, or follow it otherwise."""
        made = await _in_thread(
            documents.watch,
            node.library,
            absolute(body.folder),
            body.collection,
            body.interval_s,
            body.options(),
        )
        node.follower.wake()
        return made

    @app.delete("/v1/watches")
    async def unwatch(folder: str, collection: str | None = None) -> dict[str, Any]:
        """Follow a folder no more; its documents stay."""
        return await _in_thread(documents.unwatch, node.library, absolute(folder), collection)


def absolute(text: str) -> Path:
    """A path that says where it starts.

    Raises:
        UsageError: It does not.
    """
    path = Path(text)
    if not path.is_absolute():
        raise UsageError(f"{text!r} is not an absolute path: the node runs in another folder")
    return path


async def _in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Run library code, which blocks, beside the event loop."""
    return await trio.to_thread.run_sync(partial(function, *arguments))
