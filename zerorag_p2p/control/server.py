"""Serving the local interface: to its owner on the Unix socket of the home, and over TCP, where the
settings say so, to applications that have a token.
"""

from __future__ import annotations

import logging
import socket
import ssl
import stat
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, cast

import trio
from cryptography import x509
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.types import ASGIApp

from zerorag_p2p.config import API_HANDSHAKE_S, API_HEAD_S, CONTROL_DRAIN_S, ApiConfig
from zerorag_p2p.control.api import build_app
from zerorag_p2p.control.gate import Gate
from zerorag_p2p.control.tokens import TokenBook
from zerorag_p2p.errors import ConfigError, LocalError
from zerorag_p2p.home import Home
from zerorag_p2p.identity.expiry import Ending, Expiring
from zerorag_p2p.node.runtime import Node

logger = logging.getLogger("zerorag.control")

_OWNER_ONLY: Final = 0o177


@asynccontextmanager
async def serving(node: Node, shutdown: trio.Event) -> AsyncIterator[None]:
    """Serve while the context is entered; clients can connect as soon as it is.

    Leaving it waits for `shutdown`, and then a moment for open requests to end. The running `node`
    holds the lock of its home, so a socket found there was left by a node that died and is
    replaced.

    Args:
        node: A running node.
        shutdown: Ends the server; a request may set it.
    """
    tokens = TokenBook(node.home.tokens, time.time)
    app = build_app(node, shutdown, tokens)
    settings = node.config.api
    async with AsyncExitStack() as stack:
        if settings.listen:
            certified = _certificate_ending(node.home.root, settings)
            node.watch_endings(lambda: [*tokens.endings(), *certified])
            gate = Gate(app, tokens, settings)
            await stack.enter_async_context(
                listening_on_tcp(gate, settings, node.home.root, shutdown)
            )
            if not tokens.shown():
                logger.warning("no application has a token: make one with `zerorag token create`")
        await stack.enter_async_context(listening(app, node.home, shutdown))
        yield


@asynccontextmanager
async def listening(app: ASGIApp, home: Home, shutdown: trio.Event) -> AsyncIterator[None]:
    """Serve an application on the socket of a home, as `serving` does a node.

    Args:
        app: The application.
        home: The caller makes sure that nobody else serves there.
        shutdown: Ends the server.
    """
    path = home.socket
    config = _server_config(f"unix:{path}")
    config.umask = _OWNER_ONLY
    try:
        async with _serving(app, config, shutdown):
            yield
    finally:
        path.unlink(missing_ok=True)


@asynccontextmanager
async def listening_on_tcp(
    app: ASGIApp, settings: ApiConfig, folder: Path, shutdown: trio.Event
) -> AsyncIterator[None]:
    """Serve an application where the settings say, over TLS if they name a certificate.

    Args:
        app: The application, which has to check who asks.
        settings: Where.
        folder: Paths of the certificate and its key are relative to it.
        shutdown: Ends the server.

    Raises:
        ConfigError: The certificate or its key cannot be used.
        LocalError: The address is in use, or is not one of this machine.
    """
    certificate, key = folder / settings.certificate, folder / settings.key
    if settings.certificate:
        _check_certificate(certificate, key)
    listener = _bound(*settings.address())
    address = f"{settings.address()[0]}, port {listener.getsockname()[1]}"
    config = _server_config(f"fd://{listener.detach()}")
    config.ssl_handshake_timeout = API_HANDSHAKE_S
    config.keep_alive_timeout = API_HEAD_S
    config.alpn_protocols = ["http/1.1"]
    if settings.certificate:
        config.certfile, config.keyfile = str(certificate), str(key)
    async with _serving(app, config, shutdown):
        how = "TLS" if settings.certificate else "without TLS"
        logger.info("applications are served on %s, %s", address, how)
        yield


def _server_config(bind: str) -> Config:
    server_log = logging.getLogger("zerorag.control.server")
    server_log.setLevel(logging.WARNING)
    config = Config()
    config.bind = [bind]
    config.errorlog = server_log
    config.graceful_timeout = CONTROL_DRAIN_S
    config.include_server_header = False
    return config


@asynccontextmanager
async def _serving(app: ASGIApp, config: Config, shutdown: trio.Event) -> AsyncIterator[None]:
    # Two libraries' types for one interface, ASGI.
    served = cast("ASGIFramework", app)
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(serve, served, shutdown_trigger=shutdown.wait, mode="asgi"), config
        )
        yield


def _certificate_ending(folder: Path, settings: ApiConfig) -> list[Ending]:
    """When the certificate ends, if there is one."""
    if not settings.certificate:
        return []
    _check_certificate(folder / settings.certificate, folder / settings.key)
    chain = x509.load_pem_x509_certificates((folder / settings.certificate).read_bytes())
    end = min(certificate.not_valid_after_utc.timestamp() for certificate in chain)
    return [(Expiring.CERTIFICATE, "", int(end))]


def _check_certificate(certificate: Path, key: Path) -> None:
    try:
        if key.stat().st_mode & stat.S_IRWXO:
            raise ConfigError(
                f"everybody may access {key}, the setting 'api.key': run chmod o= {key}, and "
                "consider the key known"
            )
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ConfigError(
            f"settings 'api.certificate' and 'api.key': {certificate} and {key} are no certificate "
            f"in PEM and its private key ({error.reason or error})"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"settings 'api.certificate' and 'api.key': {certificate} or {key} cannot be read: "
            f"{error.strerror}"
        ) from None


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise LocalError(
            f"applications cannot be served on {host}, port {port}: {error.strerror}; choose "
            "another 'api.listen'"
        ) from None
    return listener
