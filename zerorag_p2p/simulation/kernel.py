"""The compiled part of the vectorised simulator: peers as rows of arrays, walks as loops.

It does what `peer.Peer` and `routing.walk.Walk` do, decision by decision, ties included; a
permanent test holds it against them. Vectors are gone: a document or query is a number, and every
similarity is read from tables that are computed once.

Numbers of peers inside one peer's state follow `routing.peers.PeerTable`: handed out densely, the
last one freed first, because equal referral scores are told apart by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from zerorag_p2p.simulation.randomness import INCREMENT, MULTIPLIERS

_INCREMENT = np.uint64(INCREMENT)
_FIRST_MULTIPLIER = np.uint64(MULTIPLIERS[0])
_SECOND_MULTIPLIER = np.uint64(MULTIPLIERS[1])

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(function: _Function) -> _Function:
    """Compile a function, once for all processes.

    It may not allocate: numba's counting of references to arrays is off, since it took two thirds
    of the time.
    """
    # numba's annotations leave `_nrt` out.
    compiled: _Function = njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]
    return compiled


NOBODY = -1
_NEVER = np.float32(-np.inf)

#: Documents of the exact answer that results are compared with.
_EXACT = 5

#: Where a walk starts (`routing.strategy.Start`).
OWN_STATE, NEIGHBORS, ROSTER = 0, 1, 2


class Rules(NamedTuple):
    """What all peers do alike; numbers stand for the names in `config.RoutingConfig`."""

    start: int
    scored: bool
    adaptive: bool
    explores: bool
    settles: bool
    stops_at_target: bool
    k: int
    budget: int
    fanout: int
    referrals: int
    patience: int
    draws: int
    longest_chain: int


class Similarities(NamedTuple):
    """Tables of similarities, a row a query.

    Attributes:
        advertised: float32 [queries, documents], with the vectors as advertised.
        remembered: float32 [queries, queries].
        exact: float64 [queries, documents], with the vectors as returned in results.
        rank: int32 [queries, documents], position of a document in the order of `exact`.
        order: int32 [queries, documents], the documents in that order.
    """

    advertised: NDArray[np.float32]
    remembered: NDArray[np.float32]
    exact: NDArray[np.float64]
    rank: NDArray[np.int32]
    order: NDArray[np.int32]


class Peers(NamedTuple):
    """State of every peer, a row each.

    Attributes:
        at_place: int32 [places], the peer that fills a place of the workload.
        up: bool [n].
        id_order: int32 [n], position of a peer among all by the text of its id.
        held: int32 [n, most documents], the documents it holds, in the order they came.
        held_count: int32 [n].
        chain: int8 [n, introduced documents], statements in the attribution of a held copy.
        neighbors: int32 [n, neighbour limit], oldest first.
        neighbor_count: int32 [n].
        neighbor_number: int16 [n, neighbour limit], the number of a neighbour whose advertisement
            is held, else `NOBODY`.
        memory_query: int32 [n, memory limit], remembered queries, a ring.
        memory_number: int16 [n, memory limit], the numbers of who asked them.
        memory_count: int32 [n].
        memory_oldest: int32 [n].
        table: int32 [n, numbers], the peer that a number stands for.
        references: int16 [n, numbers], how often a number is used.
        table_count: int32 [n], numbers handed out so far.
        free: int16 [n, numbers], numbers to be handed out again, the last one first.
        free_count: int32 [n].
        holders: int32 [documents], peers that are up and hold a document.
    """

    at_place: NDArray[np.int32]
    up: NDArray[np.bool_]
    id_order: NDArray[np.int32]
    held: NDArray[np.int32]
    held_count: NDArray[np.int32]
    chain: NDArray[np.int8]
    neighbors: NDArray[np.int32]
    neighbor_count: NDArray[np.int32]
    neighbor_number: NDArray[np.int16]
    memory_query: NDArray[np.int32]
    memory_number: NDArray[np.int16]
    memory_count: NDArray[np.int32]
    memory_oldest: NDArray[np.int32]
    table: NDArray[np.int32]
    references: NDArray[np.int16]
    table_count: NDArray[np.int32]
    free: NDArray[np.int16]
    free_count: NDArray[np.int32]
    holders: NDArray[np.int32]


class Questions(NamedTuple):
    """The questions, a row each.

    Attributes:
        place: int32 [n], the place of who asks.
        query: int32 [n].
        document: int32 [n], the answer.
        stream: uint64 [n], state in which the random numbers of a question begin.
        introduced: int32 [documents], number of a document among those introduced later, else
            `NOBODY`.
    """

    place: NDArray[np.int32]
    query: NDArray[np.int32]
    document: NDArray[np.int32]
    stream: NDArray[np.uint64]
    introduced: NDArray[np.int32]


class Outcomes(NamedTuple):
    """What became of the questions, a row each; arrays of width 0 are not wanted.

    Attributes:
        asked: bool [n].
        holders: int32 [n], other peers that hold the document.
        requests_to_target: int32 [n], 0 without a hit.
        recall_at_1: bool [n].
        recall_at_5: float32 [n], nan where not measured.
        contacts: int32 [n].
        replies: int32 [n].
        failures: int32 [n], contacts given up before the target was found.
        documents: int32 [n], documents in all replies.
        referrals: int32 [n], referrals in all replies.
        new_neighbor: int32 [n], or `NOBODY`.
        advertised: int32 [n], documents in the new neighbour's advertisement.
        fetched: bool [n].
        visited: int32 [n, budget or 0], whom the question went to.
        referred: int32 [n, budget * referrals or 0], who was referred to, contact by contact.
        found: int32 [n, k or 0], the documents of the result.
    """

    asked: NDArray[np.bool_]
    holders: NDArray[np.int32]
    requests_to_target: NDArray[np.int32]
    recall_at_1: NDArray[np.bool_]
    recall_at_5: NDArray[np.float32]
    contacts: NDArray[np.int32]
    replies: NDArray[np.int32]
    failures: NDArray[np.int32]
    documents: NDArray[np.int32]
    referrals: NDArray[np.int32]
    new_neighbor: NDArray[np.int32]
    advertised: NDArray[np.int32]
    fetched: NDArray[np.bool_]
    visited: NDArray[np.int32]
    referred: NDArray[np.int32]
    found: NDArray[np.int32]


class Scratch(NamedTuple):
    """Memory that walks use one after the other.

    Attributes:
        randomness: uint64 [1], state of the random numbers of the question under way.
        best: float32 [numbers], best score of a number at the peer that is asked.
        top_number, top_score: int32 and float32 [referrals], its referrals, best first.
        top_advertised, top_document: float32 and int32 [referrals], advertised evidence.
        seen: int32 [peers], the last question for which a peer was a candidate.
        position: int32 [peers], which candidate it was.
        peer, score, open: int32, float32 and bool [candidates]; a candidate is open until asked.
        scored: int32 [candidates], how many had a score before this one had, else `NOBODY`.
        advertised, document: float32 and int32 [candidates], its best advertised evidence.
        asked: int32 [fanout], candidates of the round under way.
        walk: int64 [12], counters of the question under way, see below.
        drawn: int32 [draws], peers drawn to explore.
        order: int32 [draws or neighbour limit], peers put in order.
        result, holder: int32 [k + 1], documents found, best first, and who returned each first.
        reply: int32 [k], documents of one reply.
    """

    randomness: NDArray[np.uint64]
    best: NDArray[np.float32]
    top_number: NDArray[np.int32]
    top_score: NDArray[np.float32]
    top_advertised: NDArray[np.float32]
    top_document: NDArray[np.int32]
    seen: NDArray[np.int32]
    position: NDArray[np.int32]
    peer: NDArray[np.int32]
    score: NDArray[np.float32]
    open: NDArray[np.bool_]
    scored: NDArray[np.int32]
    advertised: NDArray[np.float32]
    document: NDArray[np.int32]
    asked: NDArray[np.int32]
    walk: NDArray[np.int64]
    drawn: NDArray[np.int32]
    order: NDArray[np.int32]
    result: NDArray[np.int32]
    holder: NDArray[np.int32]
    reply: NDArray[np.int32]


#: Counters of `Scratch.walk`: the question with its querier and query; candidates, those that are
#: open, those that ever had a score; members drawn to explore, or `NOBODY`; documents in the
#: result; contacts, those since the result changed last; contacts up to the target; whether the
#: walk is over.
(
    _QUESTION,
    _QUERIER,
    _QUERY,
    _CANDIDATES,
    _OPEN,
    _SCORED,
    _DRAWN,
    _FOUND,
    _VISITED,
    _UNCHANGED,
    _TO_TARGET,
    _OVER,
) = range(12)
COUNTERS = 12


class World(NamedTuple):
    """Everything a walk reads and changes."""

    rules: Rules
    similarities: Similarities
    peers: Peers
    questions: Questions
    outcomes: Outcomes
    scratch: Scratch


# Random numbers (`simulation.randomness.SplitMix`).


@_compiled
def _word(randomness: NDArray[np.uint64]) -> np.uint64:
    randomness[0] += _INCREMENT
    value: np.uint64 = randomness[0]
    value = (value ^ (value >> np.uint64(30))) * _FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * _SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@_compiled
def _below(limit: int, randomness: NDArray[np.uint64]) -> int:
    bits = 0
    while limit >> bits:
        bits += 1
    shift = np.uint64(64 - bits)
    number = int(_word(randomness) >> shift)
    while number >= limit:
        number = int(_word(randomness) >> shift)
    return number


@_compiled
def _shuffle(items: NDArray[np.int32], count: int, randomness: NDArray[np.uint64]) -> None:
    for last in range(count - 1, 0, -1):
        other = _below(last + 1, randomness)
        items[last], items[other] = items[other], items[last]


# Numbers of peers inside one peer's state (`routing.peers.PeerTable`).


@_compiled
def _number_of(peers: Peers, peer: int, other: int) -> int:
    number = NOBODY
    for candidate in range(peers.table_count[peer]):  # without a break: this runs in SIMD
        if peers.table[peer, candidate] == other:
            number = candidate
    return number


@_compiled
def _acquire(peers: Peers, peer: int, other: int) -> int:
    number = _number_of(peers, peer, other)
    if number == NOBODY:
        if peers.free_count[peer]:
            peers.free_count[peer] -= 1
            number = peers.free[peer, peers.free_count[peer]]
        else:
            number = peers.table_count[peer]
            peers.table_count[peer] += 1
        peers.table[peer, number] = other
        peers.references[peer, number] = 0
    peers.references[peer, number] += 1
    return number


@_compiled
def _release(peers: Peers, peer: int, number: int) -> None:
    peers.references[peer, number] -= 1
    if peers.references[peer, number] == 0:
        peers.table[peer, number] = NOBODY
        peers.free[peer, peers.free_count[peer]] = number
        peers.free_count[peer] += 1


# What a peer keeps (`routing.memory`, `routing.neighbors`, `routing.adverts`).


@_compiled
def remember(peers: Peers, peer: int, querier: int, query: int) -> None:
    """Let a peer remember a query; the oldest goes when its memory is full."""
    capacity = peers.memory_query.shape[1]
    if capacity == 0:
        return
    if peers.memory_count[peer] < capacity:
        row = peers.memory_count[peer]
        peers.memory_count[peer] += 1
    else:
        row = peers.memory_oldest[peer]
        peers.memory_oldest[peer] = (row + 1) % capacity
        _release(peers, peer, peers.memory_number[peer, row])
    peers.memory_query[peer, row] = query
    peers.memory_number[peer, row] = _acquire(peers, peer, querier)


@_compiled
def _is_neighbor(peers: Peers, peer: int, other: int) -> bool:
    found = False
    for slot in range(peers.neighbor_count[peer]):
        found |= peers.neighbors[peer, slot] == other
    return found


@_compiled
def _add_neighbor(peers: Peers, peer: int, other: int) -> None:
    count = peers.neighbor_count[peer]
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
    peers.neighbor_count[peer] = count + 1
    _see_advertisement(peers, peer, count)


@_compiled
def add_neighbors(peers: Peers, pairs: NDArray[np.int32]) -> None:
    """For all `pairs` [n, 2] of peers, make the second a neighbour of the first.

    That pushes out its oldest neighbour, and brings the advertisement of the new one.
    """
    for number in range(len(pairs)):
        _add_neighbor(peers, pairs[number, 0], pairs[number, 1])


@_compiled
def _see_advertisement(peers: Peers, peer: int, slot: int) -> None:
    """A neighbour's advertisement counts as held once there is something in it."""
    other = peers.neighbors[peer, slot]
    if peers.up[other] and peers.held_count[other]:
        peers.neighbor_number[peer, slot] = _acquire(peers, peer, other)


