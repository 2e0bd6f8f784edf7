"""Attribution: who owns a document version, under which terms, and through whose hands it came.

The owner signs a statement about every document version. A peer that keeps a copy appends a
custody statement that names the hash of the link before it, so the links form a chain that can be
verified offline (protocols/attribution). All are COSE_Sign1 messages, told apart by the domain in
their external data.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zerorag_p2p import cbor
from zerorag_p2p.config import MAX_CHAIN_LINKS, MAX_STATEMENT_BYTES
from zerorag_p2p.errors import AttributionError, IntegrityError
from zerorag_p2p.identity import cose, fields
from zerorag_p2p.identity.envelope import Domain
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash, PeerId, SharingTerms


class Fault(enum.StrEnum):
    """What can be wrong with a document that another peer sent."""

    MALFORMED = "malformed"
    SIGNATURE_INVALID = "signature-invalid"
    OWNER_MISMATCH = "owner-mismatch"
    CHAIN_BROKEN = "chain-broken"
    CHAIN_FULL = "chain-full"
    COPY_NOT_ALLOWED = "copy-not-allowed"
    RESHARING_NOT_ALLOWED = "resharing-not-allowed"
    OTHER_DOCUMENT = "other-document"
    OTHER_EMBEDDING = "other-embedding"
    WRONG_CONSORTIUM = "wrong-consortium"
    DATED_IN_FUTURE = "dated-in-future"
    OWNER_NOT_MEMBER = "owner-not-member"
    CUSTODIAN_NOT_MEMBER = "custodian-not-member"
    TERMS_EXPIRED = "terms-expired"
    WITHDRAWN = "withdrawn"
    RELEASE_MISSING = "release-missing"
    RELEASE_BY_OTHER_SENDER = "release-by-other-sender"
    SENDER_NOT_HOLDER = "sender-not-holder"
    SENDER_NOT_MEMBER = "sender-not-member"
    RELEASE_FOR_OTHER_RECEIVER = "release-for-other-receiver"
    RELEASE_OF_OTHER_DOCUMENT = "release-of-other-document"
    PURPOSE_NOT_ALLOWED = "purpose-not-allowed"
    CONTENT_HASH_MISMATCH = "content-hash-mismatch"
    RELEASE_OF_OTHER_BYTES = "release-of-other-bytes"


@dataclass(frozen=True, slots=True)
class Statement:
    """The owner's statement about one document version.

    Attributes:
        content_hash: The version: SHA-256 of its canonical content.
        owner: The peer that signed.
        embedding_hash: Hash of the embedding the owner computed (`embedding_hash`), 64
            hexadecimal digits.
        fingerprint: Digest of the embedding's fingerprint, 64 hexadecimal digits.
        collection: The owner's collection.
        terms: What a receiver may do with a copy.
        issued_at: Unix seconds.
        consortium: The consortium that the statement is for.
    """

    content_hash: ContentHash
    owner: PeerId
    embedding_hash: str
    fingerprint: str
    collection: str
    terms: SharingTerms
    issued_at: int
    consortium: str

    def to_json(self) -> dict[str, Any]:
        """The statement as JSON, digests in hexadecimal."""
        return {
            "content-hash": self.content_hash,
            "owner": self.owner,
            "embedding-hash": self.embedding_hash,
            "fingerprint": self.fingerprint,
            "collection": self.collection,
            "terms": _terms_to_map(self.terms),
            "issued-at": self.issued_at,
            "consortium": self.consortium,
        }


@dataclass(frozen=True, slots=True)
class Custody:
    """A peer's statement that it keeps a copy.

    Attributes:
        previous: SHA-256 of the link before this one, whole, 64 hexadecimal digits.
        custodian: The peer that signed.
        received_at: Unix seconds.
    """

    previous: str
    custodian: PeerId
    received_at: int

    def to_json(self) -> dict[str, Any]:
        """The custody statement as JSON, the digest in hexadecimal."""
        return {
            "previous": self.previous,
            "custodian": self.custodian,
            "received-at": self.received_at,
        }


@dataclass(frozen=True, slots=True)
class Chain:
    """A verified chain: the owner's statement and the custodians, the present one last."""

    statement: Statement
    custodians: tuple[Custody, ...]

    def to_json(self) -> dict[str, Any]:
        """The chain as JSON."""
        return {
            "statement": self.statement.to_json(),
            "custodians": [custody.to_json() for custody in self.custodians],
        }

    @property
    def holder(self) -> PeerId:
        """The peer that the chain ends with: the last custodian, or the owner."""
        return self.custodians[-1].custodian if self.custodians else self.statement.owner


