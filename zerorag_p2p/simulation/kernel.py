"""The compiled part of the vectorised simulator: peers as rows of arrays, walks as loops.

It does what `peer.Peer` and `routing.walk.Walk` do, decision by decision, ties included; a
permanent test holds it against them. Vectors are gone: a document or query is a number, and every
similarity is read from tables that are computed once.

Numbers of peers inside one peer's state follow `routing.peers.PeerTable`: handed out densely, the
last one freed first, because equal referral scores are told apart by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from zerorag_p2p.simulation.arrays import (
    NEIGHBORS,
    NOBODY,
    OWN_STATE,
    Peers,
    Rules,
    Scratch,
    Similarities,
    World,
)
from zerorag_p2p.simulation.randomness import INCREMENT, MULTIPLIERS

_INCREMENT = np.uint64(INCREMENT)
_FIRST_MULTIPLIER = np.uint64(MULTIPLIERS[0])
_SECOND_MULTIPLIER = np.uint64(MULTIPLIERS[1])

_NEVER = np.float32(-np.inf)

#: Documents of the exact answer that results are compared with.
_EXACT = 5

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(function: _Function) -> _Function:
    """Compile a function, once for all processes.

    It may not allocate: numba's counting of references to arrays is off, since it took two thirds
    of the time.
    """
    # numba's annotations leave `_nrt` out.
    compiled: _Function = njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]
    return compiled


# Random numbers (`simulation.randomness.SplitMix`).


@_compiled
def _word(scratch: Scratch) -> np.uint64:
    walk = scratch.walk[0]
    walk.random += _INCREMENT
    value: np.uint64 = walk.random
    value = (value ^ (value >> np.uint64(30))) * _FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * _SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@_compiled
def _below(limit: int, scratch: Scratch) -> int:
    bits = 0
    while limit >> bits:
        bits += 1
    shift = np.uint64(64 - bits)
    number = int(_word(scratch) >> shift)
    while number >= limit:
        number = int(_word(scratch) >> shift)
    return number


@_compiled
def _shuffle(items: NDArray[np.int32], count: int, scratch: Scratch) -> None:
    for last in range(count - 1, 0, -1):
        other = _below(last + 1, scratch)
        items[last], items[other] = items[other], items[last]


# Numbers of peers inside one peer's state (`routing.peers.PeerTable`).


@_compiled
def _number_of(peers: Peers, peer: int, other: int) -> int:
    number = NOBODY
    for candidate in range(peers.state[peer].table_count):  # without a break: this runs in SIMD
        if peers.table[peer, candidate] == other:
            number = candidate
    return number


@_compiled
def _acquire(peers: Peers, peer: int, other: int) -> int:
    number = _number_of(peers, peer, other)
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


@_compiled
def _release(peers: Peers, peer: int, number: int) -> None:
    peers.references[peer, number] -= 1
    if peers.references[peer, number] == 0:
        peers.table[peer, number] = NOBODY
        peers.free[peer, peers.state[peer].free_count] = number
        peers.state[peer].free_count += 1


# What a peer keeps (`routing.memory`, `routing.neighbors`, `routing.adverts`).


@_compiled
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
    peers.memory_number[peer, row] = _acquire(peers, peer, querier)


@_compiled
def _is_neighbor(peers: Peers, peer: int, other: int) -> bool:
    found = False
    for slot in range(peers.state[peer].neighbor_count):
        found |= peers.neighbors[peer, slot] == other
    return found


@_compiled
def _add_neighbor(peers: Peers, peer: int, other: int) -> None:
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
    if peers.state[other].up and peers.held[other, 0]:
        peers.neighbor_number[peer, slot] = _acquire(peers, peer, other)


@_compiled
def holds(peers: Peers, peer: int, document: int) -> bool:
    """Whether a peer holds a document."""
    found = False
    for row in range(1, 1 + peers.held[peer, 0]):
        found |= peers.held[peer, row] == document
    return found


@_compiled
def hold(peers: Peers, peer: int, document: int) -> None:
    """Let a peer hold one more document."""
    peers.held[peer, 0] += 1
    peers.held[peer, peers.held[peer, 0]] = document
    if peers.state[peer].up:
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
    for peer in range(len(peers.state)):
        if peers.state[peer].up:
            _forget_neighbors(peers, peer, departed)
            if _forget_numbers(peers, peer, departed, gone):
                _forget_queries(peers, peer, kept)


@_compiled
def _forget_neighbors(peers: Peers, peer: int, departed: NDArray[np.int32]) -> None:
    count = 0
    for slot in range(peers.state[peer].neighbor_count):
        if departed[peers.neighbors[peer, slot]] == NOBODY:
            peers.neighbors[peer, count] = peers.neighbors[peer, slot]
            peers.neighbor_number[peer, count] = peers.neighbor_number[peer, slot]
            count += 1
    peers.state[peer].neighbor_count = count


@_compiled
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


@_compiled
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


# As the queried peer (`peer.Peer.answer`).


@_compiled
def _search(world: World, peer: int, query: int) -> int:
    """Put the best k documents of a peer into `Scratch.reply`; how many there are."""
    held, k = world.peers.held[peer], world.rules.k
    rank = world.similarities.rank[query]
    reply = world.scratch.reply
    count = 0
    for row in range(1, 1 + held[0]):
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
    held = peers.held[peer]
    scores = similarities.advertised[query]
    best, best_document = _NEVER, NOBODY
    for row in range(1, 1 + held[0]):
        score = scores[held[row]]
        if score > best:
            best, best_document = score, held[row]
    return best, best_document


@_compiled
def _refer(world: World, peer: int, excluded: int, query: int) -> int:
    """Put a peer's best referrals into `Scratch.referrals`; how many there are."""
    peers, similarities = world.peers, world.similarities
    state = peers.state[peer]
    best = world.scratch.best
    for number in range(state.table_count):
        best[number] = _NEVER
    for slot in range(state.neighbor_count):
        if peers.neighbor_number[peer, slot] == NOBODY:
            before = state.table_count
            _see_advertisement(peers, peer, slot)
            if state.table_count > before:
                best[before] = _NEVER
        number = peers.neighbor_number[peer, slot]
        if number != NOBODY:
            best[number] = _advertised(peers, similarities, peers.neighbors[peer, slot], query)[0]
    remembered = similarities.remembered[query]
    queries, numbers = peers.memory_query[peer], peers.memory_number[peer]
    for row in range(state.memory_count):
        number = numbers[row]
        best[number] = max(best[number], remembered[queries[row]])
    number = _number_of(peers, peer, excluded)
    if number != NOBODY:
        best[number] = _NEVER
    found = _take_best(world.rules, world.scratch, state.table_count)
    if world.rules.settles:
        _add_evidence(world, peer, query, found)
    return found


