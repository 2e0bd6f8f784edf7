"""What the vectorised simulator keeps: everything is a number, and every store an array.

A document or query is its position in the workload, a peer its position among all that there ever
were. Similarities are read from tables. Compiled code (`simulation.kernel`) works on these arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: In place of a peer, a document or a number.
NOBODY = -1

#: Where a walk starts (`routing.strategy.Start`).
OWN_STATE, NEIGHBORS, ROSTER = 0, 1, 2


class Rules(NamedTuple):
    """What all peers do alike; numbers stand for the names in `config.RoutingConfig`.

    Attributes:
        start: Where walks start.
        scored: Whether evidence counts.
        adaptive: Whether walks bring a new neighbour.
        explores: Whether members are asked once the frontier is dry.
        settles: Whether walks stop when settled.
        by_document: Whether referrals are by document.
        evidence: Whether a walk looks at the document behind a referral to a peer.
        wants: Whether who has most of the wanted documents is asked next.
        completes: Whether walks stop when nothing is wanted.
        adopts_unknown: Whether the new neighbour has to have a document not known to be advertised.
        stops_at_target: Whether walks stop at a holder of the answer.
        k: Documents wanted.
        budget: Contact budget.
        fanout: Requests of a round.
        referrals: Most referrals, or documents referred to.
        memory_referrals: Most referrals by query memory beside these.
        remembers: Whether peers remember who asked what.
        margin: Standard errors by which advertised scores may be off.
        known: Most documents that a walk by documents starts from.
        patience: Contacts that have to bring nothing before evidence stops a walk.
        draws: Members drawn to explore.
        longest_chain: Statements of the longest attribution.
    """

    start: int
    scored: bool
    adaptive: bool
    explores: bool
    settles: bool
    by_document: bool
    evidence: bool
    wants: bool
    completes: bool
    adopts_unknown: bool
    stops_at_target: bool
    k: int
    budget: int
    fanout: int
    referrals: int
    memory_referrals: int
    remembers: bool
    margin: float
    known: int
    patience: int
    draws: int
    longest_chain: int


class Similarities(NamedTuple):
    """Tables of similarities: an entry for each query that is asked now, of all or of a part.

    Attributes:
        advertised: float32 [entries, documents], with the vectors as advertised.
        remembered: float32 [entries, queries].
        error: float32 [documents], standard error of what is advertised of each.
        exact: float64 [entries, documents], with the vectors as returned in results.
        rank: int32 [entries, documents], position of a document in the order of `exact`.
        order: int32 [entries, documents], the documents in that order.
    """

    advertised: NDArray[np.float32]
    remembered: NDArray[np.float32]
    error: NDArray[np.float32]
    exact: NDArray[np.float64]
    rank: NDArray[np.int32]
    order: NDArray[np.int32]


#: What a peer is, has and counts.
PEER = np.dtype(
    [
        ("up", np.int32),
        ("id_order", np.int32),  # position among all peers by the text of their ids
        ("neighbor_count", np.int32),
        ("memory_count", np.int32),
        ("memory_oldest", np.int32),  # row of the oldest remembered query
        ("table_count", np.int32),  # numbers handed out so far
        ("free_count", np.int32),  # of these, to be handed out again
        ("place", np.int32),  # of the workload that it fills or filled
        ("gone", np.int32),  # everybody knows that it is not up any more
    ]
)

#: A question.
QUESTION = np.dtype(
    [
        ("stream", np.uint64),  # state in which its random numbers begin
        ("place", np.int32),  # of the workload, whose peer asks
        ("query", np.int32),
        ("entry", np.int32),  # of the query in the tables of similarities
        ("document", np.int32),  # the answer
    ],
    align=True,
)

#: What became of a question.
OUTCOME = np.dtype(
    [
        ("asked", np.int32),
        ("holders", np.int32),  # other peers that hold the document
        ("requests_to_target", np.int32),  # 0 without a hit
        ("recall_at_1", np.int32),
        ("recall_at_5", np.float32),  # nan where not measured
        ("contacts", np.int32),
        ("rounds", np.int32),  # of requests sent at once
        ("replies", np.int32),
        ("failures", np.int32),  # contacts given up before the target was found
        ("documents", np.int32),  # in all replies
        ("referrals", np.int32),  # in all replies
        ("more_evidence", np.int32),  # in these, beyond one piece each
        ("have", np.int32),  # documents named as found, in all requests
        ("new_neighbor", np.int32),  # or NOBODY
        ("advertised", np.int32),  # documents in the new neighbour's advertisement
        ("fetched", np.int32),
    ]
)

#: The question under way.
WALK = np.dtype(
    [
        ("random", np.uint64),  # state of its random numbers
        ("question", np.int32),
        ("querier", np.int32),
        ("query", np.int32),
        ("entry", np.int32),
        ("document", np.int32),
        ("candidates", np.int32),
        ("open", np.int32),  # candidates that were not asked yet
        ("scored", np.int32),  # candidates that ever had a score
        ("drawn", np.int32),  # members drawn to explore, or NOBODY
        ("found", np.int32),  # documents in the result
        ("visited", np.int32),
        ("unchanged", np.int32),  # contacts since the result changed last
        ("told", np.int32),  # documents of the result when the round under way was sent
        ("promises", np.int32),  # documents that the walk knows of
        ("pairs", np.int32),  # of a candidate and a document
        ("knows", np.int32),  # whose advertisements the peer that is asked has
        ("evidence", np.int32),  # documents in its referrals
        ("to_target", np.int32),  # contacts up to the target, or 0
        ("over", np.int32),
    ],
    align=True,
)

#: A peer that the walk knows of.
CANDIDATE = np.dtype(
    [
        ("peer", np.int32),
        ("open", np.int32),  # `OPEN`, `COMING`, or 0 when it was asked
        ("score", np.float32),
        ("scored", np.int32),  # how many had a score before this one had, or NOBODY
    ]
)

#: What a peer that was asked says in favour of another one.
REFERRAL = np.dtype(
    [
        ("documents", np.uint64),  # of `Scratch.documents`, bit by bit
        ("peer", np.int32),
        ("number", np.int32),  # in the state of the peer that is asked
        ("score", np.float32),
    ],
    align=True,
)

#: When a peer was last a candidate, and which one.
SEEN = np.dtype([("question", np.int32), ("candidate", np.int32)])

#: An advertised document that the walk knows of.
PROMISE = np.dtype(
    [
        ("document", np.int32),
        ("settled", np.int32),  # returned, or not good enough
        ("known", np.int32),  # advertised to the querier itself
        ("state", np.int32),  # of those that advertise it: `OPEN`, `COMING`
        ("wanted", np.int32),
        ("score", np.float32),
    ]
)

#: A candidate advertises a document.
PAIR = np.dtype([("candidate", np.int32), ("promise", np.int32)])

#: How much of what is wanted a candidate advertises.
OFFER = np.dtype([("count", np.int32), ("score", np.float32)])

#: States of a candidate that was not asked yet, and of one whose answer is awaited.
OPEN, COMING = 1, 2

#: A document among the best that a peer knows to be advertised.
ADVERTISED = np.dtype([("document", np.int32), ("score", np.float32)])

#: A peer that another one knows the advertisement of, and which of `ADVERTISED` it has, bit by bit.
KNOWN = np.dtype(
    [("documents", np.uint64), ("preference", np.uint64), ("peer", np.int32)], align=True
)

#: A document of the result and who returned it first.
FOUND = np.dtype([("document", np.int32), ("holder", np.int32)])

Records = NDArray[np.void]


class Peers(NamedTuple):
    """State of every peer, a row each.

    Attributes:
        at_place: int32 [places], the peer that fills a place of the workload.
        sketches: int32 [places, sketches], places whose advertisements a place keeps.
        state: `PEER` [n].
        held: int32 [n, 1 + most documents], how many documents it holds, then these, in the order
            they came.
        chain: int8 [n, introduced documents], statements in the attribution of a held copy.
        neighbors: int32 [n, neighbour limit], oldest first.
        neighbor_number: int16 [n, neighbour limit], the number of a neighbour whose advertisement
            is held, else `NOBODY`.
        memory_query: uint32 [n, memory limit], remembered queries, a ring.
        memory_number: uint16 [n, memory limit], the numbers of who asked them.
        table: int32 [n, numbers], the peer that a number stands for.
        references: int16 [n, numbers], how often a number is used.
        free: int16 [n, numbers], numbers to be handed out again, the last one first.
        holders: int32 [documents], peers that are up and hold a document.
    """

    at_place: NDArray[np.int32]
    sketches: NDArray[np.int32]
    state: Records
    held: NDArray[np.int32]
    chain: NDArray[np.int8]
    neighbors: NDArray[np.int32]
    neighbor_number: NDArray[np.int16]
    memory_query: NDArray[np.uint32]
    memory_number: NDArray[np.uint16]
    table: NDArray[np.int32]
    references: NDArray[np.int16]
    free: NDArray[np.int16]
    holders: NDArray[np.int32]


class Questions(NamedTuple):
    """The questions.

    Attributes:
        rows: `QUESTION` [n].
        introduced: int32 [documents], number of a document among those introduced later, else
            `NOBODY`.
    """

    rows: Records
    introduced: NDArray[np.int32]


class Outcomes(NamedTuple):
    """What became of the questions, a row each; arrays of width 0 are not wanted.

    Attributes:
        rows: `OUTCOME` [n].
        visited: int32 [n, budget or 0], whom the question went to.
        referred: int32 [n, budget * referrals or 0], who was referred to, contact by contact.
        found: int32 [n, k], the documents of the result, best first, then `NOBODY`.
    """

    rows: Records
    visited: NDArray[np.int32]
    referred: NDArray[np.int32]
    found: NDArray[np.int32]


class Scratch(NamedTuple):
    """Memory that walks use one after the other.

    Attributes:
        walk: `WALK` [1].
        candidates: `CANDIDATE` [candidates].
        seen: `SEEN` [peers].
        asked: int32 [fanout], candidates of the round under way.
        drawn: int32 [draws], peers drawn to explore.
        order: int32 [draws or neighbour limit], peers put in order.
        result: `FOUND` [k], the result so far, best first.
        best: float32 [numbers], best score of a number at the peer that is asked.
        referrals: `REFERRAL` [referrals], its referrals, best first.
        reply: int32 [k], its documents, best first.
        told: `FOUND` [k], the result when the round under way was sent.
        promises: `PROMISE` [documents at most].
        promise_of: `SEEN` [documents], number of a document among the promises of a question.
        pairs: `PAIR` [pairs at most].
        offers: `OFFER` [candidates].
        wanted: int32 [wanted at most], promises, best first.
        sure: float64 [k], the best scores that there are sure to be.
        documents: `ADVERTISED` [known or referrals], what the peer asked knows, best first.
        knows: `KNOWN` [sketches + neighbour limit], whose advertisements it has.
        holders: int32 [holders at most], of one document, best first.
    """

    walk: Records
    candidates: Records
    seen: Records
    asked: NDArray[np.int32]
    drawn: NDArray[np.int32]
    order: NDArray[np.int32]
    result: Records
    best: NDArray[np.float32]
    referrals: Records
    reply: NDArray[np.int32]
    told: Records
    promises: Records
    promise_of: Records
    pairs: Records
    offers: Records
    wanted: NDArray[np.int32]
    sure: NDArray[np.float64]
    documents: Records
    knows: Records
    holders: NDArray[np.int32]


class World(NamedTuple):
    """Everything a walk reads and changes."""

    rules: Rules
    similarities: Similarities
    peers: Peers
    questions: Questions
    outcomes: Outcomes
    scratch: Scratch
