"""Commands on testnets: many nodes in one process, to be looked at and broken on purpose."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, json_option
from zerorag_p2p.cli.query import print_answer
from zerorag_p2p.errors import UsageError
from zerorag_p2p.home import TestnetFolder

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zerorag_p2p.client import TestnetClient
    from zerorag_p2p.workloads.scenario import Scenario

Json = dict[str, Any]

#: Peers of a scenario unless the user says otherwise; scenario files are made for the simulator,
#: which takes ten times as many.
_MAX_PEERS: Final = 500

#: Lines of a terminal that are not rows of the live table.
_TABLE_MARGIN: Final = 6


class TestnetFolderType(click.ParamType[TestnetFolder]):
    """The folder of a testnet; an empty one is the default."""

    __test__ = False  # pytest takes a class of this name for tests

    name = "folder"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> TestnetFolder:
        """The folder of a value that was typed."""
        del param, ctx
        if isinstance(value, TestnetFolder):
            return value
        return TestnetFolder.resolve(value, os.environ)


class _Number(click.FloatRange):
    """A number in a range. Click alone takes "nan" and "inf" for numbers, too."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


_POSITIVE: Final = _Number(min=0)

latency_option = click.option(
    "--latency", type=_POSITIVE, default=0.0, metavar="MS", help="One way."
)
jitter_option = click.option(
    "--jitter", type=_POSITIVE, default=0.0, metavar="MS", help="Mean time beyond it."
)
loss_option = click.option(
    "--loss", type=_Number(0, 1), default=0.0, metavar="SHARE", help="Of messages, 0 to 1."
)

folder_option = click.option(
    "--testnet",
    "folder",
    type=TestnetFolderType(),
    default=lambda: TestnetFolder.resolve(None, os.environ),
    help="Folder of the testnet.  [default: $ZERORAG_TESTNET, else a runtime folder of the user]",
)

pubmedqa_option = click.option(
    "--pubmedqa",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where PubMedQA is (docs/experiments.md).",
)

count_option = click.option(
    "--count", type=click.IntRange(min=1), help="So many nodes, drawn at random, instead of names."
)


def _client(folder: TestnetFolder) -> TestnetClient:
    """A client of the testnet. Imported late: `zerorag --help` needs no HTTP."""
    from zerorag_p2p.client import TestnetClient

    return TestnetClient(folder)


@click.group(epilog=example("zerorag testnet up", "zerorag testnet run churn --peers 100"))
def testnet() -> None:
    """Run many nodes in one process, and break them on purpose."""


# Starting and stopping.


@testnet.command(
    epilog=example(
        "zerorag testnet up",
        "zerorag testnet up --peers 50 --documents synthetic --latency 20 --rate 5",
        "zerorag testnet up --documents ./notes --embedder hashing --network libp2p",
    )
)
@click.option("--peers", type=click.IntRange(1, 1_000), help="How many nodes.")
@click.option(
    "--documents",
    default="hospitals",
    show_default=True,
    metavar="NAME|FOLDER",
    help="hospitals (the built-in corpus), synthetic, pubmedqa, or a folder of files; of folders, "
    "one for each organisation.",
)
@pubmedqa_option
@click.option(
    "--network",
    type=click.Choice(["memory", "libp2p"]),
    default="memory",
    show_default=True,
    help="What carries the messages; latency, loss, freezing and partitions need memory.",
)
@latency_option
@jitter_option
@loss_option
@click.option(
    "--rate",
    type=_POSITIVE,
    default=1.0,
    show_default=True,
    metavar="QUERIES",
    help="Questions a second that nodes ask by themselves; 0 for none.",
)
@click.option(
    "--embedder",
    type=click.Choice(["sentence-transformers", "hashing"]),
    help="How text becomes vectors.  [default: as for a node]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of keys and all draws.")
