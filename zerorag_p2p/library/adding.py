"""Adding files and records to a collection, batch by batch.

What is in memory at a time is one batch of records, whatever the size of a file. A batch is on disk
before the next one is read, and what is on disk already is not embedded again: work that was
interrupted goes on where it ended.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zerorag_p2p.config import (
    LIBRARY_BATCH_CHARACTERS,
    LIBRARY_BATCH_RECORDS,
    MAX_BAD_RECORDS,
)
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.contents import Contents
from zerorag_p2p.library.documents import StoredSource
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.loaders import load_file
from zerorag_p2p.library.preparing import DocumentEmbedder, Draft, Prepared, prepare
from zerorag_p2p.library.records import BadRecord, Record, normalise_name
from zerorag_p2p.library.reports import AddProgress, FileReport, FileStatus


@dataclass(slots=True)
class _Outcome:
    """What became of one record; `where` is its place in its file, "" for the whole file."""

    where: str
    status: FileStatus = FileStatus.SKIPPED
    documents: int = 0
    reason: str = ""


@dataclass(slots=True)
class _Tally:
    """What became of the records of one file so far."""

    stored: int = 0
    changed: bool = False
    documents: int = 0
    skipped: int = 0
    reason: str = ""
    names: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Figures:
    """How far a run of adding is."""

    path: str = ""
    files: int = 0
    all_files: int = 0
    bytes: int = 0
    all_bytes: int = 0
    documents: int = 0


class Addition:
    """One run of adding to a collection.

    Args:
        contents: Where to.
        embedder: What embeds what is new; asked for while `writer` is held.
        lock: Guards the contents.
        writer: Held while texts are embedded; taken before the other lock.
        collection: Name of an existing collection.
        on_advance: Told how far the work is, after every batch. If it raises, the work ends.
    """

    def __init__(
        self,
        contents: Contents,
        embedder: Callable[[], DocumentEmbedder],
        *,
        lock: threading.RLock,
        writer: threading.Lock,
        collection: str,
        on_advance: Callable[[AddProgress], None] | None = None,
    ) -> None:
        self._contents = contents
        self._embedder = embedder
        self._lock = lock
        self._writer = writer
        self._collection = collection
        self._on_advance = on_advance
        self._figures = _Figures()
        self._origins: set[str] = set()

    def add_files(self, paths: Iterable[Path], options: ReadingOptions) -> Iterator[FileReport]:
        """Add files; the reports of a file's bad records come before its own.

        Args:
            paths: Of the files, absolute.
            options: How to read them.
        """
        files = [(path, _size(path)) for path in paths]
        figures = self._figures
        figures.all_files = len(files)
        figures.all_bytes = sum(size for _, size in files)
        finished = 0
        for path, size in files:
            figures.path = str(path)
            self._advance()
            yield from self._add_file(path, options, finished)
            finished += size
            figures.files += 1
            figures.bytes = finished
        self._advance()

    def add_records(self, records: Iterable[Record]) -> Iterator[FileReport]:
        """Add records that come from no file."""
        tally = _Tally()
        for batch in _batches(records):
            for outcome in self._add_batch(batch, "", tally):
                yield FileReport(outcome.where, outcome.status, outcome.documents, outcome.reason)

    def _advance(self, embedded: int = 0) -> None:
        if self._on_advance is not None:
            figures = self._figures
            self._on_advance(
                AddProgress(
                    path=figures.path,
                    files=figures.files,
                    all_files=figures.all_files,
                    bytes=figures.bytes,
                    all_bytes=figures.all_bytes,
                    documents=figures.documents + embedded,
                )
            )

    def _add_file(self, path: Path, options: ReadingOptions, finished: int) -> Iterator[FileReport]:
        try:
            origin = normalise_name(path)
        except LibraryError as error:
            yield FileReport(ascii(str(path)), FileStatus.SKIPPED, reason=str(error))
            return
        if origin in self._origins:
            reason = "another one of the same name was added in this run"
            yield FileReport(str(path), FileStatus.SKIPPED, reason=reason)
            return
        self._origins.add(origin)
        with self._lock:
            known = self._contents.store.count_of_origin(self._collection, origin)

        def on_read(position: int) -> None:
            self._figures.bytes = max(self._figures.bytes, finished + position)

        tally = _Tally()
        for batch in _batches(load_file(path, options, on_read=on_read)):
            for outcome in self._add_batch(batch, origin, tally):
                if outcome.status is not FileStatus.SKIPPED:
                    tally.stored += 1
                    tally.documents += outcome.documents
                    tally.changed |= outcome.status is not FileStatus.UNCHANGED
                    continue
                tally.skipped += 1
                if not outcome.where:
                    tally.reason = tally.reason or outcome.reason
                elif tally.skipped <= MAX_BAD_RECORDS:
                    where = f"{path}, {outcome.where}"
                    yield FileReport(where, FileStatus.SKIPPED, reason=outcome.reason)
            self._advance()
        yield self._conclude(path, origin, known, tally)

    def _conclude(self, path: Path, origin: str, known: int, tally: _Tally) -> FileReport:
        """Remove what is gone from a file that was read to its end; the report of the file."""
        reason = tally.reason
        if not reason and tally.skipped > MAX_BAD_RECORDS:
            reason = f"{tally.skipped} of its records were skipped"
        if not tally.stored:
            reason = reason or "none of its records can be stored"
            return FileReport(str(path), FileStatus.SKIPPED, reason=reason)
        gone = [] if tally.skipped else self._remove_others(origin, tally)
        if not known:
            status = FileStatus.ADDED
        elif gone or tally.changed:
            status = FileStatus.UPDATED
        else:
            status = FileStatus.UNCHANGED
        return FileReport(str(path), status, tally.documents, reason)

    def _remove_others(self, origin: str, tally: _Tally) -> list[StoredSource]:
        """Remove the sources of a file that are not in it any more; those that were removed."""
        store = self._contents.store
        with self._lock:
            if store.count_of_origin(self._collection, origin) == tally.stored:
                return []
            sources = store.sources(collection=self._collection, origin=origin)
            gone = [source for source in sources if _number(source.name) not in tally.names]
            if gone:
                self._contents.remove(gone)
        return gone

    def _add_batch(
        self, items: Sequence[Record | BadRecord], origin: str, tally: _Tally
    ) -> list[_Outcome]:
        """Store the records of a batch that are new or changed, in one transaction.

        A record that is repeated word for word is no record of its own.
        """
        outcomes: list[_Outcome] = []
        changed: dict[str, tuple[_Outcome, Draft]] = {}
        with self._writer:
            for item in items:
                if isinstance(item, BadRecord):
                    outcomes.append(_Outcome(item.where, reason=item.reason))
                    continue
                outcome = _Outcome(item.name)
                try:
                    source = _describe(item, self._collection, origin)
                except LibraryError as error:
                    outcome.reason = str(error)
                    outcomes.append(outcome)
                    continue
                with self._lock:
                    known = self._contents.find_source(self._collection, source.name)
                    embedded = known is not None and self._contents.is_embedded(known)
                number = _number(source.name)
                if number in tally.names:
                    before = changed[source.name][1].source if source.name in changed else known
                    if before is None or before.digest != source.digest:
                        outcome.reason = "another one of the same name was added in this run"
                        outcomes.append(outcome)
                    continue
                tally.names.add(number)
                outcomes.append(outcome)
                if known is not None and embedded and known.digest == source.digest:
                    outcome.status = FileStatus.UNCHANGED
                    outcome.documents = known.parts
                    continue
                outcome.status = FileStatus.ADDED if known is None else FileStatus.UPDATED
                changed[source.name] = outcome, Draft(source, item.text, item.outline)
            drafts = [draft for _, draft in changed.values()]
            results = prepare(
                self._embedder(), drafts, self._advance, redaction=self._contents.redaction
            )
            prepared: list[Prepared] = []
            for (outcome, _), result in zip(changed.values(), results, strict=True):
                if isinstance(result, str):
                    outcome.status, outcome.reason = FileStatus.SKIPPED, result
                else:
                    outcome.documents = len(result.passages)
                    prepared.append(result)
            if prepared:
                with self._lock:
                    self._contents.put(prepared)
        self._figures.documents += sum(outcome.documents for outcome in outcomes)
        return outcomes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _number(name: str) -> int:
    """A number for a name; a million of them take less memory than the names."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def _describe(record: Record, collection: str, origin: str) -> StoredSource:
    """The source that a record will be stored as, its `id` and `parts` still 0.

    Raises:
        LibraryError: The record cannot be stored.
    """
    record.check()
    name = normalise_name(record.name)
    if origin:
        name = f"{origin}#{name}" if name else origin
    if not name:
        raise LibraryError("it has no name")
    return StoredSource(
        id=0,
        collection=collection,
        name=name,
        origin=origin,
        title=record.title,
        digest=record.digest(),
        parts=0,
        metadata=record.metadata,
    )


def _batches(items: Iterable[Record | BadRecord]) -> Iterator[list[Record | BadRecord]]:
    """Neighbouring items, so many at a time as fit the limits of a batch."""
    batch: list[Record | BadRecord] = []
    characters = 0
    for item in items:
        batch.append(item)
        characters += len(item.text) if isinstance(item, Record) else 0
        if len(batch) == LIBRARY_BATCH_RECORDS or characters >= LIBRARY_BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
