"""The local interface of a node: HTTP for the people and programs of this machine.

Everything is under `/v1`; `/v1/openapi.json` describes it. An error is
`{"error": {"type", "message", "exit_code"}}`, its type a class of `zerorag_p2p.errors`. Work that
takes long answers with an event stream (`control.events`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

import trio
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from zerorag_p2p import __version__
from zerorag_p2p.config import (
    MAX_BUDGET,
    MAX_INTEGER,
    MAX_K,
    MAX_NAME_BYTES,
    MAX_POLICY_ITEMS,
    MAX_REASON_BYTES,
    MAX_TOKEN_LIFETIME_S,
)
from zerorag_p2p.control import audit, documents, faults
from zerorag_p2p.control.asking import serve_asking
from zerorag_p2p.control.audit_routes import serve_audit
from zerorag_p2p.control.custody_routes import serve_custody
from zerorag_p2p.control.events import Emit, Event, EventStream
from zerorag_p2p.control.policy_routes import serve_policy
from zerorag_p2p.control.scopes import Scope
from zerorag_p2p.control.tokens import Label, TokenBook
from zerorag_p2p.control.users import pseudonym, pseudonym_of, random_user_key
from zerorag_p2p.control.watch_routes import ReadingBody, absolute, serve_watches
from zerorag_p2p.errors import UsageError, ZeroRagError
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.model import PeerId, Purpose, View
from zerorag_p2p.node.files import local_secret
from zerorag_p2p.node.happenings import Observer
from zerorag_p2p.node.reports import ProgressCallback, QueryProgress, QueryReport, to_json
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.purposes import parse_purpose
from zerorag_p2p.rag.asking import Asker

logger = logging.getLogger("zerorag.control")

_Result = TypeVar("_Result")


class QueryBody(BaseModel):
    """A question. What is left out has the default of the node's configuration."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=100_000)
    k: int | None = Field(default=None, ge=1, le=MAX_K)
    budget: int | None = Field(default=None, ge=1, le=MAX_BUDGET)
    fanout: int | None = Field(default=None, ge=1, le=64)
    timeout_s: float | None = Field(default=None, gt=0, le=3_600)
    purpose: str = "TREAT"
    view: View = View.PASSAGE
    user: str = Field(default="", max_length=MAX_NAME_BYTES)
    routing: str | None = None
    stopping: str | None = None
    remember: bool = True
    reason: str = Field(default="", max_length=MAX_REASON_BYTES)
    marks: list[str] = Field(default=[], max_length=MAX_POLICY_ITEMS)
    at_least: float | None = Field(default=None, ge=-1, le=1)
    first: float | None = Field(default=None, ge=-1, le=1)


class AddBody(ReadingBody):
    """Files and folders of this machine, by absolute path, and the collection they go to."""

    paths: list[str] = Field(min_length=1, max_length=10_000)
    collection: str = Field(min_length=1, max_length=MAX_NAME_BYTES)


class TokenBody(BaseModel):
    """A token for an application."""

    model_config = ConfigDict(extra="forbid")

    label: Label
    scope: Scope
    lifetime_s: int | None = Field(default=None, ge=1, le=MAX_TOKEN_LIFETIME_S)


class RotateBody(BaseModel):
    """How long the present token counts beside the new one."""

    model_config = ConfigDict(extra="forbid")

    overlap_s: int = Field(default=0, ge=0, le=MAX_TOKEN_LIFETIME_S)


class UserBody(BaseModel):
    """A user as an application names it, or the application itself.

    Without an application, a user of the Unix socket.
    """

    model_config = ConfigDict(extra="forbid")

    user: str = Field(default="", max_length=MAX_NAME_BYTES)
    application: str = Field(default="", max_length=MAX_NAME_BYTES)


