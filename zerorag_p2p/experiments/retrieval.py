"""Retrieval beside a central index, and requests until the document (paper, figure 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from zerorag_p2p.experiments.experiment import (
    Baseline,
    Experiment,
    Variant,
    as_published,
    in_readings,
)
from zerorag_p2p.experiments.measuring import parts_of
from zerorag_p2p.experiments.plots import draw_retrieval
from zerorag_p2p.experiments.quantity import (
    HIT_RATE,
    RECALL_AT_1,
    RECALL_AT_5,
    REQUESTS,
    REQUESTS_P99,
    RIGHT_ANSWERS,
)
from zerorag_p2p.workloads.outcome_table import NO_HIT, OutcomeTable
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import Scenario

_SHOWS: Final = "Recall beside central search, and requests until the document is found"

#: Percentiles of the requests (figure 5(b)).
PERCENTILES: Final = (10, 25, 50, 75, 90, 99)

#: Questions of a run that a language model may be given to answer.
SAMPLED: Final = 500

#: Parts of a run by which percentiles are given.
_PARTS: Final = 100


def _variants(scenario: Scenario) -> list[Variant]:
    # A central server does not stop at the target: its recall is compared with that of whole walks.
    whole = replace(scenario, stop_at_target=False)
    return [
        *in_readings(whole),
        Variant("HNSW", scenario, Baseline("hnsw")),
        Variant("exact", scenario, Baseline("exact")),
    ]


def _read_table(table: OutcomeTable, events: int) -> Json:
    if table.requests_to_target is None:  # a central server asks nobody
        return {}
    return {
        "requests_by_hundredth": [_percentiles(part) for part in parts_of(table, events, _PARTS)],
        "requests_last_tenth": _percentiles(parts_of(table, events, 10)[-1]),
    }


def _percentiles(table: OutcomeTable) -> dict[str, float]:
    assert table.requests_to_target is not None
    requests = table.requests_to_target[table.requests_to_target != NO_HIT]
    if not len(requests):
        return {}
    values = np.percentile(requests, PERCENTILES, method="inverted_cdf").tolist()
    return {f"p{share}": value for share, value in zip(PERCENTILES, values, strict=True)}


RETRIEVAL: Final = Experiment(
    name="fig5",
    shows=_SHOWS,
    source="ZeroRAG, figure 5",
    base=as_published("fig5", _SHOWS),
    variants=_variants,
    quantities=(RECALL_AT_1, RECALL_AT_5, HIT_RATE, REQUESTS, REQUESTS_P99, RIGHT_ANSWERS),
    draw=draw_retrieval,
    read_table=_read_table,
    sampled=SAMPLED,
)