def embedding_hash(wire_bytes: bytes) -> str:
    """Hash an embedding in its canonical int8 encoding (`wire.embedding.int8_wire_bytes`)."""
    return hashlib.sha256(wire_bytes).hexdigest()


def link_hash(link: bytes) -> str:
    """Hash a link of a chain, for the link after it to name."""
    return hashlib.sha256(link).hexdigest()


def sign_statement(
    identity: Identity,
    *,
    content_hash: ContentHash,
    embedding_hash: str,
    fingerprint: str,
    collection: str,
    terms: SharingTerms,
    consortium: str,
    now: float,
) -> bytes:
    """Sign a document version as its owner; the first link of its chain.

    Raises:
        UsageError: A name is empty, too long or not printable.
    """
    payload = cbor.encode(
        {
            "content-hash": bytes.fromhex(content_hash),
            "owner": identity.peer_id,
            "embedding-hash": bytes.fromhex(embedding_hash),
            "fingerprint": bytes.fromhex(fingerprint),
            "collection": collection,
            "terms": _terms_to_map(terms),
            "issued-at": int(now),
            "consortium": consortium,
        }
    )
    with fields.refusing_own_mistakes():
        _decode_statement(payload)
    return cose.sign1(identity, payload, aad=Domain.STATEMENT.encode())


def open_statement(data: bytes) -> Statement:
    """Verify an owner's statement.

    Raises:
        DecodeError: It is malformed.
        AttributionError: The signature does not verify, or is not the owner's.
    """
    signer, payload = verify_message(data, Domain.STATEMENT, limit=MAX_STATEMENT_BYTES)
    statement = _decode_statement(payload)
    if signer != statement.owner:
        raise AttributionError(
            Fault.OWNER_MISMATCH, f"the statement names {statement.owner}, but {signer} signed it"
        )
    return statement


def read_statement(data: bytes) -> Statement:
    """Read a statement that is not in doubt, one of our own for instance, without verifying it.

    Raises:
        DecodeError: It is malformed.
    """
    return _decode_statement(cose.payload(data, limit=MAX_STATEMENT_BYTES))


def sign_custody(identity: Identity, previous_link: bytes, now: float) -> bytes:
    """Sign that `identity` keeps a copy; the link to append after `previous_link`."""
    payload = cbor.encode(
        {
            "previous": bytes.fromhex(link_hash(previous_link)),
            "custodian": identity.peer_id,
            "received-at": int(now),
        }
    )
    return cose.sign1(identity, payload, aad=Domain.CUSTODY.encode())


def open_custody(data: bytes) -> Custody:
    """Verify a custody statement by itself; `verify_chain` checks its place.

    Raises:
        DecodeError: It is malformed.
        AttributionError: The signature does not verify, or is not the custodian's.
    """
    signer, payload = verify_message(data, Domain.CUSTODY, limit=MAX_STATEMENT_BYTES)
    reader = cbor.MapReader(cbor.decode(payload, limit=MAX_STATEMENT_BYTES), "custody")
    custody = Custody(
        previous=fields.read_digest(reader, "previous"),
        custodian=fields.read_peer(reader, "custodian"),
        received_at=fields.read_time(reader, "received-at"),
    )
    reader.finish()
    if signer != custody.custodian:
        raise AttributionError(
            Fault.CHAIN_BROKEN, f"the custody of {custody.custodian} is signed by {signer}"
        )
    return custody


