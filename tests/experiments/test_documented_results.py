"""Tables in docs/ that show committed results, held to these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zerorag_p2p.experiments.store import load_result
from zerorag_p2p.workloads.results import Json

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "testnet" / "results" / "paper"
ROUTING = (ROOT / "docs" / "routing.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")

PLACES = ("pubmedqa 10000", "consortium 500", "consortium 200", "consortium 50")


def variants(name: str) -> dict[str, Json]:
    found: dict[str, Json] = load_result(PAPER, name)["variants"]
    return found


def recall(metrics: Json) -> str:
    return f"{metrics['recall_at_5_exact']:.2%}"


def kilobytes(metrics: Json, digits: int = 0) -> str:
    return f"{metrics['bytes'] / 1000:.{digits}f}"


def decay() -> Iterator[str]:
    for name, variant in variants("decay").items():
        tenths, whole = variant["by_tenth"], variant["metrics"]
        first, last = recall(tenths[0]), recall(tenths[-1])
        if name.startswith("complete"):
            worst = min(tenths[1:], key=lambda tenth: float(tenth["recall_at_5_exact"]))
            cells = (first, recall(worst), last, f"{whole['contacts']:.2f}", kilobytes(whole))
        else:
            cells = (first, last, f"{whole['contacts']:.0f}", kilobytes(whole))
        yield f"| {' | '.join(cells)} |"


def stopping() -> Iterator[str]:
    for name, variant in variants("stopping").items():
        rule, _, place = name.rpartition(", ")
        whole = variant["metrics"]
        size = kilobytes(whole) if "bytes" in whole and not rule.startswith("fewest") else "-"
        cells = f"| {recall(whole)} | {whole['contacts']:.2f} | {size} |"
        yield f"| {rule} {cells}" if place == PLACES[0] else cells


def parts() -> Iterator[str]:
    found = variants("parts")
    for name in found:
        change, _, place = name.rpartition(", ")
        if place == PLACES[0]:
            wholes = [found[f"{change}, {other}"]["metrics"] for other in PLACES]
            cells = [f"{recall(whole)} in {whole['contacts']:.2f}" for whole in wholes]
            yield f"| {change} | {' | '.join(cells)} | {kilobytes(wholes[0], 1)} |"


@pytest.mark.parametrize("row", [*decay(), *stopping(), *parts()])
def test_tables_of_complete_routing_show_the_committed_results(row: str) -> None:
    assert row in ROUTING


@pytest.mark.parametrize(("number", "setting"), [(2, "peers"), (3, "documents"), (4, "neighbours")])
def test_tables_of_the_paper_show_the_committed_results(number: int, setting: str) -> None:
    found = variants(f"table{number}")
    values = [name.rpartition(" ")[2] for name in found if name.startswith("paper")]
    assert len(values) >= 5
    for value in values:
        cells = []
        for reading in ("paper", "own-state-first"):
            variant = found[f"{reading}, {setting} {value}"]
            requests = variant["last_tenth"]["requests_to_target"]
            deviation = variant["spread_last_tenth"]["requests_to_target"]["deviation"]
            cells.append(f"{requests:.3f} ± {deviation:.3f}")
        assert f"| {int(value):,} | {cells[0]} | {cells[1]} | " in EXPERIMENTS
