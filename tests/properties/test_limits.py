from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.config import MAX_RETRY_AFTER_S, NO_LIMITS, LimitsConfig
from zerorag_p2p.model import ContentHash, PeerId, RefusalCode, Vector
from zerorag_p2p.policy.limits import (
    REMEMBERED_QUERIES,
    REMEMBERED_RESULTS,
    Kind,
    Limits,
    TokenBucket,
)

ANN, BOB = PeerId("ann"), PeerId("bob")

steps = st.lists(st.floats(0, 30, allow_nan=False), max_size=80)


def vector(seed: int, dimension: int = 16) -> Vector:
    row = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    unit: Vector = row / np.linalg.norm(row)
    return unit


def document(number: int) -> ContentHash:
    return ContentHash(f"{number:016x}".ljust(64, "0"))


@given(steps, st.integers(1, 50))
def test_no_window_lets_more_in_than_the_bucket_and_what_comes_back(
    pauses: list[float], per_minute: int
) -> None:
    limits = Limits(LimitsConfig(requests_per_minute=per_minute))
    now, admitted = 0.0, []
    for pause in pauses:
        now += pause
        if limits.admit(ANN, Kind.QUERY, 0, now) is None:
            admitted.append(now)
    for first, start in enumerate(admitted):
        for last in range(first, len(admitted)):
            allowed = per_minute + (admitted[last] - start) * per_minute / 60
            assert last - first + 1 <= allowed + 0.01


@given(steps, st.integers(1, 50))
def test_who_waits_as_long_as_it_was_told_is_let_in(pauses: list[float], per_minute: int) -> None:
    limits = Limits(LimitsConfig(requests_per_minute=per_minute, bytes_per_minute=1_000))
    now = 0.0
    for pause in pauses:
        now += pause
        refusal = limits.admit(ANN, Kind.FETCH, 70, now)
        if refusal is None:
            continue
        assert refusal.code is RefusalCode.RATE_LIMITED
        assert refusal.retry_after_s is not None
        assert 0 < refusal.retry_after_s <= MAX_RETRY_AFTER_S
        assert limits.was_told_to_wait(ANN, Kind.FETCH, now)
        assert not limits.was_told_to_wait(ANN, Kind.QUERY, now)
        assert not limits.was_told_to_wait(BOB, Kind.FETCH, now)
        now += refusal.retry_after_s
        assert not limits.was_told_to_wait(ANN, Kind.FETCH, now)
        assert limits.admit(ANN, Kind.FETCH, 0, now) is None


@given(st.integers(1, 500))
def test_a_flood_uses_up_nothing_of_another_peer(requests: int) -> None:
    limits = Limits(LimitsConfig(requests_per_minute=10))
    refused = sum(limits.admit(ANN, Kind.QUERY, 9, 0.0) is not None for _ in range(requests))
    assert refused == max(0, requests - 10)
    assert limits.admit(BOB, Kind.QUERY, 9, 0.0) is None


def test_large_answers_are_paid_for_before_the_next_request() -> None:
    limits = Limits(LimitsConfig(bytes_per_minute=600))
    assert limits.admit(ANN, Kind.FETCH, 0, 0.0) is None
    limits.note_reply(ANN, 1_199, 0.0)
    refusal = limits.admit(ANN, Kind.FETCH, 0, 0.0)
    assert refusal is not None
    assert refusal.retry_after_s == 60
    assert limits.admit(ANN, Kind.FETCH, 0, 60.0) is None


def test_gossip_has_an_account_of_its_own() -> None:
    limits = Limits(LimitsConfig(requests_per_minute=1, gossip_per_minute=1))
    for kind in (Kind.QUERY, Kind.GOSSIP):
        assert limits.admit(ANN, kind, 0, 0.0) is None
        assert limits.admit(ANN, kind, 0, 0.0) is not None
    assert limits.admit(ANN, Kind.ADVERTISE, 0, 0.0) is not None


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 8))
def test_only_repetition_locks_queries_out(seeds: list[int], allowed: int) -> None:
    limits = Limits(LimitsConfig(repeated_queries=allowed))
    asked: dict[int, int] = {}
    for number, seed in enumerate(seeds):
        asked[seed] = asked.get(seed, 0) + 1
        refusal = limits.check_query(ANN, vector(seed), float(number) / 1_000)
        assert (refusal is not None) == (asked[seed] > allowed)
        if refusal is not None:
            assert limits.was_told_to_wait(ANN, Kind.QUERY, 1.0)
            assert limits.admit(ANN, Kind.QUERY, 0, 1.0) is not None
            assert limits.admit(ANN, Kind.FETCH, 0, 1.0) is None
            assert limits.admit(BOB, Kind.QUERY, 0, 1.0) is None
            assert limits.admit(ANN, Kind.QUERY, 0, 700.0) is None
            return


def test_small_changes_count_as_repetition_and_other_questions_do_not() -> None:
    limits = Limits(LimitsConfig(repeated_queries=3))
    base, noise = vector(1, 768), vector(2, 768)
    near: Vector = base + np.float32(0.1) * noise
    near /= np.linalg.norm(near)
    other: Vector = base + np.float32(0.5) * noise
    other /= np.linalg.norm(other)
    assert float(base @ near) > 0.99 > float(base @ other)
    for embedding in (base, near, near):
        assert limits.check_query(ANN, embedding, 0.0) is None
    assert limits.check_query(ANN, other, 0.0) is None
    refusal = limits.check_query(ANN, base, 0.0)
    assert refusal is not None
    assert refusal.retry_after_s == 600
    assert "near-identical" in refusal.reason
    assert [(peer, kind) for peer, kind, _ in limits.lock_outs(1.0)] == [(ANN, Kind.QUERY)]
    assert limits.lock_outs(601.0) == []


