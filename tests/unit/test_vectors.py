from pathlib import Path

import numpy as np
import pytest
from usearch.index import Index

from zerorag_p2p.errors import EmbeddingError, LibraryError
from zerorag_p2p.library.vectors import VectorIndex, build_graph
from zerorag_p2p.model import Vector
from zerorag_p2p.wire.embedding import transmitted_rows

DIMENSION = 32
MODEL = "ab" * 32


def random_rows(count: int, seed: int = 0) -> Vector:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def filled(count: int, *, exact_limit: int = 10_000) -> VectorIndex:
    index = VectorIndex(DIMENSION, exact_limit=exact_limit)
    rows = random_rows(count)
    for start in range(0, count, 300):  # in several steps, so that the arrays grow
        keys = range(start, min(start + 300, count))
        index.add(list(keys), rows[keys.start : keys.stop])
    return index


def with_graph(count: int) -> VectorIndex:
    index = filled(count, exact_limit=10)
    assert index.wants_graph
    index.adopt(build_graph(*index.snapshot()))
    assert index.has_graph
    assert not index.wants_graph
    return index


def brute_force(index: VectorIndex, query: Vector, k: int) -> list[int]:
    scores = index.rows @ query
    return [int(index.keys[row]) for row in np.argsort(-scores, kind="stable")[:k]]


def test_exact_search_is_exact_and_scores_what_is_transmitted() -> None:
    index = filled(2_000)
    for query in random_rows(20, seed=1):
        found = index.search(query, 7)
        assert [key for key, _ in found] == brute_force(index, query, 7)
    sent = transmitted_rows(random_rows(2_000))
    np.testing.assert_array_equal(index.vector(1234), sent[1234])
    np.testing.assert_allclose(dict(found)[found[0][0]], sent[found[0][0]] @ query, atol=1e-6)


@pytest.mark.parametrize("make", [filled, with_graph])
def test_what_is_not_admitted_never_crowds_out_what_is(make: object) -> None:
    assert callable(make)
    index = make(2_000)
    query = random_rows(1, seed=2)[0]
    rare = set(brute_force(index, query, 2_000)[-3:])
    asked: list[int] = []

    def admit(key: int) -> bool:
        asked.append(key)
        return key in rare

    assert {key for key, _ in index.search(query, 5, admit)} == rare
    assert len(asked) == len(set(asked)) == 2_000


@pytest.mark.parametrize("make", [filled, with_graph])
def test_equal_scores_are_in_order_of_insertion(make: object) -> None:
    assert callable(make)
    index = make(500)
    row = random_rows(1, seed=3)
    index.add(list(range(900, 700, -1)), np.repeat(row, 200, axis=0))
    assert [key for key, _ in index.search(row[0], 150)] == list(range(900, 750, -1))


def test_a_graph_finds_nearly_all_and_scores_exactly() -> None:
    index = with_graph(5_000)
    hits = 0
    for query in random_rows(50, seed=4):
        found = index.search(query, 5)
        hits += len({key for key, _ in found} & set(brute_force(index, query, 5)))
        for key, score in found:
            assert score == pytest.approx(float(index.vector(key) @ query), abs=1e-6)
    assert hits >= 0.97 * 250


@pytest.mark.parametrize("make", [filled, with_graph])
def test_removed_vectors_are_gone_and_the_others_stay(make: object) -> None:
    assert callable(make)
    index = make(1_000)
    index.remove([*range(0, 1_000, 2), 5_000])
    assert len(index) == 500
    rows = transmitted_rows(random_rows(1_000))
    for key in (0, 1, 501):
        found = [number for number, _ in index.search(rows[key], 10)]
        assert all(number % 2 for number in found)
        assert (key in found) == bool(key % 2)
    index.add([2_000], rows[:1])
    assert index.search(rows[0], 1)[0][0] == 2_000


def test_an_index_that_shrank_needs_no_graph() -> None:
    index = with_graph(100)
    index.remove(list(range(95)))
    assert not index.has_graph
    assert len(index.search(random_rows(1)[0], 10)) == 5
    index.remove(list(range(95, 100)))
    assert index.search(random_rows(1)[0], 10) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_bad_vectors_are_refused(bad: float) -> None:
    index = filled(3)
    rows = random_rows(2)
    rows[1] = bad
    with pytest.raises(EmbeddingError):
        index.add([10, 11], rows)
    assert len(index) == 3


