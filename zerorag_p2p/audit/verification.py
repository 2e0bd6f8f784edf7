"""Whether a log is whole: every entry, how they follow each other, and every head known of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerorag_p2p.audit.entries import Position
from zerorag_p2p.audit.events import EntriesPurged
from zerorag_p2p.audit.heads import Head, open_purge
from zerorag_p2p.audit.segments import (
    DAMAGED,
    Chain,
    Segment,
    hashes_at,
    read_segment,
    segments,
)
from zerorag_p2p.config import MAX_AUDIT_FAULTS
from zerorag_p2p.errors import DecodeError, IntegrityError
from zerorag_p2p.model import PeerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a verification found.

    Attributes:
        entries: Entries that verify one by one.
        first, last: Sequences of the first and the last of them; 0 where there is none.
        digest: Hash of the last, hexadecimal.
        began_at, ended_at: Times of both, unix seconds; None where there is none.
        purged: Entries that the owner removed from the beginning.
        tail: Bytes of an entry that was begun and is not finished, as a crash leaves it.
        heads: Signed heads that the log was compared with.
        faults: What is wrong, in sentences; empty if the log is whole.
    """

    entries: int
    first: int
    last: int
    digest: str
    began_at: float | None
    ended_at: float | None
    purged: int
    tail: int
    heads: int
    faults: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON."""
        return {
            "whole": not self.faults,
            "entries": self.entries,
            "first": self.first,
            "last": self.last,
            "hash": self.digest,
            "began_at": self.began_at,
            "ended_at": self.ended_at,
            "purged": self.purged,
            "tail": self.tail,
            "heads": self.heads,
            "faults": list(self.faults),
        }


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    wanted: set[int]
    chain: Chain = field(default_factory=lambda: Chain(None))
    entries: int = 0
    first: Position = field(default_factory=Position)
    before_first: Position = field(default_factory=Position)
    began_at: float | None = None
    ended_at: float | None = None
    purges: list[EntriesPurged] = field(default_factory=list)
    digests: dict[int, bytes] = field(default_factory=dict)
    tail: int = 0
    faults: list[str] = field(default_factory=list)

    def blame(self, sentence: str) -> None:
        if len(self.faults) < MAX_AUDIT_FAULTS:
            self.faults.append(sentence)


def verify_log(folder: Path, owners: Sequence[PeerId], heads: Iterable[Head] = ()) -> Verification:
    """Verify the log in `folder`.

    A cut in its tail shows only by the heads: give every one that is known.

    Args:
        folder: Where its files are.
        owners: Whose log it is, who may have removed entries: its key, and those before.
        heads: Verified heads of this log.

    Raises:
        AuditError: A file cannot be read.
    """
    known = list(heads)
    reading = _Reading({head.sequence for head in known})
    files = segments(folder)
    for segment in files:
        _read(reading, segment, is_last=segment is files[-1])
    for path in sorted(folder.glob(f"*{DAMAGED}")):
        reading.blame(f"{path.name} holds no entry that can be read")
    cut = _check_beginning(reading, owners)
    for head in known:
        fault = _fault_of(head, reading.digests.get(head.sequence), cut)
        if fault:
            reading.blame(fault)
    last = reading.chain.position or Position()
    return Verification(
        entries=reading.entries,
        first=reading.first.sequence,
        last=last.sequence,
        digest=last.digest.hex(),
        began_at=reading.began_at,
        ended_at=reading.ended_at,
        purged=cut,
        tail=reading.tail,
        heads=len(known),
        faults=tuple(reading.faults),
    )


def contradicted(folder: Path, heads: Sequence[Head]) -> list[str]:
    """What `heads` of the log in `folder` show to be missing or changed, a sentence each.

    Only the entries that they name are looked at.

    Raises:
        AuditError: A file cannot be read.
    """
    first = next(iter(segments(folder)), None)
    cut = 0 if first is None else first.first - 1
    found = hashes_at(folder, [head.sequence for head in heads])
    faults = (_fault_of(head, found.get(head.sequence), cut) for head in heads)
    return [fault for fault in faults if fault]


def _read(reading: _Reading, segment: Segment, *, is_last: bool) -> None:
    found = read_segment(segment.path)
    name = segment.path.name
    if found.entries and found.entries[0].sequence != segment.first:
        reading.blame(f"{name} begins with entry {found.entries[0].sequence}")
    for entry in found.entries:
        if not reading.entries:
            reading.first = entry.position
            reading.before_first = Position(entry.sequence - 1, entry.previous)
            reading.began_at = entry.at
        fault = reading.chain.follow(entry)
        if fault:
            reading.blame(f"{name}: {fault}")
        reading.entries += 1
        reading.ended_at = entry.at
        if entry.sequence in reading.wanted:
            reading.digests[entry.sequence] = entry.digest
        if entry.fields.get("kind") == EntriesPurged.kind:
            event = entry.event()
            assert isinstance(event, EntriesPurged), "its kind says so"
            reading.purges.append(event)
    if found.fault:
        reading.blame(f"{name}, {found.fault}")
    elif found.rest and is_last:
        reading.tail = found.rest
    elif found.rest:
        reading.blame(f"{name} ends within an entry, {found.rest} bytes after the last whole one")


def _check_beginning(reading: _Reading, owners: Sequence[PeerId]) -> int:
    """The sequence up to which the owner removed entries."""
    before = reading.before_first
    if before == Position():
        return 0
    permitted: Head | None = None
    for purge in reading.purges:
        try:
            seal = open_purge(purge.seal, *owners)
        except (DecodeError, IntegrityError):
            continue  # it permits nothing
        if seal.sequence == purge.up_to:
            permitted = seal
    if permitted is None or permitted.sequence < before.sequence:
        reading.blame(
            f"the log begins with entry {reading.first.sequence}, and its owner did not remove "
            "those before it"
        )
    elif permitted.position != before and permitted.sequence == before.sequence:
        reading.blame(
            f"entry {reading.first.sequence} does not follow the last one that was removed"
        )
    return before.sequence


def _fault_of(head: Head, digest: bytes | None, cut: int) -> str:
    """What a head shows to be wrong, given the hash of the entry it names."""
    if head.sequence <= cut or digest == head.digest:
        return ""
    if digest is None:
        return f"entry {head.sequence}, which a signed head names, is missing"
    return f"entry {head.sequence} is not the one that a signed head names"
