"""Where a node is, how it is reached, and what its answers mean."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx

from zerorag_p2p import errors
from zerorag_p2p.client.calls import Json
from zerorag_p2p.config import CONTROL_CONNECT_S, CONTROL_SILENCE_S
from zerorag_p2p.errors import (
    AttributionError,
    LocalError,
    NetworkError,
    NodeNotRunningError,
    RemoteRefusal,
    TooManyRequests,
    UsageError,
    ZeroRagError,
)
from zerorag_p2p.files import read_bounded
from zerorag_p2p.home import Home

#: Called with each progress event, a dict with the key "event". Must not block for long.
OnProgress: TypeAlias = Callable[[Json], None]

#: Called with each event of a node, a dict with the key "event" (`zerorag_p2p.node.happenings`).
OnEvent: TypeAlias = Callable[[Json], None]

# Nothing is encrypted on a Unix socket. Without a context given, httpx would load the certificates
# of all authorities for every client (measured: 0.1 s).
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

_TOKEN_FILE_LIMIT: Final = 4 << 10

_TIMEOUT = httpx.Timeout(CONTROL_SILENCE_S, connect=CONTROL_CONNECT_S)


def _socket_of(where: Home | Path | str | None) -> Path:
    if where is None:
        return Home.resolve(None, os.environ).socket
    if isinstance(where, Home):
        return where.socket
    path = Path(where)
    return path if path.is_socket() else Home(path.absolute()).socket


def _checked_url(url: str) -> httpx.URL:
    """The address of a listener, from what a person wrote.

    Raises:
        UsageError: It is none, or a token would cross the network unencrypted.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(f"{url!r} is no address of a node; write https://node.example:8420")
    if parsed.scheme == "http" and not _is_loopback(parsed.host):
        raise UsageError(f"{url} would send the token unencrypted; use https")
    return parsed


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token_of(token: str | None) -> str:
    """The token that was given, else that of the environment.

    Raises:
        UsageError: There is none, or it cannot be sent.
    """
    named = os.environ.get("ZERORAG_TOKEN_FILE")
    if token is None and named:
        token = read_bounded(Path(named), _TOKEN_FILE_LIMIT).decode("ascii", "replace").strip()
    if not token:
        raise UsageError(
            "a node is reached over TCP with a token: give one, or name its file in "
            "ZERORAG_TOKEN_FILE"
        )
    if not (token.isascii() and token.isprintable()):
        raise UsageError("the token has characters that no token has")
    return token


