"""Running a scenario on the event simulator, from workload to result."""

from __future__ import annotations

from zerorag_p2p.simulation.events import OnProgress, Simulation
from zerorag_p2p.workloads.plan import make_plan
from zerorag_p2p.workloads.results import Json, make_result
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.workload import Workload

SYSTEM = "event simulator"


def run_scenario(
    scenario: Scenario, workload: Workload, on_progress: OnProgress | None = None
) -> Json:
    """Run a scenario once; everything in the result follows from the arguments.

    `trace_sha256` is a digest of every step of every walk: two runs with the same one were the
    same run.

    Args:
        scenario: The scenario.
        workload: Its workload, for as many peers.
        on_progress: Called with the number of events due so far, and of all.
    """
    plan = make_plan(scenario, workload)
    run = Simulation(scenario, plan).run(on_progress)
    result = make_result(scenario, plan, run.outcomes, system=SYSTEM)
    result["counts"] = {
        "asked": len(run.outcomes),
        "unasked": run.unasked,
        "contacts": run.contacts,
        "copies": run.copies,
        "copies_refused": run.copies_refused,
    }
    result["trace_sha256"] = run.trace
    return result
