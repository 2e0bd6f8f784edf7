"""Memory, advertisements and neighbours against plain lists and dicts."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from zerorag_p2p.model import HashPrefix, PeerId, Vector
from zerorag_p2p.routing.adverts import AdvertisementStore, HeldAdvertisement
from zerorag_p2p.routing.memory import RoutedQueryMemory
from zerorag_p2p.routing.neighbors import NeighborView
from zerorag_p2p.routing.peers import PeerTable

DIMENSION = 4
PEERS = [PeerId(f"p{number}") for number in range(6)]
peers = st.sampled_from(PEERS)


def vectors(seed: int, count: int) -> Vector:
    rows = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class RoutingState(RuleBasedStateMachine):
    """Memory and advertisements share a peer table, as they do in a peer."""

    @initialize(capacity=st.integers(0, 40))
    def start(self, capacity: int) -> None:
        self.capacity = capacity
        self.table = PeerTable()
        self.memory = RoutedQueryMemory(capacity, DIMENSION, self.table)
        self.adverts = AdvertisementStore(DIMENSION, self.table)
        self.remembered: list[tuple[PeerId, Vector, float]] = []
        self.advertised: OrderedDict[PeerId, HeldAdvertisement] = OrderedDict()
        self.now = 0.0

    @rule(peer=peers, seed=st.integers(0, 1_000), lifetime=st.integers(1, 50))
    def remember(self, peer: PeerId, seed: int, lifetime: int) -> None:
        embedding = vectors(seed, 1)[0]
        self.memory.add(peer, embedding, expires_at=self.now + lifetime)
        self.remembered.append((peer, embedding, self.now + lifetime))
        self.remembered = self.remembered[max(0, len(self.remembered) - self.capacity) :]

    @rule(
        peer=peers, seed=st.integers(0, 1_000), count=st.integers(0, 5), sequence=st.integers(0, 9)
    )
    def advertise(self, peer: PeerId, seed: int, count: int, sequence: int) -> None:
        rows = vectors(seed, count)
        prefixes = tuple(HashPrefix(f"{seed + row:016x}") for row in range(count))
        advertisement = HeldAdvertisement(peer, sequence, self.now + seed % 50 + 1, rows, prefixes)
        held = self.advertised.get(peer)
        newer = held is None or held.sequence < sequence
        assert self.adverts.put(advertisement) is newer
        if newer:
            self.advertised.pop(peer, None)
            self.advertised[peer] = advertisement

    @rule(peer=peers)
    def depart(self, peer: PeerId) -> None:
        self.memory.remove(peer)
        self.adverts.remove(peer)
        self.remembered = [item for item in self.remembered if item[0] != peer]
        self.advertised.pop(peer, None)

    @rule(seconds=st.integers(0, 30))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.memory.expire(self.now)
        self.adverts.expire(self.now)
        self.remembered = [item for item in self.remembered if item[2] > self.now]
        for peer in [p for p, held in self.advertised.items() if held.expires_at <= self.now]:
            del self.advertised[peer]

    @invariant()
    def holds_the_same_in_the_same_order(self) -> None:
        entries = list(self.memory.entries())
        assert [(peer, time) for peer, _, time in entries] == [
            (peer, time) for peer, _, time in self.remembered
        ]
        for (_, actual, _), (_, expected, _) in zip(entries, self.remembered, strict=True):
            assert np.array_equal(actual, expected)
        assert [held.owner for held in self.adverts] == list(self.advertised)
        assert len(self.adverts) == sum(len(held.documents) for held in self.advertised.values())

    @invariant()
    def scores_are_the_best_of_each_peer(self) -> None:
        query = vectors(7, 1)[0]
        count = len(self.table)
        remembered = np.full(count, -np.inf, dtype=np.float32)
        advertised = np.full(count, -np.inf, dtype=np.float32)
        self.memory.score_peers(query, remembered)
        similarities = self.adverts.score_peers(query, advertised)
        for peer in PEERS:
            number = self.table.number(peer)
            asked = [float(row @ query) for who, row, _ in self.remembered if who == peer]
            held = self.advertised.get(peer)
            shown = [] if held is None else [float(row @ query) for row in held.vectors]
            if number is None:
                assert not asked
                assert not shown
                continue
            assert np.isclose(remembered[number], max(asked, default=-np.inf), atol=1e-6)
            assert np.isclose(advertised[number], max(shown, default=-np.inf), atol=1e-6)
            if shown:
                best = self.adverts.best_of(peer, similarities)
                assert held is not None
                assert best.document == held.documents[int(np.argmax(shown))]

    @invariant()
    def documents_come_best_first_each_with_all_who_advertise_it(self) -> None:
        query = vectors(7, 1)[0]
        shown = {
            (document, peer): float(row @ query)
            for peer, held in self.advertised.items()
            for document, row in zip(held.documents, held.vectors, strict=True)
            if document is not None
        }
        owners: dict[HashPrefix, set[PeerId]] = {}
        for document, peer in shown:
            owners.setdefault(document, set()).add(peer)
        have = {HashPrefix(f"{7:016x}")}
        for limit, above, excluded in ((3, -np.inf, ()), (60, 0.2, ("p0",))):
            found = self.adverts.best_documents(
                query,
                limit,
                clusters=0,
                margin=0.0,
                have=have,
                above=above,
                excluded=excluded,
            )
            wanted = {
                document: {peer for peer in peers if peer not in excluded}
                for document, peers in owners.items()
                if document not in have
            }
            scores = {
                document: max(shown[document, peer] for peer in peers)
                for document, peers in wanted.items()
                if peers
            }
            promising = sorted((score for score in scores.values() if score > above), reverse=True)
            assert np.allclose([item.advertised.score for item in found], promising[:limit])
            for item in found:
                assert item.advertised.document is not None
                assert item.advertised.error < 1e-3
                assert set(item.owners) <= wanted[item.advertised.document]


TestRoutingState = RoutingState.TestCase


@given(st.integers(1, 5), st.lists(st.tuples(st.booleans(), peers), max_size=40))
def test_neighbours_are_a_fifo_in_which_known_ones_keep_their_place(
    capacity: int, changes: list[tuple[bool, PeerId]]
) -> None:
    view = NeighborView(capacity)
    expected: list[PeerId] = []
    for added, peer in changes:
        if added:
            evicted = view.add(peer, now=0.0)
            if peer not in expected:
                expected.append(peer)
                assert evicted == (expected.pop(0) if len(expected) > capacity else None)
        else:
            assert view.remove(peer) is (peer in expected)
            expected = [item for item in expected if item != peer]
        assert [neighbor.peer for neighbor in view] == expected
        assert len(view) <= capacity


def test_numbers_of_peers_are_reused() -> None:
    table = PeerTable()
    for round_ in range(100):
        number = table.acquire(PeerId(f"r{round_}"), 2)
        table.release(number)
        table.release(number)
    assert len(table) == 1
