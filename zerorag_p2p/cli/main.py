"""The command `zerorag`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from zerorag_p2p.cli.activity import events, memory, refusals
from zerorag_p2p.cli.ask import ask
from zerorag_p2p.cli.audit import audit
from zerorag_p2p.cli.command import Program, example
from zerorag_p2p.cli.consortium import consortium
from zerorag_p2p.cli.docs import docs
from zerorag_p2p.cli.experiment import experiment
from zerorag_p2p.cli.inventory import inventory
from zerorag_p2p.cli.keys import keys
from zerorag_p2p.cli.mcp import mcp
from zerorag_p2p.cli.migrate import migrate
from zerorag_p2p.cli.node import (
    init,
    neighbors,
    node,
    pause,
    peers,
    resume,
    show_id,
    status,
    version,
)
from zerorag_p2p.cli.policy import policy
from zerorag_p2p.cli.query import get, query, verify
from zerorag_p2p.cli.testnet import testnet
from zerorag_p2p.cli.tokens import token
from zerorag_p2p.cli.top import top

# Measured: with a thread a core, a search in 10,000 vectors took 8 ms instead of 1.6.
_ONE_THREAD: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example('zerorag init --organisation "General Hospital"', "zerorag node run"),
)
@click.option(
    "--passphrase-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File whose first line opens an encrypted key.  [default: $ZERORAG_PASSPHRASE_FILE]",
)
def cli(passphrase_file: Path | None) -> None:
    """Retrieval across organisations: documents stay with their owners, the question travels.

    \b
    Exit codes: 0 done, 1 error, 2 wrong usage, 3 no node is running, 4 denied by a policy,
    5 a partial answer, 6 no result, 7 a signature or hash does not hold.
    """
    if passphrase_file is not None:
        os.environ["ZERORAG_PASSPHRASE_FILE"] = str(passphrase_file.absolute())


for _command in (
    *(init, show_id, keys, consortium, docs, policy, audit, inventory, node, pause, resume),
    *(status, migrate, peers, neighbors),
    *(memory, refusals, events, top),
    *(ask, query, get, verify, version),
    *(token, mcp),
    testnet,
    experiment,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line and exit."""
    for variable in _ONE_THREAD:  # Read once, when numpy is first imported.
        os.environ.setdefault(variable, "1")
    cli(prog_name="zerorag")
