"""What became of the questions of a workload, and the figures made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutcome:
    """One question that was asked.

    Attributes:
        event: Number of the event in the workload.
        introduced: Whether it is about a document that was introduced during the run.
        answerable: Whether, when it was asked, a peer other than the asker was up and held the
            document. Hit rates are over these.
        hit: Whether such a peer was contacted and answered.
        recall_at_1: Whether the best document of the result is the one asked for.
        recall_at_5_exact: Share of the five best documents of all other peers that the result
            holds; None where it was not measured.
        requests_to_target: Contacts up to the one that hit; None without a hit.
        contacts: Peers contacted.
        failures: Contacts that gave no answer.
        messages: Messages sent for it: requests and replies of queries, of the fetch and of the
            new neighbour's advertisement.
        bytes: Bytes of them; None where messages have no encoding.
        random_hit: Probability that asking other peers in random order, as many as the budget
            allows, hits.
    """

    event: int
    introduced: bool = False
    answerable: bool
    hit: bool
    recall_at_1: bool
    recall_at_5_exact: float | None = None
    requests_to_target: int | None
    contacts: int
    failures: int
    messages: int
    bytes: int | None = None
    random_hit: float


@lru_cache(maxsize=65_536)
def random_hit(others: int, holders: int, budget: int) -> float:
    """Probability that `budget` out of `others` peers, drawn at random, include a holder.

    Exactly 1 - C(others - holders, budget) / C(others, budget).
    """
    missed = 1.0
    for number in range(min(budget, others)):
        missed *= max(0, others - holders - number) / (others - number)
    return 1.0 - missed


def measure(outcomes: Sequence[QueryOutcome]) -> dict[str, float]:
    """The metrics of a result file: means over questions; what was not measured is absent.

    `hit_rate`, `random_order_hit_rate` and `requests_to_target` are over answerable questions.
    """
    answerable = [outcome for outcome in outcomes if outcome.answerable]
    metrics: dict[str, float] = {"queries": len(outcomes)}
    _add_mean(metrics, "hit_rate", answerable, lambda item: item.hit)
    _add_mean(metrics, "recall_at_1", answerable, lambda item: item.recall_at_1)
    _add_mean(metrics, "recall_at_5_exact", outcomes, lambda item: item.recall_at_5_exact)
    _add_mean(metrics, "requests_to_target", answerable, lambda item: item.requests_to_target)
    _add_mean(metrics, "contacts", outcomes, lambda item: item.contacts)
    _add_mean(metrics, "failures", outcomes, lambda item: item.failures)
    _add_mean(metrics, "messages", outcomes, lambda item: item.messages)
    _add_mean(metrics, "bytes", outcomes, lambda item: item.bytes)
    _add_mean(metrics, "random_order_hit_rate", answerable, lambda item: item.random_hit)
    return metrics


def _add_mean(
    metrics: dict[str, float],
    name: str,
    outcomes: Iterable[QueryOutcome],
    figure: Callable[[QueryOutcome], float | None],
) -> None:
    values = [value for outcome in outcomes if (value := figure(outcome)) is not None]
    if values:
        metrics[name] = round(sum(values) / len(values), 6)


def measure_by_tenth(outcomes: Iterable[QueryOutcome], events: int) -> list[dict[str, float]]:
    """Metrics of each tenth of a workload of `events` events."""
    return _measure_parts(outcomes, 10, lambda event: 10 * event // events)


def measure_by_batch(
    outcomes: Iterable[QueryOutcome], events: int, batch: int
) -> list[dict[str, float]]:
    """Metrics of every `batch` events of a workload; the last ones may be fewer."""
    return _measure_parts(outcomes, -(-events // batch), lambda event: event // batch)


def _measure_parts(
    outcomes: Iterable[QueryOutcome], parts: int, part_of: Callable[[int], int]
) -> list[dict[str, float]]:
    divided: list[list[QueryOutcome]] = [[] for _ in range(parts)]
    for outcome in outcomes:
        divided[part_of(outcome.event)].append(outcome)
    return [measure(part) for part in divided]