@_compiled
def holds(peers: Peers, peer: int, document: int) -> bool:
    """Whether a peer holds a document."""
    found = False
    for row in range(peers.held_count[peer]):
        found |= peers.held[peer, row] == document
    return found


@_compiled
def hold(peers: Peers, peer: int, document: int) -> None:
    """Let a peer hold one more document."""
    peers.held[peer, peers.held_count[peer]] = document
    peers.held_count[peer] += 1
    if peers.up[peer]:
        peers.holders[document] += 1


@_compiled
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
    for peer in range(len(peers.up)):
        if peers.up[peer]:
            _forget_neighbors(peers, peer, departed)
            if _forget_numbers(peers, peer, departed, gone):
                _forget_queries(peers, peer, kept)


@_compiled
def _forget_neighbors(peers: Peers, peer: int, departed: NDArray[np.int32]) -> None:
    count = 0
    for slot in range(peers.neighbor_count[peer]):
        if departed[peers.neighbors[peer, slot]] == NOBODY:
            peers.neighbors[peer, count] = peers.neighbors[peer, slot]
            peers.neighbor_number[peer, count] = peers.neighbor_number[peer, slot]
            count += 1
    peers.neighbor_count[peer] = count


@_compiled
def _forget_numbers(
    peers: Peers, peer: int, departed: NDArray[np.int32], gone: NDArray[np.int32]
) -> int:
    """Free the numbers of peers that left, in the order in which they left; how many."""
    table = peers.table[peer]
    count = 0
    for number in range(peers.table_count[peer]):
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
        peers.free[peer, peers.free_count[peer]] = number
        peers.free_count[peer] += 1
    return count


