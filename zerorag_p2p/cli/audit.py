"""Commands on the audit log, with or without a running node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option, running
from zerorag_p2p.errors import IntegrityError, UsageError
from zerorag_p2p.files import writing_atomic
from zerorag_p2p.home import Home

if TYPE_CHECKING:
    from zerorag_p2p.client import Client
    from zerorag_p2p.control.offline_audit import OfflineAudit

Json = dict[str, Any]

_PARTIAL: Final = 5
_SHORT_HASH: Final = 12
_PRIVATE: Final = 0o600
_MOST_SHOWN: Final = 3
_NOT_LISTED: Final = (
    "Not listed is what left otherwise: advertisements go to every member, and holders of copies "
    "record in their own logs to whom they give them."
)


@click.group(epilog=example("zerorag audit list --limit 20", "zerorag audit verify"))
def audit() -> None:
    """Look at what was asked, answered and given, and prove that nothing of it was changed."""


class _Date(click.ParamType[float]):
    name = "date"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            date = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no date: write 2026-11-30 or 2026-11-30T08:00", param, ctx)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


_date = _Date()


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select entries."""
    for option in (
        click.option(
            "--reference", metavar="REF", help="Only of this query, as both sides know it."
        ),
        click.option("--doc", "document", metavar="HASH", help="Only that name this document."),
        click.option("--kind", metavar="KIND", help="Only of this kind."),
        click.option("--peer", metavar="PEER", help="Only with this peer or organisation."),
        click.option("--since", type=_date, metavar="DATE", help="Only from then on, UTC."),
    ):
        command = option(command)
    return command


@audit.command(
    "list",
    epilog=example(
        "zerorag audit list --since 2026-11-01 --peer 'City Clinic'",
        "zerorag audit list --kind fetch-answered --doc d76eab09425430c6 --json",
    ),
)
@_selecting
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The last so many."
)
@home_option
@json_option
def list_(
    *,
    since: float | None,
    peer: str | None,
    kind: str | None,
    document: str | None,
    reference: str | None,
    limit: int,
    home: Home,
    as_json: bool,
) -> None:
    """List the last entries, oldest first. Exit code 5: some could not be read."""
    with _log(home) as log:
        found = log.audit(
            since=since, peer=peer, kind=kind, document=document, reference=reference, limit=limit
        )
    if as_json:
        output.print_json(found["entries"])
    else:
        output.print_table(
            ("no.", "when", "kind", "with", "for", "user", "what", "reference"),
            [
                (
                    entry["sequence"],
                    output.moment(entry["at"]),
                    entry["kind"],
                    _counterpart(entry),
                    entry.get("purpose", ""),
                    entry.get("user", ""),
                    _what(entry),
                    entry.get("reference", ""),
                )
                for entry in found["entries"]
            ],
            optional=("user", "reference"),
        )
    _tell_faults(found["faults"])


@audit.command(epilog=example("zerorag audit verify", "zerorag audit verify --json"))
@home_option
@json_option
def verify(home: Home, as_json: bool) -> None:
    """Verify every entry, that they follow each other, and that the log reaches every head.

    Heads are what the node signed about its log: the newest that is kept here, and those that other
    members returned. Exit code 7: the log is not whole.
    """
    with _log(home) as log:
        report = log.verify_audit()
    if as_json:
        output.print_json(report)
    else:
        output.print_fields(
            [
                ("entries", _range(report)),
                ("from", output.moment(report["began_at"])),
                ("to", output.moment(report["ended_at"])),
                *([("removed", f"{report['purged']} before them")] if report["purged"] else []),
                ("heads", f"{report['heads']} compared"),
                ("hash", report["hash"]),
            ]
        )
        if report["tail"]:
            click.echo(f"After them come {report['tail']} bytes of an entry that is not finished.")
        for fault in report["faults"]:
            click.echo(f"fault: {output.printable(fault)}")
    if not report["whole"]:
        faults = output.counted(len(report["faults"]), "fault")
        raise IntegrityError(f"the audit log is not whole: {faults}")
    if not as_json:
        click.echo("The log is whole.")


