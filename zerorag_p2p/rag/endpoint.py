"""The language model: requests to an OpenAI-compatible endpoint, with deadlines and few retries."""

from __future__ import annotations

import email.utils
import ipaddress
import json
import logging
import os
import random
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httpx
import trio

from zerorag_p2p import __version__
from zerorag_p2p.config import MAX_EVENT_BYTES, GenerationConfig
from zerorag_p2p.errors import ConfigError, GenerationError, KeyFileError
from zerorag_p2p.node.files import read_secret
from zerorag_p2p.rag.chat import Completion, encode_request, error_name
from zerorag_p2p.rag.prompt import Message

logger = logging.getLogger("zerorag.rag")

_KEY_LIMIT: Final = 4_096

#: Answers after which the same request may succeed a moment later.
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})

#: Seconds before the first repetition, if the endpoint names none; then twice as long each time.
_FIRST_PAUSE_S: Final = 0.5

# Without a context given, httpx loads the certificates of all authorities (measured: 0.1 s).
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True, slots=True)
class _Passing:
    """A failure that may pass; `pause_s` is how long the endpoint asks to wait."""

    error: GenerationError
    pause_s: float | None = None


class Endpoint:
    """A language model behind an OpenAI-compatible endpoint.

    Args:
        settings: Where it is, and its deadlines; `base_url` is set.
        randomness: Spreads repeated requests over time.
        clock: Unix seconds, for dates that the endpoint names.

    Raises:
        ConfigError: The settings do not name an endpoint that may be used.
    """

    def __init__(
        self,
        settings: GenerationConfig,
        *,
        randomness: random.Random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        url = _check_url(settings)
        self._settings = settings
        self._randomness = randomness
        self._clock = clock
        self._encrypted = url.scheme == "https"
        self._url = f"{settings.base_url.rstrip('/')}/chat/completions"
        self._name = url.netloc

    async def complete(
        self, messages: Sequence[Message], on_text: Callable[[str], None]
    ) -> str | None:
        """Have an answer written.

        Args:
            messages: What the model reads.
            on_text: Told of every piece of the answer; what it was told before a failure stays.

        Returns:
            Why the answer is not whole although the model ended it, or None.

        Raises:
            GenerationError: The endpoint failed, was too slow, or broke off.
            KeyFileError: There is no usable key.
            ConfigError: The certificates to trust cannot be read.
        """
        settings = self._settings
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": f"zerorag-p2p/{__version__}",
        }
        key = _read_key(settings)
        if key:
            headers["authorization"] = f"Bearer {key}"
        body = encode_request(settings.model, messages, max_tokens=settings.max_tokens)
        deadline = trio.current_time() + settings.timeout_s
        # Neither proxies nor passwords from the environment: the key goes to this endpoint only.
        client = httpx.AsyncClient(
            headers=headers,
            trust_env=False,
            verify=self._tls(),
            timeout=httpx.Timeout(settings.silence_timeout_s, connect=settings.connect_timeout_s),
        )
        with trio.move_on_at(deadline):
            async with client:
                return await self._try(client, body, on_text, deadline)
        raise self._error(f"did not finish within {settings.timeout_s:g} s")

    async def _try(
        self,
        client: httpx.AsyncClient,
        body: bytes,
        on_text: Callable[[str], None],
        deadline: float,
    ) -> str | None:
        attempt = 0
        while True:
            outcome = await self._request(client, body, on_text)
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
        self, client: httpx.AsyncClient, body: bytes, on_text: Callable[[str], None]
    ) -> str | _Passing | None:
        """One request; a failure before the answer begins may be worth another one."""
        try:
            async with client.stream("POST", self._url, content=body) as response:
                if response.status_code != httpx.codes.OK:
                    return await self._refused(response)
                return await self._read(response, on_text)
        except httpx.ConnectTimeout:
            reason = f"took no connection within {self._settings.connect_timeout_s:g} s"
            return _Passing(self._error(reason))
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                reason = "shows a certificate that is not trusted; check generation.ca_file"
                raise self._error(reason) from None
            return _Passing(self._error("cannot be reached; is it running, and base_url right?"))
        except httpx.TimeoutException:
            raise self._error(f"was silent for {self._settings.silence_timeout_s:g} s") from None
        except httpx.HTTPError:
            raise self._error("broke off") from None

    async def _read(self, response: httpx.Response, on_text: Callable[[str], None]) -> str | None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "identity") != "identity" or kind not in (
            *("text/event-stream", "application/json"),
        ):
            raise self._error("answered with something that is no chat completion")
        completion = Completion(streamed=kind == "text/event-stream")

        def tell(text: str) -> None:
            if text:
                on_text(text)

        await _receive(response, lambda data: tell(completion.feed(data)))
        tell(completion.close())
        if completion.empty:
            raise self._error("answered nothing")
        return completion.fault

    async def _refused(self, response: httpx.Response) -> _Passing:
        """What an answer without success means. Its body may quote the request: it is not told."""
        status = response.status_code
        name = await _name_in(response)
        told = f"{status} {name}" if name else str(status)
        pause_s = _retry_after(response.headers.get("retry-after", ""), self._clock())
        match status:
            case 401 | 403:
                reason = f"refused the key ({told}); check generation.key_file or key_environment"
            case 404:
                reason = f"has no such model or path ({told}); check generation.base_url and model"
            case 429:
                wait = "later" if pause_s is None else f"after {pause_s:.0f} s"
                reason = f"has had too many requests ({told}); ask again {wait}"
            case _ if 300 <= status < 400:
                reason = f"is somewhere else ({told}); set generation.base_url to where it leads"
            case _:
                reason = f"failed ({told})"
        error = self._error(reason)
        if status not in _PASSING:
            raise error
        return _Passing(error, pause_s)

    def _error(self, reason: str) -> GenerationError:
        return GenerationError(f"the language model's endpoint {self._name} {reason}")

    def _tls(self) -> ssl.SSLContext | bool:
        if not self._encrypted:
            return _NO_TLS
        if not self._settings.ca_file:
            return True
        try:
            return ssl.create_default_context(cafile=self._settings.ca_file)
        except (OSError, ssl.SSLError):
            raise ConfigError(
                f"generation.ca_file: {self._settings.ca_file} does not hold certificates"
            ) from None


