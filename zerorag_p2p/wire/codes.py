"""Coarse codes for advertised vectors: 4, 2 or 1 bit a dimension (protocols/advertise).

A unit vector is turned by a rotation that is fixed for its dimension, which spreads it so evenly
that its components look like draws from a normal distribution of variance 1/d. Each is replaced
by the nearest of 16, 4 or 2 levels that are optimal for that distribution (Max, "Quantizing for
minimum distortion", 1960). A factor kept for every vector, the cosine between the vector and its
code, makes the estimated score of a query against the code unbiased (RaBitQ, arXiv 2405.12497).
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector
from zerorag_p2p.wire.embedding import normalised_rows

#: Bits a dimension. 32 stands for float32 components, neither rotated nor coded.
CODE_BITS: Final = (1, 2, 4, 32)
FLOAT_BITS: Final = 32

#: Smallest factor. It bounds how far a factor can raise a score.
MIN_FACTOR: Final = 0.5

ROTATION_LABEL: Final = "zerorag/rotation/1"
_ROUNDS: Final = 2

# Rows rotated at a time: at 768 dimensions their float64 components fit a core's cache.
_CHUNK_ROWS: Final = 64

# Positive levels in thousandths of a standard deviation; the negative ones mirror them.
_POSITIVE_LEVELS: Final = {
    1: (798,),
    2: (453, 1510),
    4: (128, 388, 657, 942, 1256, 1618, 2069, 2733),
}
_UNITS: Final = 1000.0


def code_bytes(dimension: int, bits: int) -> int:
    """Bytes of the code of one vector."""
    return (dimension * bits + 7) // 8


def encode_codes(matrix: Vector, bits: int) -> tuple[NDArray[np.uint8], Vector]:
    """Code the rows of `matrix`, shape [n, d].

    Returns:
        The packed codes, shape [n, code_bytes(d, bits)], and the factors, shape [n].

    Raises:
        EmbeddingError: A row is not finite or is zero, or the shape is not allowed.
    """
    rows = normalised_rows(matrix)
    count, dimension = rows.shape
    if bits == FLOAT_BITS:
        packed = np.ascontiguousarray(rows.astype("<f4")).view(np.uint8)
        return packed, np.ones(count, dtype=np.float32)
    rotated = rotate(rows)
    levels = _levels(bits)
    thresholds = (levels[1:] + levels[:-1]) / 2
    # A component on a threshold takes the level above it.
    indexes = np.searchsorted(thresholds, rotated * (_UNITS * np.sqrt(dimension)), side="right")
    codes = levels[indexes]
    cosines = (codes * rotated).sum(axis=1) / _lengths(codes)
    return _pack(indexes, bits), np.maximum(cosines, MIN_FACTOR).astype(np.float32)


def decode_codes(
    packed: NDArray[np.uint8], factors: Vector, *, dimension: int, bits: int
) -> Vector:
    """The rows, shape [n, d], whose product with a query is the query's estimated score.

    A row is the code at unit length, turned back, and divided by the factor: the query needs no
    rotation. Its length is one divided by the factor.

    Args:
        packed: Packed codes, shape [n, code_bytes(dimension, bits)]; padding bits are ignored.
        factors: One for each code, shape [n], `MIN_FACTOR` to 1.
        dimension: Dimension of the vectors that were coded.
        bits: Bits a dimension.
    """
    if bits == FLOAT_BITS:
        return np.ascontiguousarray(packed).view("<f4").astype(np.float32)
    codes = _levels(bits)[_unpack(packed, dimension, bits)]
    codes /= _lengths(codes)[:, None] * factors.astype(np.float64)[:, None]
    return rotate_back(codes).astype(np.float32)


def score_errors(rows: Vector) -> Vector:
    """Standard errors of the scores that decoded `rows`, shape [n, d], give; float32 [n].

    A row is its vector plus a remainder at right angles to it. The remainder's product with a query
    that has nothing to do with it has a variance of its squared length over d (RaBitQ, theorem
    3.2), and that length follows from the row's, since the vector's is one.
    """
    squares = np.square(rows, dtype=np.float64).sum(axis=1) - 1.0
    errors: Vector = np.sqrt(np.maximum(squares, 0.0) / rows.shape[1]).astype(np.float32)
    return errors


def rotate(matrix: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Turn the rows of `matrix`, shape [n, d], by the rotation of their dimension.

    Two rounds, each of which flips signs, permutes the components and mixes them by Hadamard
    transforms over blocks whose lengths are powers of two.
    """
    rounds = rotation(matrix.shape[1])
    result = np.empty(matrix.shape, dtype=np.float64)
    for start in range(0, len(matrix), _CHUNK_ROWS):
        # Components first, so that every butterfly runs along contiguous rows.
        columns = matrix[start : start + _CHUNK_ROWS].T.astype(np.float64, order="C")
        for signs, permutation in rounds:
            columns = (columns * signs[:, None])[permutation]
            _mix(columns)
        result[start : start + _CHUNK_ROWS] = columns.T
    return result