@audit.command(
    epilog=example(
        "zerorag audit export audit.jsonl", "zerorag audit export november.jsonl --since 2026-11-01"
    )
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_selecting
@home_option
@json_option
def export(
    *,
    file: Path,
    since: float | None,
    peer: str | None,
    kind: str | None,
    document: str | None,
    reference: str | None,
    home: Home,
    as_json: bool,
) -> None:
    """Write entries to FILE, for its owner only: a JSON object a line, with the hashes.

    Exit code 5: some could not be read.
    """
    faults: dict[str, None] = {}
    after = entries = 0
    with (
        _log(home) as log,
        output.progress_line(not as_json) as show,
        writing_atomic(file, mode=_PRIVATE) as written,
    ):
        while True:
            page = log.audit_page(
                after, since=since, peer=peer, kind=kind, document=document, reference=reference
            )
            for entry in page["entries"]:
                written.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            entries += len(page["entries"])
            faults.update(dict.fromkeys(page["faults"]))
            if page["after"] == after:
                break
            after = page["after"]
            show(f"entry {after}")
    if as_json:
        output.print_json({"file": str(file), "entries": entries, "faults": list(faults)})
    else:
        click.echo(f"{file}: {entries} {'entry' if entries == 1 else 'entries'}")
    _tell_faults(list(faults))


@audit.command(epilog=example("zerorag audit purge --before 2025-12-01"))
@click.option("--before", type=_date, required=True, metavar="DATE", help="Up to when, UTC.")
@home_option
@json_option
def purge(before: float, home: Home, as_json: bool) -> None:
    """Remove entries from before DATE for good.

    Whole files go, of a day or less, and the one that grows never does. What remains verifies: the
    node signs where the log begins, and that entries were removed is an entry itself.
    """
    if before > datetime.now(UTC).timestamp():
        raise UsageError("the date is yet to come")
    with _log(home) as log:
        purged = log.purge_audit(before)
    if as_json:
        output.print_json(purged)
    elif purged["removed"]:
        click.echo(f"removed {purged['removed']} entries, up to number {purged['up_to']}")
    else:
        click.echo("there is no file whose entries are all from before then")


@audit.command(
    epilog=example(
        "zerorag audit disclosures --doc d76eab09425430c6",
        "zerorag audit disclosures --doc d76eab09425430c6 --json",
    )
)
@click.option(
    "--doc", "document", required=True, metavar="HASH", help="Content hash, or its begin."
)
@home_option
@json_option
def disclosures(document: str, home: Home, as_json: bool) -> None:
    """List who was given a document of ours, or its embedding: when, and for what.

    Advertisements, which go to every member, and what holders of copies give on are not listed.

    Exit code 5: some entries could not be read.
    """
    with _log(home) as log:
        found = log.disclosures(document)
    if as_json:
        output.print_json(found["disclosures"])
    else:
        output.print_table(
            ("when", "organisation", "peer", "given", "for", "user", "collection", "rule", "no."),
            [
                (
                    output.moment(row["at"]),
                    row["organisation"],
                    row["peer"],
                    _given(row),
                    row["purpose"],
                    row["user"],
                    row["collection"],
                    row["rule"],
                    row["sequence"],
                )
                for row in found["disclosures"]
            ],
            optional=("no.", "rule", "user"),
        )
        click.echo(_NOT_LISTED)
    _tell_faults(found["faults"])


@contextmanager
def _log(home: Home) -> Iterator[Client | OfflineAudit]:
    """The log of `home`, through its node if one runs."""
    if running(home):
        with connect(home) as client:
            yield client
    else:
        from zerorag_p2p.control.offline_audit import OfflineAudit

        with OfflineAudit(home) as log:
            yield log


def _tell_faults(faults: list[str]) -> None:
    for fault in faults:
        click.echo(f"could not be read: {output.printable(fault)}", err=True)
    if faults:
        click.echo("`zerorag audit verify` tells more", err=True)
        click.get_current_context().exit(_PARTIAL)


def _range(report: Json) -> str:
    if not report["entries"]:
        return "0"
    return f"{report['entries']}, number {report['first']} to {report['last']}"


def _counterpart(entry: Json) -> str:
    if "peer" not in entry or entry["kind"] == "started":
        return ""
    return f"{entry.get('organisation') or ''} ({output.short_peer(entry['peer'])})".strip()


def _what(entry: Json) -> str:
    """What an entry says beyond the columns of its own, in a few words."""
    match entry["kind"]:
        case "started":
            parts = [entry["software"], entry["reason"]]
            if entry["cut"]:
                parts.insert(1, f"{entry['cut']} bytes of an unfinished entry cut off")
        case "query-asked":
            parts = [entry["text"] or f"question {entry['query'][:_SHORT_HASH]}", entry["reason"]]
        case "roster-in-force":
            parts = [f"version {entry['version']}, {output.counted(entry['members'], 'member')}"]
        case "policy-in-force":
            parts = [entry["source"], entry["reason"]]
        case "answering-paused":
            parts = ["paused" if entry["paused"] else "goes on", entry["reason"]]
        case "entries-purged":
            parts = [f"up to number {entry['up_to']}"]
        case "emergency-access":
            parts = [f"rule {entry['rule']}", entry["reason"]]
        case "locked-out":
            until = output.moment(entry["until"])
            parts = [f"of {entry['request']} until {until}", entry["reason"]]
        case "copy-kept":
            parts = [f"owner {output.short_peer(entry['owner'])}"]
        case _:
            parts = [entry.get("outcome", ""), entry.get("reason", "")]
            if entry.get("count") is not None:
                parts.append(f"{entry['count']} match")
    parts += _first(
        f"{note['collection']} {note['decided']} by {note['rule']}"
        for note in entry.get("collections", [])
        if note["decided"] != "allowed"
    )
    parts += _first(
        f"{_given(note)} of {note['content_hash'][:_SHORT_HASH]}"
        for note in entry.get("documents", [])
    )
    return "; ".join(part for part in parts if part)


def _given(note: Json) -> str:
    return f"{note['given']}, redacted" if note["redacted"] else str(note["given"])


def _first(parts: Iterable[str]) -> list[str]:
    """The first few of them, and how many more there are."""
    found = list(parts)
    more = len(found) - _MOST_SHOWN
    return [*found[:_MOST_SHOWN], *([f"{more} more"] if more > 0 else [])]
