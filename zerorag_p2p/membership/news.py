"""News: what goes out with the next message, and to whom it is owed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from zerorag_p2p.config import (
    MAX_GOSSIP_RECORDS,
    MAX_GOSSIP_REVOCATIONS,
    MAX_GOSSIP_UPDATES,
    MAX_GOSSIP_WITHDRAWALS,
    REVOCATION_LIMIT,
    WITHDRAWAL_LIMIT,
    MembershipConfig,
)
from zerorag_p2p.errors import UsageError
from zerorag_p2p.membership.events import ObjectKind
from zerorag_p2p.membership.rumours import RumourQueue, retransmissions
from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.gossip import News, Update

_OBJECT_COUNT: Final = {
    ObjectKind.REVOCATION: MAX_GOSSIP_REVOCATIONS,
    ObjectKind.WITHDRAWAL: MAX_GOSSIP_WITHDRAWALS,
}
_OBJECT_LIMIT: Final = {
    ObjectKind.REVOCATION: REVOCATION_LIMIT,
    ObjectKind.WITHDRAWAL: WITHDRAWAL_LIMIT,
}


@dataclass(slots=True)
class Corrections:
    """What a peer should be told that believes something outdated; by the peer it is about."""

    records: dict[PeerId, bytes] = field(default_factory=dict)
    updates: dict[PeerId, Update] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.records or self.updates)


class NewsDesk:
    """Rumours of every kind, and which objects of others have been judged already."""

    def __init__(self, settings: MembershipConfig, members: int) -> None:
        self._settings = settings
        self.members = members
        limit = settings.rumour_limit
        self.records: RumourQueue[bytes] = RumourQueue(limit)
        self.updates: RumourQueue[Update] = RumourQueue(limit)
        self._objects: dict[ObjectKind, RumourQueue[bytes]] = {
            kind: RumourQueue(limit) for kind in ObjectKind
        }
        self._queues = (self.records, self.updates, *self._objects.values())
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
            revocations=self._take_objects(ObjectKind.REVOCATION, times),
            withdrawals=self._take_objects(ObjectKind.WITHDRAWAL, times),
            withdrawals_held=withdrawals_held,
        )

    def _take_objects(self, kind: ObjectKind, times: int) -> tuple[bytes, ...]:
        return tuple(self._objects[kind].take(_OBJECT_COUNT[kind], times=times))

    def unjudged(self, news: News) -> list[tuple[ObjectKind, bytes]]:
        """The objects in `news` that were not seen before; they count as seen from now on."""
        carried = (
            *((ObjectKind.REVOCATION, data) for data in news.revocations),
            *((ObjectKind.WITHDRAWAL, data) for data in news.withdrawals),
        )
        return [(kind, data) for kind, data in carried if self._judge(data)]

    def publish(self, kind: ObjectKind, key: str, data: bytes) -> None:
        """Pass an object on.

        Raises:
            UsageError: It is too long for gossip.
        """
        if len(data) > _OBJECT_LIMIT[kind]:
            raise UsageError(
                f"{len(data)} bytes are too many: gossip carries objects of this kind "
                f"({kind.name.lower()}) of {_OBJECT_LIMIT[kind]} bytes at most"
            )
        self._judge(data)
        self._objects[kind].put(key, data)

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
