"""Who may take part and how to reach them: the roster, and the signed records of its members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zerorag_p2p.errors import IntegrityError
from zerorag_p2p.identity.records import PeerRecord, open_record
from zerorag_p2p.identity.roster import Roster, RosterState, Standing, roster_state, standing
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.reports import PeerName


class Directory:
    """Members by the current roster, with the addresses each of them signed.

    Records are kept for members only, one each, so the roster bounds them.
    """

    def __init__(self, own: PeerId, roster: Roster, signed_roster: bytes | None = None) -> None:
        self._own = own
        self.roster = roster
        #: What a peer with an older roster is given; None where nobody may ask for it.
        self.signed_roster = signed_roster
        #: Told of every record that is new.
        self.on_learned: Callable[[bytes], None] = lambda _: None
        self._signed: dict[PeerId, bytes] = {}
        self._records: dict[PeerId, PeerRecord] = {}
        self._configured: dict[PeerId, tuple[str, ...]] = {}

    def replace_roster(self, roster: Roster, signed_roster: bytes | None = None) -> None:
        """Judge by another roster from now on; records of those who left it go."""
        self.roster = roster
        self.signed_roster = signed_roster
        for peer in [peer for peer in self._signed if roster.member(peer) is None]:
            del self._signed[peer]
            del self._records[peer]

    def configure_addresses(self, addresses: Mapping[PeerId, Sequence[str]]) -> None:
        """Addresses from the configuration, used where a peer has signed none."""
        self._configured = {peer: tuple(items) for peer, items in addresses.items()}

    def standing(self, peer: PeerId, now: float) -> Standing:
        """What the roster says of `peer` at `now` (unix seconds)."""
        return standing(self.roster, peer, now)

    def admits(self, peer: PeerId, now: float) -> bool:
        """Whether `peer` may hold a connection: a member, by a roster that is in force."""
        in_force = roster_state(self.roster, now) is not RosterState.EXPIRED
        return in_force and self.standing(peer, now) is Standing.MEMBER

    def organisation(self, peer: PeerId) -> str:
        """The organisation the roster names for `peer`, or "" for a stranger."""
        member = self.roster.member(peer)
        return "" if member is None else member.organisation

    def roles(self, peer: PeerId) -> tuple[str, ...]:
        """The roles the roster names for `peer`; none for a stranger."""
        member = self.roster.member(peer)
        return () if member is None else member.roles

    def name(self, peer: PeerId) -> PeerName:
        """A peer with its organisation, for reports."""
        return PeerName(peer, self.organisation(peer))

    def members(self, now: float) -> list[PeerId]:
        """Everybody else who may take part at `now`, in the order of the roster."""
        return [
            member.peer
            for member in self.roster.members
            if member.peer != self._own and self.admits(member.peer, now)
        ]

    def learn(self, signed_record: bytes, peer: PeerId) -> None:
        """Keep the record that `peer` signed, unless one at least as new is known.

        Raises:
            DecodeError: The record is malformed.
            IntegrityError: It is not signed by `peer`.
        """
        if self._signed.get(peer) == signed_record:
            return
        record = open_record(signed_record)
        if record.peer != peer:
            raise IntegrityError(f"a record of {record.peer} was given as one of {peer}")
        if self.roster.member(peer) is None:
            return
        known = self._records.get(peer)
        if known is None or record.sequence > known.sequence:
            self._signed[peer] = signed_record
            self._records[peer] = record
            self.on_learned(signed_record)

    def record(self, peer: PeerId) -> bytes | None:
        """The signed record of `peer`, if one is known."""
        return self._signed.get(peer)

    def records(self) -> list[bytes]:
        """Every signed record, to be saved."""
        return list(self._signed.values())

    def addresses(self, peer: PeerId) -> tuple[str, ...]:
        """Where to dial `peer`: its own signed addresses, configured ones, the roster's."""
        record = self._records.get(peer)
        member = self.roster.member(peer)
        candidates = (
            *(record.addresses if record is not None else ()),
            *self._configured.get(peer, ()),
            *(member.addresses if member is not None else ()),
        )
        return tuple(dict.fromkeys(candidates))
