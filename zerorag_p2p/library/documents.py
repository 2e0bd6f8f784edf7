"""The documents of a library in SQLite: the one place where they are kept for good.

A change is on disk when its transaction returns. Deleted text is overwritten with zeros. Everything
else a library holds, in memory or in files, can be rebuilt from here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.outline import Outline, outline_from_json, outline_json
from zerorag_p2p.model import Content, ContentHash, PeerId, Purpose, SharingTerms

SCHEMA_VERSION: Final = 4

_SCHEMA: Final = (
    "CREATE TABLE changes (generation INTEGER NOT NULL)",
    "INSERT INTO changes VALUES (0)",
    """CREATE TABLE collections (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        sharing TEXT
    )""",
    """CREATE TABLE sources (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        collection INTEGER NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        origin TEXT NOT NULL,
        title TEXT NOT NULL,
        digest TEXT NOT NULL,
        metadata TEXT NOT NULL,
        parts INTEGER NOT NULL,
        UNIQUE (collection, name)
    )""",
    "CREATE INDEX sources_by_origin ON sources (collection, origin)",
    # AUTOINCREMENT: a key is never used again, so an index that still holds it can be told apart.
    """CREATE TABLE documents (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        source INTEGER NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
        part INTEGER NOT NULL,
        text TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        UNIQUE (source, part)
    )""",
    "CREATE INDEX documents_by_hash ON documents (content_hash)",
    """CREATE TABLE embeddings (
        document INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
        fingerprint TEXT NOT NULL,
        vector BLOB NOT NULL,
        attribution BLOB NOT NULL,
        PRIMARY KEY (document, fingerprint)
    )""",
)

_COPIES_SCHEMA: Final = (
    """CREATE TABLE copies (
        source INTEGER PRIMARY KEY REFERENCES sources (id) ON DELETE CASCADE,
        owner TEXT NOT NULL,
        collection TEXT NOT NULL,
        issued_at INTEGER NOT NULL,
        expires_at INTEGER,
        terms TEXT NOT NULL,
        links TEXT NOT NULL
    )""",
    "CREATE INDEX copies_by_owner ON copies (owner)",
    "CREATE TABLE withdrawn (content_hash TEXT PRIMARY KEY)",
)

_PASSAGES_SCHEMA: Final = (
    "ALTER TABLE sources ADD COLUMN outline TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE documents ADD COLUMN start INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE documents ADD COLUMN place TEXT NOT NULL DEFAULT '{}'",
    # Parts did not overlap before.
    "UPDATE documents SET start = (SELECT IFNULL(SUM(LENGTH(p.text)), 0) FROM documents p "
    "WHERE p.source = documents.source AND p.part < documents.part) WHERE part > 0",
    """CREATE TABLE watches (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        folder TEXT NOT NULL,
        collection INTEGER NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
        interval_s REAL NOT NULL,
        options TEXT NOT NULL,
        UNIQUE (folder, collection)
    )""",
    """CREATE TABLE watched_files (
        watch INTEGER NOT NULL REFERENCES watches (id) ON DELETE CASCADE,
        path BLOB NOT NULL,
        size INTEGER NOT NULL,
        modified_ns INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (watch, path)
    ) WITHOUT ROWID""",
)

_REDACTION_SCHEMA: Final = (
    "ALTER TABLE documents ADD COLUMN salt BLOB NOT NULL DEFAULT x''",
    "ALTER TABLE collections ADD COLUMN redaction TEXT NOT NULL DEFAULT ''",
)

_FULL_TEXT_MODULE: Final = "fts5"
#: An index of the words of all documents, which their table keeps in step; made where it is wanted.
_WORDS_SCHEMA: Final = (
    f"CREATE VIRTUAL TABLE words USING {_FULL_TEXT_MODULE} "
    "(text, content = 'documents', content_rowid = 'id', tokenize = 'porter unicode61')",
    "CREATE TRIGGER words_added AFTER INSERT ON documents BEGIN "
    "INSERT INTO words (rowid, text) VALUES (new.id, new.text); END",
    "CREATE TRIGGER words_deleted AFTER DELETE ON documents BEGIN "
    "INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text); END",
    "INSERT INTO words (words) VALUES ('rebuild')",
)
_WORDS_REMOVAL: Final = (
    "DROP TRIGGER words_added",
    "DROP TRIGGER words_deleted",
    "DROP TABLE words",
)

#: What makes a database of each version out of one of the version before it.
_MIGRATIONS: Final = (_SCHEMA, _COPIES_SCHEMA, _PASSAGES_SCHEMA, _REDACTION_SCHEMA)


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A row of the table of collections.

    Attributes:
        sharing: JSON; None while unshared.
        redaction: What was done to the texts that its embeddings were made of.
    """

    id: int
    name: str
    sharing: str | None
    redaction: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCopy:
    """Whose document a copy is, and what we may do with it.

    Attributes:
        owner: Who stated it.
        collection: The owner's.
        issued_at: When the owner stated it, unix seconds.
        terms: The owner's, as far as they can be made use of here: a copy whose embedding is not
            the one that the owner signed cannot be passed on, whatever the owner allows.
        links: The owner's statement, then the custody statements, ours last.
    """

    owner: PeerId
    collection: str
    issued_at: int
    terms: SharingTerms
    links: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """A file or record whose documents are stored.

    Attributes:
        collection: Name of its collection.
        name: Unique within the collection, NFC-normalised.
        origin: The file it was read from, NFC-normalised; "" if it came as a record.
        digest: SHA-256 of its title, text and metadata, in hexadecimal.
        parts: Number of documents it was cut into.
        copy: Set where the only document is a copy of another owner's, one of its `parts`.
    """

    id: int
    collection: str
    name: str
    origin: str
    title: str
    digest: str
    parts: int
    metadata: dict[str, str] = field(default_factory=dict)
    copy: StoredCopy | None = None

    @property
    def documents(self) -> int:
        """Number of its documents that are held."""
        return self.parts if self.copy is None else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """What is known of a document without reading its text.

    Attributes:
        key: Number of the document in this library, never used again.
        attribution: The owner's signed statement for the current embedding model.
        copy: Set where it is a copy of another owner's document.
    """

    key: int
    content_hash: ContentHash
    collection: str
    source: str
    title: str
    part: int
    parts: int
    metadata: dict[str, str]
    attribution: bytes
    copy: StoredCopy | None = None

    @property
    def links(self) -> tuple[bytes, ...]:
        """The attribution as a chain; a document of our own has no custodian."""
        return (self.attribution,) if self.copy is None else self.copy.links

    @property
    def terms(self) -> SharingTerms | None:
        """What the owner of a copy allows; None for a document of our own."""
        return None if self.copy is None else self.copy.terms


