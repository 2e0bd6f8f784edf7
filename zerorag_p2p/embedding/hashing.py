"""An embedder without a model, for tests: words and character triples hashed into buckets.

Texts that share words come out similar; meaning is not looked at. Never use it for real documents.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from zerorag_p2p.embedding.chunking import Span, cut_passages
from zerorag_p2p.errors import EmbeddingError
from zerorag_p2p.model import Fingerprint, Vector
from zerorag_p2p.wire.embedding import normalised_rows

_TRIPLE_WEIGHT: Final = 0.25
_WORD: Final = re.compile(r"\S+")


class HashingEmbedder:
    """Hashed bag of words and character triples; needs no download and no dependency.

    Args:
        dimension: Number of buckets.
        max_words: Words of the longest text that is embedded whole.
    """

    def __init__(self, dimension: int = 256, *, max_words: int = 256) -> None:
        self._max_words = max_words
        self._fingerprint = Fingerprint(
            model="hashing-test-only", revision="1", dimension=dimension, pooling="sum"
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Names the model "hashing-test-only"."""
        return self._fingerprint

    def cut(self, text: str, sections: Sequence[int] = ()) -> list[Span]:
        """Cut `text` into passages of at most `max_words` words."""
        return cut_passages(text, self._max_words, _count_words, sections)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed n texts into a matrix [n, d].

        Raises:
            EmbeddingError: A text is blank, or has more than `max_words` words.
        """
        for text in texts:
            if (count := _count_words(text)) > self._max_words:
                raise EmbeddingError(f"a text of {count} words is longer than {self._max_words}")
        return self._embed(texts)

    def embed_query(self, text: str) -> Vector:
        """Embed a question of any length into a vector [d].

        Raises:
            EmbeddingError: The question is blank.
        """
        vector: Vector = self._embed([text])[0]
        return vector

    def _embed(self, texts: Sequence[str]) -> Vector:
        sums = np.zeros((len(texts), self._fingerprint.dimension), dtype=np.float32)
        for row, text in zip(sums, texts, strict=True):
            for word in _WORD.findall(text.lower()):
                self._count(row, word, 1.0)
                marked = f"<{word}>"
                for start in range(len(marked) - 2):
                    self._count(row, marked[start : start + 3], _TRIPLE_WEIGHT)
        return normalised_rows(sums)

    def _count(self, row: Vector, feature: str, weight: float) -> None:
        digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        row[(number >> 1) % len(row)] += weight if number & 1 else -weight


def _count_words(text: str) -> int:
    return len(text.split())
