"""The route that answers questions from documents."""

from __future__ import annotations

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from zerorag_p2p.config import MAX_BUDGET, MAX_K, MAX_NAME_BYTES, MAX_REASON_BYTES
from zerorag_p2p.control.events import Emit, Event, EventStream
from zerorag_p2p.control.users import application_of, pseudonym_of
from zerorag_p2p.policy.purposes import parse_purpose
from zerorag_p2p.rag.asking import Asker
from zerorag_p2p.rag.reports import Question, Scope, progress_json


class AskBody(BaseModel):
    """A question to be answered. What is left out has the default of the node's configuration."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=100_000)
    k: int | None = Field(default=None, ge=1, le=MAX_K)
    budget: int | None = Field(default=None, ge=1, le=MAX_BUDGET)
    timeout_s: float | None = Field(default=None, gt=0, le=3_600)
    purpose: str = "TREAT"
    reason: str = Field(default="", max_length=MAX_REASON_BYTES)
    marks: list[str] = Field(default=[], max_length=64)
    user: str = Field(default="", max_length=MAX_NAME_BYTES)
    scope: Scope = Scope.AUTO
    remember: bool = True
    reuse: bool = True


def serve_asking(app: FastAPI, asker: Asker) -> None:
    """Add the route by which `asker` is asked."""

    @app.post("/v1/ask", status_code=200, response_class=EventStream)
    async def ask(body: AskBody, request: Request) -> EventStream:
        """Answer a question: the events of a query, "sources", "text"; then an "answer" event."""
        question = Question(
            text=body.text,
            k=body.k,
            budget=body.budget,
            timeout_s=body.timeout_s,
            purpose=parse_purpose(body.purpose),
            reason=body.reason,
            marks=tuple(body.marks),
            user=pseudonym_of(request, body.user),
            application=application_of(request),
            scope=body.scope,
            remember=body.remember,
            reuse=body.reuse,
        )

        async def work(emit: Emit) -> Event:
            report = await asker.ask(question, lambda progress: emit(progress_json(progress)))
            return {"event": "answer", "answer": report.to_json()}

        return EventStream(work)
