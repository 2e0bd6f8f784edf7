"""The synthetic workload, the PubMedQA reader, and holdings in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.simulation.pubmedqa_files import write_pubmedqa
from zerorag_p2p.config import MAX_CHAIN_LINKS
from zerorag_p2p.errors import AttributionError
from zerorag_p2p.identity.attribution import verify_chain
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import SharingTerms, hash_content
from zerorag_p2p.node.serving import Holdings
from zerorag_p2p.peer import Corpus
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.embedding import transmitted
from zerorag_p2p.workloads.copies import keep_copy
from zerorag_p2p.workloads.holdings import ArrayHoldings, DocumentTable, statement_signer
from zerorag_p2p.workloads.pubmedqa import PubMedQA, pubmedqa_workload
from zerorag_p2p.workloads.sketches import sketched_places
from zerorag_p2p.workloads.synthetic import synthetic_workload

WORKLOAD = synthetic_workload(peers=20, seed=3)
TABLE = DocumentTable(WORKLOAD)
NOW = 1_000_000.0
OPEN = SharingTerms(copy=True, reshare=True)


def person(number: int) -> Identity:
    return Identity.from_seed(bytes([number]) * 32)


def holdings(number: int, terms: SharingTerms = OPEN) -> ArrayHoldings:
    sign = statement_signer(person(number), TABLE, terms=terms, consortium="test", now=NOW)
    held = ArrayHoldings(TABLE, sign)
    held.share("documents", Sharing(terms=terms))
    return held


def test_it_is_about_as_hard_as_pubmedqa() -> None:
    best = np.argmax(WORKLOAD.query_vectors @ WORKLOAD.vectors.T, axis=1)
    assert 0.955 < np.mean(best == np.array(WORKLOAD.answers)) < 0.985


def test_interests_are_as_published() -> None:
    statistics = synthetic_workload(peers=2_000, seed=1).statistics
    assert statistics["draws_from_first_topic"] == pytest.approx(15.9, abs=0.5)
    assert statistics["draws_from_second_topic"] == pytest.approx(6.6, abs=0.3)
    assert statistics["draws_from_third_topic"] == pytest.approx(3.4, abs=0.2)


def test_texts_and_questions_can_be_told_apart() -> None:
    assert len({item.content.encode() for item in WORKLOAD.documents}) == len(WORKLOAD.documents)
    assert len(set(WORKLOAD.queries)) == len(WORKLOAD.queries)


def test_peers_ask_for_what_they_hold() -> None:
    assert len(WORKLOAD.events) == 20 * 30
    for event in WORKLOAD.events:
        assert event.document in WORKLOAD.holdings[event.peer]
        assert WORKLOAD.answers[event.query] == event.document


def test_a_seed_gives_the_same_workload() -> None:
    again = synthetic_workload(peers=20, seed=3)
    assert again.events == WORKLOAD.events
    assert again.documents == WORKLOAD.documents
    assert np.array_equal(again.vectors, WORKLOAD.vectors)
    assert synthetic_workload(peers=20, seed=4).events != WORKLOAD.events


def test_pubmedqa_is_read_from_its_folder(tmp_path: Path) -> None:
    write_pubmedqa(tmp_path, 4)
    workload = pubmedqa_workload(PubMedQA.load(tmp_path), peers=5, seed=1, draws=8)
    assert workload.documents[1].content.title == "PubMed 1"
    assert workload.documents[1].content.text == "abstract 1,\nsecond part"
    assert workload.documents[1].topics == ("Humans", "Topic 1")
    assert workload.queries[6] == "question 1?"
    assert workload.answers[6:12] == (1,) * 6
    assert workload.decisions[5:7] == ("yes", "no")
    assert len(workload.events) == 5 * 8
    assert np.allclose(np.linalg.norm(workload.query_vectors, axis=1), 1.0, atol=1e-6)


def test_holdings_are_what_peers_and_nodes_expect() -> None:
    held = holdings(1)
    corpus: Corpus = held
    served: Holdings = held
    assert corpus.collections() == ["documents"]
    assert served.generation == held.generation


def test_the_best_admitted_documents_are_found() -> None:
    held = holdings(1)
    held.own([5, 6, 7], "documents")
    held.own([8], "private")
    query = transmitted(WORKLOAD.vectors[8])
    everything = held.search(query, 10, admit_collection=lambda _: True, admit=lambda _: True)
    assert everything[0].content_hash == TABLE.hashes[8]
    assert [item.score for item in everything] == sorted(
        (item.score for item in everything), reverse=True
    )
    shared = held.search(
        query,
        2,
        admit_collection=lambda name: held.sharing(name) is not None,
        admit=lambda document: document.content_hash != TABLE.hashes[5],
    )
    assert {item.content_hash for item in shared} == {TABLE.hashes[6], TABLE.hashes[7]}
    vectors, hashes = held.vectors_to_advertise(["documents"])
    assert hashes == [TABLE.hashes[number] for number in (5, 6, 7)]
    assert np.array_equal(vectors, TABLE.vectors[[5, 6, 7]])


def test_a_document_can_be_read_and_proven() -> None:
    held = holdings(1)
    before = held.generation
    held.own([5], "documents")
    assert held.generation > before
    (stored,) = held.get(TABLE.hashes[5])
    assert hash_content(held.read(stored).content()) == TABLE.hashes[5]
    chain = verify_chain(stored.links)
    assert chain.statement.owner == person(1).peer_id
    assert chain.statement.content_hash == TABLE.hashes[5]
    assert held.get(TABLE.hashes[6]) == ()


def test_a_chain_verifies_after_two_hops() -> None:
    owner, first, second = holdings(1), holdings(2), holdings(3)
    owner.own([5], "documents")
    links = owner.get(TABLE.hashes[5])[0].links
    assert keep_copy(first, person(2), TABLE.hashes[5], links, NOW + 1)
    links = first.get(TABLE.hashes[5])[0].links
    assert keep_copy(second, person(3), TABLE.hashes[5], links, NOW + 2)
    chain = verify_chain(second.get(TABLE.hashes[5])[0].links)
    assert chain.statement.owner == person(1).peer_id
    assert [custody.custodian for custody in chain.custodians] == [
        person(2).peer_id,
        person(3).peer_id,
    ]
    (collection,) = (name for name in second.collections() if name != "documents")
    sharing = second.sharing(collection)
    assert sharing is not None
    assert sharing.terms == OPEN
    _, advertised = second.vectors_to_advertise([collection])
    assert advertised == [TABLE.hashes[5]]


def test_a_clock_that_is_behind_breaks_no_chain() -> None:
    owner, taker = holdings(1), holdings(2)
    owner.own([5], "documents")
    links = owner.get(TABLE.hashes[5])[0].links
    assert keep_copy(taker, person(2), TABLE.hashes[5], links, NOW - 60)
    (custody,) = verify_chain(taker.get(TABLE.hashes[5])[0].links).custodians
    assert custody.received_at == NOW


def test_terms_decide_about_copies() -> None:
    closed, lent = holdings(1, SharingTerms()), holdings(2, SharingTerms(copy=True))
    for owner in (closed, lent):
        owner.own([5], "documents")
    taker = holdings(3)
    links = closed.get(TABLE.hashes[5])[0].links
    assert not keep_copy(taker, person(3), TABLE.hashes[5], links, NOW + 1)
    assert not taker.get(TABLE.hashes[5])
    links = lent.get(TABLE.hashes[5])[0].links
    assert keep_copy(taker, person(3), TABLE.hashes[5], links, NOW + 1)
    (stored,) = taker.get(TABLE.hashes[5])
    assert taker.sharing(stored.collection) is None  # kept, but not passed on


def test_a_chain_does_not_grow_beyond_its_limit() -> None:
    current = holdings(1)
    current.own([5], "documents")
    for hop in range(2, MAX_CHAIN_LINKS + 2):
        taker = holdings(hop)
        links = current.get(TABLE.hashes[5])[0].links
        kept = keep_copy(taker, person(hop), TABLE.hashes[5], links, NOW + hop)
        assert kept is (hop <= MAX_CHAIN_LINKS)
        current = taker


def test_another_document_or_a_broken_chain_is_not_kept() -> None:
    owner, taker = holdings(1), holdings(2)
    owner.own([5], "documents")
    (link,) = owner.get(TABLE.hashes[5])[0].links
    with pytest.raises(AttributionError, match="other-document"):
        keep_copy(taker, person(2), TABLE.hashes[6], (link,), NOW + 1)
    with pytest.raises(AttributionError, match="chain-broken"):
        keep_copy(taker, person(1), TABLE.hashes[5], (link,), NOW + 1)
    assert len(taker) == 0


def test_whose_advertisements_are_kept_follows_from_the_workload_alone() -> None:
    first = sketched_places(WORKLOAD, 8, near_share=0.5, seed=1)
    assert first.shape == (20, 8)
    assert all(len({place, *kept}) == 9 for place, kept in enumerate(first.tolist()))
    again = first.copy()
    first[:] = 0  # is nobody else's
    assert np.array_equal(sketched_places(WORKLOAD, 8, near_share=0.5, seed=1), again)
    assert not np.array_equal(sketched_places(WORKLOAD, 8, near_share=0.5, seed=2), again)
    other = synthetic_workload(peers=20, seed=4)
    assert not np.array_equal(sketched_places(other, 8, near_share=0.5, seed=1), again)
    assert np.array_equal(sketched_places(WORKLOAD, 8, near_share=0.5, seed=1), again)
