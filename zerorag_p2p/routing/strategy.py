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
from zerorag_p2p.model import NEVER_COMPARED, PeerId, Score, hash_prefix

if TYPE_CHECKING:
    from zerorag_p2p.routing.evidence import PeerReferral
    from zerorag_p2p.routing.walk import Candidate, Walk

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


class Referring(enum.StrEnum):
    """Whom a peer refers to, besides where its own walks start from its own state.

    BEST_PEERS: the peers with the best evidence of either kind (algorithm 2).
    BEST_DOCUMENTS: for each of the best documents that are advertised and that the querier lacks a
        peer that has it, then a few peers by query memory.
    """

    BEST_PEERS = "best-peers"
    BEST_DOCUMENTS = "best-documents"


@dataclass(frozen=True, slots=True)
class Strategy:
    """One routing algorithm.

    Attributes:
        start: Where a walk begins.
        score: Frontier score of a referral.
        referring: Whom a peer refers to.
        choose_next: Who is asked next; None to wait for a request in flight.
        choose_neighbor: The peer that becomes a neighbour after a walk.
        explore: Peers to ask once the frontier is dry.
        stop: Why a walk should end before its budget is spent, or None.
        patience: Contacts that have to bring nothing before `stop` ends a walk.
        fanout: Requests in flight at a time, at most.
        sketch_limit: Most advertisements of other peers than neighbours that are of use.
        memory_referral_limit: Most referrals by query memory beside those by document.
    """

    start: Start
    score: Callable[[PeerReferral], Score]
    referring: Referring
    choose_next: Callable[[Walk], Candidate | None]
    choose_neighbor: Callable[[Walk], PeerId | None]
    explore: Callable[[Walk], Iterable[PeerId]]
    stop: Callable[[Walk], str | None]
    patience: int
    fanout: int
    sketch_limit: int
    memory_referral_limit: int

    @property
    def uses_memory(self) -> bool:
        """Whether it matters who asked what."""
        return self.referring is Referring.BEST_PEERS or self.memory_referral_limit > 0

    @property
    def tells_found(self) -> bool:
        """Whether a query says what was found, so that nothing else comes back."""
        return self.choose_next is choose_for_wanted

    def describe(self, candidate: Candidate) -> str:
        """Which evidence led to a contact, for people."""
        if candidate.advertised and candidate.best_advertised >= candidate.score:
            return "advertisement"
        if candidate.remembered is not None:
            return "query memory"
        return "exploration"


def score_by_best(referral: PeerReferral) -> Score:
    """The larger of the two kinds of evidence (S in algorithm 2)."""
    score = max((item.score for item in referral.advertised), default=NEVER_COMPARED)
    return score if referral.remembered is None else max(score, referral.remembered)


def score_nothing(referral: PeerReferral) -> Score:
    """No evidence counts."""
    del referral
    return NEVER_COMPARED


def choose_best(walk: Walk) -> Candidate | None:
    """The peer with the best frontier score; of equals the one heard of first (algorithm 1)."""
    return max(walk.frontier.values(), key=lambda item: (item.score, -item.order))


def choose_for_wanted(walk: Walk) -> Candidate | None:
    """The peer that advertises most of the wanted documents, then the one with the best of them.

    While others are being asked, only for documents that are expected to belong into the result,
    or if little is known; unless time is short. Once everything wanted was asked for and answered,
    the peer with the best frontier score.
    """
    wanted = walk.wanted(expected=walk.in_flight > 0 and not walk.hurried)
    if wanted:
        best: tuple[int, Score, float] | None = None
        chosen = None
        for candidate in walk.frontier.values():
            scores = [item.score for key, item in candidate.advertised.items() if key in wanted]
            if scores:
                rank = (len(scores), max(scores), -walk.preference(candidate.peer))
                if best is None or rank > best:
                    best, chosen = rank, candidate
        return chosen
    if walk.in_flight and not walk.hurried and not walk.cold:
        return None
    return choose_best(walk)


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


def choose_unknown_document(walk: Walk) -> PeerId | None:
    """The peer that returned the best document that nobody known to the querier advertises."""
    for found in walk.results():
        if hash_prefix(found.document.content_hash) not in walk.known:
            return found.holders[0]
    return None


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
        for key, advertised in candidate.advertised.items():
            if advertised.score > worst and key not in held:
                return None
    return f"settled: {walk.unchanged} contacts changed nothing and no advertisement promises more"


