"""News: what goes out with the next message, and to whom it is owed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from zerorag_p2p.config import (
    MAX_GOSSIP_RECORDS,
    MAX_GOSSIP_UPDATES,
    MAX_GOSSIP_WITHDRAWALS,
    WITHDRAWAL_LIMIT,
    MembershipConfig,
)
from zerorag_p2p.errors import UsageError
from zerorag_p2p.membership.rumours import RumourQueue, retransmissions
from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.gossip import News, Update


@dataclass(slots=True)
class Corrections:
    """What a peer should be told that believes something outdated; by the peer it is about."""

    records: dict[PeerId, bytes] = field(default_factory=dict)
    updates: dict[PeerId, Update] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.records or self.updates)


class NewsDesk:
    """Rumours of every kind, and which withdrawals of others have been judged already."""

    def __init__(self, settings: MembershipConfig, members: int) -> None:
        self._settings = settings
        self.members = members
        limit = settings.rumour_limit
        self.records: RumourQueue[bytes] = RumourQueue(limit)
        self.updates: RumourQueue[Update] = RumourQueue(limit)
        self._withdrawals: RumourQueue[bytes] = RumourQueue(limit)
        self._queues = (self.records, self.updates, self._withdrawals)
        # Digests, the oldest first.
        self._judged: dict[bytes, None] = {}

    def compose(
        self, roster_version: int, owed: Corrections, *, withdrawals_held: bytes = b""
    ) -> News:
        """News for one message: first what the receiver is owed, then rumours."""
        if not owed and not any(self._queues):
            return News(roster_version=roster_version, withdrawals_held=withdrawals_held)
        times = retransmissions(self._settings.retransmit_multiplier, self.members)
        records = dict.fromkeys(list(owed.records.values())[:MAX_GOSSIP_RECORDS])
        room = MAX_GOSSIP_RECORDS - len(records)
        records.update(dict.fromkeys(self.records.take(room, times=times)))
        updates = dict(list(owed.updates.items())[:MAX_GOSSIP_UPDATES])
        room = MAX_GOSSIP_UPDATES - len(updates)
        for update in self.updates.take(room, times=times):
            updates.setdefault(update.peer, update)
        return News(
            roster_version=roster_version,
            records=tuple(records),
            updates=tuple(updates.values()),
            withdrawals=tuple(self._withdrawals.take(MAX_GOSSIP_WITHDRAWALS, times=times)),
            withdrawals_held=withdrawals_held,
        )

    def unjudged(self, news: News) -> list[bytes]:
        """The withdrawals in `news` that were not seen before; they count as seen from now on."""
        return [sealed for sealed in news.withdrawals if self._judge(sealed)]

    def publish_withdrawal(self, sealed: bytes) -> None:
        """Pass a withdrawal on.

        Raises:
            UsageError: It is too long for gossip.
        """
        if len(sealed) > WITHDRAWAL_LIMIT:
            raise UsageError(
                f"{len(sealed)} bytes are too many: gossip carries withdrawals of "
                f"{WITHDRAWAL_LIMIT} bytes at most"
            )
        self._judge(sealed)
        self._withdrawals.put(sealed, sealed)

    def drop(self, peer: PeerId) -> None:
        """Stop passing on what others should know about `peer`."""
        self.records.discard(peer)
        self.updates.discard(peer)

    def _judge(self, data: bytes) -> bool:
        digest = hashlib.sha256(data).digest()
        if digest in self._judged:
            return False
        self._judged[digest] = None
        if len(self._judged) > self._settings.rumour_limit:
            del self._judged[next(iter(self._judged))]
        return True
