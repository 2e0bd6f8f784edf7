"""What commands on testnets share: how its folder, links and nodes are named, and its client."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.home import TestnetFolder

if TYPE_CHECKING:
    from zerorag_p2p.client import TestnetClient

Json = dict[str, Any]


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


class Number(click.FloatRange):
    """A number in a range. Click alone takes "nan" and "inf" for numbers, too."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number of a value that was typed."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


POSITIVE: Final = Number(min=0)

latency_option = click.option(
    "--latency", type=POSITIVE, default=0.0, metavar="MS", help="One way."
)
jitter_option = click.option(
    "--jitter", type=POSITIVE, default=0.0, metavar="MS", help="Mean time beyond it."
)
loss_option = click.option(
    "--loss", type=Number(0, 1), default=0.0, metavar="SHARE", help="Of messages, 0 to 1."
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


def open_client(folder: TestnetFolder) -> TestnetClient:
    """A client of the testnet. Imported late: `zerorag --help` needs no HTTP."""
    from zerorag_p2p.client import TestnetClient

    return TestnetClient(folder)


def imperfections(links: Json) -> str:
    """What is not perfect about the links."""
    texts = {
        "latency_ms": f"latency {links['latency_ms']:g} ms",
        "jitter_ms": f"jitter {links['jitter_ms']:g} ms",
        "bandwidth": f"bandwidth {output.size(links['bandwidth'])}/s",
        "loss": f"loss {links['loss']:.1%}",
    }
    return ", ".join(text for name, text in texts.items() if links[name])


def tell(value: Json, sentence: str, *, as_json: bool) -> None:
    """Print what was answered, as JSON or as a sentence."""
    if as_json:
        output.print_json(value)
    else:
        click.echo(sentence)


def tell_nodes(done: Json, *, as_json: bool) -> None:
    """Print what was done with which nodes."""
    tell(done, f"{done['done']}: {', '.join(done['nodes']) or 'no node'}", as_json=as_json)
