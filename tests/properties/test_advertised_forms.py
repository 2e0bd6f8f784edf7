"""What a peer advertises, by the form that its owner chose."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_peer import ListCorpus, unit
from zerorag_p2p.config import WITHHELD_SCORE_STEP, RoutingConfig
from zerorag_p2p.model import PeerId, Purpose, Vector, View
from zerorag_p2p.peer import OwnAdvertisement, Peer, Requester
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.routing.summaries import summarise
from zerorag_p2p.wire.query import QueryRequest, QueryResult

FINGERPRINT = "ab" * 32
SHARED = {"notes": Sharing(), "letters": Sharing()}


def peer(
    documents: Sequence[tuple[str, Vector]],
    withholds: Callable[[str], bool] = lambda _: False,
    **settings: object,
) -> Peer:
    return Peer(
        PeerId("alice"),
        ListCorpus(list(documents), dict(SHARED)),
        RoutingConfig(**settings),  # type: ignore[arg-type]
        fingerprint=FINGERPRINT,
        dimension=3,
        record_of=lambda _: None,
        withholds=withholds,
    )


def advertised(of: Peer) -> OwnAdvertisement:
    return of.advertisement(0.0, np.random.default_rng(0))


def rows(count: int, seed: int) -> list[Vector]:
    generator = np.random.default_rng(seed)
    return [unit(*generator.normal(size=3).tolist()) for _ in range(count)]


@given(st.integers(0, 60), st.integers(2, 12), st.integers(1, 9), st.integers(0, 50))
def test_no_cluster_has_fewer_documents_than_the_owner_wants(
    count: int, least: int, limit: int, seed: int
) -> None:
    vectors = rows(count, seed)
    own = advertised(
        peer(
            [("notes", vector) for vector in vectors],
            advertisement_form="centroids",
            advertisement_min_cluster=least,
            advertisement_limit=limit,
        )
    )
    assert len(own.entries) <= min(limit, count // least)
    assert bool(own.entries) == (count >= least)
    assert list(own.entries) == list(range(len(own.entries)))
    if least <= count < 2 * least:
        whole = np.sum(vectors, axis=0)
        length = float(np.linalg.norm(whole))
        if length > 1e-3:
            assert np.allclose(own.vectors[0], whole / length, atol=1e-4)


@given(st.integers(0, 100), st.integers(2, 4))
def test_a_small_group_goes_to_the_nearest_and_is_no_centroid_of_its_own(
    seed: int, alone: int
) -> None:
    generator = np.random.default_rng(seed)
    axes = np.eye(4, dtype=np.float32)
    sizes = (12, 9, alone - 1)
    vectors = np.concatenate(
        [
            axes[group] + 0.05 * generator.normal(size=(size, 4)).astype(np.float32)
            for group, size in enumerate(sizes)
        ]
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    summary = summarise(vectors, 6, generator, least=alone)
    assert (summary.centroids @ axes[2] < 0.95).all()
    assert len(summary.centroids) >= 2


@pytest.mark.parametrize("form", ["documents", "centroids", "none"])
def test_the_form_decides_what_is_advertised(form: str) -> None:
    documents = [("notes", vector) for vector in rows(10, 0)]
    own = advertised(peer(documents, advertisement_form=form))
    entries = {"documents": 10, "centroids": 2, "none": 0}[form]
    assert len(own.entries) <= entries
    assert bool(own.entries) == bool(entries)
    assert all(isinstance(entry, str) == (form == "documents") for entry in own.entries)


def test_withheld_documents_are_advertised_within_clusters_only() -> None:
    documents = [
        ("notes" if number < 5 else "letters", row) for number, row in enumerate(rows(9, 0))
    ]

    def withholds(collection: str) -> bool:
        return collection == "notes"

    own = advertised(peer(documents, withholds))
    assert np.array_equal(own.vectors, np.stack([row for _, row in documents[5:]]))
    clusters = advertised(peer(documents, withholds, advertisement_form="centroids"))
    assert len(clusters.entries) == 1


@given(st.integers(0, 1_000), st.floats(-1, 1))
def test_withheld_scores_are_coarse_and_cannot_be_told_finer(seed: int, above: float) -> None:
    document, question = rows(2, seed)
    asked = peer([("", document)], lambda _: True, routing="paper")
    asked._corpus.shared[""] = Sharing()  # type: ignore[attr-defined]

    def answer(view: View, above: float | None) -> QueryResult:
        request = QueryRequest(
            embedding=question,
            fingerprint=FINGERPRINT,
            k=1,
            budget_left=0,
            deadline_ms=1,
            purpose=Purpose.TREAT,
            user="u",
            audit="a",
            view=view,
            above=above,
        )
        result = asked.answer(request, Requester(PeerId("bob"), "Bob"), 0.0)
        assert isinstance(result, QueryResult)
        return result

    (found,) = answer(View.WHOLE, None).documents
    exact = float(document @ question)
    assert found.embedding is None
    assert found.score <= exact + 1e-6
    assert exact - found.score < WITHHELD_SCORE_STEP + 1e-6
    steps = found.score / WITHHELD_SCORE_STEP
    assert steps == pytest.approx(round(steps), abs=1e-6)
    # No threshold tells where within its step the score is.
    assert bool(answer(View.WHOLE, above).documents) == (found.score > above)
    counted = answer(View.COUNT, above).count
    grid = np.floor(above / WITHHELD_SCORE_STEP) * WITHHELD_SCORE_STEP
    assert counted == answer(View.COUNT, float(np.clip(grid + 1e-6, -1, 1))).count
