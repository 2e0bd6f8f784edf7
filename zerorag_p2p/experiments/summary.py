"""Results, comparisons and the list of experiments as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def tabulate_comparison(comparisons: Iterable[Comparison]) -> Table:
    """Ours beside the published figures, a row a figure."""
    rows = []
    for item in comparisons:
        published = item.published
        quantity = published.quantity
        difference = item.difference
        rows.append(
            (
                item.variant,
                f"{item.peers:,}",
                quantity.title,
                _cell(quantity, item.ours),
                quantity.show(published.value, published.deviation),
                _ABSENT if difference is None else quantity.show_difference(difference),
                published.source,
            )
        )
    columns = ("", "peers", "figure", "ours", "published", "difference", "source")
    return Table(columns, rows)


def _cell(quantity: Quantity, estimate: Estimate | None) -> str:
    return _ABSENT if estimate is None else quantity.show(estimate.mean, estimate.deviation)
