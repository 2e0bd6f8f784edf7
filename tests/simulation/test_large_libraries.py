"""Generated libraries of many thousand documents."""

from __future__ import annotations

import numpy as np

from zerorag_p2p.workloads.large import (
    LARGEST_SIZE,
    SMALLEST_SIZE,
    LargeLibraries,
    skewed_sizes,
)

SIZES = np.array([700, 50, 300, 1])


def test_the_seed_decides() -> None:
    first, second, other = (LargeLibraries(SIZES, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.documents(2), second.documents(2))
    assert np.array_equal(first.documents(2), first.documents(2))
    assert not np.array_equal(first.documents(2), other.documents(2))
    assert np.array_equal(first.ask(20).vectors, second.ask(20).vectors)


def test_every_peer_has_its_documents() -> None:
    libraries = LargeLibraries(SIZES, 1)
    for peer, size in enumerate(SIZES.tolist()):
        documents = libraries.documents(peer)
        assert len(documents) == size
        assert np.allclose(np.linalg.norm(documents, axis=1), 1.0, atol=1e-5)


def test_questions_are_about_documents_of_others() -> None:
    libraries = LargeLibraries(SIZES, 1)
    questions = libraries.ask(200)
    assert (questions.askers != questions.owners).all()
    for owner, document in zip(questions.owners.tolist(), questions.documents, strict=True):
        assert np.isclose(libraries.documents(owner) @ document, 1.0, atol=1e-5).any()
    own = np.einsum("nd,nd->n", questions.vectors, questions.documents)
    assert 0.65 < own.mean() < 0.85


def test_peers_have_specialties() -> None:
    libraries = LargeLibraries(np.full(8, 500), 1)
    within, across = [], []
    for peer in range(len(libraries)):
        documents = libraries.documents(peer)
        others = libraries.documents((peer + 1) % len(libraries))
        within.append(float(documents[::2].mean(axis=0) @ documents[1::2].mean(axis=0)))
        across.append(float(documents.mean(axis=0) @ others.mean(axis=0)))
    assert np.mean(within) > np.mean(across) + 0.02


def test_few_libraries_are_large() -> None:
    sizes = skewed_sizes(200, 1)
    assert sizes.min() >= SMALLEST_SIZE
    assert sizes.max() <= LARGEST_SIZE
    assert sizes.sum() >= 2_000_000
    assert np.median(sizes) < sizes.mean()
