"""Summaries of libraries, and what becomes of them at their receivers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import HashPrefix, PeerId, Vector
from zerorag_p2p.routing.adverts import AdvertisementStore, HeldAdvertisement
from zerorag_p2p.routing.peers import PeerTable
from zerorag_p2p.routing.summaries import SAMPLE_ROWS, Summary, summarise
from zerorag_p2p.wire.advertise import (
    MAX_ESTIMATE_ERROR,
    MAX_OFFSET,
    Advertisement,
    Estimates,
    decode_advertisement,
    encode_advertisement,
)
from zerorag_p2p.workloads.large import LargeLibraries

DIMENSION = 4


def unit_rows(rows: Vector) -> Vector:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def draw_rows(count: int, seed: int) -> Vector:
    return unit_rows(np.random.default_rng(seed).normal(size=(count, DIMENSION)))


def summary_of(rows: Vector, limit: int, seed: int) -> Summary:
    return summarise(rows, limit, np.random.default_rng(seed))


@given(st.integers(2, 60), st.integers(1, 8), st.integers(0, 100), st.integers(1, 60))
def test_summaries_are_unit_vectors_within_the_limit(
    count: int, limit: int, seed: int, different: int
) -> None:
    rows = draw_rows(count, seed)[np.arange(count) % different]
    limit = min(limit, count - 1)
    summary = summary_of(rows, limit, seed)
    offsets, errors = summary.estimates.offsets, summary.estimates.errors
    assert 1 <= len(summary.centroids) <= limit
    assert len(offsets) == len(errors) == len(summary.centroids)
    assert np.allclose(np.linalg.norm(summary.centroids, axis=1), 1.0, atol=1e-5)
    assert (np.abs(offsets) <= MAX_OFFSET).all()
    assert ((errors >= 0) & (errors <= MAX_ESTIMATE_ERROR)).all()


@given(st.integers(2, 60), st.integers(1, 8), st.integers(0, 100))
def test_a_seed_decides(count: int, limit: int, seed: int) -> None:
    rows = draw_rows(count, seed)
    first, second = (summary_of(rows, min(limit, count - 1), seed) for _ in range(2))
    assert np.array_equal(first.centroids, second.centroids)
    assert np.array_equal(first.estimates.offsets, second.estimates.offsets)
    assert np.array_equal(first.estimates.errors, second.estimates.errors)


def test_well_separated_clusters_are_found() -> None:
    centres = np.eye(DIMENSION, dtype=np.float32)
    noise = np.random.default_rng(0).normal(scale=0.01, size=(40, DIMENSION))
    rows = unit_rows(np.repeat(centres, 10, axis=0) + noise)
    for seed in range(5):
        centroids = summary_of(rows, DIMENSION, seed).centroids
        assert (centres @ centroids.T).max(axis=1).min() > 0.99


def test_the_same_text_many_times_is_one_cluster() -> None:
    summary = summary_of(np.tile(draw_rows(1, 0), (20, 1)), 5, 0)
    assert len(summary.centroids) == 1
    assert summary.estimates.offsets == pytest.approx(0.0, abs=1e-6)
    assert summary.estimates.errors == pytest.approx(0.0, abs=1e-6)


def test_opposite_documents_can_share_a_cluster() -> None:
    row = draw_rows(1, 0)
    summary = summary_of(np.concatenate([row, -row]), 1, 0)
    assert np.isfinite(summary.estimates.offsets).all()


@pytest.mark.parametrize(
    ("size", "limit"), [(400, 64), (400, 256), (3_000, 64), (SAMPLE_ROWS + 4_000, 64)]
)
def test_the_best_score_is_within_the_error_of_its_estimate(size: int, limit: int) -> None:
    libraries = LargeLibraries(np.array([size, size, size]), seed=3)
    questions = libraries.ask(600)
    documents = libraries.documents(0)
    summary = summary_of(documents, limit, 3)
    scores = questions.vectors @ summary.centroids.T + summary.estimates.offsets
    best = (questions.vectors @ documents.T).max(axis=1)
    missed = (best - scores.max(axis=1)) / summary.estimates.errors[np.argmax(scores, axis=1)]
    held_out = missed[questions.owners != 0]
    assert (np.abs(held_out) <= 3).mean() >= 0.95
    assert abs(held_out.mean()) < 0.5


@given(st.integers(0, 100), st.sampled_from((1, 2, 4, 32)))
def test_an_estimate_survives_the_wire(seed: int, bits: int) -> None:
    rows = draw_rows(40, seed)
    summary = summary_of(rows, 8, seed)
    owner = Identity.from_seed(bytes(32)).peer_id
    sent = Advertisement(
        owner=owner,
        fingerprint="0" * 64,
        sequence=1,
        issued_at=1,
        expires_at=2,
        bits=bits,
        entries=tuple(range(len(summary.centroids))),
        vectors=summary.centroids,
        estimates=summary.estimates,
    )
    received = decode_advertisement(encode_advertisement(sent))
    store = AdvertisementStore(DIMENSION, PeerTable())
    store.put(
        HeldAdvertisement(
            owner, 1, 2.0, received.vectors, received.documents, estimates=received.estimates
        )
    )
    (best,) = store.best_documents(rows[0], 10, clusters=10, margin=0.0)
    scores = received.vectors @ rows[0] + summary.estimates.offsets
    assert best.owners == (owner,)
    assert best.advertised.score == pytest.approx(float(scores.max()), abs=1e-5)
    assert best.advertised.error >= summary.estimates.errors.min()


def held(owner: str, rows: Vector, offsets: list[float], errors: list[float]) -> HeldAdvertisement:
    estimates = Estimates(np.array(offsets, np.float32), np.array(errors, np.float32))
    return HeldAdvertisement(PeerId(owner), 1, 1.0, rows, (None,) * len(rows), estimates=estimates)


def test_receivers_add_the_offset_and_allow_for_the_error() -> None:
    store = AdvertisementStore(DIMENSION, PeerTable())
    rows = np.eye(DIMENSION, dtype=np.float32)
    query = unit_rows(np.array([[0.8, 0.6, 0.0, 0.0]]))[0]
    store.put(HeldAdvertisement(PeerId("whole"), 1, 1.0, rows[1:2], ("0123456789abcdef",)))
    store.put(held("a", rows[:2], [0.0, 0.3], [0.01, 0.02]))
    store.put(held("b", rows[:2], [0.25, 0.0], [0.03, 0.04]))
    found = store.best_documents(query, 10, clusters=10, margin=0.0)
    assert [item.owners for item in found] == [("b",), ("a",), ("whole",)]
    scores = [item.advertised.score for item in found]
    assert scores == pytest.approx([1.05, 0.9, 0.6], abs=1e-6)
    errors = [item.advertised.error for item in found]
    assert errors == pytest.approx([0.03, 0.02, 0.0], abs=1e-6)
    store.remove(PeerId("a"))
    rest = store.best_documents(query, 10, clusters=10, margin=0.0)
    assert [item.advertised.score for item in rest] == pytest.approx([1.05, 0.6], abs=1e-6)
    promising = store.best_documents(query, 10, clusters=10, margin=1.0, above=1.06)
    assert [item.owners for item in promising] == [("b",)]


def test_clusters_and_documents_have_limits_of_their_own() -> None:
    store = AdvertisementStore(DIMENSION, PeerTable())
    rows = np.eye(DIMENSION, dtype=np.float32)
    for owner in "abc":
        store.put(held(owner, rows[:2], [0.1, 0.0], [0.0, 0.0]))
    prefixes = tuple(HashPrefix(f"{number:016x}") for number in range(DIMENSION))
    store.put(HeldAdvertisement(PeerId("whole"), 1, 1.0, rows, prefixes))
    query = unit_rows(np.array([[0.8, 0.5, 0.3, 0.1]]))[0]
    for documents, clusters in ((1, 2), (3, 0), (0, 1), (4, 3)):
        found = store.best_documents(query, documents, clusters=clusters, margin=0.0)
        kinds = [item.advertised.document is None for item in found]
        assert (kinds.count(False), kinds.count(True)) == (documents, clusters)
        assert len({item.owners for item in found if item.advertised.document is None}) == clusters
