"""Withdrawals: an owner takes back what it stated about its documents.

A withdrawal is a payload in an envelope (`identity.envelope`) that the owner seals. Gossip carries
it to everybody (protocols/gossip); holders delete their copies, and what it concerns verifies no
more. It concerns statements up to its date, so a newer one makes a document valid again, and
replaying the withdrawal changes nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zerorag_p2p import cbor
from zerorag_p2p.config import (
    MAX_HELD_WITHDRAWALS,
    MAX_INTEGER,
    MAX_OWNER_WITHDRAWALS,
    MAX_WITHDRAWN,
    WITHDRAWAL_LIMIT,
)
from zerorag_p2p.errors import IntegrityError
from zerorag_p2p.identity import fields
from zerorag_p2p.identity.attribution import Statement
from zerorag_p2p.identity.envelope import Domain, open_envelope, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash, PeerId

#: Bytes of the digest that names a withdrawal, and of the one that names all that are held.
DIGEST_BYTES: Final = 8
SUMMARY_BYTES: Final = 16

_Target: TypeAlias = tuple[PeerId, str | None, ContentHash | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """An owner's word that documents are not to be found, fetched or passed on any more.

    Attributes:
        owner: Who stated them, and seals this.
        consortium: The consortium that the statements are for.
        documents: Content hashes, each once, at most 32; empty for every document of `collection`.
        collection: The owner's collection; None for `documents` in whatever collection.
        issued_at: Unix seconds. It concerns what the owner signed up to then.
        expires_at: Unix seconds until which it has to be remembered: the latest end of the terms
            that it ends.
    """

    owner: PeerId
    consortium: str
    documents: tuple[ContentHash, ...] = ()
    collection: str | None = None
    issued_at: int
    expires_at: int

    def covers(self, statement: Statement) -> bool:
        """Whether it takes back a statement."""
        return (
            statement.owner == self.owner
            and statement.consortium == self.consortium
            and self.concerns(statement.content_hash, statement.collection, statement.issued_at)
        )

    def concerns(self, content_hash: ContentHash, collection: str, issued_at: int) -> bool:
        """Whether it takes back what its owner stated about a document of a collection."""
        return (
            issued_at <= self.issued_at
            and (not self.documents or content_hash in self.documents)
            and self.collection in {None, collection}
        )

    def to_json(self) -> dict[str, Any]:
        """The withdrawal as JSON."""
        return {
            "owner": self.owner,
            "consortium": self.consortium,
            "documents": list(self.documents),
            "collection": self.collection,
            "issued-at": self.issued_at,
            "expires-at": self.expires_at,
        }

    def describe(self) -> str:
        """What it concerns, for people: "2 documents of collection 'wards'"."""
        count = len(self.documents)
        what = "everything" if not count else f"{count} document{'s' * (count != 1)}"
        return what if self.collection is None else f"{what} of collection {self.collection!r}"

    def targets(self) -> list[_Target]:
        """What it concerns: an owner's collection, a document, or a document of a collection."""
        documents: Sequence[ContentHash | None] = self.documents or (None,)
        return [(self.owner, self.collection, document) for document in documents]


def encode_withdrawal(withdrawal: Withdrawal) -> bytes:
    """Encode the payload of a withdrawal, to be sealed by the owner.

    Raises:
        UsageError: A field is out of bounds.
    """
    value: dict[str, object] = {
        "owner": withdrawal.owner,
        "consortium": withdrawal.consortium,
        "issued-at": withdrawal.issued_at,
        "expires-at": withdrawal.expires_at,
    }
    if withdrawal.documents:
        value["documents"] = [bytes.fromhex(document) for document in withdrawal.documents]
    if withdrawal.collection is not None:
        value["collection"] = withdrawal.collection
    payload = cbor.encode(value)
    with fields.refusing_own_mistakes():
        decode_withdrawal(payload)
    return payload


def decode_withdrawal(payload: bytes) -> Withdrawal:
    """Decode the payload of a withdrawal; `open_withdrawal` verifies its seal.

    Raises:
        DecodeError: It is malformed.
    """
    reader = cbor.MapReader(cbor.decode(payload, limit=WITHDRAWAL_LIMIT), "withdrawal")
    documents: tuple[ContentHash, ...] = ()
    if reader.has("documents"):
        digests = fields.read_digests(reader, "documents", min_items=1, max_items=MAX_WITHDRAWN)
        documents = tuple(map(ContentHash, digests))
    collection = fields.read_name(reader, "collection") if reader.has("collection") else None
    if not documents and collection is None:
        reader.fail("neither 'documents' nor a 'collection' is withdrawn")
    issued_at = fields.read_time(reader, "issued-at")
    withdrawal = Withdrawal(
        owner=fields.read_peer(reader, "owner"),
        consortium=fields.read_name(reader, "consortium"),
        documents=documents,
        collection=collection,
        issued_at=issued_at,
        expires_at=reader.integer("expires-at", minimum=issued_at, maximum=MAX_INTEGER),
    )
    reader.finish()
    return withdrawal


def sign_withdrawal(identity: Identity, withdrawal: Withdrawal) -> bytes:
    """Seal a withdrawal as the owner.

    Raises:
        UsageError: A field is out of bounds.
    """
    return seal(identity, Domain.WITHDRAWAL, encode_withdrawal(withdrawal))