@_compiled
def _forget_queries(peers: Peers, peer: int, kept: NDArray[np.int32]) -> None:
    """Drop the remembered queries of numbers that stand for nobody any more."""
    size = peers.memory_count[peer]
    count = 0
    for age in range(size):  # the oldest first
        row = (peers.memory_oldest[peer] + age) % size
        number = peers.memory_number[peer, row]
        if peers.table[peer, number] != NOBODY:
            kept[0, count] = peers.memory_query[peer, row]
            kept[1, count] = number
            count += 1
    for row in range(count):
        peers.memory_query[peer, row] = kept[0, row]
        peers.memory_number[peer, row] = kept[1, row]
    peers.memory_count[peer] = count
    peers.memory_oldest[peer] = 0


# As the queried peer (`peer.Peer.answer`).


@_compiled
def _search(world: World, peer: int, query: int) -> int:
    """Put the best k documents of a peer into `Scratch.reply`; how many there are."""
    held, k = world.peers.held[peer], world.rules.k
    rank = world.similarities.rank[query]
    reply = world.scratch.reply
    count = 0
    for row in range(world.peers.held_count[peer]):
        document = held[row]
        if count == k and rank[document] > rank[reply[count - 1]]:
            continue
        position = min(count, k - 1)
        while position > 0 and rank[document] < rank[reply[position - 1]]:
            reply[position] = reply[position - 1]
            position -= 1
        reply[position] = document
        count = min(count + 1, k)
    return count