def verify_chain(links: Sequence[bytes]) -> Chain:
    """Verify a statement and the custody statements after it, all that can be told offline.

    Every link is signed by whom it names and names the link before it; nobody holds the document
    twice; times do not go back; nobody took custody against the owner's terms or after their end.

    Raises:
        DecodeError: A link is malformed.
        AttributionError: The first fault found.
    """
    if not 1 <= len(links) <= MAX_CHAIN_LINKS:
        raise AttributionError(
            Fault.MALFORMED, f"a chain has 1 to {MAX_CHAIN_LINKS} links, this one {len(links)}"
        )
    statement = open_statement(links[0])
    custodians: list[Custody] = []
    holders = [statement.owner]
    received_at = statement.issued_at
    for previous, link in itertools.pairwise(links):
        custody = open_custody(link)
        if custody.previous != link_hash(previous):
            raise AttributionError(
                Fault.CHAIN_BROKEN, f"the custody of {custody.custodian} follows another link"
            )
        if custody.custodian in holders:
            raise AttributionError(
                Fault.CHAIN_BROKEN, f"{custody.custodian} holds the document twice"
            )
        if custody.received_at < received_at:
            raise AttributionError(
                Fault.CHAIN_BROKEN,
                f"{custody.custodian} received the document before {holders[-1]} held it",
            )
        _check_custody_allowed(statement, custody, first=not custodians)
        custodians.append(custody)
        holders.append(custody.custodian)
        received_at = custody.received_at
    return Chain(statement, tuple(custodians))


def _check_custody_allowed(statement: Statement, custody: Custody, *, first: bool) -> None:
    terms = statement.terms
    if not terms.copy:
        raise AttributionError(
            Fault.COPY_NOT_ALLOWED,
            f"{custody.custodian} keeps a copy that {statement.owner} does not allow",
        )
    if not first and not terms.reshare:
        raise AttributionError(
            Fault.RESHARING_NOT_ALLOWED,
            f"{custody.custodian} had a copy from a peer that was not allowed to pass it on",
        )
    if terms.expires_at is not None and custody.received_at >= terms.expires_at:
        raise AttributionError(
            Fault.TERMS_EXPIRED, f"{custody.custodian} took a copy after the terms had ended"
        )


def verify_message(data: bytes, domain: Domain, *, limit: int) -> tuple[PeerId, bytes]:
    """Verify a COSE message of one domain; return its signer and payload.

    Raises:
        DecodeError: It is malformed.
        AttributionError: The signature does not verify.
    """
    try:
        return cose.verify1(data, aad=domain.encode(), limit=limit)
    except IntegrityError as error:
        raise AttributionError(Fault.SIGNATURE_INVALID, f"{domain.value}: {error}") from None


def _decode_statement(payload: bytes) -> Statement:
    reader = cbor.MapReader(cbor.decode(payload, limit=MAX_STATEMENT_BYTES), "statement")
    statement = Statement(
        content_hash=ContentHash(fields.read_digest(reader, "content-hash")),
        owner=fields.read_peer(reader, "owner"),
        embedding_hash=fields.read_digest(reader, "embedding-hash"),
        fingerprint=fields.read_digest(reader, "fingerprint"),
        collection=fields.read_name(reader, "collection"),
        terms=_read_terms(reader.map("terms")),
        issued_at=fields.read_time(reader, "issued-at"),
        consortium=fields.read_name(reader, "consortium"),
    )
    reader.finish()
    return statement


def _terms_to_map(terms: SharingTerms) -> dict[str, Any]:
    value: dict[str, Any] = {
        "copy": terms.copy,
        "reshare": terms.reshare,
        "purposes": [purpose.value for purpose in terms.purposes],
    }
    if terms.expires_at is not None:
        value["expires-at"] = terms.expires_at
    return value


def _read_terms(reader: cbor.MapReader) -> SharingTerms:
    terms = SharingTerms(
        copy=reader.boolean("copy"),
        reshare=reader.boolean("reshare"),
        purposes=fields.read_purposes(reader, "purposes"),
        expires_at=fields.read_time(reader, "expires-at") if reader.has("expires-at") else None,
    )
    reader.finish()
    return terms
