"""What runs a variant: one of the worlds of ZeroRAG, or a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from zerorag_p2p.errors import UsageError
from zerorag_p2p.experiments.answers import draw_sample
from zerorag_p2p.experiments.experiment import SIMULATOR, VECTORISED, Experiment, Variant
from zerorag_p2p.experiments.measuring import measure_run
from zerorag_p2p.experiments.relevant import name_available, shares_by_hit, shares_by_visits
from zerorag_p2p.experiments.systems import run_system
from zerorag_p2p.simulation.run import run_scenario
from zerorag_p2p.testnet.run import run_on_testnet
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.plan import Plan, make_plan
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.workload import Numbers, Workload

#: Told how many questions are done, and of how many.
OnProgress: TypeAlias = Callable[[int, int], None]

#: Told that the vectorised simulator is being compiled, for half a minute or so.
OnCompile: TypeAlias = Callable[[], None]

#: Peers as values on an event queue, and whole nodes on trio; these sum outcomes up themselves.
_SUMMING: Final[Mapping[str, Callable[[Scenario, Workload, OnProgress | None], Json]]] = {
    SIMULATOR: run_scenario,
    "testnet": run_on_testnet,
}

WORLDS: Final = (VECTORISED, *_SUMMING)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run gave: its result, and every question's outcome where the world keeps them."""

    result: Json
    outcomes: OutcomeTable | None = None


def run_variant(
    experiment: Experiment,
    variant: Variant,
    workload: Workload,
    *,
    world: str,
    on_progress: OnProgress | None = None,
    on_compile: OnCompile | None = None,
) -> Ran:
    """Run a variant once, with the workload of its scenario.

    Args:
        experiment: What is read off the run.
        variant: What to run.
        workload: For as many peers as the scenario has.
        world: Of `WORLDS`; a baseline is the same in all.
        on_progress: Called while the run is under way.
        on_compile: Called if the simulator has to be compiled first.
    """
    if variant.baseline is None and world in _SUMMING:
        ran = Ran(_SUMMING[world](variant.scenario, workload, on_progress))
    else:
        ran = _run_with_outcomes(experiment, variant, workload, on_progress, on_compile)
    findings = experiment.read(ran.result)
    if experiment.read_table is not None and ran.outcomes is not None:
        findings |= experiment.read_table(ran.outcomes, len(workload.events))
    ran.result["findings"] = findings
    if experiment.sampled and ran.outcomes is not None:
        ran.result["sample"] = draw_sample(
            ran.outcomes, len(workload.events), experiment.sampled, variant.scenario.seed
        )
    return ran


def check_world(experiment: Experiment, world: str, *, outcomes: bool = False) -> None:
    """Refuse a world in which an experiment cannot be run.

    Args:
        experiment: What is to be run.
        world: The world's name.
        outcomes: Whether every question's outcome is wanted.

    Raises:
        UsageError: There is no such world, or it does not keep what the experiment looks at.
    """
    if world not in WORLDS:
        raise UsageError(f"there is no world {world!r}; known: {', '.join(WORLDS)}")
    if world in _SUMMING and (experiment.read_table is not None or experiment.relevant):
        raise UsageError(
            f"{experiment.name} looks at every question, and the world {world!r} keeps only their "
            f"means: run it with --world {VECTORISED}"
        )
    if world in _SUMMING and outcomes:
        raise UsageError(
            f"the world {world!r} keeps only means over questions: leave out --outcomes, or run "
            f"with --world {VECTORISED}"
        )


def _run_with_outcomes(
    experiment: Experiment,
    variant: Variant,
    workload: Workload,
    on_progress: OnProgress | None,
    on_compile: OnCompile | None,
) -> Ran:
    scenario = variant.scenario
    particulars: Json = {}
    visited: Numbers | None = None
    if experiment.relevant:
        workload = name_available(workload, scenario.seed)
    if variant.baseline is None:
        plan, name = make_plan(scenario, workload), "vectorised simulator"
        table, visited = _run_vectorised(
            scenario, plan, on_progress, on_compile, traced=experiment.relevant
        )
    else:
        run = run_system(variant.baseline, scenario, workload, on_progress)
        plan, name, table, particulars = Plan(workload), run.name, run.outcomes, run.particulars
    if experiment.relevant:
        particulars |= _measure_relevant(workload, table, visited)
    result = measure_run(scenario, plan, table, system=name, batches=experiment.batches)
    return Ran({**result, **particulars}, table)


def _measure_relevant(workload: Workload, table: OutcomeTable, visited: Numbers | None) -> Json:
    """By bin the shares of the relevant documents found, in the whole run and its last tenth."""
    if visited is None:
        shares = shares_by_hit(workload, table.hit)
    else:
        shares = shares_by_visits(workload, visited)
    last_tenth = -(-len(workload.events) * 9 // 10)
    return {"relevant": shares.by_bin(), "relevant_last_tenth": shares.by_bin(last_tenth)}


def _run_vectorised(
    scenario: Scenario,
    plan: Plan,
    on_progress: OnProgress | None,
    on_compile: OnCompile | None,
    *,
    traced: bool,
) -> tuple[OutcomeTable, Numbers]:
    """The outcomes, and if `traced` whom every question went to, [events, contact budget]."""
    try:
        from zerorag_p2p.experiments.compiling import compilation_told
        from zerorag_p2p.simulation.vectorised import VectorisedSimulation
    except ImportError as error:
        if error.name != "numba":
            raise
        raise UsageError(
            "the vectorised simulator needs numba: pip install 'zerorag-p2p[experiments]'"
        ) from None
    with compilation_told(on_compile or (lambda: None)):
        simulation = VectorisedSimulation(scenario, plan, traced=traced)
        table = simulation.run(on_progress)
    return table, simulation.outcomes.visited
