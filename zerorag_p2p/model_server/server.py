"""A server of models: which one may be used, its key, and requests with deadlines and few retries.

Neither a key nor what a request carries gets into an error or a log.
"""

from __future__ import annotations

import email.utils
import ipaddress
import json
import logging
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar
from urllib.parse import SplitResult, urlsplit

import httpx
import trio

from zerorag_p2p import __version__
from zerorag_p2p.config import MAX_EVENT_BYTES
from zerorag_p2p.errors import ConfigError, KeyFileError, ZeroRagError
from zerorag_p2p.files import read_secret
from zerorag_p2p.model_server.error_names import error_name

logger = logging.getLogger("zerorag.models")

_Answer = TypeVar("_Answer")

_KEY_LIMIT: Final = 4_096

#: Answers after which the same request may succeed a moment later.
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})

#: Answers that say that what the request carries cannot be worked on.
_UNFIT: Final = frozenset({400, 413, 422})

#: Seconds before the first repetition, if the server names none; then twice as long each time.
_FIRST_PAUSE_S: Final = 0.5

# Without a context given, httpx loads the certificates of all authorities (measured: 0.1 s).
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class ServerSettings(Protocol):
    """What a table of `config.toml` has to say about a server; see `GenerationConfig`."""

    @property
    def base_url(self) -> str:
        """Where it is."""

    @property
    def model(self) -> str:
        """The name of the model there."""

    @property
    def key_file(self) -> str:
        """File of the key."""

    @property
    def key_environment(self) -> str:
        """Environment variable that holds the key."""

    @property
    def ca_file(self) -> str:
        """Certificates to trust."""

    @property
    def allow_http(self) -> bool:
        """Whether another machine may be asked unencrypted."""

    @property
    def connect_timeout_s(self) -> float:
        """For the connection."""

    @property
    def silence_timeout_s(self) -> float:
        """For the next piece of an answer."""

    @property
    def timeout_s(self) -> float:
        """For a whole answer, retries included."""

    @property
    def retries(self) -> int:
        """How often a request is repeated that failed before its answer began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a server is used for, as its errors tell it.

    Attributes:
        model: "the language model" for instance.
        table: Table of `config.toml` with its settings.
        path: What follows `base_url`.
        carried: What requests carry, in the plural.
        answer: What answers are.
        error: Raised where the server fails.
        unfit: Raised where it refuses what the request carries.
    """

    model: str
    table: str
    path: str
    carried: str
    answer: str
    error: type[ZeroRagError]
    unfit: type[ZeroRagError]


@dataclass(frozen=True, slots=True)
class _Passing:
    """A failure that may pass; `pause_s` is how long the server asks to wait."""

    error: ZeroRagError
    pause_s: float | None = None


