"""Complete answers: what the published overlay loses, and what each part of the cure is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from zerorag_p2p.config import MAX_ADVERTISED, RoutingConfig
from zerorag_p2p.experiments.ablations import (
    DRAWS,
    FANOUTS,
    MEMORY_LIMITS,
    NEIGHBOR_LIMITS,
    STATIC_MEMORY_LIMITS,
    in_rounds,
    limit_neighbors,
    sizes_up_to,
)
from zerorag_p2p.experiments.all_systems import CONSORTIA, PEERS
from zerorag_p2p.experiments.experiment import (
    COMPLETE,
    OWN_STATE_FIRST,
    SIMULATOR,
    VECTORISED,
    Baseline,
    Draw,
    Experiment,
    Variant,
    as_published,
    completed,
    completed_to_target,
    with_routing,
)
from zerorag_p2p.experiments.plots import draw_costs, draw_systems
from zerorag_p2p.experiments.quantity import (
    BYTES,
    FIRST_RECALL_AT_5,
    HIT_RATE,
    RECALL_AT_5,
    REQUESTS,
    ROUNDS,
    WHOLE_BYTES,
    WHOLE_CONTACTS,
    WHOLE_RECALL_AT_5,
    WORST_RECALL_AT_5,
    Quantity,
)
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import Scenario

#: Sizes at which PubMedQA is dealt out with copies, up to that of the scale.
SIZES: Final = (200, 1_000, 5_000, 10_000, 50_000)

#: Contact budgets at which rules are compared that know no other end.
BUDGETS: Final = (3, 5, 8, 12, 20, 50)

#: A contact budget that is no large part of a consortium.
SMALL_BUDGET: Final = 10

#: Settings with which complete routing has a query memory.
_REMEMBERING: Final[Mapping[str, Any]] = {"memory_referral_limit": 3}

#: What `complete` is changed to, one thing at a time.
_CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    COMPLETE: {},
    "without sketches": {"sketch_limit": 0},
    "50 sketches": {"sketch_limit": 50},
    "100 sketches": {"sketch_limit": 100},
    "400 sketches": {"sketch_limit": 400},
    "100 sketches, all random": {"sketch_limit": 100, "sketch_near_share": 0.0},
    "100 sketches, all near": {"sketch_limit": 100, "sketch_near_share": 1.0},
    "without neighbours": {"neighbor_choice": "none", "initial_neighbors": 0},
    "neighbours by best document": {"neighbor_choice": "best-document"},
    "with query memory": _REMEMBERING,
    "referrals to peers": {"referral": "best-peers"},
    "best peer next": {"order": "best-peer", "stopping": "settled"},
    "without margin": {"margin": 0.0},
    "float32 advertised": {"advertisement_bits": 32},
    "2 bits advertised": {"advertisement_bits": 2},
    "1 bit advertised": {"advertisement_bits": 1},
    "3 referrals": {"referral_limit": 3},
    "5 referrals": {"referral_limit": 5},
}


def _place(scenario: Scenario) -> str:
    return f"{scenario.workload} {scenario.peers}"


def _consortia(scenario: Scenario, sizes: Iterable[int] = (50, *CONSORTIA)) -> list[Scenario]:
    peers = dict.fromkeys(min(size, scenario.peers) for size in sizes)
    return [replace(scenario, workload="consortium", peers=size) for size in peers]


def _decay(scenario: Scenario) -> list[Variant]:
    sizes = [size for size in SIZES if size <= scenario.peers] or [scenario.peers]
    places = [replace(scenario, peers=size) for size in sizes]
    variants = []
    for place in (*places, *_consortia(scenario)):
        variants.append(Variant(f"{OWN_STATE_FIRST}, {_place(place)}", place))
        if place.workload == "consortium":
            small = with_routing(place, contact_budget=SMALL_BUDGET)
            name = f"{OWN_STATE_FIRST} within {SMALL_BUDGET}, {_place(place)}"
            variants.append(Variant(name, small))
        variants.append(Variant(f"{COMPLETE}, {_place(place)}", completed(place)))
    return variants


def _parts(scenario: Scenario) -> list[Variant]:
    large = replace(scenario, peers=min(PEERS, scenario.peers))
    return [
        Variant(f"{name}, {_place(place)}", completed(place, **changes))
        for place in (large, *_consortia(scenario))
        for name, changes in _CHANGES.items()
    ]


def _stopping(scenario: Scenario) -> list[Variant]:
    large = replace(scenario, peers=min(PEERS, scenario.peers))
    return [
        variant
        for place in (large, *_consortia(scenario, CONSORTIA[-1:]))
        for variant in _rules(place)
    ]


def _rules(place: Scenario) -> list[Variant]:
    name = _place(place)

    def variants(rule: str, values: Sequence[int], change: Callable[[int], Scenario]) -> Any:
        return [Variant(f"{rule} {value}, {name}", change(value), x=value) for value in values]

    return [
        Variant(f"fewest peers, {name}", place, Baseline("fewest-peers")),
        *variants(
            "published, budget", BUDGETS, lambda value: with_routing(place, contact_budget=value)
        ),
        *variants(
            "published, settled after",
            (1, 3, 5),
            lambda value: with_routing(place, stopping="settled", patience=value),
        ),
        *variants(
            "complete, budget",
            BUDGETS,
            lambda value: completed(place, stopping="budget", contact_budget=value),
        ),
        *variants(
            "complete, patience", (0, 1, 2, 3, 5), lambda value: completed(place, patience=value)
        ),
    ]


def _advertised(scenario: Scenario) -> list[Variant]:
    """Owners that advertise every document, beside owners with the default limit."""
    limits = {"every document": MAX_ADVERTISED, "default": RoutingConfig().advertisement_limit}
    return [
        Variant(f"{COMPLETE}, {name}, {_place(place)}", completed(place, advertisement_limit=limit))
        for place in _consortia(scenario)
        for name, limit in limits.items()
    ]


def _rows(scenario: Scenario) -> list[Variant]:
    """The rows of the paper's tables; with query memory, which it has none of, those of table 1."""

    def row(
        table: int, setting: str, value: int | None, changed: Scenario, **settings: Any
    ) -> Variant:
        fanout = changed.routing.fanout or 1
        routed = completed_to_target(changed, fanout=fanout, **settings)
        name = setting if value is None else f"{setting} {value}"
        return Variant(f"{COMPLETE}, {name}, table {table}", routed, x=value)

    sizes = sizes_up_to(2 * scenario.peers)
    return [
        row(1, "no memory", None, scenario),
        row(1, "static, no memory", None, scenario, neighbor_choice="none"),
        *(
            row(1, "memory", limit, with_routing(scenario, memory_limit=limit), **_REMEMBERING)
            for limit in MEMORY_LIMITS
            if limit
        ),
        *(
            row(
                1,
                "static, memory",
                limit,
                with_routing(scenario, memory_limit=limit),
                neighbor_choice="none",
                **_REMEMBERING,
            )
            for limit in STATIC_MEMORY_LIMITS
            if limit
        ),
        *(row(2, "peers", peers, replace(scenario, peers=peers)) for peers in sizes),
        *(row(3, "documents", draws, replace(scenario, draws=draws)) for draws in DRAWS),
        *(
            row(4, "neighbours", limit, limit_neighbors(scenario, limit))
            for limit in NEIGHBOR_LIMITS
        ),
        *(
            row(5, f"{fanout} x {rounds}", None, in_rounds(scenario, fanout, rounds))
            for fanout, rounds in FANOUTS
        ),
    ]


