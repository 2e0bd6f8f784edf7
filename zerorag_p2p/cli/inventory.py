"""The command that lists what a home keeps and whom its node speaks to."""

from __future__ import annotations

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, home_option, json_option
from zerorag_p2p.home import Home


@click.command(epilog=example("zerorag inventory", "zerorag inventory --json"))
@home_option
@json_option
def inventory(home: Home, as_json: bool) -> None:
    """List every file of the home and every connection of its node, as it is configured.

    It reads the home only; the node need not run. A file whose mode lets others at a secret is
    marked, and so is one that is not of this program.
    """
    from zerorag_p2p.control import inventory as control

    home.require()
    files, connections = control.files(home), control.connections(home)
    if as_json:
        output.print_json({"home": str(home.root), "files": files, "connections": connections})
        return
    output.print_table(
        ("file", "holds", "secret", "mode", "bytes", "fault"),
        [
            (
                row["path"],
                row["holds"],
                "yes" if row["secret"] else "no",
                row["mode"],
                output.size(row["bytes"]),
                row["fault"],
            )
            for row in files
        ],
    )
    click.echo()
    output.print_table(
        ("", "with", "where", "protected by", "when"),
        [
            (row["direction"], row["with"], row["where"], row["protects"], row["when"])
            for row in connections
        ],
    )
