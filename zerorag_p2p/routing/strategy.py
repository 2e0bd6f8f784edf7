"""The choices that make up a routing algorithm, each a function chosen by name.

A preset (`routing = "paper"`) names one of each; a configuration may replace any of them. All
take the walk or a piece of evidence and return a decision; none keeps state.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.errors import ConfigError
from zerorag_p2p.model import NEVER_COMPARED, PeerId, Score

if TYPE_CHECKING:
    from zerorag_p2p.routing.walk import Candidate, PeerReferral, Walk

_Choice = TypeVar("_Choice")


class Start(enum.StrEnum):
    """Where a walk begins.

    OWN_STATE_FIRST: the querier answers its own query first, at no message (algorithm 1).
    PAPER: the neighbours, unscored, the oldest first (the paper's prose; it gives no order, and a
        priority queue hands out equals as they came).
    ROSTER: every member, unscored, in random order.
    """

    OWN_STATE_FIRST = "own-state-first"
    PAPER = "paper"
    ROSTER = "roster"


@dataclass(frozen=True, slots=True)
class Strategy:
    """One routing algorithm.

    Attributes:
        start: Where a walk begins.
        score: Frontier score of a referral.
        choose_neighbor: The peer that becomes a neighbour after a walk.
        explore: Peers to ask once the frontier is dry.
        stop: Why a walk should end before its budget is spent, or None.
    """

    start: Start
    score: Callable[[PeerReferral], Score]
    choose_neighbor: Callable[[Walk], PeerId | None]
    explore: Callable[[Walk], Iterable[PeerId]]
    stop: Callable[[Walk], str | None]

    def describe(self, candidate: Candidate) -> str:
        """Which evidence led to a contact, for people."""
        advertised = candidate.advertised
        if advertised is not None and advertised.score >= candidate.score:
            return "advertisement"
        if candidate.remembered is not None:
            return "query memory"
        return "exploration"


def score_by_best(referral: PeerReferral) -> Score:
    """The larger of the two kinds of evidence (S in algorithm 2)."""
    score = NEVER_COMPARED if referral.advertised is None else referral.advertised.score
    return score if referral.remembered is None else max(score, referral.remembered)


def score_nothing(referral: PeerReferral) -> Score:
    """No evidence counts."""
    del referral
    return NEVER_COMPARED


def choose_nobody(walk: Walk) -> PeerId | None:
    """The neighbour view stays as it is."""
    del walk
    return None


def choose_by_best_document(walk: Walk) -> PeerId | None:
    """The peer that returned the best document, else the best referral (updateNeighbors)."""
    results = walk.results()
    if results:
        return results[0].holders[0]
    return walk.best_referral()


def explore_nobody(walk: Walk) -> Iterable[PeerId]:
    """Nobody: the walk ends with its frontier, as published."""
    del walk
    return ()


def explore_roster(walk: Walk) -> Iterable[PeerId]:
    """Every member that was not asked yet."""
    return (peer for peer in walk.roster if peer not in walk.visited and peer != walk.querier)


def stop_at_budget(walk: Walk) -> str | None:
    """Never before the budget is spent, as published."""
    del walk
    return None


def stop_when_settled(walk: Walk) -> str | None:
    """When k documents are held, nothing changed lately and nothing better is advertised.

    An advertisement promises more when it is of a document that is not held and its score beats
    the k-th document's.
    """
    worst = walk.worst_score()
    if worst == NEVER_COMPARED or walk.unchanged < walk.patience:
        return None
    held = walk.held_prefixes()
    for candidate in walk.frontier.values():
        advertised = candidate.advertised
        if advertised is not None and advertised.score > worst and advertised.document not in held:
            return None
    return f"settled: {walk.unchanged} contacts changed nothing and no advertisement promises more"


EVIDENCE: Final[Mapping[str, Callable[[PeerReferral], Score]]] = {
    "best": score_by_best,
    "none": score_nothing,
}
NEIGHBOR_CHOICES: Final[Mapping[str, Callable[[Walk], PeerId | None]]] = {
    "best-document": choose_by_best_document,
    "none": choose_nobody,
}
EXPLORATION: Final[Mapping[str, Callable[[Walk], Iterable[PeerId]]]] = {
    "none": explore_nobody,
    "roster": explore_roster,
}
STOPPING: Final[Mapping[str, Callable[[Walk], str | None]]] = {
    "budget": stop_at_budget,
    "settled": stop_when_settled,
}
STARTS: Final[Mapping[str, Start]] = {start.value: start for start in Start}


@dataclass(frozen=True, slots=True)
class Preset:
    """Names of the five choices that a preset stands for."""

    start: str
    evidence: str
    neighbor_choice: str
    exploration: str
    stopping: str


#: "paper" is the published algorithm, asking on with members of the roster when its frontier is
#: dry; a reproduction sets `exploration = "none"`. "random" asks members in random order, the
#: floor that others are measured against.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": Preset("own-state-first", "best", "best-document", "roster", "budget"),
    "random": Preset("roster", "none", "none", "none", "budget"),
}


def strategy_from(config: RoutingConfig) -> Strategy:
    """The strategy that a configuration names.

    Raises:
        ConfigError: A name is unknown; the message lists the known ones.
    """
    preset = _named("routing", PRESETS, config.routing)
    return Strategy(
        start=_named("start", STARTS, config.start or preset.start),
        score=_named("evidence", EVIDENCE, config.evidence or preset.evidence),
        choose_neighbor=_named(
            "neighbor_choice", NEIGHBOR_CHOICES, config.neighbor_choice or preset.neighbor_choice
        ),
        explore=_named("exploration", EXPLORATION, config.exploration or preset.exploration),
        stop=_named("stopping", STOPPING, config.stopping or preset.stopping),
    )


def _named(setting: str, choices: Mapping[str, _Choice], name: str) -> _Choice:
    try:
        return choices[name]
    except KeyError:
        known = ", ".join(sorted(choices))
        raise ConfigError(f"routing.{setting} = {name!r} is unknown; known: {known}") from None
