"""Commands on the owner's rules: trying them out, finding mistakes, and emergency access."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option, running
from zerorag_p2p.config import MAX_POLICY_BYTES
from zerorag_p2p.errors import UsageError
from zerorag_p2p.files import read_bounded
from zerorag_p2p.home import Home

if TYPE_CHECKING:
    from zerorag_p2p.client import Client
    from zerorag_p2p.control.offline_policy import OfflinePolicy

Json = dict[str, Any]

_MISTAKES: Final = 2
_DENIED: Final = 4


@click.group(epilog=example("zerorag policy lint", "zerorag policy reload"))
def policy() -> None:
    """Decide who may see what, and whom questions go to: rules in the home's policy.toml."""


@policy.command(epilog=example("zerorag policy show", "zerorag policy show --json"))
@home_option
@json_option
def show(home: Home, as_json: bool) -> None:
    """Show the rules: those in force if a node runs, else those of the file."""
    with _rules(home) as rules:
        value = rules.policy()
    if as_json:
        output.print_json(value)
        return
    if value["fault"]:
        click.echo(f"the file is not in force: {output.printable(value['fault'])}")
    if not value["rules"] and not value["outbound"]:
        click.echo(
            f"there are no rules in {value['file']}: members see what `zerorag docs share` allows"
        )
    if value["rules"]:
        output.print_table(
            ("rule", "effect", "members", "collections", "purposes", "acts", "questions", "view"),
            [
                (
                    rule["name"],
                    _effect(rule),
                    _who(rule),
                    _list(rule["collections"], "any"),
                    _list(rule["purposes"], "any"),
                    _list(rule["acts"], "any"),
                    _questions(rule),
                    "" if rule["effect"] == "deny" else rule["view"],
                )
                for rule in value["rules"]
            ],
        )
    if value["outbound"]:
        output.print_table(
            ("questions of ours", "effect", "members", "purposes", "questions", "sent"),
            [
                (
                    rule["name"],
                    rule["effect"],
                    _who(rule),
                    _list(rule["purposes"], "any"),
                    _questions(rule),
                    _sent(rule),
                )
                for rule in value["outbound"]
            ],
        )


@policy.command(
    epilog=example(
        'zerorag policy check --peer "City Clinic" --purpose research',
        'zerorag policy check --peer "City Clinic" --purpose treatment --collection cardiology '
        '--query "beta blockers in heart failure"',
    )
)
@click.option("--peer", required=True, metavar="PEER", help="An organisation, or a peer id.")
@click.option("--purpose", required=True, metavar="PURPOSE", help="What for: treatment, research …")
@click.option("--collection", metavar="NAME", help="Only this collection.  [default: all]")
@click.option("--doc", "document", metavar="HASH", help="Only this document, by its first digits.")
@click.option("--query", metavar="TEXT", help="Judge this question, too.")
@click.option(
    "--view",
    type=click.Choice(["count", "title", "passage", "whole"]),
    default="passage",
    show_default=True,
    help="How much of a document is wanted.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why, for emergency access.")
@home_option
@json_option
def check(
    *,
    peer: str,
    purpose: str,
    collection: str | None,
    document: str | None,
    query: str | None,
    view: str,
    reason: str,
    home: Home,
    as_json: bool,
) -> None:
    """Try out what a member would be let see, by what decides live.

    Without --query the fetch of a document is judged whose question is not known. Exit code 4: no
    result and no fetch would be allowed.
    """
    with _rules(home) as rules:
        value = rules.check_policy(
            peer,
            purpose=purpose,
            collection=collection,
            document=document,
            query=query,
            view=view,
            reason=reason,
        )
    if as_json:
        output.print_json(value)
    else:
        output.print_table(
            ("collection", "act", "to", "decision", "rule", "reason"),
            [
                (
                    _concerned(item),
                    item["act"],
                    item["organisation"] or "every member",
                    _decision(item),
                    item["rule"],
                    item["reason"],
                )
                for item in value["decisions"]
            ],
        )
    if not value["allowed"]:
        click.get_current_context().exit(_DENIED)


@policy.command(epilog=example("zerorag policy lint", "zerorag policy lint --file draft.toml"))
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rules to look at.  [default: policy.toml of the home]",
)
@home_option
@json_option
def lint(file: Path | None, home: Home, as_json: bool) -> None:
    """Find mistakes in rules before they are in force.

    Unknown names, rules that never match or that others leave without effect, contradictions, and
    rules that let everything out. Exit code 2: there are errors.
    """
    path = file or home.policy
    if not path.exists():
        raise UsageError(f"there are no rules at {path}; docs/policy.md shows how to write them")
    try:
        text = read_bounded(path, MAX_POLICY_BYTES).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
    with _rules(home) as rules:
        value = rules.lint_policy(text)
    if as_json:
        output.print_json(value)
    else:
        for finding in value["findings"]:
            click.echo(
                f"{finding['severity']}: rule {output.printable(finding['rule'])!r}: "
                f"{output.printable(finding['sentence'])}"
            )
        errors = output.counted(value["errors"], "error")
        click.echo(f"{errors}, {output.counted(value['warnings'], 'warning')}")
    if value["errors"]:
        click.get_current_context().exit(_MISTAKES)


