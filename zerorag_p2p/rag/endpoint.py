"""The language model: requests to an OpenAI-compatible endpoint."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

import httpx

from zerorag_p2p.config import GenerationConfig
from zerorag_p2p.errors import GenerationError
from zerorag_p2p.model_server.server import ModelServer, Role, media_type, receive
from zerorag_p2p.rag.chat import Completion, encode_request
from zerorag_p2p.rag.prompt import Message

_EVENTS: Final = "text/event-stream"

_ROLE: Final = Role(
    model="the language model",
    table="generation",
    path="/chat/completions",
    carried="passages",
    answer="chat completion",
    error=GenerationError,
    unfit=GenerationError,
)


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
        self._settings = settings
        self._server = ModelServer(settings, _ROLE, randomness=randomness, clock=clock)

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
        body = encode_request(settings.model, messages, max_tokens=settings.max_tokens)

        async def read(response: httpx.Response) -> str | None:
            return await self._read(response, on_text)

        return await self._server.post(body, read, accept=f"{_EVENTS}, application/json")

    async def _read(self, response: httpx.Response, on_text: Callable[[str], None]) -> str | None:
        completion = Completion(streamed=media_type(response) == _EVENTS)

        def tell(text: str) -> None:
            if text:
                on_text(text)

        await receive(response, lambda data: tell(completion.feed(data)))
        tell(completion.close())
        if completion.empty:
            raise self._server.error("answered nothing")
        return completion.fault
