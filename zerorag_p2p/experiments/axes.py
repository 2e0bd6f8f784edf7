"""Panels, lines and legends that figures are made of; matplotlib comes in when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.results import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE: Final = (7.0, 3.6)
_DPI: Final = 150

#: A line of several seeds has a band of one standard deviation around it.
_BAND: Final = 0.2


def panels(count: int) -> list[Axes]:
    """Axes one below the other.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "figures need matplotlib: pip install 'zerorag-p2p[experiments]'"
        ) from None
    width, height = _SIZE
    figure = Figure(figsize=(width, height * (1 + count) / 2), layout="constrained")
    drawn = [figure.add_subplot(count, 1, number) for number in range(1, count + 1)]
    for axes in drawn:
        axes.grid(alpha=0.3)
    return drawn


def save(axes: Axes, path: Path, *, legend_beside: bool = False) -> None:
    """Write the figure of these axes as PNG, with the legend in them or beside all panels."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    handles, labels = axes.get_legend_handles_labels()
    if legend_beside:
        figure.legend(handles, labels, fontsize="small", loc="outside right upper")
    elif labels:
        axes.legend(fontsize="small")
    # No date and no version in the file: the same result gives the same picture.
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})


def color_many(axes: Axes) -> None:
    """Give the lines of these axes more colours than the usual ten."""
    from matplotlib import colormaps

    axes.set_prop_cycle(color=[colormaps["tab20"](number) for number in range(20)])


def draw_runs(
    axes: Axes,
    positions: Sequence[float],
    lines: Sequence[Sequence[float]],
    label: str,
    *,
    color: str | None = None,
    marker: str | None = None,
) -> None:
    """Draw the mean of one line a seed, and how far they spread, as far as all of them go."""
    length = min(map(len, lines))
    values = np.ma.masked_invalid([line[:length] for line in lines])
    means = values.mean(axis=0)
    positions = positions[:length]
    (drawn,) = axes.plot(positions, means, label=label, color=color, marker=marker, linewidth=1.2)
    if len(lines) > 1:
        spreads = values.std(axis=0, ddof=1)
        axes.fill_between(
            positions,
            means - spreads,
            means + spreads,
            color=drawn.get_color(),
            alpha=_BAND,
            linewidth=0.0,
        )


def column(parts: Sequence[Json], name: str) -> list[float]:
    """A metric of every part of a run; nan where it is absent."""
    return [part.get(name, float("nan")) for part in parts]


def middles(parts: Sequence[Json], width: float = 1.0) -> list[float]:
    """Where the figures of equal parts are drawn: in the middle of each."""
    return [(number + 0.5) * width for number in range(len(parts))]
