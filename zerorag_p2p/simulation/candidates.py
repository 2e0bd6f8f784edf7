"""Compiled: whom a walk may ask (`routing.walk.Candidate`)."""

from __future__ import annotations

import numpy as np

from zerorag_p2p.simulation.arrays import NOBODY, OPEN, Scratch, World
from zerorag_p2p.simulation.compiled import NEVER, compiled


@compiled
def consider(world: World, peer: int, score: np.float32) -> int:
    """Take in a referral; the candidate's place, or `NOBODY` if it was asked already."""
    scratch, walk = world.scratch, world.scratch.walk[0]
    if peer == walk.querier:
        return NOBODY
    seen = scratch.seen[peer]
    if seen.question != walk.question:
        seen.question = walk.question
        seen.candidate = walk.candidates
        fresh = scratch.candidates[walk.candidates]
        fresh.peer = peer
        fresh.open = OPEN
        fresh.score = NEVER
        fresh.scored = NOBODY
        walk.candidates += 1
        walk.open += 1
    candidate = scratch.candidates[seen.candidate]
    if candidate.open != OPEN:
        return NOBODY
    if world.rules.scored and score > candidate.score:
        if candidate.scored == NOBODY:
            candidate.scored = walk.scored
            walk.scored += 1
        candidate.score = score
    place: int = seen.candidate
    return place


@compiled
def best_candidate(scratch: Scratch) -> int:
    """Place of the candidate with the best score; of equal ones the one heard of first."""
    candidates = scratch.candidates
    best = NOBODY
    score = NEVER
    for place in range(scratch.walk[0].candidates):
        candidate = candidates[place]
        if candidate.open == OPEN and (best == NOBODY or candidate.score > score):
            best, score = place, candidate.score
    return best


@compiled
def best_referral(scratch: Scratch) -> int:
    """The peer with the best score there was; of equal ones the one that had it first."""
    best = NOBODY
    score = NEVER
    scored = 0
    for place in range(scratch.walk[0].candidates):
        candidate = scratch.candidates[place]
        if candidate.scored != NOBODY and (
            candidate.score > score or (candidate.score == score and candidate.scored < scored)
        ):
            best, score, scored = candidate.peer, candidate.score, candidate.scored
    return best
