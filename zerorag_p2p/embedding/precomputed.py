"""Vectors computed elsewhere, looked up by the text they were computed from.

The file is a NumPy archive (.npz) of three arrays: `text_sha256`, the SHA-256 of each text's UTF-8
in hexadecimal (S64, [n]); `vectors`, float16 or float32 [n, d]; and `fingerprint`, JSON of the
model's fingerprint.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from zerorag_p2p.embedding.chunking import Span
from zerorag_p2p.errors import DecodeError, EmbedderUnavailable, EmbeddingError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.model import Fingerprint, Vector
from zerorag_p2p.wire.embedding import normalised_rows

_SHOWN_CHARACTERS: Final = 60

# What NumPy and the archive under it raise for a file that is not what it should be.
_UNREADABLE: Final = (
    *(OSError, EOFError, KeyError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


class PrecomputedEmbedder:
    """Finds the vector of exactly the texts that a file knows; never cuts a text.

    Args:
        path: A file that `write_precomputed` wrote.

    Raises:
        EmbedderUnavailable: The file is missing or malformed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                digests = archive["text_sha256"].astype("S64")
                vectors = archive["vectors"]
                described = str(archive["fingerprint"])
            self._fingerprint = Fingerprint.from_map(json.loads(described))
            self._vectors = normalised_rows(vectors.astype(np.float32))
        except _UNREADABLE as error:
            raise EmbedderUnavailable(f"{path} is no file of vectors: {error}") from None
        except (DecodeError, EmbeddingError) as error:
            raise EmbedderUnavailable(f"{path}: {error}") from None
        if self._vectors.shape != (len(digests), self._fingerprint.dimension):
            raise EmbedderUnavailable(
                f"{path}: {len(digests)} texts of {self._fingerprint} do not fit "
                f"an array of shape {self._vectors.shape}"
            )
        self._rows = {digest: row for row, digest in enumerate(digests.tolist())}

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the model that computed the vectors."""
        return self._fingerprint

    def cut(self, text: str, sections: Sequence[int] = ()) -> list[Span]:
        """The text in one passage: whoever computed the vectors decided what is embedded whole."""
        del sections
        return [(0, len(text))]

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Look up n texts, giving a matrix [n, d].

        Raises:
            EmbeddingError: A text is not in the file.
        """
        found: Vector = self._vectors[[self._row(text) for text in texts]]
        return found

    def embed_query(self, text: str) -> Vector:
        """Look up a question, giving a vector [d]. Raises as `embed_documents`."""
        found: Vector = self._vectors[self._row(text)]
        return found

    def _row(self, text: str) -> int:
        row = self._rows.get(_digest(text))
        if row is None:
            raise EmbeddingError(
                f"{self._path} has no vector for the text that begins "
                f"{text[:_SHOWN_CHARACTERS]!r}; compute it, or choose another embedder"
            )
        return row


def write_precomputed(
    path: Path, texts: Sequence[str], vectors: Vector, fingerprint: Fingerprint
) -> None:
    """Write the file that `PrecomputedEmbedder` reads.

    Args:
        path: Where to write, ending in .npz.
        texts: The n texts exactly as they will be embedded.
        vectors: Their vectors [n, d]; stored as float32 of unit length.
        fingerprint: Of the model that computed them.

    Raises:
        EmbeddingError: A vector is not finite or is zero, or the shape does not fit.
    """
    if vectors.shape != (len(texts), fingerprint.dimension):
        raise EmbeddingError(
            f"{len(texts)} texts of {fingerprint} do not fit an array of shape {vectors.shape}"
        )
    archive = io.BytesIO()
    np.savez(
        archive,
        text_sha256=np.array([_digest(text) for text in texts], dtype="S64"),
        vectors=normalised_rows(vectors.astype(np.float32)),
        fingerprint=np.array(json.dumps(fingerprint.to_map())),
    )
    write_atomic(path, archive.getvalue())


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).hexdigest().encode()