@_compiled
def _advertised(
    peers: Peers, similarities: Similarities, peer: int, query: int
) -> tuple[np.float32, int]:
    """The best score among what a peer advertises, and of which document."""
    best, best_document = _NEVER, NOBODY
    for row in range(peers.held_count[peer]):
        document = peers.held[peer, row]
        score = similarities.advertised[query, document]
        if score > best:
            best, best_document = score, document
    return best, best_document


@_compiled
def _refer(world: World, peer: int, excluded: int, query: int) -> int:
    """Put a peer's best referrals into `Scratch.top_*`; how many there are."""
    peers, similarities = world.peers, world.similarities
    best = world.scratch.best
    best[: peers.table_count[peer]] = _NEVER
    for slot in range(peers.neighbor_count[peer]):
        if peers.neighbor_number[peer, slot] == NOBODY:
            _see_advertisement(peers, peer, slot)
        number = peers.neighbor_number[peer, slot]
        if number != NOBODY:
            other = peers.neighbors[peer, slot]
            best[number] = _advertised(peers, similarities, other, query)[0]
    remembered = similarities.remembered[query]
    queries, numbers = peers.memory_query[peer], peers.memory_number[peer]
    for row in range(peers.memory_count[peer]):
        number = numbers[row]
        best[number] = max(best[number], remembered[queries[row]])
    number = _number_of(peers, peer, excluded)
    if number != NOBODY:
        best[number] = _NEVER
    found = _take_best(world.rules, world.scratch, peers.table_count[peer])
    if world.rules.settles:
        _add_evidence(world, peer, query, found)
    return found


