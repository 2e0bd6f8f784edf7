"""Watched folders: what is in a collection follows the files of a folder.

A folder is looked at now and then. A file whose size or time of change is another than before is
read if its content is another, too, and if it has stayed the same since the look before: it may be
half written. What was noted of a file is stored once its documents are, so that a restart goes on
where work ended.

Nothing is removed because of what could not be seen: a folder that is missing or empty, as one is
whose disk is not mounted, a folder inside of it that cannot be opened, a file that cannot be read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from zerorag_p2p.config import MAX_WATCHED_FILES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.adding import Addition
from zerorag_p2p.library.contents import Contents
from zerorag_p2p.library.documents import StoredWatch, WatchedFile
from zerorag_p2p.library.loaders import find_files
from zerorag_p2p.library.records import normalise_name
from zerorag_p2p.library.reports import FileReport, FileStatus

#: Size in bytes and time of the last change in nanoseconds.
Stamp: TypeAlias = tuple[int, int]

_MAX_NAMED: Final = 100  # files that one report names


@dataclass(slots=True)
class WatchReport:
    """What a look at a watched folder found.

    Attributes:
        files: Number of files in it.
        changes: What became of files that were new, changed or gone, by status; "removed" files,
            and "waiting" ones that may be half written.
        skipped: Files that were skipped, and why; the first hundred.
        problem: Why less was done than there may be to do; "" if nothing stood in the way.
    """

    files: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    skipped: list[FileReport] = field(default_factory=list)
    problem: str = ""

    def count(self, change: str, number: int = 1) -> None:
        """Count a change."""
        self.changes[change] = self.changes.get(change, 0) + number

    def skip(self, report: FileReport) -> None:
        """Note a file that was skipped, or a part of it."""
        if len(self.skipped) < _MAX_NAMED:
            self.skipped.append(report)


class FolderLook:
    """One look at a watched folder.

    Args:
        contents: What follows the folder.
        watch: Which folder, and how.
        lock: Guards the contents.
        before: The stamps of the look before, by path; None if this is the first one.
        make_addition: Makes a run of adding to the watch's collection.
    """

    def __init__(
        self,
        contents: Contents,
        watch: StoredWatch,
        *,
        lock: threading.RLock,
        before: dict[Path, Stamp] | None,
        make_addition: Callable[[], Addition],
    ) -> None:
        self._contents = contents
        self._watch = watch
        self._lock = lock
        self._before = before
        self._make_addition = make_addition
        self._unseen: list[Path] = []
        self.stamps: dict[Path, Stamp] = {}
        self.report = WatchReport()

    def look(self) -> None:
        """Bring the collection up to date; what was found is in `report` and `stamps`.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
            LibraryError: The watch or its collection was removed meanwhile.
        """
        folder = Path(self._watch.folder)
        if not folder.is_dir():
            self.report.problem = "the folder is missing; nothing was changed"
            return
        for path, stamp in self._files(folder):
            self.stamps[path] = stamp
            if len(self.stamps) > MAX_WATCHED_FILES:
                self.report.problem = (
                    f"it has more than {MAX_WATCHED_FILES} files; watch its subfolders instead"
                )
                return
        self.report.files = len(self.stamps)
        with self._lock:
            known = self._contents.store.watched_files(self._watch.id)
        if known and not self.stamps:
            self.report.problem = (
                "the folder is empty; nothing is removed until there is a file in it"
            )
            return
        gone = {Path(os.fsdecode(name)): file for name, file in known.items()}
        for path in self.stamps:
            gone.pop(path, None)
        # A file that was renamed keeps its time of change, and is whole.
        moved = {file.stamp for file in gone.values()}
        for path, stamp in self.stamps.items():
            noted = known.get(os.fsencode(path))
            if noted is not None and noted.stamp == stamp:
                continue
            if self._before is None or self._before.get(path) == stamp or stamp in moved:
                self._take(path, stamp, noted)
            else:
                self.report.count("waiting")
        # Only now, so that a document whose file was renamed is there all the time.
        self._remove(gone)
        if self._unseen:
            self.report.problem = f"{self._unseen[0]} cannot be opened"

    def _files(self, folder: Path) -> Iterator[tuple[Path, Stamp]]:
        def on_error(error: OSError) -> None:
            self._unseen.append(Path(os.fsdecode(error.filename)))

        for path in find_files([folder], on_error=on_error):
            try:
                status = path.stat()
            except FileNotFoundError:  # gone meanwhile, or a link to nowhere
                continue
            except OSError:
                self._unseen.append(path)
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, (status.st_size, status.st_mtime_ns)

    def _take(self, path: Path, stamp: Stamp, noted: WatchedFile | None) -> None:
        """Read a file that is new or changed."""
        try:
            sha256 = _hash_file(path)
        except OSError:
            self._unseen.append(path)
            return
        if noted is not None and noted.sha256 == sha256:
            self._note(path, WatchedFile(*stamp, sha256, noted.reason))
            return
        addition = self._make_addition()
        for report in addition.add_files([path], self._watch.reading_options):
            if report.status is FileStatus.SKIPPED or report.reason:
                self.report.skip(report)
        self.report.count(report.status.value)
        if _stamp(path) == stamp:
            self._note(path, WatchedFile(*stamp, sha256, report.reason))

    def _note(self, path: Path, file: WatchedFile) -> None:
        with self._lock, self._contents.store.change(counted=False):
            self._contents.store.put_watched_file(self._watch.id, os.fsencode(path), file)

    def _remove(self, gone: Iterable[Path]) -> None:
        """Remove the documents of files that are gone."""
        held = {_origin(path) for path in self.stamps}
        for path in gone:
            if any(path.is_relative_to(item) for item in self._unseen):
                continue
            origin = _origin(path)
            with self._lock:
                store = self._contents.store
                if origin and origin not in held:
                    sources = store.sources(collection=self._watch.collection, origin=origin)
                    if sources:
                        self._contents.remove(sources)
                with store.change(counted=False):
                    store.delete_watched_file(self._watch.id, os.fsencode(path))
            self.report.count("removed")


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _origin(path: Path) -> str:
    """The name by which the sources of a file are known; "" if it can have none."""
    try:
        return normalise_name(path)
    except LibraryError:
        return ""


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
