"""`zerorag mcp`: a node as tools of a language model."""

from __future__ import annotations

import os

import click

from zerorag_p2p.cli.command import example
from zerorag_p2p.cli.query import purpose_option
from zerorag_p2p.errors import UsageError
from zerorag_p2p.home import Home


@click.command(
    epilog=example(
        "zerorag mcp --home /srv/zerorag --purpose research",
        "zerorag mcp --url https://node.example:8420 --token-file intranet.token",
    )
)
@click.option("--home", metavar="FOLDER", help="Folder of the node.  [default: as elsewhere]")
@click.option("--url", help="Where the node listens for applications.  [default: $ZERORAG_URL]")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File of the application's token.  [default: $ZERORAG_TOKEN_FILE]",
)
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Authorities that the node's certificate is judged by.  [default: $ZERORAG_CA_FILE]",
)
@purpose_option
@click.option("--user", metavar="ID", help="Who asks; others learn a pseudonym.")
@click.option("--budget", type=click.IntRange(min=1), help="How many peers to ask at most.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time for everything.")
def mcp(
    *,
    home: str | None,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
    purpose: str | None,
    user: str | None,
    budget: int | None,
    timeout: float | None,
) -> None:
    """Serve the Model Context Protocol on standard input and output, for one program.

    The tools are search, fetch and ask. What the questions are for and who asks them is set here:
    the model has no say in it.
    """
    try:
        from zerorag_p2p.integrations.mcp_server import build_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise UsageError(
            "this needs the extra `mcp`; install it with `pip install 'zerorag-p2p[mcp]'`"
        ) from None
    from zerorag_p2p.integrations.passages import Node, Question

    if token_file is not None:
        os.environ["ZERORAG_TOKEN_FILE"] = token_file
    chosen = None if home is None else str(Home.resolve(home, os.environ).root)
    node = Node(home=chosen, url=url, ca=ca_file)
    node.client().close()  # A wrong setting ends the command, not each question.
    question = Question(purpose=purpose, user=user, budget=budget, timeout_s=timeout)
    build_server(node, question).run("stdio")