@folder_option
@json_option
def up(
    *,
    peers: int | None,
    documents: str,
    pubmedqa: Path | None,
    network: str,
    latency: float,
    jitter: float,
    loss: float,
    rate: float,
    embedder: str | None,
    seed: int,
    folder: TestnetFolder,
    as_json: bool,
) -> None:
    """Start a testnet in the foreground, with a table of its nodes.

    In a second terminal `zerorag testnet query`, `kill`, `freeze`, `partition` and the others act
    on it, `zerorag top --testnet` watches its nodes, and commands on a node take the home of one,
    FOLDER/p0 for instance. Ctrl-C or `zerorag testnet stop` ends it.
    """
    from zerorag_p2p.config import EmbeddingConfig
    from zerorag_p2p.testnet.faults import Conditions
    from zerorag_p2p.testnet.sources import open_source
    from zerorag_p2p.testnet.testnet import Testnet
    from zerorag_p2p.testnet.up import claimed, run_testnet

    conditions = None
    if latency or jitter or loss:
        conditions = Conditions(latency_s=latency / 1000, jitter_s=jitter / 1000, loss=loss)
    embedding = EmbeddingConfig() if embedder is None else EmbeddingConfig(embedder=embedder)

    def on_ready(ready: Json) -> None:
        # One line, and at once: whoever started the testnet may wait for it.
        click.echo(
            json.dumps(ready)
            if as_json
            else f"{output.counted(ready['nodes'], 'node')} ready; folder {ready['folder']}"
        )

    with claimed(folder):
        with output.progress_line(not as_json) as show:
            show("embedding the documents")
            source = open_source(
                documents, peers=peers, seed=seed, embedding=embedding, pubmedqa=pubmedqa
            )
        net = Testnet(
            source.workload,
            network=network,
            conditions=conditions,
            seed=seed,
            organisations=source.organisations,
        )
        with _live_table(not as_json) as on_snapshot:
            run_testnet(folder, net, source, rate=rate, on_ready=on_ready, on_snapshot=on_snapshot)


@testnet.command(epilog=example("zerorag testnet stop"))
@folder_option
@json_option
def stop(folder: TestnetFolder, as_json: bool) -> None:
    """End the testnet."""
    with _client(folder) as client:
        _tell(client.shutdown(), "the testnet ends", as_json=as_json)


# Looking and asking.


@testnet.command(epilog=example("zerorag testnet status", "zerorag testnet status --json"))
@folder_option
@json_option
def status(folder: TestnetFolder, as_json: bool) -> None:
    """Show how the testnet and each of its nodes is."""
    with _client(folder) as client:
        snapshot = client.status()
    if as_json:
        output.print_json(snapshot)
        return
    click.echo(_headline(snapshot))
    output.print_table(_COLUMNS, [_cells(row) for row in snapshot["rows"]])


@testnet.command(
    epilog=example(
        "zerorag testnet query",
        'zerorag testnet query "When may alteplase be given?" --node p3 --explain',
    )
)
@click.argument("text", required=False)
@click.option("--node", metavar="NODE", help="Who asks.  [default: one that runs]")
@click.option("-k", type=click.IntRange(min=1), help="How many documents.")
@click.option("--budget", type=click.IntRange(min=1), help="How many peers to ask at most.")
@click.option("--routing", metavar="NAME", help="How to find peers: paper, or random order.")
@click.option("--stop", metavar="RULE", help="When to stop: budget or settled.")
@click.option("--explain", is_flag=True, help="Show every contact and what led to it.")
@folder_option
@json_option
def query(
    *,
    text: str | None,
    node: str | None,
    k: int | None,
    budget: int | None,
    routing: str | None,
    stop: str | None,
    explain: bool,
    folder: TestnetFolder,
    as_json: bool,
) -> None:
    """Let a node ask TEXT, or the testnet's next question of its own."""
    with _client(folder) as client:
        answer = client.query(text, node=node, k=k, budget=budget, routing=routing, stopping=stop)
    if as_json:
        output.print_json(answer)
        return
    asker = answer["asker"]["organisation"]
    click.echo(f"{output.printable(asker)} asks: {output.printable(answer['query'])}\n")
    print_answer(answer, explain=explain)


# Breaking and mending.


def _on_nodes(
    name: str, text: str, examples: Sequence[str]
) -> Callable[[Callable[[TestnetClient, tuple[str, ...], int | None], Json]], click.Command]:
    """A command on nodes that are named or drawn."""

    def decorate(
        action: Callable[[TestnetClient, tuple[str, ...], int | None], Json],
    ) -> click.Command:
        @testnet.command(name, help=text, epilog=example(*examples))
        @click.argument("nodes", nargs=-1, metavar="[NODE]...")
        @count_option
        @folder_option
        @json_option
        def command(
            nodes: tuple[str, ...], count: int | None, folder: TestnetFolder, as_json: bool
        ) -> None:
            with _client(folder) as client:
                done = action(client, nodes, count)
            _tell_nodes(done, as_json=as_json)

        return command

    return decorate


