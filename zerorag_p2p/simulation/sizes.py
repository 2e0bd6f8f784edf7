"""How many bytes messages have on the wire, by what is in them, measured on encoded examples."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from zerorag_p2p.identity.attribution import sign_statement
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.model import Fingerprint, Purpose, SharingTerms, View, hash_content, hash_prefix
from zerorag_p2p.wire.advertise import (
    Advertisement,
    AdvertiseRequest,
    encode_advertise_reply,
    encode_advertise_request,
    encode_advertisement,
)
from zerorag_p2p.wire.query import (
    AdvertisedEvidence,
    QueryRequest,
    QueryResult,
    Referral,
    ResultDocument,
    encode_query,
    encode_query_result,
)

_TIME: Final = 1_700_000_000
_FRAME_HEADER: Final = 8  # length and request id, four bytes each (protocols/framing)


@dataclass(frozen=True, slots=True)
class MessageSizes:
    """Bytes, frame headers included.

    Attributes:
        request: A query.
        reply: A result with nothing in it.
        document: What a document adds to a result.
        referral: What a referral adds to it.
        advertisement: The exchange about an empty advertisement.
        advertised: What a vector adds to that.
    """

    request: int
    reply: int
    document: int
    referral: int
    advertisement: int
    advertised: int


def measure_sizes(fingerprint: Fingerprint, bits: int) -> MessageSizes:
    """Sizes for int8 embeddings of this model and advertisements of `bits` bits a dimension."""
    identity = Identity.from_seed(hashlib.sha256(b"sizes").digest())
    direction = np.zeros(fingerprint.dimension, dtype=np.float32)
    direction[0] = 1.0
    digest = fingerprint.digest()
    query = QueryRequest(
        embedding=direction,
        fingerprint=digest,
        k=5,
        budget_left=30,
        deadline_ms=10_000,
        purpose=Purpose.TREAT,
        user="",
        audit="",
        view=View.WHOLE,
        remember_until=_TIME,
    )
    content_hash = hash_content(b"sizes")
    statement = sign_statement(
        identity,
        content_hash=content_hash,
        embedding_hash=content_hash,
        fingerprint=digest,
        collection="documents",
        terms=SharingTerms(),
        consortium="consortium",
        now=_TIME,
    )
    document = ResultDocument(
        content_hash=content_hash, embedding=direction, score=0.5, attribution=(statement,)
    )
    evidence = AdvertisedEvidence(0.5, hash_prefix(content_hash))
    record = sign_record(identity, ["/ip4/192.168.100.100/tcp/4001"], 1)
    referral = Referral(identity.peer_id, record, evidence, 0.5)
    empty = len(encode_query_result(QueryResult()))

    def advertisement(count: int) -> int:
        payload = encode_advertisement(
            Advertisement(
                owner=identity.peer_id,
                fingerprint=digest,
                sequence=1,
                issued_at=_TIME,
                expires_at=_TIME + 86_400,
                bits=bits,
                entries=tuple(hash_prefix(hash_content(bytes([item]))) for item in range(count)),
                vectors=np.tile(direction, (count, 1)),
            )
        )
        return len(encode_advertise_reply(seal(identity, Domain.ADVERTISEMENT, payload)))

    one, two = advertisement(1), advertisement(2)
    asking = len(encode_advertise_request(AdvertiseRequest()))
    return MessageSizes(
        request=_FRAME_HEADER + len(encode_query(query)),
        reply=_FRAME_HEADER + empty,
        document=len(encode_query_result(QueryResult(documents=(document,)))) - empty,
        referral=len(encode_query_result(QueryResult(referrals=(referral,)))) - empty,
        advertisement=2 * _FRAME_HEADER + asking + 2 * one - two,
        advertised=two - one,
    )
