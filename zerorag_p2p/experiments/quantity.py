"""What is read off a run: a figure with a name, a place in the run's JSON and a way to print it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from zerorag_p2p.experiments.relevant import BINS
from zerorag_p2p.workloads.results import Json

#: Where the metrics of the last tenth of a run stand; the paper's tables are about it.
_LAST_TENTH: Final = ("by_tenth", 9)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over several runs.

    Attributes:
        mean: Mean over the runs that have it.
        deviation: Sample standard deviation; None of a single run.
        runs: Number of runs that have it.
    """

    mean: float
    deviation: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure that a run has, or may have.

    Attributes:
        title: What it is called in tables.
        path: Keys and positions that lead to it in the JSON of a run.
        percent: Whether it is a share and printed in percent.
    """

    title: str
    path: tuple[str | int, ...]
    percent: bool = False

    def read(self, run: Json) -> float | None:
        """Its value in a run; None where it was not measured or never came about."""
        value: Any = run
        for step in self.path:
            try:
                value = value[step]
            except (KeyError, IndexError):
                return None
        return None if value is None else float(value)

    def estimate(self, runs: Iterable[Json]) -> Estimate | None:
        """Mean and spread over runs; None if none of them has it."""
        values = [value for run in runs if (value := self.read(run)) is not None]
        if not values:
            return None
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return Estimate(statistics.fmean(values), deviation, len(values))

    def show(self, value: float, deviation: float | None = None) -> str:
        """The value as text, "99.652%" or "3.448 ± 0.006"."""
        factor, unit = (100, "%") if self.percent else (1, "")
        spread = "" if deviation is None else f" ± {factor * deviation:.3f}"
        return f"{factor * value:.3f}{spread}{unit}"

    def show_range(self, lowest: float, highest: float) -> str:
        """What lies between two values as text, "94.800 to 98.900%"."""
        return f"{self.show(lowest).removesuffix('%')} to {self.show(highest)}"

    def show_difference(self, difference: float) -> str:
        """A difference of two values as text, of shares in points of percent."""
        return f"{100 * difference:+.3f} pp" if self.percent else f"{difference:+.3f}"


HIT_RATE: Final = Quantity("hit rate", (*_LAST_TENTH, "hit_rate"), percent=True)
RECALL_AT_1: Final = Quantity("recall@1", (*_LAST_TENTH, "recall_at_1"), percent=True)
RECALL_AT_5: Final = Quantity(
    "recall@5 of exact", (*_LAST_TENTH, "recall_at_5_exact"), percent=True
)
REQUESTS: Final = Quantity("requests", (*_LAST_TENTH, "requests_to_target"))
ROUNDS: Final = Quantity("rounds", (*_LAST_TENTH, "rounds_to_target"))
CONTACTS: Final = Quantity("contacts", (*_LAST_TENTH, "contacts"))
MESSAGES: Final = Quantity("messages", (*_LAST_TENTH, "messages"))
BYTES: Final = Quantity("bytes", (*_LAST_TENTH, "bytes"))

WHOLE_RECALL_AT_5: Final = Quantity("whole run", ("metrics", "recall_at_5_exact"), percent=True)
WHOLE_CONTACTS: Final = Quantity("contacts", ("metrics", "contacts"))
WHOLE_BYTES: Final = Quantity("bytes", ("metrics", "bytes"))
FIRST_RECALL_AT_5: Final = Quantity(
    "first tenth", ("by_tenth", 0, "recall_at_5_exact"), percent=True
)
WORST_RECALL_AT_5: Final = Quantity(
    "worst later tenth", ("findings", "worst_later_tenth"), percent=True
)

WHOLE_HIT_RATE: Final = Quantity("hit rate", ("metrics", "hit_rate"), percent=True)
WHOLE_MESSAGES: Final = Quantity("messages", ("metrics", "messages"))

HIT_RATE_BEFORE: Final = Quantity("before", ("findings", "before", "hit_rate"), percent=True)
HIT_RATE_AT: Final = Quantity("at the crash", ("findings", "at", "hit_rate"), percent=True)
HIT_RATE_AFTER: Final = Quantity("last tenth", ("findings", "last_tenth", "hit_rate"), percent=True)
REQUESTS_BEFORE: Final = Quantity("requests before", ("findings", "before", "requests_to_target"))
REQUESTS_AFTER: Final = Quantity("requests after", ("findings", "requests_after"))
REQUESTS_P99: Final = Quantity("99% within", ("findings", "requests_last_tenth", "p99"))

#: Where a language model was asked.
RIGHT_ANSWERS: Final = Quantity("right answers", ("answers", "right"), percent=True)


def _in_bins(part: str, share: str, titles: Iterable[str]) -> tuple[Quantity, ...]:
    """A share of the relevant documents found (`relevant`), a quantity a bin."""
    return tuple(
        Quantity(title, (part, bounds.name, share), percent=True)
        for bounds, title in zip(BINS, titles, strict=True)
    )


_REACHED_TITLES: Final = [f"reached, {bounds.name}" for bounds in BINS]
_RECALL_TITLES: Final = [f"recall@{bounds.most}" for bounds in BINS]

#: Over a whole run, as in figure 4, and over its last tenth, as the paper's ablations.
REACHED: Final = _in_bins("relevant", "reached", _REACHED_TITLES)
RECALL: Final = _in_bins("relevant", "recall", _RECALL_TITLES)
REACHED_AT_LAST: Final = _in_bins("relevant_last_tenth", "reached", _REACHED_TITLES)
RECALL_AT_LAST: Final = _in_bins("relevant_last_tenth", "recall", _RECALL_TITLES)

#: Of DRAG's searches, counted as DRAG counts.
DRAG_HIT_RATE: Final = Quantity("hit rate (DRAG)", ("drag", "hit_rate"), percent=True)
DRAG_MESSAGES: Final = Quantity("messages (DRAG)", ("drag", "messages"))
DRAG_HOPS: Final = Quantity("hops (DRAG)", ("drag", "hops"))
DRAG_MESSAGES_AT_FIRST: Final = Quantity("messages at first (DRAG)", ("drag", "mean_messages", 0))
