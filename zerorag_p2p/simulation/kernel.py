"""The compiled part of the vectorised simulator: peers as rows of arrays, walks as loops.

It does what `peer.Peer` and `routing.walk.Walk` do, decision by decision, ties included; a
permanent test holds it against them. Vectors are gone: a document or query is a number, and every
similarity is read from tables that are computed once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.simulation.arrays import (
    COMING,
    NEIGHBORS,
    NOBODY,
    OPEN,
    OWN_STATE,
    Peers,
    Rules,
    Scratch,
    Similarities,
    World,
)
from zerorag_p2p.simulation.candidates import best_candidate, best_referral, consider
from zerorag_p2p.simulation.compiled import NEVER, below, compiled, preference, shuffle
from zerorag_p2p.simulation.documents import (
    best_offer,
    consider_document,
    consider_documents,
    find_wanted,
    is_cold,
    is_known,
    is_of_use,
    note_known,
    refer_to_few,
    settle,
    start_from_documents,
)
from zerorag_p2p.simulation.peer_state import (
    add_neighbor,
    hold,
    holds,
    is_neighbor,
    number_of,
    remember,
    see_advertisement,
)

#: Documents of the exact answer that results are compared with.
_EXACT = 5

# As the queried peer (`peer.Peer.answer`).


@compiled
def _search(world: World, peer: int, entry: int) -> int:
    """Put the best k documents of a peer into `Scratch.reply`; how many there are."""
    held, k = world.peers.held[peer], world.rules.k
    rank = world.similarities.rank[entry]
    reply = world.scratch.reply
    count = 0
    for row in range(1, 1 + held[0]):
        document = held[row]
        if world.rules.wants and not is_of_use(world, document):
            continue
        if count == k and rank[document] > rank[reply[count - 1]]:
            continue
        position = min(count, k - 1)
        while position > 0 and rank[document] < rank[reply[position - 1]]:
            reply[position] = reply[position - 1]
            position -= 1
        reply[position] = document
        count = min(count + 1, k)
    return count


@compiled
def _advertised(
    peers: Peers, similarities: Similarities, peer: int, entry: int
) -> tuple[np.float32, int]:
    """The best score among what a peer advertises, and of which document."""
    held = peers.held[peer]
    scores = similarities.advertised[entry]
    best, best_document = NEVER, NOBODY
    for row in range(1, 1 + held[0]):
        score = scores[held[row]]
        if score > best:
            best, best_document = score, held[row]
    return best, best_document


@compiled
def _refer(world: World, peer: int, excluded: int, entry: int) -> int:
    """Put a peer's best referrals into `Scratch.referrals`; how many there are."""
    peers, similarities = world.peers, world.similarities
    state = peers.state[peer]
    best = world.scratch.best
    for number in range(state.table_count):
        best[number] = NEVER
    for slot in range(state.neighbor_count):  # ahead of their use, so that cache misses overlap
        world.scratch.order[slot] = peers.held[peers.neighbors[peer, slot], 0]
    for slot in range(state.neighbor_count):
        if peers.neighbor_number[peer, slot] == NOBODY:
            before = state.table_count
            see_advertisement(peers, peer, slot)
            if state.table_count > before:
                best[before] = NEVER
        number = peers.neighbor_number[peer, slot]
        if number != NOBODY:
            best[number] = _advertised(peers, similarities, peers.neighbors[peer, slot], entry)[0]
    remembered = similarities.remembered[entry]
    queries, numbers = peers.memory_query[peer], peers.memory_number[peer]
    for row in range(state.memory_count):
        number = numbers[row]
        best[number] = max(best[number], remembered[queries[row]])
    number = number_of(peers, peer, excluded)
    if number != NOBODY:
        best[number] = NEVER
    found = _take_best(world.rules, world.scratch, state.table_count)
    for place in range(found):
        referral = world.scratch.referrals[place]
        referral.peer = peers.table[peer, referral.number]
    return found


@compiled
def _take_best(rules: Rules, scratch: Scratch, count: int) -> int:
    """The numbers with the best scores; of equal ones the larger number goes first."""
    best, referrals = scratch.best, scratch.referrals
    found = 0
    least = NEVER
    for number in range(count - 1, -1, -1):
        score = best[number]
        if score <= least:
            continue
        position = min(found, rules.referrals - 1)
        while position > 0 and referrals[position - 1].score < score:
            referrals[position].score = referrals[position - 1].score
            referrals[position].number = referrals[position - 1].number
            position -= 1
        referrals[position].score = score
        referrals[position].number = number
        found = min(found + 1, rules.referrals)
        if found == rules.referrals:
            least = referrals[found - 1].score
    return found