def _tls_of(url: httpx.URL, ca: Path | str | None) -> ssl.SSLContext:
    """What a certificate is judged by: the machine's authorities, or those of a file.

    Raises:
        UsageError: The file cannot be used.
    """
    if url.scheme == "http":
        return _NO_TLS
    chosen = ca if ca is not None else os.environ.get("ZERORAG_CA_FILE")
    try:
        return _judging_by(None if chosen is None else str(chosen))
    except OSError as error:  # ssl.SSLError is one.
        raise UsageError(f"{chosen} holds no certificates in PEM: {error}") from None


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """What led to an error, if it was a certificate."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


@lru_cache(maxsize=8)
def _judging_by(ca: str | None) -> ssl.SSLContext:
    # Measured: reading the machine's authorities takes 0.1 s.
    return ssl.create_default_context(cafile=ca)


def _error_from(description: object) -> ZeroRagError:
    """The exception that the node described, of the same class where we know it."""
    if not isinstance(description, dict):
        return LocalError("the node answered with something that is not of this interface")
    message = str(description.get("message"))
    match description.get("type"):
        case "RemoteRefusal":
            return RemoteRefusal(
                str(description.get("code")),
                str(description.get("reason")),
                description.get("retry_after_s"),
            )
        case "TooManyRequests":
            return TooManyRequests(message, int(description.get("retry_after_s", 1)))
        case "AttributionError":
            fault = str(description.get("fault"))
            return AttributionError(fault, message.removeprefix(f"{fault}: "))
        case name:
            found = getattr(errors, str(name), None)
            if isinstance(found, type) and issubclass(found, ZeroRagError):
                return found(message)
            return LocalError(message)


def value_of(response: httpx.Response) -> Any:
    """The JSON of a whole response; raises the error that it describes."""
    try:
        value = response.json()
    except ValueError:
        raise LocalError(f"the node answered {response.status_code} without JSON") from None
    if response.is_error:
        raise _error_from(value.get("error") if isinstance(value, dict) else None)
    return value


_FINAL_EVENTS: Final = frozenset({"answer", "report", "end", "error"})

#: Events that are not progress: a sign of life, and a count of progress events that were dropped.
ASIDE: Final = frozenset({"alive", "lost"})


def take_in(line: str, on_event: OnEvent | None, hidden: Set[str]) -> Json | None:
    """Take in one line of an event stream; the event that ends it, or None to read on."""
    event: Json = json.loads(line)
    if event["event"] in _FINAL_EVENTS:
        return event
    if on_event is not None and event["event"] not in hidden:
        on_event(event)
    return None


def value_in(final: Json) -> Json:
    """What the last event of a stream carries; raises the error that it describes."""
    if final["event"] == "error":
        raise _error_from(final["error"])
    value: Json = final[final["event"]]
    return value


class Connection:
    """What both clients know of where the node is, and how it is reached."""

    def __init__(
        self,
        where: Home | Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca: Path | str | None = None,
    ) -> None:
        if where is None and url is None:
            url = os.environ.get("ZERORAG_URL")
        elif where is not None and url is not None:
            raise UsageError("a node is reached by its home or by its url; give one of them")
        self._socket: Path | None = None
        self._url = httpx.URL("http://node")
        self._tls = _NO_TLS
        self._headers: dict[str, str] = {}
        if url is None:
            self._socket = _socket_of(where)
        else:
            self._url = _checked_url(url)
            self._tls = _tls_of(self._url, ca)
            self._headers = {"Authorization": f"Bearer {_token_of(token)}"}

    def _open(self) -> httpx.Client:
        path = None if self._socket is None else str(self._socket)
        transport = httpx.HTTPTransport(uds=path, verify=self._tls)
        return httpx.Client(
            transport=transport, base_url=self._url, headers=self._headers, timeout=_TIMEOUT
        )

    def _open_async(self) -> httpx.AsyncClient:
        path = None if self._socket is None else str(self._socket)
        transport = httpx.AsyncHTTPTransport(uds=path, verify=self._tls)
        return httpx.AsyncClient(
            transport=transport, base_url=self._url, headers=self._headers, timeout=_TIMEOUT
        )

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn what httpx raises into our errors."""
        if self._socket is not None and not self._socket.is_socket():
            raise self._not_running()
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            doubt = _certificate_error(error)
            if doubt is not None:
                raise NetworkError(
                    f"the certificate of {self._url} is not to be trusted: "
                    f"{doubt.verify_message}; name the authority that signed it in ZERORAG_CA_FILE"
                ) from None
            raise self._not_running() from None
        except httpx.TimeoutException:
            raise NetworkError(
                f"the node on {self._place} was silent for {CONTROL_SILENCE_S:g} s; "
                "its log tells what it is doing"
            ) from None
        except httpx.TransportError:
            raise self._ended() from None

    @property
    def _place(self) -> str:
        return str(self._url if self._socket is None else self._socket)

    def _not_running(self) -> NodeNotRunningError:
        if self._socket is None:
            return NodeNotRunningError(
                f"no node answers at {self._url}; its operator starts it, with 'api.listen' set"
            )
        return NodeNotRunningError(
            f"no node is running on {self._socket}; "
            f"start it with `zerorag node run --home {self._socket.parent}`"
        )

    def _ended(self) -> NodeNotRunningError:
        return NodeNotRunningError(
            f"the node on {self._place} ended before it answered; its log tells why"
        )
