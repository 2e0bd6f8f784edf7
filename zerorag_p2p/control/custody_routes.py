"""The part of the local interface about copies of others' documents and withdrawals of ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import trio
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from zerorag_p2p.config import MAX_NAME_BYTES, MAX_REASON_BYTES
from zerorag_p2p.control import documents
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.node.reports import to_json
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.purposes import parse_purpose

_Result = TypeVar("_Result")


class KeepAnswerBody(BaseModel):
    """One of the last answers, by its audit reference, and the collection its documents go to."""

    model_config = ConfigDict(extra="forbid")

    collection: str = Field(min_length=1, max_length=MAX_NAME_BYTES)
    audit: str = Field(min_length=1, max_length=MAX_NAME_BYTES)


class KeepDocumentBody(BaseModel):
    """A document by its whole content hash, who has it, and the collection it goes to."""

    model_config = ConfigDict(extra="forbid")

    collection: str = Field(min_length=1, max_length=MAX_NAME_BYTES)
    content_hash: str = Field(pattern="^[0-9a-f]{64}$")
    peer: str
    purpose: str = "TREAT"
    reason: str = Field(default="", max_length=MAX_REASON_BYTES)


class WithdrawBody(BaseModel):
    """What is withdrawn, named as for removing it; also the whole content hash of what is gone."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    collection: str | None = None


def serve_custody(app: FastAPI, node: Node) -> None:
    """Add the routes for copies and withdrawals."""

    @app.post("/v1/copies/answer")
    async def keep_answer(body: KeepAnswerBody) -> dict[str, Any]:
        """Keep copies of the documents of an answer, as far as their owners allow."""
        copies = await node.keep_answer(body.audit, body.collection)
        return {"collection": body.collection, "copies": to_json(copies)}

    @app.post("/v1/copies/document")
    async def keep_document(body: KeepDocumentBody) -> dict[str, Any]:
        """Fetch a document and keep a copy of it, if its owner allows."""
        document = await node.fetch(
            body.content_hash,
            parse_peer_id(body.peer),
            purpose=parse_purpose(body.purpose),
            reason=body.reason,
        )
        copy = await node.keep(document, body.collection)
        return {
            "collection": body.collection,
            "copies": [to_json(copy)],
            "document": to_json(document),
        }

    @app.get("/v1/withdrawals")
    async def withdrawals() -> dict[str, Any]:
        """What owners took back, we among them, as far as the node knows."""
        return {"withdrawals": node.withdrawals()}

    @app.post("/v1/withdrawals")
    async def withdraw(body: WithdrawBody) -> dict[str, Any]:
        """Take documents of ours back; every member is told to delete its copies."""
        return await _in_thread(documents.withdraw, node.library, body.name, body.collection)

    @app.delete("/v1/withdrawals/{name:path}")
    async def restore(name: str, collection: str | None = None) -> dict[str, Any]:
        """Let others see withdrawn documents again."""
        return await _in_thread(documents.restore, node.library, name, collection)


async def _in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Run library code, which blocks, beside the event loop."""
    return await trio.to_thread.run_sync(partial(function, *arguments))