@_on_nodes(
    "kill",
    "Crash nodes, as the end of their processes would; their connections break.",
    ["zerorag testnet kill p3 p7", "zerorag testnet kill --count 10"],
)
def _kill(client: TestnetClient, nodes: tuple[str, ...], count: int | None) -> Json:
    return client.kill(*nodes, count=count)


@_on_nodes(
    "restart",
    "Start nodes that were killed, with the routing state they had; without names all of them.",
    ["zerorag testnet restart", "zerorag testnet restart p3"],
)
def _restart(client: TestnetClient, nodes: tuple[str, ...], count: int | None) -> Json:
    return client.restart(*nodes, count=count)


@_on_nodes(
    "freeze",
    "Stop nodes without a word: they neither answer nor hang up.",
    ["zerorag testnet freeze p3", "zerorag testnet freeze --count 5"],
)
def _freeze(client: TestnetClient, nodes: tuple[str, ...], count: int | None) -> Json:
    return client.freeze(*nodes, count=count)


@_on_nodes(
    "thaw",
    "Let frozen nodes go on; without names all of them.",
    ["zerorag testnet thaw"],
)
def _thaw(client: TestnetClient, nodes: tuple[str, ...], count: int | None) -> Json:
    return client.thaw(*nodes, count=count)


@testnet.command(
    epilog=example(
        "zerorag testnet partition",
        "zerorag testnet partition --count 3",
        "zerorag testnet partition p0,p1,p2 p3,p4",
    )
)
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.option("--count", type=click.IntRange(min=2), help="So many groups, drawn at random.")
@folder_option
@json_option
def partition(
    groups: tuple[str, ...], count: int | None, folder: TestnetFolder, as_json: bool
) -> None:
    """Let nothing pass between GROUPs of nodes, each a list like p0,p1,p2.

    Nodes in no group form one more; without groups all nodes are dealt out to two.
    """
    if groups and count is not None:
        raise UsageError("give groups or a number of them, not both")
    with _client(folder) as client:
        done = client.partition([_names(group) for group in groups], count=count)
    if as_json:
        output.print_json(done)
    else:
        for group in done["groups"]:
            click.echo(f"apart: {', '.join(group)}")


def _names(group: str) -> list[str]:
    return [name.strip() for name in group.split(",") if name.strip()]


@testnet.command(epilog=example("zerorag testnet heal"))
@folder_option
@json_option
def heal(folder: TestnetFolder, as_json: bool) -> None:
    """End the partition."""
    with _client(folder) as client:
        _tell(client.heal(), "healed", as_json=as_json)


@testnet.command(epilog=example("zerorag testnet links --latency 50 --jitter 10 --loss 0.05"))
@latency_option
@jitter_option
@click.option(
    "--bandwidth", type=_POSITIVE, default=0.0, metavar="BYTES", help="A second and node."
)
@loss_option
@folder_option
@json_option
def links(
    *,
    latency: float,
    jitter: float,
    bandwidth: float,
    loss: float,
    folder: TestnetFolder,
    as_json: bool,
) -> None:
    """Set latency, bandwidth and loss of every link; what is left out is perfect."""
    with _client(folder) as client:
        done = client.links(latency_ms=latency, jitter_ms=jitter, bandwidth=bandwidth, loss=loss)
    _tell(done, _conditions(done) or "links are perfect", as_json=as_json)


@testnet.command(
    epilog=example(
        "zerorag testnet misbehave tarpit p3 p4", "zerorag testnet misbehave honest p3 p4"
    )
)
@click.argument("how", type=click.Choice(["honest", "tarpit", "black-hole"]))
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@count_option
@folder_option
@json_option
def misbehave(
    how: str, nodes: tuple[str, ...], count: int | None, folder: TestnetFolder, as_json: bool
) -> None:
    """Make nodes misbehave: a tarpit takes requests and never answers, a black hole knows nothing.

    HOW "honest" makes them behave again.
    """
    with _client(folder) as client:
        _tell_nodes(client.misbehave(how, *nodes, count=count), as_json=as_json)


