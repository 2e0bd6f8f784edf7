"""Commands on experiments: run them, put them beside what is published, draw them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, json_option
from zerorag_p2p.errors import UsageError

if TYPE_CHECKING:
    from zerorag_p2p.experiments.run import Progress

_SCALES: Final = ("smoke", "nodes", "laptop", "paper")
_WORLDS: Final = ("vectorised", "simulator", "testnet")

results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    metavar="FOLDER",
    help="Folder of results; each experiment has a folder of its name in it.",
)


@click.group(
    epilog=example("zerorag experiment list", "zerorag experiment run table1 --scale smoke")
)
def experiment() -> None:
    """Repeat the published experiments, and compare."""


@experiment.command("list", epilog=example("zerorag experiment list --scale paper"))
@click.option(
    "--scale",
    type=click.Choice(_SCALES),
    default="laptop",
    show_default=True,
    help="Count runs and questions at this scale.",
)
@json_option
def list_(scale: str, as_json: bool) -> None:
    """List the experiments: what each shows, where it is published, what it needs and costs."""
    from zerorag_p2p.experiments.overview import overview

    entries = overview(scale)
    if as_json:
        output.print_json(entries)
        return
    rows = [
        (
            entry["name"],
            entry["shows"],
            entry["published"] or "-",
            entry["data"],
            entry["runs"],
            "-" if entry["questions"] is None else f"{entry['questions']:,}",
        )
        for entry in entries
    ]
    output.print_table(("name", "shows", "published", "data", "runs", "questions"), rows)


@experiment.command(
    epilog=example(
        "zerorag experiment run table1 --scale smoke",
        "zerorag experiment run fig5 --pubmedqa ./pubmedqa --seeds 3",
        "zerorag experiment run churn --world testnet --scale nodes --variants paper",
        "zerorag experiment run fig3 --workload ./aol-ia",
        "zerorag experiment run fig5 --pubmedqa ./pubmedqa --base-url http://127.0.0.1:8000/v1 "
        "--model phi3.5",
    )
)
@click.argument("name")
@click.option(
    "--scale",
    type=click.Choice(_SCALES),
    default="laptop",
    show_default=True,
    help="smoke takes seconds, laptop minutes (5,000 peers), paper is as published (50,000); nodes "
    "is what a testnet can do (500).",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    help="Runs of each variant.  [default: 5 at the scale of the paper, else 1]",
)
@click.option(
    "--world",
    type=click.Choice(_WORLDS),
    help="What runs ZeroRAG: arrays, peers on an event queue, or whole nodes.  [default: the first "
    "that the experiment can run on]",
)
@click.option("--variants", default="", metavar="PREFIX", help="Run only those named like this.")
@click.option(
    "--pubmedqa",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where PubMedQA is (docs/experiments.md).  [default: synthetic documents]",
)
@click.option(
    "--workload",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="A workload of your own, AOL-IA or Amazon Electronics (docs/workloads.md).",
)
@results_option
@click.option("--fresh", is_flag=True, help="Run again what is stored already.")
@click.option("--outcomes", is_flag=True, help="Store what became of every question, as .npz.")
@click.option(
    "--base-url",
    metavar="URL",
    help="OpenAI-compatible endpoint of a language model that answers from what fig5 finds.",
)
@click.option("--model", metavar="NAME", help="The language model's name there.")
@click.option(
    "--key-environment",
    default="",
    metavar="NAME",
    help="Environment variable that holds the endpoint's key.",
)
@json_option
def run(
    *,
    name: str,
    scale: str,
    seeds: int | None,
    world: str | None,
    variants: str,
    pubmedqa: Path | None,
    workload: Path | None,
    results: Path,
    fresh: bool,
    outcomes: bool,
    base_url: str | None,
    model: str | None,
    key_environment: str,
    as_json: bool,
) -> None:
    """Run the experiment NAME and store its result.

    Every run is stored when it is over. The same command goes on where it was interrupted: runs of
    the same settings, data and version are not repeated.

    With --base-url and --model a language model decides PubMedQA's questions from what fig5 found,
    of stored runs as well.
    """
    if (base_url is None) != (model is None):
        raise UsageError("a language model has an endpoint and a name: give --base-url and --model")
    from zerorag_p2p.config import GenerationConfig
    from zerorag_p2p.experiments.registry import find_experiment
    from zerorag_p2p.experiments.run import Order
    from zerorag_p2p.experiments.run import run as run_experiment
    from zerorag_p2p.experiments.store import FIGURE, store_figure, store_result
    from zerorag_p2p.experiments.summary import headline, tabulate_result

    found = find_experiment(name)
    order = Order(
        name=found.name,
        scale=scale,
        seeds=seeds,
        world=world,
        variants=variants,
        pubmedqa=pubmedqa,
        workload=workload,
        results=results,
        fresh=fresh,
        outcomes=outcomes,
        language_model=None
        if base_url is None or model is None
        else GenerationConfig(base_url=base_url, model=model, key_environment=key_environment),
    )
    with _progress() as show:
        result = run_experiment(order, show)
    folder = results / found.name
    store_result(result, folder)
    try:
        store_figure(result, folder / FIGURE)
    except UsageError as error:  # the figures are in the JSON all the same
        click.echo(f"no figure: {error}", err=True)
    if as_json:
        output.print_json(result)
        return
    click.echo(headline(result))
    output.print_table(*tabulate_result(found, result))
    click.echo(
        f"Stored in {folder}. Beside the published figures: zerorag experiment compare {name}"
    )


@experiment.command(
    epilog=example(
        "zerorag experiment compare table1",
        "zerorag experiment compare churn --results testnet/results/laptop",
    )
)
@click.argument("name")
@results_option
@json_option
def compare(name: str, results: Path, as_json: bool) -> None:
    """Show the stored result of NAME beside the published figures.

    Means and standard deviations over the seeds. The number of peers stands with each: figures of a
    smaller network than the published one are no repetition.
    """
    from zerorag_p2p.experiments.comparison import compare as compare_result
    from zerorag_p2p.experiments.store import load_result
    from zerorag_p2p.experiments.summary import headline, tabulate_comparisons

    result = load_result(results, name)
    comparisons = compare_result(result)
    if as_json:
        output.print_json([item.to_json() for item in comparisons])
        return
    click.echo(headline(result))
    for source, table in tabulate_comparisons(comparisons).items():
        click.echo(f"\nBeside {source}:")
        output.print_table(*table, optional=("peers",))
    if not comparisons:
        click.echo("No figure of it is published as a number.")


@experiment.command(
    epilog=example(
        "zerorag experiment plot table1",
        "zerorag experiment plot churn --results testnet/results/laptop --out churn.png",
    )
)
@click.argument("name")
@results_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PNG to write.  [default: figure.png beside the result]",
)
@json_option
def plot(name: str, results: Path, out: Path | None, as_json: bool) -> None:
    """Draw the figure of the stored result of NAME."""
    from zerorag_p2p.experiments.store import FIGURE, load_result, store_figure

    result = load_result(results, name)
    path = out or results / result["name"] / FIGURE
    store_figure(result, path)
    if as_json:
        output.print_json({"figure": str(path)})
    else:
        click.echo(path)


@experiment.command(
    epilog=example(
        "zerorag experiment workload pubmedqa --pubmedqa ./pubmedqa --peers 10000",
        "zerorag experiment workload consortium --peers 200 --json",
    )
)
@click.argument("name")
@click.option("--peers", type=click.IntRange(min=2), default=200, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--pubmedqa",
    "--workload",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where the data of the workload is (docs/workloads.md).",
)
@json_option
def workload(name: str, peers: int, seed: int, folder: Path | None, as_json: bool) -> None:
    """Show what the workload NAME looks like, beside what is published of it.

    Who holds how many documents, who asks what, and how much can be found.
    """
    from zerorag_p2p.experiments.overview import describe

    figures = describe(name, peers=peers, seed=seed, folder=folder)
    if as_json:
        output.print_json(figures)
        return
    rows = [
        (
            item["figure"].replace("_", " "),
            f"{item['ours']:,}",
            "-" if item["published"] is None else f"{item['published']:,}",
            item["note"],
        )
        for item in figures
    ]
    output.print_table(("figure", "ours", "published", ""), rows)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Bars on standard error, if that is a terminal.

    What keeps a command waiting, or makes it short, is told in any case.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    kept: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, highlight=False)
    bars = Bars(
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    runs = bars.add_task("runs", total=None)
    questions = bars.add_task("", total=None, visible=False)

    def show(progress: Progress) -> None:
        if progress.kept:
            kept.append(progress.commit)
        if progress.compiling:
            console.print("compiling the simulator, which takes half a minute, once ...")
        deciding = ", answers" if progress.answering else ""
        bars.update(runs, completed=progress.run - 1 + progress.kept, total=progress.runs)
        bars.update(
            questions,
            description=f"{progress.variant}, seed {progress.seed}{deciding}",
            completed=progress.done,
            total=progress.questions or None,
            visible=not progress.kept,
        )

    with bars:
        yield show
    if kept:
        commits = ", ".join(dict.fromkeys(filter(None, kept)))
        origin = f" (commit {commits})" if commits else ""
        runs_kept = output.counted(len(kept), "run")
        click.echo(
            f"{runs_kept} of an earlier command kept{origin}; --fresh repeats them", err=True
        )
