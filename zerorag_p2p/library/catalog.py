"""What a library keeps in memory: its documents without their texts, and their vectors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from zerorag_p2p.library.documents import StoredDocument
from zerorag_p2p.library.vectors import VectorIndex
from zerorag_p2p.model import ContentHash, Score, ScoredDocument, Vector


class Catalog:
    """Documents that have a vector of one embedding model, by key, content and collection.

    One thread at a time may use a catalog.

    Args:
        dimension: Components of a vector.
        exact_limit: Number of vectors of a collection up to which it is searched without a graph.
    """

    def __init__(self, dimension: int, *, exact_limit: int) -> None:
        self._dimension = dimension
        self._exact_limit = exact_limit
        self._documents: dict[int, StoredDocument] = {}
        self._by_hash: dict[ContentHash, list[int]] = {}
        self._by_source: dict[tuple[str, str], list[int]] = {}
        self._indexes: dict[str, VectorIndex] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def put(self, documents: Sequence[StoredDocument], vectors: Vector) -> None:
        """Add documents that are not in the catalog yet, and their vectors [n, d].

        Raises:
            EmbeddingError: A vector is not finite or is zero.
        """
        collections: dict[str, list[int]] = {}
        for row, document in enumerate(documents):
            collections.setdefault(document.collection, []).append(row)
        for collection, rows in collections.items():
            self.index(collection).add([documents[row].key for row in rows], vectors[rows])
        for document in documents:
            self._documents[document.key] = document
            self._by_hash.setdefault(document.content_hash, []).append(document.key)
            source = (document.collection, document.source)
            self._by_source.setdefault(source, []).append(document.key)

    def update(self, documents: Sequence[StoredDocument]) -> None:
        """Replace what is known of documents whose content and vectors did not change."""
        for document in documents:
            self._documents[document.key] = document

    def remove_sources(self, sources: Iterable[tuple[str, str]]) -> list[str]:
        """Remove the documents of sources, given by collection and name.

        Returns:
            The collections that any was removed from.
        """
        gone: dict[str, list[int]] = {}
        for collection, source in sources:
            for key in self._by_source.pop((collection, source), ()):
                content_hash = self._documents.pop(key).content_hash
                holders = self._by_hash[content_hash]
                holders.remove(key)
                if not holders:
                    del self._by_hash[content_hash]
                gone.setdefault(collection, []).append(key)
        for collection, keys in gone.items():
            self.index(collection).remove(keys)
        return list(gone)

    def forget_index(self, collection: str) -> None:
        """Drop the index of a collection that was emptied."""
        self._indexes.pop(collection, None)

    def index(self, collection: str) -> VectorIndex:
        """The vectors of a collection, made if there are none."""
        if collection not in self._indexes:
            self._indexes[collection] = VectorIndex(self._dimension, exact_limit=self._exact_limit)
        return self._indexes[collection]

    def indexes(self) -> list[tuple[str, VectorIndex]]:
        """Every collection that has vectors, and these."""
        return list(self._indexes.items())

    def with_hash(self, content_hash: ContentHash) -> list[StoredDocument]:
        """Documents of this content, in the order they were added."""
        return [self._documents[key] for key in self._by_hash.get(content_hash, ())]

    def of_source(self, collection: str, source: str) -> list[StoredDocument]:
        """Documents of a source, in the order of its parts."""
        keys = self._by_source.get((collection, source), ())
        return sorted((self._documents[key] for key in keys), key=lambda item: item.part)

    def count_of_source(self, collection: str, source: str) -> int:
        """Number of documents of a source."""
        return len(self._by_source.get((collection, source), ()))

    def in_collection(self, collection: str) -> Iterator[tuple[StoredDocument, Vector]]:
        """Every document of a collection and its vector as transmitted, [d]."""
        index = self.index(collection)
        for key, row in zip(index.keys.tolist(), index.rows, strict=True):
            yield self._documents[key], row

    def search(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> list[ScoredDocument]:
        """The k admitted documents most similar to `embedding` [d], each content once, best first.

        Args:
            embedding: Of the query, unit length.
            k: At most so many documents.
            admit_collection: Whether a collection is searched at all.
            admit: Whether a document may be returned; asked before the cut to k.
        """
        found: list[tuple[float, int, VectorIndex]] = []
        taken: set[ContentHash] = set()

        def admit_key(key: int) -> bool:
            document = self._documents[key]
            if document.content_hash in taken or not admit(document):
                return False
            taken.add(document.content_hash)
            return True

        for collection, index in self._indexes.items():
            if admit_collection(collection):
                hits = index.search(embedding, k, admit_key)
                found += [(-score, key, index) for key, score in hits]
        found.sort(key=lambda hit: hit[:2])
        return [self._scored(key, -negated, index.vector(key)) for negated, key, index in found[:k]]

    def scored(
        self,
        keys: Iterable[int],
        embedding: Vector,
        *,
        admit: Callable[[StoredDocument], bool],
    ) -> list[ScoredDocument]:
        """The admitted documents of these keys in their order, each content once.

        Keys of documents that are not in the catalog are left out.
        """
        found: dict[ContentHash, ScoredDocument] = {}
        for key in keys:
            document = self._documents.get(key)
            if document is None or document.content_hash in found or not admit(document):
                continue
            vector = self.index(document.collection).vector(key)
            found[document.content_hash] = self._scored(key, float(vector @ embedding), vector)
        return list(found.values())

    def _scored(self, key: int, score: Score, vector: Vector) -> ScoredDocument:
        document = self._documents[key]
        return ScoredDocument(
            content_hash=document.content_hash,
            score=score,
            embedding=vector,
            collection=document.collection,
            attribution=document.links,
        )

    def count(
        self,
        embedding: Vector,
        above: float,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> int:
        """How many admitted documents score more than `above`, each content once."""
        counted: set[ContentHash] = set()
        for collection, index in self._indexes.items():
            if admit_collection(collection):
                keys = index.keys[index.rows @ embedding > above].tolist()
                documents = (self._documents[key] for key in keys)
                counted.update(item.content_hash for item in documents if admit(item))
        return len(counted)

    def vectors_of(
        self, collections: Collection[str], *, admit: Callable[[StoredDocument], bool]
    ) -> tuple[Vector, list[ContentHash]]:
        """Vectors as transmitted [n, d] of the admitted documents in `collections`.

        Each content is among them once.
        """
        hashes: list[ContentHash] = []
        taken: set[ContentHash] = set()
        chosen = [np.empty((0, self._dimension), dtype=np.float32)]
        for collection, index in self._indexes.items():
            if collection not in collections:
                continue
            rows = []
            for row, key in enumerate(index.keys.tolist()):
                document = self._documents[key]
                if document.content_hash not in taken and admit(document):
                    taken.add(document.content_hash)
                    hashes.append(document.content_hash)
                    rows.append(row)
            chosen.append(index.rows[rows])
        return np.concatenate(chosen), hashes