def open_withdrawal(sealed: bytes) -> Withdrawal:
    """Verify a withdrawal by itself; `verification.check_withdrawal` holds it against a roster.

    Raises:
        DecodeError: It is malformed.
        IntegrityError: The seal does not verify, or is not the owner's.
    """
    envelope = open_envelope(sealed, Domain.WITHDRAWAL, limit=WITHDRAWAL_LIMIT)
    withdrawal = decode_withdrawal(envelope.payload)
    if envelope.signer != withdrawal.owner:
        raise IntegrityError(f"{envelope.signer} withdraws documents of {withdrawal.owner}")
    return withdrawal


def withdrawal_digest(sealed: bytes) -> bytes:
    """What a sealed withdrawal is called when peers compare what they hold."""
    return hashlib.sha256(sealed).digest()[:DIGEST_BYTES]


class WithdrawalBook:
    """Withdrawals that are in force. Out of the same ones it keeps the same, whatever their order.

    Args:
        per_owner: Most of one owner, so that nobody fills it for the others.
        limit: Most of all. Beyond a limit the one that ends first goes.
    """

    def __init__(
        self, *, per_owner: int = MAX_OWNER_WITHDRAWALS, limit: int = MAX_HELD_WITHDRAWALS
    ) -> None:
        self._per_owner = per_owner
        self._limit = limit
        self._held: dict[bytes, tuple[Withdrawal, bytes]] = {}
        self._by_target: dict[_Target, set[bytes]] = {}
        self._by_owner: dict[PeerId, set[bytes]] = {}
        self._summary: bytes | None = None
        self._next_end: float = math.inf

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, sealed: bytes) -> bool:
        return withdrawal_digest(sealed) in self._held

    def add(self, withdrawal: Withdrawal, sealed: bytes, now: float) -> bool:
        """Take in a verified withdrawal; whether it is new and kept."""
        digest = withdrawal_digest(sealed)
        if digest in self._held or now >= withdrawal.expires_at:
            return False
        self._put(digest, withdrawal, sealed)
        if len(self._by_owner[withdrawal.owner]) > self._per_owner:
            self._drop(min(self._by_owner[withdrawal.owner], key=self._rank))
        if len(self._held) > self._limit:
            fullest = max(self._by_owner, key=lambda owner: (len(self._by_owner[owner]), owner))
            self._drop(min(self._by_owner[fullest], key=self._rank))
        return digest in self._held

    def expire(self, now: float) -> bool:
        """Let go of those that have ended; whether there were any."""
        if now < self._next_end:
            return False
        ended = [
            digest for digest, (withdrawal, _) in self._held.items() if now >= withdrawal.expires_at
        ]
        for digest in ended:
            self._drop(digest)
        self._next_end = min(
            (withdrawal.expires_at for withdrawal, _ in self._held.values()), default=math.inf
        )
        return bool(ended)

    def covers(self, statement: Statement) -> bool:
        """Whether the owner has taken back a statement."""
        owner, collection = statement.owner, statement.collection
        return any(
            self._held[digest][0].covers(statement)
            for target in (
                (owner, None, statement.content_hash),
                (owner, collection, statement.content_hash),
                (owner, collection, None),
            )
            for digest in self._by_target.get(target, ())
        )

    def latest(
        self, owner: PeerId, content_hash: ContentHash | None, collection: str | None
    ) -> int:
        """When the owner last took a document of a collection back, unix seconds; -1 for never."""
        return max(
            (
                self._held[digest][0].issued_at
                for target in {
                    (owner, None, content_hash),
                    (owner, collection, content_hash),
                    (owner, collection, None),
                }
                for digest in self._by_target.get(target, ())
            ),
            default=-1,
        )

    def withdrawals(self) -> list[Withdrawal]:
        """Those in force, by the digest of each."""
        return [self._held[digest][0] for digest in sorted(self._held)]

    def digests(self) -> list[bytes]:
        """What those in force are called, ascending."""
        return sorted(self._held)

    def summary(self) -> bytes:
        """A digest of all that are held, 16 bytes; empty while there are none."""
        if self._summary is None:
            together = b"".join(self.digests())
            self._summary = hashlib.sha256(together).digest()[:SUMMARY_BYTES] if together else b""
        return self._summary

    def missing(self, known: Iterable[bytes], *, count: int) -> list[bytes]:
        """Up to `count` sealed withdrawals that are not among those called `known`."""
        others = sorted(self._held.keys() - set(known))
        return [self._held[digest][1] for digest in others[:count]]

    def sealed(self) -> list[bytes]:
        """Every sealed withdrawal, to be saved."""
        return [self._held[digest][1] for digest in sorted(self._held)]

    def _rank(self, digest: bytes) -> tuple[int, bytes]:
        return self._held[digest][0].expires_at, digest

    def _put(self, digest: bytes, withdrawal: Withdrawal, sealed: bytes) -> None:
        self._held[digest] = (withdrawal, sealed)
        self._next_end = min(self._next_end, withdrawal.expires_at)
        self._by_owner.setdefault(withdrawal.owner, set()).add(digest)
        for target in withdrawal.targets():
            self._by_target.setdefault(target, set()).add(digest)
        self._summary = None

    def _drop(self, digest: bytes) -> None:
        withdrawal, _ = self._held.pop(digest)
        owned = self._by_owner[withdrawal.owner]
        owned.discard(digest)
        if not owned:
            del self._by_owner[withdrawal.owner]
        for target in withdrawal.targets():
            self._by_target[target].discard(digest)
            if not self._by_target[target]:
                del self._by_target[target]
        self._summary = None
