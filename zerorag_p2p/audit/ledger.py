"""The audit of one home: its log, and the heads kept apart from it."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from zerorag_p2p.audit.entries import Position
from zerorag_p2p.audit.headbook import HeadBook
from zerorag_p2p.audit.heads import Head
from zerorag_p2p.audit.log import AuditLog, Purge
from zerorag_p2p.audit.verification import Verification, contradicted, verify_log
from zerorag_p2p.config import MAX_AUDIT_FAULTS
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import PeerId

#: Heads signed since the start that are remembered; others return them within a few intervals.
_SIGNED_LATELY: Final = 64


class Ledger:
    """The log in a folder, open for appending; one process at a time.

    Args:
        folder: The folder; made if there is none.
        identity: The owner, who signs heads.
        at: Now, unix seconds.
        former: Keys that the owner had before, whose heads still count.

    Attributes:
        log: The log.
        book: The heads.
        faults: What was wrong when the log was opened, in sentences.

    Raises:
        AuditError: The log cannot be read or written.
    """

    def __init__(
        self, folder: Path, identity: Identity, at: float, *, former: Sequence[PeerId] = ()
    ) -> None:
        self._identity = identity
        self._owners = (identity.peer_id, *former)
        self._signed: deque[Position] = deque(maxlen=_SIGNED_LATELY)
        self.book = HeadBook(folder, *self._owners)
        self.log = AuditLog(folder, reached=self.book.newest)
        self.faults = [*self.book.faults]
        if self.log.damage:
            self.faults.append(self.log.damage)
        self.faults += contradicted(folder, self.book.own_heads())
        newest = self.book.newest
        if newest is not None and contradicted(folder, [newest]):
            self.book.keep_contradicted()
        if newest is not None and newest.owner != identity.peer_id:
            # The key changed. Before its predecessor is forgotten, it seals where the log begins.
            found = verify_log(folder, self._owners)
            if found.purged and not found.faults:
                self.log.reseal(identity, at)

    def sign_head(self, at: float) -> None:
        """Sign what is durable, if there are newer entries than at the last time. Blocks.

        Args:
            at: Now, unix seconds.

        Raises:
            AuditError: The head cannot be written.
        """
        position = self.log.durable
        self.book.sign(self._identity, position, at)
        if position not in self._signed:
            self._signed.append(position)

    def contradicted(self, heads: Iterable[Head]) -> list[str]:
        """What `heads` of this log show to be missing or changed, a sentence each. Blocks.

        Those that were signed here lately are taken for true: `verify` reads what is on the disk.

        Raises:
            AuditError: A file cannot be read.
        """
        older = [head for head in heads if head.position not in self._signed]
        if not older:
            return []
        with self.log.reading() as folder:
            return contradicted(folder, older)

    def verify(self) -> Verification:
        """Verify the log as it is on the disk, while it may grow. Blocks.

        Raises:
            AuditError: A file cannot be read.
        """
        with self.log.reading() as folder:
            found = verify_log(folder, self._owners, self.book.own_heads())
        # What looks unfinished is just being written.
        return _with_faults(dataclasses.replace(found, tail=0), self.book)

    def purge(self, before: float, at: float) -> Purge:
        """Remove the files whose entries are all older than `before`, unix seconds. Blocks.

        Raises:
            AuditError: The log cannot be written.
        """
        return self.log.purge(before, self._identity, at)

    def close(self, at: float) -> None:
        """Write what was appended, with its head, and close the files. Blocks.

        Raises:
            AuditError: Something cannot be written.
        """
        try:
            self.log.write()
            self.sign_head(at)
            self.book.save()
        finally:
            self.log.close()


def verify_folder(folder: Path, *owners: PeerId) -> Verification:
    """Verify a log that nobody writes, with the heads beside it; nothing is changed. Blocks.

    Args:
        folder: Where it is.
        owners: The key of its owner, and those that it had before.

    Raises:
        AuditError: A file cannot be read.
    """
    book = HeadBook(folder, *owners)
    return _with_faults(verify_log(folder, owners, book.own_heads()), book)


def _with_faults(found: Verification, book: HeadBook) -> Verification:
    faults = (*book.faults, *found.faults)[:MAX_AUDIT_FAULTS]
    return dataclasses.replace(found, faults=faults)
