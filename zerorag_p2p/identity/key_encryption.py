"""Key files that a passphrase protects (keys/README.md).

Four lines: a header, the peer id, how the key is derived from the passphrase (scrypt, RFC 7914: its
cost, block size, parallelism and salt), and the seed, sealed (ChaCha20-Poly1305, RFC 8439). The
first three lines are authenticated with the seed, so none of them can be exchanged. Every file
has a salt of its own, hence a key that seals once only, and the nonce is zero.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from zerorag_p2p.errors import DecodeError, KeyFileError, WrongPassphrase
from zerorag_p2p.identity.keys import SEED_BYTES, Identity, decode_key_file, parse_peer_id
from zerorag_p2p.model import PeerId

SALT_BYTES: Final = 32

#: Longest passphrase, in bytes, and the shortest that a key is encrypted with.
MAX_PASSPHRASE_BYTES: Final = 1_024
MIN_PASSPHRASE_BYTES: Final = 8

#: OWASP's password storage cheat sheet (2024): scrypt with 128 MiB; half a second on a server.
SCRYPT_COST: Final = 1 << 17
SCRYPT_BLOCK_SIZE: Final = 8
SCRYPT_PARALLELISM: Final = 1

#: The most that a key file may ask for, so that a strange one cannot exhaust the memory: 1 GiB.
_MAX_COST: Final = 1 << 20

_HEADER: Final = "zerorag-p2p encrypted private key 1"
_DERIVATION: Final = re.compile(r"scrypt ([0-9]{1,8}) 8 1 ([A-Za-z0-9+/]{43}=)")
_NONCE: Final = bytes(12)


def is_encrypted(data: bytes) -> bool:
    """Whether a key file is one that needs a passphrase."""
    return data.startswith(_HEADER.encode("ascii") + b"\n")


def key_file_peer(data: bytes) -> PeerId:
    """The peer id that a key file names, encrypted or not; no passphrase is needed.

    Raises:
        KeyFileError: It is no key file, or damaged.
    """
    if not is_encrypted(data):
        return decode_key_file(data).peer_id
    _, peer, _, _ = _split(data)
    return peer


def encrypt_key_file(
    identity: Identity, passphrase: bytes, salt: bytes, *, cost: int = SCRYPT_COST
) -> bytes:
    """Write a private key as an encrypted key file.

    Args:
        identity: The key.
        passphrase: At least `MIN_PASSPHRASE_BYTES`.
        salt: `SALT_BYTES` random bytes, used for this file only.
        cost: Scrypt's N, a power of two; a test may take less than the default.

    Raises:
        KeyFileError: The passphrase is too short or too long.
    """
    if not MIN_PASSPHRASE_BYTES <= len(passphrase) <= MAX_PASSPHRASE_BYTES:
        raise KeyFileError(
            f"a passphrase has {MIN_PASSPHRASE_BYTES} to {MAX_PASSPHRASE_BYTES} bytes, this one "
            f"{len(passphrase)}"
        )
    assert len(salt) == SALT_BYTES, "the caller draws the salt"
    salt_text = base64.b64encode(salt).decode("ascii")
    head = (
        f"{_HEADER}\npeer {identity.peer_id}\n"
        f"scrypt {cost} {SCRYPT_BLOCK_SIZE} {SCRYPT_PARALLELISM} {salt_text}\n"
    ).encode("ascii")
    sealed = ChaCha20Poly1305(_derive(passphrase, salt, cost)).encrypt(_NONCE, identity.seed, head)
    return head + b"sealed " + base64.b64encode(sealed) + b"\n"


def decrypt_key_file(data: bytes, passphrase: bytes) -> Identity:
    """Read what `encrypt_key_file` wrote. An error never shows what the file holds.

    Raises:
        WrongPassphrase: The passphrase is not the one, or the file was changed.
        KeyFileError: The file is of another kind, or damaged.
    """
    head, peer, (cost, salt), sealed = _split(data)
    try:
        seed = ChaCha20Poly1305(_derive(passphrase, salt, cost)).decrypt(_NONCE, sealed, head)
    except InvalidTag:
        raise WrongPassphrase(
            "the passphrase does not open the key: try another one, or restore a backup if the "
            "file was changed"
        ) from None
    identity = Identity.from_seed(seed)
    if identity.peer_id != peer:
        raise KeyFileError("the key file is damaged: peer and seed do not match; restore a backup")
    return identity


def _split(data: bytes) -> tuple[bytes, PeerId, tuple[int, bytes], bytes]:
    """What is authenticated, the peer, cost and salt, and the sealed seed."""
    try:
        header, peer_line, derivation_line, sealed_line, end = data.decode("ascii").split("\n")
        peer = parse_peer_id(peer_line.removeprefix("peer "))
        derivation = _DERIVATION.fullmatch(derivation_line)
        sealed = base64.b64decode(sealed_line.removeprefix("sealed "), validate=True)
    except (ValueError, DecodeError, binascii.Error):
        raise _damaged() from None
    if (
        header != _HEADER
        or end
        or not peer_line.startswith("peer ")
        or derivation is None
        or not sealed_line.startswith("sealed ")
        or len(sealed) != SEED_BYTES + 16
    ):
        raise _damaged()
    cost, salt = int(derivation[1]), base64.b64decode(derivation[2])
    if not 2 <= cost <= _MAX_COST or cost & (cost - 1):
        raise _damaged()
    return data[: -len(sealed_line) - 1], peer, (cost, salt), sealed


def _damaged() -> KeyFileError:
    return KeyFileError("the encrypted key file is damaged: restore it from a backup")


def _derive(passphrase: bytes, salt: bytes, cost: int) -> bytes:
    kdf = Scrypt(salt=salt, length=32, n=cost, r=SCRYPT_BLOCK_SIZE, p=SCRYPT_PARALLELISM)
    return kdf.derive(passphrase)
