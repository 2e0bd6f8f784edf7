"""DRAG's comparison of its three searches, and what its topic-aware walk depends on.

DRAG (arXiv 2505.00443) searches for the answers of a language model to three sets of questions;
none of them is here. Its networks are: 20 to 100 peers, pieces of knowledge of one owner each,
10,000 questions. Ours have the same sizes, and abstracts for pieces, an owner each; nobody asks for
its own, which DRAG does not exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zerorag_p2p.experiments.experiment import (
    Baseline,
    Draw,
    Experiment,
    Variant,
    as_published,
    in_readings,
)
from zerorag_p2p.experiments.plots import draw_bars, draw_growth, draw_sweep
from zerorag_p2p.experiments.quantity import (
    DRAG_HIT_RATE,
    DRAG_HOPS,
    DRAG_MESSAGES,
    DRAG_MESSAGES_AT_FIRST,
    WHOLE_HIT_RATE,
    WHOLE_MESSAGES,
    Quantity,
)
from zerorag_p2p.workloads.scenario import Scenario

#: Default number of peers, those that are tried, and the one that most is said of (section 4.1).
PEERS: Final = 20
NETWORK_SIZES: Final = (20, 40, 60, 80, 100)
MOST_PEERS: Final = 100

#: Edges of a new peer, and neighbours chosen at a hop (section 4.1).
CHOICES: Final = (2, 4, 6, 8)

#: Questions of a run (section 4.3, figure 4).
QUESTIONS: Final = 10_000

_TARW: Final = "DRAG-TARW"
SEARCHES: Final[Mapping[str, Baseline]] = {
    _TARW: Baseline("tarw"),
    "DRAG-RW": Baseline("random-walk"),
    "DRAG-FL": Baseline("flooding"),
}


def _sized(scenario: Scenario, peers: int) -> Scenario:
    """As many questions in all, whatever the number of peers."""
    return replace(scenario, peers=peers, draws=max(1, scenario.draws * PEERS // peers))


def _searches(scenario: Scenario) -> list[Variant]:
    sized = _sized(scenario, PEERS)
    return [
        *(Variant(name, sized, search) for name, search in SEARCHES.items()),
        *in_readings(sized),
    ]


def _sizes(scenario: Scenario) -> list[Variant]:
    return [
        Variant(f"{name}, peers {peers}", _sized(scenario, peers), search, peers)
        for peers in NETWORK_SIZES
        for name, search in SEARCHES.items()
    ]


def _convergence(scenario: Scenario) -> list[Variant]:
    return [
        Variant(f"{_TARW}, peers {peers}", _sized(scenario, peers), SEARCHES[_TARW], peers)
        for peers in NETWORK_SIZES
    ]


def _varied(name: str, option: str) -> Callable[[Scenario], list[Variant]]:
    def variants(scenario: Scenario) -> list[Variant]:
        sized = _sized(scenario, MOST_PEERS)
        return [
            Variant(f"{_TARW}, {name} {value}", sized, Baseline("tarw", {option: value}), value)
            for value in CHOICES
        ]

    return variants


def _experiment(
    name: str,
    shows: str,
    variants: Callable[[Scenario], Sequence[Variant]],
    draw: Draw,
    *,
    quantities: Sequence[Quantity] = (DRAG_HIT_RATE, DRAG_MESSAGES, DRAG_HOPS),
) -> Experiment:
    return Experiment(
        name=f"drag-{name}",
        shows=shows,
        source=f"DRAG, {name[:-1].replace('fig', 'figure')} {name[-1]}",
        base=as_published(f"drag-{name}", shows, "consortium", draws=QUESTIONS // PEERS),
        variants=variants,
        quantities=quantities,
        draw=draw,
    )


DRAG: Final = (
    _experiment(
        "table1",
        "A topic-aware walk beside a random walk, flooding and ZeroRAG",
        _searches,
        draw_bars(DRAG_HIT_RATE, DRAG_MESSAGES, DRAG_HOPS),
        quantities=(DRAG_HIT_RATE, DRAG_MESSAGES, DRAG_HOPS, WHOLE_HIT_RATE, WHOLE_MESSAGES),
    ),
    _experiment(
        "fig3",
        "Messages of the three searches by the number of peers",
        _sizes,
        draw_sweep("peers", (DRAG_HIT_RATE, DRAG_MESSAGES)),
    ),
    _experiment(
        "fig4",
        "How the topic-aware walk saves messages as peers learn who knows what",
        _convergence,
        draw_growth,
        quantities=(DRAG_MESSAGES_AT_FIRST, DRAG_MESSAGES, DRAG_HIT_RATE),
    ),
    _experiment(
        "fig5",
        "The topic-aware walk by the connectivity of the network, 100 peers",
        _varied("connectivity", "attachments"),
        draw_sweep("edges of a new peer", (DRAG_HIT_RATE, DRAG_MESSAGES)),
    ),
    _experiment(
        "fig7",
        "The topic-aware walk by the neighbours chosen at each hop, 100 peers",
        _varied("k", "k"),
        draw_sweep("neighbours chosen at a hop", (DRAG_HIT_RATE, DRAG_MESSAGES)),
    ),
)
