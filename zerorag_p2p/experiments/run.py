"""Running an experiment: every variant for every seed, one after the other."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from zerorag_p2p.config import GenerationConfig
from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.answers import DECISIONS, Decider
from zerorag_p2p.experiments.experiment import Experiment, Variant
from zerorag_p2p.experiments.provenance import commit, provenance
from zerorag_p2p.experiments.registry import find_experiment
from zerorag_p2p.experiments.run_files import RunFiles, RunKey, data_files
from zerorag_p2p.experiments.scale import find_scale
from zerorag_p2p.experiments.store import RESULT, RUNS, runs_of
from zerorag_p2p.experiments.worlds import check_world, run_variant
from zerorag_p2p.workloads.folder import read_workload
from zerorag_p2p.workloads.results import Json, mean_metrics, spread_of_metrics
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.source import load_workload
from zerorag_p2p.workloads.workload import Workload

#: Workloads that exist as files of a user alone.
OWN_FILES: Final = ("aol-ia", "amazon")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an experiment is.

    Attributes:
        variant: Variant of the run under way.
        seed: Its seed.
        run: Number of the run, from 1.
        runs: Number of runs.
        done: Questions of the run that are done.
        questions: All its questions; 0 while the workload is made.
        kept: Whether the run was kept by an earlier command and is not run again.
        commit: Then the commit that it is of, "" if it is not known.
        compiling: Whether it waits for the vectorised simulator to be compiled.
        answering: Whether a language model decides its questions.
    """

    variant: str
    seed: int
    run: int
    runs: int
    done: int = 0
    questions: int = 0
    kept: bool = False
    commit: str = ""
    compiling: bool = False
    answering: bool = False


