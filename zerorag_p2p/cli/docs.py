"""Commands on the node's own documents, with or without a running node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option, running
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


@docs.command(
    epilog=example(
        "zerorag docs add reports/ --collection cardiology",
        "zerorag docs add ori_pqal.json --collection abstracts --json",
    )
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--collection", default="default", show_default=True, help="Where they go.")
@home_option
@json_option
def add(paths: Sequence[Path], collection: str, home: Home, as_json: bool) -> None:
    """Add files and folders: .txt, .md, .jsonl, and PubMedQA's .json.

    What was added before is updated if it changed. A new collection is not shared with anybody
    until `zerorag docs share`. Exit code 5: some files were skipped.
    """
    with _library(home) as library, output.progress_line(not as_json) as show:
        report = library.add_documents(
            paths, collection, on_progress=lambda event: show(f"{event['status']} {event['path']}")
        )
    if as_json:
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
    if report["counts"]["skipped"]:
        click.get_current_context().exit(_PARTIAL)


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
            ("collection", "name", "title", "documents"),
            [(row["collection"], row["name"], row["title"], row["documents"]) for row in rows],
        )


@docs.command(
    epilog=example(
        "zerorag docs share cardiology",
        "zerorag docs share cardiology --purpose research --view passage --no-advertise",
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
    home: Home,
    as_json: bool,
) -> None:
    """Share a COLLECTION with the consortium, in place of how it was shared before."""
    with _library(home) as library:
        value = library.share(
            collection,
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=allow_copy,
            reshare=allow_reshare,
        )
    _print_collections([value], value, as_json=as_json)


@docs.command(epilog=example("zerorag docs unshare cardiology"))
@click.argument("collection")
@home_option
@json_option
def unshare(collection: str, home: Home, as_json: bool) -> None:
    """Stop sharing a COLLECTION. What others were sent stays with them."""
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

    It is gone from searches at once. What others were sent stays with them.
    """
    with _library(home) as library:
        # Files are known by their whole path; other names are not files.
        full_name = str(Path(name).absolute()) if Path(name).exists() else name
        value = library.remove_document(full_name, collection=collection)
    if as_json:
        output.print_json(value)
    else:
        click.echo(f"removed {output.counted(value['removed_documents'], 'document')}")


@docs.command(epilog=example("zerorag docs stats"))
@home_option
@json_option
def stats(home: Home, as_json: bool) -> None:
    """List the collections: how large they are, and how they are shared."""
    with _library(home) as library:
        rows = library.collections()
    _print_collections(rows, rows, as_json=as_json)


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