def test_repetition_is_found_among_as_many_other_queries_as_are_remembered() -> None:
    limits = Limits(LimitsConfig(repeated_queries=2))
    for _ in range(2):
        for seed in range(REMEMBERED_QUERIES):
            assert limits.check_query(ANN, vector(seed, 64), 0.0) is None
    assert limits.check_query(ANN, vector(0, 64), 0.0) is not None


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60))
def test_only_documents_that_were_not_returned_count_as_probing(
    asked: list[tuple[int, bool]],
) -> None:
    limits = Limits(LimitsConfig(unreturned_fetches=10))
    returned: set[int] = set()
    guessed = 0
    for number, first_returned in asked:
        if first_returned:
            limits.note_results(ANN, [document(number)], 0.0)
            returned.add(number)
        guessed += number not in returned
        refusal = limits.check_fetch(ANN, [document(number)], 0.0)
        assert (refusal is not None) == (guessed > 10)
        if refusal is not None:
            assert limits.admit(ANN, Kind.FETCH, 0, 1.0) is not None
            assert limits.admit(ANN, Kind.QUERY, 0, 1.0) is None
            return


@given(
    st.lists(
        st.tuples(st.sampled_from([ANN, BOB]), st.integers(0, 8), st.floats(0, 400)), max_size=40
    )
)
def test_no_question_is_kept_for_longer_than_a_repetition_counts(
    asked: list[tuple[PeerId, int, float]],
) -> None:
    limits = Limits(LimitsConfig(repeated_queries=100, window_s=600))
    now, last = 0.0, dict[tuple[PeerId, int], float]()
    for peer, seed, pause in asked:
        now += pause
        limits.check_query(peer, vector(seed), now)
        last[peer, seed] = now
        lately = [asker for (asker, _), at in last.items() if now - at < 600]
        assert kept(limits, peer) == lately.count(peer)
        limits.forget_expired(now)
        assert kept(limits, ANN, BOB) == len(lately)


def kept(limits: Limits, *peers: PeerId) -> int:
    """How many embeddings there are of questions of these peers."""
    accounts = (limits._accounts[peer] for peer in peers if peer in limits._accounts)
    return sum(len(asked) for account in accounts for asked in account.asked.values())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400)), max_size=60), st.integers(1, 4))
def test_to_forget_what_has_expired_changes_no_verdict(
    asked: list[tuple[int, int]], allowed: int
) -> None:
    limits = Limits(LimitsConfig(repeated_queries=allowed, window_s=600, lockout_s=0))
    buckets = [TokenBucket(allowed, allowed / 600, 0.0) for _ in range(4)]
    now = 0.0
    for seed, pause in asked:
        now += pause
        limits.forget_expired(now)
        refused = bool(buckets[seed].wait_s(1, now))
        if not refused:
            buckets[seed].take(1, now)
        assert (limits.check_query(ANN, vector(seed), now) is not None) == refused


def test_the_questions_of_a_peer_that_never_returns_go_as_well() -> None:
    limits = Limits(LimitsConfig(window_s=600))
    for seed, dimension in ((1, 16), (2, 16), (3, 32)):
        limits.check_query(ANN, vector(seed, dimension), 0.0)
    limits.check_query(BOB, vector(4), 300.0)
    limits.forget_expired(599.0)
    assert kept(limits, ANN) == 3
    limits.forget_expired(600.0)
    assert limits._accounts[ANN].asked == {}
    assert kept(limits, BOB) == 1


def test_what_is_remembered_of_a_peer_is_bounded() -> None:
    limits = Limits(LimitsConfig())
    limits.note_results(ANN, [document(number) for number in range(5_000)], 0.0)
    for seed in range(200):
        limits.check_query(ANN, vector(seed), 0.0)
    account = limits._accounts[ANN]
    assert len(account.returned) == REMEMBERED_RESULTS
    assert [len(asked) for asked in account.asked.values()] == [REMEMBERED_QUERIES]


def test_the_number_of_peers_is_bounded_and_a_lock_out_outlives_quiet_peers() -> None:
    limits = Limits(LimitsConfig(peers=4, repeated_queries=1))
    for _ in range(2):
        limits.check_query(ANN, vector(1), 0.0)
    for number in range(20):
        limits.admit(PeerId(f"peer {number}"), Kind.QUERY, 0, 0.0)
        assert len(limits) <= 4
    assert limits.admit(ANN, Kind.QUERY, 0, 0.0) is not None


@given(steps)
def test_without_limits_nothing_is_refused(pauses: list[float]) -> None:
    limits = Limits(NO_LIMITS)
    now = 0.0
    for pause in pauses:
        now += pause
        assert limits.admit(ANN, Kind.QUERY, 1 << 30, now) is None
        assert limits.check_query(ANN, vector(1), now) is None
        assert limits.check_fetch(ANN, [document(1)], now) is None
        limits.note_reply(ANN, 1 << 30, now)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_clock_that_goes_back_adds_nothing(back_to: float, later: float) -> None:
    bucket = TokenBucket(capacity=10, per_second=1, at=0.0)
    bucket.take(10, 0.0)
    bucket.wait_s(1, min(back_to, 0.0))
    bucket.wait_s(1, later)
    assert bucket.tokens <= min(10.0, later) + 1e-6