@_compiled
def _take_best(rules: Rules, scratch: Scratch, count: int) -> int:
    """The numbers with the best scores; of equal ones the larger number goes first."""
    best, top_number, top_score = scratch.best, scratch.top_number, scratch.top_score
    found = 0
    for number in range(count - 1, -1, -1):
        score = best[number]
        if score == _NEVER or (found == rules.referrals and score <= top_score[found - 1]):
            continue
        position = min(found, rules.referrals - 1)
        while position > 0 and top_score[position - 1] < score:
            top_score[position] = top_score[position - 1]
            top_number[position] = top_number[position - 1]
            position -= 1
        top_score[position] = score
        top_number[position] = number
        found = min(found + 1, rules.referrals)
    return found


@_compiled
def _add_evidence(world: World, peer: int, query: int, found: int) -> None:
    """Which referrals rest on advertisements, and on those of which documents."""
    peers, scratch = world.peers, world.scratch
    for place in range(found):
        scratch.top_advertised[place] = _NEVER
        scratch.top_document[place] = NOBODY
        for slot in range(peers.neighbor_count[peer]):
            if peers.neighbor_number[peer, slot] == scratch.top_number[place]:
                score, document = _advertised(
                    peers, world.similarities, peers.neighbors[peer, slot], query
                )
                scratch.top_advertised[place] = score
                scratch.top_document[place] = document


# As the querier (`routing.walk.Walk`).


@_compiled
def _consider(
    world: World, peer: int, score: np.float32, advertised: np.float32, document: int
) -> None:
    scratch, walk = world.scratch, world.scratch.walk
    if peer == walk[_QUERIER]:
        return
    if scratch.seen[peer] != walk[_QUESTION]:
        place = walk[_CANDIDATES]
        walk[_CANDIDATES] += 1
        walk[_OPEN] += 1
        scratch.seen[peer] = walk[_QUESTION]
        scratch.position[peer] = place
        scratch.peer[place] = peer
        scratch.score[place] = _NEVER
        scratch.open[place] = True
        scratch.scored[place] = NOBODY
        scratch.advertised[place] = _NEVER
        scratch.document[place] = NOBODY
    place = scratch.position[peer]
    if not scratch.open[place]:
        return
    if world.rules.scored and score > scratch.score[place]:
        if scratch.scored[place] == NOBODY:
            scratch.scored[place] = walk[_SCORED]
            walk[_SCORED] += 1
        scratch.score[place] = score
    if advertised > scratch.advertised[place]:
        scratch.advertised[place] = advertised
        scratch.document[place] = document


