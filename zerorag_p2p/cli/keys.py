"""Commands on the keys of a home: looking at them, encrypting them, rotating the node's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import example, home_option, json_option
from zerorag_p2p.errors import UsageError
from zerorag_p2p.home import Home

Json = dict[str, Any]

authority_option = click.option(
    "--authority", is_flag=True, help="The authority's key instead of the node's keys."
)


@click.group(epilog=example("zerorag keys show", "zerorag keys rotate"))
def keys() -> None:
    """Look at the keys of a home, encrypt them, or rotate the node's key."""


@keys.command(epilog=example("zerorag keys show", "zerorag keys show --json"))
@home_option
@json_option
def show(home: Home, as_json: bool) -> None:
    """Show every key of the home; no secret and no passphrase is needed for that."""
    from zerorag_p2p.control import keys as control

    rows = control.show(home)
    if as_json:
        output.print_json({"keys": rows})
        return
    output.print_table(
        ("key", "peer", "encrypted", "standing", "until"),
        [
            (
                row["key"],
                row["peer_id"],
                "yes" if row["encrypted"] else "no",
                row["standing"],
                output.moment(row["until"]),
            )
            for row in rows
        ],
    )


@keys.command(
    epilog=example(
        "zerorag keys encrypt", "zerorag keys encrypt --new-passphrase-file /run/secrets/zerorag"
    )
)
@click.option(
    "--new-passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the passphrase.  [default: it is asked for]",
)
@authority_option
@home_option
@json_option
def encrypt(new_passphrase_file: Path | None, authority: bool, home: Home, as_json: bool) -> None:
    """Encrypt the node's keys with a passphrase, or change it. The node has to be stopped.

    From then on whatever signs needs the passphrase: --passphrase-file, ZERORAG_PASSPHRASE_FILE,
    the credential identity.passphrase of systemd, or a person at the terminal.
    """
    from zerorag_p2p.control import keys as control

    if new_passphrase_file is not None:
        passphrase = control.read_passphrase(new_passphrase_file)
    else:
        try:
            text = click.prompt("new passphrase", hide_input=True, confirmation_prompt=True)
        except click.Abort:  # There is nobody to ask.
            raise UsageError(
                "there is no terminal to ask for a passphrase: name its file with "
                "--new-passphrase-file"
            ) from None
        passphrase = text.encode()
    _print_changed(control.encrypt(home, passphrase, authority=authority), "encrypted", as_json)


@keys.command(epilog=example("zerorag keys decrypt"))
@authority_option
@home_option
@json_option
def decrypt(authority: bool, home: Home, as_json: bool) -> None:
    """Store the node's keys without a passphrase again. The node has to be stopped."""
    from zerorag_p2p.control import keys as control

    _print_changed(control.decrypt(home, authority=authority), "not encrypted", as_json)


@keys.command(epilog=example("zerorag keys rotate", "zerorag consortium request --out new.request"))
@home_option
@json_option
def rotate(home: Home, as_json: bool) -> None:
    """Make a new key for the node, which takes its place once the authority agrees.

    The next `zerorag consortium request` carries a hand-over that both keys sign. When the roster
    lists the new key, the node goes over to it and signs its documents anew; the old key stays a
    member for some days. A key that is known to others is not rotated but revoked.
    """
    from zerorag_p2p.control import keys as control

    made = control.rotate(home)
    if as_json:
        output.print_json(made)
        return
    output.print_fields(
        [
            ("peer id", made["peer_id"]),
            ("next peer id", made["next_peer_id"]),
            ("next key", made["file"]),
        ]
    )
    click.echo("Next: `zerorag consortium request`, and send it to the consortium's authority.")


def _print_changed(rows: list[Json], state: str, as_json: bool) -> None:
    if as_json:
        output.print_json({"keys": rows})
    else:
        for row in rows:
            click.echo(f"{row['key']:<10}{row['peer_id']} is {state}")
