"""The paper's experiments on AOL-IA and Amazon Electronics, whose files users get themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from zerorag_p2p.experiments.all_systems import DHT_LSH, SEMANTIC_TREE
from zerorag_p2p.experiments.experiment import (
    Draw,
    Experiment,
    Variant,
    as_published,
    in_readings,
    with_routing,
)
from zerorag_p2p.experiments.plots import draw_batches, draw_bins
from zerorag_p2p.experiments.quantity import (
    CONTACTS,
    HIT_RATE,
    MESSAGES,
    REACHED,
    REACHED_AT_LAST,
    RECALL,
    RECALL_AT_LAST,
    REQUESTS,
    Quantity,
)
from zerorag_p2p.workloads.scenario import Scenario

#: Users with the most queries that are the peers on AOL-IA (section 4.1.1).
AOL_USERS: Final = 10_000


def _as_many_users(scenario: Scenario) -> Scenario:
    return replace(scenario, peers=min(AOL_USERS, scenario.peers))


def _found_beside_others(scenario: Scenario) -> list[Variant]:
    users = _as_many_users(scenario)
    others = {"semantic tree": SEMANTIC_TREE, **DHT_LSH}
    return [
        *in_readings(users),
        *(Variant(name, users, system) for name, system in others.items()),
    ]


def _products_beside_others(scenario: Scenario) -> list[Variant]:
    # Which products are found does not depend on the one that a question names.
    whole = replace(scenario, stop_at_target=False)
    return [*in_readings(whole), Variant("semantic tree", whole, SEMANTIC_TREE)]


def _ablated(scenario: Scenario) -> list[Variant]:
    changed = {
        "whole": scenario,
        "no memory": with_routing(scenario, memory_limit=0),
        "static": with_routing(scenario, neighbor_choice="none"),
        "no memory and static": with_routing(scenario, memory_limit=0, neighbor_choice="none"),
    }
    return [
        variant for setting, ablated in changed.items() for variant in in_readings(ablated, setting)
    ]


def _experiment(
    name: str,
    shows: str,
    workload: str,
    variants: Callable[[Scenario], Sequence[Variant]],
    draw: Draw,
    *,
    source: str,
    quantities: Sequence[Quantity],
    batches: bool = False,
    relevant: bool = False,
) -> Experiment:
    return Experiment(
        name=name,
        shows=shows,
        source=f"ZeroRAG, {source}",
        base=as_published(name, shows, workload),
        variants=variants,
        quantities=quantities,
        draw=draw,
        batches=batches,
        relevant=relevant,
    )


LOGS: Final = (
    _experiment(
        "fig3",
        "Whether the page that a user clicked is found, beside a semantic tree and DHT-LSH",
        "aol-ia",
        _found_beside_others,
        draw_batches("hit_rate", "hit rate"),
        source="figure 3",
        quantities=(HIT_RATE, REQUESTS, CONTACTS, MESSAGES),
        batches=True,
    ),
    _experiment(
        "fig4",
        "Share of the relevant products that is found, beside a semantic tree",
        "amazon",
        _products_beside_others,
        draw_bins(("relevant products reached", REACHED), ("recall@10, @50, @100", RECALL)),
        source="figure 4",
        quantities=(*RECALL, *REACHED),
        relevant=True,
    ),
    _experiment(
        "fig7a",
        "What the memory and the rewiring are worth on AOL-IA",
        "aol-ia",
        lambda scenario: _ablated(_as_many_users(scenario)),
        draw_batches("hit_rate", "hit rate"),
        source="figure 7(a)",
        quantities=(HIT_RATE, REQUESTS),
        batches=True,
    ),
    _experiment(
        "fig7b",
        "What the memory and the rewiring are worth on Amazon Electronics",
        "amazon",
        lambda scenario: _ablated(replace(scenario, stop_at_target=False)),
        draw_bins(
            ("relevant products reached", REACHED_AT_LAST),
            ("recall@10, @50, @100", RECALL_AT_LAST),
        ),
        source="figure 7(b)",
        quantities=(*RECALL_AT_LAST, *REACHED_AT_LAST),
        relevant=True,
    ),
)
