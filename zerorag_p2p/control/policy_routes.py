"""The part of the local interface that is about the owner's rules."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import trio
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from zerorag_p2p.config import MAX_NAME_BYTES, MAX_POLICY_BYTES, MAX_REASON_BYTES
from zerorag_p2p.control import policies
from zerorag_p2p.control.policies import Owner, Trial
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.model import View
from zerorag_p2p.node.reports import to_json
from zerorag_p2p.node.runtime import Node


class CheckBody(BaseModel):
    """What is tried out; without a document or collection, every collection."""

    model_config = ConfigDict(extra="forbid")

    peer: str = Field(min_length=1, max_length=MAX_NAME_BYTES)
    purpose: str = "TREAT"
    collection: str | None = None
    document: str | None = None
    query: str | None = Field(default=None, min_length=1, max_length=100_000)
    view: str = View.PASSAGE.value
    reason: str = Field(default="", max_length=MAX_REASON_BYTES)


class LintBody(BaseModel):
    """The text of rules that are not in force yet."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_POLICY_BYTES)


class RearmBody(BaseModel):
    """Whose emergency access is rearmed; without a peer, everybody's."""

    model_config = ConfigDict(extra="forbid")

    peer: str | None = None


def serve_policy(app: FastAPI, node: Node) -> None:
    """Add the routes for rules and emergency access."""

    def owner() -> Owner:
        return Owner(
            peer=node.peer_id,
            roster=node.core.directory.roster,
            library=node.library,
            embedder=node.embedder,
            redactor=node.core.redaction.redactor,
            guard=node.core.guard,
        )

    @app.get("/v1/policy")
    async def policy() -> dict[str, Any]:
        """The rules in force, and why the file is not if it is not."""
        return {**node.policy.status(), **policies.describe(node.core.guard.policy)}

    @app.post("/v1/policy/check")
    async def check(body: CheckBody) -> dict[str, Any]:
        """Decide for trial, by what decides live."""
        trial = Trial(**body.model_dump())
        return await trio.to_thread.run_sync(partial(policies.check, owner(), trial, time.time()))

    @app.post("/v1/policy/lint")
    async def lint(body: LintBody) -> dict[str, Any]:
        """What looks wrong about rules."""
        return await trio.to_thread.run_sync(policies.find_mistakes, owner(), body.text)

    @app.post("/v1/policy/reload")
    async def reload() -> dict[str, Any]:
        """Take the rules of the file now."""
        return await node.policy.reload()

    @app.get("/v1/policy/emergencies")
    async def emergencies() -> dict[str, Any]:
        """Who has used emergency access since when, and the last accesses."""
        guard = node.core.guard
        return {
            "grants": policies.grants(
                guard.grants, guard.policy, node.core.directory.roster, time.time()
            ),
            "accesses": [to_json(item) for item in node.core.service.emergencies.last],
        }

    @app.post("/v1/policy/rearm")
    async def rearm(body: RearmBody) -> dict[str, Any]:
        """Let a member, or everybody, have emergency access anew."""
        peer = None if body.peer is None else parse_peer_id(body.peer)
        return {"rearmed": node.core.service.emergencies.rearm(peer)}