@dataclass(frozen=True, slots=True)
class StoredWatch:
    """A folder whose files a collection follows.

    Attributes:
        collection: Name of the collection.
        interval_s: Seconds between two looks at the folder.
        options: How its files are read, as JSON.
    """

    id: int
    folder: str
    collection: str
    interval_s: float
    options: str

    @property
    def reading_options(self) -> ReadingOptions:
        """How its files are read."""
        return ReadingOptions.from_json(json.loads(self.options))


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """What was noted of a file of a watched folder when it was read.

    Attributes:
        modified_ns: Time of its last change, unix nanoseconds.
        reason: Why it was skipped, or not read to its end; else "".
    """

    size: int
    modified_ns: int
    sha256: str
    reason: str

    @property
    def stamp(self) -> tuple[int, int]:
        """Size and time of the last change."""
        return self.size, self.modified_ns


class DocumentStore:
    """The tables of one library. One thread at a time may use a store.

    Every method raises `LibraryError` if the database is damaged, locked or out of space.

    Args:
        path: The database file; created if it does not exist.

    Raises:
        LibraryError: The file is no library, or a newer version wrote it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._errors():
            # Threads take turns by the library's lock.
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            with self._errors():
                for setting in (
                    "journal_mode = WAL",
                    "synchronous = FULL",
                    "foreign_keys = ON",
                    "secure_delete = ON",
                ):
                    self._connection.execute(f"PRAGMA {setting}")
                self._migrate()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file. The store cannot be used again."""
        self._connection.close()

    @contextlib.contextmanager
    def change(self, *, counted: bool = True) -> Iterator[None]:
        """Make the changes of a block durable when it ends, or none of them if it raises.

        Args:
            counted: Whether they change what others may find.
        """
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                if counted:
                    self._connection.execute("UPDATE changes SET generation = generation + 1")
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def generation(self) -> int:
        """How many changes there have been."""
        return int(self._one("SELECT generation FROM changes")[0])

    def forget_deleted(self) -> None:
        """Take deleted text out of the index of words and out of the write-ahead log, too."""
        with self._errors():
            if self.words_indexed():
                # It only marks what is deleted, until it is written anew.
                self._connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # The index of words.

    def words_indexed(self) -> bool:
        """Whether documents can be found by their words."""
        return bool(self._all("SELECT 1 FROM sqlite_master WHERE name = 'words'"))

    def index_words(self, wanted: bool) -> None:
        """Make the index of words, of all documents, or remove it, if that is not so yet.

        Raises:
            LibraryError: This SQLite has no full-text search.
        """
        if wanted == self.words_indexed():
            return
        if wanted and not self._all(
            "SELECT 1 FROM pragma_module_list WHERE name = ?", _FULL_TEXT_MODULE
        ):
            raise LibraryError(
                f"SQLite {sqlite3.sqlite_version} of this Python has no full-text search (FTS5): "
                "documents are not found by their words; use another build of Python, or set "
                "'asking.words' to false"
            )
        with self.change(counted=False):
            for statement in _WORDS_SCHEMA if wanted else _WORDS_REMOVAL:
                self._connection.execute(statement)

    def word_search(self) -> WordSearch:
        """What finds documents by their words; there has to be an index."""
        return WordSearch(self._path)

    # Collections.

    def collections(self) -> list[StoredCollection]:
        """All collections, by name."""
        rows = self._all("SELECT id, name, sharing, redaction FROM collections ORDER BY name")
        return [StoredCollection(*row) for row in rows]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Number of sources and of documents by name of collection; empty ones are left out."""
        rows = self._all(
            "SELECT c.name, COUNT(*), SUM(CASE WHEN p.source IS NULL THEN s.parts ELSE 1 END) "
            "FROM sources s JOIN collections c ON c.id = s.collection "
            "LEFT JOIN copies p ON p.source = s.id GROUP BY c.id ORDER BY c.name"
        )
        return {name: (sources, documents) for name, sources, documents in rows}

    def add_collection(self, name: str, redaction: str = "") -> StoredCollection:
        """Make a collection, unshared. Call within `change()`."""
        cursor = self._connection.execute(
            "INSERT INTO collections (name, redaction) VALUES (?, ?)", (name, redaction)
        )
        assert cursor.lastrowid is not None
        return StoredCollection(cursor.lastrowid, name, None, redaction)

    def set_redaction(self, collection: int, redaction: str) -> None:
        """Note what will be done to texts, and delete embeddings of our own that were made before.

        Call within `change()`.
        """
        self._connection.execute(
            "UPDATE collections SET redaction = ? WHERE id = ?", (redaction, collection)
        )
        self._connection.execute(
            "DELETE FROM embeddings WHERE document IN (SELECT d.id FROM documents d "
            "JOIN sources s ON s.id = d.source WHERE s.collection = ? "
            "AND s.id NOT IN (SELECT source FROM copies))",
            (collection,),
        )

    def set_sharing(self, collection: int, sharing: str | None) -> None:
        """Set or clear the sharing of a collection. Call within `change()`."""
        self._connection.execute(
            "UPDATE collections SET sharing = ? WHERE id = ?", (sharing, collection)
        )

    def delete_collection(self, collection: int) -> None:
        """Delete a collection and all in it. Call within `change()`."""
        self._connection.execute("DELETE FROM collections WHERE id = ?", (collection,))

    # Sources.

    def sources(
        self,
        *,
        collection: str | None = None,
        name: str | None = None,
        origin: str | None = None,
        unembedded: str | None = None,
        copied: bool = False,
        owner: PeerId | None = None,
    ) -> list[StoredSource]:
        """Sources by collection and name, all or those that match.

        Args:
            collection: Only of the collection of this name.
            name: Only sources of this name.
            origin: Only sources read from this file.
            unembedded: Only sources of our own with a document that has no embedding of this
                fingerprint.
            copied: Only copies of other owners' documents.
            owner: Only copies of this one's.
        """
        wanted = (
            ("c.name", collection),
            ("s.name", name),
            ("s.origin", origin),
            ("p.owner", owner),
        )
        conditions = [f"{column} = ?" for column, value in wanted if value is not None]
        parameters = [value for _, value in wanted if value is not None]
        if unembedded is not None:
            conditions.append(
                "p.source IS NULL AND EXISTS (SELECT 1 FROM documents d WHERE d.source = s.id AND "
                "NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.document = d.id AND "
                "e.fingerprint = ?))"
            )
            parameters.append(unembedded)
        if copied:
            conditions.append("p.source IS NOT NULL")
        query = (
            "SELECT s.id, c.name, s.name, s.origin, s.title, s.digest, s.parts, s.metadata, "
            "p.owner, p.collection, p.issued_at, p.expires_at, p.terms, p.links "
            "FROM sources s JOIN collections c ON c.id = s.collection "
            "LEFT JOIN copies p ON p.source = s.id"
            + (" WHERE " + " AND ".join(conditions) if conditions else "")
            + " ORDER BY c.name, s.name"
        )
        return [
            StoredSource(
                id=row[0],
                collection=row[1],
                name=row[2],
                origin=row[3],
                title=row[4],
                digest=row[5],
                parts=row[6],
                metadata=json.loads(row[7]),
                copy=_read_copy(row[8:]),
            )
            for row in self._all(query, *parameters)
        ]

    def count_of_origin(self, collection: str, origin: str) -> int:
        """Number of sources read from a file."""
        row = self._all(
            "SELECT COUNT(*) FROM sources s JOIN collections c ON c.id = s.collection "
            "WHERE c.name = ? AND s.origin = ?",
            collection,
            origin,
        )[0]
        return int(row[0])

    def add_source(self, collection: int, source: StoredSource, outline: Outline = ()) -> int:
        """Insert a source, its `id` not looked at; the id it got. Call within `change()`."""
        cursor = self._connection.execute(
            "INSERT INTO sources (collection, name, origin, title, digest, metadata, parts, "
            "outline) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                collection,
                source.name,
                source.origin,
                source.title,
                source.digest,
                json.dumps(source.metadata, ensure_ascii=False),
                source.parts,
                json.dumps(outline_json(outline), ensure_ascii=False),
            ),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def delete_source(self, source: int) -> None:
        """Delete a source, its documents and their embeddings. Call within `change()`."""
        self._connection.execute("DELETE FROM sources WHERE id = ?", (source,))

    # Documents.

    def add_document(
        self,
        source: int,
        part: int,
        text: str,
        content_hash: ContentHash,
        *,
        start: int = 0,
        place: dict[str, str] | None = None,
        salt: bytes = b"",
    ) -> int:
        """Insert a document; its key. Call within `change()`.

        Args:
            source: Id of its source.
            part: Its number there.
            text: Its text.
            content_hash: Of its content.
            start: Characters of the source's text before it.
            place: What it is told to be from.
            salt: What is hashed with it, if anything.
        """
        cursor = self._connection.execute(
            "INSERT INTO documents (source, part, text, content_hash, start, place, salt) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                source,
                part,
                text,
                content_hash,
                start,
                json.dumps(place or {}, ensure_ascii=False),
                salt,
            ),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def put_embedding(
        self, document: int, fingerprint: str, vector: bytes, attribution: bytes
    ) -> None:
        """Insert or replace the embedding of a document. Call within `change()`."""
        self._connection.execute(
            "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)",
            (document, fingerprint, vector, attribution),
        )

    def set_attribution(self, document: int, fingerprint: str, attribution: bytes) -> None:
        """Replace the statement that belongs to an embedding. Call within `change()`."""
        self._connection.execute(
            "UPDATE embeddings SET attribution = ? WHERE document = ? AND fingerprint = ?",
            (attribution, document, fingerprint),
        )

    def delete_other_embeddings(self, collection: int, fingerprints: Sequence[str]) -> None:
        """Delete the embeddings of all models but some of our own documents in a collection.

        Call within `change()`.
        """
        self._connection.execute(
            "DELETE FROM embeddings WHERE fingerprint NOT IN (SELECT value FROM json_each(?)) "
            "AND document IN (SELECT d.id FROM documents d JOIN sources s ON s.id = d.source "
            "WHERE s.collection = ? AND s.id NOT IN (SELECT source FROM copies))",
            (json.dumps(list(fingerprints)), collection),
        )

    def delete_embeddings(self, fingerprint: str, keys: Sequence[int] | None = None) -> None:
        """Delete the embeddings of a model, of all documents or of some. Call within `change()`."""
        if keys is None:
            self._connection.execute("DELETE FROM embeddings WHERE fingerprint = ?", (fingerprint,))
            return
        self._connection.executemany(
            "DELETE FROM embeddings WHERE fingerprint = ? AND document = ?",
            [(fingerprint, key) for key in keys],
        )

    def statements(self, collection: int, source: int | None = None) -> list[tuple[str, bytes]]:
        """Content hash and statement of our own documents in a collection, or in one source.

        There is one for every model that the documents were embedded by.
        """
        return self._all(
            "SELECT d.content_hash, e.attribution FROM documents d "
            "JOIN sources s ON s.id = d.source JOIN embeddings e ON e.document = d.id "
            "WHERE s.collection = ? AND s.id = IFNULL(?, s.id) "
            "AND s.id NOT IN (SELECT source FROM copies)",
            collection,
            source,
        )

    def embedded_documents(self, fingerprint: str) -> Iterator[tuple[StoredDocument, bytes]]:
        """Every document that has an embedding of `fingerprint`, and that embedding, by key."""
        query = (
            "SELECT d.id, d.content_hash, c.name, s.name, s.title, d.part, s.parts, s.metadata, "
            "e.attribution, e.vector, d.place, p.owner, p.collection, p.issued_at, p.expires_at, "
            "p.terms, p.links FROM documents d "
            "JOIN embeddings e ON e.document = d.id JOIN sources s ON s.id = d.source "
            "JOIN collections c ON c.id = s.collection LEFT JOIN copies p ON p.source = s.id "
            "WHERE e.fingerprint = ? ORDER BY d.id"
        )
        with self._errors():
            for row in self._connection.execute(query, (fingerprint,)):
                document = StoredDocument(
                    key=row[0],
                    content_hash=ContentHash(row[1]),
                    collection=row[2],
                    source=row[3],
                    title=row[4],
                    part=row[5],
                    parts=row[6],
                    metadata={**json.loads(row[10]), **json.loads(row[7])},
                    attribution=row[8],
                    copy=_read_copy(row[11:]),
                )
                yield document, row[9]

    # Copies of other owners' documents, and what we took back of our own.

    def add_copy(self, source: int, copy: StoredCopy) -> None:
        """Note that a source is a copy. Call within `change()`."""
        self._connection.execute(
            "INSERT INTO copies VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                source,
                copy.owner,
                copy.collection,
                copy.issued_at,
                copy.terms.expires_at,
                json.dumps([copy.terms.copy, copy.terms.reshare, *copy.terms.purposes]),
                json.dumps([link.hex() for link in copy.links]),
            ),
        )

    def copies(self, *, owner: PeerId | None = None) -> list[tuple[StoredSource, ContentHash]]:
        """The copies that are held, of one owner or of all, with the content hash of each."""
        sources = {source.id: source for source in self.sources(copied=True, owner=owner)}
        rows = self._all(
            "SELECT source, content_hash FROM documents WHERE source IN (SELECT source FROM copies)"
        )
        return [(sources[row[0]], ContentHash(row[1])) for row in rows if row[0] in sources]

    def withdrawn(self) -> list[ContentHash]:
        """Contents that are kept from others until they are restored."""
        return [ContentHash(row[0]) for row in self._all("SELECT content_hash FROM withdrawn")]

    def set_withdrawn(self, content_hash: ContentHash, withdrawn: bool) -> None:
        """Keep a content from others, or no more. Call within `change()`."""
        self._connection.execute(
            "INSERT OR IGNORE INTO withdrawn VALUES (?)"
            if withdrawn
            else "DELETE FROM withdrawn WHERE content_hash = ?",
            (content_hash,),
        )

    # Watched folders.

    def add_watch(self, collection: int, folder: str, interval_s: float, options: str) -> None:
        """Watch a folder for a collection, or watch it otherwise. Call within `change()`."""
        self._connection.execute(
            "INSERT INTO watches (collection, folder, interval_s, options) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (folder, collection) DO UPDATE "
            "SET interval_s = excluded.interval_s, options = excluded.options",
            (collection, folder, interval_s, options),
        )

    def delete_watch(self, watch: int) -> None:
        """Watch a folder no more. Call within `change()`."""
        self._connection.execute("DELETE FROM watches WHERE id = ?", (watch,))

    def watches(self) -> list[StoredWatch]:
        """The folders that are watched, by name and collection."""
        rows = self._all(
            "SELECT w.id, w.folder, c.name, w.interval_s, w.options FROM watches w "
            "JOIN collections c ON c.id = w.collection ORDER BY w.folder, c.name"
        )
        return [StoredWatch(*row) for row in rows]

    def watched_files(self, watch: int) -> dict[bytes, WatchedFile]:
        """What was noted of the files of a watched folder, by path."""
        rows = self._all(
            "SELECT path, size, modified_ns, sha256, reason FROM watched_files WHERE watch = ?",
            watch,
        )
        return {row[0]: WatchedFile(*row[1:]) for row in rows}

    def watched_counts(self, watch: int) -> tuple[int, int]:
        """Number of files that were noted of a watched folder, and of those that were skipped."""
        (row,) = self._all(
            "SELECT COUNT(*), IFNULL(SUM(reason != ''), 0) FROM watched_files WHERE watch = ?",
            watch,
        )
        return int(row[0]), int(row[1])

    def skipped_files(self, watch: int, limit: int) -> list[tuple[bytes, str]]:
        """Files of a watched folder that were skipped, by path, and why."""
        return self._all(
            "SELECT path, reason FROM watched_files WHERE watch = ? AND reason != '' "
            "ORDER BY path LIMIT ?",
            watch,
            limit,
        )

    def put_watched_file(self, watch: int, path: bytes, file: WatchedFile) -> None:
        """Note a file, unless its folder is not watched any more. Call within `change()`."""
        self._connection.execute(
            "INSERT OR REPLACE INTO watched_files "
            "SELECT id, ?, ?, ?, ?, ? FROM watches WHERE id = ?",
            (path, file.size, file.modified_ns, file.sha256, file.reason, watch),
        )

    def delete_watched_file(self, watch: int, path: bytes) -> None:
        """Forget a file of a watched folder. Call within `change()`."""
        self._connection.execute(
            "DELETE FROM watched_files WHERE watch = ? AND path = ?", (watch, path)
        )

    def texts(self, source: int) -> dict[int, str]:
        """The texts of a source in the order of their parts, by document key."""
        rows = self._all("SELECT id, text FROM documents WHERE source = ? ORDER BY part", source)
        return dict(rows)

    def whole_text(self, source: int) -> tuple[str, Outline]:
        """The text of a source, put together from its documents, and its outline."""
        (row,) = self._all("SELECT outline FROM sources WHERE id = ?", source)
        pieces: list[str] = []
        length = 0
        for start, text in self._all(
            "SELECT start, text FROM documents WHERE source = ? ORDER BY part", source
        ):
            pieces.append(text[length - start :])
            length = start + len(text)
        return "".join(pieces), outline_from_json(json.loads(row[0]))

    def salt(self, document: int) -> bytes:
        """What is hashed with a document, if anything."""
        return bytes(self._all("SELECT salt FROM documents WHERE id = ?", document)[0][0])

    def unsalted(self, collection: int) -> list[tuple[int, Content, ContentHash]]:
        """Our own documents in a collection that nothing is hashed with: key, content and hash."""
        rows = self._all(
            "SELECT d.id, s.title, d.text, d.part, s.parts, d.content_hash FROM documents d "
            "JOIN sources s ON s.id = d.source WHERE s.collection = ? AND d.salt = x'' "
            "AND s.id NOT IN (SELECT source FROM copies)",
            collection,
        )
        return [(row[0], Content(*row[1:5]), ContentHash(row[5])) for row in rows]

    def set_salt(self, document: int, salt: bytes, content_hash: ContentHash) -> None:
        """Hash a document anew, with a salt. Call within `change()`."""
        self._connection.execute(
            "UPDATE documents SET salt = ?, content_hash = ? WHERE id = ?",
            (salt, content_hash, document),
        )

    def text(self, document: int) -> str | None:
        """The text of a document; None if there is no such document."""
        rows = self._all("SELECT text FROM documents WHERE id = ?", document)
        return str(rows[0][0]) if rows else None

    def hashes_with_prefix(self, prefix: str) -> list[ContentHash]:
        """Content hashes that begin with `prefix`, each once, in order."""
        rows = self._all(
            "SELECT DISTINCT content_hash FROM documents "
            "WHERE content_hash >= ? AND content_hash < ? ORDER BY content_hash",
            prefix,
            prefix + "g",  # after every hexadecimal digit
        )
        return [ContentHash(row[0]) for row in rows]

    def sources_of(self, content_hash: ContentHash) -> list[int]:
        """Ids of the sources that hold a document of this content."""
        rows = self._all(
            "SELECT DISTINCT source FROM documents WHERE content_hash = ? ORDER BY source",
            content_hash,
        )
        return [int(row[0]) for row in rows]

    def _migrate(self) -> None:
        version = int(self._one("PRAGMA user_version")[0])
        if version > SCHEMA_VERSION:
            raise LibraryError(
                f"{self._path} was written by a newer version of zerorag-p2p (its schema is "
                f"{version}, this version knows {SCHEMA_VERSION}); upgrade zerorag-p2p"
            )
        if version < SCHEMA_VERSION:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement in itertools.chain(*_MIGRATIONS[version:]):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._connection.execute("COMMIT")

    def _one(self, query: str) -> tuple[Any, ...]:
        return self._all(query)[0]

    def _all(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._connection.execute(query, parameters).fetchall()

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return _database_errors(self._path)


class WordSearch:
    """Finds documents of a library by their words, on a connection of its own.

    A search holds up neither other searches nor changes. May be used from several threads.

    Args:
        path: The database file of a store that has an index of words.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with _database_errors(path):
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA query_only = ON")

    def close(self) -> None:
        """Close the file, once the search that goes on has ended."""
        with self._lock:
            self._connection.close()

    def search(self, words: Sequence[str], count: int) -> list[int]:
        """Keys of the documents that have any of `words`, at most `count`, the best by BM25 first.

        Args:
            words: Letters and digits only.
            count: So many at most.

        Raises:
            LibraryError: The database failed.
        """
        expression = " OR ".join(f'"{word}"' for word in words)
        if not expression:
            return []
        with self._lock, _database_errors(self._path):
            rows = self._connection.execute(
                "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?",
                (expression, count),
            ).fetchall()
        return [int(row[0]) for row in rows]


@contextlib.contextmanager
def _database_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LibraryError(
            f"the library's database {path} failed: {error}; check the disk's space and "
            "permissions, or restore the file from a backup"
        ) from error


def _read_copy(row: tuple[Any, ...]) -> StoredCopy | None:
    owner, collection, issued_at, expires_at, terms, links = row
    if owner is None:
        return None
    copy, reshare, *purposes = json.loads(terms)
    return StoredCopy(
        owner=PeerId(owner),
        collection=collection,
        issued_at=issued_at,
        terms=SharingTerms(copy, reshare, tuple(map(Purpose, purposes)), expires_at),
        links=tuple(map(bytes.fromhex, json.loads(links))),
    )