@policy.command("reload", epilog=example("zerorag policy reload"))
@home_option
@json_option
def reload_(home: Home, as_json: bool) -> None:
    """Let the running node take the rules of its file at once.

    It looks for changes by itself every few seconds, but goes on with the old rules when the file
    is gone: then this command makes it do without rules.
    """
    with connect(home) as client:
        value = client.reload_policy()
    if as_json:
        output.print_json(value)
    else:
        click.echo(
            f"in force: {output.counted(value['rules'], 'rule')} on documents, "
            f"{value['outbound']} on questions"
        )


@policy.command(epilog=example("zerorag policy emergencies", "zerorag policy emergencies --json"))
@home_option
@json_option
def emergencies(home: Home, as_json: bool) -> None:
    """List who has used emergency access, and the last accesses with their stated reasons."""
    with _rules(home) as rules:
        value = rules.emergencies()
    if as_json:
        output.print_json(value)
        return
    if not value["grants"] and not value["accesses"]:
        click.echo("nobody has used emergency access")
        return
    output.print_table(
        ("rule", "organisation", "peer", "first access", "now"),
        [
            (
                grant["rule"],
                grant["organisation"],
                grant["peer"],
                output.moment(grant["begun_at"]),
                "open" if grant["open"] else "over",
            )
            for grant in value["grants"]
        ],
    )
    if value["accesses"]:
        output.print_table(
            ("when", "organisation", "user", "request", "documents", "reference", "reason"),
            [
                (
                    output.moment(access["at"]),
                    access["organisation"],
                    access["user"],
                    access["request"],
                    len(access["documents"]),
                    access["audit"],
                    access["reason"],
                )
                for access in value["accesses"]
            ],
        )


@policy.command(epilog=example("zerorag policy rearm 12D3KooWQ7...", "zerorag policy rearm --all"))
@click.argument("peer", required=False)
@click.option("--all", "everybody", is_flag=True, help="Every member.")
@home_option
@json_option
def rearm(peer: str | None, everybody: bool, home: Home, as_json: bool) -> None:
    """Let a member whose emergency access is over have it anew."""
    if (peer is None) is not everybody:
        raise UsageError("name a peer, or say --all")
    with _rules(home) as rules:
        value = rules.rearm(peer)
    if as_json:
        output.print_json(value)
    else:
        click.echo(f"rearmed {output.counted(value['rearmed'], 'grant')}")


@contextmanager
def _rules(home: Home) -> Iterator[Client | OfflinePolicy]:
    """The rules of `home`, through its node if one runs."""
    if running(home):
        with connect(home) as client:
            yield client
    else:
        from zerorag_p2p.control.offline_policy import OfflinePolicy

        with OfflinePolicy(home) as rules:
            yield rules


def _concerned(item: Json) -> str:
    """A collection, or the copies in it that came under the same terms."""
    terms = item["terms"]
    if terms is None:
        return str(item["collection"])
    return f"{item['collection']}, copies for {', '.join(terms['purposes']) or 'any purpose'}"


def _decision(item: Json) -> str:
    if not item["allowed"]:
        return "denied"
    return "allowed, with alarm" if item["emergency"] else "allowed"


def _effect(rule: Json) -> str:
    return f"emergency, {rule['hours']:g} h" if rule["effect"] == "emergency" else rule["effect"]


def _who(rule: Json) -> str:
    named = [*rule["organisations"], *map(output.short_peer, rule["members"])]
    roles = f"role {' or '.join(rule['roles'])}" if rule["roles"] else ""
    return "\n".join([*named, *([roles] if roles else [])]) or "every member"


def _list(items: list[str], otherwise: str) -> str:
    return "\n".join(items) or otherwise


def _questions(rule: Json) -> str:
    parts = []
    if rule["near"]:
        parts.append(f"≥ {rule['at_least']:g} near {_quoted(rule['near'])}")
    if rule["far"]:
        parts.append(f"< {rule['below']:g} near {_quoted(rule['far'])}")
    if rule.get("marks"):
        parts.append(f"marked {' or '.join(rule['marks'])}")
    return "\n".join(parts) or "any"


def _quoted(texts: list[str]) -> str:
    return ", ".join(repr(text) for text in texts)


def _sent(rule: Json) -> str:
    parts = []
    if rule["redact"]:
        parts.append(f"without {', '.join(rule['redact'])}")
    if not rule["remember"]:
        parts.append("not to be remembered")
    if rule["pseudonym"]:
        parts.append("under a pseudonym")
    return "\n".join(parts) or "as it is"
