"""Entries of an audit log: each holds the hash of the one before, so that the log is a chain.

An entry is a map in deterministic CBOR: its sequence, the hash of the entry before it, the time and
what happened. Its hash is SHA-256 over a label and these bytes. In a file, a frame is

    length of the map, 4 bytes, big-endian  |  map  |  hash, 32 bytes

Sequences begin at 1; before the first entry comes the hash of 32 zero bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from zerorag_p2p import cbor
from zerorag_p2p.audit.events import Event, event_fields, read_event
from zerorag_p2p.config import AUDIT_ENTRY_LIMIT, MAX_INTEGER
from zerorag_p2p.errors import AuditError, DecodeError

DIGEST_BYTES: Final = 32

#: What the first entry names as the hash of the one before.
GENESIS: Final = bytes(DIGEST_BYTES)

_LABEL: Final = b"zerorag-p2p audit entry\x00"
_LENGTH: Final = struct.Struct(">I")

#: The fields of an entry that are not of what happened.
_OWN_FIELDS: Final = frozenset({"sequence", "previous", "at"})

#: Bytes of the longest frame.
FRAME_LIMIT: Final = _LENGTH.size + AUDIT_ENTRY_LIMIT + DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log: the last entry up to there and its hash."""

    sequence: int = 0
    digest: bytes = GENESIS


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a log, what happened not read yet.

    Attributes:
        sequence: Its number, from 1.
        previous: Hash of the entry before.
        at: Unix seconds, to the millisecond.
        digest: Its own hash.
        fields: What happened, as `audit.events` writes it.
    """

    sequence: int
    previous: bytes
    at: float
    digest: bytes
    fields: Mapping[str, Any]

    @property
    def position(self) -> Position:
        """Where the log is with it."""
        return Position(self.sequence, self.digest)

    def event(self) -> Event:
        """What happened.

        Raises:
            DecodeError: It is of a kind that this version does not know, or malformed.
        """
        reader = cbor.MapReader(self.fields, f"audit entry {self.sequence}")
        event = read_event(reader)
        reader.finish()
        return event

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON; hashes and seals are hexadecimal digits.

        Raises:
            DecodeError: As `event`.
        """
        event = self.event()
        return {
            "sequence": self.sequence,
            "at": self.at,
            "kind": event.kind,
            **{key: _json(value) for key, value in dataclasses.asdict(event).items()},
            "previous": self.previous.hex(),
            "hash": self.digest.hex(),
        }


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return value


class TornEntry(Exception):
    """The bytes end within a frame."""


def encode_entry(event: Event, at: float, before: Position) -> tuple[bytes, Position]:
    """The frame of a new entry, and where the log is with it.

    Args:
        event: What happened.
        at: Unix seconds.
        before: Where the log was.

    Raises:
        AuditError: The entry is longer than any may be.
    """
    sequence = before.sequence + 1
    body = cbor.encode(
        {
            "sequence": sequence,
            "previous": before.digest,
            "at": round(at * 1000),
            **event_fields(event),
        }
    )
    if len(body) > AUDIT_ENTRY_LIMIT:
        raise AuditError(f"an audit entry of {len(body)} bytes exceeds {AUDIT_ENTRY_LIMIT}")
    digest = _hash(body)
    return _LENGTH.pack(len(body)) + body + digest, Position(sequence, digest)


def decode_entry(data: bytes, offset: int) -> tuple[Entry, int]:
    """The entry whose frame begins at `offset`, and where the next begins.

    Raises:
        TornEntry: The data ends before the frame does.
        DecodeError: The frame is none of `encode_entry`.
    """
    start = offset + _LENGTH.size
    if len(data) < start:
        raise TornEntry
    (length,) = _LENGTH.unpack_from(data, offset)
    if length > AUDIT_ENTRY_LIMIT:
        raise DecodeError(f"an entry of {length} bytes exceeds the limit of {AUDIT_ENTRY_LIMIT}")
    end = start + length + DIGEST_BYTES
    if len(data) < end:
        raise TornEntry
    body, digest = data[start : start + length], data[start + length : end]
    if _hash(body) != digest:
        raise DecodeError("the entry's hash is not the one that follows it")
    fields = cbor.decode(body, limit=AUDIT_ENTRY_LIMIT)
    reader = cbor.MapReader(fields, "audit entry")
    sequence = reader.integer("sequence", minimum=1, maximum=MAX_INTEGER)
    previous = reader.binary("previous", min_bytes=DIGEST_BYTES, max_bytes=DIGEST_BYTES)
    at = reader.integer("at", maximum=MAX_INTEGER) / 1000
    happened = {key: value for key, value in fields.items() if key not in _OWN_FIELDS}
    return Entry(sequence, previous, at, digest, happened), end


def _hash(body: bytes) -> bytes:
    return hashlib.sha256(_LABEL + body).digest()