@compiled
def _refer_by_memory(world: World, peer: int, excluded: int, found: int) -> int:
    """Add the best peers by query memory alone to the first `found` referrals; how many then."""
    peers, scratch, rules = world.peers, world.scratch, world.rules
    best = scratch.best
    state = peers.state[peer]
    if state.memory_count == 0 or rules.memory_referrals == 0:
        return found
    for number in range(state.table_count):
        best[number] = NEVER
    remembered = world.similarities.remembered[scratch.walk[0].entry]
    queries, numbers = peers.memory_query[peer], peers.memory_number[peer]
    for row in range(state.memory_count):
        number = numbers[row]
        best[number] = max(best[number], remembered[queries[row]])
    for place in range(-1, found):
        other = excluded if place == -1 else scratch.referrals[place].peer
        number = number_of(peers, peer, other)
        if number != NOBODY:
            best[number] = NEVER
    count = found
    for _ in range(rules.memory_referrals):
        taken = NOBODY
        for number in range(state.table_count):
            if best[number] == NEVER:
                continue
            if taken == NOBODY or best[number] > best[taken]:
                taken = number
            elif best[number] == best[taken]:
                liked = preference(peer, peers.table[peer, number])
                if liked < preference(peer, peers.table[peer, taken]):
                    taken = number
        if taken == NOBODY:
            break
        scratch.referrals[count].peer = peers.table[peer, taken]
        scratch.referrals[count].score = best[taken]
        scratch.referrals[count].documents = 0
        best[taken] = NEVER
        count += 1
    return count


@compiled
def _answer_referrals(world: World, peer: int) -> int:
    """Put the referrals of a peer that is asked into `Scratch.referrals`; how many there are."""
    walk = world.scratch.walk[0]
    if world.rules.by_document:
        found = refer_to_few(world, peer)
        return _refer_by_memory(world, peer, walk.querier, found)
    found = _refer(world, peer, walk.querier, walk.entry)
    walk.evidence = found
    return found


# As the querier (`routing.walk.Walk`).


@compiled
def _consider_referrals(world: World, peer: int, found: int) -> None:
    for place in range(found):
        referral = world.scratch.referrals[place]
        if world.rules.by_document and referral.documents:
            consider_documents(world, place)
        elif consider(world, referral.peer, referral.score) != NOBODY and world.rules.evidence:
            _consider_evidence(world, peer, referral.peer)


@compiled
def _consider_evidence(world: World, peer: int, other: int) -> None:
    """Take in the best document that `peer` knows `other` to advertise, if it knows any."""
    peers, walk = world.peers, world.scratch.walk[0]
    for slot in range(peers.state[peer].neighbor_count):
        advertised = peers.neighbor_number[peer, slot] != NOBODY
        if advertised and peers.neighbors[peer, slot] == other:
            score, document = _advertised(peers, world.similarities, other, walk.entry)
            consider_document(world, other, document, score)


@compiled
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
        member = members[below(size, scratch)]
        known = False
        for earlier in range(count):
            known |= scratch.drawn[earlier] == member
        if not known:
            scratch.drawn[count] = member
            count += 1
    walk.drawn = count


@compiled
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
    shuffle(fresh, count, scratch)
    for number in range(count):
        consider(world, fresh[number], NEVER)


@compiled
def _start_from_memory(world: World) -> None:
    """Candidates by the querier's own query memory that have no document advertised."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    known = walk.candidates
    for place in range(known):
        scratch.referrals[place].peer = scratch.candidates[place].peer
    found = _refer_by_memory(world, walk.querier, walk.querier, known)
    for place in range(known, found):
        consider(world, scratch.referrals[place].peer, scratch.referrals[place].score)


@compiled
def _start(world: World, members: NDArray[np.int32]) -> None:
    """Put the first candidates into the frontier."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk[0]
    querier = walk.querier
    if world.rules.start == OWN_STATE and world.rules.by_document:
        start_from_documents(world)
        _start_from_memory(world)
        return
    if world.rules.start == OWN_STATE:
        found = _refer(world, querier, querier, walk.entry)
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
        shuffle(first, count, scratch)
    for number in range(count):
        consider(world, first[number], NEVER)


