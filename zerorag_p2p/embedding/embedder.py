"""What the rest of the project asks of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.embedding.chunking import Span
from zerorag_p2p.embedding.endpoint import EndpointEmbedder
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.embedding.precomputed import PrecomputedEmbedder
from zerorag_p2p.embedding.sentence_transformers import open_model
from zerorag_p2p.errors import ConfigError
from zerorag_p2p.model import Fingerprint, Vector


class Embedder(Protocol):
    """Turns text into float32 vectors of unit length. May be used from several threads."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What must agree for vectors to be comparable; known before the model is loaded."""

    def cut(self, text: str, sections: Sequence[int] = ()) -> list[Span]:
        """Cut `text` into passages that can each be embedded whole.

        They cover the text in order, and may overlap. Sections, given by rising offsets, are kept
        together where they fit.
        """

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed n texts into a matrix [n, d].

        Raises:
            EmbeddingError: A text has no vector, or is longer than the model reads (`cut` it).
            EmbedderUnavailable: The model cannot be loaded, or does not answer.
        """

    def embed_query(self, text: str) -> Vector:
        """Embed a question of any length into a vector [d]. Raises as `embed_documents`."""


def open_embedder(config: EmbeddingConfig) -> Embedder:
    """The embedder that `config` names. Loads no model: that happens when text is embedded.

    Raises:
        ConfigError: The configuration names no embedder, or lacks what the embedder needs.
        EmbedderUnavailable: A model folder or file of vectors is missing, malformed or not the
            expected one.
    """
    match config.embedder:
        case "sentence-transformers":
            return open_model(
                config.model, sha256=config.sha256, allow_download=config.allow_download
            )
        case "endpoint":
            return EndpointEmbedder(config)
        case "precomputed":
            if not config.vectors:
                raise ConfigError(
                    "the precomputed embedder needs a file of vectors; set 'embedding.vectors'"
                )
            return PrecomputedEmbedder(Path(config.vectors).expanduser())
        case "hashing":
            return HashingEmbedder(config.dimension or 256)
        case unknown:
            raise ConfigError(
                f"unknown embedder {unknown!r}; "
                "known: sentence-transformers, endpoint, precomputed, hashing (tests only)"
            )
