"""Signatures that are good for one kind of message only.

What is signed is never the bare payload but

    "zerorag-p2p signature" 00  length(domain) domain  payload

with the domain's length in one byte. The same key also signs libp2p's Noise handshake
("noise-libp2p-static-key:" first) and COSE structures (byte 84 first): none can be taken for
another, nor a signature of one domain for one of another.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.errors import IntegrityError
from zerorag_p2p.identity import keys
from zerorag_p2p.identity.keys import SIGNATURE_BYTES, Identity
from zerorag_p2p.model import PeerId

_CONTEXT: Final = b"zerorag-p2p signature\x00"


class Domain(enum.StrEnum):
    """Kinds of signed messages; the number changes with the meaning of the payload."""

    PEER_RECORD = "zerorag/peer-record/1"
    ROSTER = "zerorag/roster/1"
    JOIN_REQUEST = "zerorag/join-request/1"
    HAND_OVER = "zerorag/hand-over/1"
    ADVERTISEMENT = "zerorag/advertisement/1"
    WITHDRAWAL = "zerorag/withdrawal/1"
    AUDIT_HEAD = "zerorag/audit-head/1"
    AUDIT_PURGE = "zerorag/audit-purge/1"
    # The three below are the external data of COSE messages (identity.cose).
    STATEMENT = "zerorag/statement/1"
    CUSTODY = "zerorag/custody/1"
    RELEASE = "zerorag/release/1"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload and the peer whose signature over it was verified."""

    signer: PeerId
    payload: bytes


def signing_input(domain: Domain, payload: bytes) -> bytes:
    """The bytes that are signed for a payload in a domain."""
    label = domain.value.encode("ascii")
    return _CONTEXT + bytes([len(label)]) + label + payload


def seal(identity: Identity, domain: Domain, payload: bytes) -> bytes:
    """Sign a payload and pack it with its signer and signature."""
    return cbor.encode(
        {
            "payload": payload,
            "signer": identity.peer_id,
            "signature": identity.sign(signing_input(domain, payload)),
        }
    )


def open_envelope(data: bytes, domain: Domain, *, limit: int) -> Envelope:
    """Verify an envelope of at most `limit` bytes.

    Raises:
        DecodeError: It is malformed or too long.
        IntegrityError: The signature is not the signer's for this payload and domain.
    """
    reader = cbor.MapReader(cbor.decode(data, limit=limit), "envelope")
    payload = reader.binary("payload", max_bytes=limit)
    signer = keys.parse_peer_id(reader.text("signer", max_bytes=keys.PEER_ID_CHARACTERS))
    signature = reader.binary("signature", min_bytes=SIGNATURE_BYTES, max_bytes=SIGNATURE_BYTES)
    reader.finish()
    if not keys.verify(signer, signature, signing_input(domain, payload)):
        raise IntegrityError(f"the signature is not {signer}'s for {domain.value}")
    return Envelope(signer, payload)
