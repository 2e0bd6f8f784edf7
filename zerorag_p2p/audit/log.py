"""A log that is written: entries are chained when they happen and made durable in groups.

`append` chains an entry and keeps it in memory; `write` brings everything that was appended to the
disk, with one sync for all. Whoever has to be sure waits until `durable` has reached its entry.
Any thread may call `append`, one at a time `write`.

A write that fails changes nothing: the file is cut back, the entries wait, `write` may be tried
again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from zerorag_p2p.audit.entries import Position, encode_entry
from zerorag_p2p.audit.events import EntriesPurged, Event
from zerorag_p2p.audit.heads import Head, seal_purge
from zerorag_p2p.audit.segments import (
    DAMAGED,
    Segment,
    read_segment,
    segment_path,
    segments,
)
from zerorag_p2p.config import AUDIT_SEGMENT_BYTES
from zerorag_p2p.errors import AuditError
from zerorag_p2p.files import sync_folder
from zerorag_p2p.identity.keys import Identity

_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_DAY_S: Final = 86_400


class _Waiting(NamedTuple):
    """An entry that is not on the disk yet."""

    frame: bytes
    position: Position
    day: int


@dataclass(slots=True)
class _Writing:
    """The segment that grows.

    Attributes:
        size: Bytes of its durable entries.
        day: Day of its first entry, in days since 1970.
    """

    descriptor: int
    size: int
    day: int


class AuditLog:
    """The log in a folder, open for appending; one process at a time.

    Args:
        folder: Made if there is none, for its owner only.
        reached: The newest head that was signed for this log, if one is kept.
        segment_bytes: Size beyond which a file is not continued.

    Attributes:
        durable: The last entry on the disk.
        cut: Bytes that a crash left of an entry, cut off when the log was opened.
        damage: What else was found wrong with the end of the log then, or "". What is damaged
            stays as it is, and a new file is begun.

    Raises:
        AuditError: The log cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        reached: Head | None = None,
        segment_bytes: int = AUDIT_SEGMENT_BYTES,
    ) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()
        self._files = threading.Lock()
        self._writing: _Writing | None = None
        self.cut = 0
        self.damage = ""
        try:
            folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
            self.durable = self._open(reached)
        except OSError as error:
            raise _unwritable(folder, error) from None
        self._appended = self.durable

    def _open(self, reached: Head | None) -> Position:
        """Find the last entry, and open its file to be continued."""
        for segment in reversed(segments(self._folder)):
            position = self._continue(segment, reached)
            if position is not None:
                return position
        return Position()

    def _continue(self, segment: Segment, reached: Head | None) -> Position | None:
        """Go on after the last entry of `segment`; None, and no such file, if it has none."""
        found = read_segment(segment.path)
        last = found.entries[-1] if found.entries else None
        fault = found.fault
        if found.rest and last and reached and reached.sequence > last.sequence:
            fault = fault or f"at byte {found.size}: {found.rest} bytes are no entry any more"
        if fault:
            self.damage = f"{segment.path.name}, {fault}"
            if last is None:
                segment.path.rename(segment.path.with_suffix(DAMAGED))
                sync_folder(self._folder)
        else:
            self.cut += found.rest
            if last is None:
                segment.path.unlink()
            else:
                day = int(found.entries[0].at) // _DAY_S
                self._writing = _Writing(_open_file(segment.path), found.size, day)
                self._cut_back()
        return None if last is None else last.position

    def close(self) -> None:
        """Close the file. What was not written is lost: `write` first."""
        if self._writing is not None:
            os.close(self._writing.descriptor)
            self._writing = None

    # Writing.

    @property
    def appended(self) -> int:
        """Sequence of the last entry, durable or not."""
        return self._appended.sequence

    def append(self, event: Event, at: float) -> int:
        """Chain an entry, to be written; its sequence.

        Args:
            event: What happened.
            at: When, unix seconds.

        Raises:
            AuditError: The entry is too long.
        """
        with self._lock:
            frame, position = encode_entry(event, at, self._appended)
            self._waiting.append(_Waiting(frame, position, int(at) // _DAY_S))
            self._appended = position
        return position.sequence

    def write(self) -> None:
        """Make everything durable that was appended before the call. Blocks.

        Raises:
            AuditError: It cannot be written; what is not durable yet waits for the next call.
        """
        target = self._appended.sequence
        while self.durable.sequence < target:
            with self._lock:
                group = self._next_group()
            try:
                self._write_group(group)
            except OSError as error:
                with suppress(OSError):  # the next call begins with it
                    self._cut_back()
                raise _unwritable(self._folder, error) from None
            with self._lock:
                del self._waiting[: len(group)]
            self.durable = group[-1].position

    def _next_group(self) -> list[_Waiting]:
        """The next entries, as many as go to one file; a full file is closed."""
        first = self._waiting[0]
        writing = self._writing
        if writing is not None and (
            writing.day != first.day or self._is_full(writing.size, len(first.frame))
        ):
            self.close()
        size = 0 if self._writing is None else self._writing.size
        group: list[_Waiting] = []
        for item in self._waiting:
            if item.day != first.day or self._is_full(size, len(item.frame)):
                break
            group.append(item)
            size += len(item.frame)
        return group

    def _is_full(self, size: int, frame: int) -> bool:
        return size > 0 and size + frame > self._segment_bytes

    def _write_group(self, group: list[_Waiting]) -> None:
        if self._writing is None:
            path = segment_path(self._folder, group[0].position.sequence)
            self._writing = _Writing(_open_file(path), 0, group[0].day)
            sync_folder(self._folder)
        self._cut_back()
        data = memoryview(b"".join(item.frame for item in group))
        written = 0
        while written < len(data):
            written += os.write(self._writing.descriptor, data[written:])
        os.fdatasync(self._writing.descriptor)
        self._writing.size += len(data)

    def _cut_back(self) -> None:
        """Remove from the file what is not durable."""
        if self._writing is None:
            return
        if os.fstat(self._writing.descriptor).st_size != self._writing.size:
            os.ftruncate(self._writing.descriptor, self._writing.size)
            os.fsync(self._writing.descriptor)

    # Old entries.

    @contextmanager
    def reading(self) -> Iterator[Path]:
        """The folder, whose files stay while the context is entered."""
        with self._files:
            yield self._folder

    def purge(self, before: float, identity: Identity, at: float) -> Purge:
        """Remove the files whose entries are all older than `before`. Blocks.

        The file that grows stays, so the log is never empty. That entries were removed, and the
        hash at the cut, is an entry itself, durable before anything is removed.

        Args:
            before: Unix seconds.
            identity: The log's owner, who signs the cut.
            at: Now, unix seconds.

        Raises:
            AuditError: The log cannot be written; then nothing is removed.
        """
        with self._files:
            old, cut = self._older_than(before)
            if not old:
                return Purge(0, 0)
            event = EntriesPurged(up_to=cut.sequence, seal=seal_purge(identity, cut, at))
            self.append(event, at)
            self.write()
            try:
                for segment in old:
                    segment.path.unlink()
                sync_folder(self._folder)
            except OSError as error:
                raise _unwritable(self._folder, error) from None
        return Purge(cut.sequence + 1 - old[0].first, cut.sequence)

    def reseal(self, identity: Identity, at: float) -> None:
        """Let another key of the owner sign where the log begins, after entries were removed.

        Raises:
            AuditError: The first file cannot be read.
        """
        first = read_segment(segments(self._folder)[0].path).entries[0]
        cut = Position(first.sequence - 1, first.previous)
        self.append(EntriesPurged(up_to=cut.sequence, seal=seal_purge(identity, cut, at)), at)

    def _older_than(self, before: float) -> tuple[list[Segment], Position]:
        """The first segments that are old as a whole, and where the log is cut with them."""
        old: list[Segment] = []
        cut = Position()
        for segment, following in pairwise(segments(self._folder)):
            if any(entry.at >= before for entry in read_segment(segment.path).entries):
                break
            begins = next(iter(read_segment(following.path).entries), None)
            if begins is None:
                break
            old.append(segment)
            cut = Position(begins.sequence - 1, begins.previous)
        return old, cut


@dataclass(frozen=True, slots=True)
class Purge:
    """How many entries were removed, the last of them number `up_to`; 0 where there were none."""

    entries: int
    up_to: int


def _open_file(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, _PRIVATE_FILE)


def _unwritable(folder: Path, error: OSError) -> AuditError:
    return AuditError(
        f"the audit log in {folder} cannot be written: {error.strerror}; nothing is asked or "
        "answered until it can"
    )
