"""Results, comparisons and the list of experiments as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from zerorag_p2p.experiments.comparison import Comparison
from zerorag_p2p.experiments.experiment import Experiment, runs_by_variant
from zerorag_p2p.experiments.quantity import Estimate, Quantity
from zerorag_p2p.workloads.results import Json

_ABSENT: Final = "-"


class Table(NamedTuple):
    """Titles of columns, and the cells of each row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def headline(result: Json) -> str:
    """What was run, in a line."""
    seeds = len(result["seeds"])
    return (
        f"{result['name']}: {result['peers']:,} peers, {result['workload']}, {result['system']}, "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}, {result['wall_s']:,.0f} s"
    )


def tabulate_result(experiment: Experiment, result: Json) -> Table:
    """What an experiment gave: a row a variant, mean and standard deviation over the seeds."""
    quantities = experiment.quantities
    rows = [
        (variant, *(_cell(quantity, quantity.estimate(runs)) for quantity in quantities))
        for variant, runs in runs_by_variant(result).items()
    ]
    return Table(("", *(quantity.title for quantity in quantities)), rows)


def tabulate_comparisons(comparisons: Sequence[Comparison]) -> dict[str, Table]:
    """Ours beside the published figures, a row a figure, by where those are published."""
    by_source: dict[str, list[Comparison]] = {}
    for item in comparisons:
        by_source.setdefault(item.published.source, []).append(item)
    return {source: _tabulate_comparisons(items) for source, items in by_source.items()}


def _tabulate_comparisons(comparisons: Sequence[Comparison]) -> Table:
    rows = []
    previous = ""
    for item in comparisons:
        quantity, difference = item.published.quantity, item.difference
        rows.append(
            (
                "" if item.variant == previous else item.variant,
                f"{item.peers:,}",
                quantity.title,
                _cell(quantity, item.ours),
                item.published.show(),
                _ABSENT if difference is None else quantity.show_difference(difference),
            )
        )
        previous = item.variant
    return Table(("", "peers", "figure", "ours", "published", "difference"), rows)


def _cell(quantity: Quantity, estimate: Estimate | None) -> str:
    return _ABSENT if estimate is None else quantity.show(estimate.mean, estimate.deviation)
