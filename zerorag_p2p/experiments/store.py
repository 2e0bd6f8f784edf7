"""Result files: the JSON of an experiment and its figure, side by side."""

from __future__ import annotations

import json
from pathlib import Path

from zerorag_p2p.experiments.plots import plot, plot_scenario
from zerorag_p2p.workloads.results import Json


def store_result(result: Json, folder: Path) -> None:
    """Write `result.json` and `figure.png` into a folder, which is made if it is missing.

    Raises:
        UsageError: matplotlib is not installed.
    """
    _store(result, folder)
    plot(result, folder / "figure.png")


def store_scenario(result: Json, folder: Path) -> None:
    """The same for what a testnet made of any scenario.

    Raises:
        UsageError: matplotlib is not installed.
    """
    _store(result, folder)
    plot_scenario(result, folder / "figure.png")


def _store(result: Json, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(encode_result(result), encoding="utf-8")


def encode_result(result: Json) -> str:
    """JSON with a line a key and a line a run, for readable differences without bulk."""
    lines = []
    for key, value in result.items():
        if key == "runs":
            runs = ",\n  ".join(json.dumps(run) for run in value)
            lines.append(f' "runs": [\n  {runs}\n ]')
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
