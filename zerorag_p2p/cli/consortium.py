"""Commands on a consortium: founding, joining, approving, revoking, and taking a roster over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.cli.migrate import model_settings
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


threshold_option = click.option(
    "--threshold",
    type=click.IntRange(1),
    help="How many authorities have to sign a roster.  [default: more than half]",
)


@click.group(epilog=example("zerorag consortium show"))
def consortium() -> None:
    """Found a consortium, or join one."""


@consortium.command(
    epilog=example(
        "zerorag consortium create cardio-net --out roster.cbor",
        "zerorag consortium create cardio-net --authority 12D3KooWAu... --authority 12D3KooWBx... "
        "--threshold 2 --out roster.cbor",
    )
)
@click.argument("name")
@valid_days_option
@click.option(
    "--authority",
    "authorities",
    multiple=True,
    metavar="PEER",
    help="Another authority (zerorag consortium authority); repeatable.",
)
@threshold_option
@out_option
@home_option
@json_option
def create(
    *,
    name: str,
    valid_days: int | None,
    authorities: tuple[str, ...],
    threshold: int | None,
    out: Path | None,
    home: Home,
    as_json: bool,
) -> None:
    """Found the consortium NAME, with this node as its first member.

    Makes the authority's key, apart from the node's key, and a roster signed with it. Whoever has
    the authority's key decides who belongs: keep a copy of it in a safe place. With several
    authorities the roster is written to --out for the others to sign.
    """
    from zerorag_p2p.control import consortium as control

    if authorities and out is None:
        raise UsageError("other authorities have to sign the roster: name a file for it with --out")
    data = control.create(
        home, name, valid_days=valid_days, authorities=authorities, threshold=threshold
    )
    if out is not None:
        write_atomic(out, data)
    described = {**control.describe(data), "progress": control.progress(home, data)}
    if as_json:
        output.print_json(described)
        return
    click.echo(f"founded {described['consortium']}")
    for authority in described["authorities"]:
        click.echo(f"authority      {authority}")
    click.echo(f"authority key  {home.authority_key}")
    click.echo(f"roster         {out or home.roster}")
    if not described["progress"]["complete"]:
        _print_progress(described["progress"], out)


@consortium.command(epilog=example("zerorag consortium authority"))
@home_option
@json_option
def authority(home: Home, as_json: bool) -> None:
    """Make an authority's key here, for a consortium that several authorities decide on.

    Whoever founds it names this key with `zerorag consortium create --authority`.
    """
    from zerorag_p2p.control import keys as control

    made = control.create_authority(home)
    if as_json:
        output.print_json(made)
    else:
        output.print_fields([("authority", made["authority"]), ("authority key", made["file"])])


@consortium.command(
    epilog=example(
        "zerorag consortium authorities 12D3KooWAu... 12D3KooWBx... 12D3KooWCy... --threshold 2 "
        "--out roster.cbor"
    )
)
@click.argument("authorities", nargs=-1, required=True, metavar="PEER...")
@click.option("--threshold", type=click.IntRange(1), required=True, help="How many have to sign.")
@out_option
@home_option
@json_option
def authorities(
    authorities: tuple[str, ...], threshold: int, out: Path | None, home: Home, as_json: bool
) -> None:
    """Hand the consortium over to these authorities, all that there are from then on.

    Those before and those after have to sign, each to their threshold.
    """
    from zerorag_p2p.control import consortium as control

    data = control.change_authorities(home, authorities, threshold)
    _publish(home, data, out, as_json=as_json)


@consortium.command(
    epilog=example(
        "zerorag consortium sign roster.cbor", "zerorag consortium sign roster.cbor --yes --json"
    )
)
@click.argument("roster", type=_file)
@click.option("--out", type=_new_file, help="Where to write it.  [default: the file itself]")
@click.option("--yes", is_flag=True, help="Sign without asking.")
@home_option
@json_option
def sign(roster: Path, out: Path | None, yes: bool, home: Home, as_json: bool) -> None:
    """Sign a ROSTER that another authority proposes.

    Shows what it changes, and asks. Once enough authorities have signed, everybody imports it.
    """
    from zerorag_p2p.control import consortium as control

    data = read_bounded(roster, MAX_ROSTER_BYTES)
    if not yes:
        _confirm_changes(control.describe(data), control.changes(home, data))
    data = control.sign(home, data)
    _write_proposal(home, data, out or roster, as_json=as_json)


@consortium.command(
    epilog=example("zerorag consortium combine from-north.cbor from-south.cbor --out roster.cbor")
)
@click.argument("rosters", type=_file, nargs=-1, required=True)
@click.option("--out", type=_new_file, required=True, help="Where to write it.")
@home_option
@json_option
def combine(rosters: tuple[Path, ...], out: Path, home: Home, as_json: bool) -> None:
    """Put the signatures of copies of one roster together, signed by different authorities."""
    from zerorag_p2p.control import consortium as control

    data = control.combine([read_bounded(path, MAX_ROSTER_BYTES) for path in rosters])
    _write_proposal(home, data, out, as_json=as_json)


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
        if "hand-over" in asked:
            click.echo(f"in the place of {asked['hand-over']['old']}")
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
@click.option(
    "--overlap-days",
    type=click.IntRange(1, 366),
    help="How long a key that is rotated stays a member beside the new one.  [default: 14]",
)
@out_option
@home_option
@json_option
def approve(
    *,
    requests: tuple[Path, ...],
    valid_days: int | None,
    roles: tuple[str, ...],
    overlap_days: int | None,
    out: Path | None,
    home: Home,
    as_json: bool,
) -> None:
    """Admit the peers that made the REQUESTS, and sign the new roster.

    Needs the authority's key. A member that asks again has its membership prolonged. A request
    with a hand-over puts a new key in the place of a member's (zerorag keys rotate).
    """
    from zerorag_p2p.control import consortium as control

    data = control.approve(
        home,
        [read_bounded(path, JOIN_REQUEST_LIMIT) for path in requests],
        valid_days=valid_days,
        roles=roles,
        overlap_days=overlap_days,
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


@consortium.command(
    epilog=example(
        "zerorag consortium renew --out roster.cbor",
        "zerorag consortium renew --next-model /srv/models/clinical-embed --out roster.cbor",
        "zerorag consortium renew --prefer-next-model --out roster.cbor",
        "zerorag consortium renew --retire-models --out roster.cbor",
    )
)
@click.option(
    "--next-model",
    metavar="MODEL",
    help="Let members go over to this embedding model (zerorag migrate --to MODEL).",
)
@click.option("--prefer-next-model", is_flag=True, help="Let members that have it use it.")
@click.option("--retire-models", is_flag=True, help="Keep the preferred embedding model only.")
@out_option
@home_option
@json_option
def renew(  # noqa: PLR0917 - click passes them by name
    next_model: str | None,
    prefer_next_model: bool,
    retire_models: bool,
    out: Path | None,
    home: Home,
    as_json: bool,
) -> None:
    """Sign the roster anew before it expires, or with other embedding models."""
    from zerorag_p2p.control import consortium as control

    renewed = control.renew(
        home,
        next_model=None if next_model is None else model_settings(next_model),
        prefer_next=prefer_next_model,
        retire_models=retire_models,
    )
    _publish(home, renewed, out, as_json=as_json)


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
    """Put a roster of our own making in force here, and write it for the others.

    If other authorities have to sign, it is written for them and not in force.
    """
    from zerorag_p2p.control import consortium as control

    if not control.progress(home, data)["complete"]:
        if out is None:
            raise UsageError(
                "other authorities have to sign the roster: name a file for it with --out"
            )
        _write_proposal(home, data, out, as_json=as_json)
        return
    described = _install(home, data, ())
    if out is not None:
        write_atomic(out, data)
    if as_json:
        output.print_json(described)
    else:
        _print_taken_over(described)
        click.echo(f"Send {out or home.roster} to every member, for `zerorag consortium import`.")


def _write_proposal(home: Home, data: bytes, out: Path, *, as_json: bool) -> None:
    """Write a roster that may lack signatures, and say how many it has."""
    from zerorag_p2p.control import consortium as control

    write_atomic(out, data)
    progress = control.progress(home, data)
    if as_json:
        output.print_json({**control.describe(data), "progress": progress})
    else:
        _print_progress(progress, out)


def _print_progress(progress: dict[str, Any], out: Path | None) -> None:
    for side in progress["sides"]:
        click.echo(
            f"{side['signed']} of the {side['authorities']} authorities of version "
            f"{side['version']} signed, {side['needed']} needed"
        )
        if side["signed"] < side["needed"]:
            for peer in side["missing"]:
                click.echo(f"  may sign: {peer}")
    if progress["complete"]:
        click.echo(f"Send {out} to every member, for `zerorag consortium import`.")
    else:
        click.echo(f"Send {out} to another authority, for `zerorag consortium sign`.")


def _confirm_changes(described: dict[str, Any], changes: list[str]) -> None:
    click.echo(
        f"Version {described['version']} of {output.printable(described['consortium'])}:", err=True
    )
    for line in changes:
        click.echo(f"  {output.printable(line)}", err=True)
    try:
        agreed = click.confirm("Sign it?", err=True)
    except click.Abort:  # There is nobody to ask.
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise UsageError("the roster was not signed; --yes signs without asking")


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


def _listed(fingerprints: list[dict[str, Any]]) -> str:
    return ", ".join(f"{item['model']} ({item['dimension']} dimensions)" for item in fingerprints)


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
                _listed(described["fingerprints-current"]),
            ),
            *(
                [("next", _listed(described["fingerprints-next"]))]
                if described["fingerprints-next"]
                else []
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
