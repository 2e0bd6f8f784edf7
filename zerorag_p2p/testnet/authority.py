"""The authority of a consortium that exists in memory only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from zerorag_p2p.config import MEMBERSHIP_LIFETIME_S
from zerorag_p2p.identity.enrolment import create_roster, revoke
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import Member, Roster, sign_roster
from zerorag_p2p.model import Fingerprint, PeerId

#: Memberships and the roster begin so long before the testnet, so that a clock set back finds them.
_BACKDATED_S: Final = 86_400


def seeded_identity(seed: int, name: str) -> Identity:
    """The key of `name` in the testnet of this seed. No secret: for testnets only."""
    return Identity.from_seed(hashlib.sha256(f"zerorag testnet {seed} {name}".encode()).digest())


class Authority:
    """Decides who belongs to a testnet.

    Attributes:
        roster: The present version, shared by the nodes of the process.
        signed: The same as it is sent around.
    """

    def __init__(self, consortium: str, fingerprint: Fingerprint, *, seed: int, now: float) -> None:
        self._now = now
        self._identity = seeded_identity(seed, "authority")
        self.roster: Roster = create_roster(
            consortium,
            (self._identity.peer_id,),
            fingerprints=(fingerprint,),
            now=now - _BACKDATED_S,
        )
        self.signed = sign_roster(self.roster, self._identity)

    def admit(self, members: Iterable[tuple[Identity, str, tuple[str, ...]]]) -> None:
        """Make the next version of the roster, with new members.

        Args:
            members: Of each its key, its organisation and its addresses.
        """
        admitted = [
            Member(
                peer=identity.peer_id,
                organisation=organisation,
                roles=(),
                not_before=int(self._now) - _BACKDATED_S,
                not_after=int(self._now) + MEMBERSHIP_LIFETIME_S,
                addresses=addresses,
            )
            for identity, organisation, addresses in members
        ]
        everyone = sorted((*self.roster.members, *admitted), key=lambda member: member.peer)
        self._sign(replace(self.roster, version=self.roster.version + 1, members=tuple(everyone)))

    def revoke(self, peer: PeerId, reason: str, now: float) -> None:
        """Make the next version of the roster, in which `peer` is a former member."""
        self._sign(revoke(self.roster, peer, reason, now))

    def _sign(self, roster: Roster) -> None:
        self.roster = roster
        self.signed = sign_roster(roster, self._identity)
