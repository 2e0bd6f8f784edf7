"""The library of one owner: documents, their vectors and with whom they are shared.

Documents live in SQLite (`documents`); what a search needs is in memory (`catalog`, `vectors`);
`contents` keeps the two in step. What a method reports as done is on disk. A library may be used
from several threads: searches, removals and changes of sharing never wait for a text to be embedded
or a graph to be built.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from zerorag_p2p.config import LIBRARY_BATCH_RECORDS, LIBRARY_EXACT_LIMIT
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.contents import Contents, Sign
from zerorag_p2p.library.documents import StoredDocument, StoredSource
from zerorag_p2p.library.loaders import BadRecord, Record, find_files, load_file, normalise_name
from zerorag_p2p.library.preparing import DocumentEmbedder, Prepared, prepare
from zerorag_p2p.library.reports import AddReport, FileReport, FileStatus
from zerorag_p2p.library.vectors import build_graph
from zerorag_p2p.model import ContentHash, Document, ScoredDocument, Vector
from zerorag_p2p.policy.sharing import Sharing

_logger = logging.getLogger("zerorag.library")

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection and what is in it; `sharing` is None while it is not shared."""

    name: str
    sharing: Sharing | None
    sources: int
    documents: int

    @property
    def shared(self) -> bool:
        """Whether any other peer may learn of it."""
        return self.sharing is not None


@dataclass(frozen=True, slots=True)
class LibraryStats:
    """Figures of a library.

    Attributes:
        documents: All documents.
        searchable: Documents that have a vector of the current embedding model.
        graphs: Collections that are searched through a graph.
        generation: Grows with every change.
    """

    collections: int
    sources: int
    documents: int
    searchable: int
    graphs: int
    generation: int


@dataclass(slots=True)
class _Outcome:
    """What became of one record; `where` is its place in its file, "" for the whole file."""

    where: str
    source: str = ""
    status: FileStatus = FileStatus.SKIPPED
    documents: int = 0
    reason: str = ""


