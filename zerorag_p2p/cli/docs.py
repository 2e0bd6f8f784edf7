"""Commands on the node's own documents, with or without a running node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.adding import AddingLine
from zerorag_p2p.cli.command import connect, example, home_option, json_option, running
from zerorag_p2p.config import WATCH_INTERVAL_S
from zerorag_p2p.errors import UsageError
from zerorag_p2p.home import Home

if TYPE_CHECKING:
    from zerorag_p2p.client import Client
    from zerorag_p2p.control.offline import OfflineLibrary

Json = dict[str, Any]

_PARTIAL: Final = 5

collection_option = click.option("--collection", metavar="NAME", help="Only of this collection.")


@click.group(epilog=example("zerorag docs add reports/ --collection cardiology"))
def docs() -> None:
    """Manage the node's own documents."""


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of commands that read files."""
    for option in reversed(
        (
            click.option(
                "--encoding",
                metavar="NAME",
                default="",
                help="Encoding of text files, cp1252 for instance.  [default: detected]",
            ),
            click.option(
                "--text-column",
                "text_columns",
                metavar="NAME",
                multiple=True,
                help="Column of tables that is the text; repeatable.  [default: detected]",
            ),
            click.option(
                "--title-column",
                metavar="NAME",
                default="",
                help="Column of tables that is the title.  [default: detected]",
            ),
            click.option(
                "--id-column",
                metavar="NAME",
                default="",
                help="Column of tables that names a row.  [default: detected]",
            ),
        )
    ):
        command = option(command)
    return command


@docs.command(
    epilog=example(
        "zerorag docs add reports/ --collection cardiology",
        "zerorag docs add letters.csv --collection letters --text-column body",
        "zerorag docs add ori_pqal.json --collection abstracts --json",
    )
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--collection", default="default", show_default=True, help="Where they go.")
@reading_options
@click.option(
    "--events",
    is_flag=True,
    help="Print progress as JSON, an event a line, and the report as the last one.",
)
@home_option
@json_option
def add(
    *,
    paths: Sequence[Path],
    collection: str,
    encoding: str,
    text_columns: Sequence[str],
    title_column: str,
    id_column: str,
    events: bool,
    home: Home,
    as_json: bool,
) -> None:
    """Add files and folders: text, Markdown, HTML, PDF, Word, tables, JSON Lines, FHIR.

    What was added before is updated if it changed; work that was interrupted goes on where it
    ended. A new collection is not shared with anybody until `zerorag docs share`. Exit code 5:
    some files were skipped.
    """
    with _library(home) as library, output.progress_line(not (as_json or events)) as show:
        report = library.add_documents(
            paths,
            collection,
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
            on_progress=output.print_json_line if events else AddingLine(show).take,
        )
    if events:
        output.print_json_line({"event": "report", "report": report})
    elif as_json:
        output.print_json(report)
    else:
        for file in report["files"]:
            if file["reason"]:
                place = output.printable(file["path"])
                click.echo(f"{file['status']} {place}: {output.printable(file['reason'])}")
        counts = ", ".join(f"{count} {status}" for status, count in report["counts"].items())
        click.echo(
            f"{collection}: files: {counts}; {output.counted(report['documents'], 'document')}"
        )
    if any(file["reason"] for file in report["files"]):
        click.get_current_context().exit(_PARTIAL)


@docs.command(
    epilog=example(
        "zerorag docs watch /srv/letters --collection letters",
        "zerorag docs watch --list",
        "zerorag docs watch /srv/letters --stop",
    )
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--collection",
    metavar="NAME",
    help="What follows the folder.  [default: default; with --stop, every one that does]",
)
@click.option(
    "--interval",
    "interval_s",
    type=float,
    default=WATCH_INTERVAL_S,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks at the folder.",
)
@click.option("--list", "listed", is_flag=True, help="List the folders that are watched.")
@click.option("--stop", "stopped", is_flag=True, help="Watch FOLDER no more; its documents stay.")
@reading_options
@home_option
@json_option
def watch(
    *,
    folder: Path | None,
    collection: str | None,
    interval_s: float,
    listed: bool,
    stopped: bool,
    encoding: str,
    text_columns: Sequence[str],
    title_column: str,
    id_column: str,
    home: Home,
    as_json: bool,
) -> None:
    """Let a collection follow FOLDER: files that are added, changed, renamed and deleted.

    The running node does it, also after a restart; without one it begins with the next start.
    """
    if listed:
        with _library(home) as library:
            rows = library.watches()
        _print_watches(rows, rows, as_json=as_json)
        return
    if folder is None:
        raise UsageError("name a folder, or list those that are watched with --list")
    with _library(home) as library:
        if stopped:
            value = library.unwatch_folder(folder, collection=collection)
        else:
            value = library.watch_folder(
                folder,
                collection or "default",
                interval_s=interval_s,
                encoding=encoding,
                text_columns=text_columns,
                title_column=title_column,
                id_column=id_column,
            )
    if not stopped:
        _print_watches([value], value, as_json=as_json)
    elif as_json:
        output.print_json(value)
    else:
        click.echo("it is not watched any more; its documents stay")


@docs.command("list", epilog=example("zerorag docs list --collection cardiology"))
@collection_option
@home_option
@json_option
def list_(collection: str | None, home: Home, as_json: bool) -> None:
    """List the sources in the library."""
    with _library(home) as library:
        rows = library.documents(collection)
    if as_json:
        output.print_json(rows)
    else:
        output.print_table(
            ("collection", "name", "title", "documents", "held as"),
            [
                (row["collection"], row["name"], row["title"], row["documents"], _held_as(row))
                for row in rows
            ],
        )


@docs.command(
    epilog=example(
        "zerorag docs share cardiology",
        "zerorag docs share cardiology --purpose research --view passage --no-advertise",
        "zerorag docs share guidelines --allow-copy --allow-reshare --until 2028-12-31",
    )
)
@click.argument("collection")
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="PEER",
    help="Share with this member only; repeatable.  [default: every member]",
)
@click.option(
    "--purpose",
    "purposes",
    multiple=True,
    help="Share for this purpose of use only; repeatable.  [default: any purpose]",
)
@click.option(
    "--view",
    type=click.Choice(["count", "title", "passage", "whole"]),
    default="whole",
    show_default=True,
    help="The most that may be shown of a document.",
)
@click.option(
    "--advertise/--no-advertise",
    default=True,
    show_default=True,
    help="Whether the whole consortium may learn what the documents are about.",
)
@click.option("--allow-copy", is_flag=True, help="A receiver may keep a copy.")
@click.option("--allow-reshare", is_flag=True, help="A receiver may pass its copy on.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    help="When the sharing ends, in UTC, for copies too.  [default: never]",
)
@home_option
@json_option
def share(
    *,
    collection: str,
    members: Sequence[str],
    purposes: Sequence[str],
    view: str,
    advertise: bool,
    allow_copy: bool,
    allow_reshare: bool,
    until: datetime | None,
    home: Home,
    as_json: bool,
) -> None:
    """Share a COLLECTION with the consortium, in place of how it was shared before.

    Where less is allowed with copies than before, the copies that others keep are withdrawn.
    """
    expires_at = None if until is None else int(until.replace(tzinfo=UTC).timestamp())
    with _library(home) as library:
        value = library.share(
            collection,
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=allow_copy,
            reshare=allow_reshare,
            expires_at=expires_at,
        )
    _print_collections([value], value, as_json=as_json)


@docs.command(epilog=example("zerorag docs unshare cardiology"))
@click.argument("collection")
@home_option
@json_option
def unshare(collection: str, home: Home, as_json: bool) -> None:
    """Stop sharing a COLLECTION. Copies that others were allowed to keep are withdrawn."""
    with _library(home) as library:
        value = library.unshare(collection)
    _print_collections([value], value, as_json=as_json)


@docs.command(epilog=example("zerorag docs remove report-17.txt --collection cardiology"))
@click.argument("name")
@collection_option
@home_option
@json_option
def remove(name: str, collection: str | None, home: Home, as_json: bool) -> None:
    """Remove what NAME stands for: a source as `zerorag docs list` names it, a file, or the source
    of a document by the first digits of its content hash.

    It is gone from searches at once. Copies that others were allowed to keep are withdrawn.
    """
    with _library(home) as library:
        # Files are known by their whole path; other names are not files.
        full_name = str(Path(name).absolute()) if Path(name).exists() else name
        value = library.remove_document(full_name, collection=collection)
    if as_json:
        output.print_json(value)
    else:
        click.echo(f"removed {output.counted(value['removed_documents'], 'document')}")


@docs.command(
    epilog=example(
        "zerorag docs withdraw report-17.txt --collection cardiology",
        "zerorag docs withdraw 3f1c9a0d2b6e4f58",
        "zerorag docs withdraw report-17.txt --undo",
    )
)
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let others see it again.")
@collection_option
@home_option
@json_option
def withdraw(name: str, undo: bool, collection: str | None, home: Home, as_json: bool) -> None:
    """Take back what NAME stands for: a source, a file, or a document by its content hash.

    It stays in the library, but nobody else sees it, however its collection is shared. Every
    member is told: it deletes its copies, and takes no more results with it. A document that is
    not in the library any more is withdrawn by its whole content hash.
    """
    with _library(home) as library:
        full_name = str(Path(name).absolute()) if Path(name).exists() else name
        act = library.restore if undo else library.withdraw
        value = act(full_name, collection=collection)
    if as_json:
        output.print_json(value)
    else:
        ((done, documents),) = value.items()
        click.echo(f"{done} {output.counted(len(documents), 'document')}")
        for content_hash in documents:
            click.echo(content_hash)


@docs.command(epilog=example("zerorag docs withdrawals --json"))
@home_option
@json_option
def withdrawals(home: Home, as_json: bool) -> None:
    """List what owners took back, this node's own among them, as far as it is known here."""
    with _library(home) as library:
        rows = library.withdrawals()
    if as_json:
        output.print_json(rows)
        return
    output.print_table(
        ("organisation", "owner", "withdrawn", "what", "known until"),
        [
            (
                row.get("organisation", ""),
                output.short_peer(row["owner"]),
                output.moment(row["issued-at"]),
                _what_is_withdrawn(row),
                output.moment(row["expires-at"]),
            )
            for row in sorted(rows, key=lambda row: row["issued-at"])
        ],
        optional=("organisation", "known until"),
    )