@compiled
def _settled(world: World) -> bool:
    """Whether nothing better than the result is advertised (`strategy.stop_when_settled`)."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    found = walk.found
    if found < world.rules.k or walk.unchanged < world.rules.patience:
        return False
    worst = world.similarities.exact[walk.entry, scratch.result[found - 1].document]
    for place in range(walk.pairs):
        pair = scratch.pairs[place]
        promise = scratch.promises[pair.promise]
        if scratch.candidates[pair.candidate].open == OPEN and promise.score > worst:
            held = False
            for number in range(found):
                held |= scratch.result[number].document == promise.document
            if not held:
                return False
    return True


@compiled
def _complete(world: World) -> bool:
    """Whether nothing is wanted any more (`strategy.stop_when_nothing_is_wanted`)."""
    walk = world.scratch.walk[0]
    if walk.found < world.rules.k or walk.unchanged < world.rules.patience:
        return False
    return bool(find_wanted(world, False) == 0)


@compiled
def _choose(world: World, asked: int) -> int:
    """Place of the candidate to ask next, or `NOBODY` to wait for those `asked` in this round."""
    if world.rules.wants:
        if find_wanted(world, asked > 0):
            return best_offer(world)
        if asked and not is_cold(world):
            return NOBODY
    return best_candidate(world.scratch)


@compiled
def _choose_round(world: World, members: NDArray[np.int32]) -> int:
    """Take the candidates to ask next out of the frontier; how many there are."""
    rules, scratch, walk = world.rules, world.scratch, world.scratch.walk[0]
    asked = 0
    walk.told = walk.found
    for place in range(walk.found):
        scratch.told[place].document = scratch.result[place].document
    while asked < rules.fanout and walk.visited + asked < rules.budget:
        if (rules.settles and _settled(world)) or (
            rules.completes and asked == 0 and _complete(world)
        ):
            break
        if walk.open == 0 and asked == 0 and rules.explores:
            _draw_members(world, members)
            _explore(world)
        place = _choose(world, asked)
        if place == NOBODY:
            break
        scratch.candidates[place].open = COMING
        walk.open -= 1
        scratch.asked[asked] = place
        asked += 1
    return asked


@compiled
def _merge(world: World, sender: int, count: int) -> None:
    """Take the documents of a reply into the result."""
    scratch, walk, k = world.scratch, world.scratch.walk[0], world.rules.k
    rank = world.similarities.rank[walk.entry]
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


@compiled
def _contact(world: World, peer: int, number: int) -> None:
    """Ask a peer that is up, as contact `number` of the walk, and take in what it says."""
    peers, rules, scratch = world.peers, world.rules, world.scratch
    walk = scratch.walk[0]
    outcome = world.outcomes.rows[walk.question]
    count = _search(world, peer, walk.entry)
    found = _answer_referrals(world, peer)
    outcome.replies += 1
    outcome.documents += count
    outcome.referrals += found
    outcome.more_evidence += max(0, walk.evidence - found)
    outcome.have += walk.told if rules.wants else 0
    if world.outcomes.referred.shape[1]:
        width = rules.referrals + rules.memory_referrals
        for place in range(found):
            other = scratch.referrals[place].peer
            world.outcomes.referred[walk.question, number * width + place] = other
    if not walk.over:
        _merge(world, peer, count)
        settle(world, scratch.seen[peer].candidate, count)
        _consider_referrals(world, peer, found)
        if walk.to_target == 0 and holds(peers, peer, walk.document):
            walk.to_target = number + 1
            walk.over = rules.stops_at_target
    if rules.remembers:
        remember(peers, peer, walk.querier, walk.query)


@compiled
def _walk(world: World, members: NDArray[np.int32]) -> None:
    """Ask until the target, a rule, the budget or the frontier ends it."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    _start(world, members)
    note_known(world)
    while not walk.over:
        asked = _choose_round(world, members)
        if asked == 0:
            break
        world.outcomes.rows[walk.question].rounds += 1
        silent = 0
        for number in range(asked):
            scratch.candidates[scratch.asked[number]].open = 0
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


@compiled
def _rewire(world: World) -> None:
    """Take a new neighbour (`strategy.choose_by_best_document`)."""
    peers, scratch, walk = world.peers, world.scratch, world.scratch.walk[0]
    if world.rules.adopts_unknown:
        chosen = _holder_of_unknown(world)
    elif walk.found:
        chosen = scratch.result[0].holder
    else:
        chosen = best_referral(scratch)
    if chosen != NOBODY and not is_neighbor(peers, walk.querier, chosen):
        world.outcomes.rows[walk.question].new_neighbor = chosen
        world.outcomes.rows[walk.question].advertised = peers.held[chosen, 0]
        add_neighbor(peers, walk.querier, chosen)


@compiled
def _holder_of_unknown(world: World) -> int:
    """Who returned the best document that nobody was known to advertise, or `NOBODY`."""
    for place in range(world.scratch.walk[0].found):
        found = world.scratch.result[place]
        if not is_known(world, found.document):
            return int(found.holder)
    return NOBODY


@compiled
def _recall_of_exact(world: World) -> np.float32:
    """Share of the five best documents of all other peers that the result holds."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    wanted = 0
    got = 0
    for document in world.similarities.order[walk.entry]:
        own = holds(world.peers, walk.querier, document)
        if world.peers.holders[document] > own:
            wanted += 1
            for place in range(min(walk.found, _EXACT)):
                got += scratch.result[place].document == document
            if wanted == _EXACT:
                break
    return np.float32(got / wanted) if wanted else np.float32(np.nan)


@compiled
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


@compiled
def _begin(world: World, question: int, querier: int) -> None:
    row, walk = world.questions.rows[question], world.scratch.walk[0]
    walk.random = row.stream
    walk.question = question
    walk.querier = querier
    walk.query = row.query
    walk.entry = row.entry
    walk.document = row.document
    walk.candidates = 0
    walk.open = 0
    walk.scored = 0
    walk.drawn = NOBODY
    walk.found = 0
    walk.visited = 0
    walk.told = 0
    walk.promises = 0
    walk.pairs = 0
    walk.unchanged = 0
    walk.to_target = 0
    walk.over = 0


@compiled
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


@compiled
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