@testnet.command(
    epilog=example("zerorag testnet skew 600 p3", "zerorag testnet skew -600 --count 2"),
    context_settings={"ignore_unknown_options": True},  # or -600 would be one
)
@click.argument("seconds", type=_Number())
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@count_option
@folder_option
@json_option
def skew(
    *,
    seconds: float,
    nodes: tuple[str, ...],
    count: int | None,
    folder: TestnetFolder,
    as_json: bool,
) -> None:
    """Set the clocks of nodes SECONDS ahead of the testnet's, or behind it; 0 sets them right."""
    with _client(folder) as client:
        _tell_nodes(client.skew(seconds, *nodes, count=count), as_json=as_json)


@testnet.command(epilog=example("zerorag testnet join --count 5"))
@click.option("--count", type=click.IntRange(1, 1_000), default=1, show_default=True)
@folder_option
@json_option
def join(count: int, folder: TestnetFolder, as_json: bool) -> None:
    """Let new nodes join; each holds copies of what some other node owns."""
    with _client(folder) as client:
        _tell_nodes(client.join(count), as_json=as_json)


# Scenarios.


@testnet.command("list", epilog=example("zerorag testnet list"))
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


@testnet.command(
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


# What is printed.


_COLUMNS: Final = (
    "node",
    "organisation",
    "state",
    "docs",
    "nbrs",
    "conns",
    "adverts",
    "memory",
    "answered",
)


def _is_well(row: Json) -> bool:
    return row["state"] == "running" and not row["misbehaving"] and not row["clock_skew_s"]


def _cells(row: Json) -> tuple[object, ...]:
    state = row["state"]
    if row["misbehaving"]:
        state += f", {row['misbehaving']}"
    if row["clock_skew_s"]:
        state += f", {row['clock_skew_s']:+g} s"
    figures = ("neighbors", "connections", "advertised_vectors", "remembered_queries", "answered")
    return (
        row["name"],
        row["organisation"],
        state,
        row["documents"],
        *(row.get(figure, "-") for figure in figures),
    )


def _headline(snapshot: Json) -> str:
    parts = [f"{snapshot['running']} of {output.counted(snapshot['nodes'], 'node')} running"]
    parts += [f"{snapshot[name]} {name}" for name in ("frozen", "stopped") if snapshot[name]]
    if snapshot["partitioned"]:
        parts.append("partitioned")
    if conditions := _conditions(snapshot):
        parts.append(conditions)
    if snapshot["window"]:
        parts.append(
            f"last {output.counted(snapshot['window'], 'question')}: "
            f"{snapshot['hit_rate']:.0%} found, {snapshot['contacts']:.1f} contacts each"
        )
    return "; ".join(parts)


def _conditions(links: Json) -> str:
    """What is not perfect about the links."""
    texts = {
        "latency_ms": f"latency {links['latency_ms']:g} ms",
        "jitter_ms": f"jitter {links['jitter_ms']:g} ms",
        "bandwidth": f"bandwidth {output.size(links['bandwidth'])}/s",
        "loss": f"loss {links['loss']:.1%}",
    }
    return ", ".join(text for name, text in texts.items() if links[name])


@contextmanager
def _live_table(shown: bool) -> Iterator[Callable[[Json], None]]:
    """A table that changes with the testnet; nothing where the output is no terminal."""
    console = output.console()
    if not shown or not console.is_terminal:
        yield lambda _: None
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:

        def show(snapshot: Json) -> None:
            live.update(_table(snapshot, console.height - _TABLE_MARGIN), refresh=True)

        yield show


def _table(snapshot: Json, height: int) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = snapshot["rows"]
    # Whatever is not as it should be comes first, then the busiest.
    order = sorted(rows, key=lambda row: (_is_well(row), -row.get("answered", 0)))
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
        expand=True,
    )
    for name in _COLUMNS:
        # One line a node, whose name gives way in a narrow terminal.
        table.add_column(name, no_wrap=True, ratio=1 if name == "organisation" else None)
    styles = {"running": "", "frozen": "cyan", "stopped": "red"}
    for row in order[: max(height, 1)]:
        table.add_row(
            *(Text(output.printable(cell)) for cell in _cells(row)), style=styles[row["state"]]
        )
    hidden = len(rows) - max(height, 1)
    if hidden > 0:
        table.caption = f"and {hidden} more: zerorag testnet status"
    return Group(Text(_headline(snapshot)), table)


def _tell(value: Json, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(value)
    else:
        click.echo(sentence)


def _tell_nodes(done: Json, *, as_json: bool) -> None:
    _tell(done, f"{done['done']}: {', '.join(done['nodes']) or 'no node'}", as_json=as_json)
