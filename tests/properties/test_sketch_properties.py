"""Whose advertisements are kept, whatever is offered in whatever order."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.model import HashPrefix, PeerId, Vector
from zerorag_p2p.routing.adverts import HeldAdvertisement
from zerorag_p2p.routing.sketches import Sketch, SketchChoice, choose_to_pass_on

OWN: Vector = np.array([1.0, 0.0], dtype=np.float32)
PLENTY = 1 << 30


def sketch(owner: int, angle: int = 0, *, size: int = 1, sequence: int = 1) -> Sketch:
    """An advertisement of one vector, at an angle in degrees to our own."""
    radians = np.radians(angle)
    return Sketch.of(
        HeldAdvertisement(
            owner=PeerId(f"peer-{owner}"),
            sequence=sequence,
            expires_at=0.0,
            vectors=np.array([[np.cos(radians), np.sin(radians)]], dtype=np.float32),
            documents=(HashPrefix("00"),),
            signed=f"{owner} {sequence}".encode().ljust(size, b"."),
        )
    )


def choose(
    limit: int, byte_limit: int = PLENTY, *, share: float = 0.5, key: bytes = b"key"
) -> SketchChoice:
    choice = SketchChoice(limit, byte_limit, near_share=share, key=key)
    choice.compare_with(OWN)
    return choice


def empty(owner: int, sequence: int) -> Sketch:
    advertisement = sketch(owner, sequence=sequence).advertisement
    return Sketch.of(
        replace(advertisement, vectors=np.zeros((0, 2), dtype=np.float32), documents=())
    )


def chosen(choice: SketchChoice) -> dict[PeerId, int]:
    return {item.owner: item.advertisement.sequence for item in choice}


#: Sketches of different owners at different angles, so that no two are equally near.
offers = st.lists(st.integers(0, 30), unique=True, max_size=25).map(
    lambda owners: [sketch(owner, 3 * owner) for owner in owners]
)
shares = st.sampled_from([0.0, 0.3, 0.5, 1.0])
keys = st.binary(min_size=16, max_size=16)


@given(offers, st.integers(0, 12), shares, keys, st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order(
    items: list[Sketch], limit: int, share: float, key: bytes, randomness: random.Random
) -> None:
    results = []
    for _ in range(2):
        choice = choose(limit, share=share, key=key)
        for item in items:
            choice.offer(item)
        results.append(set(chosen(choice)))
        randomness.shuffle(items)
    assert results[0] == results[1]
    assert len(results[0]) == min(limit, len(items))
    nearest = sorted(items, key=lambda item: -item.similarity(OWN))[: round(limit * share)]
    assert choice.near == [item.owner for item in nearest]
    assert results[0] >= {item.owner for item in nearest}


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 180), st.integers(1, 40), st.booleans()),
        max_size=30,
    ),
    st.integers(0, 6),
    st.integers(0, 120),
    shares,
    st.booleans(),
)
def test_the_limits_hold_and_verdicts_tell_what_is_held(
    events: list[tuple[int, int, int, bool]],
    limit: int,
    byte_limit: int,
    share: float,
    advertises: bool,
) -> None:
    choice = choose(limit, byte_limit, share=share)
    choice.compare_with(OWN if advertises else None)
    held: set[PeerId] = set()
    for sequence, (owner, angle, size, removed) in enumerate(events):
        item = sketch(owner, angle, size=size, sequence=sequence)
        if removed:
            if item.owner in held:
                choice.remove(item.owner)
            held.discard(item.owner)
        else:
            verdict = choice.offer(item)
            held = (held | {item.owner}) if verdict.kept else held - {item.owner}
            held -= {dropped.owner for dropped in verdict.dropped}
        assert set(chosen(choice)) == held
        assert len(choice) <= limit
        assert choice.size <= byte_limit
        assert len(choice.near) <= round(limit * share)
        assert advertises or not choice.near


@given(offers, shares, keys)
def test_everybody_is_kept_while_all_fit(items: list[Sketch], share: float, key: bytes) -> None:
    choice = choose(len(items), sum(item.size for item in items), share=share, key=key)
    assert all(choice.offer(item).kept for item in items)


def test_the_random_half_is_a_fair_sample() -> None:
    items = [sketch(owner) for owner in range(40)]
    drawn = dict.fromkeys((item.owner for item in items), 0)
    for key in range(200):
        choice = choose(10, share=0.0, key=key.to_bytes(16, "big"))
        for item in [*items, *[items[0]] * 9]:  # being offered often does not help
            choice.offer(item)
        for item in choice:
            drawn[item.owner] += 1
    # 200 draws of a quarter: 50 expected, a standard deviation of 6.1.
    assert all(25 < count < 75 for count in drawn.values())


def test_a_newer_advertisement_takes_the_place_of_an_older_one() -> None:
    choice = choose(4)
    for owner in range(4):
        choice.offer(sketch(owner))
    assert choice.offer(sketch(2, sequence=7)).kept
    assert chosen(choice)[PeerId("peer-2")] == 7
    assert len(choice) == 4


def test_one_that_takes_everything_back_keeps_its_place_and_no_stranger_does() -> None:
    choice = choose(2)
    choice.offer(sketch(1, angle=10))
    choice.offer(sketch(2, angle=20))
    assert choice.offer(empty(1, sequence=2)).kept
    assert choice.near == [PeerId("peer-1")]
    assert not choice.offer(empty(3, sequence=2)).kept
    assert chosen(choice) == {PeerId("peer-1"): 2, PeerId("peer-2"): 1}


def test_nearness_follows_what_this_peer_advertises() -> None:
    choice = choose(4)
    for owner in range(4):
        choice.offer(sketch(owner, angle=30 * owner))
    assert choice.near == [PeerId("peer-0"), PeerId("peer-1")]
    choice.compare_with(sketch(9, angle=90).direction)
    assert choice.near == [PeerId("peer-3"), PeerId("peer-2")]
    choice.compare_with(None)
    assert choice.near == []
    assert len(choice) == 4


@given(
    offers,
    st.integers(0, 8),
    st.integers(0, 400),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_what_is_passed_on_keeps_the_limits(
    items: list[Sketch], count: int, byte_limit: int, with_own: bool, randomness: random.Random
) -> None:
    own = sketch(99, size=300) if with_own else None
    passed_on = choose_to_pass_on(
        items, near=OWN, first=own, count=count, byte_limit=byte_limit, randomness=randomness
    )
    assert len(passed_on) <= count
    assert len({item.owner for item in passed_on}) == len(passed_on)
    size = sum(item.size for item in passed_on)
    assert size <= byte_limit or len(passed_on) == 1 or passed_on[0].size > byte_limit
    if own is not None and count:
        assert passed_on[0] is own


def test_near_ones_and_any_are_passed_on_in_turn() -> None:
    items = [sketch(owner, angle=owner) for owner in range(60)]
    passed_on = choose_to_pass_on(
        items, near=OWN, first=None, count=20, byte_limit=PLENTY, randomness=random.Random(1)
    )
    owners = [item.owner for item in passed_on]
    assert {f"peer-{owner}" for owner in range(9)} <= set(owners)
    assert sum(owner not in {f"peer-{number}" for number in range(12)} for owner in owners) >= 6
