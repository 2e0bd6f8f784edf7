"""Experiments as a user runs them, small and without data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.__main__ import main
from zerorag_p2p.experiments.experiment import EXPERIMENTS
from zerorag_p2p.experiments.run import run
from zerorag_p2p.experiments.store import encode_result, store_result
from zerorag_p2p.workloads.results import Json

METRICS = {"hit_rate", "recall_at_1", "requests_to_target", "contacts", "messages"}
RESULT = {"name", "system", "workload", "peers", "seed", "settings", "metrics", "by_tenth"}
ORIGIN = {"version", "commit", "machine", "command", "wall_s"}


@pytest.fixture(scope="module")
def churn() -> Json:
    return run("churn", scale="smoke", seeds=2)


def test_a_result_says_what_was_run_and_what_came_of_it(churn: Json) -> None:
    assert set(churn) >= RESULT | ORIGIN
    assert churn["metrics"].keys() >= METRICS
    assert len(churn["by_tenth"]) == 10
    assert churn["seeds"] == [1, 2]
    assert churn["workload"] == "synthetic"
    for run_of_one in churn["runs"]:
        assert set(run_of_one) >= RESULT
        assert (
            sum(batch["queries"] for batch in run_of_one["by_batch"])
            == (run_of_one["metrics"]["queries"])
        )
    json.loads(encode_result(churn), parse_constant=pytest.fail)


def test_churn_is_read_before_at_and_after_the_crash(churn: Json) -> None:
    assert set(churn["variants"]) == {"own-state-first", "paper"}
    for variant in churn["variants"].values():
        assert set(variant["spread"]["hit_rate"]) == {"min", "max", "deviation"}
        for findings in variant["findings"]:
            for moment in ("before", "at", "last_tenth"):
                assert 0.0 < findings[moment]["hit_rate"] <= 1.0
            assert findings["published"]["hit_rate_last_tenth"] == 0.955


def test_the_command_prints_a_table_and_stores_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-topic", "--scale", "smoke", "--out", str(tmp_path)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("new-topic: 60 peers, synthetic, event simulator")
    assert any(line.startswith("own-state-first, 5 owners, seed 1") for line in table)
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["command"].startswith("python -m zerorag_p2p.experiments new-topic")
    for run_of_one in stored["runs"]:
        findings = run_of_one["findings"]
        later = [rate for rate in findings["hit_rates"][2:] if rate is not None]
        assert later == pytest.approx([1.0] * len(later), abs=0.15)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_result_gives_the_same_files(tmp_path: Path, churn: Json) -> None:
    for name in ("first", "second"):
        store_result(churn, tmp_path / name)
    for file in ("result.json", "figure.png"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_what_does_not_exist_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="known: churn, new-topic"):
        run("weather")
    with pytest.raises(UsageError, match="known: smoke, laptop"):
        run("churn", scale="planet")
    with pytest.raises(UsageError, match="at least one seed"):
        run("churn", scale="smoke", seeds=0)
    assert main(["churn", "--pubmedqa", str(tmp_path)]) == UsageError.exit_code
    assert "does not hold PubMedQA" in capsys.readouterr().err


RESULTS = Path(__file__).parents[2] / "testnet" / "results"


@pytest.mark.parametrize("folder", sorted(RESULTS.iterdir()), ids=lambda folder: folder.name)
def test_committed_results_are_of_the_whole_experiment(folder: Path) -> None:
    assert folder.name in EXPERIMENTS
    result = json.loads((folder / "result.json").read_text())
    assert result["peers"] == 5_000
    assert result["workload"] == "pubmedqa"
    assert (folder / "figure.png").is_file()
