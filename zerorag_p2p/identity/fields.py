"""Kinds of fields that several signed messages share, read and checked one way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import MAX_ADDRESS_BYTES, MAX_ADDRESSES, MAX_INTEGER, MAX_NAME_BYTES
from zerorag_p2p.errors import DecodeError, UsageError
from zerorag_p2p.identity.keys import PEER_ID_CHARACTERS, parse_peer_id
from zerorag_p2p.model import Fingerprint, PeerId, Purpose, View

_DIGEST_BYTES: Final = 32


def read_peer(reader: MapReader, key: str) -> PeerId:
    """Take a peer id."""
    return parse_peer_id(reader.text(key, max_bytes=PEER_ID_CHARACTERS))


def read_time(reader: MapReader, key: str) -> int:
    """Take a time in unix seconds."""
    return reader.integer(key, maximum=MAX_INTEGER)


def read_digest(reader: MapReader, key: str) -> str:
    """Take a SHA-256 digest, 32 bytes, as 64 hexadecimal digits."""
    return reader.binary(key, min_bytes=_DIGEST_BYTES, max_bytes=_DIGEST_BYTES).hex()


def read_digests(reader: MapReader, key: str, *, min_items: int, max_items: int) -> tuple[str, ...]:
    """Take a list of distinct SHA-256 digests, each as 64 hexadecimal digits."""
    items = reader.items(key, min_items=min_items, max_items=max_items)
    digests = tuple(read_digest(MapReader({key: item}, f"item of {key!r}"), key) for item in items)
    if len(set(digests)) != len(digests):
        reader.fail(f"{key!r} lists something twice")
    return digests


def read_peers(
    reader: MapReader, key: str, *, min_items: int, max_items: int
) -> tuple[PeerId, ...]:
    """Take a list of peer ids."""
    texts = _read_texts(
        reader, key, min_items=min_items, max_items=max_items, max_bytes=PEER_ID_CHARACTERS
    )
    return tuple(parse_peer_id(text) for text in texts)


def read_name(
    reader: MapReader, key: str, *, min_bytes: int = 1, max_bytes: int = MAX_NAME_BYTES
) -> str:
    """Take a text that people will see: one line of printable characters.

    Control characters are refused, for names of others end up in terminals and logs.
    """
    text = reader.text(key, min_bytes=min_bytes, max_bytes=max_bytes)
    if not text.isprintable():
        reader.fail(f"{key!r} holds a character that cannot be printed")
    return text


def read_names(reader: MapReader, key: str, *, max_items: int) -> tuple[str, ...]:
    """Take a list of distinct printable texts."""
    names = _read_texts(reader, key, max_items=max_items, max_bytes=MAX_NAME_BYTES)
    if not all(name.isprintable() for name in names):
        reader.fail(f"{key!r} holds a character that cannot be printed")
    return tuple(names)


def read_purpose(reader: MapReader, key: str) -> Purpose:
    """Take a purpose of use."""
    text = reader.text(key, max_bytes=MAX_NAME_BYTES)
    try:
        return Purpose(text)
    except ValueError:
        reader.fail(f"{key!r} holds {text!r}, which is no purpose of use")


def read_purposes(reader: MapReader, key: str) -> tuple[Purpose, ...]:
    """Take a list of distinct purposes of use."""
    texts = _read_texts(reader, key, max_items=len(Purpose), max_bytes=MAX_NAME_BYTES)
    try:
        return tuple(Purpose(text) for text in texts)
    except ValueError:
        reader.fail(f"{key!r} holds something that is no purpose of use")


def read_view(reader: MapReader, key: str) -> View:
    """Take a view."""
    text = reader.text(key, max_bytes=MAX_NAME_BYTES)
    try:
        return View(text)
    except ValueError:
        reader.fail(f"{key!r} holds {text!r}, which is no view")


def read_addresses(reader: MapReader, key: str) -> tuple[str, ...]:
    """Take a list of distinct multiaddrs in text form, without the /p2p part.

    Only the shape is checked: which protocols can be dialled is the network's business.
    """
    addresses = _read_texts(reader, key, max_items=MAX_ADDRESSES, max_bytes=MAX_ADDRESS_BYTES)
    for address in addresses:
        if fault := _address_fault(address):
            reader.fail(f"address {address!r} {fault}")
    return tuple(addresses)


def _read_texts(
    reader: MapReader, key: str, *, max_items: int, max_bytes: int, min_items: int = 0
) -> list[str]:
    texts: list[str] = []
    for item in reader.items(key, min_items=min_items, max_items=max_items):
        if not isinstance(item, str) or not 1 <= len(item.encode()) <= max_bytes:
            reader.fail(f"{key!r} holds an item that is not a text of 1 to {max_bytes} bytes")
        texts.append(item)
    if len(set(texts)) != len(texts):
        reader.fail(f"{key!r} holds an item twice")
    return texts


def _address_fault(address: str) -> str | None:
    if not all("!" <= character <= "~" for character in address):
        return "holds a character that is not printable ASCII"
    parts = address.split("/")
    if parts[0] or not all(parts[1:]):
        return "is not of the form /dns4/node.example.org/tcp/4001"
    if "p2p" in parts or "ipfs" in parts:
        return "has a peer id in it: the signature already says whose address it is"
    return None


def read_fingerprints(
    reader: MapReader, key: str, *, min_items: int, max_items: int
) -> tuple[Fingerprint, ...]:
    """Take a list of distinct embedding fingerprints, preferred first."""
    items = reader.items(key, min_items=min_items, max_items=max_items)
    fingerprints = tuple(Fingerprint.from_map(item) for item in items)
    if len(set(fingerprints)) != len(fingerprints):
        reader.fail(f"{key!r} holds a fingerprint twice")
    return fingerprints


def fingerprint_maps(fingerprints: Sequence[Fingerprint]) -> list[dict[str, str | int | bool]]:
    """The list that `read_fingerprints` reads."""
    return [fingerprint.to_map() for fingerprint in fingerprints]


@contextmanager
def refusing_own_mistakes() -> Iterator[None]:
    """Turn a decode error about a message of our own making into a `UsageError`.

    Whoever signs decodes what it is about to sign, so that nothing is signed that every receiver
    would refuse.
    """
    try:
        yield
    except DecodeError as error:
        raise UsageError(str(error)) from None
