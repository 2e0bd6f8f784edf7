"""Commands that run scenarios on testnets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, json_option
from zerorag_p2p.cli.testnet_options import Json, pubmedqa_option

if TYPE_CHECKING:
    from zerorag_p2p.workloads.scenario import Scenario

#: Peers of a scenario unless the user says otherwise; scenario files are made for the simulator,
#: which takes ten times as many.
_MAX_PEERS: Final = 500


@click.command("list", epilog=example("zerorag testnet list"))
@json_option
def list_(as_json: bool) -> None:
    """List the scenarios that come with the package."""
    from zerorag_p2p.workloads.scenario import list_scenarios

    scenarios = list_scenarios()
    if as_json:
        fields = ("name", "shows", "workload", "peers")
        output.print_json([{name: getattr(item, name) for name in fields} for item in scenarios])
        return
    for scenario in scenarios:
        click.echo(f"{scenario.name:<12}  {scenario.shows}")


@click.command(
    epilog=example(
        "zerorag testnet run partition --peers 100",
        "zerorag testnet run churn --seeds 3 --out results/churn",
    )
)
@click.argument("scenario")
@click.option(
    "--peers",
    type=click.IntRange(2, 1_000),
    help=f"How many nodes.  [default: the scenario's, at most {_MAX_PEERS}]",
)
@click.option("--draws", type=click.IntRange(min=1), help="Questions that each node asks.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Number of runs."
)
@pubmedqa_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Store result.json and figure.png in this folder.",
)
@json_option
def run(
    *,
    scenario: str,
    peers: int | None,
    draws: int | None,
    seeds: int,
    pubmedqa: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run a SCENARIO, by name or as a file ending in .toml, and tell what came of it.

    Every peer is a whole node and every message real frames, in virtual time. Trio does not repeat
    a run exactly, so run several seeds: the summary states how far they spread. Without PubMedQA
    the synthetic workload takes its place.
    """
    from zerorag_p2p.workloads.scenario import load_scenario

    loaded = load_scenario(scenario)
    chosen = replace(
        loaded,
        peers=peers or min(loaded.peers, _MAX_PEERS),
        draws=draws or loaded.draws,
        workload=loaded.workload if pubmedqa is not None else "synthetic",
    )
    if not as_json:
        click.echo(chosen.shows)
    with output.progress_line(not as_json) as show:
        result = _run_seeds(chosen, seeds, pubmedqa, show)
    if out is not None:
        from zerorag_p2p.experiments.store import store_scenario

        store_scenario(result, out)
    if as_json:
        output.print_json(result)
    else:
        _print_result(result)


def _run_seeds(
    scenario: Scenario, seeds: int, pubmedqa: Path | None, show: Callable[[str], None]
) -> Json:
    from zerorag_p2p.experiments.provenance import provenance
    from zerorag_p2p.testnet.run import run_on_testnet, summarise
    from zerorag_p2p.workloads.source import load_workload

    results = []
    for seed in range(scenario.seed, scenario.seed + seeds):
        seeded = replace(scenario, seed=seed)

        def on_progress(done: int, total: int, seed: int = seed) -> None:
            show(f"seed {seed}: {done} of {total} questions asked")

        workload = load_workload(seeded, pubmedqa)
        results.append(run_on_testnet(seeded, workload, on_progress))
    command = (
        f"zerorag testnet run {scenario.name} --peers {scenario.peers} --draws {scenario.draws} "
        f"--seeds {seeds}"
    )
    if pubmedqa is not None:
        command += " --pubmedqa FOLDER"
    return {**summarise(results), **provenance(command)}


def _print_result(result: Json) -> None:
    names = ("hit_rate", "random_order_hit_rate", "requests_to_target", "contacts", "failures")
    rows = [
        (f"tenth {number}", *(_figure(metrics.get(name)) for name in names))
        for number, metrics in enumerate(result["by_tenth"], start=1)
    ]
    rows.append(("whole run", *(_figure(result["metrics"].get(name)) for name in names)))
    spread = result.get("spread", {})
    if spread:
        rows.append(("deviation", *(_figure(_deviation(spread, name)) for name in names)))
    titles = ("hit rate", "random order", "requests to target", "contacts", "no answer")
    output.print_table(("", *titles), rows)
    runs = output.counted(len(result.get("seeds", [1])), "seed")
    click.echo(
        f"{result['peers']} peers, {result['workload']}, {runs}, {result['wall_s']:.0f} s"
        + ("" if spread else "; run several --seeds to see how far they spread")
    )


def _deviation(spread: Json, name: str) -> float | None:
    found = spread.get(name)
    return None if found is None else found["deviation"]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


SCENARIOS: Final = (list_, run)
