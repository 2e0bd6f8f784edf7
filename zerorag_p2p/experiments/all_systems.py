"""Every system on the same questions: how much of the exact answer each finds, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from zerorag_p2p.experiments.experiment import (
    COMPLETE,
    OWN_STATE_FIRST,
    Baseline,
    Experiment,
    Variant,
    as_published,
    completed,
    in_readings,
    with_routing,
)
from zerorag_p2p.experiments.plots import draw_systems
from zerorag_p2p.experiments.quantity import (
    BYTES,
    CONTACTS,
    FIRST_RECALL_AT_5,
    HIT_RATE,
    MESSAGES,
    RECALL_AT_1,
    RECALL_AT_5,
)
from zerorag_p2p.workloads.scenario import Scenario

_SHOWS: Final = "Recall against exact search, messages and bytes of every system"

#: Peers that share PubMedQA as in the paper, with copies.
PEERS: Final = 10_000

#: Peers of consortia, where every document has one owner.
CONSORTIA: Final = (200, 500)

#: Hash tables of DHT-LSH (section 4.2).
TABLES: Final = (10, 20, 50)

DHT_LSH: Final[Mapping[str, Baseline]] = {
    f"DHT-LSH (L = {tables})": Baseline("dht-lsh", {"tables": tables}) for tables in TABLES
}
SEMANTIC_TREE: Final = Baseline("semantic-tree")

BASELINES: Final[Mapping[str, Baseline]] = {
    "exact": Baseline("exact"),
    "HNSW": Baseline("hnsw"),
    **DHT_LSH,
    "semantic tree": SEMANTIC_TREE,
    "DRAG-TARW": Baseline("tarw"),
    "DRAG-RW": Baseline("random-walk"),
    "DRAG-FL": Baseline("flooding"),
}


def _variants(scenario: Scenario) -> list[Variant]:
    # Recall of the exact answer is about whole walks: no real querier knows the target.
    whole = replace(scenario, stop_at_target=False)
    large = replace(whole, peers=min(PEERS, scenario.peers))
    consortia = [
        replace(whole, workload="consortium", peers=min(peers, scenario.peers))
        for peers in CONSORTIA
    ]
    return [
        variant
        for place in dict.fromkeys((large, *consortia))
        for variant in _systems(place, f"{place.workload} {place.peers}")
    ]


def _systems(scenario: Scenario, place: str) -> list[Variant]:
    settled = with_routing(scenario, stopping="settled")
    return [
        *in_readings(scenario, place),
        Variant(f"{OWN_STATE_FIRST} until settled, {place}", settled),
        Variant(f"{COMPLETE}, {place}", completed(scenario)),
        *(Variant(f"{name}, {place}", scenario, system) for name, system in BASELINES.items()),
        Variant(f"random order, {place}", with_routing(scenario, routing="random")),
    ]


ALL_SYSTEMS: Final = Experiment(
    name="systems",
    shows=_SHOWS,
    source="",
    base=as_published("systems", _SHOWS),
    variants=_variants,
    quantities=(
        HIT_RATE,
        RECALL_AT_1,
        FIRST_RECALL_AT_5,
        RECALL_AT_5,
        CONTACTS,
        MESSAGES,
        BYTES,
    ),
    draw=draw_systems("recall_at_5_exact", "recall@5 of exact"),
)
