"""What the messages have in common: their encoding within a limit, and the fields they share."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

from zerorag_p2p import cbor
from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import MAX_CHAIN_LINKS, MAX_DEADLINE_MS, MAX_NAME_BYTES, MAX_STATEMENT_BYTES
from zerorag_p2p.errors import LocalError
from zerorag_p2p.identity.fields import read_digest
from zerorag_p2p.model import HASH_PREFIX_DIGITS, ContentHash, HashPrefix, Score

PREFIX_BYTES: Final = HASH_PREFIX_DIGITS // 2

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


def encode_message(fields: dict[str, object], *, limit: int) -> bytes:
    """Encode a message.

    Raises:
        LocalError: It is longer than the protocol allows.
    """
    data = cbor.encode(fields)
    if len(data) > limit:
        raise LocalError(
            f"a {fields['type']} message of {len(data)} bytes exceeds the limit of {limit}; "
            "ask for less or send fewer items"
        )
    return data


def read_message(
    data: bytes, *, limit: int, what: str, types: Sequence[str]
) -> tuple[str, MapReader]:
    """Decode a message: its type, one of `types`, and a reader of its other fields.

    Raises:
        DecodeError: It is longer than `limit`, malformed, or of another type.
    """
    reader = MapReader(cbor.decode(data, limit=limit), what)
    message_type = reader.text("type", max_bytes=MAX_NAME_BYTES)
    if message_type not in types:
        reader.fail(f"'type' is not {' or '.join(map(repr, types))}")
    return message_type, reader


def read_choice(reader: MapReader, key: str, kind: type[_Choice]) -> _Choice:
    """Take a text that is one of the values of `kind`."""
    value = reader.text(key, max_bytes=MAX_NAME_BYTES)
    try:
        return kind(value)
    except ValueError:
        reader.fail(f"{key!r} is not one of {', '.join(kind)}")


def read_content_hash(reader: MapReader, key: str) -> ContentHash:
    """Take a content hash."""
    return ContentHash(read_digest(reader, key))


def read_deadline(reader: MapReader) -> int:
    """Take `deadline-ms`: how long the asker still waits, in milliseconds."""
    return reader.integer("deadline-ms", minimum=1, maximum=MAX_DEADLINE_MS)


def prefix_bytes(prefix: HashPrefix) -> bytes:
    """The wire form of the prefix of a content hash."""
    return bytes.fromhex(prefix)


def read_prefix(reader: MapReader, key: str) -> HashPrefix:
    """Take the prefix of a content hash."""
    return HashPrefix(reader.binary(key, min_bytes=PREFIX_BYTES, max_bytes=PREFIX_BYTES).hex())


def item_readers(
    reader: MapReader, key: str, *, max_items: int, min_items: int = 0
) -> Iterable[MapReader]:
    """Take a list of any values; each is the field `key` of a reader of its own."""
    items = reader.items(key, min_items=min_items, max_items=max_items)
    return (MapReader({key: item}, f"item of {key!r}") for item in items)


def map_readers(
    reader: MapReader, key: str, *, min_items: int = 0, max_items: int
) -> Iterable[MapReader]:
    """Take a list of maps: a reader of each."""
    what = f"item of {key!r}"
    items = reader.items(key, min_items=min_items, max_items=max_items)
    return (MapReader(item, what) for item in items)


def read_attribution(reader: MapReader) -> tuple[bytes, ...]:
    """Take `attribution`: the owner's statement, then custody statements, oldest first."""
    key = "attribution"
    links = item_readers(reader, key, min_items=1, max_items=MAX_CHAIN_LINKS)
    return tuple(link.binary(key, min_bytes=1, max_bytes=MAX_STATEMENT_BYTES) for link in links)


def refuse_repeats(reader: MapReader, key: str, values: Sequence[Hashable]) -> None:
    """Fail when a value that `key` lists occurs twice."""
    if len(set(values)) != len(values):
        reader.fail(f"{key!r} lists something twice")


def wire_score(score: Score) -> float:
    """A score as it is sent: from -1 to 1, which rounding may have left."""
    return float(min(1.0, max(-1.0, score)))


def read_score(reader: MapReader, key: str) -> Score:
    """Take a score from -1 to 1."""
    return reader.number(key, minimum=-1.0, maximum=1.0)