OnProgress: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run.

    Attributes:
        name: Name of the experiment.
        scale: Of `scale.SCALES`.
        seeds: Runs of each variant, with seeds from 1; None for as many as the scale says.
        world: Of `worlds.WORLDS`; None for that of the experiment.
        variants: How the names of the variants to run begin.
        pubmedqa: Where PubMedQA is; without it synthetic documents take its place.
        workload: A workload of the user, in place of PubMedQA.
        results: Folder of results; every run is kept in a folder of the experiment below it.
        fresh: Whether runs that were kept are run again.
        outcomes: Whether every question's outcome is kept.
        language_model: Decides questions from what was found for them (`answers`); none if absent.
    """

    name: str
    scale: str = "laptop"
    seeds: int | None = None
    world: str | None = None
    variants: str = ""
    pubmedqa: Path | None = None
    workload: Path | None = None
    results: Path
    fresh: bool = False
    outcomes: bool = False
    language_model: GenerationConfig | None = None

    def command(self) -> str:
        """The command line that gives this order, without what names places on a machine."""
        parts = [f"zerorag experiment run {self.name} --scale {self.scale}"]
        if self.seeds is not None:
            parts.append(f"--seeds {self.seeds}")
        if self.world is not None:
            parts.append(f"--world {self.world}")
        if self.variants:
            parts.append(f'--variants "{self.variants}"')
        if self.pubmedqa is not None:
            parts.append("--pubmedqa FOLDER")
        if self.workload is not None:
            parts.append("--workload FOLDER")
        if self.language_model is not None:
            parts.append(f"--base-url URL --model {shlex.quote(self.language_model.model)}")
        return " ".join(parts)


def run(order: Order, on_progress: OnProgress | None = None) -> Json:
    """Run an experiment; its result in the format of result files.

    A run is stored when it is over. A run with the same settings, data and version of the package
    that is stored already, in a file of its own or in the result of an earlier command, is taken
    from there.

    Top-level metrics are those of the first variant, means over the seeds. `variants` has them for
    all: over the whole run, for the last tenth of it, which is what the paper reports, and for
    every tenth, with what the experiment is about read off each run and, of two seeds or more, the
    spread; `runs` has every run whole.

    Args:
        order: What to run.
        on_progress: Called while runs are under way.

    Raises:
        UsageError: There is no such experiment, scale, world or variant, or the data is missing
            or does not fit.
        GenerationError: The language model failed; runs that are over are stored, and what it
            decided.
    """
    experiment = find_experiment(order.name)
    check_world(experiment, order.world or experiment.world, outcomes=order.outcomes)
    if order.language_model is not None and not experiment.sampled:
        raise UsageError(f"{experiment.name} has no questions for a language model to answer")
    planned = plan_runs(experiment, order)
    runner = _Runner(experiment, order, on_progress or (lambda _: None))
    runs: dict[str, list[Json]] = {}
    for number, variant in enumerate(planned, start=1):
        progress = Progress(variant.name, variant.scenario.seed, number, len(planned))
        runs.setdefault(variant.name, []).append(runner.run(variant, progress))
    return _combined(experiment.name, order.command(), runs)


def plan_runs(experiment: Experiment, order: Order) -> list[Variant]:
    """Every run of an order in turn, each a variant with its seed.

    Raises:
        UsageError: There is no such scale or variant, or the data is missing or does not fit.
    """
    scale = find_scale(order.scale)
    seeds = scale.seeds if order.seeds is None else order.seeds
    if seeds < 1:
        raise UsageError("an experiment needs at least one seed")
    base = _with_data(scale.fit(experiment.base()), order)
    planned = [
        variant
        for seed in range(1, seeds + 1)
        for variant in experiment.variants(replace(base, seed=seed))
        if variant.name.startswith(order.variants)
    ]
    if not planned:
        raise UsageError(f"no variant of {experiment.name!r} begins with {order.variants!r}")
    if base.workload == "folder" and any(
        _drawn_for(variant.scenario) != _drawn_for(base) for variant in planned
    ):
        raise UsageError(
            f"{experiment.name} chooses its peers and documents itself: run it without --workload"
        )
    return planned


def _drawn_for(scenario: Scenario) -> tuple[str, int, int]:
    """What a workload is drawn for, apart from the seed."""
    return scenario.workload, scenario.peers, scenario.draws


def _with_data(base: Scenario, order: Order) -> Scenario:
    """The scenario with the workload that the order has data for."""
    if base.workload in OWN_FILES:
        if order.workload is None:
            raise UsageError(
                f"{base.name} asks the questions of {base.workload}, which is not part of this "
                "package: get it, and name its folder with --workload (docs/workloads.md)"
            )
        return base
    if order.workload is not None:
        peers = len(read_workload(order.workload, seed=base.seed).holdings)
        return replace(base, workload="folder", peers=peers)
    if base.workload == "pubmedqa" and order.pubmedqa is None:
        return replace(base, workload="synthetic")
    return base


class _Runner:
    """Runs variants, or takes what an earlier command kept of them."""

    def __init__(self, experiment: Experiment, order: Order, on_progress: OnProgress) -> None:
        self._experiment = experiment
        self._order = order
        self._on_progress = on_progress
        folder = order.results / experiment.name
        self._files = RunFiles(folder / RUNS, runs_of(folder / RESULT))
        self._files.retain()
        self._folder = order.pubmedqa if order.workload is None else order.workload
        self._data = data_files(self._folder)
        settings = order.language_model
        self._decider = None if settings is None else Decider(settings, folder / DECISIONS)
        self._workload: tuple[tuple[object, ...], Workload] | None = None

    def run(self, variant: Variant, progress: Progress) -> Json:
        """The result of a variant, with what the language model made of it if there is one."""
        result = self._run(variant, progress)
        if self._decider is None:
            return result
        answers = self._decider.answer(
            result,
            self._workload_of(variant.scenario),
            lambda done, questions: self._on_progress(
                replace(progress, done=done, questions=questions, answering=True)
            ),
        )
        return {**result, "answers": answers}

    def _run(self, variant: Variant, progress: Progress) -> Json:
        key = RunKey(variant, self._order.world or self._experiment.world, self._data)
        if not self._order.fresh:
            kept = self._files.find(key, outcomes=self._order.outcomes)
            if kept is not None:
                self._on_progress(replace(progress, kept=True, commit=kept["commit"]))
                return kept
        self._on_progress(progress)
        started = time.monotonic()
        ran = run_variant(
            self._experiment,
            variant,
            self._workload_of(variant.scenario),
            world=key.world,
            on_progress=lambda done, questions: self._on_progress(
                replace(progress, done=done, questions=questions)
            ),
            on_compile=lambda: self._on_progress(replace(progress, compiling=True)),
        )
        result = {
            **ran.result,
            "variant": variant.name,
            "x": variant.x,
            "key": key.digest(),
            "commit": commit(),
            "wall_s": round(time.monotonic() - started, 1),
        }
        self._files.keep(key, result, ran.outcomes if self._order.outcomes else None)
        return result

    def _workload_of(self, scenario: Scenario) -> Workload:
        """A workload; the last one is remembered, as variants that follow each other share it."""
        wanted = (*_drawn_for(scenario), scenario.seed)
        if self._workload is None or self._workload[0] != wanted:
            self._workload = None  # the old one goes before the new one comes
            self._workload = (wanted, load_workload(scenario, self._folder))
        return self._workload[1]


def _combined(name: str, command: str, runs: dict[str, list[Json]]) -> Json:
    first = next(iter(runs.values()))
    all_runs = [result for results in runs.values() for result in results]
    return {
        "name": name,
        **{key: first[0][key] for key in ("system", "workload", "peers", "seed", "settings")},
        "seeds": [result["seed"] for result in first],
        **_summary(first),
        **provenance(command),
        # Runs that were kept may be of an earlier commit.
        "commit": ", ".join(dict.fromkeys(result["commit"] for result in all_runs)),
        "wall_s": round(sum(result["wall_s"] for result in all_runs), 1),
        "variants": {variant: _variant_summary(results) for variant, results in runs.items()},
        "runs": all_runs,
    }


def _summary(results: Sequence[Json]) -> Json:
    tenths = list(zip(*(result["by_tenth"] for result in results), strict=True))
    return {
        "metrics": mean_metrics([result["metrics"] for result in results]),
        "last_tenth": mean_metrics(tenths[-1]),
        "by_tenth": [mean_metrics(tenth) for tenth in tenths],
    }


def _variant_summary(results: Sequence[Json]) -> Json:
    summary: Json = {
        **{key: results[0][key] for key in ("system", "workload", "peers")},
        **_summary(results),
    }
    if len(results) > 1:
        summary["spread"] = spread_of_metrics([result["metrics"] for result in results])
        summary["spread_last_tenth"] = spread_of_metrics(
            [result["by_tenth"][-1] for result in results]
        )
    summary["findings"] = [result["findings"] for result in results]
    return summary