class ModelServer:
    """A server of models that speaks OpenAI's interface.

    Args:
        settings: Where it is, and its deadlines; `base_url` is set.
        role: What it is used for.
        randomness: Spreads repeated requests over time.
        clock: Unix seconds, for dates that the server names.

    Raises:
        ConfigError: The settings do not name a server that may be used.
    """

    def __init__(
        self,
        settings: ServerSettings,
        role: Role,
        *,
        randomness: random.Random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        url = _check_url(settings, role)
        self._settings = settings
        self._role = role
        self._randomness = randomness
        self._clock = clock
        self._encrypted = url.scheme == "https"
        self._url = f"{settings.base_url.rstrip('/')}{role.path}"
        self._name = url.netloc

    async def post(
        self, body: bytes, read: Callable[[httpx.Response], Awaitable[_Answer]], *, accept: str
    ) -> _Answer:
        """Send one request.

        Args:
            body: JSON.
            read: Reads a response of status 200, whose body is not compressed, and whose type is
                one of those accepted. It may raise the role's errors, after which nothing is
                repeated.
            accept: Media types, separated by commas.

        Raises:
            ZeroRagError: The role's error: the server failed, was too slow, or broke off.
            KeyFileError: There is no usable key.
            ConfigError: The certificates to trust cannot be read.
        """
        settings = self._settings
        headers = {
            "content-type": "application/json",
            "accept": accept,
            "accept-encoding": "identity",
            "user-agent": f"zerorag-p2p/{__version__}",
        }
        key = self._read_key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        deadline = trio.current_time() + settings.timeout_s
        # Neither proxies nor passwords from the environment: the key goes to this server only.
        client = httpx.AsyncClient(
            headers=headers,
            trust_env=False,
            verify=self._tls(),
            timeout=httpx.Timeout(settings.silence_timeout_s, connect=settings.connect_timeout_s),
        )
        with trio.move_on_at(deadline):
            async with client:
                return await self._try(client, body, read, deadline)
        raise self.error(f"did not finish within {settings.timeout_s:g} s")

    async def _try(
        self,
        client: httpx.AsyncClient,
        body: bytes,
        read: Callable[[httpx.Response], Awaitable[_Answer]],
        deadline: float,
    ) -> _Answer:
        attempt = 0
        while True:
            outcome = await self._request(client, body, read)
            if not isinstance(outcome, _Passing):
                return outcome
            pause_s = outcome.pause_s
            if pause_s is None:
                pause_s = _FIRST_PAUSE_S * 2**attempt * self._randomness.uniform(0.5, 1.5)
            attempt += 1
            if attempt > self._settings.retries or trio.current_time() + pause_s >= deadline:
                raise outcome.error
            logger.info("%s; asking again in %.1f s", outcome.error, pause_s)
            await trio.sleep(pause_s)

    async def _request(
        self,
        client: httpx.AsyncClient,
        body: bytes,
        read: Callable[[httpx.Response], Awaitable[_Answer]],
    ) -> _Answer | _Passing:
        """One request; a failure before the answer begins may be worth another one."""
        try:
            async with client.stream("POST", self._url, content=body) as response:
                if response.status_code != httpx.codes.OK:
                    return await self._refused(response)
                self._check_type(response, client.headers["accept"])
                return await read(response)
        except httpx.ConnectTimeout:
            reason = f"took no connection within {self._settings.connect_timeout_s:g} s"
            return _Passing(self.error(reason))
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise self.error(
                    f"shows a certificate that is not trusted; check {self._role.table}.ca_file"
                ) from None
            return _Passing(self.error("cannot be reached; is it running, and base_url right?"))
        except httpx.TimeoutException:
            raise self.error(f"was silent for {self._settings.silence_timeout_s:g} s") from None
        except httpx.HTTPError:
            raise self.error("broke off") from None

    def _check_type(self, response: httpx.Response, accept: str) -> None:
        kind = media_type(response)
        accepted = [item.strip() for item in accept.split(",")]
        if response.headers.get("content-encoding", "identity") != "identity" or (
            kind not in accepted
        ):
            raise self.no_answer()

    async def _refused(self, response: httpx.Response) -> _Passing:
        """What an answer without success means. Its body may quote the request: it is not told."""
        status, table = response.status_code, self._role.table
        name = await self._name_in(response)
        told = f"{status} {name}" if name else str(status)
        pause_s = _retry_after(response.headers.get("retry-after", ""), self._clock())
        match status:
            case 401 | 403:
                reason = f"refused the key ({told}); check {table}.key_file or key_environment"
            case 404:
                reason = f"has no such model or path ({told}); check {table}.base_url and model"
            case 429:
                wait = "later" if pause_s is None else f"after {pause_s:.0f} s"
                reason = f"has had too many requests ({told}); ask again {wait}"
            case _ if 300 <= status < 400:
                reason = f"is somewhere else ({told}); set {table}.base_url to where it leads"
            case _:
                reason = f"failed ({told})"
        if status in _UNFIT:
            raise self._role.unfit(str(self.error(reason)))
        if status not in _PASSING:
            raise self.error(reason)
        return _Passing(self.error(reason), pause_s)

    async def _name_in(self, response: httpx.Response) -> str:
        """What a body calls its error; "" if that cannot be told."""
        try:
            return error_name(json.loads(await self.body(response, MAX_EVENT_BYTES)))
        except (self._role.error, ValueError, RecursionError):
            return ""

    async def body(self, response: httpx.Response, limit: int) -> bytes:
        """The whole body of a response.

        Raises:
            ZeroRagError: The role's error: it is longer than `limit` bytes.
        """
        data = bytearray()

        def take(piece: bytes) -> None:
            data.extend(piece)
            if len(data) > limit:
                raise self.error("does not stop sending")

        await receive(response, take)
        return bytes(data)

    def no_answer(self) -> ZeroRagError:
        """The role's error for an answer that is none."""
        return self.error(f"answered with something that is no {self._role.answer}")

    def error(self, reason: str) -> ZeroRagError:
        """The role's error that says what the server did."""
        return self._role.error(f"{self._role.model}'s endpoint {self._name} {reason}")

    def _tls(self) -> ssl.SSLContext | bool:
        if not self._encrypted:
            return _NO_TLS
        if not self._settings.ca_file:
            return True
        try:
            return ssl.create_default_context(cafile=self._settings.ca_file)
        except (OSError, ssl.SSLError):
            raise ConfigError(
                f"{self._role.table}.ca_file: {self._settings.ca_file} does not hold certificates"
            ) from None

    def _read_key(self) -> str:
        """The key, or "" where none is configured; it is read anew for every request."""
        settings = self._settings
        if settings.key_file:
            where = settings.key_file
            key = read_secret(Path(where).expanduser(), _KEY_LIMIT).decode("latin-1").strip()
        elif settings.key_environment:
            where = f"the environment variable {settings.key_environment}"
            key = os.environ.get(settings.key_environment, "").strip()
        else:
            return ""
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise KeyFileError(f"{where} does not hold a key for {self._role.model}")
        return key


def media_type(response: httpx.Response) -> str:
    """The media type of a response, in lower case and without parameters."""
    header: str = response.headers.get("content-type", "")
    return header.partition(";")[0].strip().lower()


async def receive(response: httpx.Response, take: Callable[[bytes], None]) -> None:
    """Give the body of a response to `take`, piece by piece, until it ends or `take` raises.

    Raises:
        ZeroRagError: What `take` raised.
    """
    failure: ZeroRagError | None = None
    # httpx reads through generators within generators. An exception out here would leave the inner
    # ones to the garbage collector; a cancellation in there unwinds them all.
    with trio.CancelScope() as scope:
        async for data in response.aiter_raw():
            if failure is None:
                try:
                    take(data)
                except ZeroRagError as error:
                    failure = error
                    scope.cancel()
    if failure is not None:
        raise failure


def _check_url(settings: ServerSettings, role: Role) -> SplitResult:
    """The server's address, if what requests carry may go there.

    Raises:
        ConfigError: It is no address, carries a password, or is not encrypted.
    """
    table = role.table
    try:
        url = urlsplit(settings.base_url)
        host = url.hostname
        httpx.URL(settings.base_url)
    except (ValueError, httpx.InvalidURL):
        host = None
    if not host or url.scheme not in ("http", "https"):
        raise ConfigError(
            f"{table}.base_url is no address of an endpoint; "
            "'https://models.example.org/v1' is, for instance"
        )
    if url.username is not None or url.query or url.fragment:
        raise ConfigError(
            f"{table}.base_url has to be a plain address; the key belongs into "
            f"{table}.key_file or key_environment"
        )
    if url.scheme == "http" and not settings.allow_http and not _is_loopback(host):
        raise ConfigError(
            f"{table}.base_url: {role.carried} would go to {host} unencrypted; use https, or set "
            f"{table}.allow_http where the network between is trusted"
        )
    if not settings.model:
        raise ConfigError(f"{table}.model is missing: name the model that the endpoint has")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _retry_after(value: str, now: float) -> float | None:
    """Seconds to wait as a Retry-After header says (RFC 9110, 10.2.3); None if it does not."""
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        date = email.utils.parsedate_to_datetime(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return max(date.timestamp() - now, 0.0)
