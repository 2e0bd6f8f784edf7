"""Running an experiment: every variant for every seed, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.experiment import find_experiment
from zerorag_p2p.experiments.provenance import provenance
from zerorag_p2p.simulation.run import run_scenario
from zerorag_p2p.testnet.run import run_on_testnet
from zerorag_p2p.workloads.results import Json, mean_metrics, spread_of_metrics
from zerorag_p2p.workloads.scenario import Scenario, load_scenario
from zerorag_p2p.workloads.source import load_workload
from zerorag_p2p.workloads.workload import Workload

#: Called with the variant, its seed and how many of how many questions it has asked.
OnProgress: TypeAlias = Callable[[str, int, int, int], None]

#: Runs a scenario with its workload; told how many of how many questions have been asked.
RunScenario: TypeAlias = Callable[[Scenario, Workload, Callable[[int, int], None] | None], Json]


def _smoke(scenario: Scenario) -> Scenario:
    """Seconds instead of minutes: shows that everything runs, and no figure worth quoting."""
    routing = replace(scenario.routing, contact_budget=6)
    # Fewer questions in the same time, so that a batch lasts about as long as ever.
    network = replace(scenario.network, queries_per_s=scenario.network.queries_per_s / 10)
    return replace(scenario, peers=60, draws=10, batch=60, routing=routing, network=network)


def _laptop(scenario: Scenario) -> Scenario:
    """As the scenario says: 5,000 peers, minutes a run."""
    return scenario


def _nodes(scenario: Scenario) -> Scenario:
    """What whole nodes can do in minutes: 500 peers."""
    # A tenth of the questions, so what happens between them has to happen sooner.
    network = replace(scenario.network, refresh_s=20.0)
    return replace(scenario, peers=500, batch=scenario.batch // 2, network=network)


SCALES: Final[Mapping[str, Callable[[Scenario], Scenario]]] = {
    "smoke": _smoke,
    "laptop": _laptop,
    "nodes": _nodes,
}

#: What runs a scenario: peers as values on an event queue, or whole nodes on trio.
WORLDS: Final[Mapping[str, RunScenario]] = {
    "simulator": run_scenario,
    "testnet": run_on_testnet,
}


def run(
    name: str,
    *,
    scale: str = "laptop",
    seeds: int = 1,
    workload_folder: Path | None = None,
    world: str = "simulator",
    variants: str = "",
    on_progress: OnProgress | None = None,
) -> Json:
    """Run an experiment; its result in the format of result files.

    Top-level metrics are those of the first variant, means over the seeds. `variants` has them for
    all, with what the experiment is about read off each run and, of two seeds or more, the spread;
    `runs` has every run whole.

    Args:
        name: "churn" or "new-topic".
        scale: "smoke", "laptop" or "nodes".
        seeds: Runs of each variant, with seeds from 1.
        workload_folder: Where PubMedQA is; without it the synthetic workload is used.
        world: "simulator" or "testnet".
        variants: How the names of the variants to run begin.
        on_progress: Called while a run is under way.

    Raises:
        UsageError: There is no such experiment, scale, world or variant, or no PubMedQA in the
            folder.
    """
    experiment = find_experiment(name)
    if scale not in SCALES:
        raise UsageError(f"there is no scale {scale!r}; known: {', '.join(SCALES)}")
    if world not in WORLDS:
        raise UsageError(f"there is no world {world!r}; known: {', '.join(WORLDS)}")
    if seeds < 1:
        raise UsageError("an experiment needs at least one seed")
    workload_name = "synthetic" if workload_folder is None else "pubmedqa"
    base = replace(SCALES[scale](load_scenario(experiment.scenario)), workload=workload_name)
    began = time.monotonic()
    runs: dict[str, list[Json]] = {}
    for seed in range(1, seeds + 1):
        seeded = replace(base, seed=seed)
        workload = load_workload(seeded, workload_folder)
        for variant in experiment.variants(seeded):
            if not variant.name.startswith(variants):
                continue
            progress = None
            if on_progress is not None:
                progress = _progress_of(on_progress, variant.name, seed)
            started = time.monotonic()
            result = WORLDS[world](variant.scenario, workload, progress)
            result["variant"] = variant.name
            result["findings"] = experiment.read(result)
            result["wall_s"] = round(time.monotonic() - started, 1)
            runs.setdefault(variant.name, []).append(result)
    if not runs:
        raise UsageError(f"no variant of {name!r} begins with {variants!r}")
    first = next(iter(runs.values()))
    command = f"python -m zerorag_p2p.experiments {name} --scale {scale} --seeds {seeds}"
    if world != "simulator":
        command += f" --world {world}"
    if variants:
        command += f" --variants {variants}"
    if workload_folder is not None:
        command += " --pubmedqa FOLDER"
    return {
        "name": name,
        **{key: first[0][key] for key in ("system", "workload", "peers", "seed", "settings")},
        "seeds": [result["seed"] for result in first],
        "metrics": _means(first),
        "by_tenth": _means_by_tenth(first),
        **provenance(command),
        "wall_s": round(time.monotonic() - began, 1),
        "variants": {variant: _combined(results) for variant, results in runs.items()},
        "runs": [result for results in runs.values() for result in results],
    }


def _progress_of(on_progress: OnProgress, variant: str, seed: int) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        on_progress(variant, seed, done, total)

    return report


def _combined(results: list[Json]) -> Json:
    combined: Json = {"metrics": _means(results), "by_tenth": _means_by_tenth(results)}
    if len(results) > 1:
        combined["spread"] = spread_of_metrics([result["metrics"] for result in results])
    combined["findings"] = [result["findings"] for result in results]
    return combined


def _means(results: list[Json]) -> dict[str, float]:
    return mean_metrics([result["metrics"] for result in results])


def _means_by_tenth(results: list[Json]) -> list[dict[str, float]]:
    tenths = zip(*(result["by_tenth"] for result in results), strict=True)
    return [mean_metrics(tenth) for tenth in tenths]
