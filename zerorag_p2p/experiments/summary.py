"""What an experiment gave, as a few lines of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zerorag_p2p.workloads.results import Json


def describe(result: Json) -> str:
    """A table of the findings, one line a variant; of several seeds, one a seed."""
    head = (
        f"{result['name']}: {result['peers']:,} peers, {result['workload']}, "
        f"{result['system']}, {result['wall_s']:g} s"
    )
    return "\n".join([head, *_TABLES[result["name"]](result)])


def _describe_churn(result: Json) -> list[str]:
    lines = [
        f"{'':24}{'before':>9}{'at crash':>10}{'last tenth':>12}{'random':>9}"
        f"{'requests before':>17}{'after':>7}"
    ]
    for run in result["runs"]:
        found = run["findings"]
        before, last = found["before"], found["last_tenth"]
        lines.append(
            f"{_label(run):24}{before['hit_rate']:9.1%}{found['at']['hit_rate']:10.1%}"
            f"{last['hit_rate']:12.1%}{last['random_order_hit_rate']:9.1%}"
            f"{before['requests_to_target']:17.2f}{found['requests_after']:7.2f}"
        )
    published = result["runs"][0]["findings"]["published"]
    lines.append(
        f"{'the paper':24}{'':9}{'':10}{published['hit_rate_last_tenth']:12.1%}{'':9}"
        f"{published['requests_before']:17.2f}{published['requests_after']:7.2f}"
    )
    return lines


def _describe_new_topic(result: Json) -> list[str]:
    lines = [f"{'':32}{'batches to 99.5%':>18}{'to 100%':>9}  first batches"]
    for run in result["runs"]:
        found = run["findings"]
        first = " ".join(
            "  -  " if rate is None else f"{rate:5.1%}" for rate in found["hit_rates"][:6]
        )
        lines.append(
            f"{_label(run):32}{_count(found['batches_to_0.995']):>18}"
            f"{_count(found['batches_to_1']):>9}  {first}"
        )
    return lines


_TABLES: Final[Mapping[str, Callable[[Json], list[str]]]] = {
    "churn": _describe_churn,
    "new-topic": _describe_new_topic,
}


def _label(run: Json) -> str:
    return f"{run['variant']}, seed {run['seed']}"


def _count(batches: int | None) -> str:
    return "never" if batches is None else str(batches)
