"""The experiments as they are declared, and what is published of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.complete import COMPLETE_EXPERIMENTS, SMALL_BUDGET
from zerorag_p2p.experiments.experiment import (
    COMPLETE,
    OWN_STATE_FIRST,
    PAPER,
    Experiment,
    Variant,
    setting_of,
)
from zerorag_p2p.experiments.overview import overview
from zerorag_p2p.experiments.published import PUBLISHED, Published
from zerorag_p2p.experiments.registry import EXPERIMENTS, find_experiment
from zerorag_p2p.experiments.scale import SCALES, find_scale
from zerorag_p2p.routing.strategy import Start, strategy_from


def variants_of(name: str, scale: str) -> list[Variant]:
    experiment = find_experiment(name)
    return list(experiment.variants(find_scale(scale).fit(experiment.base())))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_variants_are_told_apart_at_every_scale(name: str, scale: str) -> None:
    variants = variants_of(name, scale)
    assert variants
    names = [variant.name for variant in variants]
    assert len(set(names)) == len(names)
    for variant in variants:
        strategy_from(variant.scenario.routing)
        assert variant.scenario.peers >= 2


def test_every_published_experiment_on_zerorag_is_run_in_both_readings() -> None:
    for experiment in EXPERIMENTS.values():
        if experiment in COMPLETE_EXPERIMENTS:
            continue
        routed = [item for item in variants_of(experiment.name, "paper") if item.baseline is None]
        names = {OWN_STATE_FIRST: 0, PAPER: 0}
        for variant in routed:
            reading = variant.name.partition(", ")[0].removesuffix(" until settled")
            reading = reading.removesuffix(f" within {SMALL_BUDGET}")
            if reading in (COMPLETE, "random order"):
                continue
            names[reading] += 1
            starts_from_neighbors = strategy_from(variant.scenario.routing).start is Start.PAPER
            assert starts_from_neighbors == (reading == PAPER)
        assert all(names.values()) or not routed


@pytest.mark.parametrize("item", PUBLISHED, ids=lambda item: f"{item.experiment} {item.setting}")
def test_a_published_figure_has_a_variant_and_a_place_in_figures_of_ours(item: Published) -> None:
    settings = {setting_of(variant.name) for variant in variants_of(item.experiment, "paper")}
    assert item.setting in settings
    assert item.quantity in EXPERIMENTS[item.experiment].quantities
    assert 0.0 < item.value <= (1.0 if item.quantity.percent else 60.0)


def test_published_figures_are_those_of_the_papers() -> None:
    def value(experiment: str, setting: str, title: str) -> tuple[float, float | None]:
        (found,) = (
            item
            for item in PUBLISHED
            if (item.experiment, item.setting) == (experiment, setting)
            and item.quantity.title == title
        )
        return found.value, found.deviation

    assert value("table1", "memory 100", "hit rate") == (0.97612, 0.00037)
    assert value("table2", "peers 100000", "requests") == (5.724, 0.011)
    assert value("table5", "10 x 3", "rounds") == (1.408, 0.001)
    assert value("fig5", "HNSW", "recall@1") == (0.973, None)
    assert value("table1", "static, memory 0", "requests") == (16.796, 0.067)


def test_neighbors_stay_the_same_in_a_static_network() -> None:
    choices = {
        setting_of(variant.name): variant.scenario.routing.neighbor_choice
        for variant in variants_of("table1", "paper")
    }
    static = [setting for setting, choice in choices.items() if choice == "none"]
    assert static == ["static, memory 0", "static, memory 1000"]


def test_sizes_are_those_of_the_paper_at_its_scale() -> None:
    peers = {variant.scenario.peers for variant in variants_of("table2", "paper")}
    assert peers == {1_000, 5_000, 10_000, 50_000, 100_000}
    (scenario,) = {replace(item.scenario, routing=None) for item in variants_of("table1", "paper")}
    assert (scenario.peers, scenario.draws) == (50_000, 30)
    for variant in variants_of("table5", "paper"):
        routing = variant.scenario.routing
        assert (routing.contact_budget, variant.scenario.rounds) == (30, True)


def test_an_experiment_is_also_found_by_the_number_of_its_figure() -> None:
    assert find_experiment("fig6").name == "churn"
    assert find_experiment("fig8").name == "new-topic"
    with pytest.raises(UsageError, match="known: table1, table2"):
        find_experiment("weather")
    with pytest.raises(UsageError, match="known: smoke, nodes, laptop, paper"):
        find_scale("planet")


def test_the_overview_counts_runs_and_questions() -> None:
    entries = {entry["name"]: entry for entry in overview("paper")}
    assert set(entries) == set(EXPERIMENTS)
    assert entries["table1"]["runs"] == 5 * 14
    assert entries["table1"]["questions"] == 5 * 14 * 1_500_000
    assert entries["fig3"]["questions"] is None
    assert entries["fig3"]["data"] == "aol-ia"


def test_experiments_are_declared_once() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert isinstance(experiment, Experiment)
        assert name == experiment.name == experiment.base().name
