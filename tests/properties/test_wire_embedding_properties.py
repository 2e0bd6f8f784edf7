import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from zerorag_p2p import cbor
from zerorag_p2p.model import Vector
from zerorag_p2p.wire.codes import CODE_BITS, MIN_FACTOR, decode_codes, encode_codes
from zerorag_p2p.wire.embedding import (
    SMALLEST,
    Encoding,
    decode_embedding,
    encode_embedding,
    int8_wire_bytes,
    transmitted,
    transmitted_rows,
)

components = st.floats(-(2.0**100), 2.0**100, width=32)


@st.composite
def matrices(draw: st.DrawFn) -> Vector:
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 40)))
    matrix: Vector = draw(arrays.arrays(np.float32, shape, elements=components))
    matrix[np.abs(matrix).max(axis=1) < SMALLEST, 0] = 1.0
    return matrix


@given(matrices(), st.sampled_from(Encoding))
def test_rows_are_transmitted_as_single_vectors_are(matrix: Vector, encoding: Encoding) -> None:
    rows = transmitted_rows(matrix, encoding)
    for row, expected in zip(matrix, rows, strict=True):
        assert transmitted(row, encoding).tobytes() == expected.tobytes()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


@given(matrices(), st.sampled_from([Encoding.INT8, Encoding.FLOAT32]))
def test_transmitting_again_changes_nothing(matrix: Vector, encoding: Encoding) -> None:
    once = transmitted_rows(matrix, encoding)
    assert transmitted_rows(once, encoding).tobytes() == once.tobytes()


@given(matrices(), st.sampled_from(Encoding))
def test_the_receiver_holds_what_the_sender_scores_with(matrix: Vector, encoding: Encoding) -> None:
    fields = cbor.decode(cbor.encode(encode_embedding(matrix[0], encoding)), limit=1 << 16)
    received, _ = decode_embedding(cbor.MapReader(fields, "embedding"))
    assert received.tobytes() == transmitted(matrix[0], encoding).tobytes()


@given(matrices(), st.sampled_from(Encoding))
def test_hashed_bytes_survive_every_encoding(matrix: Vector, encoding: Encoding) -> None:
    held = transmitted(matrix[0])
    assert int8_wire_bytes(transmitted(held, encoding)) == int8_wire_bytes(matrix[0])


@given(matrices(), st.sampled_from(CODE_BITS))
def test_codes_point_the_way_of_their_vector(matrix: Vector, bits: int) -> None:
    packed, factors = encode_codes(matrix, bits)
    rows = decode_codes(packed, factors, dimension=matrix.shape[1], bits=bits)
    units = transmitted_rows(matrix, Encoding.FLOAT32)
    own = (units * rows).sum(axis=1)
    exact = factors > MIN_FACTOR
    np.testing.assert_allclose(own[exact], 1.0, atol=1e-5)
    assert (own <= 1.0 + 1e-5).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1 / factors, rtol=1e-5)