@docs.command(epilog=example("zerorag docs stats"))
@home_option
@json_option
def stats(home: Home, as_json: bool) -> None:
    """List the collections: how large they are, and how they are shared."""
    with _library(home) as library:
        rows = library.collections()
    _print_collections(rows, rows, as_json=as_json)


def _held_as(row: Json) -> str:
    if row["withdrawn"]:
        return "our own, withdrawn"
    copy = row["copy"]
    if copy is None:
        return "our own"
    ends = "" if copy["expires_at"] is None else f", until {output.moment(copy['expires_at'])}"
    kept = "" if copy["reshare"] else ", not passed on"
    return f"copy of {output.short_peer(copy['owner'])}{kept}{ends}"


def _what_is_withdrawn(row: Json) -> str:
    hashes = ", ".join(content_hash[:16] for content_hash in row["documents"])
    if row["collection"] is None:
        return hashes
    return f"{hashes or 'everything'} of collection {row['collection']}"


@contextmanager
def _library(home: Home) -> Iterator[Client | OfflineLibrary]:
    """The library of `home`, through its node if one runs."""
    if running(home):
        with connect(home) as client:
            yield client
    else:
        from zerorag_p2p.control.offline import OfflineLibrary

        with OfflineLibrary(home) as library:
            yield library


