"""Looking entries up in a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerorag_p2p.audit.entries import Entry
from zerorag_p2p.audit.events import FetchAnswered, Given, QueryAnswered
from zerorag_p2p.audit.segments import Segment, read_segment, segments
from zerorag_p2p.config import MAX_AUDIT_PAGE
from zerorag_p2p.errors import DecodeError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which entries are wanted; what is None does not matter.

    Attributes:
        since: Unix seconds from which on.
        peer: Counterpart: a peer id, or a part of an organisation's name.
        kind: Kind of entry.
        document: First digits of a content hash that the entry names.
        reference: The reference that both sides of a query recorded.
    """

    since: float | None = None
    peer: str | None = None
    kind: str | None = None
    document: str | None = None
    reference: str | None = None

    def has(self, entry: Entry) -> bool:
        """Whether the entry is wanted."""
        fields = entry.fields
        return (
            (self.since is None or entry.at >= self.since)
            and (self.kind is None or fields.get("kind") == self.kind)
            and (self.reference is None or fields.get("reference") == self.reference)
            and (self.peer is None or _names_peer(entry, self.peer))
            and (self.document is None or _names_document(entry, self.document))
        )


def _names_peer(entry: Entry, peer: str) -> bool:
    organisation = str(entry.fields.get("organisation", ""))
    return entry.fields.get("peer") == peer or peer.casefold() in organisation.casefold()


def _names_document(entry: Entry, digits: str) -> bool:
    notes = entry.fields.get("documents", [])
    return any(note["hash"].hex().startswith(digits) for note in notes)


class LogReader:
    """Reads a log for people; what cannot be read is left out and named.

    Args:
        folder: Where the log is. Every method reads its files: they block, and raise `AuditError`
            for one that cannot be read at all.

    Attributes:
        faults: What was left out, in sentences.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.faults: list[str] = []

    def newest(self, selection: Selection, limit: int) -> list[Json]:
        """The last `limit` entries that are selected, oldest first, ready for JSON."""
        found: list[Entry] = []
        for segment in reversed(segments(self._folder)):
            entries = self._entries(segment)
            found = [entry for entry in entries if selection.has(entry)] + found
            # Clocks may be set back within a file, hardly by more than it covers.
            since = selection.since
            if len(found) >= limit or (since is not None and all(e.at < since for e in entries)):
                break
        return self._to_json(found[-limit:])

    def page(self, after: int, selection: Selection) -> tuple[list[Json], int]:
        """Selected entries that follow number `after`, ready for JSON, and where to go on.

        The number returned is that of the last entry looked at: if it is `after`, there are no
        more.
        """
        found: list[Entry] = []
        for entry in self._following(after):
            if len(found) == MAX_AUDIT_PAGE:
                break
            after = entry.sequence
            if selection.has(entry):
                found.append(entry)
        return self._to_json(found), after

    def disclosures(self, document: str) -> list[Json]:
        """Who was given what of a document, when and for what, oldest first, ready for JSON.

        Args:
            document: First digits of its content hash.
        """
        rows = []
        for entry in self._following(0):
            if entry.fields.get("kind") not in _DISCLOSING or not _names_document(entry, document):
                continue
            event = entry.event()
            assert isinstance(event, QueryAnswered | FetchAnswered), "its kind says so"
            rows += [
                {
                    "at": entry.at,
                    "sequence": entry.sequence,
                    "content_hash": note.content_hash,
                    "collection": note.collection,
                    "given": note.given.value,
                    "redacted": list(note.redacted),
                    "peer": event.peer,
                    "organisation": event.organisation,
                    "user": event.user,
                    "purpose": event.purpose.value,
                    "reference": event.reference,
                    "rule": note.rule,
                }
                for note in event.documents
                if note.given is not Given.NOTHING and note.content_hash.startswith(document)
            ]
        return rows

    def _to_json(self, entries: list[Entry]) -> list[Json]:
        rows = []
        for entry in entries:
            try:
                rows.append(entry.to_json())
            except DecodeError as error:
                self.faults.append(str(error))
        return rows

    def _following(self, after: int) -> Iterator[Entry]:
        files = segments(self._folder)
        while len(files) > 1 and files[1].first <= after + 1:
            files = files[1:]
        for segment in files:
            for entry in self._entries(segment):
                if entry.sequence > after:
                    yield entry

    def _entries(self, segment: Segment) -> list[Entry]:
        found = read_segment(segment.path)
        if found.fault:
            self.faults.append(f"{segment.path.name}, {found.fault}")
        return found.entries


_DISCLOSING = frozenset({QueryAnswered.kind, FetchAnswered.kind})