def rotate_back(matrix: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Undo `rotate`."""
    rounds = rotation(matrix.shape[1])
    result = np.empty(matrix.shape, dtype=np.float64)
    for start in range(0, len(matrix), _CHUNK_ROWS):
        columns = matrix[start : start + _CHUNK_ROWS].T.astype(np.float64, order="C")
        for signs, permutation in reversed(rounds):
            _mix(columns)
            unordered = np.empty_like(columns)
            unordered[permutation] = columns
            columns = unordered * signs[:, None]
        result[start : start + _CHUNK_ROWS] = columns.T
    return result


@functools.lru_cache(maxsize=8)
def rotation(dimension: int) -> tuple[tuple[NDArray[np.float64], NDArray[np.intp]], ...]:
    """Signs and permutation of every round, expanded from a label by SHAKE-256."""
    rounds = []
    sign_bytes = (dimension + 7) // 8
    for number in range(_ROUNDS):
        label = f"{ROTATION_LABEL} dimension {dimension} round {number}"
        stream = hashlib.shake_256(label.encode()).digest(sign_bytes + 8 * dimension)
        bits = np.unpackbits(
            np.frombuffer(stream[:sign_bytes], np.uint8), count=dimension, bitorder="little"
        )
        keys = np.frombuffer(stream[sign_bytes:], "<u8")
        signs = 1.0 - 2.0 * bits.astype(np.float64)
        rounds.append((signs, np.argsort(keys, kind="stable")))
    return tuple(rounds)


def _mix(columns: NDArray[np.float64]) -> None:
    """Apply an orthonormal Hadamard transform to every block of components, in place.

    The blocks are the powers of two that add up to the dimension, largest first. The order of
    the additions is part of the protocol, so that every machine gets the same bits.
    """
    dimension = len(columns)
    start = 0
    while start < dimension:
        length = 1 << ((dimension - start).bit_length() - 1)
        block = columns[start : start + length]
        half = 1
        while half < length:
            pairs = block.reshape(length // (2 * half), 2, half, -1)
            first, second = pairs[:, 0], pairs[:, 1]
            difference = first - second
            first += second
            second[...] = difference
            half *= 2
        block *= 1.0 / np.sqrt(length)
        start += length


@functools.cache
def _levels(bits: int) -> NDArray[np.float64]:
    positive = np.array(_POSITIVE_LEVELS[bits], dtype=np.float64)
    return np.concatenate([-positive[::-1], positive])


def _lengths(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    # Squares of whole thousandths: exact in float64, whatever the order of the sum.
    lengths: NDArray[np.float64] = np.sqrt(np.square(codes).sum(axis=1))
    return lengths


def _pack(indexes: NDArray[np.intp], bits: int) -> NDArray[np.uint8]:
    """Pack level numbers, lowest bits first: component 0 is in the low bits of byte 0."""
    count, dimension = indexes.shape
    shifts = np.arange(bits, dtype=np.uint8)
    flags = (indexes.astype(np.uint8)[:, :, None] >> shifts) & 1
    return np.packbits(flags.reshape(count, dimension * bits), axis=1, bitorder="little")


def _unpack(packed: NDArray[np.uint8], dimension: int, bits: int) -> NDArray[np.uint8]:
    flags = np.unpackbits(packed, axis=1, count=dimension * bits, bitorder="little")
    weights = np.left_shift(1, np.arange(bits)).astype(np.uint8)
    indexes: NDArray[np.uint8] = flags.reshape(len(packed), dimension, bits) @ weights
    return indexes
