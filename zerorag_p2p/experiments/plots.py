"""Figures like the paper's 6 and 8, drawn from results alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.results import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE: Final = (7.0, 3.6)
_DPI: Final = 150

#: Batches shown before a topic is introduced.
_LEAD: Final = 5


def plot_churn(result: Json, path: Path) -> None:
    """Hit rate by batch, with a random-order walk and the crash (the paper's figure 6).

    Below are the requests up to the target: they tell more where nearly every question is
    answered.
    """
    rates, requests = _panels(2)
    runs = _first_runs(result)
    for run in runs:
        _draw(rates, _rates(run["by_batch"], "hit_rate"), run["variant"])
        _draw(requests, _rates(run["by_batch"], "requests_to_target"), run["variant"])
    expected = _rates(runs[0]["by_batch"], "random_order_hit_rate")
    _draw(rates, expected, "random order, same budget", color="grey")
    rates.axhline(0.955, color="black", linestyle=":", linewidth=0.8, label="paper, last tenth")
    batches = len(runs[0]["by_batch"])
    for axes in (rates, requests):
        axes.axvline(_time_of(runs[0], "crash") * batches, color="firebrick", linestyle="--")
    requests.set_xlabel(f"batches of {runs[0]['settings']['batch']:,} questions")
    requests.set_ylabel("requests to the target")
    requests.set_ylim(bottom=0.0)
    rates.set_ylabel("hit rate")
    rates.set_ylim(0.0, 1.02)
    rates.set_title(_title(result, "half of the peers crash and are replaced"))
    _save(rates, path)


def plot_new_topic(result: Json, path: Path) -> None:
    """Hit rate of the questions about a new topic, by owners (the paper's figure 8)."""
    runs = _first_runs(result)
    reading = runs[0]["variant"].partition(",")[0]
    axes = _axes()
    chosen = [run for run in runs if run["variant"].startswith(reading)]
    batches = len(chosen[0]["by_batch"])
    start = _time_of(chosen[0], "introduce") * batches
    for run in chosen:
        owners = run["variant"].partition(", ")[2]
        _draw(axes, _rates(run["introduced"]["by_batch"], "hit_rate"), owners, marker=".")
    others = _rates(chosen[0]["others"]["by_batch"], "hit_rate")
    _draw(axes, others, "other topics", color="grey")
    axes.axvline(start, color="firebrick", linestyle="--")
    axes.set_xlim(start - _LEAD, batches)
    axes.set_xlabel(f"batches of {chosen[0]['settings']['batch']:,} questions")
    axes.set_ylabel("hit rate")
    axes.set_ylim(0.0, 1.02)
    axes.set_title(_title(result, f"a new topic ({reading})"))
    _save(axes, path)


def plot_scenario(result: Json, path: Path) -> None:
    """Hit rate by batch of any scenario, a line a seed, with what happened on the way."""
    runs: list[Json] = result.get("runs") or [{**result, "variant": f"seed {result['seed']}"}]
    axes = _axes()
    for run in runs:
        _draw(axes, _rates(run["by_batch"], "hit_rate"), run["variant"])
    expected = _rates(runs[0]["by_batch"], "random_order_hit_rate")
    _draw(axes, expected, "random order, same budget", color="grey")
    batches = len(runs[0]["by_batch"])
    for entry in result["settings"]["timeline"]:
        axes.axvline(entry["at"] * batches, color="firebrick", linestyle="--", linewidth=0.8)
        axes.annotate(entry["action"], (entry["at"] * batches, 0.02), rotation=90, fontsize="small")
    axes.set_xlabel(f"batches of {result['settings']['batch']:,} questions")
    axes.set_ylabel("hit rate")
    axes.set_ylim(0.0, 1.02)
    axes.set_title(_title(result, f"{result['name']}, {result['system']}"))
    _save(axes, path)


_PLOTS: Final = {"churn": plot_churn, "new-topic": plot_new_topic}


def plot(result: Json, path: Path) -> None:
    """Draw the figure of an experiment as PNG.

    Raises:
        UsageError: The experiment has none, or matplotlib is not installed.
    """
    draw = _PLOTS.get(result["name"])
    if draw is None:
        raise UsageError(f"there is no figure of {result['name']!r}; known: {', '.join(_PLOTS)}")
    draw(result, path)


def _axes() -> Axes:
    return _panels(1)[0]


def _panels(count: int) -> list[Axes]:
    """Axes one below the other."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "figures need matplotlib: pip install 'zerorag-p2p[experiments]'"
        ) from None
    width, height = _SIZE
    figure = Figure(figsize=(width, height * (1 + count) / 2), layout="constrained")
    panels = [figure.add_subplot(count, 1, number) for number in range(1, count + 1)]
    for axes in panels:
        axes.grid(alpha=0.3)
    return panels


def _save(axes: Axes, path: Path) -> None:
    axes.legend(fontsize="small", loc="lower right")
    figure = axes.get_figure(root=True)
    assert figure is not None
    # No date and no version in the file: the same result gives the same picture.
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})


def _draw(
    axes: Axes,
    rates: Sequence[float],
    label: str,
    *,
    color: str | None = None,
    marker: str | None = None,
) -> None:
    middles = [number + 0.5 for number in range(len(rates))]
    axes.plot(middles, rates, label=label, color=color, marker=marker, linewidth=1.2)


def _rates(batches: Sequence[dict[str, float]], name: str) -> list[float]:
    return [batch.get(name, float("nan")) for batch in batches]


def _first_runs(result: Json) -> list[Json]:
    """The runs of the first seed; of a result of a single run, that run."""
    runs: list[Json] = result.get("runs") or [{**result, "variant": result["system"]}]
    return [run for run in runs if run["seed"] == runs[0]["seed"]]


def _time_of(run: Json, action: str) -> float:
    timeline = run["settings"]["timeline"]
    return float(next(entry["at"] for entry in timeline if entry["action"] == action))


def _title(result: Json, what: str) -> str:
    return f"{result['peers']:,} peers, {result['workload']}: {what}"
