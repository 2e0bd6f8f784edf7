"""Lookups in Kademlia's network."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerorag_p2p.baselines.kademlia import BUCKET_SIZE, ID_BITS, KademliaNetwork

KEYS = st.integers(0, 2**ID_BITS - 1)


def shared_bits(first: int, second: int) -> int:
    return ID_BITS - (first ^ second).bit_length()


@given(st.integers(1, 300), st.integers(0, 5), st.data())
@settings(max_examples=50, deadline=None)
def test_buckets_hold_peers_of_their_prefix(peers: int, seed: int, data: st.DataObject) -> None:
    network = KademliaNetwork(peers, seed=seed)
    ids = [network.id_of(peer) for peer in range(peers)]
    assert len(set(ids)) == peers
    own = data.draw(st.integers(0, peers - 1))
    buckets = network.buckets(own)
    for bits, bucket in enumerate(buckets):
        fitting = {peer for peer in range(peers) if shared_bits(ids[peer], ids[own]) == bits}
        assert set(bucket.tolist()) <= fitting
        assert len(bucket) == len(set(bucket.tolist())) == min(BUCKET_SIZE, len(fitting))
    assert not any(
        shared_bits(ids[peer], ids[own]) >= len(buckets) for peer in range(peers) if peer != own
    )


@given(st.integers(2, 400), st.integers(0, 5), KEYS, st.data())
@settings(max_examples=60, deadline=None)
def test_a_lookup_finds_the_closest_peer(
    peers: int, seed: int, key: int, data: st.DataObject
) -> None:
    network = KademliaNetwork(peers, seed=seed)
    source = data.draw(st.integers(0, peers - 1))
    others = [peer for peer in range(peers) if peer != source]
    closest = min(others, key=lambda peer: network.id_of(peer) ^ key)
    lookup = network.lookup(source, key)
    assert lookup.closest[0] == closest
    assert source not in lookup.asked
    assert len(set(lookup.asked)) == len(lookup.asked)
    assert lookup.messages == 2 * len(lookup.asked)


@given(st.integers(2, 400), KEYS, st.data())
@settings(max_examples=50, deadline=None)
def test_a_value_is_found_where_it_is_stored(peers: int, key: int, data: st.DataObject) -> None:
    network = KademliaNetwork(peers, seed=1)
    source = data.draw(st.integers(0, peers - 1))
    stored_at = network.closest(key)
    lookup = network.lookup(source, key, stored_at)
    if source in stored_at:
        assert lookup.asked == ()
    else:
        assert 1 <= lookup.values == len(set(lookup.asked) & set(stored_at))
        assert len(lookup.asked) <= len(network.lookup(source, key).asked)


@pytest.mark.parametrize("peers", [100, 1_000, 10_000])
def test_hops_grow_with_the_logarithm(peers: int) -> None:
    network = KademliaNetwork(peers, seed=3)
    randomness = random.Random(peers)
    hops = []
    for _ in range(30):
        key = randomness.getrandbits(ID_BITS)
        lookup = network.lookup(randomness.randrange(peers), key, network.closest(key))
        hops.append(lookup.hops)
        assert len(lookup.asked) <= 3 * (math.log2(peers) + 1)
    assert max(hops) <= math.log2(peers)


def test_the_same_seed_is_the_same_network() -> None:
    first, second = KademliaNetwork(200, seed=4), KademliaNetwork(200, seed=4)
    first.lookup(17, 99)  # the order in which buckets are drawn is no matter
    assert first.lookup(3, 12345) == second.lookup(3, 12345)
    assert first.id_of(0) != KademliaNetwork(200, seed=5).id_of(0)
