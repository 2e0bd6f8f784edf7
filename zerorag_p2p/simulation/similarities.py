"""Every similarity that the vectorised simulator reads, in tables that fit into memory.

The tables of some thousand queries are made once. Of more, those that are asked next are made when
they are asked: nothing is too large, but every query is compared with every document and every
other query, so that the time grows with the square of the workload.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.model import Vector
from zerorag_p2p.simulation.arrays import NOBODY, Similarities
from zerorag_p2p.simulation.pool import VectorPool
from zerorag_p2p.wire.codes import decode_codes, encode_codes, score_errors
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.workloads.workload import Numbers, Workload

#: Bytes that the tables may take.
MAX_BYTES: Final = 2 << 30

# Documents compared in double precision at a time.
_DOCUMENTS: Final = 1 << 16


class SimilarityTables:
    """The tables of the queries that are asked now.

    Attributes:
        current: The tables; the whole ones where they fit.

    Args:
        workload: Its documents and queries.
        bits: Bits a dimension of an advertised vector.
        max_bytes: What the tables may take.
    """

    def __init__(self, workload: Workload, bits: int, *, max_bytes: int = MAX_BYTES) -> None:
        self._vectors = transmitted_rows(workload.vectors)
        self._queries = transmitted_rows(workload.query_vectors)
        packed, factors = encode_codes(self._vectors, bits)
        self._coded = decode_codes(packed, factors, dimension=self._vectors.shape[1], bits=bits)
        self._error = score_errors(self._coded)
        count = len(self._queries)
        # advertised, exact, rank and order; remembered
        entry_bytes = (4 + 8 + 4 + 4) * len(self._vectors) + 4 * count
        self._most = max(1, max_bytes // entry_bytes)
        self._entries: Numbers = np.full(count, NOBODY, dtype=np.int32)
        self.current = self._make(np.arange(count if count <= self._most else 1))

    def cover(self, queries: Numbers) -> Numbers:
        """Make the tables those of the first `queries` [n], of as many as fit.

        Returns:
            int32 [m], the entry of each of the first m; m is at least 1 if n is.
        """
        entries: Numbers = self._entries[queries]
        if (entries == NOBODY).any():
            _, firsts = np.unique(queries, return_index=True)
            firsts.sort()
            if len(firsts) > self._most:
                queries = queries[: firsts[self._most]]
            self.current = self._make(np.unique(queries))
            entries = self._entries[queries]
        return entries

    def _make(self, chosen: NDArray[np.integer]) -> Similarities:
        """The tables of the queries `chosen`, ascending."""
        self._entries[:] = NOBODY
        self._entries[chosen] = np.arange(len(chosen))
        queries = self._queries[chosen]
        if len(chosen) == len(self._queries):
            advertised, remembered = self._pooled()
        else:
            advertised, remembered = queries @ self._coded.T, queries @ self._queries.T
        exact = np.empty((len(chosen), len(self._vectors)), dtype=np.float64)
        for start in range(0, len(self._vectors), _DOCUMENTS):
            some = slice(start, start + _DOCUMENTS)
            exact[:, some] = queries.astype(np.float64) @ self._vectors[some].astype(np.float64).T
        order = np.argsort(-exact, axis=1, kind="stable").astype(np.int32)
        rank = np.empty_like(order)
        places = np.arange(len(self._vectors), dtype=np.int32)
        np.put_along_axis(rank, order, places[None], axis=1)
        return Similarities(
            advertised=advertised,
            remembered=remembered,
            error=self._error,
            exact=exact,
            rank=rank,
            order=order,
        )

    def _pooled(self) -> tuple[Vector, Vector]:
        """The products of the event simulator, to the last bit: one pool of the same vectors."""
        pool = VectorPool(self._vectors.shape[1])
        documents = [pool.number(vector) for vector in self._coded]
        numbers = [pool.number(vector) for vector in self._queries]
        products = pool.prepare(self._queries)
        return (
            np.ascontiguousarray(products[:, documents]),
            np.ascontiguousarray(products[:, numbers]),
        )