class PauseBody(BaseModel):
    """Why the node is paused; every peer that asks sees it."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="", max_length=MAX_REASON_BYTES)


class MigrationBody(BaseModel):
    """An embedding model, by settings as in the table `[embedding]` of the configuration."""

    model_config = ConfigDict(extra="forbid")

    embedding: dict[str, Any]


class ShareBody(BaseModel):
    """How a collection is shared: with all, for all, and whole, unless narrowed down."""

    model_config = ConfigDict(extra="forbid")

    members: list[str] = []
    purposes: list[str] = []
    view: str = "whole"
    advertise: bool = True
    copy_allowed: bool = Field(default=False, alias="copy")
    reshare: bool = False
    expires_at: int | None = Field(default=None, ge=0, le=MAX_INTEGER)


class Observed(Protocol):
    """What is asked of any node, one of a testnet included; `node.runtime.Node` explains it."""

    @property
    def peer_id(self) -> PeerId:
        """Its peer id."""

    def status(self) -> dict[str, Any]:
        """How it is."""

    def peers(self) -> list[dict[str, Any]]:
        """The members of its roster."""

    def neighbors(self) -> list[dict[str, Any]]:
        """Its neighbours."""

    def memory(self) -> dict[str, Any]:
        """Whose queries it remembers."""

    def refusals(self) -> list[dict[str, Any]]:
        """The last refusals."""

    def watching(self, observer: Observer) -> AbstractContextManager[None]:
        """Tell `observer` what happens while the context is entered."""

    async def query(
        self,
        text: str,
        *,
        k: int | None,
        budget: int | None,
        fanout: int | None,
        timeout_s: float | None,
        purpose: Purpose,
        view: View,
        user: str,
        routing: str | None,
        stopping: str | None,
        remember: bool,
        reason: str,
        marks: Sequence[str],
        at_least: float | None,
        first: float | None,
        on_progress: ProgressCallback | None,
    ) -> QueryReport:
        """Ask the consortium."""


def build_app(node: Node, shutdown: trio.Event, tokens: TokenBook) -> FastAPI:
    """The application that serves `node`; it sets `shutdown` when asked to end the node."""
    app = make_app("ZeroRAG P2P node")
    app.state.user_key = local_secret(node.home.user_key)
    serve_observed(app, node, shutdown)
    serve_asking(app, Asker(node))
    _serve_library(app, node)
    serve_policy(app, node)
    serve_audit(app, node)
    serve_watches(app, node)
    serve_custody(app, node)
    _serve_tokens(app, tokens)
    return app


def make_app(title: str) -> FastAPI:
    """An application without routes that answers errors as this interface does."""
    app = FastAPI(
        title=title,
        version=__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # The page would load scripts from elsewhere.
        redoc_url=None,
        telemetry={"auto_configure": False},
    )
    app.state.user_key = random_user_key()  # of a home, where there is one
    app.add_middleware(DefectBoundary)
    app.add_exception_handler(ZeroRagError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    return app


def serve_observed(app: FastAPI, node: Observed, shutdown: trio.Event) -> None:
    """Add the routes that look at a node, ask through it, or end it."""

    @app.get("/v1/status")
    async def status() -> dict[str, Any]:
        """How the node is."""
        return node.status()

    @app.get("/v1/peers")
    async def peers() -> dict[str, Any]:
        """Every member of the roster and what is known of it."""
        return {"peers": node.peers()}

    @app.get("/v1/neighbors")
    async def neighbors() -> dict[str, Any]:
        """Neighbours and their advertisements."""
        return {"neighbors": node.neighbors()}

    @app.get("/v1/memory")
    async def memory() -> dict[str, Any]:
        """Whose queries are remembered; neither texts nor embeddings."""
        return node.memory()

    @app.get("/v1/refusals")
    async def refusals() -> dict[str, Any]:
        """The last refusals, ours and those of other peers."""
        return {"refusals": node.refusals()}

    @app.get("/v1/events", status_code=200, response_class=EventStream)
    async def events() -> EventStream:
        """What happens in the node from now on, until it ends: events, then an "end" event.

        The texts of queries asked here are in it, and nowhere else: it is never logged.
        """

        async def work(emit: Emit) -> Event:
            with node.watching(lambda happening: emit(to_json(happening))):
                emit({"event": "watching", "peer": node.peer_id})
                await shutdown.wait()
            return {"event": "end", "end": {"reason": "the node ends"}}

        return EventStream(work)

    @app.post("/v1/query", status_code=200, response_class=EventStream)
    async def query(body: QueryBody, request: Request) -> EventStream:
        """Ask the consortium: progress events, then an "answer" or an "error" event."""
        purpose = parse_purpose(body.purpose)
        user = pseudonym_of(request, body.user)

        async def work(emit: Emit) -> Event:
            def on_progress(progress: QueryProgress) -> None:
                emit(to_json(progress))

            report = await node.query(
                body.text,
                k=body.k,
                budget=body.budget,
                fanout=body.fanout,
                timeout_s=body.timeout_s,
                purpose=purpose,
                view=body.view,
                user=user,
                routing=body.routing,
                stopping=body.stopping,
                remember=body.remember,
                reason=body.reason,
                marks=body.marks,
                at_least=body.at_least,
                first=body.first,
                on_progress=on_progress,
            )
            return {"event": "answer", "answer": to_json(report)}

        return EventStream(work)

    @app.post("/v1/shutdown", status_code=202)
    async def stop() -> dict[str, Any]:
        """End the node, after this answer."""
        logger.info("asked to end over the local interface")
        shutdown.set()
        return {"stopping": True}


def _serve_library(app: FastAPI, node: Node) -> None:
    """Add the routes for documents and for the roster."""

    @app.get("/v1/documents/{content_hash}")
    async def get_document(
        content_hash: str, peer: str | None = None, purpose: str = "TREAT", reason: str = ""
    ) -> Any:
        """A document by content hash or prefix: our own, else fetched from `peer`."""
        document = await node.get(
            content_hash,
            peer=None if peer is None else parse_peer_id(peer),
            purpose=parse_purpose(purpose),
            reason=reason,
        )
        return to_json(document)

    @app.get("/v1/collections")
    async def collections() -> dict[str, Any]:
        """Our own collections and how they are shared."""
        return {"collections": await _in_thread(documents.collections, node.library)}

    @app.get("/v1/documents")
    async def list_documents(collection: Annotated[str | None, Query()] = None) -> dict[str, Any]:
        """The sources in our own library."""
        return {"documents": await _in_thread(documents.sources, node.library, collection)}

    @app.post("/v1/documents", status_code=200, response_class=EventStream)
    async def add_documents(body: AddBody) -> EventStream:
        """Add files: events "progress" and "file", then a "report" or an "error" event."""
        paths = [absolute(path) for path in body.paths]

        async def work(emit: Emit) -> Event:
            def on_progress(event: dict[str, Any]) -> None:
                # Raises in the library's thread when the client has gone, which ends the work
                # between two batches.
                trio.from_thread.run_sync(emit, event)

            report = await _in_thread(
                documents.add,
                node.library,
                paths,
                body.collection,
                on_progress,
                body.options(),
            )
            return {"event": "report", "report": report}

        return EventStream(work)

    @app.delete("/v1/documents/{name:path}")
    async def remove_document(name: str, collection: str | None = None) -> dict[str, Any]:
        """Remove a source from the library."""
        return await _in_thread(documents.remove, node.library, name, collection)

    @app.post("/v1/collections/{collection:path}/share")
    async def share(collection: str, body: ShareBody) -> dict[str, Any]:
        """Share a collection."""
        sharing = documents.make_sharing(
            members=body.members,
            purposes=body.purposes,
            view=body.view,
            advertise=body.advertise,
            copy=body.copy_allowed,
            reshare=body.reshare,
            expires_at=body.expires_at,
        )
        return await _change_sharing(node, documents.share, collection, sharing)

    @app.post("/v1/collections/{collection:path}/unshare")
    async def unshare(collection: str) -> dict[str, Any]:
        """Stop sharing a collection."""
        return await _change_sharing(node, documents.unshare, collection)

    @app.post("/v1/pause")
    async def pause(body: PauseBody) -> dict[str, Any]:
        """Answer nobody from now on, across restarts."""
        return {"pause": node.pause(body.reason).to_json()}

    @app.post("/v1/resume")
    async def resume() -> dict[str, Any]:
        """Answer again."""
        node.resume()
        return {"pause": None}

    @app.post("/v1/migration")
    async def begin_migration(body: MigrationBody) -> dict[str, Any]:
        """Begin to go over to another embedding model; how far that is, as in the status."""
        return await node.models.begin(body.embedding)

    @app.post("/v1/migration/finish")
    async def finish_migration() -> dict[str, Any]:
        """Delete the vectors of the old embedding model."""
        return await node.models.finish()

    @app.post("/v1/migration/cancel")
    async def cancel_migration() -> dict[str, Any]:
        """Stay with the embedding model in use."""
        return await node.models.cancel()

    @app.post("/v1/roster")
    async def import_roster(request: Request) -> dict[str, Any]:
        """Take over a newer signed roster, sent as it is (application/cbor)."""
        roster = await node.import_roster(await request.body())
        return roster.to_json()


async def _change_sharing(
    node: Node, change: Callable[..., dict[str, Any]], collection: str, *arguments: object
) -> dict[str, Any]:
    """Change how a collection is shared, on record."""
    await node.audit.commit()  # not while nothing can be recorded
    value = await _in_thread(change, node.library, collection, *arguments)
    node.audit.record(audit.sharing_changed(value))
    await node.audit.commit()
    return value


def _serve_tokens(app: FastAPI, tokens: TokenBook) -> None:
    """Add the routes for tokens of applications."""

    @app.get("/v1/tokens")
    async def list_tokens() -> dict[str, Any]:
        """The tokens that are valid, without what would let somebody use them."""
        return {"tokens": tokens.shown()}

    @app.post("/v1/tokens", status_code=201)
    async def create_token(body: TokenBody) -> dict[str, Any]:
        """Make a token; the only time that it is shown."""
        return tokens.create(body.label, body.scope, lifetime_s=body.lifetime_s)

    @app.post("/v1/tokens/{label}/rotate")
    async def rotate_token(label: str, body: RotateBody) -> dict[str, Any]:
        """Make a new token in the place of the present one."""
        return tokens.rotate(label, overlap_s=body.overlap_s)

    @app.delete("/v1/tokens/{label}")
    async def revoke_token(label: str) -> dict[str, Any]:
        """End a token, and what is under way with it."""
        return tokens.revoke(label)

    @app.post("/v1/pseudonym")
    async def show_pseudonym(body: UserBody) -> dict[str, Any]:
        """Under which name an application's user is known to others."""
        return {"pseudonym": pseudonym(app.state.user_key, body.application, body.user)}


class DefectBoundary:
    """Keeps unforeseen errors of handlers from the server, whose log would show their texts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except Exception as error:  # The boundary of the process: a defect ends one request only.
            described = faults.report_defect(error)
            if not started:
                await JSONResponse({"error": described}, 500)(scope, receive, send)


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    del request
    assert isinstance(error, ZeroRagError), "the handler is registered for this class"
    return JSONResponse({"error": faults.to_json(error)}, faults.http_status(error))


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError), "the handler is registered for this class"
    first = error.errors()[0]
    # The location begins with "body", "path" or "query", which says nothing to a person.
    where = ".".join(str(part) for part in first["loc"][1:])
    return await _answer_error(request, UsageError(f"{where}: {first['msg']}"))


async def _in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Run library code, which blocks, beside the event loop."""
    return await trio.to_thread.run_sync(partial(function, *arguments))
