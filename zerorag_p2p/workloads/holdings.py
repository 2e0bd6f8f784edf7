"""Documents of one peer in memory, out of arrays that all peers of a process share.

`ArrayHoldings` stands in for a library on disk: a simulated peer answers from it, and so does a
node of a testnet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zerorag_p2p.identity.attribution import (
    Statement,
    embedding_hash,
    open_statement,
    sign_statement,
)
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.model import (
    Content,
    ContentHash,
    Document,
    Fingerprint,
    ScoredDocument,
    SharingTerms,
    Vector,
    hash_content,
)
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.embedding import int8_wire_bytes, transmitted_rows
from zerorag_p2p.workloads.workload import Workload


class DocumentTable:
    """The documents of a workload, once for all peers.

    Attributes:
        contents: The documents.
        hashes: Their content hashes.
        vectors: float32 [n, d], their embeddings as transmitted.
        fingerprint: Of the model behind the embeddings.
    """

    def __init__(self, workload: Workload) -> None:
        self.contents: tuple[Content, ...] = tuple(
            document.content for document in workload.documents
        )
        self.hashes: tuple[ContentHash, ...] = tuple(
            hash_content(content.encode()) for content in self.contents
        )
        self.vectors: Vector = transmitted_rows(workload.vectors)
        self.fingerprint: Fingerprint = workload.fingerprint
        self._numbers = {content_hash: number for number, content_hash in enumerate(self.hashes)}
        self._embedding_hashes: dict[int, str] = {}

    def number(self, content_hash: ContentHash) -> int | None:
        """Which document has this content, if any."""
        return self._numbers.get(content_hash)

    def embedding_hash(self, number: int) -> str:
        """Hash of a document's embedding, as its owner signs it."""
        if number not in self._embedding_hashes:
            self._embedding_hashes[number] = embedding_hash(int8_wire_bytes(self.vectors[number]))
        return self._embedding_hashes[number]


#: Makes the owner's statement about a document of this number in this collection.
SignDocument = Callable[[int, str], bytes]


def statement_signer(
    identity: Identity, table: DocumentTable, *, terms: SharingTerms, consortium: str, now: float
) -> SignDocument:
    """A function by which `identity` signs documents as theirs, dated `now` (unix seconds)."""
    fingerprint = table.fingerprint.digest()

    def sign(number: int, collection: str) -> bytes:
        return sign_statement(
            identity,
            content_hash=table.hashes[number],
            embedding_hash=table.embedding_hash(number),
            fingerprint=fingerprint,
            collection=collection,
            terms=terms,
            consortium=consortium,
            now=now,
        )

    return sign


class HeldDocument:
    """A document that is held; its owner's statement is signed when somebody first needs it.

    Args:
        number: Of the document in the table.
        content_hash: Of its content.
        collection: Ours that it is in.
        links: Its attribution where it is a copy, our custody included; None for our own.
        statement: The owner's, where it is a copy.
        sign: Signs our own.
    """

    __slots__ = ("_links", "_sign", "_statement", "collection", "content_hash", "number")

    def __init__(
        self,
        number: int,
        content_hash: ContentHash,
        collection: str,
        *,
        links: tuple[bytes, ...] | None,
        statement: Statement | None,
        sign: SignDocument,
    ) -> None:
        self.number = number
        self.content_hash = content_hash
        self.collection = collection
        self._links = links
        self._statement = statement
        self._sign = sign

    @property
    def links(self) -> tuple[bytes, ...]:
        """Its attribution: the owner's statement, then a custody statement for each copy."""
        if self._links is None:
            self._links = (self._sign(self.number, self.collection),)
        return self._links

    @property
    def terms(self) -> SharingTerms | None:
        """The owner's terms where this is a copy; None for a document of our own."""
        return None if self._statement is None else self._statement.terms

    @property
    def statement(self) -> Statement:
        """What its owner states."""
        return open_statement(self.links[0]) if self._statement is None else self._statement


