"""COSE_Sign1 messages (RFC 9052) with EdDSA, in the one form that this project uses.

    18([ << {1: -8, 4: peer id} >>, {}, payload, signature ])

The protected header holds the algorithm and, as key id, the signer's peer id in binary (the
multihash, 38 bytes); the unprotected header is empty; the payload is inside. Everything is in its
deterministic encoding, so a verifier compares bytes up to the payload instead of parsing headers
that others wrote.
"""

from __future__ import annotations

from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.errors import DecodeError, IntegrityError
from zerorag_p2p.identity import keys
from zerorag_p2p.identity.keys import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Identity
from zerorag_p2p.model import PeerId

# {1: -8, 4: h'002408011220...'}: algorithm EdDSA; a key id of 38 bytes, a peer id up to its key.
_PROTECTED_HEAD: Final = bytes.fromhex("a2 01 27 04 58 26 00 24 08 01 12 20")
# Tag 18, a list of four, and the header of the 44-byte string that wraps the protected header.
_HEAD: Final = bytes.fromhex("d2 84 58 2c") + _PROTECTED_HEAD
_EMPTY_MAP: Final = b"\xa0"
_SIGNATURE_HEAD: Final = bytes.fromhex("58 40")
_PAYLOAD_AT: Final = len(_HEAD) + PUBLIC_KEY_BYTES + len(_EMPTY_MAP)
_TAIL_BYTES: Final = len(_SIGNATURE_HEAD) + SIGNATURE_BYTES


def sign1(identity: Identity, payload: bytes, *, aad: bytes) -> bytes:
    """Sign a payload. `aad`, the externally supplied data, is signed but not in the message."""
    protected = _PROTECTED_HEAD + identity.public_key
    signature = identity.sign(_to_be_signed(protected, aad, payload))
    head = _HEAD + identity.public_key + _EMPTY_MAP
    return head + cbor.encode(payload) + _SIGNATURE_HEAD + signature


def verify1(data: bytes, *, aad: bytes, limit: int) -> tuple[PeerId, bytes]:
    """Verify a message of at most `limit` bytes; return its signer and payload.

    Raises:
        DecodeError: It is too long or not in the one form above.
        IntegrityError: The signature is not the signer's for this payload and `aad`.
    """
    public_key, content = _parse(data, limit)
    signer = keys.peer_id_from_public_key(public_key)
    message = _to_be_signed(_PROTECTED_HEAD + public_key, aad, content)
    if not keys.verify(signer, data[-SIGNATURE_BYTES:], message):
        raise IntegrityError(f"the signature is not {signer}'s for this kind of message")
    return signer, content


def payload(data: bytes, *, limit: int) -> bytes:
    """The payload of a message of at most `limit` bytes, whose signature is not verified.

    Raises:
        DecodeError: It is too long or not in the one form above.
    """
    _, content = _parse(data, limit)
    return content


def _parse(data: bytes, limit: int) -> tuple[bytes, bytes]:
    """The public key and the payload of a message."""
    if len(data) > limit:
        raise DecodeError(f"{len(data)} bytes exceed the limit of {limit}")
    public_key = data[len(_HEAD) : len(_HEAD) + PUBLIC_KEY_BYTES]
    if (
        not data.startswith(_HEAD)
        or data[_PAYLOAD_AT - 1 : _PAYLOAD_AT] != _EMPTY_MAP
        or data[-_TAIL_BYTES:-SIGNATURE_BYTES] != _SIGNATURE_HEAD
    ):
        raise DecodeError("not a COSE_Sign1 message with EdDSA, a peer id as key id, and no more")
    content = cbor.decode(data[_PAYLOAD_AT:-_TAIL_BYTES], limit=limit)
    if not isinstance(content, bytes):
        raise DecodeError("the payload of a COSE_Sign1 message is not a byte string")
    return public_key, content


def _to_be_signed(protected: bytes, aad: bytes, payload: bytes) -> bytes:
    """Encode Sig_structure, RFC 9052 section 4.4."""
    return cbor.encode(["Signature1", protected, aad, payload])
