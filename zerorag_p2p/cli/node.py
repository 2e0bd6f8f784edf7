"""Commands on the node itself: setting it up, running it, and looking at it."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from zerorag_p2p import __version__
from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.cli.migrate import migration_fields
from zerorag_p2p.errors import NodeNotRunningError
from zerorag_p2p.home import Home

Json = dict[str, Any]


@click.command(
    epilog=example(
        'zerorag init --organisation "General Hospital"',
        'zerorag init --organisation "General Hospital" --listen /ip4/192.0.2.10/tcp/4001',
    )
)
@click.option("--organisation", default="", help="Organisation that runs the node; members see it.")
@click.option(
    "--listen",
    multiple=True,
    metavar="MULTIADDR",
    help="Address to listen on; repeatable.  [default: a free port of this machine only]",
)
@click.option(
    "--embedder",
    type=click.Choice(["sentence-transformers", "endpoint", "precomputed", "hashing"]),
    help="How text becomes vectors; hashing is for tests.  [default: sentence-transformers]",
)
@home_option
@json_option
def init(
    organisation: str, listen: tuple[str, ...], embedder: str | None, home: Home, as_json: bool
) -> None:
    """Set up a node: a folder with a private key and a file of settings."""
    from zerorag_p2p.control.setup import init_home

    peer_id = init_home(home, organisation=organisation, listen=listen, embedder=embedder)
    if as_json:
        output.print_json({"peer_id": peer_id, "home": str(home.root), "config": str(home.config)})
    else:
        output.print_fields(
            [("peer id", peer_id), ("settings", home.config), ("private key", home.key)]
        )
        click.echo(
            "Next: `zerorag consortium request` to join a consortium, or "
            "`zerorag consortium create` to found one."
        )


@click.command("id", epilog=example("zerorag id"))
@home_option
@json_option
def show_id(home: Home, as_json: bool) -> None:
    """Print the peer id."""
    from zerorag_p2p.control.setup import own_peer_id

    peer_id = own_peer_id(home)
    if as_json:
        output.print_json({"peer_id": peer_id})
    else:
        click.echo(peer_id)


@click.group(epilog=example("zerorag node run"))
def node() -> None:
    """Run a node, or stop it."""


@node.command(epilog=example("zerorag node run", "zerorag node run --home /srv/zerorag --json"))
@click.option("--verbose", is_flag=True, help="Log what helps to find a defect.")
@home_option
@json_option
def run(verbose: bool, home: Home, as_json: bool) -> None:
    """Run the node in the foreground.

    Prints one line when it can be reached; logs to standard error. SIGTERM, Ctrl-C or
    `zerorag node stop` end it in good order.
    """
    from zerorag_p2p.control.run import run_node

    def on_ready(ready: Json) -> None:
        if as_json:
            line = json.dumps(ready)
        else:
            line = (
                f"{ready['organisation']} ({ready['peer_id']}) is ready on "
                f"{', '.join(ready['addresses'])}, socket {ready['socket']}"
            )
        # One line, and at once: whoever started the node may wait for it.
        click.echo(line)

    run_node(home, on_ready, verbose=verbose)


@node.command(epilog=example("zerorag node stop"))
@home_option
@json_option
def stop(home: Home, as_json: bool) -> None:
    """Ask the running node to end."""
    with connect(home) as client:
        stopping = client.shutdown()
    if as_json:
        output.print_json(stopping)
    else:
        click.echo("the node ends")


@click.command(epilog=example("zerorag pause", 'zerorag pause --reason "back at 14:00"'))
@click.option("--reason", default="", help="A sentence that every peer that asks will see.")
@home_option
@json_option
def pause(reason: str, home: Home, as_json: bool) -> None:
    """Answer nobody from now on, until `zerorag resume`, also after a restart.

    Queries, fetches and requests for the node's advertisement are refused with the reason. The node
    still asks, and takes part in gossip.
    """
    from zerorag_p2p.control import pausing

    with connect(home) as client:
        try:
            paused = client.pause(reason)
        except NodeNotRunningError:
            paused = pausing.pause(home, reason)
    if as_json:
        output.print_json(paused)
    else:
        click.echo("the node answers nobody; `zerorag resume` ends that")


@click.command(epilog=example("zerorag resume"))
@home_option
@json_option
def resume(home: Home, as_json: bool) -> None:
    """Answer again after `zerorag pause`."""
    from zerorag_p2p.control import pausing

    with connect(home) as client:
        try:
            resumed = client.resume()
        except NodeNotRunningError:
            resumed = pausing.resume(home)
    if as_json:
        output.print_json(resumed)
    else:
        click.echo("the node answers")


@click.command(epilog=example("zerorag status", "zerorag status --json"))
@home_option
@json_option
def status(home: Home, as_json: bool) -> None:
    """Show how the running node is."""
    with connect(home) as client:
        value = client.status()
    if as_json:
        output.print_json(value)
        return
    roster, library, process = value["roster"], value["library"], value["process"]
    output.print_fields(
        [
            *_notices(value),
            ("organisation", value["organisation"]),
            ("peer id", value["peer_id"]),
            ("addresses", ", ".join(value["addresses"])),
            ("consortium", value["consortium"]),
            ("roster", _roster_line(roster)),
            ("up for", output.duration(value["uptime_s"])),
            (
                "peers",
                f"{value['connections']} connected, "
                f"{output.counted(value['neighbors'], 'neighbour')}",
            ),
            (
                "documents",
                f"{library['documents']} in {output.counted(library['collections'], 'collection')}",
            ),
            (
                "routing",
                f"{value['advertised_vectors']} advertised vectors held, "
                f"sketches of {output.counted(value['sketches']['peers'], 'peer')} "
                f"({output.size(value['sketches']['bytes'])}), "
                f"{value['remembered_queries']} queries remembered",
            ),
            *([("policy", _policy_line(value))] if "policy" in value else []),
            *([("audit", _audit_line(value["audit"]))] if value.get("audit") else []),
            ("embedding", value["fingerprint"]["model"]),
            *(migration_fields(value["migration"]) if value["migration"] else []),
            (
                "process",
                f"{process['pid']}, {output.size(process['rss_bytes'])}, "
                f"{process['tasks']} tasks, {process['descriptors']} descriptors",
            ),
        ]
    )


@click.command(epilog=example("zerorag peers", "zerorag peers --json"))
@home_option
@json_option
def peers(home: Home, as_json: bool) -> None:
    """List the members of the consortium as the running node sees them."""
    with connect(home) as client:
        rows = client.peers()
    if as_json:
        output.print_json(rows)
        return
    output.print_table(
        ("organisation", "peer", "standing", "connected", "clock", "last error"),
        [
            (
                row["organisation"],
                row["peer"],
                row["standing"],
                "yes" if row["connected"] else "no",
                f"{row['session']['clock_skew_s']:+.1f} s" if row["session"] else "-",
                row["last_error"] or "",
            )
            for row in rows
        ],
    )


@click.command(epilog=example("zerorag neighbors", "zerorag neighbors --json"))
@home_option
@json_option
def neighbors(home: Home, as_json: bool) -> None:
    """List the node's neighbours and what they advertise."""
    with connect(home) as client:
        rows = client.neighbors()
    if as_json:
        output.print_json(rows)
        return
    now = time.time()
    output.print_table(
        ("organisation", "peer", "state", "age", "useful", "round trip", "vectors", "bytes"),
        [
            (
                row["organisation"],
                row["peer"],
                row["state"],
                output.span(now - row["since"]),
                "-" if row["last_useful"] is None else output.span(now - row["last_useful"]),
                output.milliseconds(row["round_trip_ms"]),
                row["advertisement"]["vectors"] if row["advertisement"] else "-",
                output.size(row["bytes_sent"] + row["bytes_received"]),
            )
            for row in rows
        ],
    )


