"""Embeddings on the wire: RFC 8746 typed arrays of unit length (protocols/query).

An embedding is a map with `values`, a typed array whose tag names the encoding, and for int8 also
`scale`. The int8 form is canonical: a vector has exactly one, it survives any of the three
encodings, and attribution hashes its bytes.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import cbor2
import numpy as np
from numpy.typing import NDArray

from zerorag_p2p import cbor
from zerorag_p2p.config import MAX_DIMENSION
from zerorag_p2p.errors import EmbeddingError
from zerorag_p2p.model import Vector

#: The largest int8 code. Codes are symmetric: -128 does not occur.
MAX_CODE: Final = 127

#: A vector whose largest component is smaller than this counts as zero.
SMALLEST: Final = 1e-6

#: How far from 1 the length of a received float16 or float32 embedding may be.
LENGTH_TOLERANCE: Final = 0.01

# A float32 vector that is this close to unit length stays as it is, so that normalising twice
# changes nothing.
_UNIT_TOLERANCE: Final = 1e-6


class Encoding(enum.StrEnum):
    """How the components of an embedding are sent."""

    INT8 = "int8"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


_TAGS: Final = {
    Encoding.INT8: cbor.TAG_SINT8,
    Encoding.FLOAT16: cbor.TAG_FLOAT16,
    Encoding.FLOAT32: cbor.TAG_FLOAT32,
}
_ENCODINGS: Final = {tag: encoding for encoding, tag in _TAGS.items()}
_DTYPES: Final[dict[Encoding, np.dtype[Any]]] = {
    Encoding.INT8: np.dtype("i1"),
    Encoding.FLOAT16: np.dtype("<f2"),
    Encoding.FLOAT32: np.dtype("<f4"),
}


def encode_embedding(vector: Vector, encoding: Encoding = Encoding.INT8) -> dict[str, object]:
    """The map that stands for the direction of `vector` (shape [d]) on the wire.

    Raises:
        EmbeddingError: `vector` is not finite, is zero or has a dimension that is not allowed.
    """
    _check_vector(vector)
    return encode_embeddings(vector[None], encoding)[0]


def encode_embeddings(
    matrix: Vector, encoding: Encoding = Encoding.INT8
) -> list[dict[str, object]]:
    """The maps that stand for the directions of the rows of `matrix`, shape [n, d].

    Raises:
        EmbeddingError: A row is not finite, is zero or has a dimension that is not allowed.
    """
    if encoding is Encoding.INT8:
        codes = _code_rows(matrix)
        return [
            {"scale": scale, "values": cbor2.CBORTag(cbor.TAG_SINT8, row.tobytes())}
            for scale, row in zip(_scales(codes).tolist(), codes.astype(np.int8), strict=True)
        ]
    values = normalised_rows(matrix).astype(_DTYPES[encoding])
    return [{"values": cbor2.CBORTag(_TAGS[encoding], row.tobytes())} for row in values]


def decode_embedding(
    reader: cbor.MapReader, *, dimension: int | None = None
) -> tuple[Vector, Encoding]:
    """Read an embedding map: the float32 vector of unit length, shape [d], and its encoding.

    Args:
        reader: The map; it is read to its end.
        dimension: The dimension it has to have; any from 1 to `MAX_DIMENSION` when absent.

    Raises:
        DecodeError: The map is malformed, of another dimension, not finite, not of unit length,
            or an int8 form that is not canonical.
    """
    array = reader.array("values", tags=cbor.TYPED_ARRAY_TAGS, max_bytes=4 * MAX_DIMENSION)
    encoding = _ENCODINGS[array.tag]
    dtype = _DTYPES[encoding]
    count, rest = divmod(len(array.value), dtype.itemsize)
    if rest or not 1 <= count <= MAX_DIMENSION:
        reader.fail(f"'values' is not 1 to {MAX_DIMENSION} components of {dtype.itemsize} bytes")
    if dimension is not None and count != dimension:
        reader.fail(f"the embedding has {count} dimensions, expected {dimension}")
    values = np.frombuffer(array.value, dtype)
    if encoding is Encoding.INT8:
        scale = reader.number("scale", minimum=0.0, maximum=1.0)
        reader.finish()
        codes = values.astype(np.float64)
        if np.abs(codes).max() != MAX_CODE:
            reader.fail(f"the largest int8 code is not {MAX_CODE} or -{MAX_CODE}")
        if scale != _scales(codes[None])[0]:
            reader.fail("'scale' does not give the embedding unit length")
        return _rows_of_codes(codes[None])[0], encoding
    reader.finish()
    if not np.isfinite(values).all():
        reader.fail("a component is not finite")
    length = float(np.sqrt(np.square(values, dtype=np.float64).sum()))
    if abs(length - 1.0) > LENGTH_TOLERANCE:
        reader.fail(f"the embedding has length {length:.6g}, expected 1")
    return normalised_rows(values.astype(np.float32)[None])[0], encoding


def int8_codes(vector: Vector) -> tuple[NDArray[np.int8], float]:
    """The canonical int8 form of the direction of `vector`, shape [d].

    The codes are the components divided by a 127th of the largest magnitude, rounded half to
    even. The scale is the float32 nearest to one divided by the length of the codes, so that the
    codes times the scale have unit length.

    Raises:
        EmbeddingError: `vector` is not finite, is zero or has a dimension that is not allowed.
    """
    _check_vector(vector)
    codes = _code_rows(vector[None])
    return codes[0].astype(np.int8), float(_scales(codes)[0])


def int8_wire_bytes(vector: Vector) -> bytes:
    """The deterministic CBOR of the int8 embedding map: the bytes that an attribution hashes.

    They are the same for a vector and for what the other side holds of it, in any encoding, once
    it has been int8-coded.
    """
    return cbor.encode(encode_embedding(vector, Encoding.INT8))


def transmitted(vector: Vector, encoding: Encoding = Encoding.INT8) -> Vector:
    """The vector, shape [d], that the other side holds after receiving `vector`.

    Both sides score with it, so that both get the same numbers.
    """
    _check_vector(vector)
    row: Vector = transmitted_rows(vector[None], encoding)[0]
    return row


def transmitted_rows(matrix: Vector, encoding: Encoding = Encoding.INT8) -> Vector:
    """`transmitted` for every row of `matrix`, shape [n, d], with bit-identical results.

    Raises:
        EmbeddingError: A row is not finite or is zero, or the shape is not allowed.
    """
    if encoding is Encoding.INT8:
        return _rows_of_codes(_code_rows(matrix))
    rows = normalised_rows(matrix)
    return normalised_rows(rows.astype(_DTYPES[encoding]).astype(np.float32))


def normalised_rows(matrix: Vector) -> Vector:
    """The rows of `matrix`, shape [n, d], at unit length; a row that has it is left as it is.

    Raises:
        EmbeddingError: A row is not finite or is zero, or the shape is not allowed.
    """
    _check_rows(matrix)
    components = matrix.astype(np.float64)
    lengths = np.sqrt(np.square(components).sum(axis=1, keepdims=True))
    lengths[np.abs(lengths - 1.0) <= _UNIT_TOLERANCE] = 1.0
    rows: Vector = (components / lengths).astype(np.float32)
    return rows


def _check_vector(vector: Vector) -> None:
    if vector.ndim != 1:
        raise EmbeddingError(f"an embedding has one axis, this array has {vector.ndim}")


def _check_rows(matrix: Vector) -> None:
    if matrix.ndim != 2 or not 1 <= matrix.shape[1] <= MAX_DIMENSION:
        raise EmbeddingError(
            f"embeddings have 1 to {MAX_DIMENSION} dimensions, this array has shape {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise EmbeddingError("an embedding is not finite; check the embedder's output")
    if matrix.size and np.abs(matrix).max(axis=1).min() < SMALLEST:
        raise EmbeddingError("an embedding is zero; check that the text is not empty")


def _code_rows(matrix: Vector) -> NDArray[np.float32]:
    _check_rows(matrix)
    rows = matrix.astype(np.float32, copy=False)
    steps = np.abs(rows).max(axis=1, keepdims=True) / np.float32(MAX_CODE)
    # Adding zero turns -0.0 into the 0.0 that the receiver will read.
    codes: NDArray[np.float32] = np.rint(rows / steps) + np.float32(0.0)
    return codes


def _squared_lengths(codes: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    # Integers below 2**53: exact in float64, whatever the order of the sum.
    squared: NDArray[np.float64] = np.square(codes, dtype=np.float64).sum(axis=1)
    return squared


def _scales(codes: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    scales: NDArray[np.float32] = (1.0 / np.sqrt(_squared_lengths(codes))).astype(np.float32)
    return scales


def _rows_of_codes(codes: NDArray[np.floating[Any]]) -> Vector:
    # From the codes alone: the rounding of the scale stays out of it.
    rows: Vector = (codes / np.sqrt(_squared_lengths(codes))[:, None]).astype(np.float32)
    return rows
