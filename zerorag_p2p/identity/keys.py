"""Ed25519 keys and the peer ids that libp2p derives from them.

A peer id is the identity multihash of the protobuf-encoded public key in base58btc (libp2p
specification, peer-ids.md), so it holds the public key itself: whoever knows a peer id can verify
that peer's signatures.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import Final

import base58
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from zerorag_p2p.errors import DecodeError, KeyFileError
from zerorag_p2p.model import PeerId

SEED_BYTES: Final = 32
PUBLIC_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

#: Characters of every Ed25519 peer id.
PEER_ID_CHARACTERS: Final = 52

#: Longest key file, in bytes; a whole one has about 160.
KEY_FILE_LIMIT: Final = 1024

# Identity multihash (00) of 36 bytes (24): a protobuf of key type (08) Ed25519 (01) and, as data
# (12), 32 bytes (20).
_CACHED_KEYS: Final = 16_384  # more than a roster has members
_MULTIHASH_PREFIX: Final = bytes.fromhex("002408011220")
_KEY_FILE_HEADER: Final = "zerorag-p2p private key 1"


class Identity:
    """A private key and what follows from it. Its text form never shows the secret."""

    __slots__ = ("_key", "peer_id", "public_key")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw()
        self.peer_id = peer_id_from_public_key(self.public_key)

    @classmethod
    def generate(cls) -> Identity:
        """Make a new identity from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> Identity:
        """Rebuild the identity of a 32-byte seed (RFC 8032's private key).

        Raises:
            KeyFileError: The seed has another length.
        """
        if len(seed) != SEED_BYTES:
            raise KeyFileError(f"a private key has {SEED_BYTES} bytes, this one {len(seed)}")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def seed(self) -> bytes:
        """The secret, 32 bytes."""
        return self._key.private_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Sign exactly these bytes, 64 bytes; see `identity.envelope` for what to sign."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"<Identity {self.peer_id}>"


def peer_id_from_public_key(raw: bytes) -> PeerId:
    """Derive the peer id of a raw Ed25519 public key, 32 bytes.

    Raises:
        DecodeError: The key has another length.
    """
    if len(raw) != PUBLIC_KEY_BYTES:
        raise DecodeError(f"a public key has {PUBLIC_KEY_BYTES} bytes, this one {len(raw)}")
    return PeerId(base58.b58encode(_MULTIHASH_PREFIX + raw).decode("ascii"))


@lru_cache(maxsize=_CACHED_KEYS)
def public_key_of(peer: PeerId) -> bytes:
    """The raw Ed25519 public key inside a peer id, 32 bytes.

    Raises:
        DecodeError: The text is not an Ed25519 peer id.
    """
    # base58 accepts surrounding white space; a fixed length and the alphabet leave it no room.
    try:
        multihash: bytes = base58.b58decode(peer) if len(peer) == PEER_ID_CHARACTERS else b""
    except ValueError:
        multihash = b""
    if (
        len(multihash) != len(_MULTIHASH_PREFIX) + PUBLIC_KEY_BYTES
        or not multihash.startswith(_MULTIHASH_PREFIX)
        or not peer.isalnum()
    ):
        raise DecodeError(f"{peer[:64]!r} is not an Ed25519 peer id (12D3KooW...)")
    return multihash[len(_MULTIHASH_PREFIX) :]


def parse_peer_id(text: str) -> PeerId:
    """Check that a text is an Ed25519 peer id in its one base58 form.

    Raises:
        DecodeError: It is not.
    """
    public_key_of(PeerId(text))
    return PeerId(text)


def verify(peer: PeerId, signature: bytes, message: bytes) -> bool:
    """Whether `signature` is `peer`'s over exactly `message`.

    Raises:
        DecodeError: `peer` is not an Ed25519 peer id.
    """
    key = Ed25519PublicKey.from_public_bytes(public_key_of(peer))
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def encode_key_file(identity: Identity) -> bytes:
    """Write a private key as the text that a key file holds.

    Three lines: a header, the peer id, the seed in base64. The peer id tells whose key it is and
    shows damage to the seed.
    """
    seed = base64.b64encode(identity.seed).decode("ascii")
    return f"{_KEY_FILE_HEADER}\npeer {identity.peer_id}\nseed {seed}\n".encode("ascii")


def decode_key_file(data: bytes) -> Identity:
    """Read what `encode_key_file` wrote. An error never shows what the file holds.

    Raises:
        KeyFileError: The file is of another kind or version, or damaged.
    """
    try:
        header, peer_line, seed_line, end = data.decode("ascii").split("\n")
    except ValueError:
        raise KeyFileError("not a key file: expected a header, a peer and a seed line") from None
    if header != _KEY_FILE_HEADER or end:
        raise KeyFileError(f"not a key file: its first line has to be {_KEY_FILE_HEADER!r}")
    peer_label, _, peer = peer_line.partition(" ")
    seed_label, _, seed_text = seed_line.partition(" ")
    try:
        seed = base64.b64decode(seed_text, validate=True)
    except binascii.Error:
        seed = b""
    if (peer_label, seed_label) != ("peer", "seed") or len(seed) != SEED_BYTES:
        raise KeyFileError("the key file is damaged: restore it from a backup")
    identity = Identity.from_seed(seed)
    if identity.peer_id != peer:
        raise KeyFileError("the key file is damaged: peer and seed do not match; restore a backup")
    return identity
