"""Compiled: what a peer keeps, its neighbours, remembered queries and documents.

Numbers of peers inside one peer's state follow `routing.peers.PeerTable`: handed out densely, the
last one freed first, because equal referral scores are told apart by them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.simulation.arrays import NOBODY, Peers
from zerorag_p2p.simulation.compiled import compiled

# Numbers of peers inside one peer's state (`routing.peers.PeerTable`).


@compiled
def number_of(peers: Peers, peer: int, other: int) -> int:
    """The number of another peer, or `NOBODY`."""
    number = NOBODY
    for candidate in range(peers.state[peer].table_count):  # without a break: this runs in SIMD
        if peers.table[peer, candidate] == other:
            number = candidate
    return number


@compiled
def acquire(peers: Peers, peer: int, other: int) -> int:
    """The number of another peer, once more in use."""
    number = number_of(peers, peer, other)
    if number == NOBODY:
        if peers.state[peer].free_count:
            peers.state[peer].free_count -= 1
            number = peers.free[peer, peers.state[peer].free_count]
        else:
            number = peers.state[peer].table_count
            peers.state[peer].table_count += 1
        peers.table[peer, number] = other
        peers.references[peer, number] = 0
    peers.references[peer, number] += 1
    return number


@compiled
def _release(peers: Peers, peer: int, number: int) -> None:
    peers.references[peer, number] -= 1
    if peers.references[peer, number] == 0:
        peers.table[peer, number] = NOBODY
        peers.free[peer, peers.state[peer].free_count] = number
        peers.state[peer].free_count += 1


# What a peer keeps (`routing.memory`, `routing.neighbors`, `routing.adverts`).


@compiled
def remember(peers: Peers, peer: int, querier: int, query: int) -> None:
    """Let a peer remember a query; the oldest goes when its memory is full."""
    capacity = peers.memory_query.shape[1]
    if capacity == 0:
        return
    if peers.state[peer].memory_count < capacity:
        row = peers.state[peer].memory_count
        peers.state[peer].memory_count += 1
    else:
        row = peers.state[peer].memory_oldest
        peers.state[peer].memory_oldest = (row + 1) % capacity
        _release(peers, peer, peers.memory_number[peer, row])
    peers.memory_query[peer, row] = query
    peers.memory_number[peer, row] = acquire(peers, peer, querier)


@compiled
def is_neighbor(peers: Peers, peer: int, other: int) -> bool:
    """Whether another peer is a neighbour."""
    found = False
    for slot in range(peers.state[peer].neighbor_count):
        found |= peers.neighbors[peer, slot] == other
    return found


@compiled
def add_neighbor(peers: Peers, peer: int, other: int) -> None:
    """Make another peer a neighbour, which pushes out the oldest."""
    count = peers.state[peer].neighbor_count
    if count == peers.neighbors.shape[1]:
        evicted = peers.neighbor_number[peer, 0]
        for slot in range(count - 1):
            peers.neighbors[peer, slot] = peers.neighbors[peer, slot + 1]
            peers.neighbor_number[peer, slot] = peers.neighbor_number[peer, slot + 1]
        count -= 1
        if evicted != NOBODY:
            _release(peers, peer, evicted)
    peers.neighbors[peer, count] = other
    peers.neighbor_number[peer, count] = NOBODY
    peers.state[peer].neighbor_count = count + 1
    see_advertisement(peers, peer, count)


@compiled
def add_neighbors(peers: Peers, pairs: NDArray[np.int32]) -> None:
    """For all `pairs` [n, 2] of peers, make the second a neighbour of the first.

    That pushes out its oldest neighbour, and brings the advertisement of the new one.
    """
    for number in range(len(pairs)):
        add_neighbor(peers, pairs[number, 0], pairs[number, 1])


@compiled
def see_advertisement(peers: Peers, peer: int, slot: int) -> None:
    """A neighbour's advertisement counts as held once there is something in it."""
    other = peers.neighbors[peer, slot]
    if peers.state[other].up and peers.held[other, 0]:
        peers.neighbor_number[peer, slot] = acquire(peers, peer, other)


@compiled
def holds(peers: Peers, peer: int, document: int) -> bool:
    """Whether a peer holds a document."""
    found = False
    for row in range(1, 1 + peers.held[peer, 0]):
        found |= peers.held[peer, row] == document
    return found


@compiled
def hold(peers: Peers, peer: int, document: int) -> None:
    """Let a peer hold one more document."""
    peers.held[peer, 0] += 1
    peers.held[peer, peers.held[peer, 0]] = document
    if peers.state[peer].up:
        peers.holders[document] += 1


@compiled
def forget_departed(
    peers: Peers, departed: NDArray[np.int32], gone: NDArray[np.int32], kept: NDArray[np.int32]
) -> None:
    """Let every peer that is up drop those that left (`peer.Peer.on_departed`).

    Args:
        peers: The peers.
        departed: int32 [peers], position of a peer among those that left, else `NOBODY`; they are
            dropped in this order.
        gone: int32 [numbers], to work in.
        kept: int32 [2, memory limit], to work in.
    """
    for peer in range(len(peers.state)):
        if peers.state[peer].up:
            _forget_neighbors(peers, peer, departed)
            if _forget_numbers(peers, peer, departed, gone):
                _forget_queries(peers, peer, kept)


@compiled
def _forget_neighbors(peers: Peers, peer: int, departed: NDArray[np.int32]) -> None:
    count = 0
    for slot in range(peers.state[peer].neighbor_count):
        if departed[peers.neighbors[peer, slot]] == NOBODY:
            peers.neighbors[peer, count] = peers.neighbors[peer, slot]
            peers.neighbor_number[peer, count] = peers.neighbor_number[peer, slot]
            count += 1
    peers.state[peer].neighbor_count = count


@compiled
def _forget_numbers(
    peers: Peers, peer: int, departed: NDArray[np.int32], gone: NDArray[np.int32]
) -> int:
    """Free the numbers of peers that left, in the order in which they left; how many."""
    table = peers.table[peer]
    count = 0
    for number in range(peers.state[peer].table_count):
        other = table[number]
        if other == NOBODY or departed[other] == NOBODY:
            continue
        position = count
        while position > 0 and departed[table[gone[position - 1]]] > departed[other]:
            gone[position] = gone[position - 1]
            position -= 1
        gone[position] = number
        count += 1
    for place in range(count):
        number = gone[place]
        table[number] = NOBODY
        peers.references[peer, number] = 0
        peers.free[peer, peers.state[peer].free_count] = number
        peers.state[peer].free_count += 1
    return count


@compiled
def _forget_queries(peers: Peers, peer: int, kept: NDArray[np.int32]) -> None:
    """Drop the remembered queries of numbers that stand for nobody any more."""
    size = peers.state[peer].memory_count
    count = 0
    for age in range(size):  # the oldest first
        row = (peers.state[peer].memory_oldest + age) % size
        number = peers.memory_number[peer, row]
        if peers.table[peer, number] != NOBODY:
            kept[0, count] = peers.memory_query[peer, row]
            kept[1, count] = number
            count += 1
    for row in range(count):
        peers.memory_query[peer, row] = kept[0, row]
        peers.memory_number[peer, row] = kept[1, row]
    peers.state[peer].memory_count = count
    peers.state[peer].memory_oldest = 0
