"""The files of a log: segments, each named after the sequence of its first entry.

Only the last one grows. A segment is never changed in any other way, but that the end of an entry
that a crash cut is removed; old ones are deleted whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerorag_p2p.audit.entries import FRAME_LIMIT, Entry, Position, TornEntry, decode_entry
from zerorag_p2p.config import AUDIT_SEGMENT_BYTES
from zerorag_p2p.errors import AuditError, DecodeError
from zerorag_p2p.files import read_bounded

_SUFFIX: Final = ".log"

#: What a file is renamed to in which no entry can be read.
DAMAGED: Final = ".damaged"

_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of the log, and the sequence of the entry it begins with."""

    path: Path
    first: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What a segment holds.

    Attributes:
        entries: Its whole entries.
        size: Bytes of these.
        rest: Bytes that follow them.
        fault: What is wrong with the rest; "" for an entry that was begun and not finished.
    """

    entries: list[Entry]
    size: int
    rest: int
    fault: str


def segments(folder: Path) -> list[Segment]:
    """The segments of the log in `folder`, in order; other files are ignored."""
    found = [
        Segment(path, int(path.stem))
        for path in folder.glob(f"*{_SUFFIX}")
        if path.stem.isdecimal() and len(path.stem) == _DIGITS
    ]
    return sorted(found, key=lambda segment: segment.first)


def hashes_at(folder: Path, sequences: Iterable[int]) -> dict[int, bytes]:
    """The hashes of the entries with these sequences, as far as the log has them.

    Every file is read once at most.

    Raises:
        AuditError: A file that one of them is in cannot be read.
    """
    files = segments(folder)
    firsts = [segment.first for segment in files]
    wanted: dict[int, set[int]] = {}
    for sequence in sequences:
        wanted.setdefault(bisect_right(firsts, sequence) - 1, set()).add(sequence)
    wanted.pop(-1, None)
    return {
        entry.sequence: entry.digest
        for number, inside in wanted.items()
        for entry in read_segment(files[number].path).entries
        if entry.sequence in inside
    }


def segment_path(folder: Path, first: int) -> Path:
    """Where the segment is whose first entry has this sequence."""
    return folder / f"{first:0{_DIGITS}}{_SUFFIX}"


def read_segment(path: Path) -> Contents:
    """What the segment at `path` holds.

    Raises:
        AuditError: It is longer than any may be, or cannot be read.
    """
    try:
        return contents(read_bounded(path, AUDIT_SEGMENT_BYTES + FRAME_LIMIT))
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}") from None


def contents(data: bytes) -> Contents:
    """What the bytes of a segment hold.

    A process that dies leaves the beginning of an entry, a machine that loses power perhaps zeros.
    Anything else after the last whole entry is damage.
    """
    entries: list[Entry] = []
    offset, fault = 0, ""
    try:
        while offset < len(data):
            entry, offset = decode_entry(data, offset)
            entries.append(entry)
    except TornEntry:
        pass
    except DecodeError as error:
        if any(data[offset:]):
            fault = f"at byte {offset}: {error}"
    return Contents(entries, offset, len(data) - offset, fault)


class Chain:
    """Follows a log entry by entry, and names what does not continue it.

    Args:
        start: Where the log begins; None to begin wherever the first entry does.
    """

    def __init__(self, start: Position | None) -> None:
        self.position = start

    def follow(self, entry: Entry) -> str:
        """Go on to `entry`; what is wrong with it, or ""."""
        before = self.position
        self.position = entry.position
        if before is None:
            return ""
        if entry.sequence != before.sequence + 1:
            return f"entry {entry.sequence} follows entry {before.sequence}"
        if entry.previous != before.digest:
            return f"entry {entry.sequence} does not name the hash of entry {before.sequence}"
        return ""
