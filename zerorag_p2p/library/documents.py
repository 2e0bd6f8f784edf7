"""The documents of a library in SQLite: the one place where they are kept for good.

A change is on disk when its transaction returns. Deleted text is overwritten with zeros. Everything
else a library holds, in memory or in files, can be rebuilt from here.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.errors import LibraryError
from zerorag_p2p.model import ContentHash

SCHEMA_VERSION: Final = 1

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


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A row of the table of collections; `sharing` is JSON, None while unshared."""

    id: int
    name: str
    sharing: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """A file or record whose documents are stored.

    Attributes:
        collection: Name of its collection.
        name: Unique within the collection, NFC-normalised.
        origin: The file it was read from, NFC-normalised; "" if it came as a record.
        digest: SHA-256 of its title, text and metadata, in hexadecimal.
        parts: Number of documents it was cut into.
    """

    id: int
    collection: str
    name: str
    origin: str
    title: str
    digest: str
    parts: int
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """What is known of a document without reading its text.

    Attributes:
        key: Number of the document in this library, never used again.
        attribution: The owner's signed statement for the current embedding model.
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

    @property
    def links(self) -> tuple[bytes, ...]:
        """The attribution as a chain; a document of our own has no custodian."""
        return (self.attribution,)


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
    def change(self) -> Iterator[None]:
        """Make the changes of a block durable when it ends, or none of them if it raises."""
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
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
        """Take deleted text out of the write-ahead log, too."""
        with self._errors():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # Collections.

    def collections(self) -> list[StoredCollection]:
        """All collections, by name."""
        rows = self._all("SELECT id, name, sharing FROM collections ORDER BY name")
        return [StoredCollection(*row) for row in rows]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Number of sources and of documents by name of collection; empty ones are left out."""
        rows = self._all(
            "SELECT c.name, COUNT(*), SUM(s.parts) FROM sources s "
            "JOIN collections c ON c.id = s.collection GROUP BY c.id ORDER BY c.name"
        )
        return {name: (sources, documents) for name, sources, documents in rows}

    def add_collection(self, name: str) -> StoredCollection:
        """Make a collection, unshared. Call within `change()`."""
        cursor = self._connection.execute("INSERT INTO collections (name) VALUES (?)", (name,))
        assert cursor.lastrowid is not None
        return StoredCollection(cursor.lastrowid, name, None)

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
    ) -> list[StoredSource]:
        """Sources by collection and name, all or those that match.

        Args:
            collection: Only of the collection of this name.
            name: Only sources of this name.
            origin: Only sources read from this file.
            unembedded: Only sources with a document that has no embedding of this fingerprint.
        """
        wanted = (("c.name", collection), ("s.name", name), ("s.origin", origin))
        conditions = [f"{column} = ?" for column, value in wanted if value is not None]
        parameters = [value for _, value in wanted if value is not None]
        if unembedded is not None:
            conditions.append(
                "EXISTS (SELECT 1 FROM documents d WHERE d.source = s.id AND NOT EXISTS "
                "(SELECT 1 FROM embeddings e WHERE e.document = d.id AND e.fingerprint = ?))"
            )
            parameters.append(unembedded)
        query = (
            "SELECT s.id, c.name, s.name, s.origin, s.title, s.digest, s.parts, s.metadata "
            "FROM sources s JOIN collections c ON c.id = s.collection"
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
            )
            for row in self._all(query, *parameters)
        ]

    def add_source(self, collection: int, source: StoredSource) -> int:
        """Insert a source, its `id` not looked at; the id it got. Call within `change()`."""
        cursor = self._connection.execute(
            "INSERT INTO sources (collection, name, origin, title, digest, metadata, parts) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                collection,
                source.name,
                source.origin,
                source.title,
                source.digest,
                json.dumps(source.metadata, ensure_ascii=False),
                source.parts,
            ),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def delete_source(self, source: int) -> None:
        """Delete a source, its documents and their embeddings. Call within `change()`."""
        self._connection.execute("DELETE FROM sources WHERE id = ?", (source,))

    # Documents.

    def add_document(self, source: int, part: int, text: str, content_hash: ContentHash) -> int:
        """Insert a document; its key. Call within `change()`."""
        cursor = self._connection.execute(
            "INSERT INTO documents (source, part, text, content_hash) VALUES (?, ?, ?, ?)",
            (source, part, text, content_hash),
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

    def delete_other_embeddings(self, collection: int, fingerprint: str) -> None:
        """Delete a collection's embeddings of all models but one. Call within `change()`."""
        self._connection.execute(
            "DELETE FROM embeddings WHERE fingerprint != ? AND document IN (SELECT d.id "
            "FROM documents d JOIN sources s ON s.id = d.source WHERE s.collection = ?)",
            (fingerprint, collection),
        )

    def embedded_documents(self, fingerprint: str) -> Iterator[tuple[StoredDocument, bytes]]:
        """Every document that has an embedding of `fingerprint`, and that embedding, by key."""
        query = (
            "SELECT d.id, d.content_hash, c.name, s.name, s.title, d.part, s.parts, s.metadata, "
            "e.attribution, e.vector FROM documents d JOIN embeddings e ON e.document = d.id "
            "JOIN sources s ON s.id = d.source JOIN collections c ON c.id = s.collection "
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
                    metadata=json.loads(row[7]),
                    attribution=row[8],
                )
                yield document, row[9]

    def texts(self, source: int) -> dict[int, str]:
        """The texts of a source in the order of their parts, by document key."""
        rows = self._all("SELECT id, text FROM documents WHERE source = ? ORDER BY part", source)
        return dict(rows)

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
        if version == 0:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._connection.execute("COMMIT")

    def _one(self, query: str) -> tuple[Any, ...]:
        return self._all(query)[0]

    def _all(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._connection.execute(query, parameters).fetchall()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LibraryError(
                f"the library's database {self._path} failed: {error}; check the disk's space and "
                "permissions, or restore the file from a backup"
            ) from error
