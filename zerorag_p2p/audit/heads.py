"""Heads: how far a log reaches, in its owner's signed words.

A head that somebody else holds, or that is kept apart from the log, shows a tail that was cut off
and a history that was rewritten. It is an envelope (identity.envelope) around

    {"sequence": uint, "hash": 32 bytes, "at": unix seconds}
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.audit.entries import DIGEST_BYTES, Position
from zerorag_p2p.config import AUDIT_HEAD_LIMIT, MAX_INTEGER
from zerorag_p2p.errors import IntegrityError
from zerorag_p2p.identity.envelope import Domain, open_envelope, seal
from zerorag_p2p.identity.fields import read_time
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import PeerId

#: Heads whose verification is remembered: a peer shows the same one until its log grows.
_CACHED_HEADS: Final = 4_096


@dataclass(frozen=True, slots=True)
class Head:
    """A log's last entry at some time.

    Attributes:
        owner: Who signed it.
        sequence: Of the entry; 0 for a log without entries.
        digest: Its hash.
        at: Unix seconds.
    """

    owner: PeerId
    sequence: int
    digest: bytes
    at: int

    @property
    def position(self) -> Position:
        """The place in the log."""
        return Position(self.sequence, self.digest)


def sign_head(identity: Identity, position: Position, at: float) -> bytes:
    """Sign that our log reaches `position`."""
    return _seal(identity, Domain.AUDIT_HEAD, position, at)


def open_head(data: bytes, *owners: PeerId) -> Head:
    """Verify a head of a log.

    Args:
        data: The head.
        owners: Keys that may have signed it: the owner's, and those it had before.

    Raises:
        DecodeError: It is malformed.
        IntegrityError: It is signed by none of `owners`.
    """
    return _open(data, Domain.AUDIT_HEAD, owners)


def seal_purge(identity: Identity, position: Position, at: float) -> bytes:
    """Sign that we removed the entries up to `position`."""
    return _seal(identity, Domain.AUDIT_PURGE, position, at)


def open_purge(data: bytes, *owners: PeerId) -> Head:
    """Verify what `seal_purge` made; arguments and errors are those of `open_head`."""
    return _open(data, Domain.AUDIT_PURGE, owners)


def _seal(identity: Identity, domain: Domain, position: Position, at: float) -> bytes:
    return seal(identity, domain, encode_head(position, at))


@lru_cache(maxsize=_CACHED_HEADS)
def _open(data: bytes, domain: Domain, owners: tuple[PeerId, ...]) -> Head:
    envelope = open_envelope(data, domain, limit=AUDIT_HEAD_LIMIT)
    if envelope.signer not in owners:
        raise IntegrityError(f"{envelope.signer} signed a head of the log of {owners[0]}")
    return decode_head(envelope.payload, envelope.signer)


def encode_head(position: Position, at: float) -> bytes:
    """Encode the payload of a head."""
    return cbor.encode({"sequence": position.sequence, "hash": position.digest, "at": int(at)})


def decode_head(payload: bytes, owner: PeerId) -> Head:
    """Decode the payload of a head whose seal, by `owner`, has been verified.

    Raises:
        DecodeError: It is malformed.
    """
    reader = cbor.MapReader(cbor.decode(payload, limit=AUDIT_HEAD_LIMIT), "audit head")
    head = Head(
        owner=owner,
        sequence=reader.integer("sequence", maximum=MAX_INTEGER),
        digest=reader.binary("hash", min_bytes=DIGEST_BYTES, max_bytes=DIGEST_BYTES),
        at=read_time(reader, "at"),
    )
    reader.finish()
    return head
