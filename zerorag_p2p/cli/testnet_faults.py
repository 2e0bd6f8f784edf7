"""Commands that break a testnet on purpose, and mend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, json_option
from zerorag_p2p.cli.testnet_options import (
    POSITIVE,
    Json,
    Number,
    count_option,
    folder_option,
    imperfections,
    jitter_option,
    latency_option,
    loss_option,
    open_client,
    tell,
    tell_nodes,
)
from zerorag_p2p.errors import UsageError
from zerorag_p2p.home import TestnetFolder

if TYPE_CHECKING:
    from zerorag_p2p.client import TestnetClient


def _on_nodes(
    name: str, text: str, examples: Sequence[str]
) -> Callable[[Callable[[TestnetClient, tuple[str, ...], int | None], Json]], click.Command]:
    """A command on nodes that are named or drawn."""

    def decorate(
        action: Callable[[TestnetClient, tuple[str, ...], int | None], Json],
    ) -> click.Command:
        @click.command(name, help=text, epilog=example(*examples))
        @click.argument("nodes", nargs=-1, metavar="[NODE]...")
        @count_option
        @folder_option
        @json_option
        def command(
            nodes: tuple[str, ...], count: int | None, folder: TestnetFolder, as_json: bool
        ) -> None:
            with open_client(folder) as client:
                done = action(client, nodes, count)
            tell_nodes(done, as_json=as_json)

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


@click.command(
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
    with open_client(folder) as client:
        done = client.partition([_names(group) for group in groups], count=count)
    if as_json:
        output.print_json(done)
    else:
        for group in done["groups"]:
            click.echo(f"apart: {', '.join(group)}")


def _names(group: str) -> list[str]:
    return [name.strip() for name in group.split(",") if name.strip()]


@click.command(epilog=example("zerorag testnet heal"))
@folder_option
@json_option
def heal(folder: TestnetFolder, as_json: bool) -> None:
    """End the partition."""
    with open_client(folder) as client:
        tell(client.heal(), "healed", as_json=as_json)


@click.command(epilog=example("zerorag testnet links --latency 50 --jitter 10 --loss 0.05"))
@latency_option
@jitter_option
@click.option("--bandwidth", type=POSITIVE, default=0.0, metavar="BYTES", help="A second and node.")
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
    with open_client(folder) as client:
        done = client.links(latency_ms=latency, jitter_ms=jitter, bandwidth=bandwidth, loss=loss)
    tell(done, imperfections(done) or "links are perfect", as_json=as_json)


@click.command(
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
    with open_client(folder) as client:
        tell_nodes(client.misbehave(how, *nodes, count=count), as_json=as_json)


@click.command(
    epilog=example("zerorag testnet skew 600 p3", "zerorag testnet skew -600 --count 2"),
    context_settings={"ignore_unknown_options": True},  # or -600 would be one
)
@click.argument("seconds", type=Number())
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
    with open_client(folder) as client:
        tell_nodes(client.skew(seconds, *nodes, count=count), as_json=as_json)


@click.command(epilog=example("zerorag testnet join --count 5"))
@click.option("--count", type=click.IntRange(1, 1_000), default=1, show_default=True)
@folder_option
@json_option
def join(count: int, folder: TestnetFolder, as_json: bool) -> None:
    """Let new nodes join; each holds copies of what some other node owns."""
    with open_client(folder) as client:
        tell_nodes(client.join(count), as_json=as_json)


FAULTS: Final = (_kill, _restart, _freeze, _thaw, partition, heal, links, misbehave, skew, join)
