"""The contents of a library: its database and what is kept in memory of it, changed together.

Every change is made in the database first, in one transaction, and then in memory.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from zerorag_p2p.config import LIBRARY_LOAD_DOCUMENTS, MAX_NAME_BYTES
from zerorag_p2p.errors import DecodeError, EmbeddingError, LibraryError
from zerorag_p2p.library.catalog import Catalog
from zerorag_p2p.library.documents import (
    DocumentStore,
    StoredCollection,
    StoredCopy,
    StoredDocument,
    StoredSource,
)
from zerorag_p2p.library.preparing import Prepared
from zerorag_p2p.library.records import normalise_name
from zerorag_p2p.model import (
    SALT_BYTES,
    Content,
    ContentHash,
    Document,
    Fingerprint,
    SharingTerms,
    Vector,
    hash_content,
)
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.redaction.redaction import Redaction
from zerorag_p2p.wire.embedding import transmitted_rows

_logger = logging.getLogger("zerorag.library")

_PRIVATE_FOLDER: Final = 0o700

#: Signs the owner's statement about a document, its vector as transmitted, and its terms.
Sign: TypeAlias = Callable[[Document, Vector, SharingTerms], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """Statements of ours that allowed copies and are to hold no more.

    Attributes:
        collection: That they are about; None for `documents` in whatever collection.
        documents: What they are about; empty for everything in `collection`.
        statements: They themselves, as far as they are stored.
    """

    collection: str | None
    documents: tuple[ContentHash, ...] = ()
    statements: tuple[bytes, ...]


#: Lets everybody know of a retraction; statements signed after it returns are valid again.
Retract: TypeAlias = Callable[[Retraction], object]


@dataclass(frozen=True, slots=True)
class _Model:
    """A model whose vectors are searched.

    Attributes:
        fingerprint: Its digest.
        dimension: Components of a vector.
        sign: Makes the attribution of a document and a vector of it.
        catalog: What is in memory of them.
    """

    fingerprint: str
    dimension: int
    sign: Sign
    catalog: Catalog


#: Documents whose attribution changed, and where they are in memory.
_Signed: TypeAlias = list[tuple[Catalog, StoredDocument]]

_UNSHARED_TERMS: Final = SharingTerms()
_PREFIX: Final = re.compile(r"[0-9a-f]{8,64}")


class Contents:
    """Documents and collections on disk and in memory. One thread at a time may use them.

    Args:
        home: Folder of the library; made if it does not exist.
        fingerprint: Of the model whose vectors are searched.
        sign: Makes the attribution of a document.
        retract: Told, before a change is made, of the statements that it takes back.
        exact_limit: Number of vectors of a collection up to which it is searched without a graph.
        redaction: What of each collection does not leave, nor is embedded. Where that changed, the
            embeddings are gone until the documents are embedded anew.

    Attributes:
        withdrawn: Contents of ours that nobody else is to see.
        held: A second model that searches can be made by (`hold`), or None.

    Raises:
        LibraryError: The library is damaged, or a newer version wrote it.
    """

    def __init__(
        self,
        home: Path,
        fingerprint: Fingerprint,
        sign: Sign,
        *,
        retract: Retract,
        exact_limit: int,
        redaction: Redaction,
    ) -> None:
        self.redaction = redaction
        self._retract = retract
        self._exact_limit = exact_limit
        self._graphs = home / "graphs"
        try:
            home.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._graphs.mkdir(exist_ok=True)
            for leftover in self._graphs.glob(".*"):  # of a process that died while it saved
                leftover.unlink()
        except OSError as error:
            raise LibraryError(f"{home} cannot hold a library: {error.strerror}") from None
        self._model = self._of(fingerprint, sign)
        self.held: _Model | None = None
        self._collections: dict[str, StoredCollection] = {}
        self._sharing: dict[str, Sharing | None] = {}
        # Whether texts were replaced that are still in the write-ahead log or an index.
        self._forgetting = False
        self.store = DocumentStore(home / "documents.sqlite")
        try:
            self._load_collections()
            self._follow_redaction()
            self._load_documents(self._model)
            self._load_graphs()
            self.withdrawn = set(self.store.withdrawn())
            self.generation = self.store.generation()
        except BaseException:
            self.store.close()
            raise

    def _of(self, fingerprint: Fingerprint, sign: Sign) -> _Model:
        catalog = Catalog(fingerprint.dimension, exact_limit=self._exact_limit)
        return _Model(fingerprint.digest(), fingerprint.dimension, sign, catalog)

    @property
    def catalog(self) -> Catalog:
        """What is in memory of the vectors of the model in use."""
        return self._model.catalog

    @property
    def _fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def _models(self) -> list[_Model]:
        """The model in use, and the other one that is held, if there is one."""
        return [self._model] if self.held is None else [self._model, self.held]

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

    def _follow_redaction(self) -> None:
        """Where what is removed from texts changed, drop the embeddings made of them before.

        Documents that are redacted from now on get a salt, and with it another hash.
        """
        withdrawn = set(self.store.withdrawn())
        for name, collection in list(self._collections.items()):
            applied = self.redaction.applied(name)
            if applied == collection.redaction:
                continue
            with self.store.change():
                if applied:
                    self._take_collection_back(name)
                    for key, content, before in self.store.unsalted(collection.id):
                        salted = replace(content, salt=secrets.token_bytes(SALT_BYTES))
                        content_hash = hash_content(salted.encode())
                        self.store.set_salt(key, salted.salt, content_hash)
                        if before in withdrawn:
                            self.store.set_withdrawn(content_hash, True)
                self.store.set_redaction(collection.id, applied)
            self._collections[name] = replace(collection, redaction=applied)
            self._delete_graphs([name])
            _logger.info(
                "collection %r is redacted otherwise than before; it is embedded anew", name
            )

    def _load_documents(self, model: _Model) -> None:
        stored = self.store.embedded_documents(model.fingerprint)
        try:
            while batch := list(itertools.islice(stored, LIBRARY_LOAD_DOCUMENTS)):
                data = b"".join(vector for _, vector in batch)
                rows = np.frombuffer(data, dtype="<f4").reshape(-1, model.dimension)
                model.catalog.put([document for document, _ in batch], rows)
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

    # A second model, while the library goes over from one to another.

    def hold(self, fingerprint: Fingerprint, sign: Sign) -> None:
        """Have what is stored of another model searchable, too."""
        model = self._of(fingerprint, sign)
        self._load_documents(model)
        self.held = model

    def put_held(self, source: StoredSource, vectors: Vector) -> bool:
        """Store vectors [n, d] of the held model, one for each document of a source as it is cut.

        Returns:
            False where the source is not as it was, or not embedded by the model in use yet.
        """
        assert self.held is not None, "a second model is held"
        documents = self.catalog.of_source(source.collection, source.name)
        current = self.find_source(source.collection, source.name) == source
        if not current or len(documents) != len(vectors):
            return False
        terms = self._terms(source.collection)
        rows = transmitted_rows(vectors)
        added = []
        with self.store.change(counted=False):
            for document, vector, row in zip(documents, vectors, rows, strict=True):
                attribution = self.held.sign(self.read(document), row, terms)
                self.store.put_embedding(
                    document.key, self.held.fingerprint, vector.astype("<f4").tobytes(), attribution
                )
                added.append(replace(document, attribution=attribution))
        self.held.catalog.remove_sources([(source.collection, source.name)])
        self.held.catalog.put(added, vectors)
        return True

    def prefer_held(self) -> None:
        """Use the held model from now on, and hold the one that was in use."""
        assert self.held is not None, "a second model is held"
        self._model, self.held = self.held, self._model

    def release_held(self) -> None:
        """Delete the vectors of the held model."""
        assert self.held is not None, "a second model is held"
        with self.store.change(counted=False):
            self.store.delete_embeddings(self.held.fingerprint)
        for path in self._graphs.glob(f"*-{self.held.fingerprint[:16]}.*"):
            path.unlink()
        self.held = None

    def _remove_from_memory(self, sources: Sequence[tuple[str, str]]) -> list[str]:
        """Remove sources, by collection and name; the collections that any was removed from."""
        if self.held is not None:
            self.held.catalog.remove_sources(sources)
        return self.catalog.remove_sources(sources)

    # Sources and documents.

    def find_source(self, collection: str, name: str) -> StoredSource | None:
        """The source of this name."""
        return next(iter(self.store.sources(collection=collection, name=name)), None)

    def is_embedded(self, known: StoredSource) -> bool:
        """Whether a stored source has all its vectors of the current model."""
        return self.catalog.count_of_source(known.collection, known.name) == known.parts

    def put(self, prepared: Sequence[Prepared]) -> None:
        """Store sources, in place of what they were, in one transaction."""
        added: list[StoredDocument] = []
        with self.store.change():
            for item in prepared:
                keys = self._store_source(item)
                if self.held is not None:
                    self.store.delete_embeddings(self.held.fingerprint, keys)
                added += self._store_embeddings(item, keys)
        replaced = self._remove_from_memory(
            [(item.source.collection, item.source.name) for item in prepared]
        )
        self._delete_graphs(replaced)
        self._forgetting = self._forgetting or bool(replaced)
        self.catalog.put(added, np.concatenate([item.vectors for item in prepared]))
        self.generation = self.store.generation()

    def forget_replaced(self) -> None:
        """Take texts that `put` replaced out of the files for good."""
        if self._forgetting:
            self.store.forget_deleted()
            self._forgetting = False

    def _store_source(self, item: Prepared) -> list[int]:
        """Store a source and the texts of its parts, unless they are; the keys of the parts."""
        source = item.source
        known = self.find_source(source.collection, source.name)
        if known is not None:
            texts = self.store.texts(known.id)
            if known.digest == source.digest and list(texts.values()) == item.parts:
                return list(texts)
            kept = {
                _document(source, part, text).content_hash() for part, text in enumerate(item.parts)
            }
            self._take_back([known], kept)
            self.store.delete_source(known.id)
        # It may have been removed while its documents were embedded.
        collection = self._collections[self.existing_collection(source.collection)]
        number = self.store.add_source(collection.id, source, item.outline)
        redacted = bool(self.redaction.applied(source.collection))
        keys = []
        for part, passage in enumerate(item.passages):
            salt = secrets.token_bytes(SALT_BYTES) if redacted else b""
            document = _document(source, part, passage.text, salt)
            keys.append(
                self.store.add_document(
                    number,
                    part,
                    passage.text,
                    document.content_hash(),
                    start=passage.start,
                    place=passage.place,
                    salt=salt,
                )
            )
        return keys

    def _store_embeddings(self, item: Prepared, keys: Sequence[int]) -> list[StoredDocument]:
        source = item.source
        terms = self._terms(source.collection)
        rows = transmitted_rows(item.vectors)
        documents = []
        for part, (key, text) in enumerate(zip(keys, item.parts, strict=True)):
            document = _document(source, part, text, self.store.salt(key))
            attribution = self._model.sign(document, rows[part], terms)
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
                    metadata={**item.passages[part].place, **source.metadata},
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
            self._take_back(sources, frozenset())
            for source in sources:
                self.store.delete_source(source.id)
        self._remove_from_memory([(source.collection, source.name) for source in sources])
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
            salt=self.store.salt(stored.key),
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

    def collection_id(self, name: str) -> int:
        """The number of an existing collection."""
        return self._collections[name].id

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
                stored = self.store.add_collection(name, self.redaction.applied(name))
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
            self._take_collection_back(collection)
            self.store.delete_collection(self._collections[collection].id)
        self._delete_graphs([collection])
        self._remove_from_memory([(collection, source.name) for source in sources])
        for model in self._models:
            model.catalog.forget_index(collection)
        del self._collections[collection]
        del self._sharing[collection]
        self.store.forget_deleted()
        self.generation = self.store.generation()
        return sum(source.documents for source in sources)

    def set_sharing(self, collection: str, sharing: Sharing | None) -> None:
        """Share an existing collection, or end that; sign its documents anew if terms change."""
        number = self._collections[collection].id
        terms = _UNSHARED_TERMS if sharing is None else sharing.terms
        signed: _Signed = []
        with self.store.change():
            text = None if sharing is None else json.dumps(sharing.to_json())
            self.store.set_sharing(number, text)
            if terms != self._terms(collection):
                if not terms.allow_all_of(self._terms(collection)):
                    self._take_collection_back(collection)
                # Statements for other models would keep the old terms; those are embedded anew.
                self._delete_other_embeddings(number)
                signed = self._sign_again(collection, terms)
        self._sharing[collection] = sharing
        self._take_over(signed)
        self.generation = self.store.generation()

    def _sign_again(
        self,
        collection: str,
        terms: SharingTerms,
        documents: Collection[ContentHash] | None = None,
    ) -> _Signed:
        """Sign statements about our own documents in a collection anew, all or `documents`."""
        signed: _Signed = []
        for model in self._models:
            for stored, vector in model.catalog.in_collection(collection):
                chosen = documents is None or stored.content_hash in documents
                if stored.copy is not None or not chosen:
                    continue
                attribution = model.sign(self.read(stored), vector, terms)
                self.store.set_attribution(stored.key, model.fingerprint, attribution)
                signed.append((model.catalog, replace(stored, attribution=attribution)))
        return signed

    def _take_over(self, signed: _Signed) -> None:
        """Have in memory what `_sign_again` stored."""
        for catalog, stored in signed:
            catalog.update([stored])

    def _delete_other_embeddings(self, collection: int) -> None:
        """Delete what other models embedded than those whose vectors are searched."""
        fingerprints = [model.fingerprint for model in self._models]
        self.store.delete_other_embeddings(collection, fingerprints)

    def sign_stale_again(self, stale: Callable[[bytes], bool]) -> int:
        """Sign statements of our own that are `stale` anew; how many those were."""
        signed: _Signed = []
        with self.store.change():
            for name in self.collections():
                documents = {
                    stored.content_hash
                    for stored, _ in self.catalog.in_collection(name)
                    if stored.copy is None and stale(stored.attribution)
                }
                if documents:
                    # Statements for other models are as stale; those are embedded anew.
                    number = self._collections[name].id
                    self._delete_other_embeddings(number)
                    signed += self._sign_again(name, self._terms(name), documents)
        self._take_over(signed)
        self.generation = self.store.generation()
        return sum(catalog is self.catalog for catalog, _ in signed)

    # Taking back what allowed copies.

    def _take_back(self, sources: Sequence[StoredSource], kept: Collection[ContentHash]) -> None:
        """Retract the statements about sources that go, but for contents that are `kept`."""
        gone: dict[str, dict[ContentHash, list[bytes]]] = {}
        for source in sources:
            if source.copy is None and self._terms(source.collection).copy:
                number = self._collections[source.collection].id
                for content_hash, statement in self.store.statements(number, source.id):
                    if content_hash not in kept:
                        by_content = gone.setdefault(source.collection, {})
                        by_content.setdefault(ContentHash(content_hash), []).append(statement)
        for collection, by_content in gone.items():
            self._retract(
                Retraction(
                    collection=collection,
                    documents=tuple(by_content),
                    statements=tuple(itertools.chain(*by_content.values())),
                )
            )

    def _take_collection_back(self, collection: str) -> None:
        """Retract the statements about our own documents in a collection, if they allow copies."""
        statements = self.store.statements(self._collections[collection].id)
        if self._terms(collection).copy and statements:
            self._retract(
                Retraction(
                    collection=collection,
                    statements=tuple(statement for _, statement in statements),
                )
            )

    def withdraw(self, documents: Mapping[ContentHash, Sequence[bytes]]) -> None:
        """Take contents of ours back and keep them from others, whatever is shared.

        Args:
            documents: Content hashes, and the statements about them that are stored.
        """
        with self.store.change():
            self._retract(
                Retraction(
                    collection=None,
                    documents=tuple(documents),
                    statements=tuple(itertools.chain(*documents.values())),
                )
            )
            for content_hash in documents:
                self.store.set_withdrawn(content_hash, True)
        self.withdrawn.update(documents)
        self.generation = self.store.generation()

    def restore(self, documents: Collection[ContentHash]) -> None:
        """Let others see contents again as far as their collections are shared; signed anew."""
        signed: _Signed = []
        with self.store.change():
            for content_hash in documents:
                self.store.set_withdrawn(content_hash, False)
            for name in self.collections():
                signed += self._sign_again(name, self._terms(name), documents)
        self.withdrawn.difference_update(documents)
        self._take_over(signed)
        self.generation = self.store.generation()

    def statements_about(self, sources: Sequence[StoredSource]) -> dict[ContentHash, list[bytes]]:
        """The stored statements about our own documents in sources, by content."""
        found: dict[ContentHash, list[bytes]] = {}
        for source in sources:
            number = self._collections[source.collection].id
            for content_hash, statement in self.store.statements(number, source.id):
                found.setdefault(ContentHash(content_hash), []).append(statement)
        return found

    # Copies of other owners' documents.

    def keep(self, content: Content, collection: str, copy: StoredCopy, vector: Vector) -> bool:
        """Store a copy, in place of one by an older statement of its owner; whether it is new.

        Args:
            content: The document.
            collection: An existing one of ours.
            copy: Whose it is.
            vector: Of the current model, float32 [d], unit length.
        """
        content_hash = hash_content(content.encode())
        source = StoredSource(
            id=0,
            collection=collection,
            name=f"{content_hash[:16]} of {copy.owner}",
            origin="",
            title=content.title,
            digest=content_hash,
            parts=content.parts,
            copy=copy,
        )
        known = self.find_source(collection, source.name)
        if known is not None and known.copy and known.copy.issued_at >= copy.issued_at:
            return False
        statement = copy.links[0]
        with self.store.change():
            if known is not None:
                self.store.delete_source(known.id)
            number = self.store.add_source(self._collections[collection].id, source)
            self.store.add_copy(number, copy)
            key = self.store.add_document(
                number, content.part, content.text, content_hash, salt=content.salt
            )
            stored_vector = vector.astype("<f4").tobytes()
            self.store.put_embedding(key, self._fingerprint, stored_vector, statement)
        self._remove_from_memory([(collection, source.name)])
        document = StoredDocument(
            key=key,
            content_hash=content_hash,
            collection=collection,
            source=source.name,
            title=content.title,
            part=content.part,
            parts=content.parts,
            metadata={},
            attribution=statement,
            copy=copy,
        )
        self.catalog.put([document], vector[np.newaxis])
        self.generation = self.store.generation()
        return True

    def _terms(self, collection: str) -> SharingTerms:
        sharing = self._sharing[collection]
        return _UNSHARED_TERMS if sharing is None else sharing.terms


def _document(source: StoredSource, part: int, text: str, salt: bytes = b"") -> Document:
    return Document(
        title=source.title,
        text=text,
        collection=source.collection,
        source=source.name,
        part=part,
        parts=source.parts,
        metadata=source.metadata,
        salt=salt,
    )
