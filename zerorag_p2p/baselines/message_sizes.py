"""How long messages are, so that bytes can be counted without encoding millions of them.

Every size is measured on one encoded message. Lists of more than 23 items take one to four bytes
more than is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zerorag_p2p import cbor
from zerorag_p2p.config import MAX_DEADLINE_MS
from zerorag_p2p.identity.attribution import embedding_hash, sign_statement
from zerorag_p2p.identity.keys import SEED_BYTES, Identity
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.model import (
    Fingerprint,
    Purpose,
    SharingTerms,
    Vector,
    View,
    hash_content,
)
from zerorag_p2p.wire.embedding import encode_embedding, int8_wire_bytes
from zerorag_p2p.wire.query import (
    QueryRequest,
    QueryResult,
    ResultDocument,
    encode_query,
    encode_query_result,
)

_IDENTITY: Final = Identity.from_seed(bytes(SEED_BYTES))
_NOW: Final = 1_700_000_000


@dataclass(frozen=True, slots=True)
class QuerySizes:
    """Bytes of a question and of its result (protocols/query), embeddings as int8.

    Attributes:
        request: A question.
        empty_result: A result without documents.
        document: What a document adds to a result: its vector and its owner's statement.
    """

    request: int
    empty_result: int
    document: int

    @classmethod
    def measure(cls, fingerprint: Fingerprint, *, k: int) -> QuerySizes:
        """The sizes for k documents of a model's dimension."""
        request = QueryRequest(
            embedding=_vector(fingerprint.dimension),
            fingerprint=fingerprint.digest(),
            k=k,
            budget_left=0,
            deadline_ms=MAX_DEADLINE_MS,
            purpose=Purpose.TREAT,
            user="",
            audit="",
            view=View.WHOLE,
        )
        empty = len(encode_query_result(QueryResult()))
        one = len(encode_query_result(QueryResult((_document(fingerprint),))))
        return cls(len(encode_query(request)), empty, one - empty)


@dataclass(frozen=True, slots=True)
class LookupSizes:
    """Bytes of the messages of a distributed hash table that maps keys to vectors and holders.

    This project has no such protocol. The messages are those of Kademlia in this project's
    encoding: a peer is named as in a referral, by its signed record, a vector is sent as int8.

    Attributes:
        request: A lookup of a key.
        empty_peers: A reply that names no peer.
        peer: What a peer adds to it.
        empty_value: A reply with an empty bucket.
        document: What a document adds to it, without holders.
        holder: What a holder of a document adds to it.
        store: A request to store that the sender holds a document under a key.
        stored: The reply to it.
    """

    request: int
    empty_peers: int
    peer: int
    empty_value: int
    document: int
    holder: int
    store: int
    stored: int

    @classmethod
    def measure(cls, dimension: int, *, key_bytes: int) -> LookupSizes:
        """The sizes for vectors of `dimension` components and keys of `key_bytes` bytes."""
        key = bytes(key_bytes)
        record = sign_record(_IDENTITY, ["/ip4/192.0.2.1/tcp/4001"], 1)
        peer = {"peer": _IDENTITY.peer_id, "record": record}
        fields = {
            "content-hash": bytes.fromhex(hash_content(b"")),
            "embedding": encode_embedding(_vector(dimension)),
        }
        no_peers = _size({"type": "peers", "peers": []})
        no_documents = _size({"type": "value", "documents": []})
        no_holders = _size({"type": "value", "documents": [{**fields, "holders": []}]})
        one_holder = _size(
            {"type": "value", "documents": [{**fields, "holders": [_IDENTITY.peer_id]}]}
        )
        return cls(
            request=_size({"type": "find-value", "key": key}),
            empty_peers=no_peers,
            peer=_size({"type": "peers", "peers": [peer]}) - no_peers,
            empty_value=no_documents,
            document=no_holders - no_documents,
            holder=one_holder - no_holders,
            store=_size({"type": "store", "key": key, **fields}),
            stored=_size({"type": "stored"}),
        )


def _size(fields: dict[str, object]) -> int:
    return len(cbor.encode(fields))


def _vector(dimension: int) -> Vector:
    return np.arange(1, dimension + 1, dtype=np.float32)


def _document(fingerprint: Fingerprint) -> ResultDocument:
    vector = _vector(fingerprint.dimension)
    content_hash = hash_content(b"")
    statement = sign_statement(
        _IDENTITY,
        content_hash=content_hash,
        embedding_hash=embedding_hash(int8_wire_bytes(vector)),
        fingerprint=fingerprint.digest(),
        collection="documents",
        terms=SharingTerms(),
        consortium="consortium",
        now=_NOW,
    )
    # A score that needs all eight bytes of a float, as most do.
    return ResultDocument(
        content_hash=content_hash, embedding=vector, score=1 / 3, attribution=(statement,)
    )