@_compiled
def _take_best(rules: Rules, scratch: Scratch, count: int) -> int:
    """The numbers with the best scores; of equal ones the larger number goes first."""
    best, referrals = scratch.best, scratch.referrals
    found = 0
    for number in range(count - 1, -1, -1):
        score = best[number]
        if score == _NEVER or (found == rules.referrals and score <= referrals[found - 1].score):
            continue
        position = min(found, rules.referrals - 1)
        while position > 0 and referrals[position - 1].score < score:
            referrals[position].score = referrals[position - 1].score
            referrals[position].number = referrals[position - 1].number
            position -= 1
        referrals[position].score = score
        referrals[position].number = number
        found = min(found + 1, rules.referrals)
    return found


@_compiled
def _add_evidence(world: World, peer: int, query: int, found: int) -> None:
    """Which referrals rest on advertisements, and on those of which documents."""
    peers = world.peers
    for place in range(found):
        referral = world.scratch.referrals[place]
        referral.advertised = _NEVER
        referral.document = NOBODY
        for slot in range(peers.state[peer].neighbor_count):
            if peers.neighbor_number[peer, slot] == referral.number:
                score, document = _advertised(
                    peers, world.similarities, peers.neighbors[peer, slot], query
                )
                referral.advertised = score
                referral.document = document


