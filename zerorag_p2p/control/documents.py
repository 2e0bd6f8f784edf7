"""A library's operations as JSON, for the local interface and for commands without a node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.config import WATCH_INTERVAL_S
from zerorag_p2p.errors import UsageError
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.library.documents import StoredCopy, StoredWatch
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.records import normalise_name
from zerorag_p2p.library.reports import AddProgress, FileReport, FileStatus
from zerorag_p2p.model import SharingTerms, View
from zerorag_p2p.policy.purposes import parse_purpose
from zerorag_p2p.policy.sharing import Sharing

Json = dict[str, Any]

_NO_OPTIONS: Final = ReadingOptions()


def add(
    library: Library,
    paths: Iterable[Path],
    collection: str,
    on_progress: Callable[[Json], None] | None = None,
    options: ReadingOptions = _NO_OPTIONS,
) -> Json:
    """Add files and folders; the counts, and what became of each file.

    Args:
        library: Where to.
        paths: Absolute.
        collection: Made if there is none of this name.
        on_progress: Called with an event for every file, and for how far the work is, in this
            thread.
        options: How to read the files.
    """

    def tell(report: FileReport) -> None:
        if on_progress is not None:
            on_progress({"event": "file", **_file(report)})

    def advance(progress: AddProgress) -> None:
        if on_progress is not None:
            on_progress({"event": "progress", **dataclasses.asdict(progress)})

    report = library.add(paths, collection, options=options, on_progress=tell, on_advance=advance)
    return {
        "collection": collection,
        "counts": {status.value: report.count(status) for status in FileStatus},
        "documents": report.documents,
        "files": [_file(item) for item in report.files],
    }


def watch(
    library: Library,
    folder: Path,
    collection: str,
    interval_s: float = WATCH_INTERVAL_S,
    options: ReadingOptions = _NO_OPTIONS,
) -> Json:
    """Let a collection follow a folder; the watch."""
    library.watch(folder, collection, interval_s=interval_s, options=options)
    wanted = (str(folder), normalise_name(collection))
    return next(item for item in watches(library) if (item["folder"], item["collection"]) == wanted)


def unwatch(library: Library, folder: Path, collection: str | None) -> Json:
    """Follow a folder no more; of how many collections."""
    return {"stopped": len(library.unwatch(folder, collection))}


def watches(library: Library, describe: Callable[[StoredWatch], Json] = lambda _: {}) -> list[Json]:
    """The folders that are watched.

    Args:
        library: Whose.
        describe: What is known of the last look at a folder.
    """
    rows = []
    for item in library.watches():
        info = library.watch_info(item)
        rows.append(
            {
                "folder": item.folder,
                "collection": item.collection,
                "interval_s": item.interval_s,
                "options": item.reading_options.to_json(),
                "read": info.files,
                "skipped": info.skipped,
                "reasons": [{"path": path, "reason": reason} for path, reason in info.reasons],
                **describe(item),
            }
        )
    return rows


def remove(library: Library, name: str, collection: str | None) -> Json:
    """Remove what `name` stands for: a source, a file, or the source of a content hash."""
    return {"removed_documents": library.remove(name, collection)}


def sources(library: Library, collection: str | None) -> list[Json]:
    """What was added or is kept as a copy, by collection and name."""
    withdrawn = library.withdrawn_sources()
    return [
        {
            "collection": source.collection,
            "name": source.name,
            "title": source.title,
            "documents": source.documents,
            "metadata": source.metadata,
            "withdrawn": source.id in withdrawn,
            "copy": source.copy and _copy(source.copy),
        }
        for source in library.sources(collection)
    ]


def withdraw(library: Library, name: str, collection: str | None) -> Json:
    """Take back what `name` stands for; the content hashes."""
    return {"withdrawn": library.withdraw(name, collection)}


def restore(library: Library, name: str, collection: str | None) -> Json:
    """Let others see again what was withdrawn; the content hashes."""
    return {"restored": library.restore(name, collection)}


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
    expires_at: int | None = None,
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
        terms=SharingTerms(copy, reshare, allowed, expires_at),
    )


def _collection(library: Library, name: str) -> Json:
    return next(item for item in collections(library) if item["name"] == name)


def _copy(copy: StoredCopy) -> Json:
    return {
        "owner": copy.owner,
        "collection": copy.collection,
        "issued_at": copy.issued_at,
        "reshare": copy.terms.reshare,
        "purposes": list(copy.terms.purposes),
        "expires_at": copy.terms.expires_at,
    }


def _file(report: FileReport) -> Json:
    return {**dataclasses.asdict(report), "status": report.status.value}
