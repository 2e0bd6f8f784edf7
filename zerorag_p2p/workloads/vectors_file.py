"""Embeddings beside the texts of a workload: experiments read them, they embed nothing.

A vectors.npz, as `numpy.savez` writes it, holds `documents` [n, d] and `queries` [m, d], float16 or
float32. Their rows are in the order of the texts, or are named by `document_ids` [n] and
`query_ids` [m].
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.errors import EmbeddingError, UsageError
from zerorag_p2p.model import Vector
from zerorag_p2p.wire.embedding import normalised_rows

VECTORS_FILE: Final = "vectors.npz"


@dataclass(frozen=True)
class Vectors:
    """Embeddings of the texts of a workload.

    Attributes:
        documents: float32 [n, d], unit rows.
        queries: float32 [m, d], unit rows.
    """

    documents: Vector
    queries: Vector


def read_vectors_in_order(folder: Path, *, documents: int, queries: int) -> Vectors:
    """Read the embeddings of so many documents and queries, in the order of the texts.

    Raises:
        UsageError: The file is missing or malformed, or does not have as many rows.
    """
    arrays = _read(folder, ("documents", "queries"))
    for name, count in (("documents", documents), ("queries", queries)):
        if len(arrays[name]) != count:
            raise UsageError(
                f"{folder / VECTORS_FILE}: {name!r} has {len(arrays[name])} rows for {count} "
                f"{name}; it needs one for each, in the same order"
            )
    return _vectors(folder, arrays["documents"], arrays["queries"])


def read_vectors_by_id(
    folder: Path, *, documents: Sequence[str], queries: Sequence[str]
) -> Vectors:
    """Read the embeddings of these documents and queries, wherever they are in the file.

    Raises:
        UsageError: The file is missing or malformed, or one of them is not in it.
    """
    arrays = _read(folder, ("documents", "queries", "document_ids", "query_ids"))
    return _vectors(
        folder,
        arrays["documents"][_rows(folder, arrays, "documents", "document_ids", documents)],
        arrays["queries"][_rows(folder, arrays, "queries", "query_ids", queries)],
    )


def _read(folder: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    path = folder / VECTORS_FILE
    if not path.is_file():
        raise UsageError(
            f"{path} is missing, and experiments embed no texts: save their embeddings there with "
            f"numpy.savez, as {', '.join(map(repr, names))} (docs/workloads.md)"
        )
    try:
        # NumPy leaves a file that it opened itself open when it is no archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            read = {name: arrays[name] for name in names}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} does not hold the arrays it should: {error}") from error
    for name in ("documents", "queries"):
        if read[name].dtype not in (np.float16, np.float32) or read[name].ndim != 2:
            raise UsageError(
                f"{path}: {name!r} has to be float16 or float32 with two axes, it is "
                f"{read[name].dtype} with {read[name].ndim}"
            )
    if read["documents"].shape[1] != read["queries"].shape[1]:
        raise UsageError(
            f"{path}: documents have {read['documents'].shape[1]} dimensions, queries "
            f"{read['queries'].shape[1]}; embed both with the same model"
        )
    return read


def _rows(
    folder: Path, arrays: dict[str, NDArray[Any]], name: str, ids: str, wanted: Sequence[str]
) -> list[int]:
    named = [str(item) for item in arrays[ids].tolist()]
    if len(named) != len(arrays[name]):
        raise UsageError(
            f"{folder / VECTORS_FILE}: {ids!r} names {len(named)} rows, {name!r} has "
            f"{len(arrays[name])}"
        )
    numbers = {item: number for number, item in enumerate(named)}
    try:
        return [numbers[item] for item in wanted]
    except KeyError as error:
        raise UsageError(
            f"{folder / VECTORS_FILE}: {ids!r} lacks {error}; embed that text too"
        ) from None


def _vectors(folder: Path, documents: NDArray[Any], queries: NDArray[Any]) -> Vectors:
    try:
        return Vectors(
            normalised_rows(documents.astype(np.float32)),
            normalised_rows(queries.astype(np.float32)),
        )
    except EmbeddingError as error:
        raise UsageError(f"{folder / VECTORS_FILE}: {error}") from error
