"""Commands on a consortium: founding, joining, approving, revoking, and taking a roster over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.config import JOIN_REQUEST_LIMIT, MAX_ROSTER_BYTES
from zerorag_p2p.errors import NodeNotRunningError, UsageError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.home import Home

_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_new_file = click.Path(dir_okay=False, path_type=Path)

out_option = click.option(
    "--out", type=_new_file, help="Write the signed roster to this file, too."
)
valid_days_option = click.option(
    "--valid-days", type=click.IntRange(1, 36_500), help="How long members belong.  [default: 366]"
)


@click.group(epilog=example("zerorag consortium show"))
def consortium() -> None:
    """Found a consortium, or join one."""


@consortium.command(epilog=example("zerorag consortium create cardio-net --out roster.cbor"))
@click.argument("name")
@valid_days_option
@out_option
@home_option
@json_option
def create(name: str, valid_days: int | None, out: Path | None, home: Home, as_json: bool) -> None:
    """Found the consortium NAME, with this node as its first member.

    Makes the authority's key, apart from the node's key, and a roster signed with it. Whoever has
    the authority's key decides who belongs: keep a copy of it in a safe place.
    """
    from zerorag_p2p.control import consortium as control

    roster = control.create(home, name, valid_days=valid_days)
    if out is not None:
        write_atomic(out, control.read(home))
    if as_json:
        output.print_json(roster)
    else:
        click.echo(f"founded {roster['consortium']}")
        click.echo(f"authority      {roster['authorities'][0]}")
        click.echo(f"authority key  {home.authority_key}")
        click.echo(f"roster         {out or home.roster}")


@consortium.command(epilog=example("zerorag consortium request --out ward-7.request"))
@click.option("--out", type=_new_file, required=True, help="Where to write the request.")
@home_option
@json_option
def request(out: Path, home: Home, as_json: bool) -> None:
    """Ask to join: writes a signed request for the consortium's authority."""
    from zerorag_p2p.control import consortium as control

    data, asked = control.request(home)
    write_atomic(out, data)
    if as_json:
        output.print_json(asked)
    else:
        click.echo(f"{out}: {asked['organisation']}, {asked['peer']}")
        click.echo("Send it to the consortium's authority, and compare the peer id by telephone.")


@consortium.command(
    epilog=example(
        "zerorag consortium approve ward-7.request --out roster.cbor",
        "zerorag consortium approve *.request --valid-days 90 --role research --out roster.cbor",
    )
)
@click.argument("requests", type=_file, nargs=-1, required=True)
@valid_days_option
@click.option("--role", "roles", multiple=True, help="Role of the new members; repeatable.")
@out_option
@home_option
@json_option
def approve(
    *,
    requests: tuple[Path, ...],
    valid_days: int | None,
    roles: tuple[str, ...],
    out: Path | None,
    home: Home,
    as_json: bool,
) -> None:
    """Admit the peers that made the REQUESTS, and sign the new roster.

    Needs the authority's key. A member that asks again has its membership prolonged.
    """
    from zerorag_p2p.control import consortium as control

    data = control.approve(
        home,
        [read_bounded(path, JOIN_REQUEST_LIMIT) for path in requests],
        valid_days=valid_days,
        roles=roles,
    )
    _publish(home, data, out, as_json=as_json)


@consortium.command(
    epilog=example('zerorag consortium revoke 12D3KooWQ7... --reason "key lost" --out roster.cbor')
)
@click.argument("peer")
@click.option("--reason", required=True, help="A sentence that every member will see.")
@out_option
@home_option
@json_option
def revoke(peer: str, reason: str, out: Path | None, home: Home, as_json: bool) -> None:
    """End the membership of PEER for good, and sign the new roster.

    It cannot come back under the same key. What it signed before stays valid.
    """
    from zerorag_p2p.control import consortium as control

    _publish(home, control.revoke(home, peer, reason), out, as_json=as_json)


@consortium.command(epilog=example("zerorag consortium renew --out roster.cbor"))
@out_option
@home_option
@json_option
def renew(out: Path | None, home: Home, as_json: bool) -> None:
    """Sign the roster anew before it expires."""
    from zerorag_p2p.control import consortium as control

    _publish(home, control.renew(home), out, as_json=as_json)