class Library:
    """Documents of one owner, in collections, searched by embedding.

    Every method raises `LibraryError` if the database fails.

    Args:
        home: Folder of the library; made if it does not exist. One process at a time may use it.
        embedder: Embeds what is added. Vectors of other models stay stored but are not searched.
        sign: Makes the attribution of a document. It must not use the library.
        exact_limit: Number of vectors of a collection up to which it is searched without a graph.

    Raises:
        LibraryError: The library is damaged, or a newer version wrote it.
    """

    def __init__(
        self,
        home: Path,
        embedder: DocumentEmbedder,
        sign: Sign,
        *,
        exact_limit: int = LIBRARY_EXACT_LIMIT,
    ) -> None:
        self._embedder = embedder
        # Guards the contents; held for moments.
        self._lock = threading.RLock()
        # Held while texts are embedded or graphs built, so that no two threads do the same work.
        # Taken before the other lock, never after it.
        self._writer = threading.Lock()
        self._contents = Contents(home, embedder.fingerprint, sign, exact_limit=exact_limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Save what speeds up the next start, and close the database."""
        with self._writer, self._lock:
            self._contents.close()

    # Adding.

    def add(
        self,
        paths: Iterable[Path],
        collection: str,
        *,
        on_progress: Callable[[FileReport], None] | None = None,
    ) -> AddReport:
        """Add files, and the files in folders, to a collection, making it if there is none.

        Adding the same again changes nothing. A file that changed replaces what it was; records
        that are gone from a file are removed, unless a part of the file cannot be read.

        Args:
            paths: Files and folders.
            collection: Name of the collection.
            on_progress: Called with every report once what it tells is on disk. If it raises,
                adding ends there.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
            LibraryError: The collection cannot have this name.
        """
        with self._lock:
            name = self._contents.ensure_collection(collection)
        reports: list[FileReport] = []
        taken: set[str] = set()
        for path in find_files(paths):
            for report in self._add_file(path, name, taken):
                reports.append(report)
                if on_progress is not None:
                    on_progress(report)
        self.maintain()
        return AddReport(tuple(reports))

    def add_records(self, records: Iterable[Record], collection: str) -> AddReport:
        """Add records that come from no file; their names tell them apart. Raises as `add`."""
        with self._lock:
            name = self._contents.ensure_collection(collection)
        taken: set[str] = set()
        reports = [
            FileReport(outcome.where, outcome.status, outcome.documents, outcome.reason)
            for batch in _batches(records)
            for outcome in self._add_batch(batch, name, "", taken)
        ]
        self.maintain()
        return AddReport(tuple(reports))

    def embed_missing(self) -> int:
        """Embed what has no vector of the current model yet; how many sources were embedded.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
        """
        contents = self._contents
        with self._lock:
            sources = contents.store.sources(unembedded=self._embedder.fingerprint.digest())
        embedded = 0
        for source in sources:
            with self._writer:
                with self._lock:
                    text = "".join(contents.store.texts(source.id).values())
                (result,) = prepare(self._embedder, [(source, text)])
                if isinstance(result, str):
                    _logger.warning("%s was not embedded: %s", source.name, result)
                    continue
                with self._lock:
                    # Unless it was removed or replaced meanwhile.
                    if contents.find_source(source.collection, source.name) == source:
                        contents.put([result])
                        embedded += 1
        self.maintain()
        return embedded

    def maintain(self) -> None:
        """Build and save the graphs that large collections are searched through, where needed.

        May take minutes; searches go on meanwhile, only slower. Adding ends with it. A node calls
        it after its start, for graphs that were lost.
        """
        with self._writer:
            with self._lock:
                indexes = self._contents.catalog.indexes()
            for collection, index in indexes:
                with self._lock:
                    snapshot = index.snapshot() if index.wants_graph else None
                graph = None if snapshot is None else build_graph(*snapshot)
                with self._lock:
                    if graph is not None:
                        index.adopt(graph)
                    if index.wants_save:
                        self._contents.save_graph(collection)

    def _add_file(self, path: Path, collection: str, taken: set[str]) -> Iterator[FileReport]:
        """Add one file; the reports of its bad records come before its own.

        Args:
            path: Of the file, absolute.
            collection: Name of an existing collection.
            taken: Names of the sources that were added in the same run.
        """
        try:
            origin = normalise_name(path)
        except LibraryError as error:
            yield FileReport(ascii(str(path)), FileStatus.SKIPPED, reason=str(error))
            return
        with self._lock:
            known = self._contents.store.sources(collection=collection, origin=origin)
        outcomes: list[_Outcome] = []
        for batch in _batches(load_file(path)):
            outcomes += self._add_batch(batch, collection, origin, taken)
        stored = {item.source: item for item in outcomes if item.status is not FileStatus.SKIPPED}
        skipped = [item for item in outcomes if item.status is FileStatus.SKIPPED]
        for item in skipped:
            if item.where:
                where = f"{path}, {item.where}"
                yield FileReport(where, FileStatus.SKIPPED, reason=item.reason)
        reason = next((item.reason for item in skipped if not item.where), "")
        if not stored:
            reason = reason or "none of its records can be stored"
            yield FileReport(str(path), FileStatus.SKIPPED, reason=reason)
            return
        gone = [] if skipped else [source for source in known if source.name not in stored]
        if gone:
            with self._lock:
                self._contents.remove(gone)
        if not known:
            status = FileStatus.ADDED
        elif gone or any(item.status is not FileStatus.UNCHANGED for item in stored.values()):
            status = FileStatus.UPDATED
        else:
            status = FileStatus.UNCHANGED
        documents = sum(item.documents for item in stored.values())
        yield FileReport(str(path), status, documents, reason)

    def _add_batch(
        self,
        items: Sequence[Record | BadRecord],
        collection: str,
        origin: str,
        taken: set[str],
    ) -> list[_Outcome]:
        """Store the records of a batch that are new or changed, in one transaction."""
        outcomes: list[_Outcome] = []
        changed: list[tuple[_Outcome, StoredSource, str]] = []
        with self._writer:
            for item in items:
                if isinstance(item, BadRecord):
                    outcomes.append(_Outcome(item.where, reason=item.reason))
                    continue
                outcome = _Outcome(item.name)
                outcomes.append(outcome)
                try:
                    source = _describe(item, collection, origin)
                except LibraryError as error:
                    outcome.reason = str(error)
                    continue
                if source.name in taken:
                    outcome.reason = "another one of the same name was added in this run"
                    continue
                taken.add(source.name)
                outcome.source = source.name
                with self._lock:
                    known = self._contents.find_source(collection, source.name)
                    if known is not None and self._contents.has_current(source):
                        outcome.status = FileStatus.UNCHANGED
                        outcome.documents = known.parts
                        continue
                outcome.status = FileStatus.ADDED if known is None else FileStatus.UPDATED
                changed.append((outcome, source, item.text))
            results = prepare(self._embedder, [(source, text) for _, source, text in changed])
            prepared: list[Prepared] = []
            for (outcome, _, _), result in zip(changed, results, strict=True):
                if isinstance(result, str):
                    outcome.status, outcome.reason = FileStatus.SKIPPED, result
                else:
                    outcome.documents = len(result.parts)
                    prepared.append(result)
            if prepared:
                with self._lock:
                    self._contents.put(prepared)
        return outcomes

    # Removing and sharing.

    def remove(self, what: str, collection: str | None = None) -> int:
        """Remove sources, from disk and from searches at once; how many documents that were.

        Args:
            what: Name of a source; a file, for every source read from it; or the first digits, at
                least 8, of the content hash of a document, for the whole source it is part of.
            collection: Remove from this collection only.

        Raises:
            LibraryError: Nothing, or more than one content, matches.
        """
        with self._lock:
            if collection is not None:
                collection = self._contents.existing_collection(collection)
            sources = self._contents.matching_sources(what, collection)
            self._contents.remove(sources)
        return sum(source.parts for source in sources)

    def remove_collection(self, collection: str) -> int:
        """Remove a collection and everything in it; how many documents that were.

        Raises:
            LibraryError: There is no such collection.
        """
        with self._lock:
            name = self._contents.existing_collection(collection)
            return self._contents.remove_collection(name)

    def share(self, collection: str, sharing: Sharing) -> None:
        """Share a collection, or change how it is shared.

        Statements about its documents are signed anew if their terms change.

        Raises:
            LibraryError: There is no such collection.
        """
        with self._lock:
            self._contents.set_sharing(self._contents.existing_collection(collection), sharing)

    def unshare(self, collection: str) -> None:
        """Stop sharing a collection. Raises as `share`."""
        with self._lock:
            self._contents.set_sharing(self._contents.existing_collection(collection), None)

    # Looking.

    @property
    def generation(self) -> int:
        """A number that grows with every change and is kept across restarts."""
        return self._contents.generation

    def collections(self) -> list[str]:
        """Names of all collections, sorted."""
        with self._lock:
            return self._contents.collections()

    def sharing(self, collection: str) -> Sharing | None:
        """How a collection is shared; None if it is not, or does not exist."""
        return self._contents.sharing(collection)

    def overview(self) -> list[CollectionInfo]:
        """Every collection with what is in it, by name."""
        with self._lock:
            counts = self._contents.store.counts()
            return [
                CollectionInfo(name, self.sharing(name), *counts.get(name, (0, 0)))
                for name in self.collections()
            ]

    def stats(self) -> LibraryStats:
        """Figures of the whole library."""
        with self._lock:
            counts = self._contents.store.counts().values()
            catalog = self._contents.catalog
            return LibraryStats(
                collections=len(self.collections()),
                sources=sum(sources for sources, _ in counts),
                documents=sum(documents for _, documents in counts),
                searchable=len(catalog),
                graphs=sum(index.has_graph for _, index in catalog.indexes()),
                generation=self.generation,
            )

    def sources(self, collection: str | None = None) -> list[StoredSource]:
        """What was added, to one collection or to all, by collection and name.

        Raises:
            LibraryError: There is no such collection.
        """
        with self._lock:
            if collection is not None:
                collection = self._contents.existing_collection(collection)
            return self._contents.store.sources(collection=collection)

    def get(self, content_hash: ContentHash) -> list[StoredDocument]:
        """The searchable documents of this content, one for every source that holds it."""
        with self._lock:
            return self._contents.catalog.with_hash(content_hash)

    def read(self, stored: StoredDocument) -> Document:
        """A document with its text.

        Raises:
            LibraryError: It was removed.
        """
        with self._lock:
            return self._contents.read(stored)

    def resolve(self, prefix: str) -> list[ContentHash]:
        """Content hashes that begin with `prefix`, in order.

        Raises:
            LibraryError: `prefix` is not made of 8 to 64 hexadecimal digits in lower case.
        """
        with self._lock:
            return self._contents.resolve(prefix)

    def search(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> list[ScoredDocument]:
        """The k admitted documents most similar to `embedding` [d], each content once, best first.

        Scores are against vectors as they are transmitted. Whoever asks decides what is admitted,
        by collection and then by document, before the cut to k.
        """
        with self._lock:
            return self._contents.catalog.search(
                embedding, k, admit_collection=admit_collection, admit=admit
            )

    def vectors_to_advertise(
        self, collections: Collection[str]
    ) -> tuple[Vector, list[ContentHash]]:
        """Vectors as transmitted [n, d] of every document in `collections`, each content once."""
        with self._lock:
            return self._contents.catalog.vectors_of(collections)


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


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, LIBRARY_BATCH_RECORDS)):
        yield batch
