"""The newest signed record of every peer: the addresses to dial and the incarnation to believe.

The sequence of a peer's record is its incarnation number. Only the peer itself can sign a higher
one, so nobody else can refute an accusation in its name or bring a dead peer back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from zerorag_p2p.identity.records import PeerRecord
from zerorag_p2p.model import PeerId


class Freshness(enum.Enum):
    """How a record compares with the one held before."""

    FIRST = enum.auto()
    NEWER = enum.auto()
    SAME = enum.auto()
    OLDER = enum.auto()


@dataclass(frozen=True, slots=True)
class SignedRecord:
    """A verified record, and the bytes it was verified from."""

    peer: PeerId
    sequence: int
    signed: bytes


class RecordBook:
    """Records of admitted peers, one each, so that the roster bounds them.

    Args:
        admit: Whether a peer is a member.
        open_record: Verifies a signed record (`identity.records.open_record`).
    """

    def __init__(
        self, admit: Callable[[PeerId], bool], open_record: Callable[[bytes], PeerRecord]
    ) -> None:
        self._admit = admit
        self._open = open_record
        self._newest: dict[PeerId, SignedRecord] = {}
        # A record is verified once for as long as it is the newest: most that come in are.
        self._by_bytes: dict[bytes, SignedRecord] = {}

    def verify(self, signed: bytes) -> SignedRecord:
        """Verify a record.

        Raises:
            DecodeError: It is malformed.
            IntegrityError: The signature does not verify.
        """
        known = self._by_bytes.get(signed)
        if known is not None:
            return known
        record = self._open(signed)
        return SignedRecord(record.peer, record.sequence, signed)

    def learn(self, record: SignedRecord) -> Freshness | None:
        """Keep a verified record if it is the newest; None if its peer is not admitted.

        Of two different records with the same sequence the first one counts.
        """
        held = self._newest.get(record.peer)
        if held is record:
            return Freshness.SAME
        if not self._admit(record.peer):
            return None
        if held is not None:
            if record.sequence < held.sequence:
                return Freshness.OLDER
            if record.sequence == held.sequence:
                return Freshness.SAME
            del self._by_bytes[held.signed]
        self._newest[record.peer] = record
        self._by_bytes[record.signed] = record
        return Freshness.FIRST if held is None else Freshness.NEWER

    def signed(self, peer: PeerId) -> bytes | None:
        """The newest record of `peer`."""
        held = self._newest.get(peer)
        return None if held is None else held.signed

    def sequence(self, peer: PeerId) -> int | None:
        """The sequence of the newest record of `peer`."""
        held = self._newest.get(peer)
        return None if held is None else held.sequence

    def drop_strangers(self) -> list[PeerId]:
        """Drop the records of peers that are admitted no more; who they were."""
        strangers = [peer for peer in self._newest if not self._admit(peer)]
        for peer in strangers:
            del self._by_bytes[self._newest.pop(peer).signed]
        return strangers