def _read(result: Json) -> Json:
    """The worst tenth but the first, in which nobody knows anybody yet; of whole walks only."""
    later = [tenth.get("recall_at_5_exact") for tenth in result["by_tenth"][1:]]
    return {} if None in later else {"worst_later_tenth": min(later)}


def _experiment(
    name: str,
    shows: str,
    variants: Callable[[Scenario], Sequence[Variant]],
    draw: Draw,
    quantities: Sequence[Quantity],
    *,
    stop_at_target: bool = False,
    world: str = VECTORISED,
) -> Experiment:
    return Experiment(
        name=name,
        shows=shows,
        source="",
        # Recall of the exact answer is about whole walks: no real querier knows the target.
        base=as_published(name, shows, stop_at_target=stop_at_target),
        variants=variants,
        quantities=quantities,
        draw=draw,
        read=_read,
        world=world,
    )


_RECALL: Final = (FIRST_RECALL_AT_5, WORST_RECALL_AT_5, RECALL_AT_5, WHOLE_RECALL_AT_5)

COMPLETE_EXPERIMENTS: Final = (
    _experiment(
        "decay",
        "How complete answers are as the overlay learns, published and complete",
        _decay,
        draw_systems("recall_at_5_exact", "recall@5 of exact"),
        (*_RECALL, WHOLE_CONTACTS, WHOLE_BYTES),
    ),
    _experiment(
        "parts",
        "What each part of complete routing is worth",
        _parts,
        draw_costs(WHOLE_CONTACTS, WHOLE_RECALL_AT_5),
        (*_RECALL, WHOLE_CONTACTS, WHOLE_BYTES),
    ),
    _experiment(
        "stopping",
        "When to stop: recall@5 against contacts, for every rule",
        _stopping,
        draw_costs(WHOLE_CONTACTS, WHOLE_RECALL_AT_5),
        (WHOLE_RECALL_AT_5, RECALL_AT_5, WHOLE_CONTACTS, WHOLE_BYTES),
    ),
    _experiment(
        "advertised",
        "What is lost where owners advertise clusters of documents, with complete routing",
        _advertised,
        draw_systems("recall_at_5_exact", "recall@5 of exact"),
        (*_RECALL, WHOLE_CONTACTS, WHOLE_BYTES),
        world=SIMULATOR,
    ),
    _experiment(
        "rows",
        "What the paper's tables measure, with complete routing",
        _rows,
        draw_costs(REQUESTS, HIT_RATE),
        (HIT_RATE, REQUESTS, ROUNDS, BYTES),
        stop_at_target=True,
    ),
)
