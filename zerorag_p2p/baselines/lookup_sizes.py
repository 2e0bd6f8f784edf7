"""How long the messages of a distributed hash table are.

Every size is measured on one encoded message. Lists of more than 23 items take one to four bytes
more than is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass

from zerorag_p2p import cbor
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.model import hash_content
from zerorag_p2p.wire.embedding import encode_embedding
from zerorag_p2p.workloads.query_sizes import (
    EXAMPLE,
    EXAMPLE_ADDRESS,
    FRAME_HEADER_BYTES,
    example_vector,
)


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
        record = sign_record(EXAMPLE, [EXAMPLE_ADDRESS], 1)
        peer = {"peer": EXAMPLE.peer_id, "record": record}
        fields = {
            "content-hash": bytes.fromhex(hash_content(b"")),
            "embedding": encode_embedding(example_vector(dimension)),
        }
        no_peers = _size({"type": "peers", "peers": []})
        no_documents = _size({"type": "value", "documents": []})
        no_holders = _size({"type": "value", "documents": [{**fields, "holders": []}]})
        one_holder = _size(
            {"type": "value", "documents": [{**fields, "holders": [EXAMPLE.peer_id]}]}
        )
        return cls(
            request=FRAME_HEADER_BYTES + _size({"type": "find-value", "key": key}),
            empty_peers=FRAME_HEADER_BYTES + no_peers,
            peer=_size({"type": "peers", "peers": [peer]}) - no_peers,
            empty_value=FRAME_HEADER_BYTES + no_documents,
            document=no_holders - no_documents,
            holder=one_holder - no_holders,
            store=FRAME_HEADER_BYTES + _size({"type": "store", "key": key, **fields}),
            stored=FRAME_HEADER_BYTES + _size({"type": "stored"}),
        )


def _size(fields: dict[str, object]) -> int:
    return len(cbor.encode(fields))
