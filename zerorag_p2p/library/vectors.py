"""The vectors of one collection, searched by cosine similarity.

All vectors are held as one matrix, in the form that other peers receive them in, so that owner
and querier compute the same scores. Comparing a query with every row is exact and, up to some
thousands of rows, fastest. Above that a graph (usearch, HNSW) finds candidates, which are then
scored exactly. The graph is only ever a shortcut: it can be missing at any time, and a saved one
is used only if it verifies against its checksum and against the matrix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import usearch
from numpy.typing import NDArray
from usearch.compiled import MetricKind, ScalarKind
from usearch.index import Index

from zerorag_p2p.config import LIBRARY_EXACT_LIMIT, LIBRARY_GRAPH_DRIFT
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.model import Score, Vector
from zerorag_p2p.wire.embedding import Encoding, transmitted_rows

# Candidates a graph is first asked for, as a multiple of k and at least; asked again for twice as
# many while too few are admitted. Guesses; a wider search costs little and is scored exactly.
_CANDIDATES_PER_RESULT: Final = 4
_MIN_CANDIDATES: Final = 64
_EXPANSION: Final = 128

# Beyond this share of all vectors comparing with every one is cheaper than a wider graph search.
_MAX_CANDIDATE_SHARE: Final = 0.25

_FIRST_SORTED: Final = 64
_BUILD_ROWS: Final = 1_024

#: Numbers that name vectors, [n].
Keys: TypeAlias = NDArray[np.int64]


class VectorIndex:
    """Vectors by integer key, in order of insertion. One thread at a time may use an index.

    Args:
        dimension: Components of a vector.
        exact_limit: Number of vectors up to which no graph is wanted.
    """

    def __init__(self, dimension: int, *, exact_limit: int = LIBRARY_EXACT_LIMIT) -> None:
        self._dimension = dimension
        self._exact_limit = exact_limit
        self._count = 0
        # Arrays grow by doubling; rows from _count on are unused.
        self._keys: Keys = np.empty(0, dtype=np.int64)
        self._rows: Vector = np.empty((0, dimension), dtype=np.float32)
        self._positions: dict[int, int] = {}
        self._graph: Index | None = None
        self._removed_from_graph = 0
        self._unsaved = 0

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> Keys:
        """All keys, [n]; a view that the next change may outdate."""
        return self._keys[: self._count]

    @property
    def rows(self) -> Vector:
        """All vectors as they are transmitted, [n, d], in the order of `keys`; a view."""
        return self._rows[: self._count]

    @property
    def has_graph(self) -> bool:
        """Whether searches go through a graph."""
        return self._graph is not None

    @property
    def wants_graph(self) -> bool:
        """Whether a graph should be built: there is none, or it has drifted too far."""
        if self._count <= self._exact_limit:
            return False
        return self._graph is None or self._removed_from_graph > LIBRARY_GRAPH_DRIFT * self._count

    @property
    def wants_save(self) -> bool:
        """Whether the graph differs enough from the saved one to be worth saving."""
        return self.can_save and self._unsaved > LIBRARY_GRAPH_DRIFT * self._count

    @property
    def can_save(self) -> bool:
        """Whether there is an unsaved graph that may be written.

        One with removed vectors may not: its file would still hold them.
        """
        return self._graph is not None and not self._removed_from_graph and self._unsaved > 0

    def add(self, keys: Sequence[int], vectors: Vector) -> None:
        """Add vectors [n, d] under new keys.

        Raises:
            EmbeddingError: A vector is not finite or is zero.
        """
        if not keys:
            return
        assert vectors.shape == (len(keys), self._dimension)
        assert self._positions.keys().isdisjoint(keys)
        rows = transmitted_rows(vectors, Encoding.INT8)
        end = self._count + len(keys)
        if end > len(self._keys):
            capacity = max(end, 2 * len(self._keys))
            self._keys = np.concatenate([self.keys, np.empty(capacity - self._count, np.int64)])
            spare = np.empty((capacity - self._count, self._dimension), np.float32)
            self._rows = np.concatenate([self.rows, spare])
        self._keys[self._count : end] = keys
        self._rows[self._count : end] = rows
        self._positions.update(zip(keys, range(self._count, end), strict=True))
        self._count = end
        if self._graph is not None:
            _add_to_graph(self._graph, np.asarray(keys, dtype=np.int64), rows)
            self._unsaved += len(keys)

    def remove(self, keys: Sequence[int]) -> None:
        """Remove the vectors of `keys`; unknown keys are ignored."""
        gone = np.isin(self.keys, np.asarray(keys, dtype=np.int64))
        if not gone.any():
            return
        if self._graph is not None:
            self._graph.remove(self.keys[gone].astype(np.uint64))
            self._removed_from_graph += int(gone.sum())
            self._unsaved += int(gone.sum())
        self._keys, self._rows = self.keys[~gone], self.rows[~gone]
        self._count = len(self._keys)
        self._positions = {key: position for position, key in enumerate(self._keys.tolist())}
        if self._count <= self._exact_limit:
            self._graph = None

    def vector(self, key: int) -> Vector:
        """The vector of an existing key as it is transmitted, [d]."""
        row: Vector = self._rows[self._positions[key]]
        return row.copy()

    def search(
        self, query: Vector, k: int, admit: Callable[[int], bool] | None = None
    ) -> list[tuple[int, Score]]:
        """The k admitted vectors most similar to `query` [d], as (key, score), best first.

        Equal scores are in the order of insertion. `admit` is asked about a key at most once, and
        before the cut to k: vectors that are not admitted never crowd out those that are.
        """
        assert k > 0
        admitted: dict[int, bool] = {}
        wanted = max(_MIN_CANDIDATES, _CANDIDATES_PER_RESULT * k)
        while True:
            complete = self._graph is None or wanted > _MAX_CANDIDATE_SHARE * self._count
            positions = (
                np.arange(self._count) if complete else self._graph_candidates(query, wanted)
            )
            scores = (self.rows if complete else self._rows[positions]) @ query
            found: list[tuple[int, Score]] = []
            for rank in _by_falling_score(scores):
                key = int(self._keys[positions[rank]])
                if key not in admitted:
                    admitted[key] = admit is None or admit(key)
                if admitted[key]:
                    found.append((key, float(scores[rank])))
                    if len(found) == k:
                        return found
            if complete:
                return found
            wanted *= 2

    def _graph_candidates(self, query: Vector, count: int) -> NDArray[np.intp]:
        """Positions of about the `count` vectors most similar to `query`, ascending."""
        assert self._graph is not None
        matches = self._graph.search(query, count, threads=1)
        return self._positions_of(np.sort(matches.keys))

    def _positions_of(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        return np.array([self._positions[key] for key in keys.tolist()], dtype=np.intp)

    # The graph.

    def snapshot(self) -> tuple[Keys, Vector]:
        """Copies of all keys and vectors, to build a graph from while other threads go on."""
        return self.keys.copy(), self.rows.copy()

    def adopt(self, graph: Index) -> None:
        """Search through `graph` from now on, after bringing it up to date."""
        held = np.asarray(graph.keys, dtype=np.uint64)
        gone = held[~np.isin(held.astype(np.int64), self.keys)]
        if len(gone):
            graph.remove(gone)
        new = ~np.isin(self.keys, held.astype(np.int64))
        if new.any():
            _add_to_graph(graph, self.keys[new], self.rows[new])
        self._graph = graph
        self._removed_from_graph = len(gone)
        self._unsaved = self._count

    def save(self, path: Path, fingerprint: str) -> None:
        """Write the graph to `path` and its description beside it, each atomically."""
        assert self._graph is not None
        assert self.can_save
        data = bytes(self._graph.save() or b"")
        write_atomic(path, data)
        write_atomic(_sidecar(path), self._describe(data, fingerprint))
        self._unsaved = 0

    def load(self, path: Path, fingerprint: str) -> None:
        """Adopt the graph saved at `path`, if it is the one that was saved for these vectors.

        Raises:
            FileNotFoundError: There is no saved graph.
            LibraryError: The file is not whole, is of another kind, or disagrees with the vectors.
        """
        graph = self._read_graph(path, fingerprint)
        keys = np.asarray(graph.keys, dtype=np.uint64)
        known = keys[np.isin(keys.astype(np.int64), self.keys)]
        rows = self._rows[self._positions_of(known)]
        if len(known) and not np.array_equal(np.asarray(graph.get(known)), rows):
            raise LibraryError("its vectors are not those of the database")
        self.adopt(graph)
        self._unsaved = self._count - len(known) + self._removed_from_graph

    def _read_graph(self, path: Path, fingerprint: str) -> Index:
        data = path.read_bytes()
        # The native library trusts what it loads. It only ever sees bytes that it wrote itself.
        try:
            described = _sidecar(path).read_bytes()
        except FileNotFoundError:
            described = b""
        if described != self._describe(data, fingerprint):
            raise LibraryError("its checksum or kind is not the one noted beside it")
        metadata = Index.metadata(data)
        if metadata is None or (
            metadata["dimensions"],
            metadata["kind_metric"],
            metadata["kind_scalar"],
        ) != (self._dimension, MetricKind.IP, ScalarKind.F32):
            raise LibraryError("it has another dimension, metric or number type")
        graph = _new_graph(self._dimension)
        graph.load(data)
        return graph

    def _describe(self, data: bytes, fingerprint: str) -> bytes:
        description = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "fingerprint": fingerprint,
            "dimension": self._dimension,
            "metric": "ip",
            "dtype": "f32",
            "usearch": usearch.__version__,
        }
        return json.dumps(description, indent=2).encode()


def build_graph(keys: Keys, rows: Vector) -> Index:
    """A graph of a snapshot, for `VectorIndex.adopt`. Takes minutes for 100,000 vectors."""
    graph = _new_graph(rows.shape[1])
    for start in range(0, len(keys), _BUILD_ROWS):
        part = slice(start, start + _BUILD_ROWS)
        _add_to_graph(graph, keys[part], rows[part])
    return graph


def search_graph(graph: Index, queries: Vector, count: int) -> Keys:
    """Keys of the `count` vectors that a graph finds for each of `queries` [n, d], best first.

    Rows are [n, count]; where the graph has fewer vectors or finds fewer, they end in -1.
    """
    found = np.full((len(queries), count), -1, dtype=np.int64)
    for row, query in zip(found, queries, strict=True):
        keys = graph.search(query, count, threads=1).keys
        row[: len(keys)] = keys
    return found


def _add_to_graph(graph: Index, keys: Keys, rows: Vector) -> None:
    graph.add(keys.astype(np.uint64), rows, threads=1)


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _new_graph(dimension: int) -> Index:
    # Of unit vectors the inner product is the cosine.
    return Index(
        ndim=dimension, metric=MetricKind.IP, dtype=ScalarKind.F32, expansion_search=_EXPANSION
    )


def _by_falling_score(scores: Vector) -> Iterator[int]:
    """Positions by falling score, equal ones ascending, sorted only as far as they are read."""
    count = len(scores)
    done, wanted = 0, _FIRST_SORTED
    while done < count:
        chosen = np.arange(count)
        if wanted < count:
            least = np.partition(scores, count - wanted)[count - wanted]
            chosen = np.flatnonzero(scores >= least)
        order = chosen[np.argsort(-scores[chosen], kind="stable")]
        yield from order[done:].tolist()
        done = len(order)
        wanted *= 4