# As the querier (`routing.walk.Walk`).


@_compiled
def _consider(
    world: World, peer: int, score: np.float32, advertised: np.float32, document: int
) -> None:
    scratch, walk = world.scratch, world.scratch.walk[0]
    if peer == walk.querier:
        return
    seen = scratch.seen[peer]
    if seen.question != walk.question:
        seen.question = walk.question
        seen.candidate = walk.candidates
        fresh = scratch.candidates[walk.candidates]
        fresh.peer = peer
        fresh.open = 1
        fresh.score = _NEVER
        fresh.scored = NOBODY
        fresh.advertised = _NEVER
        fresh.document = NOBODY
        walk.candidates += 1
        walk.open += 1
    candidate = scratch.candidates[seen.candidate]
    if not candidate.open:
        return
    if world.rules.scored and score > candidate.score:
        if candidate.scored == NOBODY:
            candidate.scored = walk.scored
            walk.scored += 1
        candidate.score = score
    if advertised > candidate.advertised:
        candidate.advertised = advertised
        candidate.document = document


@_compiled
def _consider_referrals(world: World, peer: int, found: int) -> None:
    for place in range(found):
        referral = world.scratch.referrals[place]
        other = world.peers.table[peer, referral.number]
        if world.rules.settles:
            _consider(world, other, referral.score, referral.advertised, referral.document)
        else:
            _consider(world, other, referral.score, _NEVER, NOBODY)


@_compiled
def _draw_members(world: World, members: NDArray[np.int32]) -> None:
    """Draw members to explore, once a walk (`simulation.randomness.draw`)."""
    scratch, walk, wanted = world.scratch, world.scratch.walk[0], world.rules.draws
    if walk.drawn != NOBODY:
        return
    size = len(members)
    if wanted >= size:
        for number in range(size):
            scratch.drawn[number] = members[number]
        walk.drawn = size
        return
    count = 0
    while count < wanted:
        member = members[_below(size, scratch)]
        known = False
        for earlier in range(count):
            known |= scratch.drawn[earlier] == member
        if not known:
            scratch.drawn[count] = member
            count += 1
    walk.drawn = count


@_compiled
def _explore(world: World) -> None:
    """Make everybody drawn and not asked yet a candidate, in random order.

    The frontier is empty: whoever was a candidate was asked.
    """
    scratch, walk, state = world.scratch, world.scratch.walk[0], world.peers.state
    fresh = scratch.order
    count = 0
    for number in range(walk.drawn):
        peer = scratch.drawn[number]
        if peer != walk.querier and scratch.seen[peer].question != walk.question:
            position = count
            while position > 0 and state[fresh[position - 1]].id_order > state[peer].id_order:
                fresh[position] = fresh[position - 1]
                position -= 1
            fresh[position] = peer
            count += 1
    _shuffle(fresh, count, scratch)
    for number in range(count):
        _consider(world, fresh[number], _NEVER, _NEVER, NOBODY)