class ArrayHoldings:
    """Documents of one peer, each content once, in collections that are shared or not.

    It satisfies `peer.Corpus` and `node.serving.Holdings`.

    Attributes:
        table: The documents that there are.
        generation: A number that grows with every change of the documents or of how they are
            shared.

    Args:
        table: The documents that there are.
        sign: Signs those that this peer owns.
    """

    def __init__(self, table: DocumentTable, sign: SignDocument) -> None:
        self.table = table
        self._sign = sign
        self._sharing: dict[str, Sharing | None] = {}
        self._held: dict[int, HeldDocument] = {}
        self._order: list[HeldDocument] = []
        self._rows: Vector = table.vectors[:0]
        self.generation = 0

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, number: int) -> bool:
        return number in self._held

    def numbers(self) -> list[int]:
        """Numbers of the documents held, in the order they came."""
        return list(self._held)

    def own(self, numbers: Iterable[int], collection: str) -> None:
        """Hold documents as their owner."""
        self._add([(number, None, None) for number in numbers], collection)

    def keep(
        self, number: int, collection: str, links: tuple[bytes, ...], statement: Statement
    ) -> None:
        """Hold a copy of a document; `links` is its attribution, our custody included."""
        self._add([(number, links, statement)], collection)

    def _add(
        self,
        documents: Iterable[tuple[int, tuple[bytes, ...] | None, Statement | None]],
        collection: str,
    ) -> None:
        self._sharing.setdefault(collection, None)
        for number, links, statement in documents:
            if number not in self._held:
                held = HeldDocument(
                    number,
                    self.table.hashes[number],
                    collection,
                    links=links,
                    statement=statement,
                    sign=self._sign,
                )
                self._held[number] = held
                self._order.append(held)
        self._arrange()

    def drop_withdrawn(self, withdrawal: Withdrawal) -> int:
        """Let go of what its owner, be it this peer, took back; how many documents that were."""
        gone = [
            held
            for held in self._order
            if (not withdrawal.documents or held.content_hash in withdrawal.documents)
            and withdrawal.covers(held.statement)
        ]
        for held in gone:
            del self._held[held.number]
            self._order.remove(held)
        if gone:
            self._arrange()
        return len(gone)

    def _arrange(self) -> None:
        self._rows = self.table.vectors[[held.number for held in self._order]]
        self.generation += 1

    def share(self, collection: str, sharing: Sharing | None) -> None:
        """Share a collection by a rule, or stop sharing it."""
        self._sharing[collection] = sharing
        self.generation += 1

    def sharing(self, collection: str) -> Sharing | None:
        """How a collection is shared; None if it is not, or does not exist."""
        return self._sharing.get(collection)

    def collections(self) -> list[str]:
        """Names of all collections, sorted."""
        return sorted(self._sharing)

    def get(self, content_hash: ContentHash) -> Sequence[HeldDocument]:
        """The document of this content, if it is held."""
        number = self.table.number(content_hash)
        held = None if number is None else self._held.get(number)
        return () if held is None else (held,)

    def read(self, stored: HeldDocument) -> Document:
        """A document with its text."""
        content = self.table.contents[stored.number]
        return Document(
            title=content.title,
            text=content.text,
            collection=stored.collection,
            source=f"document {stored.number}",
            part=content.part,
            parts=content.parts,
        )

    def search(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[HeldDocument], bool],
    ) -> list[ScoredDocument]:
        """The k admitted documents most similar to `embedding` [d], best first."""
        admitted = {name for name in self._sharing if admit_collection(name)}
        scores = self._rows @ embedding
        found: list[ScoredDocument] = []
        for row in np.argsort(-scores, kind="stable").tolist():
            held = self._order[row]
            if held.collection in admitted and admit(held):
                found.append(
                    ScoredDocument(
                        content_hash=held.content_hash,
                        score=float(scores[row]),
                        embedding=self._rows[row],
                        collection=held.collection,
                        attribution=held.links,
                    )
                )
                if len(found) == k:
                    break
        return found

    def count(
        self,
        embedding: Vector,
        above: float,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[HeldDocument], bool],
    ) -> int:
        """How many admitted documents score more than `above`."""
        admitted = {name for name in self._sharing if admit_collection(name)}
        rows = np.flatnonzero(self._rows @ embedding > above).tolist()
        matching = (self._order[row] for row in rows)
        return sum(held.collection in admitted and admit(held) for held in matching)

    def vectors_to_advertise(
        self,
        collections: Sequence[str],
        *,
        admit: Callable[[HeldDocument], bool] = lambda _: True,
    ) -> tuple[Vector, Sequence[ContentHash]]:
        """Vectors as transmitted [n, d] of the admitted documents in `collections`."""
        rows = [
            row
            for row, held in enumerate(self._order)
            if held.collection in collections
            and (held.terms is None or held.terms.reshare)
            and admit(held)
        ]
        return self._rows[rows], [self._order[row].content_hash for row in rows]
