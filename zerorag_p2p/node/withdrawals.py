"""Withdrawals as a node keeps them: its own and those of others, in a file of its home.

Documents are taken back in the threads in which a library is used, and everything else happens in
the task that answers others, so a lock guards what both need.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from zerorag_p2p import cbor
from zerorag_p2p.config import (
    MAX_HELD_WITHDRAWALS,
    MAX_PULLED_WITHDRAWALS,
    MAX_WITHDRAWN,
    WITHDRAWAL_LIFETIME_S,
    WITHDRAWAL_LIMIT,
)
from zerorag_p2p.errors import DecodeError, IntegrityError, LocalError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.identity.attribution import Statement, read_statement
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import Roster
from zerorag_p2p.identity.verification import check_withdrawal
from zerorag_p2p.identity.withdrawal import (
    Withdrawal,
    WithdrawalBook,
    open_withdrawal,
    sign_withdrawal,
)
from zerorag_p2p.library.contents import Retraction
from zerorag_p2p.model import ContentHash
from zerorag_p2p.node.rotation import Predecessor

logger = logging.getLogger("zerorag.node")

_VERSION: Final = 1
_FILE_LIMIT: Final = MAX_HELD_WITHDRAWALS * (WITHDRAWAL_LIMIT + 8) + 64


class Withdrawals:
    """What owners took back, as far as this node knows; ours are on disk before they count.

    Args:
        identity: Ours.
        consortium: The consortium that our statements are for.
        clock: Unix seconds.
        clock_tolerance_s: How far ahead of ours the clocks of others may be.
        path: The file; None to keep them in memory only.
        predecessor: The key that ours took the place of: what it stated, it takes back.

    Raises:
        LocalError: The file is damaged.
    """

    def __init__(
        self,
        identity: Identity,
        consortium: str,
        clock: Callable[[], float],
        *,
        clock_tolerance_s: float,
        path: Path | None = None,
        predecessor: Predecessor | None = None,
    ) -> None:
        self._identity = identity
        self._predecessor = predecessor
        self._consortium = consortium
        self._clock = clock
        self._clock_tolerance_s = clock_tolerance_s
        self._path = path
        #: Told, in whatever thread, of each withdrawal of ours and its sealed form.
        self.on_issued: Callable[[Withdrawal, bytes], None] = lambda *_: None
        self._lock = threading.Lock()
        self._book = WithdrawalBook() if path is None else read_withdrawals(path, clock())
        self._saved = self._book.summary()

    def __len__(self) -> int:
        return len(self._book)

    # Ours.

    def retract(self, retraction: Retraction) -> list[Withdrawal]:
        """Take statements of ours back; what is signed afterwards is valid again.

        Raises:
            OSError: It cannot be written to the disk; then nothing was taken back.
        """
        statements = [read_statement(statement) for statement in retraction.statements]
        issued_at = max([int(self._clock()), *(item.issued_at for item in statements)])
        ends = [item.terms.expires_at for item in statements]
        expires_at = issued_at + WITHDRAWAL_LIFETIME_S
        if ends and None not in ends:
            expires_at = min(expires_at, max(end for end in ends if end is not None))
        if expires_at <= issued_at:
            return []
        made: list[tuple[Withdrawal, bytes]] = []
        for identity in self._signers(issued_at):
            for documents in _portions(retraction.documents):
                withdrawal = Withdrawal(
                    owner=identity.peer_id,
                    consortium=self._consortium,
                    documents=documents,
                    collection=retraction.collection,
                    issued_at=issued_at,
                    expires_at=expires_at,
                )
                made.append((withdrawal, sign_withdrawal(identity, withdrawal)))
        with self._lock:
            self._write([*self._book.sealed(), *(sealed for _, sealed in made)])
            for withdrawal, sealed in made:
                self._book.add(withdrawal, sealed, self._clock())
            self._saved = self._book.summary()
        for withdrawal, sealed in made:
            self.on_issued(withdrawal, sealed)
        return [withdrawal for withdrawal, _ in made]

    def _signers(self, issued_at: int) -> list[Identity]:
        """Our key, and before it the one it took the place of, while that is a member."""
        before = self._predecessor
        if before is None or issued_at >= before.until:
            return [self._identity]
        return [before.identity, self._identity]

    def not_before(self, content_hash: ContentHash, collection: str) -> int:
        """Earliest date of a statement of ours that is not taken back already, unix seconds."""
        with self._lock:
            return self._book.latest(self._identity.peer_id, content_hash, collection) + 1

    # Everybody's.

    def take_in(self, sealed: bytes, roster: Roster) -> Withdrawal | None:
        """A withdrawal that somebody passed on, if it is new to us and to be followed.

        Raises:
            DecodeError: It is malformed.
            IntegrityError: It is forged, or may not be followed by the roster.
        """
        if sealed in self._book:
            return None
        withdrawal, now = open_withdrawal(sealed), self._clock()
        check_withdrawal(withdrawal, roster, now=now, clock_tolerance_s=self._clock_tolerance_s)
        with self._lock:
            return withdrawal if self._book.add(withdrawal, sealed, now) else None

    def covers(self, statement: Statement) -> bool:
        """Whether its owner took a statement back."""
        with self._lock:
            return self._book.covers(statement)

    def all(self) -> list[Withdrawal]:
        """Those in force."""
        with self._lock:
            return self._book.withdrawals()

    def summary(self) -> bytes:
        """A digest of all that are held; empty while there are none."""
        with self._lock:
            self._book.expire(self._clock())
            return self._book.summary()

    def digests(self) -> list[bytes]:
        """What those that are held are called, ascending."""
        with self._lock:
            return self._book.digests()

    def missing(self, known: Iterable[bytes]) -> list[bytes]:
        """Sealed withdrawals that a peer lacks which knows `known`, as many as one reply holds."""
        with self._lock:
            return self._book.missing(known, count=MAX_PULLED_WITHDRAWALS)

    def save(self) -> None:
        """Write what others took back since the last time; it could be learnt again.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock:
            if self._book.summary() != self._saved:
                self._write(self._book.sealed())
                self._saved = self._book.summary()

    def _write(self, sealed: Sequence[bytes]) -> None:
        if self._path is not None:
            write_atomic(self._path, cbor.encode({"version": _VERSION, "withdrawals": [*sealed]}))


