"""A peer's answers and queries, with documents held in a list."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.model import (
    ContentHash,
    HashPrefix,
    PeerId,
    Purpose,
    RefusalCode,
    ScoredDocument,
    SharingTerms,
    Vector,
    View,
    hash_prefix,
)
from zerorag_p2p.peer import DocumentFacts, Peer, Requester, read_result
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.routing.adverts import HeldAdvertisement
from zerorag_p2p.routing.walk import Contact, Finished
from zerorag_p2p.wire.query import QueryRequest, QueryResult
from zerorag_p2p.wire.refusal import Refusal

FINGERPRINT = "ab" * 32
NOW = 1_000_000.0
ALICE, BOB, CAROL = (PeerId(name) for name in ("alice", "bob", "carol"))


def unit(*components: float) -> Vector:
    vector = np.array(components, dtype=np.float32)
    return vector / np.linalg.norm(vector)


@dataclass(frozen=True)
class Facts:
    content_hash: ContentHash
    collection: str
    terms: SharingTerms | None = None


@dataclass
class ListCorpus:
    documents: list[tuple[str, Vector]] = field(default_factory=list)
    shared: dict[str, Sharing] = field(default_factory=dict)

    def sharing(self, collection: str) -> Sharing | None:
        return self.shared.get(collection)

    def collections(self) -> Sequence[str]:
        return sorted({collection for collection, _ in self.documents})

    def search(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[DocumentFacts], bool],
    ) -> Sequence[ScoredDocument]:
        found = [
            ScoredDocument(content_hash(number), float(vector @ embedding), vector, (b"link",))
            for number, (collection, vector) in enumerate(self.documents)
            if admit_collection(collection) and admit(Facts(content_hash(number), collection))
        ]
        return sorted(found, key=lambda item: -item.score)[:k]

    def count(
        self,
        embedding: Vector,
        above: float,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[DocumentFacts], bool],
    ) -> int:
        everything = len(self.documents) or 1
        found = self.search(embedding, everything, admit_collection=admit_collection, admit=admit)
        return sum(item.score > above for item in found)

    def vectors_to_advertise(
        self, collections: Sequence[str], *, admit: Callable[[DocumentFacts], bool]
    ) -> tuple[Vector, Sequence[ContentHash]]:
        chosen = [
            (vector, content_hash(number))
            for number, (collection, vector) in enumerate(self.documents)
            if collection in collections and admit(Facts(content_hash(number), collection))
        ]
        vectors = np.array([vector for vector, _ in chosen], dtype=np.float32).reshape(-1, 3)
        return vectors, [item for _, item in chosen]


def content_hash(number: int) -> ContentHash:
    return ContentHash(f"{number:x}".ljust(64, "0"))


def make_peer(corpus: ListCorpus | None = None, name: PeerId = ALICE, **settings: object) -> Peer:
    return Peer(
        name,
        corpus or ListCorpus(),
        RoutingConfig(**{"routing": "paper", **settings}),  # type: ignore[arg-type]
        fingerprint=FINGERPRINT,
        dimension=3,
        record_of=lambda peer: b"record of " + peer.encode(),
    )


def request(embedding: Vector, **changes: object) -> QueryRequest:
    values: dict[str, object] = {
        "embedding": embedding,
        "fingerprint": FINGERPRINT,
        "k": 2,
        "budget_left": 3,
        "deadline_ms": 1_000,
        "purpose": Purpose.TREAT,
        "user": "",
        "audit": "ref",
        "view": View.WHOLE,
        "remember_until": int(NOW) + 60,
    }
    return QueryRequest(**(values | changes))  # type: ignore[arg-type]


def ask(peer: Peer, asked: QueryRequest, requester: PeerId = BOB, now: float = NOW) -> QueryResult:
    answer = peer.answer(asked, Requester(requester, "Northgate"), now)
    assert isinstance(answer, QueryResult)
    return answer


def advertise(peer: Peer, owner: PeerId, *vectors: Vector) -> None:
    peer.add_neighbor(owner, NOW)
    prefixes = tuple(HashPrefix(f"{number:016x}") for number in range(len(vectors)))
    assert peer.on_advertisement(
        HeldAdvertisement(owner, 1, NOW + 3_600, np.stack(vectors), prefixes)
    )


def test_an_unshared_collection_is_never_ranked() -> None:
    corpus = ListCorpus(
        [("open", unit(0, 1, 0)), ("closed", unit(1, 0, 0)), ("open", unit(1, 1, 0))],
        {"open": Sharing()},
    )
    answer = ask(make_peer(corpus), request(unit(1, 0, 0)))
    assert [item.content_hash for item in answer.documents] == [content_hash(2), content_hash(0)]


def test_sharing_rules_apply_before_the_cut_to_k() -> None:
    corpus = ListCorpus(
        [("research", unit(1, 0, 0)), ("open", unit(0, 1, 0))],
        {"open": Sharing(), "research": Sharing(purposes=(Purpose.HRESCH,))},
    )
    peer = make_peer(corpus)
    treat = ask(peer, request(unit(1, 0, 0), k=1))
    research = ask(peer, request(unit(1, 0, 0), k=1, purpose=Purpose.HRESCH))
    assert [item.content_hash for item in treat.documents] == [content_hash(1)]
    assert [item.content_hash for item in research.documents] == [content_hash(0)]


def test_documents_the_querier_has_are_left_out() -> None:
    corpus = ListCorpus([("c", unit(1, 0, 0)), ("c", unit(0, 1, 0))], {"c": Sharing()})
    answer = ask(make_peer(corpus), request(unit(1, 0, 0), have=(hash_prefix(content_hash(0)),)))
    assert [item.content_hash for item in answer.documents] == [content_hash(1)]


def test_another_embedding_model_is_refused_with_both_names() -> None:
    answer = make_peer().answer(
        request(unit(1, 0, 0), fingerprint="cd" * 32), Requester(BOB, "Northgate"), NOW
    )
    assert isinstance(answer, Refusal)
    assert answer.code is RefusalCode.NO_COMMON_EMBEDDING
    assert "cdcdcdcdcdcd" in answer.reason
    assert "abababababab" in answer.reason


def test_referrals_keep_the_two_kinds_of_evidence_apart() -> None:
    peer = make_peer()
    advertise(peer, CAROL, unit(1, 0, 0), unit(0, 1, 0))
    ask(peer, request(unit(0, 1, 0)), requester=CAROL)
    ask(peer, request(unit(0, 0, 1)), requester=ALICE)
    answer = ask(peer, request(unit(1, 1, 0)))
    (referral,) = [item for item in answer.referrals if item.peer == CAROL]
    assert referral.record == b"record of carol"
    [advertised] = referral.advertised
    assert advertised.score == pytest.approx(0.7071, abs=1e-4)
    assert referral.remembered == pytest.approx(0.7071, abs=1e-4)


def test_nobody_is_referred_to_itself_or_to_us() -> None:
    peer = make_peer()
    for querier in (BOB, ALICE):
        ask(peer, request(unit(1, 0, 0)), requester=querier)
    assert not ask(peer, request(unit(1, 0, 0)), requester=BOB).referrals


def test_at_most_r_referrals_the_best_first() -> None:
    peer = make_peer(referral_limit=2)
    for number in range(5):
        advertise(peer, PeerId(f"n{number}"), unit(1, number, 0))
    answer = ask(peer, request(unit(1, 0, 0)))
    assert [item.peer for item in answer.referrals] == ["n0", "n1"]


def advertised_by(answer: QueryResult) -> dict[PeerId, list[HashPrefix | None]]:
    return {item.peer: [one.document for one in item.advertised] for item in answer.referrals}


def test_complete_refers_to_few_peers_that_have_the_best_documents() -> None:
    peer = make_peer(routing="complete", referral_limit=3)
    x, y, z = unit(1, 0, 0), unit(1, 0.2, 0), unit(1, 0.4, 0)
    advertise(peer, CAROL, x)
    advertise(peer, PeerId("dave"), x, y)
    advertise(peer, PeerId("erin"), unit(0, 0, 1), unit(0, 1, 1), z, unit(1, 0.6, 0))
    first, second, third = (HashPrefix(f"{number:016x}") for number in range(3))
    answer = ask(peer, request(unit(1, 0, 0)))
    assert advertised_by(answer) == {"dave": [first, second], "erin": [third]}
    # The prefixes of two documents are the same as those of erin's first two.
    told = ask(peer, request(unit(1, 0, 0), have=(first, second), above=0.9))
    assert advertised_by(told) == {"erin": [third]}
    assert not ask(peer, request(unit(1, 0, 0), have=(first, second), above=0.95)).referrals


def test_complete_returns_only_what_is_of_use_and_remembers_nobody() -> None:
    corpus = ListCorpus(
        [("open", unit(1, 0, 0)), ("open", unit(1, 1, 0)), ("open", unit(0, 1, 0))],
        {"open": Sharing()},
    )
    peer = make_peer(corpus, routing="complete")
    asked = request(unit(1, 0, 0), k=3, above=0.5, have=(hash_prefix(content_hash(0)),))
    answer = ask(peer, asked)
    assert [item.content_hash for item in answer.documents] == [content_hash(1)]
    assert len(peer.memory) == 0


def test_a_sketch_is_kept_apart_from_being_a_neighbour() -> None:
    peer = make_peer(routing="complete", neighbor_limit=1)
    sketch = HeldAdvertisement(
        CAROL, 1, NOW + 60, np.stack([unit(1, 0, 0)]), (HashPrefix("a" * 16),)
    )
    assert peer.keep_sketch(sketch)
    assert not peer.keep_sketch(sketch)
    assert list(peer.sketches) == [CAROL]
    peer.add_neighbor(CAROL, NOW)
    assert peer.add_neighbor(BOB, NOW) == CAROL
    assert CAROL in peer.advertisements
    peer.drop_sketch(CAROL)
    assert CAROL not in peer.advertisements
    peer.keep_sketch(sketch)
    peer.on_departed(CAROL)
    assert not peer.sketches
    assert CAROL not in peer.advertisements


def test_a_query_is_remembered_only_as_long_as_it_may_be() -> None:
    peer = make_peer(memory_lifetime_s=1_000.0)
    ask(peer, request(unit(1, 0, 0), remember_until=None), requester=BOB)
    assert len(peer.memory) == 0
    ask(peer, request(unit(1, 0, 0), remember_until=int(NOW) + 60), requester=BOB)
    assert [item.peer for item in ask(peer, request(unit(1, 0, 0)), CAROL).referrals] == [BOB]
    later = NOW + 61
    assert not ask(peer, request(unit(1, 0, 0)), PeerId("dave"), now=later).referrals


def test_own_state_first_starts_from_the_best_evidence() -> None:
    peer = make_peer()
    advertise(peer, BOB, unit(0, 1, 0))
    advertise(peer, CAROL, unit(1, 0, 0))
    walk = peer.begin_query(unit(1, 0.1, 0), now=NOW, randomness=random.Random(0))
    assert walk.next() == Contact(CAROL, 49)


def test_the_paper_start_takes_neighbours_unscored_the_oldest_first() -> None:
    peer = make_peer(start="paper", exploration="none")
    for number in range(8):
        advertise(peer, PeerId(f"n{number}"), unit(1, 8 - number, 0))
    walk = peer.begin_query(unit(1, 0, 0), now=NOW, randomness=random.Random(0))
    order = []
    while isinstance(action := walk.next(), Contact):
        order.append(action.peer)
        walk.on_failure(action.peer, "timed out")
    assert isinstance(action, Finished)
    assert order == [neighbor.peer for neighbor in peer.neighbors]


def test_a_query_brings_at_most_one_new_neighbour() -> None:
    corpus = ListCorpus([("c", unit(1, 0, 0))], {"c": Sharing()})
    bob = make_peer(corpus, name=BOB)
    peer = make_peer()
    query = unit(1, 0, 0)
    walk = peer.begin_query(query, now=NOW, randomness=random.Random(0), roster=[ALICE, BOB, CAROL])
    while isinstance(action := walk.next(), Contact):
        if action.peer == BOB:
            walk.on_reply(BOB, *read_result(query, ask(bob, request(query), requester=ALICE)))
        else:
            walk.on_failure(action.peer, "unreachable")
    assert peer.finish_query(walk, NOW) == BOB
    peer.add_neighbor(BOB, NOW)
    assert peer.finish_query(walk, NOW) is None


def test_an_evicted_neighbour_takes_its_advertisement_along() -> None:
    peer = make_peer(neighbor_limit=1)
    advertise(peer, BOB, unit(1, 0, 0))
    assert peer.add_neighbor(CAROL, NOW) == BOB
    assert BOB not in peer.advertisements


def test_strangers_cannot_advertise_to_us() -> None:
    peer = make_peer()
    stranger = HeldAdvertisement(BOB, 1, NOW + 60, np.stack([unit(1, 0, 0)]), (None,))
    assert not peer.on_advertisement(stranger)


def test_a_departed_peer_is_forgotten_everywhere() -> None:
    peer = make_peer()
    advertise(peer, BOB, unit(1, 0, 0))
    ask(peer, request(unit(1, 0, 0)), requester=BOB)
    peer.on_departed(BOB)
    assert BOB not in peer.neighbors
    assert BOB not in peer.advertisements
    assert len(peer.memory) == 0
    assert not ask(peer, request(unit(1, 0, 0)), requester=CAROL).referrals


def test_only_what_every_member_may_know_is_advertised() -> None:
    corpus = ListCorpus(
        [(name, unit(1, 0, 0)) for name in ("all", "some", "hidden", "unshared")],
        {"all": Sharing(), "some": Sharing(members=(BOB,)), "hidden": Sharing(advertise=False)},
    )
    peer = make_peer(corpus)
    assert peer.advertised_collections(NOW) == ("all",)
    own = peer.advertisement(NOW, np.random.default_rng(0))
    assert own.entries == (hash_prefix(content_hash(0)),)


def test_a_large_library_is_advertised_as_centroids() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    corpus = ListCorpus([("c", row) for row in rows], {"c": Sharing()})
    generator = np.random.default_rng(0)
    own = make_peer(corpus, advertisement_limit=5).advertisement(NOW, generator)
    assert own.entries == (0, 1, 2, 3, 4)
    assert own.vectors.shape == (5, 3)
    nothing = make_peer(corpus, advertisement_limit=0).advertisement(NOW, generator)
    assert nothing.entries == ()