@_compiled
def _consider_referrals(world: World, peer: int, found: int) -> None:
    scratch = world.scratch
    for place in range(found):
        other = world.peers.table[peer, scratch.top_number[place]]
        advertised, document = _NEVER, NOBODY
        if world.rules.settles:
            advertised, document = scratch.top_advertised[place], scratch.top_document[place]
        _consider(world, other, scratch.top_score[place], advertised, document)


@_compiled
def _draw_members(world: World, members: NDArray[np.int32]) -> None:
    """Draw members to explore, once a walk (`simulation.randomness.draw`)."""
    scratch, walk, wanted = world.scratch, world.scratch.walk, world.rules.draws
    if walk[_DRAWN] != NOBODY:
        return
    size = len(members)
    if wanted >= size:
        for number in range(size):
            scratch.drawn[number] = members[number]
        walk[_DRAWN] = size
        return
    count = 0
    while count < wanted:
        member = members[_below(size, scratch.randomness)]
        known = False
        for earlier in range(count):
            known |= scratch.drawn[earlier] == member
        if not known:
            scratch.drawn[count] = member
            count += 1
    walk[_DRAWN] = count


@_compiled
def _explore(world: World) -> None:
    """Make everybody drawn and not asked yet a candidate, in random order.

    The frontier is empty: whoever was a candidate was asked.
    """
    scratch, walk, id_order = world.scratch, world.scratch.walk, world.peers.id_order
    fresh = scratch.order
    count = 0
    for number in range(walk[_DRAWN]):
        peer = scratch.drawn[number]
        if peer != walk[_QUERIER] and scratch.seen[peer] != walk[_QUESTION]:
            position = count
            while position > 0 and id_order[fresh[position - 1]] > id_order[peer]:
                fresh[position] = fresh[position - 1]
                position -= 1
            fresh[position] = peer
            count += 1
    _shuffle(fresh, count, scratch.randomness)
    for number in range(count):
        _consider(world, fresh[number], _NEVER, _NEVER, NOBODY)


