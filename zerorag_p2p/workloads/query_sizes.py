"""How long the messages of questions are, so that bytes can be counted without encoding millions.

Every size is measured on encoded examples, frame headers included (protocols/framing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zerorag_p2p.config import MAX_DEADLINE_MS
from zerorag_p2p.identity.attribution import embedding_hash, sign_statement
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import SEED_BYTES, Identity
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.model import (
    Fingerprint,
    Purpose,
    SharingTerms,
    Vector,
    View,
    hash_content,
    hash_prefix,
)
from zerorag_p2p.wire.advertise import (
    Advertisement,
    AdvertiseRequest,
    encode_advertise_reply,
    encode_advertise_request,
    encode_advertisement,
)
from zerorag_p2p.wire.embedding import int8_wire_bytes
from zerorag_p2p.wire.query import (
    AdvertisedEvidence,
    QueryRequest,
    QueryResult,
    Referral,
    ResultDocument,
    encode_query,
    encode_query_result,
)

FRAME_HEADER_BYTES: Final = 8

#: Stands for any peer in examples.
EXAMPLE: Final = Identity.from_seed(bytes(SEED_BYTES))
EXAMPLE_ADDRESS: Final = "/ip4/192.0.2.1/tcp/4001"

_NOW: Final = 1_700_000_000
_SCORE: Final = 1 / 3  # needs all eight bytes of a float, as most do


@dataclass(frozen=True, slots=True)
class QuerySizes:
    """Bytes of messages (protocols/query, protocols/advertise), embeddings as int8.

    Attributes:
        request: A question; one that tells what was found, if the algorithm does that.
        have: What a document that was found adds to it.
        empty_result: A result with nothing in it.
        document: What a document adds to a result: its vector and its owner's statement.
        referral: What a referral adds to it, with a piece of evidence of either kind.
        evidence: What another advertised document adds to a referral.
        empty_advertisement: Request and reply about an advertisement with nothing in it.
        advertised: What a vector adds to that.
    """

    request: int
    have: int
    empty_result: int
    document: int
    referral: int
    evidence: int
    empty_advertisement: int
    advertised: int

    @classmethod
    def measure(
        cls, fingerprint: Fingerprint, *, k: int, bits: int = 4, telling: bool = False
    ) -> QuerySizes:
        """The sizes for a model's vectors.

        Args:
            fingerprint: The model.
            k: Documents that a question asks for.
            bits: Bits a dimension of an advertised vector.
            telling: Whether a question tells what was found.
        """
        vector = example_vector(fingerprint.dimension)
        request = QueryRequest(
            embedding=vector,
            fingerprint=fingerprint.digest(),
            k=k,
            budget_left=0,
            deadline_ms=MAX_DEADLINE_MS,
            purpose=Purpose.TREAT,
            user="",
            audit="",
            view=View.WHOLE,
            remember_until=_NOW,
        )
        if telling:
            request = replace(request, above=_SCORE)
        found = [hash_prefix(hash_content(bytes([item]))) for item in range(2)]
        one_found, two_found = (
            len(encode_query(replace(request, have=tuple(found[:count])))) for count in (1, 2)
        )
        empty = len(encode_query_result(QueryResult()))
        document = QueryResult(documents=(_document(fingerprint, vector),))
        referral, another = (
            len(encode_query_result(QueryResult(referrals=(_referral(count),)))) for count in (1, 2)
        )
        one, two = (_advertisement(fingerprint, count, bits) for count in (1, 2))
        asking = len(encode_advertise_request(AdvertiseRequest()))
        return cls(
            request=FRAME_HEADER_BYTES + len(encode_query(request)),
            have=two_found - one_found,
            empty_result=FRAME_HEADER_BYTES + empty,
            document=len(encode_query_result(document)) - empty,
            referral=referral - empty,
            evidence=another - referral,
            empty_advertisement=2 * FRAME_HEADER_BYTES + asking + one - (two - one),
            advertised=two - one,
        )


def example_vector(dimension: int) -> Vector:
    """A vector that stands for any."""
    return np.arange(1, dimension + 1, dtype=np.float32)


def _document(fingerprint: Fingerprint, vector: Vector) -> ResultDocument:
    content_hash = hash_content(b"")
    statement = sign_statement(
        EXAMPLE,
        content_hash=content_hash,
        embedding_hash=embedding_hash(int8_wire_bytes(vector)),
        fingerprint=fingerprint.digest(),
        collection="documents",
        terms=SharingTerms(),
        consortium="consortium",
        now=_NOW,
    )
    return ResultDocument(
        content_hash=content_hash, embedding=vector, score=_SCORE, attribution=(statement,)
    )


def _referral(documents: int) -> Referral:
    evidence = tuple(
        AdvertisedEvidence(_SCORE, hash_prefix(hash_content(bytes([item]))), _SCORE)
        for item in range(documents)
    )
    record = sign_record(EXAMPLE, [EXAMPLE_ADDRESS], 1)
    return Referral(EXAMPLE.peer_id, record, evidence, _SCORE)


def _advertisement(fingerprint: Fingerprint, count: int, bits: int) -> int:
    payload = encode_advertisement(
        Advertisement(
            owner=EXAMPLE.peer_id,
            fingerprint=fingerprint.digest(),
            sequence=1,
            issued_at=_NOW,
            expires_at=_NOW + 86_400,
            bits=bits,
            entries=tuple(hash_prefix(hash_content(bytes([item]))) for item in range(count)),
            vectors=np.tile(example_vector(fingerprint.dimension), (count, 1)),
        )
    )
    return len(encode_advertise_reply(seal(EXAMPLE, Domain.ADVERTISEMENT, payload)))
