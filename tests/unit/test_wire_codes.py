import hashlib
import math

import numpy as np
import pytest

from zerorag_p2p.errors import EmbeddingError
from zerorag_p2p.model import Vector
from zerorag_p2p.wire.codes import (
    CODE_BITS,
    code_bytes,
    decode_codes,
    encode_codes,
    rotate,
    rotate_back,
)
from zerorag_p2p.wire.embedding import normalised_rows


def unit_rows(count: int, dimension: int, seed: int = 0) -> Vector:
    generator = np.random.default_rng([seed, dimension])
    return normalised_rows(generator.standard_normal((count, dimension)).astype(np.float32))


def coded(rows: Vector, bits: int) -> Vector:
    packed, factors = encode_codes(rows, bits)
    return decode_codes(packed, factors, dimension=rows.shape[1], bits=bits)


@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 12, 257, 384, 768])
def test_rotation_is_orthonormal_and_undone(dimension: int) -> None:
    rotation = rotate(np.eye(dimension))
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(dimension), atol=1e-12)
    np.testing.assert_allclose(rotate_back(rotation), np.eye(dimension), atol=1e-12)


def test_rotation_spreads_a_single_component() -> None:
    for dimension in (384, 768):
        assert np.abs(rotate(np.eye(dimension))).max() < 0.25


@pytest.mark.parametrize(("bits", "error"), [(4, 0.004), (2, 0.015), (1, 0.030), (32, 1e-6)])
def test_estimated_scores_are_close_and_unbiased(bits: int, error: float) -> None:
    documents, queries = unit_rows(300, 768), unit_rows(50, 768, seed=1)
    # The second half of the queries is near a document, as real ones are.
    queries[25:] = normalised_rows(documents[:25] + queries[25:])
    difference = queries @ coded(documents, bits).T - queries @ documents.T
    assert np.sqrt(np.square(difference).mean()) < error
    assert abs(difference.mean()) < error / 10
    own = (documents * coded(documents, bits)).sum(axis=1)
    np.testing.assert_allclose(own, 1.0, atol=1e-5)


@pytest.mark.parametrize(("bits", "size"), [(4, 384), (2, 192), (1, 96), (32, 3072)])
def test_sizes(bits: int, size: int) -> None:
    packed, factors = encode_codes(unit_rows(3, 768), bits)
    assert packed.shape == (3, size)
    assert code_bytes(768, bits) == size
    assert factors.shape == (3,)


def test_sparse_vectors_are_coded_as_well_as_dense_ones() -> None:
    packed, factors = encode_codes(np.eye(384, dtype=np.float32), 4)
    assert factors.min() > 0.98
    assert packed.shape == (384, 192)


def test_a_row_is_coded_alike_alone_and_among_others() -> None:
    rows = unit_rows(130, 96)
    for bits in CODE_BITS:
        packed, factors = encode_codes(rows, bits)
        for number in (0, 63, 64, 129):
            alone, factor = encode_codes(rows[number : number + 1], bits)
            assert alone.tobytes() == packed[number].tobytes()
            assert factor[0] == factors[number]


def test_no_rows() -> None:
    packed, factors = encode_codes(np.empty((0, 12), dtype=np.float32), 4)
    assert packed.shape == (0, 6)
    assert decode_codes(packed, factors, dimension=12, bits=4).shape == (0, 12)


def test_a_zero_vector_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="zero"):
        encode_codes(np.zeros((1, 8), dtype=np.float32), 4)


def rotated_as_the_specification_says(vector: list[float]) -> list[float]:
    """protocols/advertise/README.md, word for word."""
    dimension = len(vector)
    for number in range(2):
        label = f"zerorag/rotation/1 dimension {dimension} round {number}"
        size = (dimension + 7) // 8
        stream = hashlib.shake_256(label.encode()).digest(size + 8 * dimension)
        keys = [
            int.from_bytes(stream[size + 8 * place : size + 8 * place + 8], "little")
            for place in range(dimension)
        ]
        signed = [
            -component if stream[place // 8] >> place % 8 & 1 else component
            for place, component in enumerate(vector)
        ]
        vector = [signed[place] for place in sorted(range(dimension), key=keys.__getitem__)]
        start = 0
        while start < dimension:
            length = 2 ** int(math.log2(dimension - start))
            half = 1
            while half < length:
                for place in range(length):
                    if not place & half:
                        first, second = vector[start + place], vector[start + place + half]
                        vector[start + place] = first + second
                        vector[start + place + half] = first - second
                half *= 2
            for place in range(start, start + length):
                vector[place] *= 1 / math.sqrt(length)
            start += length
    return vector


@pytest.mark.parametrize("dimension", [1, 5, 8, 12, 100, 384])
def test_rotation_is_the_specified_one_to_the_last_bit(dimension: int) -> None:
    [row] = unit_rows(1, dimension)
    expected = rotated_as_the_specification_says([float(component) for component in row])
    assert rotate(row[None])[0].tolist() == expected


def test_packing_is_the_specified_one() -> None:
    [row] = unit_rows(1, 12)
    [code], [factor] = encode_codes(row[None], 4)
    positive = [128, 388, 657, 942, 1256, 1618, 2069, 2733]
    levels = [-level for level in reversed(positive)] + positive
    rotated = rotated_as_the_specification_says([float(component) for component in row])
    chosen = [
        min(levels, key=lambda level: abs(level - 1000 * math.sqrt(12) * component))
        for component in rotated
    ]
    numbers = [levels.index(level) for level in chosen]
    assert code.tolist() == [
        low + 16 * high for low, high in zip(numbers[::2], numbers[1::2], strict=True)
    ]
    product = sum(level * component for level, component in zip(chosen, rotated, strict=True))
    assert factor == pytest.approx(product / math.hypot(*chosen))