@click.command(epilog=example("zerorag version"))
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        output.print_json({"version": __version__})
    else:
        click.echo(f"zerorag {__version__}")


def _policy_line(value: Json) -> str:
    policy, emergencies = value["policy"], value["emergencies"]
    line = (
        f"{output.counted(policy['rules'], 'rule')} on documents, {policy['outbound']} on questions"
    )
    if policy["fault"]:
        line += f"; the file is not in force: {policy['fault']}"
    if emergencies["accesses"] or emergencies["grants"]:
        line += (
            f"; EMERGENCY ACCESS {output.counted(emergencies['accesses'], 'time')} since the start"
            f", {output.counted(emergencies['grants'], 'grant')}: `zerorag policy emergencies`"
        )
    return line


def _notices(value: Json) -> list[tuple[str, str]]:
    """What the operator should know before all else."""
    notices = []
    if value["pause"] is not None:
        pause = value["pause"]
        since = f"since {output.moment(pause['since'])}"
        notices.append(("PAUSED", f"{since}: {pause['reason']}" if pause["reason"] else since))
    notices += [("warning", expiry["sentence"]) for expiry in value["expiring"]]
    if value["next_key"] is not None:
        key = value["next_key"]
        state = (
            "the node goes over to it soon"
            if key["standing"] == "member"
            else "the authority has to approve it (zerorag consortium request)"
        )
        notices.append(("next key", f"{key['peer_id']}: {state}"))
    notices += [
        (
            "locked out",
            f"{row['organisation']}, {row['request']}, until {output.moment(row['until'])}: "
            f"{row['reason']}",
        )
        for row in value["locked_out"]
    ]
    return notices


def _audit_line(audit: Json) -> str:
    if audit["failure"]:
        return f"STOPPED: {audit['failure']}"
    if audit["faults"]:
        return f"NOT WHOLE, see `zerorag audit verify`: {audit['faults'][0]}"
    head = audit["head"]
    signed = "no head yet" if head is None else f"head signed {output.moment(head['at'])}"
    return (
        f"{audit['entries']} entries, {signed}, "
        f"heads of {output.counted(audit['heads_held'], 'other')} held"
    )


def _roster_line(roster: Json) -> str:
    line = (
        f"version {roster['version']}, {roster['state']} until "
        f"{output.moment(roster['expires_at'])}, {output.counted(roster['members'], 'member')}"
    )
    if roster["newest_seen"] > roster["version"]:
        line += f"; version {roster['newest_seen']} exists: import it"
    return line
