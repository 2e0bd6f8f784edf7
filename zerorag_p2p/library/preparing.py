"""Cutting sources into documents and embedding these: the slow part of adding."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from zerorag_p2p.config import LIBRARY_EMBED_PASSAGES, MAX_CONTENT_BYTES, MAX_SOURCE_PARTS
from zerorag_p2p.errors import EmbedderUnavailable, EmbeddingError, LibraryError, RedactionError
from zerorag_p2p.library.documents import StoredSource
from zerorag_p2p.library.outline import Outline, places, sections
from zerorag_p2p.model import Content, Fingerprint, Vector
from zerorag_p2p.redaction.redaction import Redaction
from zerorag_p2p.wire.embedding import normalised_rows


class DocumentEmbedder(Protocol):
    """What a library needs of an embedder (`zerorag_p2p.embedding.embedder.Embedder`)."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What must agree for vectors to be comparable."""

    def cut(self, text: str, sections: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Cut a text into passages that cover it and can each be embedded whole."""

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed n texts into a float32 matrix [n, d]; `EmbeddingError` if one cannot be."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A source that is to be prepared, its text and the outline of that."""

    source: StoredSource
    text: str
    outline: Outline = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a source that becomes a document.

    Attributes:
        start: Characters of the source's text before it.
        place: What it is told to be from, "page" and "section".
    """

    text: str
    start: int = 0
    place: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source ready to be stored: its passages and their vectors, float32 [n, d] unit rows."""

    source: StoredSource
    passages: list[Passage]
    vectors: Vector
    outline: Outline = ()

    @property
    def parts(self) -> list[str]:
        """The texts of the passages."""
        return [passage.text for passage in self.passages]


def prepare(
    embedder: DocumentEmbedder,
    drafts: Sequence[Draft],
    on_embedded: Callable[[int], None] | None = None,
    *,
    redaction: Redaction,
) -> list[Prepared | str]:
    """Prepare sources; for one that cannot be prepared, the reason.

    Args:
        embedder: Embeds their passages.
        drafts: The sources.
        on_embedded: Told now and then how many passages were embedded. If it raises, work ends.
        redaction: What of each collection is not embedded.

    Raises:
        EmbedderUnavailable: The embedding model cannot be loaded.
    """
    if not drafts:
        return []
    try:
        return _prepare_together(embedder, drafts, on_embedded, redaction)
    except EmbedderUnavailable:
        raise
    except (EmbeddingError, LibraryError, RedactionError) as error:
        if len(drafts) == 1:
            return [str(error)]
        # One bad text must not keep out the others: find it.
        return [
            result
            for draft in drafts
            for result in prepare(embedder, [draft], on_embedded, redaction=redaction)
        ]


def _prepare_together(
    embedder: DocumentEmbedder,
    drafts: Sequence[Draft],
    on_embedded: Callable[[int], None] | None,
    redaction: Redaction,
) -> list[Prepared | str]:
    cut = [_cut(embedder, draft) for draft in drafts]
    texts = [
        redaction.embedded(passage.text, draft.source.collection)
        for draft, passages in zip(drafts, cut, strict=True)
        for passage in passages
    ]
    rows = []
    for start in range(0, len(texts), LIBRARY_EMBED_PASSAGES):
        chosen = texts[start : start + LIBRARY_EMBED_PASSAGES]
        rows.append(embedder.embed_documents(chosen))
        if rows[-1].shape != (len(chosen), embedder.fingerprint.dimension):
            raise EmbeddingError(
                f"the embedder gave an array of shape {rows[-1].shape} for {len(chosen)} texts of "
                f"{embedder.fingerprint.dimension} dimensions"
            )
        if on_embedded is not None:
            on_embedded(start + len(chosen))
    vectors = normalised_rows(np.concatenate(rows))
    ends = itertools.accumulate(len(passages) for passages in cut)
    return [
        Prepared(
            replace(draft.source, parts=len(passages)),
            passages,
            vectors[end - len(passages) : end],
            draft.outline,
        )
        for draft, passages, end in zip(drafts, cut, ends, strict=True)
    ]


def _cut(embedder: DocumentEmbedder, draft: Draft) -> list[Passage]:
    spans = embedder.cut(draft.text, sections(draft.outline))
    if len(spans) > MAX_SOURCE_PARTS:
        raise LibraryError(f"it has more than {MAX_SOURCE_PARTS} parts; split it")
    passages = [
        Passage(draft.text[start:end], start, place)
        for (start, end), place in zip(spans, places(draft.outline, spans), strict=True)
    ]
    title = draft.source.title
    for number, passage in enumerate(passages):
        content = Content(title, passage.text, number, len(passages))
        if len(content.encode()) > MAX_CONTENT_BYTES:
            raise LibraryError(f"a part of it is longer than {MAX_CONTENT_BYTES} bytes; split it")
    return passages