def _check_url(settings: GenerationConfig) -> SplitResult:
    """The endpoint's address, if passages may go there.

    Raises:
        ConfigError: It is no address, carries a password, or is not encrypted.
    """
    try:
        url = urlsplit(settings.base_url)
        host = url.hostname
        httpx.URL(settings.base_url)
    except (ValueError, httpx.InvalidURL):
        host = None
    if not host or url.scheme not in ("http", "https"):
        raise ConfigError(
            "generation.base_url is no address of an endpoint; "
            "'https://models.example.org/v1' is, for instance"
        )
    if url.username is not None or url.query or url.fragment:
        raise ConfigError(
            "generation.base_url has to be a plain address; the key belongs into "
            "generation.key_file or key_environment"
        )
    if url.scheme == "http" and not settings.allow_http and not _is_loopback(host):
        raise ConfigError(
            f"generation.base_url: passages would go to {host} unencrypted; use https, or set "
            "generation.allow_http where the network between is trusted"
        )
    if not settings.model:
        raise ConfigError("generation.model is missing: name the model that the endpoint has")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_key(settings: GenerationConfig) -> str:
    """The key, or "" where none is configured; it is read anew for every request.

    Raises:
        KeyFileError: It cannot be read, or is none.
    """
    if settings.key_file:
        where = settings.key_file
        key = read_secret(Path(where).expanduser(), _KEY_LIMIT).decode("latin-1").strip()
    elif settings.key_environment:
        where = f"the environment variable {settings.key_environment}"
        key = os.environ.get(settings.key_environment, "").strip()
    else:
        return ""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise KeyFileError(f"{where} does not hold a key for the language model")
    return key


async def _name_in(response: httpx.Response) -> str:
    """What a body calls its error; "" if that cannot be told."""
    data = bytearray()

    def take(piece: bytes) -> None:
        data.extend(piece)
        if len(data) > MAX_EVENT_BYTES:
            raise GenerationError("the description of an error is too long")

    try:
        await _receive(response, take)
        return error_name(json.loads(data))
    except (GenerationError, ValueError, RecursionError):
        return ""


async def _receive(response: httpx.Response, take: Callable[[bytes], None]) -> None:
    """Give the body of a response to `take`, piece by piece, until it ends or `take` raises.

    Raises:
        GenerationError: What `take` raised.
    """
    failure: GenerationError | None = None
    # httpx reads through generators within generators. An exception out here would leave the inner
    # ones to the garbage collector; a cancellation in there unwinds them all.
    with trio.CancelScope() as scope:
        async for data in response.aiter_raw():
            if failure is None:
                try:
                    take(data)
                except GenerationError as error:
                    failure = error
                    scope.cancel()
    if failure is not None:
        raise failure


def _retry_after(value: str, now: float) -> float | None:
    """Seconds to wait as a Retry-After header says (RFC 9110, 10.2.3); None if it does not."""
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        date = email.utils.parsedate_to_datetime(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return max(date.timestamp() - now, 0.0)
