"""Figures with the axes of the papers, drawn from results alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zerorag_p2p.experiments.axes import (
    color_many,
    column,
    draw_runs,
    middles,
    panels,
    save,
)
from zerorag_p2p.experiments.experiment import Draw, runs_by_variant, setting_of
from zerorag_p2p.experiments.published import published_of
from zerorag_p2p.experiments.quantity import HIT_RATE_AFTER, Quantity
from zerorag_p2p.experiments.relevant import BINS
from zerorag_p2p.workloads.results import Json, place_of, time_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Batches shown before a topic is introduced.
_LEAD: Final = 5

#: Bands of figure 5(b), from the widest, and the lines in and above them.
_BANDS: Final = (("p10", "p90"), ("p25", "p75"))
_LINES: Final = (("p50", "median"), ("p99", "p99"))


def draw_sweep(axis: str, quantities: Sequence[Quantity], *, log: bool = False) -> Draw:
    """A figure with a panel a quantity, over the number that an experiment varies.

    Args:
        axis: What is varied.
        quantities: What is shown of it.
        log: Whether the axis is logarithmic (from 0 to 1 linear).
    """

    def draw(result: Json, path: Path) -> None:
        lines: dict[str, dict[float, list[Json]]] = {}
        published: dict[Quantity, list[tuple[float, float]]] = {}
        for variant, runs in runs_by_variant(result).items():
            position = runs[0]["x"]
            lines.setdefault(variant.rpartition(", ")[0], {})[position] = runs
            for item in published_of(result["name"], setting_of(variant)):
                published.setdefault(item.quantity, []).append((position, item.value))
        shown = panels(len(quantities))
        for axes, quantity in zip(shown, quantities, strict=True):
            for label, points in lines.items():
                estimates = {
                    position: estimate
                    for position, runs in points.items()
                    if (estimate := quantity.estimate(runs)) is not None
                }
                axes.errorbar(
                    list(estimates),
                    [estimate.mean for estimate in estimates.values()],
                    yerr=[estimate.deviation or 0.0 for estimate in estimates.values()],
                    label=label,
                    marker="o",
                    markersize=4,
                    capsize=2,
                    linewidth=1.2,
                )
            if quantity in published:
                axes.plot(*zip(*published[quantity], strict=True), "kx", label="published")
            axes.set_ylabel(quantity.title)
            if log:
                axes.set_xscale("symlog", linthresh=1.0)
        shown[-1].set_xlabel(axis)
        shown[0].set_title(_title(result))
        save(shown[0], path)

    return draw


def draw_bars(*quantities: Quantity) -> Draw:
    """A figure with a panel a quantity and a bar a variant, and what is published."""

    def draw(result: Json, path: Path) -> None:
        by_variant = {
            variant: runs
            for variant, runs in runs_by_variant(result).items()
            if any(quantity.estimate(runs) is not None for quantity in quantities)
        }
        shown = panels(len(quantities))
        for axes, quantity in zip(shown, quantities, strict=True):
            for position, (variant, runs) in enumerate(by_variant.items()):
                estimate = quantity.estimate(runs)
                if estimate is not None:
                    axes.bar(position, estimate.mean, yerr=estimate.deviation, color="steelblue")
                for item in published_of(result["name"], setting_of(variant)):
                    if item.quantity == quantity:
                        axes.plot(position, item.value, "kx")
            axes.set_ylabel(quantity.title)
            axes.set_xticks(range(len(by_variant)), list(by_variant), rotation=15, ha="right")
        shown[0].set_title(f"{_title(result)} (x: published)")
        save(shown[0], path)

    return draw


def draw_bins(*shares: tuple[str, Sequence[Quantity]]) -> Draw:
    """A figure with a panel a share and a bar a bin and variant (figures 4 and 7(b)).

    Args:
        shares: Of each its name, and the quantities of `relevant.BINS`.
    """

    def draw(result: Json, path: Path) -> None:
        by_variant = runs_by_variant(result)
        width = 0.8 / len(by_variant)
        shown = panels(len(shares))
        for axes, (label, quantities) in zip(shown, shares, strict=True):
            for number, (variant, runs) in enumerate(by_variant.items()):
                bars = {
                    place + (number + 0.5) * width - 0.4: estimate
                    for place, quantity in enumerate(quantities)
                    if (estimate := quantity.estimate(runs)) is not None
                }
                axes.bar(
                    list(bars),
                    [estimate.mean for estimate in bars.values()],
                    width,
                    yerr=[estimate.deviation or 0.0 for estimate in bars.values()],
                    label=variant,
                )
            axes.set_ylabel(label)
            axes.set_ylim(0.0, 1.02)
            axes.set_xlim(-0.5, len(BINS) - 0.5)
            axes.set_xticks(range(len(BINS)), [bounds.name for bounds in BINS])
        shown[-1].set_xlabel("relevant documents available")
        shown[0].set_title(_title(result))
        save(shown[0], path, legend_beside=True)

    return draw


def draw_batches(metric: str, label: str) -> Draw:
    """A figure of one metric by batch, a line a variant (figures 3 and 7(a))."""

    def draw(result: Json, path: Path) -> None:
        (axes,) = panels(1)
        for variant, runs in runs_by_variant(result).items():
            lines = [column(run["by_batch"], metric) for run in runs]
            draw_runs(axes, middles(runs[0]["by_batch"]), lines, variant)
        axes.set_xlabel(f"batches of {result['settings']['batch']:,} questions")
        axes.set_ylabel(label)
        axes.set_ylim(0.0, 1.02)
        axes.set_title(_title(result))
        save(axes, path)

    return draw


def draw_systems(metric: str, label: str) -> Draw:
    """A figure of one metric by tenth, a panel a workload and a line a system."""

    def draw(result: Json, path: Path) -> None:
        by_workload: dict[str, dict[str, list[Json]]] = {}
        for variant, runs in runs_by_variant(result).items():
            system, _, workload = variant.rpartition(", ")
            by_workload.setdefault(workload, {})[system] = runs
        shown = panels(len(by_workload))
        for axes, (workload, systems) in zip(shown, by_workload.items(), strict=True):
            color_many(axes)
            for system, runs in systems.items():
                lines = [column(run["by_tenth"], metric) for run in runs]
                draw_runs(axes, middles(runs[0]["by_tenth"]), lines, system, marker=".")
            axes.set_title(workload, fontsize="small")
            axes.set_ylabel(label)
            axes.set_ylim(0.0, 1.02)
        shown[-1].set_xlabel("tenths of the run")
        save(shown[0], path, legend_beside=True)

    return draw


def draw_costs(cost: Quantity, gain: Quantity) -> Draw:
    """A figure of what is gained against what it costs, a panel a workload.

    Variants whose names differ only in a number at the end are points of one line.
    """

    def draw(result: Json, path: Path) -> None:
        by_workload: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for variant, runs in runs_by_variant(result).items():
            rule, _, workload = variant.rpartition(", ")
            costs, gains = cost.estimate(runs), gain.estimate(runs)
            if costs is not None and gains is not None:
                name = rule if runs[0]["x"] is None else rule.rpartition(" ")[0]
                lines = by_workload.setdefault(workload, {})
                lines.setdefault(name, []).append((costs.mean, gains.mean))
        shown = panels(len(by_workload))
        for axes, (workload, lines) in zip(shown, by_workload.items(), strict=True):
            color_many(axes)
            for name, points in lines.items():
                axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)
            axes.set_title(workload, fontsize="small")
            axes.set_ylabel(gain.title)
        shown[-1].set_xlabel(cost.title)
        save(shown[0], path, legend_beside=True)

    return draw


def draw_growth(result: Json, path: Path) -> None:
    """Mean messages so far, by the number of questions (DRAG's figure 4)."""
    (axes,) = panels(1)
    for variant, runs in runs_by_variant(result).items():
        lines = [run["drag"]["mean_messages"] for run in runs]
        step = runs[0]["metrics"]["queries"] / len(lines[0])
        positions = [(number + 1) * step for number in range(len(lines[0]))]
        draw_runs(axes, positions, lines, variant)
    axes.set_xlabel("questions")
    axes.set_ylabel("messages a question, mean so far")
    axes.set_title(_title(result))
    save(axes, path)


def draw_retrieval(result: Json, path: Path) -> None:
    """Recall beside central search, and percentiles of requests (figure 5)."""
    by_variant = runs_by_variant(result)
    recall, *distributions = panels(
        1 + sum("requests_by_hundredth" in runs[0]["findings"] for runs in by_variant.values())
    )
    for variant, runs in by_variant.items():
        width = runs[0]["metrics"]["queries"] / len(runs[0]["by_tenth"])
        lines = [column(run["by_tenth"], "recall_at_1") for run in runs]
        draw_runs(recall, middles(runs[0]["by_tenth"], width), lines, variant)
    recall.set_ylabel("recall@1")
    recall.set_ylim(0.0, 1.02)
    recall.set_title(_title(result))
    for axes, (variant, runs) in zip(
        distributions,
        (item for item in by_variant.items() if "requests_by_hundredth" in item[1][0]["findings"]),
        strict=True,
    ):
        parts = runs[0]["findings"]["requests_by_hundredth"]
        positions = middles(parts, runs[0]["metrics"]["queries"] / len(parts))
        for low, high in _BANDS:
            axes.fill_between(
                positions,
                column(parts, low),
                column(parts, high),
                color="steelblue",
                alpha=0.3,
                linewidth=0.0,
                label=f"{low}-{high}",
            )
        for name, label in _LINES:
            axes.plot(positions, column(parts, name), label=label, linewidth=1.2)
        axes.set_ylabel("requests")
        axes.set_ylim(bottom=0.0)
        axes.set_title(f"{variant}, seed {runs[0]['seed']}", fontsize="small")
        axes.legend(fontsize="small", ncols=2)
    (distributions or [recall])[-1].set_xlabel("questions")
    save(recall, path)


def draw_churn(result: Json, path: Path) -> None:
    """Hit rate by batch, with a random-order walk and the crash (figure 6).

    Below are the requests up to the target: they tell more where nearly every question is
    answered.
    """
    rates, requests = panels(2)
    by_variant = runs_by_variant(result)
    for variant, runs in by_variant.items():
        positions = middles(runs[0]["by_batch"])
        for axes, metric in ((rates, "hit_rate"), (requests, "requests_to_target")):
            draw_runs(axes, positions, [column(run["by_batch"], metric) for run in runs], variant)
    first = next(iter(by_variant.values()))[0]
    _draw_random_order(rates, first)
    for item in published_of(result["name"], ""):
        if item.quantity == HIT_RATE_AFTER:
            rates.axhline(
                item.value, color="black", linestyle=":", linewidth=0.8, label="paper, last tenth"
            )
    for axes in (rates, requests):
        _mark(axes, place_of(first, time_of(first, "crash")))
    requests.set_xlabel(f"batches of {first['settings']['batch']:,} questions")
    requests.set_ylabel("requests to the target")
    requests.set_ylim(bottom=0.0)
    rates.set_ylabel("hit rate")
    rates.set_ylim(0.0, 1.02)
    rates.set_title(_title(result))
    save(rates, path)


def draw_new_topic(result: Json, path: Path) -> None:
    """Hit rate of the questions about a new topic, by owners (figure 8), a panel a reading."""
    readings: dict[str, dict[str, list[Json]]] = {}
    for variant, runs in runs_by_variant(result).items():
        reading, _, owners = variant.partition(", ")
        readings.setdefault(reading, {})[owners] = runs
    shown = panels(len(readings))
    for axes, (reading, variants) in zip(shown, readings.items(), strict=True):
        for owners, runs in variants.items():
            lines = [column(run["introduced"]["by_batch"], "hit_rate") for run in runs]
            positions = middles(runs[0]["introduced"]["by_batch"])
            draw_runs(axes, positions, lines, owners, marker=".")
        first = next(iter(variants.values()))[0]
        others = first["others"]["by_batch"]
        draw_runs(axes, middles(others), [column(others, "hit_rate")], "other topics", color="grey")
        start = place_of(first, time_of(first, "introduce"))
        _mark(axes, start)
        axes.set_xlim(start - _LEAD, len(others))
        axes.set_ylabel("hit rate")
        axes.set_ylim(0.0, 1.02)
        axes.set_title(reading or result["system"], fontsize="small")
    shown[-1].set_xlabel(f"batches of {result['settings']['batch']:,} questions")
    save(shown[0], path)


def draw_scenario(result: Json, path: Path) -> None:
    """Hit rate by batch of any scenario, a line a seed, with what happened on the way."""
    (axes,) = panels(1)
    by_variant = runs_by_variant(result)
    for variant, (run, *_) in by_variant.items():
        lines = [column(run["by_batch"], "hit_rate")]
        draw_runs(axes, middles(run["by_batch"]), lines, variant)
    first = next(iter(by_variant.values()))[0]
    _draw_random_order(axes, first)
    for entry in result["settings"]["timeline"]:
        place = place_of(first, entry["at"])
        axes.axvline(place, color="firebrick", linestyle="--", linewidth=0.8)
        axes.annotate(entry["action"], (place, 0.02), rotation=90, fontsize="small")
    axes.set_xlabel(f"batches of {result['settings']['batch']:,} questions")
    axes.set_ylabel("hit rate")
    axes.set_ylim(0.0, 1.02)
    axes.set_title(_title(result))
    save(axes, path)


def _draw_random_order(axes: Axes, run: Json) -> None:
    batches = run["by_batch"]
    expected = column(batches, "random_order_hit_rate")
    draw_runs(axes, middles(batches), [expected], "random order, same budget", color="grey")


def _mark(axes: Axes, place: float) -> None:
    axes.axvline(place, color="firebrick", linestyle="--")


def _title(result: Json) -> str:
    return f"{result['name']}: {result['peers']:,} peers, {result['workload']}"
