"""Compiled: going after documents (`routing.referrals`, `Walk.wanted`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.routing.evidence import DOUBT
from zerorag_p2p.simulation.arrays import COMING, NOBODY, OPEN, Scratch, World
from zerorag_p2p.simulation.candidates import consider
from zerorag_p2p.simulation.compiled import NEVER, compiled, preference
from zerorag_p2p.simulation.peer_state import see_advertisement

_NOT_SCORED = -np.inf

# What a peer knows others to advertise (`routing.adverts.AdvertisementStore.best_documents`).


@compiled
def _margin(world: World, document: int) -> np.float64:
    return np.float64(world.rules.margin * np.float64(world.similarities.error[document]))


@compiled
def find_documents(world: World, peer: int, excluded: int, limit: int, told: bool) -> int:
    """Put the best documents that a peer knows to be advertised into `Scratch.documents`.

    Args:
        world: Read.
        peer: Whose knowledge it is.
        excluded: A peer whose advertisement does not count.
        limit: Most documents.
        told: Whether the querier has told what it found, so that only better ones count.

    Returns:
        How many there are. `Scratch.knows` then holds who has which of them.
    """
    known = _find_known(world, peer, excluded)
    scratch, walk = world.scratch, world.scratch.walk[0]
    scores = world.similarities.advertised[walk.entry]
    above = _NOT_SCORED
    if told and walk.told == world.rules.k:
        above = world.similarities.exact[walk.entry, scratch.told[walk.told - 1].document]
    documents = scratch.documents
    count = 0
    for place in range(known):
        held = world.peers.held[scratch.knows[place].peer]
        for row in range(1, 1 + held[0]):
            document = held[row]
            score = scores[document]
            if count == limit and score <= documents[count - 1].score:
                continue
            reach = np.float64(score) + _margin(world, document)
            if not reach > above or (told and _is_told(scratch, document)):
                continue
            repeated = False
            for earlier in range(count):
                repeated |= documents[earlier].document == document
            if repeated:
                continue
            position = min(count, limit - 1)
            while position > 0 and documents[position - 1].score < score:
                documents[position].document = documents[position - 1].document
                documents[position].score = documents[position - 1].score
                position -= 1
            documents[position].document = document
            documents[position].score = score
            count = min(count + 1, limit)
    _note_holdings(world, peer, known, count)
    return count


@compiled
def _find_known(world: World, peer: int, excluded: int) -> int:
    """Whose advertisements a peer has, into `Scratch.knows`; how many there are."""
    peers, knows = world.peers, world.scratch.knows
    count = 0
    for place in peers.sketches[peers.state[peer].place]:
        other = peers.at_place[place]
        if other != excluded and not peers.state[other].gone:
            knows[count].peer = other
            count += 1
    sketched = count
    for slot in range(peers.state[peer].neighbor_count):
        if peers.neighbor_number[peer, slot] == NOBODY:
            see_advertisement(peers, peer, slot)
        if peers.neighbor_number[peer, slot] == NOBODY:
            continue
        other = peers.neighbors[peer, slot]
        repeated = other == excluded
        for place in range(sketched):
            repeated |= knows[place].peer == other
        if not repeated:
            knows[count].peer = other
            count += 1
    world.scratch.walk[0].knows = count
    return count


@compiled
def is_of_use(world: World, document: int) -> bool:
    """Whether a querier that has told what it found can make use of a document."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    if _is_told(scratch, document):
        return False
    if walk.told < world.rules.k:
        return True
    exact = world.similarities.exact[walk.entry]
    return bool(exact[document] > exact[scratch.told[walk.told - 1].document])


@compiled
def _is_told(scratch: Scratch, document: int) -> bool:
    found = False
    for place in range(scratch.walk[0].told):
        found |= scratch.told[place].document == document
    return found


@compiled
def _note_holdings(world: World, peer: int, known: int, count: int) -> None:
    """Who has which of `Scratch.documents`, and how much they are preferred to equals."""
    scratch = world.scratch
    documents = scratch.documents
    scores = world.similarities.advertised[scratch.walk[0].entry]
    least = documents[count - 1].score if count else np.float32(np.inf)
    for place in range(known):
        knows = scratch.knows[place]
        held = world.peers.held[knows.peer]
        found = np.uint64(0)
        for row in range(1, 1 + held[0]):
            if scores[held[row]] >= least:
                for number in range(count):
                    if documents[number].document == held[row]:
                        found |= np.uint64(1) << np.uint64(number)
        knows.documents = found
        if found:
            knows.preference = preference(peer, knows.peer)


@compiled
def _count(documents: np.uint64) -> int:
    count = 0
    while documents:
        documents &= documents - np.uint64(1)
        count += 1
    return count


