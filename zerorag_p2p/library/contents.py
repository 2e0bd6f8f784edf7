"""The contents of a library: its database and what is kept in memory of it, changed together.

Every change is made in the database first, in one transaction, and then in memory.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from zerorag_p2p.config import MAX_NAME_BYTES
from zerorag_p2p.errors import DecodeError, EmbeddingError, LibraryError
from zerorag_p2p.library.catalog import Catalog
from zerorag_p2p.library.documents import (
    DocumentStore,
    StoredCollection,
    StoredDocument,
    StoredSource,
)
from zerorag_p2p.library.loaders import normalise_name
from zerorag_p2p.library.preparing import Prepared
from zerorag_p2p.model import ContentHash, Document, Fingerprint, SharingTerms, Vector
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.embedding import transmitted_rows

_logger = logging.getLogger("zerorag.library")

#: Signs the owner's statement about a document, its vector as transmitted, and its terms.
Sign: TypeAlias = Callable[[Document, Vector, SharingTerms], bytes]

_UNSHARED_TERMS: Final = SharingTerms()
_PREFIX: Final = re.compile(r"[0-9a-f]{8,64}")


class Contents:
    """Documents and collections on disk and in memory. One thread at a time may use them.

    Args:
        home: Folder of the library; made if it does not exist.
        fingerprint: Of the model whose vectors are searched.
        sign: Makes the attribution of a document.
        exact_limit: Number of vectors of a collection up to which it is searched without a graph.

    Raises:
        LibraryError: The library is damaged, or a newer version wrote it.
    """

    def __init__(
        self, home: Path, fingerprint: Fingerprint, sign: Sign, *, exact_limit: int
    ) -> None:
        self._sign = sign
        self._exact_limit = exact_limit
        self._dimension = fingerprint.dimension
        self._fingerprint = fingerprint.digest()
        self._graphs = home / "graphs"
        try:
            self._graphs.mkdir(parents=True, exist_ok=True)
            for leftover in self._graphs.glob(".*"):  # of a process that died while it saved
                leftover.unlink()
        except OSError as error:
            raise LibraryError(f"{home} cannot hold a library: {error.strerror}") from None
        self.catalog = Catalog(fingerprint.dimension, exact_limit=exact_limit)
        self._collections: dict[str, StoredCollection] = {}
        self._sharing: dict[str, Sharing | None] = {}
        self.store = DocumentStore(home / "documents.sqlite")
        try:
            self._load_collections()
            self._load_documents()
            self._load_graphs()
            self.generation = self.store.generation()
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Save the graphs that may be saved, and close the database."""
        for collection, index in self.catalog.indexes():
            if index.can_save:
                self.save_graph(collection)
        self.store.close()

    def _load_collections(self) -> None:
        for stored in self.store.collections():
            self._collections[stored.name] = stored
            try:
                self._sharing[stored.name] = (
                    None
                    if stored.sharing is None
                    else Sharing.from_json(json.loads(stored.sharing))
                )
            except (ValueError, DecodeError) as error:
                raise LibraryError(
                    f"how collection {stored.name!r} is shared cannot be read ({error}); "
                    "restore the library's database from a backup"
                ) from None

    def _load_documents(self) -> None:
        documents: list[StoredDocument] = []
        vectors: list[bytes] = []
        for document, vector in self.store.embedded_documents(self._fingerprint):
            documents.append(document)
            vectors.append(vector)
        try:
            rows = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, self._dimension)
            self.catalog.put(documents, rows)
        except (ValueError, EmbeddingError) as error:
            raise LibraryError(
                f"an embedding in the library's database is damaged ({error}); "
                "restore the database from a backup"
            ) from None

    def _load_graphs(self) -> None:
        for collection, index in self.catalog.indexes():
            if len(index) <= self._exact_limit:
                continue
            path = self._graph_path(collection)
            try:
                index.load(path, self._fingerprint)
            except FileNotFoundError:
                _logger.info("collection %r has no saved graph; it will be built", collection)
            except (LibraryError, OSError) as error:
                _logger.warning("%s is not used, but will be built anew: %s", path, error)

    def save_graph(self, collection: str) -> None:
        """Write the graph of a collection, which has to be one that can be saved."""
        if collection not in self._collections:  # removed while its graph was built
            return
        path = self._graph_path(collection)
        try:
            self.catalog.index(collection).save(path, self._fingerprint)
        except OSError as error:  # the documents are safe; the next start takes longer
            _logger.warning("%s could not be saved: %s", path, error)

    def _graph_path(self, collection: str) -> Path:
        number = self._collections[collection].id
        return self._graphs / f"{number}-{self._fingerprint[:16]}.usearch"

    def _delete_graphs(self, collections: Iterable[str]) -> None:
        """Delete saved graphs, of whatever model: they hold vectors that were removed."""
        for collection in collections:
            for path in self._graphs.glob(f"{self._collections[collection].id}-*"):
                path.unlink()

    # Sources and documents.

    def find_source(self, collection: str, name: str) -> StoredSource | None:
        """The source of this name."""
        return next(iter(self.store.sources(collection=collection, name=name)), None)

    def has_current(self, source: StoredSource) -> bool:
        """Whether a source is stored with the same digest, and embedded."""
        known = self.find_source(source.collection, source.name)
        if known is None or known.digest != source.digest:
            return False
        return self.catalog.count_of_source(known.collection, known.name) == known.parts

    def put(self, prepared: Sequence[Prepared]) -> None:
        """Store sources, in place of what they were, in one transaction."""
        added: list[StoredDocument] = []
        with self.store.change():
            for item in prepared:
                added += self._store_embeddings(item, self._store_source(item))
        replaced = [
            item.source.collection
            for item in prepared
            if self.catalog.remove_source(item.source.collection, item.source.name)
        ]
        self._delete_graphs(dict.fromkeys(replaced))
        self.catalog.put(added, np.concatenate([item.vectors for item in prepared]))
        self.generation = self.store.generation()

    def _store_source(self, item: Prepared) -> list[int]:
        """Store a source and the texts of its parts, unless they are; the keys of the parts."""
        source = item.source
        known = self.find_source(source.collection, source.name)
        if known is not None:
            texts = self.store.texts(known.id)
            if known.digest == source.digest and list(texts.values()) == item.parts:
                return list(texts)
            self.store.delete_source(known.id)
        # It may have been removed while its documents were embedded.
        collection = self._collections[self.existing_collection(source.collection)]
        number = self.store.add_source(collection.id, source)
        return [
            self.store.add_document(
                number, part, text, _document(source, part, text).content_hash()
            )
            for part, text in enumerate(item.parts)
        ]

    def _store_embeddings(self, item: Prepared, keys: Sequence[int]) -> list[StoredDocument]:
        source = item.source
        terms = self._terms(source.collection)
        rows = transmitted_rows(item.vectors)
        documents = []
        for part, (key, text) in enumerate(zip(keys, item.parts, strict=True)):
            document = _document(source, part, text)
            attribution = self._sign(document, rows[part], terms)
            vector = item.vectors[part].astype("<f4").tobytes()
            self.store.put_embedding(key, self._fingerprint, vector, attribution)
            documents.append(
                StoredDocument(
                    key=key,
                    content_hash=document.content_hash(),
                    collection=source.collection,
                    source=source.name,
                    title=source.title,
                    part=part,
                    parts=source.parts,
                    metadata=source.metadata,
                    attribution=attribution,
                )
            )
        return documents

    def matching_sources(self, what: str, collection: str | None) -> list[StoredSource]:
        """Sources by name, by file, or by the first digits of the hash of a document in them.

        Raises:
            LibraryError: Nothing, or more than one content, matches.
        """
        name = normalise_name(what)
        sources = self.store.sources(collection=collection, name=name)
        sources = sources or self.store.sources(collection=collection, origin=name)
        if not sources and _PREFIX.fullmatch(what):
            hashes = self.resolve(what)
            if len(hashes) > 1:
                raise LibraryError(f"{len(hashes)} documents begin with {what}; give more digits")
            holders = {number for item in hashes for number in self.store.sources_of(item)}
            everything = self.store.sources(collection=collection)
            sources = [source for source in everything if source.id in holders]
        if not sources:
            where = "" if collection is None else f" in collection {collection!r}"
            raise LibraryError(f"there is no source, file or content hash {what!r}{where}")
        return sources

    def remove(self, sources: Sequence[StoredSource]) -> None:
        """Remove sources and all their documents."""
        with self.store.change():
            for source in sources:
                self.store.delete_source(source.id)
        for source in sources:
            self.catalog.remove_source(source.collection, source.name)
        self._delete_graphs(dict.fromkeys(source.collection for source in sources))
        self.store.forget_deleted()
        self.generation = self.store.generation()

    def read(self, stored: StoredDocument) -> Document:
        """A document with its text.

        Raises:
            LibraryError: It was removed.
        """
        text = self.store.text(stored.key)
        if text is None:
            raise LibraryError(f"the document {stored.content_hash} was removed")
        return Document(
            title=stored.title,
            text=text,
            collection=stored.collection,
            source=stored.source,
            part=stored.part,
            parts=stored.parts,
            metadata=stored.metadata,
        )

    def resolve(self, prefix: str) -> list[ContentHash]:
        """Content hashes that begin with `prefix`, in order.

        Raises:
            LibraryError: `prefix` is not the beginning of a hash.
        """
        if not _PREFIX.fullmatch(prefix):
            raise LibraryError(
                f"{prefix!r} is not the beginning of a content hash: "
                "8 to 64 hexadecimal digits in lower case"
            )
        return self.store.hashes_with_prefix(prefix)

    # Collections.

    def collections(self) -> list[str]:
        """Names of all collections, sorted."""
        return sorted(self._collections)

    def sharing(self, collection: str) -> Sharing | None:
        """How a collection is shared; None if it is not, or does not exist."""
        return self._sharing.get(collection)

    def ensure_collection(self, name: str) -> str:
        """Make a collection if there is none of this name; the name, NFC-normalised.

        Raises:
            LibraryError: The name is not allowed.
        """
        name = normalise_name(name)
        if not name.strip() or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
            raise LibraryError(
                f"{name!r} cannot name a collection: "
                f"it takes 1 to {MAX_NAME_BYTES} bytes of printable text"
            )
        if name not in self._collections:
            with self.store.change():
                stored = self.store.add_collection(name)
            self._collections[name] = stored
            self._sharing[name] = None
            self.generation = self.store.generation()
        return name

    def existing_collection(self, name: str) -> str:
        """The name of an existing collection, NFC-normalised.

        Raises:
            LibraryError: There is no such collection.
        """
        normalised = normalise_name(name)
        if normalised not in self._collections:
            known = ", ".join(map(repr, self.collections())) or "none"
            raise LibraryError(f"there is no collection {name!r}; there are: {known}")
        return normalised

    def remove_collection(self, collection: str) -> int:
        """Remove an existing collection; how many documents were in it."""
        sources = self.store.sources(collection=collection)
        with self.store.change():
            self.store.delete_collection(self._collections[collection].id)
        self._delete_graphs([collection])
        for source in sources:
            self.catalog.remove_source(collection, source.name)
        self.catalog.forget_index(collection)
        del self._collections[collection]
        del self._sharing[collection]
        self.store.forget_deleted()
        self.generation = self.store.generation()
        return sum(source.parts for source in sources)

    def set_sharing(self, collection: str, sharing: Sharing | None) -> None:
        """Share an existing collection, or end that; sign its documents anew if terms change."""
        number = self._collections[collection].id
        terms = _UNSHARED_TERMS if sharing is None else sharing.terms
        signed: list[StoredDocument] = []
        with self.store.change():
            text = None if sharing is None else json.dumps(sharing.to_json())
            self.store.set_sharing(number, text)
            if terms != self._terms(collection):
                # Statements for other models would keep the old terms; those are embedded anew.
                self.store.delete_other_embeddings(number, self._fingerprint)
                signed = self._sign_again(collection, terms)
        self._sharing[collection] = sharing
        self.catalog.update(signed)
        self.generation = self.store.generation()

    def _sign_again(self, collection: str, terms: SharingTerms) -> list[StoredDocument]:
        signed = []
        for stored, vector in self.catalog.in_collection(collection):
            attribution = self._sign(self.read(stored), vector, terms)
            self.store.set_attribution(stored.key, self._fingerprint, attribution)
            signed.append(replace(stored, attribution=attribution))
        return signed

    def _terms(self, collection: str) -> SharingTerms:
        sharing = self._sharing[collection]
        return _UNSHARED_TERMS if sharing is None else sharing.terms


def _document(source: StoredSource, part: int, text: str) -> Document:
    return Document(
        title=source.title,
        text=text,
        collection=source.collection,
        source=source.name,
        part=part,
        parts=source.parts,
        metadata=source.metadata,
    )
