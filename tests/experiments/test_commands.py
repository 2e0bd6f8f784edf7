"""`zerorag experiment` as it is typed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.simulation.pubmedqa_files import write_pubmedqa
from zerorag_p2p.cli.main import cli
from zerorag_p2p.experiments import worlds


def zerorag(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["experiment", *map(str, arguments)])


def test_what_was_run_is_stored_compared_and_drawn(tmp_path: Path) -> None:
    order = ("fig5", "--results", tmp_path)
    run = zerorag("run", *order, "--scale", "smoke", "--variants", "HNSW")
    assert run.exit_code == 0, run.output
    assert run.stdout.startswith("fig5: 60 peers, synthetic, hnsw, 1 seed")
    assert (tmp_path / "fig5" / "result.json").is_file()
    assert not run.stderr

    compared = zerorag("compare", *order)
    assert compared.exit_code == 0, compared.output
    assert "97.300%" in compared.stdout
    assert "ZeroRAG, figure 5 (section 4.3)" in compared.stdout

    figure = tmp_path / "fig5" / "figure.png"
    drawn = figure.read_bytes()
    assert drawn.startswith(b"\x89PNG")
    figure.unlink()
    assert zerorag("plot", *order).stdout.strip() == str(figure)
    assert figure.read_bytes() == drawn


def test_json_is_all_that_stands_on_standard_output(tmp_path: Path) -> None:
    order = ("fig5", "--results", tmp_path, "--json")
    arguments = ("run", *order, "--scale", "smoke", "--variants", "exact")
    result = json.loads(zerorag(*arguments).stdout)
    assert result["variants"]["exact"]["last_tenth"]["recall_at_5_exact"] == 1.0
    again = zerorag(*arguments)
    assert json.loads(again.stdout)["runs"] == result["runs"]
    assert again.stderr.startswith("1 run of an earlier command kept")
    assert again.stderr.endswith("; --fresh repeats them\n")
    assert json.loads(zerorag("compare", *order).stdout) == []
    assert json.loads(zerorag("plot", *order).stdout)["figure"].endswith("figure.png")


def test_the_list_says_what_each_experiment_needs() -> None:
    entries = {entry["name"]: entry for entry in json.loads(zerorag("list", "--json").stdout)}
    assert entries["table1"]["published"] == "ZeroRAG, table 1"
    assert entries["fig4"]["data"] == "amazon"
    assert "drag-fig7" in zerorag("list").stdout


def test_a_workload_is_shown_beside_what_is_published_of_it(tmp_path: Path) -> None:
    write_pubmedqa(tmp_path, 6)
    shown = zerorag("workload", "pubmedqa", "--pubmedqa", tmp_path, "--peers", 5)
    assert shown.exit_code == 0
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("documents  ")]
    assert line.split() == ["documents", "6", "1,000"]
    figures = json.loads(zerorag("workload", "synthetic", "--json").stdout)
    assert {"figure": "peers", "ours": 200, "published": None, "note": ""} in figures
    for arguments, sentence in (
        (["nowhere"], "there is no workload 'nowhere'; known: pubmedqa, "),
        (["pubmedqa"], "needs PubMedQA: say in which folder that is"),
    ):
        refused = zerorag("workload", *arguments)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert sentence in refused.stderr


def test_a_command_says_that_it_waits_for_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_first(*arguments: Any, on_compile: Callable[[], None], **named: Any) -> worlds.Ran:
        on_compile()
        return worlds.run_variant(*arguments, **named)

    monkeypatch.setattr("zerorag_p2p.experiments.run.run_variant", compile_first)
    arguments = ("fig5", "--results", tmp_path, "--scale", "smoke", "--variants", "exact")
    waiting = zerorag("run", *arguments, "--json")
    assert waiting.stderr.startswith("compiling the simulator")
    json.loads(waiting.stdout)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_comparison_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    order = ("drag-table1", "--results", tmp_path)
    assert zerorag("run", *order, "--scale", "smoke", "--variants", "DRAG-RW").exit_code == 0
    arguments = ["experiment", "compare", *map(str, order)]
    lines = CliRunner().invoke(cli, arguments, env={"COLUMNS": str(columns)}).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line for line in lines if line.startswith("Beside")] == [
        f"Beside DRAG, table 1, {data}:" for data in ("MMLU", "Medical", "News")
    ]
    assert sum("hit rate (DRAG)" in line for line in lines) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "weather"), "there is no experiment 'weather'; known: table1"),
        (("run", "fig3"), "name its folder with --workload"),
        (("compare", "table1", "--results", "nowhere"), "run `zerorag experiment run table1`"),
    ],
)
def test_mistakes_are_told_on_standard_error(arguments: tuple[str, ...], sentence: str) -> None:
    result = zerorag(*arguments)
    assert result.exit_code == 2
    assert not result.stdout
    assert result.stderr.startswith("error: ")
    assert sentence in result.stderr


def test_without_matplotlib_the_figures_stay_in_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    order = ("fig5", "--results", tmp_path)
    run = zerorag("run", *order, "--scale", "smoke", "--variants", "exact")
    assert run.exit_code == 0
    assert run.stderr.startswith("no figure: figures need matplotlib: pip install")
    assert (tmp_path / "fig5" / "result.json").is_file()
    plot = zerorag("plot", *order)
    assert plot.exit_code == 2
    assert "zerorag-p2p[experiments]" in plot.stderr
