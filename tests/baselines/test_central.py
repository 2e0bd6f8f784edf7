"""Central indexes, the DHT and the tree, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerorag_p2p.baselines.dht_lsh import DhtLsh
from zerorag_p2p.baselines.exact import ExactCentral
from zerorag_p2p.baselines.hnsw import HnswCentral
from zerorag_p2p.baselines.lookup_sizes import LookupSizes
from zerorag_p2p.baselines.remote import NONE, RESULTS, RemoteDocuments
from zerorag_p2p.baselines.semantic_tree import SemanticTree
from zerorag_p2p.baselines.system import System
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.workloads.outcome_table import NO_HIT, OutcomeTable
from zerorag_p2p.workloads.query_sizes import QuerySizes
from zerorag_p2p.workloads.synthetic import synthetic_workload
from zerorag_p2p.workloads.workload import Events, PeerDocuments, QueryEvent, Workload

WORKLOAD = synthetic_workload(peers=60, seed=2, draws=6, topics=6)


def one_owner(workload: Workload, peers: int) -> Workload:
    """Every document at one peer, dealt out in turn; everybody asks for what the next one has."""
    holdings = [range(peer, len(workload.documents), peers) for peer in range(peers)]
    events = [
        QueryEvent(peer=(document - 1) % peers, query=query, document=document)
        for query, document in enumerate(workload.answers)
    ]
    return replace(workload, holdings=PeerDocuments.of(holdings), events=Events.of(events))


def systems() -> list[System]:
    return [
        ExactCentral(),
        HnswCentral(),
        DhtLsh(5),
        SemanticTree(leaf_limit=10, contact_limit=10),
        SemanticTree(leaf_limit=10, contact_limit=10, stop_at_target=False),
    ]


def brute_force(workload: Workload) -> list[list[int]]:
    """For every event the best documents that another peer holds."""
    vectors = transmitted_rows(workload.vectors)
    queries = transmitted_rows(workload.query_vectors)
    answers = []
    for event in workload.events:
        others = {
            document
            for peer, held in enumerate(workload.holdings)
            if peer != event.peer
            for document in held
        }
        scores = vectors @ queries[event.query]
        answers.append(sorted(others, key=lambda document: (-scores[document], document))[:RESULTS])
    return answers


@pytest.mark.parametrize("workload", [WORKLOAD, one_owner(WORKLOAD, 7)], ids=["shared", "owned"])
def test_the_yardstick_is_what_brute_force_finds(workload: Workload) -> None:
    remote = RemoteDocuments(workload)
    assert [[item for item in row if item != NONE] for row in remote.best.tolist()] == brute_force(
        workload
    )
    holders = [
        sum(event.document in held for held in workload.holdings)
        - (event.document in workload.holdings[event.peer])
        for event in workload.events
    ]
    assert remote.holders.tolist() == holders


def test_an_owner_of_most_documents_is_compared_with_what_is_left() -> None:
    documents = len(WORKLOAD.documents)
    holdings = PeerDocuments.of([range(documents - 3), [documents - 1, documents - 2]])
    events = [QueryEvent(0, 0, 0), QueryEvent(1, 0, 0)]
    workload = replace(WORKLOAD, holdings=holdings, events=Events.of(events))
    remote = RemoteDocuments(workload)
    assert sorted(remote.best[0].tolist()) == [NONE] * 3 + [documents - 2, documents - 1]
    assert remote.best[1].tolist() == brute_force(workload)[1]
    assert remote.sole_copies().tolist() == [documents - 3, 2]
    for system in systems():
        outcomes = system.run(workload)
        assert outcomes.answerable.tolist() == [False, True]
        assert not outcomes.hit[0]
        assert not outcomes.recall_at_1[0]


def test_nobody_else_with_documents_is_no_recall() -> None:
    workload = replace(WORKLOAD, holdings=PeerDocuments.of([[0], []]), events=one_question())
    for system in systems():
        recall = system.run(workload).recall_at_5_exact
        assert recall is not None
        assert np.isnan(recall).all()


def one_question() -> Events:
    return Events.of([QueryEvent(peer=0, query=0, document=0)])


def test_exact_search_has_all_there_is() -> None:
    outcomes = ExactCentral().run(WORKLOAD)
    metrics = outcomes.measure()
    assert metrics["recall_at_5_exact"] == 1.0
    assert metrics["messages"] == 2.0
    best = [answer[0] for answer in brute_force(WORKLOAD)]
    assert outcomes.recall_at_1.tolist() == (best == WORKLOAD.events.documents).tolist()


@pytest.mark.parametrize("workload", [WORKLOAD, one_owner(WORKLOAD, 7)], ids=["shared", "owned"])
def test_the_graph_finds_nearly_all(workload: Workload) -> None:
    assert HnswCentral().run(workload).measure()["recall_at_5_exact"] > 0.99


def test_more_tables_find_more_and_enough_find_everything() -> None:
    recalls = [
        DhtLsh(tables, projections=4).run(WORKLOAD).measure()["recall_at_5_exact"]
        for tables in (1, 4, 40)
    ]
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[2] > 0.98


def test_publishing_is_reported_apart() -> None:
    system = DhtLsh(3)
    outcomes = system.run(WORKLOAD)
    publication = system.publication
    assert publication is not None
    held = RemoteDocuments(WORKLOAD).copies
    assert publication.stores == 3 * held.sum()
    assert publication.messages > 2 * 20 * publication.stores
    assert 0 < publication.mean_bucket <= publication.largest_bucket <= 1
    assert outcomes.messages is not None
    assert outcomes.contacts is not None
    assert outcomes.messages.max() <= 2 * 3 * len(WORKLOAD.holdings)
    assert outcomes.contacts.max() < len(WORKLOAD.holdings)


def test_a_walk_in_the_tree_stops_at_the_target_or_at_the_budget() -> None:
    outcomes = SemanticTree(budget=7).run(WORKLOAD)
    assert outcomes.contacts is not None
    assert outcomes.requests_to_target is not None
    hit = outcomes.requests_to_target != NO_HIT
    assert (outcomes.contacts[hit] == outcomes.requests_to_target[hit]).all()
    assert (outcomes.contacts[~hit] == 7).all()
    assert (outcomes.hit == hit).all()
    assert not outcomes.hit[~outcomes.answerable].any()


def test_the_tree_is_complete_when_the_budget_reaches_everybody() -> None:
    everybody = SemanticTree(contact_limit=60, budget=59, stop_at_target=False).run(WORKLOAD)
    metrics = everybody.measure()
    assert metrics["hit_rate"] == 1.0
    assert metrics["recall_at_5_exact"] == 1.0
    assert metrics["contacts"] == 59


def test_the_tree_beats_random_order() -> None:
    workload = synthetic_workload(peers=400, seed=4, draws=8, topics=40)
    metrics = (
        SemanticTree(leaf_limit=15, contact_limit=15, budget=15)
        .run(workload)
        .measure(others=399, budget=15)
    )
    assert metrics["hit_rate"] > 1.5 * metrics["random_order_hit_rate"]


@pytest.mark.parametrize("system", systems(), ids=lambda system: system.name)
def test_the_same_run_twice_is_the_same(system: System) -> None:
    progress: list[tuple[int, int]] = []
    first = system.run(WORKLOAD, lambda done, of: progress.append((done, of)))
    second = system.run(WORKLOAD)
    assert columns(first) == columns(second)
    assert progress[-1] == (len(WORKLOAD.events), len(WORKLOAD.events))


def columns(outcomes: OutcomeTable) -> dict[str, list[float] | None]:
    return {
        name: None if (column := getattr(outcomes, name)) is None else column.tolist()
        for name in OutcomeTable.__slots__
    }


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_no_system_counts_the_askers_own_copies(data: st.DataObject) -> None:
    peers = data.draw(st.integers(2, 6))
    documents = st.lists(st.integers(0, 29), max_size=8, unique=True)
    holdings = [data.draw(documents) for _ in range(peers - 1)] + [[0, 1, 2]]
    events = [
        QueryEvent(asker, 6 * document, document)
        for asker, held in enumerate(holdings)
        for document in held
    ]
    workload = replace(WORKLOAD, holdings=PeerDocuments.of(holdings), events=Events.of(events))
    for system in (*systems()[:3], SemanticTree(stop_at_target=False)):
        outcomes = system.run(workload)
        answerable = [
            any(event.document in held for peer, held in enumerate(holdings) if peer != event.peer)
            for event in events
        ]
        assert outcomes.answerable.tolist() == answerable
        assert not outcomes.hit[~outcomes.answerable].any()
        assert not outcomes.recall_at_1[~outcomes.answerable].any()


def test_sizes_are_those_of_real_vectors() -> None:
    sizes = QuerySizes.measure(WORKLOAD.fingerprint, k=RESULTS)
    lookup = LookupSizes.measure(WORKLOAD.fingerprint.dimension, key_bytes=8)
    dimension = WORKLOAD.fingerprint.dimension
    assert dimension < sizes.request < dimension + 300
    assert dimension < sizes.document < dimension + 600
    assert dimension < lookup.document < dimension + 120
    assert lookup.request < 50
    assert lookup.peer < 300