def _print_watches(rows: Sequence[Json], value: Any, *, as_json: bool) -> None:
    if as_json:
        output.print_json(value)
        return
    output.print_table(
        ("folder", "collection", "every", "files", "skipped", "looked at", "state"),
        [
            (
                row["folder"],
                row["collection"],
                output.duration(row["interval_s"]),
                row["read"],
                row["skipped"],
                output.moment(row["looked_at"]) if row.get("looked_at") else "not yet",
                _watch_state(row),
            )
            for row in rows
        ],
    )
    for row in rows:
        for file in row["reasons"]:
            click.echo(
                f"skipped {output.printable(file['path'])}: {output.printable(file['reason'])}"
            )


def _watch_state(row: Json) -> str:
    reading = row.get("reading")
    if reading is not None:
        return f"reading {reading['path']}"
    return str(row.get("problem") or "")


def _print_collections(rows: Sequence[Json], value: Any, *, as_json: bool) -> None:
    if as_json:
        output.print_json(value)
        return
    output.print_table(
        ("collection", "sources", "documents", "shared with", "for", "view", "advertised"),
        [
            (row["name"], row["sources"], row["documents"], *_sharing_cells(row["sharing"]))
            for row in rows
        ],
    )


def _sharing_cells(sharing: Json | None) -> tuple[str, str, str, str]:
    if sharing is None:
        return "nobody", "", "", ""
    return (
        "\n".join(sharing["members"]) or "every member",
        ", ".join(sharing["purposes"]) or "any purpose",
        sharing["view"],
        "yes" if sharing["advertise"] else "no",
    )