def test_a_graph_adopted_late_is_brought_up_to_date() -> None:
    index = filled(400, exact_limit=10)
    snapshot = index.snapshot()
    index.remove([0, 1, 2])
    index.add([500], random_rows(1, seed=5))
    index.adopt(build_graph(*snapshot))
    assert index.search(random_rows(1, seed=5)[0], 1)[0][0] == 500
    assert index.search(random_rows(400)[0], 1)[0][0] != 0
    assert not index.can_save  # its file would still hold what was removed


class TestSavedGraphs:
    def test_a_saved_graph_is_loaded_and_caught_up(self, tmp_path: Path) -> None:
        path = tmp_path / "1.usearch"
        index = with_graph(400)
        assert index.wants_save
        index.save(path, MODEL)
        assert not index.can_save
        later = filled(450, exact_limit=10)
        later.load(path, MODEL)
        assert later.has_graph
        query = random_rows(450)[449]
        assert later.search(query, 1)[0][0] == 449

    def test_nothing_saved(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            filled(400).load(tmp_path / "1.usearch", MODEL)

    def test_every_damage_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "1.usearch"
        index = with_graph(60)
        index.save(path, MODEL)
        data = path.read_bytes()
        generator = np.random.default_rng(6)
        damaged = [
            b"",
            data[:10],
            data[: len(data) // 2],
            data[:-1],
            data + b"\0",
            generator.bytes(len(data)),
        ]
        for position in generator.integers(0, len(data), 50).tolist():
            flipped = bytearray(data)
            flipped[position] ^= 1 << int(generator.integers(8))
            damaged.append(bytes(flipped))
        for bad in damaged:
            path.write_bytes(bad)
            with pytest.raises(LibraryError, match="checksum"):
                index.load(path, MODEL)
        path.write_bytes(data)
        index.load(path, MODEL)

    @pytest.mark.parametrize("sidecar", [None, b"", b"{", b"[]", b"\xff", b"x" * 10_000])
    def test_a_bad_description_is_noticed(self, tmp_path: Path, sidecar: bytes | None) -> None:
        path = tmp_path / "1.usearch"
        index = with_graph(60)
        index.save(path, MODEL)
        described = tmp_path / "1.usearch.json"
        described.unlink()
        if sidecar is not None:
            described.write_bytes(sidecar)
        with pytest.raises(LibraryError):
            index.load(path, MODEL)

    def test_a_graph_of_another_model_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "1.usearch"
        index = with_graph(60)
        index.save(path, MODEL)
        with pytest.raises(LibraryError, match="kind"):
            index.load(path, "cd" * 32)

    @pytest.mark.parametrize(
        "other",
        [
            Index(ndim=DIMENSION, metric="l2sq", dtype="f32"),
            Index(ndim=DIMENSION, metric="ip", dtype="i8"),
            Index(ndim=DIMENSION + 1, metric="ip", dtype="f32"),
        ],
    )
    def test_another_metric_type_or_dimension_is_refused_even_with_a_right_checksum(
        self, tmp_path: Path, other: Index
    ) -> None:
        path = tmp_path / "1.usearch"
        index = with_graph(60)
        index.save(path, MODEL)
        other.add(np.arange(60), np.ones((60, other.ndim), np.float32))
        data = bytes(other.save() or b"")
        path.write_bytes(data)
        sidecar = tmp_path / "1.usearch.json"
        sidecar.write_bytes(index._describe(data, MODEL))
        with pytest.raises(LibraryError, match="another dimension, metric or number type"):
            index.load(path, MODEL)

    def test_a_graph_of_other_vectors_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "1.usearch"
        with_graph(60).save(path, MODEL)
        restored = VectorIndex(DIMENSION, exact_limit=10)
        restored.add(list(range(60)), random_rows(60, seed=9))
        with pytest.raises(LibraryError, match="not those of the database"):
            restored.load(path, MODEL)
