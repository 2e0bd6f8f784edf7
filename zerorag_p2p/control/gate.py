"""What stands between the network and the local interface: tokens, scopes and limits.

The order matters: a stranger learns nothing of the routes, and costs a hash.

1. the Host header, on loopback, against web pages that pretend to be local (DNS rebinding);
2. the token; wrong ones are counted by address, but never keep a right one out;
3. how often the token asks, and how much at once;
4. the scope of the token, by route;
5. the size of the body, and the time it takes to come.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

import trio
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import Match
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Connection

from zerorag_p2p.config import API_ADDRESSES, API_BODY_LIMIT, API_BODY_S, ApiConfig
from zerorag_p2p.control import faults
from zerorag_p2p.control.scopes import SCOPES, Scope
from zerorag_p2p.control.tokens import Token, TokenBook
from zerorag_p2p.errors import (
    ScopeDenied,
    TokenRejected,
    TooManyRequests,
    UsageError,
    ZeroRagError,
)
from zerorag_p2p.policy.limits import TokenBucket

logger = logging.getLogger("zerorag.control")

_MINUTE_S: Final = 60.0
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class Gate:
    """Lets requests with a valid token through to the local interface (ASGI).

    Args:
        app: The local interface.
        tokens: Who may ask.
        settings: Limits, and where the listener is.
        clock: Unix seconds.
    """

    def __init__(
        self,
        app: FastAPI,
        tokens: TokenBook,
        settings: ApiConfig,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._settings = settings
        self._clock = clock
        self._hosts = frozenset(
            (*_LOCAL_NAMES, settings.address()[0], *(name.lower() for name in settings.hosts))
        )
        self._failures: dict[str, TokenBucket] = {}  # the address that failed last comes last
        self._rates: dict[str, TokenBucket] = {}
        # By label; the requests themselves with the digest of their token.
        self._running: dict[str, dict[trio.CancelScope, str]] = {}
        tokens.on_change = self._end_requests

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            if scope["type"] != "http":
                raise UsageError("this interface speaks HTTP only")
            headers = Headers(scope=scope)
            self._check_host(headers)
            token = self._authenticate(headers, scope["client"])
            self._check_rate(token)
            self._check_scope(scope, token)
            _check_body(headers)
        except ZeroRagError as error:
            await _refuse(error, scope, receive, send)
            return
        await self._serve(token, scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        if not self._settings.on_loopback():
            return
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _without_port(hosts[0]) not in self._hosts:
            raise UsageError(
                "the Host header names no host of this listener; the node's setting 'api.hosts' "
                "has those that a reverse proxy uses"
            )

    def _authenticate(self, headers: Headers, client: tuple[str, int] | None) -> Token:
        kind, _, presented = headers.get("authorization", "").partition(" ")
        token = self._tokens.find(presented.strip()) if kind.lower() == "bearer" else None
        if token is None:
            self._note_failure("" if client is None else client[0])
            raise _no_token()
        return token

    def _note_failure(self, address: str) -> None:
        """Count a failed attempt of an address.

        Raises:
            TooManyRequests: There were too many.
        """
        now = trio.current_time()
        most = self._settings.failures_per_minute
        bucket = self._failures.pop(address, None) or TokenBucket(most, most / _MINUTE_S, now)
        self._failures[address] = bucket
        if len(self._failures) > API_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        _take(bucket, now, f"more than {most} requests a minute without a valid token")
        logger.warning("a request from %s came without a valid token", address or "nowhere")

    def _check_rate(self, token: Token) -> None:
        now = trio.current_time()
        most = self._settings.requests_per_minute
        if token.label not in self._rates:
            known = {item["label"] for item in self._tokens.shown()}
            self._rates = {label: self._rates[label] for label in self._rates if label in known}
            self._rates[token.label] = TokenBucket(most, most / _MINUTE_S, now)
        _take(self._rates[token.label], now, f"more than {most} requests a minute with this token")
        most = self._settings.concurrent_requests
        if len(self._running.get(token.label, ())) >= most:
            raise TooManyRequests(f"more than {most} requests at once with this token", 1)

    def _check_scope(self, connection: Connection, token: Token) -> None:
        for route in self._app.routes:
            match, _ = route.matches(connection)
            if match is Match.FULL:
                path = getattr(route, "path_format", getattr(route, "path", ""))
                allowed = SCOPES.get((connection["method"], path), frozenset())
                break
        else:  # An administrator learns from the interface itself that there is no such route.
            allowed = frozenset({Scope.ADMIN})
        if not allowed:
            raise ScopeDenied("only the node's owner may do this, over the Unix socket of its home")
        if token.scope not in allowed:
            raise ScopeDenied("the token's scope does not reach as far as this")

    async def _serve(self, token: Token, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve a request while its token is valid."""
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        scope.setdefault("state", {})["application"] = token.label
        with trio.CancelScope(deadline=self._trio_time(token.ends_at)) as validity:
            running = self._running.setdefault(token.label, {})
            running[validity] = token.digest
            try:
                await self._app(scope, _in_time(receive), watched_send)
            finally:
                del running[validity]
                if not running:
                    self._running.pop(token.label, None)
        if validity.cancelled_caught and not started:
            await _refuse(_no_token(), scope, receive, send)

    def _end_requests(self, token: Token) -> None:
        for validity, digest in self._running.get(token.label, {}).items():
            if digest == token.digest:
                validity.deadline = self._trio_time(token.ends_at)

    def _trio_time(self, ends_at: float | None) -> float:
        if ends_at is None:
            return math.inf
        return trio.current_time() + max(0.0, ends_at - self._clock())


def _check_body(headers: Headers) -> None:
    if "transfer-encoding" in headers:
        raise UsageError("a request needs a Content-Length; chunked ones are not taken")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > API_BODY_LIMIT:
        raise UsageError(f"a request has at most {API_BODY_LIMIT} bytes, this one {length:.20}")


def _in_time(receive: Receive) -> Receive:
    """Wait for a body no longer than it may take; afterwards, for the client to leave."""
    deadline = trio.current_time() + API_BODY_S
    whole = False

    async def receive_in_time() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        message: Message = {"type": "http.disconnect"}
        with trio.move_on_at(deadline):
            message = await receive()
        whole = not message.get("more_body", False)
        return message

    return receive_in_time


def _no_token() -> TokenRejected:
    return TokenRejected(
        "this needs a valid token, sent as 'Authorization: Bearer TOKEN'; ask the node's operator "
        "for one"
    )


def _take(bucket: TokenBucket, now: float, what: str) -> None:
    wait_s = bucket.wait_s(1, now)
    if wait_s:
        raise TooManyRequests(what, math.ceil(wait_s))
    bucket.take(1, now)


async def _refuse(
    error: ZeroRagError, connection: Connection, receive: Receive, send: Send
) -> None:
    if connection["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = {}
    match error:
        case TokenRejected():
            headers["WWW-Authenticate"] = "Bearer"
        case TooManyRequests():
            headers["Retry-After"] = str(error.retry_after_s)
    response = JSONResponse({"error": faults.to_json(error)}, faults.http_status(error), headers)
    await response(connection, receive, send)


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return (name if separator and port.isdecimal() else host).lower()
