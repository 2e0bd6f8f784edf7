"""The paper's ablations on PubMedQA, tables 1 to 5 (section 4.5): one setting varied at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from zerorag_p2p.experiments.experiment import (
    Experiment,
    Variant,
    as_published,
    in_readings,
    sweep,
    with_routing,
)
from zerorag_p2p.experiments.plots import draw_sweep
from zerorag_p2p.experiments.quantity import HIT_RATE, REQUESTS, ROUNDS, Quantity
from zerorag_p2p.workloads.scenario import Scenario

MEMORY_LIMITS: Final = (0, 10, 100, 1_000, 10_000)
STATIC_MEMORY_LIMITS: Final = (0, 1_000)
NETWORK_SIZES: Final = (1_000, 5_000, 10_000, 50_000, 100_000)
DRAWS: Final = (10, 20, 30, 40, 50)
NEIGHBOR_LIMITS: Final = (3, 5, 10, 25, 50, 75, 100)

#: Requests sent at once, and how often, within a contact budget of 30.
FANOUTS: Final = ((3, 10), (6, 5), (10, 3))


def _memory(scenario: Scenario) -> list[Variant]:
    def limit_memory(base: Scenario, limit: int) -> Scenario:
        return with_routing(base, memory_limit=limit)

    # With neighbours that stay as drawn, as if the asker's own copy, which is the best document
    # that it knows of, counted as found: then it would never take a new one.
    static = with_routing(scenario, neighbor_choice="none")
    return [
        *sweep(scenario, "memory", MEMORY_LIMITS, limit_memory),
        *sweep(static, "static, memory", STATIC_MEMORY_LIMITS, limit_memory),
    ]


def _sizes(scenario: Scenario) -> list[Variant]:
    return sweep(
        scenario,
        "peers",
        sizes_up_to(2 * scenario.peers),
        lambda base, peers: replace(base, peers=peers),
    )


def sizes_up_to(most: int) -> list[int]:
    """The paper's numbers of peers up to `most`; below all of them a quarter and half of it."""
    return [peers for peers in NETWORK_SIZES if peers <= most] or [most // 4, most // 2]


def _draws(scenario: Scenario) -> list[Variant]:
    return sweep(scenario, "documents", DRAWS, lambda base, draws: replace(base, draws=draws))


def limit_neighbors(base: Scenario, limit: int) -> Scenario:
    """At most `limit` neighbours, from the beginning."""
    first = min(limit, base.routing.initial_neighbors)
    return with_routing(base, neighbor_limit=limit, initial_neighbors=first)


def _neighbors(scenario: Scenario) -> list[Variant]:
    return sweep(scenario, "neighbours", NEIGHBOR_LIMITS, limit_neighbors)


def in_rounds(base: Scenario, fanout: int, rounds: int) -> Scenario:
    """Requests sent `fanout` at once, `rounds` times."""
    return replace(with_routing(base, contact_budget=fanout * rounds, fanout=fanout), rounds=True)


def _fanouts(scenario: Scenario) -> list[Variant]:
    return [
        variant
        for fanout, rounds in FANOUTS
        for variant in in_readings(
            in_rounds(scenario, fanout, rounds), f"{fanout} x {rounds}", fanout
        )
    ]


def _table(
    number: int,
    shows: str,
    variants: Callable[[Scenario], Sequence[Variant]],
    axis: str,
    *,
    log: bool = False,
    quantities: Sequence[Quantity] = (HIT_RATE, REQUESTS),
) -> Experiment:
    name = f"table{number}"
    return Experiment(
        name=name,
        shows=shows,
        source=f"ZeroRAG, table {number}",
        base=as_published(name, shows),
        variants=variants,
        quantities=quantities,
        draw=draw_sweep(axis, quantities, log=log),
    )


TABLES: Final = (
    _table(
        1,
        "How many queries a peer has to remember",
        _memory,
        "maximum number of remembered queries",
        log=True,
    ),
    _table(2, "How the number of peers changes the search", _sizes, "peers", log=True),
    _table(3, "How many documents a peer draws, and questions it asks", _draws, "documents a peer"),
    _table(4, "How many neighbours a peer has at most", _neighbors, "maximum number of neighbours"),
    _table(
        5,
        "Requests sent at once instead of one after the other, within 30",
        _fanouts,
        "requests at once",
        quantities=(HIT_RATE, ROUNDS, REQUESTS),
    ),
)
