import cbor2
import numpy as np
import pytest

from zerorag_p2p import cbor
from zerorag_p2p.errors import DecodeError, EmbeddingError
from zerorag_p2p.model import Vector
from zerorag_p2p.wire.embedding import (
    Encoding,
    decode_embedding,
    encode_embedding,
    int8_codes,
    int8_wire_bytes,
    transmitted,
    transmitted_rows,
)


def random_rows(count: int, dimension: int) -> Vector:
    generator = np.random.default_rng(dimension)
    return generator.standard_normal((count, dimension)).astype(np.float32)


def decode(fields: dict[str, object], dimension: int | None = None) -> tuple[Vector, Encoding]:
    data = cbor.encode(fields)
    return decode_embedding(
        cbor.MapReader(cbor.decode(data, limit=1 << 16), "embedding"), dimension=dimension
    )


@pytest.mark.parametrize("encoding", list(Encoding))
def test_both_sides_hold_the_same_vector(encoding: Encoding) -> None:
    rows = random_rows(20, 384)
    expected = transmitted_rows(rows, encoding)
    for row, held in zip(rows, expected, strict=True):
        received, name = decode(encode_embedding(row, encoding), 384)
        assert name is encoding
        np.testing.assert_array_equal(received, held)
        np.testing.assert_array_equal(transmitted(row, encoding), held)


@pytest.mark.parametrize(
    ("encoding", "error"),
    [(Encoding.INT8, 2e-4), (Encoding.FLOAT16, 1e-6), (Encoding.FLOAT32, 1e-6)],
)
def test_direction_survives(encoding: Encoding, error: float) -> None:
    rows = random_rows(20, 768)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = (rows * transmitted_rows(rows, encoding)).sum(axis=1)
    assert cosines.min() > 1 - error


def test_codes_round_half_to_even() -> None:
    codes, scale = int8_codes(np.array([127, 2.5, 3.5, -2.5, -127], dtype=np.float32))
    assert codes.tolist() == [127, 2, 4, -2, -127]
    assert scale == np.float32(1 / np.sqrt(2 * 127**2 + 4 + 16 + 4))


def test_hashed_bytes_do_not_depend_on_who_computes_them() -> None:
    for row in random_rows(20, 384):
        owner = int8_wire_bytes(row)
        for encoding in Encoding:
            assert int8_wire_bytes(transmitted(transmitted(row), encoding)) == owner


def test_the_default_takes_a_byte_a_dimension() -> None:
    assert len(int8_wire_bytes(random_rows(1, 768)[0])) < 768 + 32


@pytest.mark.parametrize(
    "values", [[0.0, 0.0], [1.0, float("nan")], [1.0, float("inf")], [1e-9, 0.0], []]
)
@pytest.mark.parametrize("encoding", list(Encoding))
def test_what_cannot_be_an_embedding_is_not_sent(values: list[float], encoding: Encoding) -> None:
    vector = np.array(values, dtype=np.float32)
    with pytest.raises(EmbeddingError):
        encode_embedding(vector, encoding)
    with pytest.raises(EmbeddingError):
        transmitted(vector, encoding)


def test_a_matrix_is_not_a_vector() -> None:
    with pytest.raises(EmbeddingError, match="one axis"):
        encode_embedding(random_rows(2, 3))
    with pytest.raises(EmbeddingError, match="shape"):
        transmitted_rows(random_rows(1, 3)[0])


def test_no_rows() -> None:
    for encoding in Encoding:
        assert transmitted_rows(np.empty((0, 8), dtype=np.float32), encoding).shape == (0, 8)


def array(tag: int, data: bytes) -> cbor2.CBORTag:
    return cbor2.CBORTag(tag, data)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"values": array(72, b"\x7f\x00")}, "'scale' is missing"),
        ({"values": array(72, b"\x80\x00"), "scale": 1 / 128}, "largest int8 code"),
        ({"values": array(72, b"\x7e\x00"), "scale": 1 / 126}, "largest int8 code"),
        ({"values": array(72, b"\x7f\x00"), "scale": 0.5}, "unit length"),
        ({"values": array(72, b""), "scale": 0.5}, "1 to 4096 components"),
        ({"values": array(84, b"\x00\x3c\x00")}, "1 to 4096 components"),
        ({"values": array(84, b"\x00\x3c"), "scale": 1.0}, "unknown keys"),
        ({"values": array(84, b"\x00\x7e")}, "not finite"),
        ({"values": array(84, b"\x01\x7c")}, "not finite"),
        ({"values": array(85, bytes.fromhex("0000c0ff"))}, "not finite"),
        ({"values": array(85, bytes.fromhex("0000803f") * 2)}, "has length 1.41421"),
        ({"values": array(85, bytes(8))}, "has length 0"),
        ({"values": array(85, bytes(4 * 4097))}, "longer than"),
        ({"values": array(72, bytes(4097)), "scale": 0.5}, "1 to 4096 components"),
        ({"values": b"\x7f"}, "not a typed array"),
    ],
)
def test_malformed_embeddings_are_refused(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(fields)


def test_another_dimension_is_refused() -> None:
    with pytest.raises(DecodeError, match="has 8 dimensions, expected 16"):
        decode(encode_embedding(random_rows(1, 8)[0]), 16)
