"""What became of files and records that were to be added."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class FileStatus(enum.StrEnum):
    """What adding did with a file or record."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file, or of one bad record in a file.

    Attributes:
        path: The file, and for a bad record its place: "/data/notes.jsonl, line 12".
        documents: Number of documents that the library now holds from it.
        reason: Why it was skipped, or not read to its end; else "".
    """

    path: str
    status: FileStatus
    documents: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AddProgress:
    """How far adding is.

    Attributes:
        path: The file that is being read, or was read last.
        files: How many files were read.
        bytes: How many bytes of the files were read.
        documents: How many documents the library holds from what was read.
    """

    path: str
    files: int
    all_files: int
    bytes: int
    all_bytes: int
    documents: int


@dataclass(frozen=True, slots=True)
class AddReport:
    """What became of everything that was to be added, in order."""

    files: tuple[FileReport, ...]

    def count(self, status: FileStatus) -> int:
        """How many files and bad records have `status`."""
        return sum(report.status is status for report in self.files)

    @property
    def documents(self) -> int:
        """Number of documents that the library now holds from all of it."""
        return sum(report.documents for report in self.files)