@_compiled
def _start(world: World, members: NDArray[np.int32]) -> None:
    """Put the first candidates into the frontier."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk
    querier = walk[_QUERIER]
    if world.rules.start == OWN_STATE:
        found = _refer(world, querier, querier, walk[_QUERY])
        _consider_referrals(world, querier, found)
        return
    first = scratch.order
    if world.rules.start == NEIGHBORS:
        count = peers.neighbor_count[querier]
        for number in range(count):
            first[number] = peers.neighbors[querier, number]
    else:
        _draw_members(world, members)
        count = walk[_DRAWN]
        for number in range(count):
            first[number] = scratch.drawn[number]
        _shuffle(first, count, scratch.randomness)
    for number in range(count):
        _consider(world, first[number], _NEVER, _NEVER, NOBODY)


@_compiled
def _best_candidate(scratch: Scratch) -> int:
    best = NOBODY
    for place in range(scratch.walk[_CANDIDATES]):
        if scratch.open[place] and (best == NOBODY or scratch.score[place] > scratch.score[best]):
            best = place
    return best


@_compiled
def _settled(world: World) -> bool:
    """Whether nothing better than the result is advertised (`strategy.stop_when_settled`)."""
    scratch, walk = world.scratch, world.scratch.walk
    found = walk[_FOUND]
    if found < world.rules.k or walk[_UNCHANGED] < world.rules.patience:
        return False
    worst = world.similarities.exact[walk[_QUERY], scratch.result[found - 1]]
    for place in range(walk[_CANDIDATES]):
        if scratch.open[place] and scratch.advertised[place] > worst:
            held = False
            for number in range(found):
                held |= scratch.result[number] == scratch.document[place]
            if not held:
                return False
    return True


@_compiled
def _choose_round(world: World, members: NDArray[np.int32]) -> int:
    """Take the candidates to ask next out of the frontier; how many there are."""
    rules, scratch, walk = world.rules, world.scratch, world.scratch.walk
    asked = 0
    while asked < rules.fanout and walk[_VISITED] + asked < rules.budget:
        if rules.settles and _settled(world):
            break
        if walk[_OPEN] == 0 and asked == 0 and rules.explores:
            _draw_members(world, members)
            _explore(world)
        candidate = _best_candidate(scratch)
        if candidate == NOBODY:
            break
        scratch.open[candidate] = False
        walk[_OPEN] -= 1
        scratch.asked[asked] = candidate
        asked += 1
    return asked


@_compiled
def _merge(world: World, sender: int, count: int) -> None:
    """Take the documents of a reply into the result."""
    scratch, walk, k = world.scratch, world.scratch.walk, world.rules.k
    rank = world.similarities.rank[walk[_QUERY]]
    result, holder = scratch.result, scratch.holder
    walk[_UNCHANGED] += 1
    for number in range(count):
        document = scratch.reply[number]
        found = walk[_FOUND]
        known = False
        for place in range(found):
            known |= result[place] == document
        if known or (found == k and rank[document] > rank[result[found - 1]]):
            continue
        position = min(found, k - 1)
        while position > 0 and rank[document] < rank[result[position - 1]]:
            result[position] = result[position - 1]
            holder[position] = holder[position - 1]
            position -= 1
        result[position] = document
        holder[position] = sender
        walk[_FOUND] = min(found + 1, k)
        walk[_UNCHANGED] = 0


@_compiled
def _contact(world: World, peer: int, number: int) -> None:
    """Ask a peer that is up, as contact `number` of the walk, and take in what it says."""
    peers, rules, outcomes = world.peers, world.rules, world.outcomes
    scratch, walk = world.scratch, world.scratch.walk
    question, querier, query = walk[_QUESTION], walk[_QUERIER], walk[_QUERY]
    count = _search(world, peer, query)
    found = _refer(world, peer, querier, query)
    outcomes.replies[question] += 1
    outcomes.documents[question] += count
    outcomes.referrals[question] += found
    if outcomes.referred.shape[1]:
        for place in range(found):
            column = number * rules.referrals + place
            outcomes.referred[question, column] = peers.table[peer, scratch.top_number[place]]
    if not walk[_OVER]:
        _merge(world, peer, count)
        _consider_referrals(world, peer, found)
        if walk[_TO_TARGET] == 0 and holds(peers, peer, world.questions.document[question]):
            walk[_TO_TARGET] = number + 1
            walk[_OVER] = rules.stops_at_target
    remember(peers, peer, querier, query)


@_compiled
def _walk(world: World, members: NDArray[np.int32]) -> None:
    """Ask until the target, a rule, the budget or the frontier ends it."""
    scratch, walk, outcomes = world.scratch, world.scratch.walk, world.outcomes
    question = walk[_QUESTION]
    _start(world, members)
    while not walk[_OVER]:
        asked = _choose_round(world, members)
        if asked == 0:
            break
        silent = 0
        for number in range(asked):
            peer = scratch.peer[scratch.asked[number]]
            if outcomes.visited.shape[1]:
                outcomes.visited[question, walk[_VISITED] + number] = peer
            if world.peers.up[peer]:
                _contact(world, peer, walk[_VISITED] + number)
            else:
                silent += 1
        walk[_VISITED] += asked
        if not walk[_OVER]:
            walk[_UNCHANGED] += silent
            outcomes.failures[question] += silent


@_compiled
def _best_referral(scratch: Scratch) -> int:
    """The peer with the best score there was; of equal ones the one that had it first."""
    best = NOBODY
    for place in range(scratch.walk[_CANDIDATES]):
        if scratch.scored[place] == NOBODY:
            continue
        if (
            best == NOBODY
            or scratch.score[place] > scratch.score[best]
            or (
                scratch.score[place] == scratch.score[best]
                and scratch.scored[place] < scratch.scored[best]
            )
        ):
            best = place
    return NOBODY if best == NOBODY else scratch.peer[best]


@_compiled
def _rewire(world: World) -> None:
    """Take a new neighbour (`strategy.choose_by_best_document`)."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk
    querier = walk[_QUERIER]
    chosen = scratch.holder[0] if walk[_FOUND] else _best_referral(scratch)
    if chosen not in (NOBODY, querier) and not _is_neighbor(peers, querier, chosen):
        world.outcomes.new_neighbor[walk[_QUESTION]] = chosen
        world.outcomes.advertised[walk[_QUESTION]] = peers.held_count[chosen]
        _add_neighbor(peers, querier, chosen)


