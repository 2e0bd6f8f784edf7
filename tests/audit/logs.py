"""Audit logs to be looked at and damaged."""

from __future__ import annotations

from pathlib import Path

from zerorag_p2p.audit.events import DocumentNote, FetchAnswered, Given
from zerorag_p2p.audit.ledger import Ledger
from zerorag_p2p.audit.log import AuditLog
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash, PeerId, Purpose, View

OWNER = Identity.from_seed(bytes(31) + b"\x01")
ASKER = Identity.from_seed(bytes(31) + b"\x02")
NOON = 1_800_014_400.0
DAY_S = 86_400


def fetch(number: int, *, peer: PeerId = ASKER.peer_id) -> FetchAnswered:
    """The entry of a fetch that is told from others by its number."""
    note = DocumentNote(
        content_hash=ContentHash(f"{number:064x}"),
        collection="wards",
        given=Given.WHOLE,
        rule="sharing of wards",
    )
    return FetchAnswered(
        reference=f"{number:016x}",
        peer=peer,
        organisation="City Clinic",
        user="node",
        purpose=Purpose.TREAT,
        view=View.WHOLE,
        outcome="delivered 1 of 1",
        documents=(note,),
        received=200,
        sent=1_000 + number,
    )


def write_log(folder: Path, entries: int, *, segment_bytes: int = 4 << 20) -> None:
    """A log with so many entries, a second apart, and no head."""
    log = AuditLog(folder, segment_bytes=segment_bytes)
    for number in range(entries):
        log.append(fetch(number), NOON + number)
    log.write()
    log.close()


def write_ledger(folder: Path, entries: int) -> None:
    """A log with so many entries, closed in good order, so that its head is kept."""
    ledger = Ledger(folder, OWNER, NOON)
    for number in range(entries):
        ledger.log.append(fetch(number), NOON + number)
    ledger.close(NOON + entries)


def only_segment(folder: Path) -> Path:
    """The file of a log that has one."""
    (path,) = folder.glob("*.log")
    return path