@_compiled
def _start(world: World, members: NDArray[np.int32]) -> None:
    """Put the first candidates into the frontier."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk[0]
    querier = walk.querier
    if world.rules.start == OWN_STATE:
        found = _refer(world, querier, querier, walk.query)
        _consider_referrals(world, querier, found)
        return
    first = scratch.order
    if world.rules.start == NEIGHBORS:
        count = peers.state[querier].neighbor_count
        for number in range(count):
            first[number] = peers.neighbors[querier, number]
    else:
        _draw_members(world, members)
        count = walk.drawn
        for number in range(count):
            first[number] = scratch.drawn[number]
        _shuffle(first, count, scratch)
    for number in range(count):
        _consider(world, first[number], _NEVER, _NEVER, NOBODY)


@_compiled
def _best_candidate(scratch: Scratch) -> int:
    candidates = scratch.candidates
    best = NOBODY
    score = _NEVER
    for place in range(scratch.walk[0].candidates):
        candidate = candidates[place]
        if candidate.open and (best == NOBODY or candidate.score > score):
            best, score = place, candidate.score
    return best


@_compiled
def _settled(world: World) -> bool:
    """Whether nothing better than the result is advertised (`strategy.stop_when_settled`)."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    found = walk.found
    if found < world.rules.k or walk.unchanged < world.rules.patience:
        return False
    worst = world.similarities.exact[walk.query, scratch.result[found - 1].document]
    for place in range(walk.candidates):
        candidate = scratch.candidates[place]
        if candidate.open and candidate.advertised > worst:
            held = False
            for number in range(found):
                held |= scratch.result[number].document == candidate.document
            if not held:
                return False
    return True


@_compiled
def _choose_round(world: World, members: NDArray[np.int32]) -> int:
    """Take the candidates to ask next out of the frontier; how many there are."""
    rules, scratch, walk = world.rules, world.scratch, world.scratch.walk[0]
    asked = 0
    while asked < rules.fanout and walk.visited + asked < rules.budget:
        if rules.settles and _settled(world):
            break
        if walk.open == 0 and asked == 0 and rules.explores:
            _draw_members(world, members)
            _explore(world)
        place = _best_candidate(scratch)
        if place == NOBODY:
            break
        scratch.candidates[place].open = 0
        walk.open -= 1
        scratch.asked[asked] = place
        asked += 1
    return asked


@_compiled
def _merge(world: World, sender: int, count: int) -> None:
    """Take the documents of a reply into the result."""
    scratch, walk, k = world.scratch, world.scratch.walk[0], world.rules.k
    rank = world.similarities.rank[walk.query]
    result = scratch.result
    walk.unchanged += 1
    for number in range(count):
        document = scratch.reply[number]
        found = walk.found
        known = False
        for place in range(found):
            known |= result[place].document == document
        if known or (found == k and rank[document] > rank[result[found - 1].document]):
            continue
        position = min(found, k - 1)
        while position > 0 and rank[document] < rank[result[position - 1].document]:
            result[position].document = result[position - 1].document
            result[position].holder = result[position - 1].holder
            position -= 1
        result[position].document = document
        result[position].holder = sender
        walk.found = min(found + 1, k)
        walk.unchanged = 0


@_compiled
def _contact(world: World, peer: int, number: int) -> None:
    """Ask a peer that is up, as contact `number` of the walk, and take in what it says."""
    peers, rules, scratch = world.peers, world.rules, world.scratch
    walk = scratch.walk[0]
    outcome = world.outcomes.rows[walk.question]
    count = _search(world, peer, walk.query)
    found = _refer(world, peer, walk.querier, walk.query)
    outcome.replies += 1
    outcome.documents += count
    outcome.referrals += found
    if world.outcomes.referred.shape[1]:
        for place in range(found):
            other = peers.table[peer, scratch.referrals[place].number]
            world.outcomes.referred[walk.question, number * rules.referrals + place] = other
    if not walk.over:
        _merge(world, peer, count)
        _consider_referrals(world, peer, found)
        if walk.to_target == 0 and holds(peers, peer, walk.document):
            walk.to_target = number + 1
            walk.over = rules.stops_at_target
    remember(peers, peer, walk.querier, walk.query)


