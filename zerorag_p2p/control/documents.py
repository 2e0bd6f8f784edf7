"""A library's operations as JSON, for the local interface and for commands without a node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from zerorag_p2p.control.purposes import parse_purpose
from zerorag_p2p.errors import UsageError
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.reports import FileReport, FileStatus
from zerorag_p2p.model import SharingTerms, View
from zerorag_p2p.policy.sharing import Sharing

Json = dict[str, Any]


def add(
    library: Library,
    paths: Iterable[Path],
    collection: str,
    on_progress: Callable[[Json], None] | None = None,
) -> Json:
    """Add files and folders; the counts, and what became of each file.

    Args:
        library: Where to.
        paths: Absolute.
        collection: Made if there is none of this name.
        on_progress: Called with an event for every file, in this thread.
    """

    def tell(report: FileReport) -> None:
        if on_progress is not None:
            on_progress({"event": "file", **_file(report)})

    report = library.add(paths, collection, on_progress=tell)
    return {
        "collection": collection,
        "counts": {status.value: report.count(status) for status in FileStatus},
        "documents": report.documents,
        "files": [_file(item) for item in report.files],
    }


def remove(library: Library, name: str, collection: str | None) -> Json:
    """Remove what `name` stands for: a source, a file, or the source of a content hash."""
    return {"removed_documents": library.remove(name, collection)}


def sources(library: Library, collection: str | None) -> list[Json]:
    """What was added, by collection and name."""
    return [
        {
            "collection": source.collection,
            "name": source.name,
            "title": source.title,
            "documents": source.parts,
            "metadata": source.metadata,
        }
        for source in library.sources(collection)
    ]


def collections(library: Library) -> list[Json]:
    """Every collection: how large it is, and how it is shared."""
    return [
        {
            "name": item.name,
            "sources": item.sources,
            "documents": item.documents,
            "sharing": item.sharing and item.sharing.to_json(),
        }
        for item in library.overview()
    ]


def share(library: Library, collection: str, sharing: Sharing) -> Json:
    """Share a collection; how it is now."""
    library.share(collection, sharing)
    return _collection(library, collection)


def unshare(library: Library, collection: str) -> Json:
    """Stop sharing a collection; how it is now."""
    library.unshare(collection)
    return _collection(library, collection)


def make_sharing(
    *,
    members: Sequence[str] = (),
    purposes: Sequence[str] = (),
    view: str = View.WHOLE,
    advertise: bool = True,
    copy: bool = False,
    reshare: bool = False,
) -> Sharing:
    """A sharing from what people type.

    Raises:
        UsageError: A purpose or view does not exist, or the terms contradict each other.
        DecodeError: A member is no peer id.
    """
    if view not in list(View):
        raise UsageError(f"{view!r} is no view; choose one of {', '.join(View)}")
    if reshare and not copy:
        raise UsageError("a copy can only be passed on where one may be kept: allow copies, too")
    allowed = tuple(parse_purpose(purpose) for purpose in purposes)
    return Sharing(
        members=tuple(parse_peer_id(member) for member in members),
        purposes=allowed,
        view=View(view),
        advertise=advertise,
        terms=SharingTerms(copy=copy, reshare=reshare, purposes=allowed),
    )


def _collection(library: Library, name: str) -> Json:
    return next(item for item in collections(library) if item["name"] == name)


def _file(report: FileReport) -> Json:
    return {**dataclasses.asdict(report), "status": report.status.value}
