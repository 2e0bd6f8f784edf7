"""The keys of a home: looking at them, encrypting them, and putting a new one in their place."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.control import consortium
from zerorag_p2p.errors import LocalError
from zerorag_p2p.home import Home
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import open_roster, standing
from zerorag_p2p.node.files import (
    HomeLock,
    decrypt_key,
    encode_like,
    encrypt_key,
    key_is_encrypted,
    load_peer_id,
    read_passphrase,
    write_secret,
)

__all__ = ["create_authority", "decrypt", "encrypt", "read_passphrase", "rotate", "show"]

Json = dict[str, Any]

#: What the keys of a home are called.
IDENTITY: Final = "identity"
NEXT: Final = "next"
PREVIOUS: Final = "previous"
AUTHORITY: Final = "authority"


def show(home: Home) -> list[Json]:
    """Every key of the home: whose it is, whether it is encrypted, how it stands to the consortium.

    Raises:
        KeyFileError: A file cannot be read, is accessible to others or damaged.
    """
    home.require()
    roster = open_roster(consortium.read(home)) if home.roster.exists() else None
    now = time.time()
    rows = []
    for name, path in _files(home).items():
        peer = load_peer_id(path)
        member = None if roster is None else roster.member(peer)
        if roster is None:
            state = "no roster"
        elif name == AUTHORITY:
            state = "authority" if peer in roster.authorities else "no authority"
        else:
            state = standing(roster, peer, now).value
        rows.append(
            {
                "key": name,
                "peer_id": peer,
                "file": str(path),
                "encrypted": key_is_encrypted(path),
                "standing": state,
                "until": None if member is None else member.not_after,
            }
        )
    return rows


def encrypt(home: Home, passphrase: bytes, *, authority: bool = False) -> list[Json]:
    """Encrypt the node's keys, or the authority's; those that are encrypted get the new passphrase.

    Raises:
        LocalError: A node runs, or there is no such key.
        KeyFileError: A key cannot be read, or the passphrase is too short or too long.
    """
    with HomeLock(home.root, holder="a command"):
        return [
            {"key": name, "peer_id": encrypt_key(path, passphrase)}
            for name, path in _chosen(home, authority=authority).items()
        ]


def decrypt(home: Home, *, authority: bool = False) -> list[Json]:
    """Store the node's keys, or the authority's, without encryption.

    Raises:
        LocalError: A node runs, or there is no such key.
        KeyFileError: A key cannot be read, or its passphrase is wrong.
    """
    with HomeLock(home.root, holder="a command"):
        return [
            {"key": name, "peer_id": decrypt_key(path)}
            for name, path in _chosen(home, authority=authority).items()
        ]


def rotate(home: Home) -> Json:
    """Make the key that is to take the place of the node's; the node goes on with its own for now.

    Raises:
        LocalError: The home belongs to no consortium, so that its key can simply be made anew.
        KeyFileError: A rotation is under way.
    """
    home.require()
    consortium.read(home)
    if home.next_key.exists():
        raise LocalError(
            f"{home.next_key} exists: a rotation is under way; send the request of "
            "`zerorag consortium request`, or remove the file to begin again"
        )
    successor = Identity.generate()
    write_secret(home.next_key, encode_like(successor, home.key))
    return {
        "peer_id": load_peer_id(home.key),
        "next_peer_id": successor.peer_id,
        "file": str(home.next_key),
    }


def create_authority(home: Home) -> Json:
    """Make an authority's key in a home that has none, to be named when the consortium is founded.

    Raises:
        LocalError: The home is not set up.
        KeyFileError: There is one.
    """
    home.require()
    authority = Identity.generate()
    write_secret(home.authority_key, encode_like(authority, home.key))
    return {"authority": authority.peer_id, "file": str(home.authority_key)}


def _files(home: Home) -> dict[str, Path]:
    """The key files that there are, by name."""
    files = {
        IDENTITY: home.key,
        NEXT: home.next_key,
        PREVIOUS: home.previous_key,
        AUTHORITY: home.authority_key,
    }
    return {name: path for name, path in files.items() if path.exists()}


def _chosen(home: Home, *, authority: bool) -> dict[str, Path]:
    home.require()
    files = _files(home)
    chosen = {name: path for name, path in files.items() if (name == AUTHORITY) == authority}
    if not chosen:
        raise LocalError(f"{home.root} has no authority's key")
    return chosen