def stop_when_nothing_is_wanted(walk: Walk) -> str | None:
    """When k documents are held, nothing changed lately and no advertised document is wanted."""
    if walk.in_flight or walk.unchanged < walk.patience or walk.worst_score() == NEVER_COMPARED:
        return None
    if walk.wanted():
        return None
    return "complete: no known advertisement promises a better document"


EVIDENCE: Final[Mapping[str, Callable[[PeerReferral], Score]]] = {
    "best": score_by_best,
    "none": score_nothing,
}
ORDERS: Final[Mapping[str, Callable[[Walk], Candidate | None]]] = {
    "best-peer": choose_best,
    "wanted-documents": choose_for_wanted,
}
NEIGHBOR_CHOICES: Final[Mapping[str, Callable[[Walk], PeerId | None]]] = {
    "best-document": choose_by_best_document,
    "unknown-document": choose_unknown_document,
    "none": choose_nobody,
}
EXPLORATION: Final[Mapping[str, Callable[[Walk], Iterable[PeerId]]]] = {
    "none": explore_nobody,
    "roster": explore_roster,
}
STOPPING: Final[Mapping[str, Callable[[Walk], str | None]]] = {
    "budget": stop_at_budget,
    "settled": stop_when_settled,
    "nothing-wanted": stop_when_nothing_is_wanted,
}
STARTS: Final[Mapping[str, Start]] = {start.value: start for start in Start}
REFERRALS: Final[Mapping[str, Referring]] = {item.value: item for item in Referring}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What a preset stands for: the names of the functions, and some figures."""

    start: str = "own-state-first"
    evidence: str = "best"
    referral: str = "best-peers"
    order: str = "best-peer"
    neighbor_choice: str = "best-document"
    exploration: str = "roster"
    stopping: str = "budget"
    patience: int = 3  # guess
    fanout: int = 1  # paper, section 3.3
    sketch_limit: int = 0
    memory_referral_limit: int = 0


#: "paper" is the published algorithm, asking on with members of the roster when its frontier is
#: dry; a reproduction sets `exploration = "none"`. "complete" goes after documents, not peers
#: (docs/routing.md). "random" asks members in random order, the floor that others are measured
#: against.
PRESETS: Final[Mapping[str, Preset]] = {
    "paper": Preset(),
    "complete": Preset(
        referral="best-documents",
        order="wanted-documents",
        neighbor_choice="unknown-document",
        stopping="nothing-wanted",
        patience=1,
        fanout=4,
        sketch_limit=200,
    ),
    "random": Preset(start="roster", evidence="none", neighbor_choice="none", exploration="none"),
}


def strategy_from(config: RoutingConfig) -> Strategy:
    """The strategy that a configuration names.

    Raises:
        ConfigError: A name is unknown; the message lists the known ones.
    """
    preset = _named("routing", PRESETS, config.routing)

    def chosen(setting: str, choices: Mapping[str, _Choice]) -> _Choice:
        return _named(setting, choices, getattr(config, setting) or getattr(preset, setting))

    def figure(setting: str) -> int:
        value = getattr(config, setting)
        return int(getattr(preset, setting) if value is None else value)

    return Strategy(
        start=chosen("start", STARTS),
        score=chosen("evidence", EVIDENCE),
        referring=chosen("referral", REFERRALS),
        choose_next=chosen("order", ORDERS),
        choose_neighbor=chosen("neighbor_choice", NEIGHBOR_CHOICES),
        explore=chosen("exploration", EXPLORATION),
        stop=chosen("stopping", STOPPING),
        patience=figure("patience"),
        fanout=figure("fanout"),
        sketch_limit=figure("sketch_limit"),
        memory_referral_limit=figure("memory_referral_limit"),
    )


def _named(setting: str, choices: Mapping[str, _Choice], name: str) -> _Choice:
    try:
        return choices[name]
    except KeyError:
        known = ", ".join(sorted(choices))
        raise ConfigError(f"routing.{setting} = {name!r} is unknown; known: {known}") from None
