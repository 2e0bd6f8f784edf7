"""Running experiments: what is stored, what is kept, what is refused."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.axes import draw_runs, panels
from zerorag_p2p.experiments.comparison import compare
from zerorag_p2p.experiments.experiment import (
    OWN_STATE_FIRST,
    Variant,
    runs_by_variant,
    with_routing,
)
from zerorag_p2p.experiments.registry import find_experiment
from zerorag_p2p.experiments.run import Order, Progress, run
from zerorag_p2p.experiments.run_files import RunKey
from zerorag_p2p.experiments.store import encode_result, load_result, store_figure, store_result
from zerorag_p2p.workloads.folder import write_workload
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import Crash, Scenario
from zerorag_p2p.workloads.synthetic import synthetic_workload

RESULT = {"name", "system", "workload", "peers", "seed", "settings", "metrics", "by_tenth"}
ORIGIN = {"version", "commit", "machine", "command", "wall_s"}


def central(results: Path) -> Order:
    """A run that takes no time: exhaustive search for the documents of sixty peers."""
    return Order(name="fig5", scale="smoke", variants="exact", results=results)


def kept(order: Order) -> list[bool]:
    told: list[Progress] = []
    run(order, told.append)
    return [item.kept for item in told if item.done == 0]


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Json:
    results = tmp_path_factory.mktemp("results")
    return run(Order(name="fig6", scale="smoke", seeds=2, world="simulator", results=results))


def test_a_result_says_what_was_run_and_what_came_of_it(churn: Json) -> None:
    assert set(churn) >= RESULT | ORIGIN
    assert (churn["name"], churn["workload"], churn["seeds"]) == ("churn", "synthetic", [1, 2])
    assert (
        churn["command"] == "zerorag experiment run fig6 --scale smoke --seeds 2 --world simulator"
    )
    assert len(churn["by_tenth"]) == 10
    assert churn["last_tenth"] == churn["by_tenth"][-1]
    for one in churn["runs"]:
        assert set(one) >= RESULT | {"variant", "findings", "commit", "wall_s"}
    json.loads(encode_result(churn), parse_constant=pytest.fail)


def test_every_variant_has_means_and_spread_of_the_last_tenth(churn: Json) -> None:
    assert set(churn["variants"]) == {"own-state-first", "paper", "complete"}
    for name, variant in churn["variants"].items():
        runs = [one for one in churn["runs"] if one["variant"] == name]
        rates = [one["by_tenth"][-1]["hit_rate"] for one in runs]
        assert variant["last_tenth"]["hit_rate"] == pytest.approx(np.mean(rates), abs=1e-6)
        spread = variant["spread_last_tenth"]["hit_rate"]
        assert (spread["min"], spread["max"]) == (min(rates), max(rates))
        for findings in variant["findings"]:
            for moment in ("before", "at", "last_tenth"):
                assert 0.0 < findings[moment]["hit_rate"] <= 1.0


def test_churn_is_put_beside_what_is_published(churn: Json) -> None:
    rows = [item.to_json() for item in compare(churn)]
    published = {row["figure"]: row["published"] for row in rows if row["variant"] == "paper"}
    assert published == {"last tenth": 0.955, "requests before": 8.9, "requests after": 15.1}
    for row in rows:
        assert row["difference"] == pytest.approx(row["ours"] - row["published"])
        assert (row["seeds"], row["peers"]) == (2, 60)
        assert row["ours_deviation"] is not None


def test_the_same_result_gives_the_same_files(tmp_path: Path, churn: Json) -> None:
    for name in ("first", "second"):
        store_result(churn, tmp_path / name / "churn")
        store_figure(churn, tmp_path / name / "churn" / "figure.png")
        assert load_result(tmp_path / name, "fig6") == churn
    for file in ("result.json", "figure.png"):
        first, second = (tmp_path / name / "churn" / file for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_a_topic_spreads_in_the_event_simulator(tmp_path: Path) -> None:
    order = Order(
        name="new-topic",
        scale="smoke",
        world="simulator",
        variants="paper, 10",
        results=tmp_path,
    )
    (variant,) = run(order)["variants"].values()
    (findings,) = variant["findings"]
    assert findings["batches_to_1"] is not None


def test_runs_that_are_over_are_not_repeated(tmp_path: Path) -> None:
    order = central(tmp_path)
    assert kept(order) == [False]
    assert kept(order) == [True]
    assert kept(replace(order, seeds=2)) == [True, False]
    assert kept(replace(order, fresh=True)) == [False]


def test_a_stored_result_is_enough_to_go_on_from(tmp_path: Path) -> None:
    first = replace(central(tmp_path / "first"), seeds=2)
    result = run(first)
    store_result(result, tmp_path / "second" / "fig5")
    second = replace(first, results=tmp_path / "second", seeds=3)
    assert kept(second) == [True, True, False]
    assert run(second)["runs"][:2] == result["runs"]
    assert kept(replace(second, outcomes=True)) == [False, False, False]
    (tmp_path / "second" / "fig5" / "result.json").write_text("[]")
    for file in (tmp_path / "second" / "fig5" / "runs").glob("*"):
        file.unlink()
    assert kept(replace(second, seeds=1)) == [False]


def test_runs_outlive_the_result_that_they_were_part_of(tmp_path: Path) -> None:
    exact = replace(central(tmp_path / "first"), seeds=2)
    store_result(run(exact), tmp_path / "second" / "fig5")
    for order in (replace(exact, variants="HNSW"), replace(exact, variants="HNSW", seeds=1)):
        here = replace(order, results=tmp_path / "second")
        store_result(run(here), tmp_path / "second" / "fig5")
    assert kept(replace(exact, results=tmp_path / "second")) == [True, True]
    (tmp_path / "second" / "fig5" / "runs" / "earlier.json").write_text("{")
    assert kept(replace(exact, results=tmp_path / "second")) == [False, False]


def test_a_crash_after_which_nothing_is_found_has_no_mean(churn: Json) -> None:
    crashed = json.loads(json.dumps(churn["runs"][0]))
    for tenth in crashed["by_tenth"][5:]:
        tenth.pop("requests_to_target", None)
    findings = find_experiment("churn").read(crashed)
    assert findings["requests_after"] is None
    assert findings["before"] == crashed["by_tenth"][4]


def test_a_run_is_known_by_what_is_not_as_by_default() -> None:
    def key(scenario: Scenario) -> RunKey:
        return RunKey(Variant("any", scenario), "vectorised", {})

    plain = Scenario(name="any", shows="This.")
    described = key(plain).to_json()["scenario"]
    assert described == {"is": "Scenario", "name": "any", "shows": ""}
    assert key(replace(plain, shows="That.")).digest() == key(plain).digest()
    others = [
        with_routing(plain, margin=2.0),
        with_routing(plain, routing="paper"),
        replace(plain, peers=plain.peers + 1),
        replace(plain, timeline=(Crash(at=0.5, share=0.5),)),
        replace(plain, timeline=(Crash(at=0.4, share=0.5),)),
    ]
    assert len({key(scenario).digest() for scenario in (plain, *others)}) == 1 + len(others)


def test_an_interrupted_command_goes_on_where_it_was(tmp_path: Path) -> None:
    order = replace(central(tmp_path), seeds=3)

    def interrupt(progress: Progress) -> None:
        if progress.run == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(order, interrupt)
    assert kept(order) == [True, True, False]


def test_other_settings_other_data_and_damage_are_other_runs(tmp_path: Path) -> None:
    order = central(tmp_path / "results")
    assert kept(order) == [False]
    own = tmp_path / "own"
    write_workload(synthetic_workload(peers=12, seed=1, draws=10), own)
    assert kept(replace(order, workload=own)) == [False]
    assert kept(replace(order, workload=own)) == [True]
    (own / "notes.txt").write_text("something else")
    assert kept(replace(order, workload=own)) == [False]
    for file in (tmp_path / "results" / "fig5" / "runs").glob("*.json"):
        file.write_text("{")
    assert kept(order) == [False]


def test_a_workload_of_the_user_takes_the_place_of_pubmedqa(tmp_path: Path) -> None:
    write_workload(synthetic_workload(peers=12, seed=1, draws=10), tmp_path / "own")
    result = run(replace(central(tmp_path / "results"), workload=tmp_path / "own"))
    assert (result["peers"], result["metrics"]["queries"]) == (12, 120)
    assert "own" not in result["command"]
    with pytest.raises(UsageError, match="table2 chooses its peers and documents itself"):
        run(Order(name="table2", scale="smoke", workload=tmp_path / "own", results=tmp_path))


def test_outcomes_are_stored_when_asked_for(tmp_path: Path) -> None:
    order = central(tmp_path)
    run(order)
    runs = tmp_path / "fig5" / "runs"
    assert not list(runs.glob("*.npz"))
    assert kept(replace(order, outcomes=True)) == [False]
    assert kept(replace(order, outcomes=True)) == [True]
    (stored,) = runs.glob("*.npz")
    (result,) = (json.loads(path.read_text())["result"] for path in runs.glob("*.json"))
    with np.load(stored, allow_pickle=False) as columns:
        assert len(columns["hit"]) == result["metrics"]["queries"]
        assert columns["recall_at_1"][columns["answerable"]].mean() == pytest.approx(
            result["metrics"]["recall_at_1"], abs=1e-6
        )
        assert "contacts" not in columns  # a central server contacts nobody


def test_drag_is_counted_as_drag_counts(tmp_path: Path) -> None:
    order = Order(name="drag-table1", scale="smoke", variants="DRAG", results=tmp_path)
    result = run(order)
    rows = {
        (row["variant"], row["figure"], row["source"]): row
        for row in (item.to_json() for item in compare(result))
    }
    assert len(rows) == 3 * 3 * 3
    walk = rows["DRAG-RW", "hit rate (DRAG)", "DRAG, table 1, MMLU"]
    flood = rows["DRAG-FL", "hit rate (DRAG)", "DRAG, table 1, MMLU"]
    assert walk["published"] == 0.2346
    assert walk["ours"] < 0.5 < flood["ours"]


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    order = central(tmp_path)
    with pytest.raises(UsageError, match="there is no experiment 'weather'"):
        run(replace(order, name="weather"))
    with pytest.raises(UsageError, match="there is no world 'moon'; known: vectorised"):
        run(replace(order, world="moon"))
    with pytest.raises(UsageError, match="no variant of 'fig5' begins with 'nobody'"):
        run(replace(order, variants="nobody"))
    with pytest.raises(UsageError, match="at least one seed"):
        run(replace(order, seeds=0))
    with pytest.raises(UsageError, match="fig5 looks at every question"):
        run(replace(order, world="testnet"))
    with pytest.raises(UsageError, match="fig4 looks at every question"):
        run(replace(order, name="fig4", world="simulator"))
    with pytest.raises(UsageError, match="leave out --outcomes"):
        run(replace(order, name="table5", variants="", world="simulator", outcomes=True))
    with pytest.raises(UsageError, match="aol-ia, which is not part of this package"):
        run(replace(order, name="fig3"))
    with pytest.raises(UsageError, match="does not hold PubMedQA"):
        run(replace(order, pubmedqa=tmp_path))
    with pytest.raises(UsageError, match="run `zerorag experiment run table1` first"):
        load_result(tmp_path, "table1")


@pytest.mark.slow
def test_the_vectorised_simulator_runs_what_the_tables_need(tmp_path: Path) -> None:
    order = Order(name="table5", scale="smoke", variants="paper, 3", results=tmp_path)
    (variant,) = run(order)["variants"].values()
    last = variant["last_tenth"]
    assert 1.0 <= last["rounds_to_target"] <= last["requests_to_target"]
    whole = run(replace(order, name="fig5", variants="own", outcomes=True))
    (findings,) = whole["variants"]["own-state-first"]["findings"]
    assert findings["requests_last_tenth"]["p99"] >= findings["requests_last_tenth"]["p50"] >= 1
    assert 0.5 < whole["last_tenth"]["recall_at_5_exact"] <= 1.0
    store_figure(whole, tmp_path / "figure.png")


RESULTS = Path(__file__).parents[2] / "testnet" / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*/result.json")), ids=str)
def test_committed_results_can_be_read(path: Path) -> None:
    folder = path.parent
    result = load_result(folder.parent, folder.name)
    assert folder.name == result["name"]
    assert result["workload"] in {"pubmedqa", "consortium-pubmedqa"}
    assert set(result) >= RESULT | ORIGIN
    assert (folder / "figure.png").is_file()
    compare(result)


@pytest.mark.parametrize("scale", ["nodes", "events", "laptop", "paper"])
def test_committed_results_recover_from_the_crash(scale: str) -> None:
    result = load_result(RESULTS / scale, "churn")
    for findings in (item["findings"] for item in result["runs"]):
        assert findings["last_tenth"]["hit_rate"] >= 0.9
        assert findings["at"]["hit_rate"] < findings["before"]["hit_rate"] + 1e-3


@pytest.mark.parametrize("scale", ["nodes", "events", "laptop"])
def test_in_committed_results_a_topic_of_one_owner_spreads_slowest(scale: str) -> None:
    runs = runs_by_variant(load_result(RESULTS / scale, "new-topic"))

    def median(owners: int) -> float:
        found = [
            run["findings"]["batches_to_0.995"]
            for run in runs[f"{OWN_STATE_FIRST}, {owners} owners"]
        ]
        return statistics.median(math.inf if item is None else item for item in found)

    one, five, ten, more, most = map(median, (1, 5, 10, 25, 50))
    assert one > five >= ten
    assert max(ten, more, most) - min(ten, more, most) <= 1


@pytest.mark.parametrize(("events", "first"), [(1_000, 6), (960, 5), (940, 5), (1_040, 6)])
def test_batches_count_from_the_one_in_which_the_topic_is_introduced(
    events: int, first: int
) -> None:
    rates = [{"queries": 0.0}] * first + [{"queries": 9.0, "hit_rate": 0.5}] * 2
    rates += [{"queries": 9.0, "hit_rate": 1.0}] * (math.ceil(events / 100) - len(rates))
    run = {
        "events": events,
        "settings": {"batch": 100, "timeline": [{"action": "introduce", "at": 0.6}]},
        "introduced": {"by_batch": rates},
    }
    findings = find_experiment("new-topic").read(run)
    assert findings["introduced_at_batch"] == first
    assert findings["hit_rates"][:3] == [0.5, 0.5, 1.0]
    assert findings["batches_to_1"] == 3


def test_lines_of_unequal_runs_are_drawn_as_far_as_all_go() -> None:
    (axes,) = panels(1)
    nan = float("nan")
    draw_runs(axes, [0.5, 1.5, 2.5], [[nan, 0.2, 0.5], [nan, 0.4]], "two seeds")
    (line,) = axes.get_lines()
    assert list(line.get_xdata()) == [0.5, 1.5]
    assert np.ma.filled(line.get_ydata(), -1.0).tolist() == [-1.0, pytest.approx(0.3)]
