"""Commands on testnets: many nodes in one process, to be looked at and broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, json_option
from zerorag_p2p.cli.query import print_answer
from zerorag_p2p.cli.testnet_faults import FAULTS
from zerorag_p2p.cli.testnet_options import (
    POSITIVE,
    Json,
    folder_option,
    jitter_option,
    latency_option,
    loss_option,
    open_client,
    pubmedqa_option,
    tell,
)
from zerorag_p2p.cli.testnet_scenarios import SCENARIOS
from zerorag_p2p.cli.testnet_table import COLUMNS, cells, headline, live_table
from zerorag_p2p.home import TestnetFolder


@click.group(epilog=example("zerorag testnet up", "zerorag testnet run churn --peers 100"))
def testnet() -> None:
    """Run many nodes in one process, and break them on purpose."""


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
    type=POSITIVE,
    default=1.0,
    show_default=True,
    metavar="QUERIES",
    help="Questions a second that nodes ask by themselves; 0 for none. Documents of a folder come "
    "without questions, so there are none of it.",
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
        with live_table(not as_json) as on_snapshot:
            run_testnet(folder, net, source, rate=rate, on_ready=on_ready, on_snapshot=on_snapshot)


@testnet.command(epilog=example("zerorag testnet stop"))
@folder_option
@json_option
def stop(folder: TestnetFolder, as_json: bool) -> None:
    """End the testnet."""
    with open_client(folder) as client:
        tell(client.shutdown(), "the testnet ends", as_json=as_json)


@testnet.command(epilog=example("zerorag testnet status", "zerorag testnet status --json"))
@folder_option
@json_option
def status(folder: TestnetFolder, as_json: bool) -> None:
    """Show how the testnet and each of its nodes is."""
    with open_client(folder) as client:
        snapshot = client.status()
    if as_json:
        output.print_json(snapshot)
        return
    click.echo(headline(snapshot))
    output.print_table(COLUMNS, [cells(row) for row in snapshot["rows"]])


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
    """Let a node ask TEXT, or the testnet's next question of its own.

    A testnet of a folder has no questions of its own.
    """
    with open_client(folder) as client:
        answer = client.query(text, node=node, k=k, budget=budget, routing=routing, stopping=stop)
    if as_json:
        output.print_json(answer)
        return
    asker = answer["asker"]["organisation"]
    click.echo(f"{output.printable(asker)} asks: {output.printable(answer['query'])}\n")
    print_answer(answer, explain=explain)


for _command in (*FAULTS, *SCENARIOS):
    testnet.add_command(_command)