@compiled
def _goes_before(scratch: Scratch, place: int, other: int) -> bool:
    """Whether who is at `place` of `Scratch.knows` has more documents, or as many and is liked."""
    first, second = scratch.knows[place], scratch.knows[other]
    count, other_count = _count(first.documents), _count(second.documents)
    if count != other_count:
        return count > other_count
    return bool(first.preference < second.preference)


# Referrals (`routing.referrals`).


@compiled
def refer_to_few(world: World, peer: int) -> int:
    """For the documents that a peer knows, few others that have them; how many there are.

    They are put into `Scratch.referrals`, the documents of each as bits.
    """
    scratch, rules = world.scratch, world.rules
    walk = scratch.walk[0]
    count = find_documents(world, peer, walk.querier, rules.referrals, rules.wants)
    chosen = 0
    for number in range(count):
        bit = np.uint64(1) << np.uint64(number)
        taken = False
        for place in range(chosen):
            referral = scratch.referrals[place]
            if not taken and scratch.knows[referral.number].documents & bit:
                referral.documents |= bit
                taken = True
        if taken:
            continue
        best = NOBODY
        for place in range(walk.knows):
            if scratch.knows[place].documents & bit and (
                best == NOBODY or _goes_before(scratch, place, best)
            ):
                best = place
        scratch.referrals[chosen].number = best
        scratch.referrals[chosen].documents = bit
        chosen += 1
    for place in range(chosen):
        scratch.referrals[place].peer = scratch.knows[scratch.referrals[place].number].peer
    walk.evidence = count
    return chosen


@compiled
def consider_documents(world: World, place: int) -> None:
    """Take in the referral at a place of `Scratch.referrals`, with all its documents."""
    scratch = world.scratch
    referral = scratch.referrals[place]
    number = 0
    rest = referral.documents
    while rest:
        if rest & np.uint64(1):
            document = scratch.documents[number].document
            consider_document(world, referral.peer, document, scratch.documents[number].score)
        rest >>= np.uint64(1)
        number += 1


@compiled
def consider_document(world: World, peer: int, document: int, score: np.float32) -> None:
    """Take in that a peer advertises a document."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    candidate = consider(world, peer, score)
    if candidate == NOBODY:
        return
    promise = _promise_of(world, document)
    scratch.promises[promise].score = score
    for place in range(walk.pairs):
        pair = scratch.pairs[place]
        if pair.candidate == candidate and pair.promise == promise:
            return
    scratch.pairs[walk.pairs].candidate = candidate
    scratch.pairs[walk.pairs].promise = promise
    walk.pairs += 1


@compiled
def start_from_documents(world: World) -> None:
    """Put everybody into the frontier that is known to have one of the best documents."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    count = find_documents(world, walk.querier, walk.querier, world.rules.known, False)
    holders = scratch.holders
    # Candidates come in the order in which they have a document, each with all of its own.
    for number in range(count):
        bit = np.uint64(1) << np.uint64(number)
        found = 0
        for place in range(walk.knows):
            if not scratch.knows[place].documents & bit:
                continue
            if found == len(holders) and not _goes_before(scratch, place, holders[found - 1]):
                continue
            position = min(found, len(holders) - 1)
            while position > 0 and _goes_before(scratch, place, holders[position - 1]):
                holders[position] = holders[position - 1]
                position -= 1
            holders[position] = place
            found = min(found + 1, len(holders))
        for holder in holders[:found]:
            document = scratch.documents[number]
            consider_document(world, scratch.knows[holder].peer, document.document, document.score)


@compiled
def note_known(world: World) -> None:
    """The documents that the walk starts from are those that the querier's own state knows."""
    for promise in world.scratch.promises[: world.scratch.walk[0].promises]:
        promise.known = 1


# What the walk still wants (`routing.walk.Walk.wanted`).


@compiled
def _promise_of(world: World, document: int) -> int:
    scratch, walk = world.scratch, world.scratch.walk[0]
    seen = scratch.promise_of[document]
    if seen.question != walk.question:
        seen.question = walk.question
        seen.candidate = walk.promises
        fresh = scratch.promises[walk.promises]
        fresh.document = document
        fresh.settled = 0
        fresh.known = 0
        fresh.score = NEVER
        walk.promises += 1
    promise: int = seen.candidate
    return promise


@compiled
def is_known(world: World, document: int) -> bool:
    """Whether the querier's own state knew a document to be advertised."""
    seen = world.scratch.promise_of[document]
    known: bool = (
        seen.question == world.scratch.walk[0].question
        and world.scratch.promises[seen.candidate].known != 0
    )
    return known


