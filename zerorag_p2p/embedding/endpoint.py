"""Models behind an OpenAI-compatible endpoint, which gets every text that is embedded.

What the endpoint runs cannot be seen from here: the model's name and revision in the fingerprint
are what the settings say.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx
import numpy as np
import trio

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.embedding.chunking import Span, cut_passages, split_text
from zerorag_p2p.errors import (
    ConfigError,
    DecodeError,
    EmbedderUnavailable,
    EmbeddingError,
    KeyFileError,
)
from zerorag_p2p.model import Fingerprint, Vector
from zerorag_p2p.model_server.server import ModelServer, Role
from zerorag_p2p.wire.embedding import normalised_rows

_ROLE: Final = Role(
    model="the embedding model",
    table="embedding",
    path="/embeddings",
    carried="documents and questions",
    answer="list of embeddings",
    error=EmbedderUnavailable,
    unfit=EmbeddingError,
)

#: Bytes of an answer: of a component as JSON writes it, and of what is around a vector.
_COMPONENT_BYTES: Final = 32
_FRAME_BYTES: Final = 1_024


class EndpointEmbedder:
    """A model behind an OpenAI-compatible endpoint.

    Its methods wait for the endpoint: call them in a thread, never in one that runs trio.

    Args:
        settings: Where it is, what its fingerprint is, and its deadlines.
        randomness: Spreads repeated requests over time; by default another in every process.
        clock: Unix seconds, for dates that the endpoint names.

    Raises:
        ConfigError: The settings do not name an endpoint that may be used, or no fingerprint.
    """

    def __init__(
        self,
        settings: EmbeddingConfig,
        *,
        randomness: random.Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._server = ModelServer(
            settings,
            _ROLE,
            randomness=randomness or random.Random(secrets.randbits(64)),
            clock=clock,
        )
        self._settings = settings
        self._fingerprint = _fingerprint(settings)

    @property
    def fingerprint(self) -> Fingerprint:
        """As the settings say; the model's name is the last part of the endpoint's name for it."""
        return self._fingerprint

    def cut(self, text: str, sections: Sequence[int] = ()) -> list[Span]:
        """Cut `text` into passages of at most `passage_bytes` bytes: tokens cannot be counted."""
        return cut_passages(text, self._settings.passage_bytes, _count_bytes, sections)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed n texts into a matrix [n, d], `batch_texts` in a request.

        Raises:
            EmbeddingError: The endpoint refuses a text, or gives one a vector that is not finite or
                is zero.
            EmbedderUnavailable: The endpoint cannot be reached, failed, or answers with something
                else than vectors of the configured dimension; or there is no usable key.
        """
        if not texts:
            return np.empty((0, self._fingerprint.dimension), dtype=np.float32)
        return trio.run(self._embed, texts)

    def embed_query(self, text: str) -> Vector:
        """Embed a question into a vector [d]: of a long one, the mean of its parts.

        Raises as `embed_documents`.
        """
        parts = self.embed_documents(split_text(text, self._settings.passage_bytes, _count_bytes))
        vector: Vector = normalised_rows(parts.mean(axis=0, keepdims=True))[0]
        return vector

    async def _embed(self, texts: Sequence[str]) -> Vector:
        size = self._settings.batch_texts
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        return np.concatenate([await self._embed_batch(batch) for batch in batches])

    async def _embed_batch(self, texts: Sequence[str]) -> Vector:
        prefix, dimension = self._fingerprint.prefix, self._fingerprint.dimension
        body = {
            "model": self._settings.model,
            "input": [f"{prefix}{text}" for text in texts],
            "encoding_format": "float",
        }
        limit = len(texts) * (dimension * _COMPONENT_BYTES + _FRAME_BYTES) + _FRAME_BYTES

        async def read(response: httpx.Response) -> Vector:
            return self._vectors(await self._server.body(response, limit), len(texts))

        data = json.dumps(body).encode()
        try:
            return await self._server.post(data, read, accept="application/json")
        except (KeyFileError, ConfigError) as error:
            raise EmbedderUnavailable(str(error)) from None

    def _vectors(self, data: bytes, count: int) -> Vector:
        """The vectors of an answer [count, d], in the order of the texts."""
        try:
            rows = _read_rows(json.loads(data), count)
        except (
            ValueError,
            ArithmeticError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ):
            raise self._server.no_answer() from None
        dimension = self._fingerprint.dimension
        for row in rows:
            if len(row) != dimension:
                raise self._server.error(
                    f"gives vectors of {len(row)} dimensions, embedding.dimension is {dimension}"
                )
        # What float32 cannot hold becomes infinite, and is refused.
        with np.errstate(over="ignore"):
            return normalised_rows(np.stack(rows).astype(np.float32))


def _read_rows(value: Any, count: int) -> list[Vector]:
    """The vectors of a decoded answer, one a text; raises all sorts where it is malformed."""
    rows: list[Vector | None] = [None] * count
    if len(value["data"]) != count:
        raise ValueError
    for position, item in enumerate(value["data"]):
        index, embedding = item.get("index", position), item["embedding"]
        numbers = all(type(number) in (int, float) for number in embedding)
        if type(index) is not int or not isinstance(embedding, list) or not numbers:
            raise TypeError
        if not 0 <= index < count or rows[index] is not None:
            raise ValueError
        rows[index] = np.array([float(number) for number in embedding], dtype=np.float64)
    return [row for row in rows if row is not None]


def _fingerprint(settings: EmbeddingConfig) -> Fingerprint:
    if not settings.revision or not settings.dimension:
        raise ConfigError(
            "an endpoint does not tell which weights it runs: set embedding.revision, to the "
            "SHA-256 of the weights or another name of the version that all members use, and "
            "embedding.dimension"
        )
    fingerprint = Fingerprint(
        model=settings.model.rpartition("/")[2],
        revision=settings.revision,
        dimension=settings.dimension,
        pooling=settings.pooling,
        prefix=settings.prefix,
    )
    try:
        return Fingerprint.from_map(fingerprint.to_map())
    except DecodeError as error:
        raise ConfigError(f"the settings of the embedding model are no {error}") from None


def _count_bytes(text: str) -> int:
    # Lone halves of characters are not refused here but by whoever encodes the text.
    return len(text.encode(errors="surrogatepass"))
