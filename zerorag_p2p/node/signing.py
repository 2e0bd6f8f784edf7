"""What an owner signs about its own documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from zerorag_p2p.identity.attribution import embedding_hash, sign_statement
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash, Document, Fingerprint, SharingTerms, Vector
from zerorag_p2p.wire.embedding import int8_wire_bytes

#: Signs a document of ours with its embedding and the terms of its collection.
StatementSigner: TypeAlias = Callable[[Document, Vector, SharingTerms], bytes]


def statement_signer(
    identity: Identity,
    fingerprint: Fingerprint,
    consortium: str,
    clock: Callable[[], float],
    *,
    not_before: Callable[[ContentHash, str], int] = lambda *_: 0,
) -> StatementSigner:
    """The function by which a library has its documents' statements signed.

    Args:
        identity: The owner.
        fingerprint: Of the embedder that makes the vectors.
        consortium: Id of the consortium that the statements are for.
        clock: Unix seconds.
        not_before: Earliest date of a statement about a content of a collection, unix seconds: what
            is dated before was taken back.
    """

    def sign(document: Document, embedding: Vector, terms: SharingTerms) -> bytes:
        content_hash = document.content_hash()
        return sign_statement(
            identity,
            content_hash=content_hash,
            embedding_hash=embedding_hash(int8_wire_bytes(embedding)),
            fingerprint=fingerprint.digest(),
            collection=document.collection,
            terms=terms,
            consortium=consortium,
            now=max(clock(), not_before(content_hash, document.collection)),
        )

    return sign