@_compiled
def _recall_of_exact(world: World) -> np.float32:
    """Share of the five best documents of all other peers that the result holds."""
    scratch, walk = world.scratch, world.scratch.walk
    wanted = 0
    got = 0
    for document in world.similarities.order[walk[_QUERY]]:
        own = holds(world.peers, walk[_QUERIER], document)
        if world.peers.holders[document] > own:
            wanted += 1
            for place in range(min(walk[_FOUND], _EXACT)):
                got += scratch.result[place] == document
            if wanted == _EXACT:
                break
    return np.float32(got / wanted) if wanted else np.float32(np.nan)


@_compiled
def _fetch(world: World, document: int) -> None:
    """Keep a copy of an introduced document, if it was found and its chain may grow."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk
    querier = walk[_QUERIER]
    for place in range(walk[_FOUND]):
        if scratch.result[place] == document:
            world.outcomes.fetched[walk[_QUESTION]] = True
            number = world.questions.introduced[document]
            links = peers.chain[scratch.holder[place], number]
            if links < world.rules.longest_chain:
                hold(peers, querier, document)
                peers.chain[querier, number] = links + 1


@_compiled
def _ask(world: World, members: NDArray[np.int32], question: int) -> None:
    peers, rules, outcomes = world.peers, world.rules, world.outcomes
    scratch, walk = world.scratch, world.scratch.walk
    querier = peers.at_place[world.questions.place[question]]
    document = world.questions.document[question]
    own = holds(peers, querier, document)
    introduced = world.questions.introduced[document] != NOBODY
    if not peers.up[querier] or (introduced and own):
        return
    scratch.randomness[0] = world.questions.stream[question]
    walk[:] = 0
    walk[_QUESTION] = question
    walk[_QUERIER] = querier
    walk[_QUERY] = world.questions.query[question]
    walk[_DRAWN] = NOBODY
    outcomes.asked[question] = True
    outcomes.holders[question] = peers.holders[document] - own
    _walk(world, members)
    outcomes.contacts[question] = walk[_VISITED]
    outcomes.requests_to_target[question] = walk[_TO_TARGET]
    outcomes.recall_at_1[question] = walk[_FOUND] > 0 and scratch.result[0] == document
    if rules.adaptive:
        _rewire(world)
    if not rules.stops_at_target:
        outcomes.recall_at_5[question] = _recall_of_exact(world)
    for place in range(min(walk[_FOUND], outcomes.found.shape[1])):
        outcomes.found[question, place] = scratch.result[place]
    if introduced:
        _fetch(world, document)


@_compiled
def ask_all(world: World, members: NDArray[np.int32], first: int, end: int) -> None:
    """Ask the questions from `first` to before `end`, one after the other.

    Args:
        world: Read, changed and filled in.
        members: int32 [m], peers that exploration may draw.
        first: Number of the first question.
        end: Number of the one after the last.
    """
    for question in range(first, end):
        _ask(world, members, question)