@_compiled
def _walk(world: World, members: NDArray[np.int32]) -> None:
    """Ask until the target, a rule, the budget or the frontier ends it."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    _start(world, members)
    while not walk.over:
        asked = _choose_round(world, members)
        if asked == 0:
            break
        silent = 0
        for number in range(asked):
            peer = scratch.candidates[scratch.asked[number]].peer
            if world.outcomes.visited.shape[1]:
                world.outcomes.visited[walk.question, walk.visited + number] = peer
            if world.peers.state[peer].up:
                _contact(world, peer, walk.visited + number)
            else:
                silent += 1
        walk.visited += asked
        if not walk.over:
            walk.unchanged += silent
            world.outcomes.rows[walk.question].failures += silent


@_compiled
def _best_referral(scratch: Scratch) -> int:
    """The peer with the best score there was; of equal ones the one that had it first."""
    best = NOBODY
    score = _NEVER
    scored = 0
    for place in range(scratch.walk[0].candidates):
        candidate = scratch.candidates[place]
        if candidate.scored != NOBODY and (
            candidate.score > score or (candidate.score == score and candidate.scored < scored)
        ):
            best, score, scored = candidate.peer, candidate.score, candidate.scored
    return best


@_compiled
def _rewire(world: World) -> None:
    """Take a new neighbour (`strategy.choose_by_best_document`)."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk[0]
    chosen = scratch.result[0].holder if walk.found else _best_referral(scratch)
    if chosen != NOBODY and not _is_neighbor(peers, walk.querier, chosen):
        world.outcomes.rows[walk.question].new_neighbor = chosen
        world.outcomes.rows[walk.question].advertised = peers.held[chosen, 0]
        _add_neighbor(peers, walk.querier, chosen)


@_compiled
def _recall_of_exact(world: World) -> np.float32:
    """Share of the five best documents of all other peers that the result holds."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    wanted = 0
    got = 0
    for document in world.similarities.order[walk.query]:
        own = holds(world.peers, walk.querier, document)
        if world.peers.holders[document] > own:
            wanted += 1
            for place in range(min(walk.found, _EXACT)):
                got += scratch.result[place].document == document
            if wanted == _EXACT:
                break
    return np.float32(got / wanted) if wanted else np.float32(np.nan)


@_compiled
def _fetch(world: World) -> None:
    """Keep a copy of an introduced document, if it was found and its chain may grow."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk[0]
    number = world.questions.introduced[walk.document]
    for place in range(walk.found):
        found = scratch.result[place]
        if found.document == walk.document:
            world.outcomes.rows[walk.question].fetched = 1
            links = peers.chain[found.holder, number]
            if links < world.rules.longest_chain:
                hold(peers, walk.querier, walk.document)
                peers.chain[walk.querier, number] = links + 1


@_compiled
def _begin(world: World, question: int, querier: int) -> None:
    row, walk = world.questions.rows[question], world.scratch.walk[0]
    walk.random = row.stream
    walk.question = question
    walk.querier = querier
    walk.query = row.query
    walk.document = row.document
    walk.candidates = 0
    walk.open = 0
    walk.scored = 0
    walk.drawn = NOBODY
    walk.found = 0
    walk.visited = 0
    walk.unchanged = 0
    walk.to_target = 0
    walk.over = 0


@_compiled
def _ask(world: World, members: NDArray[np.int32], question: int) -> None:
    peers, rules, scratch = world.peers, world.rules, world.scratch
    row, outcome = world.questions.rows[question], world.outcomes.rows[question]
    querier = peers.at_place[row.place]
    own = holds(peers, querier, row.document)
    introduced = world.questions.introduced[row.document] != NOBODY
    if not peers.state[querier].up or (introduced and own):
        return
    outcome.asked = 1
    outcome.holders = peers.holders[row.document] - own
    _begin(world, question, querier)
    _walk(world, members)
    walk = scratch.walk[0]
    outcome.contacts = walk.visited
    outcome.requests_to_target = walk.to_target
    outcome.recall_at_1 = walk.found > 0 and scratch.result[0].document == row.document
    if rules.adaptive:
        _rewire(world)
    if not rules.stops_at_target:
        outcome.recall_at_5 = _recall_of_exact(world)
    for place in range(min(walk.found, world.outcomes.found.shape[1])):
        world.outcomes.found[question, place] = scratch.result[place].document
    if introduced:
        _fetch(world)


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
