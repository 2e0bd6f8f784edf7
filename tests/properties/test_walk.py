"""The walk against random networks of peers that answer, fail, or answer too late."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.model import ContentHash, HashPrefix, PeerId, hash_prefix
from zerorag_p2p.routing.evidence import Advertised, PeerReferral
from zerorag_p2p.routing.strategy import strategy_from
from zerorag_p2p.routing.walk import (
    Contact,
    Finished,
    ReturnedDocument,
    Waiting,
    Walk,
)

ME = PeerId("me")


@dataclass
class World:
    """What every peer would answer, and which ones do not."""

    documents: dict[PeerId, list[ReturnedDocument]]
    referrals: dict[PeerId, list[PeerReferral]]
    failing: set[PeerId]
    late: set[PeerId]


def document(number: int, score: float) -> ReturnedDocument:
    return ReturnedDocument(ContentHash(f"{number:016x}".ljust(64, "0")), score)


def prefix_of(number: int) -> HashPrefix:
    return hash_prefix(document(number, 0.0).content_hash)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(1, 12))
    peers = [PeerId(f"p{number}") for number in range(count)]
    # One score a document, as every holder transmits the same embedding.
    scores = draw(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8]), min_size=8, max_size=8))
    grade = st.one_of(st.none(), st.sampled_from([-0.5, 0.0, 0.4, 0.4, 0.9]))
    advertised = st.dictionaries(st.integers(0, 7), st.sampled_from([0.0, 0.05]), max_size=3).map(
        lambda items: tuple(
            Advertised(scores[number] + error, prefix_of(number), error)
            for number, error in items.items()
        )
    )
    documents, referrals = {}, {}
    for peer in peers:
        held = draw(st.lists(st.integers(0, 7), max_size=4, unique=True))
        documents[peer] = [document(number, scores[number]) for number in held]
        to = draw(st.lists(st.sampled_from([*peers, ME]), max_size=5))
        referrals[peer] = [
            PeerReferral(
                other,
                advertised=draw(advertised),
                remembered=draw(grade),
            )
            for other in to
        ]
    failing = set(draw(st.lists(st.sampled_from(peers), max_size=3)))
    late = set(draw(st.lists(st.sampled_from(peers), max_size=3)))
    return World(documents, referrals, failing, late)


@dataclass
class Run:
    walk: Walk
    contacted: list[PeerId]
    most_in_flight: int
    reason: str


def run(world: World, *, k: int, budget: int, fanout: int, seed: int, **choices: str) -> Run:
    peers = list(world.documents)
    walk = Walk(
        querier=ME,
        k=k,
        budget=budget,
        fanout=fanout,
        patience=2,
        strategy=strategy_from(RoutingConfig(**{"routing": "paper", **choices})),
        randomness=random.Random(seed),
        roster=[*peers, ME],
    )
    walk.start_from(world.referrals[peers[0]])
    order = random.Random(seed + 1)
    contacted: list[PeerId] = []
    in_flight: list[PeerId] = []
    most = 0
    while True:
        action = walk.next()
        match action:
            case Contact(peer, budget_left):
                contacted.append(peer)
                in_flight.append(peer)
                assert budget_left == budget - len(contacted)
                most = max(most, len(in_flight))
            case Waiting():
                peer = in_flight.pop(order.randrange(len(in_flight)))
                answer = world.documents[peer], world.referrals[peer]
                if peer in world.failing | world.late:
                    walk.on_failure(peer, "timed out")
                else:
                    walk.on_reply(peer, *answer)
                if peer in world.late:
                    before = walk.results(), dict(walk.frontier), list(walk.visited)
                    walk.on_reply(peer, *answer)
                    assert before == (walk.results(), dict(walk.frontier), list(walk.visited))
            case Finished(reason):
                assert not in_flight
                assert walk.next() == action
                return Run(walk, contacted, most, reason)


CASES = {
    "world": worlds(),
    "k": st.integers(1, 5),
    "budget": st.integers(1, 14),
    "fanout": st.integers(1, 4),
    "seed": st.integers(0, 1_000),
}


ALGORITHMS = st.sampled_from(
    [{}, {"stopping": "settled"}, {"routing": "complete"}, {"order": "wanted-documents"}]
)


@given(**CASES, choices=ALGORITHMS)
def test_budget_fanout_and_visits_are_kept(
    world: World, k: int, budget: int, fanout: int, seed: int, choices: dict[str, str]
) -> None:
    result = run(world, k=k, budget=budget, fanout=fanout, seed=seed, **choices)
    assert len(result.contacted) == len(set(result.contacted)) <= budget
    assert result.most_in_flight <= fanout
    assert ME not in result.contacted
    assert [step.peer for step in result.walk.steps] == result.contacted


@given(**CASES, choices=ALGORITHMS)
def test_results_are_the_true_top_k_of_what_came_back(
    world: World, k: int, budget: int, fanout: int, seed: int, choices: dict[str, str]
) -> None:
    result = run(world, k=k, budget=budget, fanout=fanout, seed=seed, **choices)
    answered = [peer for peer in result.contacted if peer not in world.failing | world.late]
    returned = {
        item.content_hash: item.score for peer in answered for item in world.documents[peer]
    }
    found = result.walk.results()
    scores = [item.score for item in found]
    assert scores == sorted(returned.values(), reverse=True)[:k]
    for item in found:
        content_hash = item.document.content_hash
        assert item.score == returned[content_hash]
        holders = {
            peer
            for peer in answered
            if content_hash in {held.content_hash for held in world.documents[peer]}
        }
        assert set(item.holders) <= holders
        assert len(item.holders) == len(set(item.holders)) > 0


@given(**CASES)
def test_a_complete_walk_finds_all_that_is_advertised(
    world: World, k: int, budget: int, fanout: int, seed: int
) -> None:
    del budget
    walk = Walk(
        querier=ME,
        k=k,
        budget=len(world.documents),
        fanout=fanout,
        patience=0,
        strategy=strategy_from(RoutingConfig(routing="complete", exploration="none")),
        randomness=random.Random(seed),
    )
    walk.start_from(
        PeerReferral(
            peer,
            tuple(
                Advertised(item.score, hash_prefix(item.content_hash), 0.01) for item in documents
            ),
        )
        for peer, documents in world.documents.items()
        if documents
    )
    silent = {peer for peer in world.failing if seed % 2}
    while not isinstance(action := walk.next(), Finished):
        assert isinstance(action, Contact | Waiting)
        if isinstance(action, Contact):
            if action.peer in silent:  # it answers that it holds nothing
                walk.on_reply(action.peer, [], [])
                continue
            useful = [
                item
                for item in world.documents[action.peer]
                if (action.above is None or item.score > action.above)
                and hash_prefix(item.content_hash) not in action.have
            ]
            walk.on_reply(action.peer, sorted(useful, key=lambda item: -item.score)[:k], [])
    held = {
        item.content_hash: item.score
        for peer, documents in world.documents.items()
        if peer not in silent
        for item in documents
    }
    assert [item.score for item in walk.results()] == sorted(held.values(), reverse=True)[:k]


def test_a_complete_walk_asks_few_peers_and_says_what_it_has() -> None:
    walk = Walk(
        querier=ME,
        k=2,
        budget=10,
        patience=0,
        strategy=strategy_from(RoutingConfig(routing="complete")),
        randomness=random.Random(0),
        preference={"a": 1.0, "b": 0.0, "c": 2.0}.__getitem__,
    )
    one, two, three = (document(number, 0.9 - number / 10) for number in range(3))
    first, second, third = (
        Advertised(item.score, hash_prefix(item.content_hash), 0.01) for item in (one, two, three)
    )
    walk.start_from(
        [
            PeerReferral(PeerId("a"), (first,)),
            PeerReferral(PeerId("b"), (first, third)),
            PeerReferral(PeerId("c"), (second, third)),
        ]
    )
    # "third" is not wanted: "first" and "second" are sure to be better.
    assert walk.next() == Contact(PeerId("b"), 9)
    walk.on_reply(PeerId("b"), [one, three], [])
    above = three.score
    have = (hash_prefix(one.content_hash), hash_prefix(three.content_hash))
    assert walk.next() == Contact(PeerId("c"), 8, have, above)
    walk.on_reply(PeerId("c"), [two], [])
    assert isinstance(walk.next(), Finished)
    assert [item.document for item in walk.results()] == [one, two]


def test_who_claims_little_and_returns_nothing_hides_no_document() -> None:
    walk = Walk(
        querier=ME,
        k=1,
        budget=10,
        patience=0,
        strategy=strategy_from(RoutingConfig(routing="complete")),
        randomness=random.Random(0),
    )
    good, poor = document(1, 0.9), document(2, 0.3)
    wanted = hash_prefix(good.content_hash)
    walk.start_from(
        [
            PeerReferral(PeerId("liar"), (Advertised(0.95, hash_prefix(poor.content_hash), 0.01),)),
            PeerReferral(PeerId("liar"), (Advertised(0.31, wanted, 1.0),)),
            PeerReferral(PeerId("owner"), (Advertised(0.9, wanted, 0.01),)),
        ]
    )
    assert walk.next() == Contact(PeerId("liar"), 9)
    walk.on_reply(PeerId("liar"), [poor], [])
    action = walk.next()
    assert isinstance(action, Contact)
    assert action.peer == "owner"
    walk.on_reply(PeerId("owner"), [good], [])
    assert isinstance(walk.next(), Finished)
    assert [item.document for item in walk.results()] == [good]


@given(**CASES)
def test_exploration_reaches_everybody_the_budget_allows(
    world: World, k: int, budget: int, fanout: int, seed: int
) -> None:
    result = run(world, k=k, budget=budget, fanout=fanout, seed=seed)
    assert len(result.contacted) == min(budget, len(world.documents))


@given(**CASES)
def test_the_same_seed_gives_the_same_walk(
    world: World, k: int, budget: int, fanout: int, seed: int
) -> None:
    first, second = (run(world, k=k, budget=budget, fanout=fanout, seed=seed) for _ in range(2))
    assert first.contacted == second.contacted
    assert first.walk.steps == second.walk.steps


@given(**CASES)
def test_the_new_neighbour_returned_the_best_document(
    world: World, k: int, budget: int, fanout: int, seed: int
) -> None:
    walk = run(world, k=k, budget=budget, fanout=fanout, seed=seed, exploration="none").walk
    neighbor = walk.new_neighbor()
    results = walk.results()
    if results:
        assert neighbor == results[0].holders[0]
    else:
        assert neighbor == walk.best_referral()
    assert neighbor != ME


def test_the_best_evidence_goes_first_and_ties_to_the_earliest() -> None:
    walk = Walk(
        querier=ME,
        k=1,
        budget=10,
        strategy=strategy_from(RoutingConfig(routing="paper")),
        randomness=random.Random(0),
    )
    prefix = HashPrefix("0" * 16)
    walk.start_from(
        [
            PeerReferral(PeerId("a"), (Advertised(0.5, prefix),), 0.1),
            PeerReferral(PeerId("b"), (), 0.9),
            PeerReferral(PeerId("c"), (Advertised(0.5, prefix),)),
            PeerReferral(PeerId("d")),
        ]
    )
    order = []
    while isinstance(action := walk.next(), Contact):
        order.append(action.peer)
        walk.on_reply(action.peer, [], [])
    assert order == ["b", "a", "c", "d"]
    reasons = [step.reason for step in walk.steps]
    assert reasons == ["query memory", "advertisement", "advertisement", "exploration"]


def test_a_better_referral_moves_a_candidate_up() -> None:
    walk = Walk(
        querier=ME,
        k=1,
        budget=10,
        strategy=strategy_from(RoutingConfig(routing="paper")),
        randomness=random.Random(0),
    )
    walk.start_from(
        [
            PeerReferral(PeerId("a"), remembered=0.9),
            PeerReferral(PeerId("b"), remembered=0.5),
            PeerReferral(PeerId("c"), remembered=0.4),
        ]
    )
    assert walk.next() == Contact(PeerId("a"), 9)
    walk.on_reply(
        PeerId("a"),
        [],
        [PeerReferral(PeerId("c"), remembered=0.6), PeerReferral(PeerId("b"), remembered=0.1)],
    )
    assert walk.next() == Contact(PeerId("c"), 8)
    walk.on_failure(PeerId("c"), "timed out")
    assert walk.next() == Contact(PeerId("b"), 7)


def test_settled_waits_for_an_advertisement_that_promises_more() -> None:
    walk = Walk(
        querier=ME,
        k=1,
        budget=10,
        patience=1,
        strategy=strategy_from(RoutingConfig(routing="paper", stopping="settled")),
        randomness=random.Random(0),
    )
    held, promised = document(1, 0.5), HashPrefix("f" * 16)
    walk.start_from([PeerReferral(PeerId(name), remembered=0.9) for name in "abcd"])
    assert isinstance(walk.next(), Contact)
    walk.on_reply(PeerId("a"), [held], [PeerReferral(PeerId("x"), (Advertised(0.6, promised),))])
    assert isinstance(walk.next(), Contact)
    walk.on_reply(PeerId("b"), [], [])
    action = walk.next()
    assert isinstance(action, Contact)
    walk.on_reply(action.peer, [], [])
    action = walk.next()
    assert isinstance(action, Contact)
    walk.on_reply(action.peer, [], [])
    assert walk.next() == Contact(PeerId("x"), 5)
    walk.on_reply(PeerId("x"), [], [])
    assert isinstance(walk.next(), Finished)


def test_stop_gives_up_what_is_in_flight() -> None:
    walk = Walk(
        querier=ME,
        k=1,
        budget=10,
        fanout=2,
        strategy=strategy_from(RoutingConfig(routing="paper")),
        randomness=random.Random(0),
    )
    walk.start_from([PeerReferral(PeerId(name), remembered=0.9) for name in "ab"])
    walk.next()
    walk.next()
    walk.stop("deadline reached")
    assert walk.in_flight == 0
    assert walk.next() == Finished("deadline reached")
    assert {step.outcome for step in walk.steps} == {"deadline reached"}
