"""The library of one owner: documents, their vectors and with whom they are shared.

Documents live in SQLite (`documents`); what a search needs is in memory (`catalog`, `vectors`);
`contents` keeps the two in step. What a method reports as done is on disk. A library may be used
from several threads: searches, removals and changes of sharing never wait for a text to be embedded
or a graph to be built.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from zerorag_p2p.config import (
    FUSED_DOCUMENTS,
    LIBRARY_EMBED_PASSAGES,
    LIBRARY_EXACT_LIMIT,
    MAX_BAD_RECORDS,
    MAX_WATCH_INTERVAL_S,
    MAX_WATCHES,
    MIN_WATCH_INTERVAL_S,
    WATCH_INTERVAL_S,
)
from zerorag_p2p.errors import (
    EmbedderUnavailable,
    EmbeddingError,
    LibraryError,
    RedactionError,
    UsageError,
)
from zerorag_p2p.identity.attribution import Statement
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.library.adding import Addition
from zerorag_p2p.library.contents import Contents, Retract, Sign
from zerorag_p2p.library.documents import (
    StoredCopy,
    StoredDocument,
    StoredSource,
    StoredWatch,
    WordSearch,
)
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.lexical import fuse, searched_words
from zerorag_p2p.library.loaders import find_files
from zerorag_p2p.library.preparing import DocumentEmbedder, Draft, prepare
from zerorag_p2p.library.records import Record, normalise_name
from zerorag_p2p.library.reports import AddProgress, AddReport, FileReport
from zerorag_p2p.library.vectors import build_graph
from zerorag_p2p.library.watching import FolderLook, Stamp, WatchReport
from zerorag_p2p.model import (
    Content,
    ContentHash,
    Document,
    ScoredDocument,
    SharingTerms,
    Vector,
)
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.redaction.redaction import Redaction
from zerorag_p2p.wire.embedding import normalised_rows

_logger = logging.getLogger("zerorag.library")

_NO_OPTIONS: Final = ReadingOptions()

_WHOLE_HASH: Final = re.compile(r"[0-9a-f]{64}")


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
class WatchInfo:
    """What was noted of a watched folder.

    Attributes:
        files: Number of files that were read.
        skipped: How many of these were skipped, as a whole or from some place on.
        reasons: Paths of skipped files, the first of them, and why.
    """

    files: int
    skipped: int
    reasons: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HeldProgress:
    """How much of our own documents a second model has embedded.

    Attributes:
        sources: All of them.
        done: Those embedded.
        refused: Those that it cannot embed as they are cut.
    """

    sources: int
    done: int
    refused: int = 0

    @property
    def missing(self) -> int:
        """How many are still to be embedded."""
        return self.sources - self.done - self.refused


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


class Library:
    """Documents of one owner, in collections, searched by embedding.

    Every method raises `LibraryError` if the database fails.

    Args:
        home: Folder of the library; made if it does not exist. One process at a time may use it.
        embedder: Embeds what is added. Vectors of other models stay stored but are not searched.
        sign: Makes the attribution of a document. It must not use the library.
        retract: Told of statements that allowed copies and hold no more, before they go: documents
            were removed or replaced, or their collection is shared under narrower terms or not at
            all. It must not use the library.
        exact_limit: Number of vectors of a collection up to which it is searched without a graph.
        redaction: What of each collection is not embedded. Where that changed since, documents are
            not found until `embed_missing` has run. Redacted documents are hashed with a salt, so
            that nobody can try texts until the hash is right.

    Raises:
        LibraryError: The library is damaged, or a newer version wrote it.
    """

    def __init__(
        self,
        home: Path,
        embedder: DocumentEmbedder,
        sign: Sign,
        *,
        retract: Retract = lambda _: None,
        exact_limit: int = LIBRARY_EXACT_LIMIT,
        redaction: Redaction | None = None,
    ) -> None:
        self._embedder = embedder
        self._held: DocumentEmbedder | None = None
        self._words: WordSearch | None = None
        # Guards the contents; held for moments.
        self._lock = threading.RLock()
        # Held while texts are embedded or graphs built, so that no two threads do the same work.
        # Taken before the other lock, never after it.
        self._writer = threading.Lock()
        self._stamps: dict[int, dict[Path, Stamp]] = {}
        self._contents = Contents(
            home,
            embedder.fingerprint,
            sign,
            retract=retract,
            exact_limit=exact_limit,
            redaction=redaction or Redaction(),
        )

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
            self._close_words()
            self._contents.close()

    # Adding.

    def add(
        self,
        paths: Iterable[Path],
        collection: str,
        *,
        options: ReadingOptions = _NO_OPTIONS,
        on_progress: Callable[[FileReport], None] | None = None,
        on_advance: Callable[[AddProgress], None] | None = None,
    ) -> AddReport:
        """Add files, and the files in folders, to a collection, making it if there is none.

        Adding the same again changes nothing. A file that changed replaces what it was; records
        that are gone from a file are removed, unless a part of the file cannot be read.

        Args:
            paths: Files and folders.
            collection: Name of the collection.
            options: How to read them.
            on_progress: Called with every report once what it tells is on disk. If it raises,
                adding ends there.
            on_advance: Called after every batch of records with how far the work is, likewise.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
            LibraryError: The collection cannot have this name.
        """
        options.check()
        with self._lock:
            name = self._contents.ensure_collection(collection)
        addition = self._addition(name, on_advance)
        reports: list[FileReport] = []
        for report in addition.add_files(find_files(paths), options):
            reports.append(report)
            if on_progress is not None:
                on_progress(report)
        self.maintain()
        return AddReport(tuple(reports))

    def add_records(self, records: Iterable[Record], collection: str) -> AddReport:
        """Add records that come from no file; their names tell them apart. Raises as `add`."""
        with self._lock:
            name = self._contents.ensure_collection(collection)
        reports = tuple(self._addition(name).add_records(records))
        self.maintain()
        return AddReport(reports)

    def _addition(
        self, collection: str, on_advance: Callable[[AddProgress], None] | None = None
    ) -> Addition:
        return Addition(
            self._contents,
            lambda: self._embedder,
            lock=self._lock,
            writer=self._writer,
            collection=collection,
            on_advance=on_advance,
        )

    # Watching folders.

    def watch(
        self,
        folder: Path,
        collection: str,
        *,
        interval_s: float = WATCH_INTERVAL_S,
        options: ReadingOptions = _NO_OPTIONS,
    ) -> None:
        """Let a collection follow the files of a folder, or follow them otherwise; see `look`.

        Args:
            folder: An absolute path.
            collection: Made if there is none of this name.
            interval_s: Seconds between two looks.
            options: How to read the files.

        Raises:
            LibraryError: The folder does not exist, is inside of a folder that is watched for the
                collection or the other way round, or too many are watched.
            UsageError: An option cannot be used.
        """
        options.check()
        if not MIN_WATCH_INTERVAL_S <= interval_s <= MAX_WATCH_INTERVAL_S:
            raise UsageError(
                f"the interval has to be from {MIN_WATCH_INTERVAL_S:g} to "
                f"{MAX_WATCH_INTERVAL_S:g} seconds"
            )
        if not folder.is_dir():
            raise LibraryError(f"{folder} is no folder")
        normalise_name(folder)  # refuses what the database cannot hold
        with self._lock:
            store = self._contents.store
            collection = self._contents.ensure_collection(collection)
            watches = store.watches()
            paths = [Path(item.folder) for item in watches if item.collection == collection]
            for path in paths:
                inside = folder.is_relative_to(path) or path.is_relative_to(folder)
                if inside and path != folder:
                    raise LibraryError(
                        f"{path} is watched for this collection, and one of the two folders is "
                        "inside of the other; stop watching it first"
                    )
            if len(watches) >= MAX_WATCHES and folder not in paths:
                raise LibraryError(f"{MAX_WATCHES} folders are watched; stop watching one first")
            number = self._contents.collection_id(collection)
            with store.change(counted=False):
                store.add_watch(number, str(folder), interval_s, json.dumps(options.to_json()))

    def unwatch(self, folder: Path, collection: str | None = None) -> list[StoredWatch]:
        """Watch a folder no more, for one collection or for all; its documents stay.

        Raises:
            LibraryError: It is not watched.
        """
        with self._lock:
            store = self._contents.store
            ended = [
                watch
                for watch in store.watches()
                if Path(watch.folder) == folder and collection in {None, watch.collection}
            ]
            if not ended:
                known = ", ".join(watch.folder for watch in store.watches()) or "no folder"
                raise LibraryError(f"{folder} is not watched; watched are: {known}")
            with store.change(counted=False):
                for watch in ended:
                    store.delete_watch(watch.id)
                    self._stamps.pop(watch.id, None)
        return ended

    def watches(self) -> list[StoredWatch]:
        """The folders that are watched."""
        with self._lock:
            return self._contents.store.watches()

    def watch_info(self, watch: StoredWatch) -> WatchInfo:
        """What was noted of the files of a watched folder."""
        with self._lock:
            files, skipped = self._contents.store.watched_counts(watch.id)
            named = self._contents.store.skipped_files(watch.id, MAX_BAD_RECORDS)
        return WatchInfo(
            files, skipped, tuple((os.fsdecode(path), reason) for path, reason in named)
        )

    def look(
        self, watch: StoredWatch, *, on_advance: Callable[[AddProgress], None] | None = None
    ) -> WatchReport:
        """Look at a watched folder, and bring its collection up to date.

        A file that is new or changed is read once two looks found it the same, at the first look
        after the library was opened at once.

        Args:
            watch: Which folder.
            on_advance: Called after every batch of records. If it raises, the look ends.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
            LibraryError: The watch or its collection was removed meanwhile.
        """
        look = FolderLook(
            self._contents,
            watch,
            lock=self._lock,
            before=self._stamps.get(watch.id),
            make_addition=lambda: self._addition(watch.collection, on_advance),
        )
        look.look()
        self._stamps[watch.id] = look.stamps
        if look.report.changes:
            self.maintain()
        return look.report

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
                    text, outline = contents.store.whole_text(source.id)
                (result,) = prepare(
                    self._embedder, [Draft(source, text, outline)], redaction=contents.redaction
                )
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

    # Going over to another model.

    def hold(self, embedder: DocumentEmbedder, sign: Sign) -> None:
        """Search by a second model, too, as far as there are vectors of it (`embed_held`).

        Args:
            embedder: The model.
            sign: Makes the attribution of a document and a vector of this model.

        Raises:
            LibraryError: A vector in the database is damaged.
        """
        with self._writer, self._lock:
            self._contents.hold(embedder.fingerprint, sign)
            self._held = embedder

    def embed_held(self, on_progress: Callable[[HeldProgress], object] = lambda _: None) -> None:
        """Embed by the held model what it has no vectors of, as it is cut into documents.

        What was embedded stays, whatever ends this. Other work on the library goes on between
        sources.

        Args:
            on_progress: Told before the first source and after each. If it raises, work ends.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        progress = self.held_progress()
        on_progress(progress)
        for source in self._without_held():
            with self._writer:
                embedder = self._held
                if embedder is None:
                    return
                try:
                    done = self._embed_held_source(embedder, source)
                    refused = False
                except EmbedderUnavailable:
                    raise
                except (EmbeddingError, RedactionError) as error:
                    _logger.warning("%s is not embedded by the other model: %s", source.name, error)
                    done, refused = False, True
            progress = HeldProgress(
                progress.sources, progress.done + done, progress.refused + refused
            )
            on_progress(progress)

    def held_progress(self) -> HeldProgress:
        """How much of the library the held model has embedded."""
        with self._lock:
            copies = len(self._contents.store.copies())
            sources = len(self._contents.store.sources()) - copies
        return HeldProgress(sources, sources - len(self._without_held()))

    def _without_held(self) -> list[StoredSource]:
        with self._lock:
            held = self._contents.held
            return [] if held is None else self._contents.store.sources(unembedded=held.fingerprint)

    def _embed_held_source(self, embedder: DocumentEmbedder, source: StoredSource) -> bool:
        """Embed one source; False if it changed, or the model in use has not embedded it yet."""
        contents = self._contents
        with self._lock:
            texts = list(contents.store.texts(source.id).values())
        if not texts:  # it was removed
            return False
        rows = []
        for start in range(0, len(texts), LIBRARY_EMBED_PASSAGES):
            chosen = texts[start : start + LIBRARY_EMBED_PASSAGES]
            redacted = [contents.redaction.embedded(text, source.collection) for text in chosen]
            rows.append(embedder.embed_documents(redacted))
        vectors = normalised_rows(np.concatenate(rows))
        with self._lock:
            return contents.put_held(source, vectors)

    def prefer_held(
        self, when_ready: Callable[[Callable[[], None]], object] = lambda swap: swap()
    ) -> None:
        """Use the held model from now on, and hold the one that was in use.

        Args:
            when_ready: Called once nobody embeds, with what makes the change, to call it.
        """

        def swap() -> None:
            with self._lock:
                assert self._held is not None, "a second model is held"
                self._contents.prefer_held()
                self._embedder, self._held = self._held, self._embedder

        with self._writer:
            when_ready(swap)

    def release_held(self) -> None:
        """Delete the vectors of the held model; without effect if there is none."""
        with self._writer, self._lock:
            if self._held is not None:
                self._contents.release_held()
                self._held = None

    def search_held(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> list[ScoredDocument]:
        """As `search`, by the held model."""
        with self._lock:
            held = self._contents.held
            if held is None:
                return []
            return held.catalog.search(
                embedding,
                k,
                admit_collection=admit_collection,
                admit=self._found_by(admit),
            )

    def count_held(
        self,
        embedding: Vector,
        above: float,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> int:
        """As `count`, by the held model."""
        with self._lock:
            held = self._contents.held
            if held is None:
                return 0
            return held.catalog.count(
                embedding,
                above,
                admit_collection=admit_collection,
                admit=self._found_by(admit),
            )

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
            with self._lock:
                self._contents.forget_replaced()

    def index_words(self, wanted: bool) -> None:
        """Have an index of the words of all documents for `search_both`, or none.

        It is kept in step with the documents, also while none is asked for, until it is removed.

        Raises:
            LibraryError: This SQLite has no full-text search.
        """
        with self._lock:
            store = self._contents.store
            self._close_words()
            removed = store.words_indexed() and not wanted
            store.index_words(wanted)
            if removed:
                store.forget_deleted()
            if wanted:
                self._words = store.word_search()

    def _close_words(self) -> None:
        if self._words is not None:
            self._words.close()
            self._words = None

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
        return sum(source.documents for source in sources)

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

    def sign_again(self, stale: Callable[[bytes], bool]) -> int:
        """Sign anew the statements about our own documents that are `stale`; how many those were.

        A key that took the place of another signs what the other one did.
        """
        with self._lock:
            return self._contents.sign_stale_again(stale)

    # Withdrawing.

    def withdraw(self, what: str, collection: str | None = None) -> list[ContentHash]:
        """Take documents of ours back: nobody else sees them, whatever is shared, until `restore`.

        Args:
            what: As for `remove`; also the whole content hash of a document that is not held any
                more.
            collection: Look in this collection only.

        Raises:
            LibraryError: Nothing of ours, or more than one content, matches.
        """
        with self._lock:
            documents = self._own_documents(what, collection)
            self._contents.withdraw(documents)
        return list(documents)

    def restore(self, what: str, collection: str | None = None) -> list[ContentHash]:
        """Undo `withdraw`: sign the documents anew. Raises as `withdraw`."""
        with self._lock:
            documents = self._own_documents(what, collection).keys() & self._contents.withdrawn
            if not documents:
                raise LibraryError(f"nothing that is called {what!r} was withdrawn")
            self._contents.restore(documents)
        return sorted(documents)

    def withdrawn(self) -> list[ContentHash]:
        """Contents that were taken back and not restored, in order."""
        with self._lock:
            return sorted(self._contents.withdrawn)

    def withdrawn_sources(self) -> set[int]:
        """Ids of our own sources with a document that was taken back and not restored."""
        with self._lock:
            store = self._contents.store
            copied = {source.id for source, _ in store.copies()}
            holders = {
                number for item in self._contents.withdrawn for number in store.sources_of(item)
            }
            return holders - copied

    def _own_documents(
        self, what: str, collection: str | None
    ) -> dict[ContentHash, Sequence[bytes]]:
        if collection is not None:
            collection = self._contents.existing_collection(collection)
        try:
            sources = self._contents.matching_sources(what, collection)
        except LibraryError:
            if not _WHOLE_HASH.fullmatch(what):
                raise
            return {ContentHash(what): ()}
        own = [source for source in sources if source.copy is None]
        if not own:
            raise LibraryError(
                f"{what!r} is a copy of another owner's; only its owner withdraws it"
            )
        return dict(self._contents.statements_about(own))

    # Copies of other owners' documents.

    def keep(
        self,
        content: Content,
        collection: str,
        *,
        links: tuple[bytes, ...],
        statement: Statement,
        vector: Vector,
        signed_vector: bool,
    ) -> bool:
        """Keep a copy of another owner's document in a collection, made if there is none.

        Whether it may be kept is for the caller to check (`identity.custody`). It is found by
        others where the collection is shared and the owner's terms allow copies to be passed on.

        Args:
            content: The document, whole.
            collection: Name of the collection.
            links: Its attribution, our custody statement last.
            statement: The owner's, the first of them.
            vector: Its embedding by our model, float32 [d], unit length.
            signed_vector: Whether `vector` is the one that the owner signed. Otherwise others would
                reject it, so it is kept for ourselves.

        Returns:
            False where a copy by this statement, or a newer one, is there already.

        Raises:
            LibraryError: The collection cannot have this name.
        """
        terms = statement.terms
        if not signed_vector:
            terms = replace(terms, reshare=False)
        copy = StoredCopy(
            owner=statement.owner,
            collection=statement.collection,
            issued_at=statement.issued_at,
            terms=terms,
            links=links,
        )
        with self._lock:
            name = self._contents.ensure_collection(collection)
            return self._contents.keep(content, name, copy, vector)

    def drop_withdrawn(self, withdrawal: Withdrawal) -> int:
        """Delete the copies of what their owner took back; how many that were."""
        with self._lock:
            copies = self._contents.store.copies(owner=withdrawal.owner)
            gone = [
                source
                for source, content_hash in copies
                if source.copy is not None
                and withdrawal.concerns(content_hash, source.copy.collection, source.copy.issued_at)
            ]
            if gone:
                self._contents.remove(gone)
        return len(gone)

    def drop_ended(self, now: float) -> int:
        """Delete copies whose terms have ended, and unshare collections whose terms have.

        Args:
            now: Unix seconds.

        Returns:
            How many copies and collections that were.
        """
        with self._lock:
            copies = [
                source
                for source, _ in self._contents.store.copies()
                if source.copy is not None and _ended(source.copy.terms, now)
            ]
            if copies:
                self._contents.remove(copies)
            collections = [
                name
                for name in self._contents.collections()
                if (sharing := self._contents.sharing(name)) is not None
                and _ended(sharing.terms, now)
            ]
            for name in collections:
                _logger.info("the terms of collection %r have ended; it is not shared", name)
                self._contents.set_sharing(name, None)
        return len(copies) + len(collections)

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
        """The searchable documents of this content, one for every source that holds it.

        What we withdrew is not among them.
        """
        return [stored for stored in self.held(content_hash) if not self._is_withdrawn(stored)]

    def held(self, content_hash: ContentHash) -> list[StoredDocument]:
        """As `get`, with what we withdrew: for our own eyes."""
        with self._lock:
            return self._contents.catalog.with_hash(content_hash)

    def _found_by(
        self, admit: Callable[[StoredDocument], bool]
    ) -> Callable[[StoredDocument], bool]:
        """What whoever asks admits, but for what was withdrawn."""
        return lambda stored: not self._is_withdrawn(stored) and admit(stored)

    def _is_withdrawn(self, stored: StoredDocument) -> bool:
        return stored.copy is None and stored.content_hash in self._contents.withdrawn

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
                embedding,
                k,
                admit_collection=admit_collection,
                admit=self._found_by(admit),
            )

    def search_both(self, embedding: Vector, question: str, k: int) -> list[ScoredDocument]:
        """As `search`, of all documents, by vectors and by words at once: for our own questions.

        The best by both rankings together come first; `score` is the vectors' still. Without an
        index of words the vectors alone decide.
        """
        depth = max(k, FUSED_DOCUMENTS)
        by_vectors = self.search(
            embedding, depth, admit_collection=lambda _: True, admit=lambda _: True
        )
        by_words: list[ScoredDocument] = []
        if self._words is not None:
            keys = self._words.search(searched_words(question), depth)
            with self._lock:
                by_words = self._contents.catalog.scored(
                    keys, embedding, admit=lambda stored: not self._is_withdrawn(stored)
                )
        found = {document.content_hash: document for document in (*by_words, *by_vectors)}
        order = fuse(
            [document.content_hash for document in ranking] for ranking in (by_vectors, by_words)
        )
        return [found[content_hash] for content_hash in order[:k]]

    def count(
        self,
        embedding: Vector,
        above: float,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> int:
        """How many admitted documents score more than `above` with `embedding` [d], by content."""
        with self._lock:
            return self._contents.catalog.count(
                embedding,
                above,
                admit_collection=admit_collection,
                admit=self._found_by(admit),
            )

    def terms_of_copies(self, collection: str) -> list[SharingTerms]:
        """The terms that owners set for the copies in a collection, each once."""
        with self._lock:
            copies = [source for source, _ in self._contents.store.copies()]
        return list(
            dict.fromkeys(
                source.copy.terms
                for source in copies
                if source.collection == collection and source.copy is not None
            )
        )

    def vectors_to_advertise(
        self,
        collections: Collection[str],
        *,
        admit: Callable[[StoredDocument], bool] = lambda _: True,
    ) -> tuple[Vector, list[ContentHash]]:
        """Vectors as transmitted [n, d] of the admitted documents in `collections`.

        Each content is among them once; copies that may not be passed on and what we withdrew are
        not.
        """
        with self._lock:
            return self._contents.catalog.vectors_of(
                collections,
                admit=lambda stored: (
                    not self._is_withdrawn(stored)
                    and (stored.terms is None or stored.terms.reshare)
                    and admit(stored)
                ),
            )


def _ended(terms: SharingTerms, now: float) -> bool:
    return terms.expires_at is not None and now >= terms.expires_at
