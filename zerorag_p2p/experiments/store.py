"""Result files: the JSON of an experiment and its figure, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.plots import draw_scenario
from zerorag_p2p.experiments.registry import find_experiment
from zerorag_p2p.files import write_atomic
from zerorag_p2p.workloads.results import Json

#: In the folder of an experiment: its result, its figure and the folder of its runs.
RESULT: Final = "result.json"
FIGURE: Final = "figure.png"
RUNS: Final = "runs"

_SERIES: Final = "by_batch"


def store_result(result: Json, folder: Path) -> None:
    """Write the result of an experiment into a folder, which is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / RESULT, encode_result(result).encode())


def store_figure(result: Json, path: Path) -> None:
    """Draw the figure of the result of an experiment as PNG.

    Raises:
        UsageError: matplotlib is not installed.
    """
    find_experiment(result["name"]).draw(result, path)


def load_result(results: Path, name: str) -> Json:
    """The stored result of an experiment.

    Args:
        results: Folder of results.
        name: Name of the experiment.

    Raises:
        UsageError: There is no such experiment, or no result of it in the folder.
    """
    experiment = find_experiment(name)
    path = results / experiment.name / RESULT
    try:
        result = decode_result(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}): run `zerorag experiment run {name}` first, or name "
            "another folder with --results"
        ) from None
    return result


def runs_of(path: Path) -> list[Json]:
    """The runs of a stored result; none of a file that is absent, damaged or of another kind."""
    try:
        result = decode_result(path.read_text(encoding="utf-8"))
        return [run for run in result.get("runs", ()) if isinstance(run, dict)]
    except (OSError, ValueError, AttributeError, TypeError):
        return []


def store_scenario(result: Json, folder: Path) -> None:
    """Write what a testnet made of any scenario into a folder, with its figure.

    Raises:
        UsageError: matplotlib is not installed.
    """
    store_result(result, folder)
    draw_scenario(result, folder / FIGURE)


def encode_result(result: Json) -> str:
    """JSON with a line a key and a line a run, for readable differences without bulk.

    Figures by batch, of which there may be thousands, become columns: `{"hit_rate": [...]}`, not
    `[{"hit_rate": ...}, ...]`.
    """
    lines = []
    for key, value in _packed(result).items():
        if key == "runs":
            runs = ",\n  ".join(json.dumps(run) for run in value)
            lines.append(f' "runs": [\n  {runs}\n ]')
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def decode_result(text: str) -> Json:
    """Read what `encode_result` returned.

    Raises:
        ValueError: It is no JSON.
    """
    result: Json = _unpacked(json.loads(text))
    return result


def _packed(value: Any) -> Any:
    if isinstance(value, list):
        return [_packed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _columns(item) if key == _SERIES and isinstance(item, list) else _packed(item)
        for key, item in value.items()
    }


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _rows(item) if key == _SERIES and isinstance(item, dict) else _unpacked(item)
        for key, item in value.items()
    }


def _columns(rows: list[Json]) -> dict[str, list[float | None]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _rows(columns: dict[str, list[float | None]]) -> list[Json]:
    return [
        {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for row in zip(*columns.values(), strict=True)
    ]