def read_withdrawals(path: Path, now: float) -> WithdrawalBook:
    """The withdrawals in a file that `Withdrawals` wrote; none where there is no file.

    Raises:
        LocalError: It is damaged.
    """
    book = WithdrawalBook()
    try:
        data = read_bounded(path, _FILE_LIMIT)
    except FileNotFoundError:
        return book
    try:
        reader = cbor.MapReader(cbor.decode(data, limit=_FILE_LIMIT), "withdrawals")
        reader.integer("version", minimum=_VERSION, maximum=_VERSION)
        for item in reader.items("withdrawals", max_items=2 * MAX_HELD_WITHDRAWALS):
            field = cbor.MapReader({"withdrawal": item}, "withdrawals")
            sealed = field.binary("withdrawal", max_bytes=WITHDRAWAL_LIMIT)
            book.add(open_withdrawal(sealed), sealed, now)
        reader.finish()
    except (DecodeError, IntegrityError) as error:
        raise LocalError(
            f"{path} is damaged ({error}): restore it from a backup, or remove it, and the other "
            "members will tell again what they know"
        ) from None
    return book


def _portions(documents: Sequence[ContentHash]) -> Iterable[tuple[ContentHash, ...]]:
    """Documents as several withdrawals carry them; once none, for a whole collection."""
    if not documents:
        return [()]
    starts = range(0, len(documents), MAX_WITHDRAWN)
    return [tuple(documents[start : start + MAX_WITHDRAWN]) for start in starts]