@consortium.command(
    "import",
    epilog=example(
        "zerorag consortium import roster.cbor --authority 12D3KooWAu...",
        "zerorag consortium import roster.cbor",
    ),
)
@click.argument("roster", type=_file)
@click.option(
    "--authority",
    "authorities",
    multiple=True,
    metavar="PEER",
    help="For the first roster: an authority that you know to be right; repeatable.",
)
@click.option("--yes", is_flag=True, help="For the first roster: trust whoever signed it.")
@home_option
@json_option
def import_(
    roster: Path, authorities: tuple[str, ...], yes: bool, home: Home, as_json: bool
) -> None:
    """Take over a ROSTER that the consortium's authority signed.

    The first one decides whom this node trusts: name the authority as you learned it from a person
    (--authority), or confirm the one in the file. Later ones have to be signed by the authorities
    of the roster before. A running node takes the roster over at once.
    """
    from zerorag_p2p.control import consortium as control

    data = read_bounded(roster, MAX_ROSTER_BYTES)
    described = control.describe(data)
    first = not home.roster.exists()
    if first and not authorities:
        authorities = tuple(described["signed-by"])
        if not yes:
            _confirm(described)
    if not first and authorities:
        raise UsageError(
            f"{home.root} has a roster already, whose authorities decide; leave out --authority"
        )
    described = _install(home, data, authorities)
    if as_json:
        output.print_json(described)
    else:
        _print_taken_over(described)


@consortium.command(
    epilog=example("zerorag consortium show", "zerorag consortium show roster.cbor")
)
@click.argument("roster", type=_file, required=False)
@home_option
@json_option
def show(roster: Path | None, home: Home, as_json: bool) -> None:
    """Show the roster of this node, or a ROSTER file."""
    from zerorag_p2p.control import consortium as control

    data = control.read(home) if roster is None else read_bounded(roster, MAX_ROSTER_BYTES)
    described = control.describe(data)
    if as_json:
        output.print_json(described)
    else:
        _print_roster(described)


def _publish(home: Home, data: bytes, out: Path | None, *, as_json: bool) -> None:
    """Put a roster of our own making in force here, and write it for the others."""
    described = _install(home, data, ())
    if out is not None:
        write_atomic(out, data)
    if as_json:
        output.print_json(described)
    else:
        _print_taken_over(described)
        click.echo(f"Send {out or home.roster} to every member, for `zerorag consortium import`.")


def _install(home: Home, data: bytes, authorities: tuple[str, ...]) -> dict[str, Any]:
    from zerorag_p2p.control import consortium as control

    with connect(home) as client:
        try:
            client.import_roster(data)
        except NodeNotRunningError:
            return control.install(home, data, trusted=authorities)
    return control.describe(data)


def _confirm(described: dict[str, Any]) -> None:
    click.echo(
        f"This roster is of {output.printable(described['consortium'])}, signed by", err=True
    )
    for authority in described["signed-by"]:
        click.echo(f"  {authority}", err=True)
    try:
        agreed = click.confirm("Is that what the consortium told you?", err=True)
    except click.Abort:  # There is nobody to ask.
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise UsageError(
            "the roster was not imported; name the authority that you trust with --authority"
        )


def _print_taken_over(described: dict[str, Any]) -> None:
    members = output.counted(len(described["members"]), "member")
    click.echo(
        f"{described['consortium']}: roster version {described['version']} is in force, "
        f"{members}, {len(described['former'])} former, "
        f"until {output.moment(described['expires-at'])}"
    )


def _print_roster(described: dict[str, Any]) -> None:
    output.print_fields(
        [
            ("consortium", described["consortium"]),
            ("version", described["version"]),
            ("state", described["state"]),
            ("issued", output.moment(described["issued-at"])),
            ("expires", output.moment(described["expires-at"])),
            ("authorities", ", ".join(described["authorities"])),
            ("signed by", f"{len(described['signed-by'])}, needed {described['threshold']}"),
            (
                "embeddings",
                ", ".join(
                    f"{item['model']} ({item['dimension']} dimensions)"
                    for item in described["fingerprints-current"]
                ),
            ),
        ]
    )
    output.print_table(
        ("organisation", "peer", "standing", "until", "roles"),
        [
            (
                member["organisation"],
                member["peer"],
                member["standing"],
                output.moment(member["not-after"]),
                ", ".join(member["roles"]),
            )
            for member in described["members"]
        ],
    )
    if described["former"]:
        output.print_table(
            ("former member", "peer", "left", "reason"),
            [
                (
                    member["organisation"],
                    member["peer"],
                    output.moment(member["date"]),
                    member["reason"],
                )
                for member in described["former"]
            ],
        )
