"""A topic that nobody held appears and spreads by fetches (paper, section 4.6 and figure 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from zerorag_p2p.experiments.experiment import (
    COMPLETE,
    Experiment,
    Variant,
    completed_to_target,
    in_readings,
    with_routing,
)
from zerorag_p2p.experiments.plots import draw_new_topic
from zerorag_p2p.experiments.quantity import Quantity
from zerorag_p2p.workloads.results import Json, place_of, time_of
from zerorag_p2p.workloads.scenario import (
    Introduce,
    Scenario,
    TimelineEntry,
    load_scenario,
)

#: Peers that hold the topic at first.
OWNERS: Final = (1, 5, 10, 25, 50)

#: What a rate has to reach to count as 1.0 in a figure of two decimals.
_AS_GOOD_AS_ONE: Final = 0.995


def _variants(scenario: Scenario) -> list[Variant]:
    return [
        variant
        for owners in OWNERS
        if owners <= scenario.peers // 4
        for variant in _routed(_owned_by(scenario, owners), owners)
    ]


def _routed(scenario: Scenario, owners: int) -> list[Variant]:
    setting = f"{owners} owners"
    complete = Variant(f"{COMPLETE}, {setting}", completed_to_target(scenario), x=owners)
    return [*in_readings(scenario, setting, owners), complete]


def _owned_by(scenario: Scenario, owners: int) -> Scenario:
    timeline: list[TimelineEntry] = []
    limit = scenario.routing.advertisement_limit
    for entry in scenario.timeline:
        if isinstance(entry, Introduce):
            limit += entry.documents  # copies of the topic are advertised, too
            timeline.append(replace(entry, owners=owners))
        else:
            timeline.append(entry)
    routed = with_routing(scenario, advertisement_limit=limit)
    return replace(routed, timeline=tuple(timeline))


def _read(result: Json) -> Json:
    """How many batches it takes until every question about the topic is answered.

    The batch in which the topic is introduced counts, though some of its questions came before.
    """
    batches = result["introduced"]["by_batch"]
    first = int(place_of(result, time_of(result, "introduce")))
    rates = [batch.get("hit_rate") for batch in batches[first:]]
    return {
        "introduced_at_batch": first,
        "hit_rates": rates,
        "batches_to_0.995": _first(rates, _AS_GOOD_AS_ONE),
        "batches_to_1": _first(rates, 1.0),
    }


def _first(rates: Sequence[float | None], least: float) -> int | None:
    """Number, from 1, of the first batch whose rate is at least `least`."""
    for number, rate in enumerate(rates, start=1):
        if rate is not None and rate >= least:
            return number
    return None


NEW_TOPIC: Final = Experiment(
    name="new-topic",
    shows="How fast a topic that nobody held becomes findable, by its first owners",
    source="ZeroRAG, figure 8",
    base=partial(load_scenario, "new-topic"),
    variants=_variants,
    quantities=(
        Quantity("first batch", ("findings", "hit_rates", 0), percent=True),
        Quantity("second batch", ("findings", "hit_rates", 1), percent=True),
        Quantity("batches to 99.5%", ("findings", "batches_to_0.995")),
        Quantity("batches to 100%", ("findings", "batches_to_1")),
    ),
    draw=draw_new_topic,
    read=_read,
)
