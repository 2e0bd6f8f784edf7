"""Commands on what the running node has been doing: query memory, refusals, and live events.

`zerorag top` shows the same figures in one window.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.home import Home

Json = dict[str, Any]


@click.command(epilog=example("zerorag memory", "zerorag memory --json"))
@home_option
@json_option
def memory(home: Home, as_json: bool) -> None:
    """Show whose queries the node remembers to route later ones; it keeps no texts of them."""
    with connect(home) as client:
        value = client.memory()
    if as_json:
        output.print_json(value)
        return
    click.echo(f"{value['queries']} of at most {value['capacity']} queries are remembered")
    output.print_table(
        ("organisation", "peer", "queries", "last asked", "first expires", "last expires"),
        [
            (
                row["organisation"],
                row["peer"],
                row["queries"],
                output.moment(row["asked_at"]),
                output.moment(row["first_expiry"]),
                output.moment(row["last_expiry"]),
            )
            for row in value["queriers"]
        ],
    )


@click.command(epilog=example("zerorag refusals", "zerorag refusals --json"))
@home_option
@json_option
def refusals(home: Home, as_json: bool) -> None:
    """List the last refusals since the node's start: whom it refused what, who refused it, and why.

    The reasons of the node's own refusals are for its operator; peers are not told as much.
    """
    with connect(home) as client:
        rows = client.refusals()
    if as_json:
        output.print_json(rows)
        return
    output.print_table(
        ("when", "by", "organisation", "peer", "request", "code", "reason"),
        [
            (
                output.moment(row["at"]),
                row["by"],
                row["organisation"],
                row["peer"],
                row["request"],
                row["code"],
                row["reason"],
            )
            for row in rows
        ],
    )


@click.command(epilog=example("zerorag events", "zerorag events --json"))
@home_option
@json_option
def events(home: Home, as_json: bool) -> None:
    """Print what happens in the node, a line an event, until the node ends or Ctrl-C.

    Shows the texts of the queries that are asked here. With --json: one JSON document a line.
    """

    def show(event: Json) -> None:
        if as_json:
            output.print_json_line(event)
        else:
            click.echo(_line(event))

    with connect(home) as client:
        end = client.events(show)
    if as_json:
        output.print_json_line({"event": "end", "end": end})
    else:
        click.echo(output.printable(end["reason"]))


def _line(event: Json) -> str:
    at = event.get("at")
    clock = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S") if at is not None else " " * 8
    return f"{clock}  {output.printable(_sentence(event)).replace(chr(10), ' ')}"


def _sentence(event: Json) -> str:
    match event["event"]:
        case "watching":
            return f"watching {event['peer']}"
        case "lost":
            return f"{event['count']} events were lost: they were not read in time"
        case "query-started":
            return f"{event['query']} asks: {event['text']}"
        case "contact-started":
            score = "" if event["score"] is None else f" {event['score']:.3f}"
            return f"{event['query']} contacts {_name(event)}, led by {event['evidence']}{score}"
        case "contact-ended":
            contact = event["contact"]
            return (
                f"{event['query']} {_name(contact)} {contact['outcome']} in "
                f"{output.milliseconds(contact['milliseconds'])}: "
                + (
                    contact["reason"]
                    or f"{output.counted(contact['documents'], 'document')}, "
                    f"{output.counted(contact['referrals'], 'referral')}"
                )
            )
        case "fetch-started":
            count = output.counted(event["documents"], "document")
            return f"{event['query']} fetches {count} from {_name(event)}"
        case "fetch-ended":
            reason = f": {event['reason']}" if event["reason"] else ""
            return (
                f"{event['query']} has {event['verified']} of {event['documents']} verified from "
                f"{_name(event)} in {output.milliseconds(event['milliseconds'])}{reason}"
            )
        case "query-ended":
            return (
                f"{event['query']} ended after {output.milliseconds(event['milliseconds'])} with "
                f"{output.counted(event['documents'], 'document')} of "
                f"{output.counted(event['contacts'], 'contact')}: {event['stopped']}"
            )
        case "query-answered":
            return (
                f"answered {_name(event)} (k {event['k']}, {event['purpose']}): "
                f"{output.counted(event['documents'], 'document')}, "
                f"{output.counted(event['referrals'], 'referral')}"
            )
        case "fetch-answered":
            return (
                f"delivered {event['delivered']} of {event['documents']} documents to "
                f"{_name(event)} ({event['purpose']})"
            )
        case "refused":
            who = "refused to" if event["by"] == "us" else "was refused by"
            return f"{who} {_name(event)} ({event['request']}, {event['code']}): {event['reason']}"
        case "emergency-access":
            return (
                f"EMERGENCY ACCESS: {_name(event)} is given "
                f"{output.counted(len(event['documents']), 'document')} by "
                f"{', '.join(event['rules'])}: {event['reason']}"
            )
        case "policy-changed":
            return (
                f"other rules are in force: {event['rules']} on documents, "
                f"{event['outbound']} on questions"
            )
        case "neighbor-added":
            evicted = event["evicted"]
            instead = f" instead of {_name(evicted)}" if evicted else ""
            return f"{_name(event)} is a neighbour now{instead}"
        case "neighbor-removed":
            return f"{_name(event)} is no neighbour any more: {event['reason']}"
        case "member-changed":
            return f"{_name(event)} is {event['state']}"
        case other:
            return str(other)


def _name(event: Json) -> str:
    return f"{event['organisation']} ({output.short_peer(event['peer'])})"
