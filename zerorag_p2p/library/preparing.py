"""Cutting sources into documents and embedding these: the slow part of adding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from zerorag_p2p.config import MAX_CONTENT_BYTES, MAX_SOURCE_PARTS
from zerorag_p2p.errors import EmbedderUnavailable, EmbeddingError, LibraryError
from zerorag_p2p.library.documents import StoredSource
from zerorag_p2p.model import Content, Fingerprint, Vector
from zerorag_p2p.wire.embedding import normalised_rows


class DocumentEmbedder(Protocol):
    """What a library needs of an embedder (`zerorag_p2p.embedding.embedder.Embedder`)."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What must agree for vectors to be comparable."""

    def split(self, text: str) -> list[str]:
        """Cut a text into parts that can each be embedded whole; joined, they are the text."""

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed n texts into a float32 matrix [n, d]; `EmbeddingError` if one cannot be."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source ready to be stored: its parts and their vectors, float32 [n, d] unit rows."""

    source: StoredSource
    parts: list[str]
    vectors: Vector


def prepare(
    embedder: DocumentEmbedder, sources: Sequence[tuple[StoredSource, str]]
) -> list[Prepared | str]:
    """Prepare sources given with their texts; for one that cannot be, the reason.

    Raises:
        EmbedderUnavailable: The embedding model cannot be loaded.
    """
    if not sources:
        return []
    try:
        return _prepare_together(embedder, sources)
    except EmbedderUnavailable:
        raise
    except (EmbeddingError, LibraryError) as error:
        if len(sources) == 1:
            return [str(error)]
        # One bad text must not keep out the others: find it.
        return [result for source in sources for result in prepare(embedder, [source])]


def _prepare_together(
    embedder: DocumentEmbedder, sources: Sequence[tuple[StoredSource, str]]
) -> list[Prepared | str]:
    split = [_split(embedder, source, text) for source, text in sources]
    vectors = normalised_rows(embedder.embed_documents(list(itertools.chain(*split))))
    ends = list(itertools.accumulate(len(parts) for parts in split))
    if vectors.shape != (ends[-1], embedder.fingerprint.dimension):
        raise EmbeddingError(
            f"the embedder gave an array of shape {vectors.shape} for {ends[-1]} texts of "
            f"{embedder.fingerprint.dimension} dimensions"
        )
    return [
        Prepared(replace(source, parts=len(parts)), parts, vectors[end - len(parts) : end])
        for (source, _), parts, end in zip(sources, split, ends, strict=True)
    ]


def _split(embedder: DocumentEmbedder, source: StoredSource, text: str) -> list[str]:
    parts = embedder.split(text)
    if len(parts) > MAX_SOURCE_PARTS:
        raise LibraryError(f"it has more than {MAX_SOURCE_PARTS} parts; split it")
    for number, part in enumerate(parts):
        if len(Content(source.title, part, number, len(parts)).encode()) > MAX_CONTENT_BYTES:
            raise LibraryError(f"a part of it is longer than {MAX_CONTENT_BYTES} bytes; split it")
    return parts
