"""Both kinds of rows against a plain matrix, as stores use them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.routing.rows import MakeRows, MatrixRows, SharedRows

DIMENSION = 4


@pytest.mark.parametrize("make_rows", [MatrixRows, SharedRows])
@given(
    changes=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=20), seed=st.integers()
)
def test_arrays_are_added_at_the_end_and_taken_out_anywhere(
    make_rows: MakeRows, changes: list[tuple[int, bool]], seed: int
) -> None:
    generator = np.random.default_rng(abs(seed))
    query = generator.normal(size=DIMENSION).astype(np.float32)
    rows = make_rows(DIMENSION)
    arrays: list[np.ndarray[tuple[int, int], np.dtype[np.float32]]] = []
    for number, adds in changes:
        size = sum(map(len, arrays))
        if adds and number:
            arrays.append(generator.normal(size=(number, DIMENSION)).astype(np.float32))
            rows.write(size, arrays[-1])
        elif arrays and not adds:
            taken = number % len(arrays)
            start = sum(map(len, arrays[:taken]))
            rows.move(start, np.arange(start + len(arrays[taken]), size))
            del arrays[taken]
        whole = np.concatenate([np.zeros((0, DIMENSION), dtype=np.float32), *arrays])
        assert np.allclose(rows.dot(query, len(whole)), whole @ query, atol=1e-5)
        for row in range(len(whole)):
            assert np.array_equal(rows.read(row), whole[row])