@compiled
def settle(world: World, candidate: int, returned: int) -> None:
    """Want no more what a candidate returned, nor what was not good enough (`Walk._settle`)."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    for number in range(returned):
        scratch.promises[_promise_of(world, scratch.reply[number])].settled = 1
    if walk.found < world.rules.k:
        return
    worst = world.similarities.exact[walk.entry, scratch.result[walk.found - 1].document]
    for place in range(walk.pairs):
        if scratch.pairs[place].candidate == candidate:
            promise = scratch.promises[scratch.pairs[place].promise]
            error = np.float64(world.similarities.error[promise.document])
            if np.float64(promise.score) - DOUBT * error <= worst:
                promise.settled = 1


@compiled
def find_wanted(world: World, expected: bool) -> int:
    """Mark the documents that are wanted; how many there are.

    Args:
        world: Changed.
        expected: Whether only those count that are expected to belong into the result.
    """
    scratch, walk = world.scratch, world.scratch.walk[0]
    for number in range(walk.promises):
        scratch.promises[number].state = 0
        scratch.promises[number].wanted = 0
    for place in range(walk.pairs):
        pair = scratch.pairs[place]
        scratch.promises[pair.promise].state |= scratch.candidates[pair.candidate].open
    looked_at = _take_promises(scratch)
    errors = 0.0 if expected else 1.0
    threshold = _threshold(world, looked_at, errors)
    wanted = 0
    for place in range(looked_at):
        promise = scratch.promises[scratch.wanted[place]]
        reach = np.float64(promise.score) + errors * _margin(world, promise.document)
        enough = reach >= threshold
        if promise.state == OPEN and enough:
            promise.wanted = 1
            wanted += 1
    return wanted


@compiled
def _take_promises(scratch: Scratch) -> int:
    """The promises with the best scores that are not settled, into `Scratch.wanted`."""
    wanted = scratch.wanted
    count = 0
    for number in range(scratch.walk[0].promises):
        promise = scratch.promises[number]
        if promise.settled or not promise.state:
            continue
        if count == len(wanted) and promise.score <= scratch.promises[wanted[count - 1]].score:
            continue
        position = min(count, len(wanted) - 1)
        while position > 0 and scratch.promises[wanted[position - 1]].score < promise.score:
            wanted[position] = wanted[position - 1]
            position -= 1
        wanted[position] = number
        count = min(count + 1, len(wanted))
    return count


@compiled
def _threshold(world: World, promises: int, errors: float) -> np.float64:
    """The k-th best score, of what is promised with `errors` margins taken off."""
    scratch, walk, k = world.scratch, world.scratch.walk[0], world.rules.k
    count = 0
    for place in range(walk.found):
        score = world.similarities.exact[walk.entry, scratch.result[place].document]
        count = _insert(scratch.sure, count, k, score)
    for place in range(promises):
        promise = scratch.promises[scratch.wanted[place]]
        score = np.float64(promise.score) - errors * _margin(world, promise.document)
        count = _insert(scratch.sure, count, k, score)
    return scratch.sure[k - 1] if count == k else np.float64(_NOT_SCORED)


@compiled
def _insert(best: NDArray[np.float64], count: int, limit: int, score: np.float64) -> int:
    """Keep a score if it is among the best; how many there are then."""
    if count == limit and score <= best[count - 1]:
        return count
    position = min(count, limit - 1)
    while position > 0 and best[position - 1] < score:
        best[position] = best[position - 1]
        position -= 1
    best[position] = score
    return min(count + 1, limit)


@compiled
def is_cold(world: World) -> bool:
    """Whether fewer than k documents are found or coming (`Walk.cold`)."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    for number in range(walk.promises):
        scratch.promises[number].state = 0
    for place in range(walk.pairs):
        pair = scratch.pairs[place]
        scratch.promises[pair.promise].state |= scratch.candidates[pair.candidate].open
    coming = 0
    for number in range(walk.promises):
        promise = scratch.promises[number]
        coming += promise.settled == 0 and (promise.state & COMING) != 0
    return bool(walk.found + coming < world.rules.k)


@compiled
def best_offer(world: World) -> int:
    """The candidate that advertises most of what is wanted (`strategy.choose_for_wanted`)."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    offers, candidates = scratch.offers, scratch.candidates
    for place in range(walk.candidates):
        offers[place].count = 0
        offers[place].score = NEVER
    best = NOBODY
    for place in range(walk.pairs):
        pair = scratch.pairs[place]
        promise = scratch.promises[pair.promise]
        if promise.wanted and candidates[pair.candidate].open == OPEN:
            offers[pair.candidate].count += 1
            offers[pair.candidate].score = max(offers[pair.candidate].score, promise.score)
    for place in range(walk.candidates):
        if offers[place].count and (best == NOBODY or _offers_more(scratch, place, best)):
            best = place
    return best


@compiled
def _offers_more(scratch: Scratch, place: int, other: int) -> bool:
    first, second = scratch.offers[place], scratch.offers[other]
    if first.count != second.count:
        return bool(first.count > second.count)
    if first.score != second.score:
        return bool(first.score > second.score)
    querier = scratch.walk[0].querier
    liked = preference(querier, scratch.candidates[place].peer)
    return bool(liked < preference(querier, scratch.candidates[other].peer))
