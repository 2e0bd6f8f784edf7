"""Rosters: who belongs to a consortium, signed by its authorities (protocols/roster).

A roster is one document with a version. Authorities sign it, `threshold` of them at least; a
member takes over a newer version only if the authorities of the version it holds signed that one,
so a chain of signatures leads from the first roster, trusted out of band, to the present one.
Revoking is publishing a version in which the peer is a former member.

`identity.enrolment` makes rosters and their next versions; here they are signed and judged.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from zerorag_p2p import cbor
from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    MAX_AUTHORITIES,
    MAX_FINGERPRINTS,
    MAX_INTEGER,
    MAX_REASON_BYTES,
    MAX_ROLES,
    MAX_ROSTER_BYTES,
    MAX_ROSTER_MEMBERS,
)
from zerorag_p2p.errors import DecodeError, RosterError
from zerorag_p2p.identity import fields, keys
from zerorag_p2p.identity.envelope import Domain, signing_input
from zerorag_p2p.identity.keys import SIGNATURE_BYTES, Identity
from zerorag_p2p.model import Fingerprint, PeerId

# At a change of authorities the old and the new ones sign.
_MAX_SIGNATURES: Final = 2 * MAX_AUTHORITIES


@dataclass(frozen=True, slots=True)
class Member:
    """A peer that belongs to the consortium.

    Attributes:
        peer: Its id.
        organisation: The organisation that runs it.
        roles: Names that policies may refer to.
        not_before: First second of the membership, unix time.
        not_after: First second after the membership, unix time.
        addresses: Where it said it can be reached, to start from; may be empty.
    """

    peer: PeerId
    organisation: str
    roles: tuple[str, ...]
    not_before: int
    not_after: int
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FormerMember:
    """A peer whose membership was revoked. It cannot come back under the same key.

    Attributes:
        peer: Its id.
        organisation: The organisation that ran it.
        date: Unix time of the revocation; what it signed before stays valid.
        reason: A sentence for people.
    """

    peer: PeerId
    organisation: str
    date: int
    reason: str


class Standing(enum.StrEnum):
    """How a peer stands to a consortium at a moment."""

    MEMBER = "member"
    NOT_YET = "not-yet"
    EXPIRED = "expired"
    REVOKED = "revoked"
    UNKNOWN = "unknown"

    def describe(self) -> str:
        """Continue a sentence that begins with the peer."""
        return _STANDING_TEXTS[self]


_STANDING_TEXTS: Final = {
    Standing.MEMBER: "is a member",
    Standing.NOT_YET: "is not a member yet",
    Standing.EXPIRED: "is no longer a member: its membership ran out",
    Standing.REVOKED: "is no longer a member: it was revoked",
    Standing.UNKNOWN: "is not in the roster",
}


class RosterState(enum.StrEnum):
    """Whether a roster is in force. In grace it still is, and its holder should be warned."""

    VALID = "valid"
    GRACE = "grace"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Roster:
    """One version of a consortium's roster. Times are unix seconds.

    Attributes:
        consortium: Id of the consortium (`enrolment.consortium_id`).
        version: Grows by at least one with every change, from 1.
        authorities: Peers whose signatures count, in the order of their ids.
        threshold: How many of them have to sign.
        members: In the order of their ids.
        former: In the order of their ids.
        fingerprints_current: Embeddings in use, preferred first.
        fingerprints_next: Embeddings that a migration leads to.
        issued_at: When this version was made.
        expires_at: From when on it is out of date, because no authority renewed it.
        grace_s: How long after that it is still in force.

    Raises:
        RosterError: The parts contradict each other.
    """

    consortium: str
    version: int
    authorities: tuple[PeerId, ...]
    threshold: int
    members: tuple[Member, ...]
    former: tuple[FormerMember, ...]
    fingerprints_current: tuple[Fingerprint, ...]
    fingerprints_next: tuple[Fingerprint, ...]
    issued_at: int
    expires_at: int
    grace_s: int

    def __post_init__(self) -> None:
        _check_order("authorities", self.authorities)
        _check_order("members", tuple(member.peer for member in self.members))
        _check_order("former members", tuple(member.peer for member in self.former))
        if not 1 <= self.threshold <= len(self.authorities):
            raise RosterError(
                f"roster: {self.threshold} of {len(self.authorities)} authorities cannot sign"
            )
        if self.expires_at <= self.issued_at:
            raise RosterError("roster: it expires before it is issued")
        for member in self.members:
            if member.not_after <= member.not_before:
                raise RosterError(f"roster: the membership of {member.peer} ends before it begins")
            if member.peer in self._former_by_peer:
                raise RosterError(f"roster: {member.peer} is both member and former member")
        for authority in self.authorities:
            if authority in self._former_by_peer:
                raise RosterError(f"roster: authority {authority} is a former member")

    @cached_property
    def _members_by_peer(self) -> dict[PeerId, Member]:
        return {member.peer: member for member in self.members}

    @cached_property
    def _former_by_peer(self) -> dict[PeerId, FormerMember]:
        return {member.peer: member for member in self.former}

    def member(self, peer: PeerId) -> Member | None:
        """The entry of a member, whatever its dates."""
        return self._members_by_peer.get(peer)

    def former_member(self, peer: PeerId) -> FormerMember | None:
        """The entry of a former member."""
        return self._former_by_peer.get(peer)

    def to_json(self) -> dict[str, Any]:
        """The map that is encoded and signed; it has nothing in it that JSON cannot hold."""
        return {
            "consortium": self.consortium,
            "version": self.version,
            "authorities": list(self.authorities),
            "threshold": self.threshold,
            "members": [
                {
                    "peer": member.peer,
                    "organisation": member.organisation,
                    "roles": list(member.roles),
                    "not-before": member.not_before,
                    "not-after": member.not_after,
                    "addresses": list(member.addresses),
                }
                for member in self.members
            ],
            "former": [
                {
                    "peer": member.peer,
                    "organisation": member.organisation,
                    "date": member.date,
                    "reason": member.reason,
                }
                for member in self.former
            ],
            "fingerprints-current": fields.fingerprint_maps(self.fingerprints_current),
            "fingerprints-next": fields.fingerprint_maps(self.fingerprints_next),
            "issued-at": self.issued_at,
            "expires-at": self.expires_at,
            "grace-s": self.grace_s,
        }


def _check_order(what: str, peers: tuple[PeerId, ...]) -> None:
    """One roster has one encoding: lists of peers are sorted and name nobody twice."""
    if list(peers) != sorted(set(peers)):
        raise RosterError(f"roster: its {what} are not in the order of their ids, each once")


def standing(roster: Roster, peer: PeerId, now: float) -> Standing:
    """How `peer` stands to the consortium at unix time `now`, the roster itself being in force."""
    if roster.former_member(peer):
        return Standing.REVOKED
    member = roster.member(peer)
    if member is None:
        return Standing.UNKNOWN
    if now < member.not_before:
        return Standing.NOT_YET
    return Standing.MEMBER if now < member.not_after else Standing.EXPIRED


def roster_state(roster: Roster, now: float) -> RosterState:
    """Whether the roster is in force at unix time `now`."""
    if now < roster.expires_at:
        return RosterState.VALID
    in_grace = now < roster.expires_at + roster.grace_s
    return RosterState.GRACE if in_grace else RosterState.EXPIRED


@dataclass(frozen=True, slots=True)
class SignedRoster:
    """A roster with those whose signatures over it verified; they may be too few.

    Attributes:
        roster: What was signed.
        payload: Its encoding, the bytes that were signed.
        signatures: Signature of each signer, in the order of their ids.
    """

    roster: Roster
    payload: bytes
    signatures: dict[PeerId, bytes]

    def encode(self) -> bytes:
        """The bytes of a roster file."""
        signatures = [
            {"signer": signer, "signature": signature}
            for signer, signature in sorted(self.signatures.items())
        ]
        return cbor.encode({"roster": self.payload, "signatures": signatures})

    def signers_among(self, authorities: Collection[PeerId]) -> int:
        """How many of `authorities` signed."""
        return len(self.signatures.keys() & set(authorities))


def sign_roster(roster: Roster, *identities: Identity) -> bytes:
    """Sign a roster. More authorities add theirs with `add_signature`.

    Raises:
        RosterError: Something in the roster is out of bounds, so that every peer would refuse it.
    """
    payload = cbor.encode(roster.to_json())
    _decode(payload)
    message = signing_input(Domain.ROSTER, payload)
    signatures = {identity.peer_id: identity.sign(message) for identity in identities}
    return SignedRoster(roster, payload, signatures).encode()


def add_signature(data: bytes, identity: Identity) -> bytes:
    """Add a signature to a roster that others signed.

    Raises:
        RosterError: The roster is malformed, or a signature on it does not verify.
    """
    signed = read_roster(data)
    signature = identity.sign(signing_input(Domain.ROSTER, signed.payload))
    signatures = {**signed.signatures, identity.peer_id: signature}
    return SignedRoster(signed.roster, signed.payload, signatures).encode()


def read_roster(data: bytes) -> SignedRoster:
    """Decode a roster and verify every signature on it, be they enough or not.

    Raises:
        RosterError: It is malformed, or a signature does not verify.
    """
    try:
        reader = MapReader(cbor.decode(data, limit=MAX_ROSTER_BYTES), "signed roster")
        payload = reader.binary("roster", max_bytes=MAX_ROSTER_BYTES)
        signatures = _read_signatures(reader)
        reader.finish()
    except DecodeError as error:
        raise RosterError(f"malformed roster: {error}") from None
    message = signing_input(Domain.ROSTER, payload)
    for signer, signature in signatures.items():
        if not keys.verify(signer, signature, message):
            raise RosterError(f"the signature of {signer} on the roster does not verify")
    return SignedRoster(_decode(payload), payload, signatures)


def open_roster(data: bytes) -> Roster:
    """Verify a roster by itself: well-formed, and signed by enough of its own authorities.

    That makes it consistent, not trusted: anybody can name themselves authority. Trust comes from
    `accept_roster`.

    Raises:
        RosterError: It is malformed, or lacks signatures.
    """
    signed = read_roster(data)
    _check_own_authorities(signed)
    return signed.roster


def accept_roster(
    current: Roster | None,
    data: bytes,
    now: float,
    *,
    trusted_authorities: Collection[PeerId] = (),
) -> Roster:
    """Decide whether a roster that came in takes the place of the one held.

    Args:
        current: The roster held, if any. Its authorities, to its threshold, have to have signed
            the new one.
        data: The signed roster that came in.
        now: Unix time.
        trusted_authorities: Used where there is no current roster: authorities known out of band.
            Every one of them has to have signed.

    Returns:
        The roster to hold from now on; `current` itself if the other one is the same.

    Raises:
        RosterError: It is refused, with the reason.
    """
    signed = read_roster(data)
    _check_own_authorities(signed)
    roster = signed.roster
    if current is None:
        _check_trusted(signed, trusted_authorities)
    else:
        if roster == current:
            return current
        _check_succession(current, signed)
    if roster_state(roster, now) is RosterState.EXPIRED:
        raise RosterError(
            f"roster version {roster.version} expired {int(now) - roster.expires_at} s ago, beyond "
            f"its grace of {roster.grace_s} s: ask an authority for a newer one"
        )
    return roster


def _check_own_authorities(signed: SignedRoster) -> None:
    roster = signed.roster
    count = signed.signers_among(roster.authorities)
    if count < roster.threshold:
        raise RosterError(
            f"roster version {roster.version} is signed by {count} of its "
            f"{len(roster.authorities)} authorities and needs {roster.threshold}"
        )


def _check_trusted(signed: SignedRoster, trusted: Collection[PeerId]) -> None:
    if not trusted:
        raise RosterError(
            "there is no roster yet to judge this one by: name the authorities that you trust"
        )
    missing = sorted(peer for peer in trusted if peer not in signed.signatures)
    if missing:
        raise RosterError(f"the roster is not signed by {missing[0]}, named as trusted")


def _check_succession(current: Roster, signed: SignedRoster) -> None:
    roster = signed.roster
    if roster.consortium != current.consortium:
        raise RosterError(
            f"the roster is of consortium {roster.consortium}, ours is {current.consortium}"
        )
    if roster.version < current.version:
        raise RosterError(
            f"the roster goes back to version {roster.version}, we hold {current.version}"
        )
    if roster.version == current.version:
        raise RosterError(
            f"there are two different rosters of version {roster.version}: "
            "ask the authorities which one is theirs and for a newer version"
        )
    count = signed.signers_among(current.authorities)
    if count < current.threshold:
        raise RosterError(
            f"roster version {roster.version} is signed by {count} of the authorities of version "
            f"{current.version}, which we hold, and needs {current.threshold}: if the authorities "
            "changed, import the versions between first"
        )


def _read_signatures(reader: MapReader) -> dict[PeerId, bytes]:
    signatures: dict[PeerId, bytes] = {}
    last = ""
    for item in reader.items("signatures", max_items=_MAX_SIGNATURES):
        entry = MapReader(item, "signature")
        signer = fields.read_peer(entry, "signer")
        signatures[signer] = entry.binary(
            "signature", min_bytes=SIGNATURE_BYTES, max_bytes=SIGNATURE_BYTES
        )
        entry.finish()
        if signer <= last:
            reader.fail("the signatures are not in the order of their signers, each once")
        last = signer
    return signatures


def _decode(payload: bytes) -> Roster:
    try:
        reader = MapReader(cbor.decode(payload, limit=MAX_ROSTER_BYTES), "roster")
        roster = _read_roster(reader)
        reader.finish()
    except DecodeError as error:
        raise RosterError(f"malformed roster: {error}") from None
    return roster


def _read_roster(reader: MapReader) -> Roster:
    return Roster(
        consortium=fields.read_name(reader, "consortium"),
        version=reader.integer("version", minimum=1, maximum=MAX_INTEGER),
        authorities=fields.read_peers(
            reader, "authorities", min_items=1, max_items=MAX_AUTHORITIES
        ),
        threshold=reader.integer("threshold", minimum=1, maximum=MAX_AUTHORITIES),
        members=tuple(
            _read_member(MapReader(item, "member"))
            for item in reader.items("members", max_items=MAX_ROSTER_MEMBERS)
        ),
        former=tuple(
            _read_former(MapReader(item, "former member"))
            for item in reader.items("former", max_items=MAX_ROSTER_MEMBERS)
        ),
        fingerprints_current=fields.read_fingerprints(
            reader, "fingerprints-current", min_items=1, max_items=MAX_FINGERPRINTS
        ),
        fingerprints_next=fields.read_fingerprints(
            reader, "fingerprints-next", min_items=0, max_items=MAX_FINGERPRINTS
        ),
        issued_at=fields.read_time(reader, "issued-at"),
        expires_at=fields.read_time(reader, "expires-at"),
        grace_s=reader.integer("grace-s", maximum=MAX_INTEGER),
    )


def _read_member(reader: MapReader) -> Member:
    member = Member(
        peer=fields.read_peer(reader, "peer"),
        organisation=fields.read_name(reader, "organisation"),
        roles=fields.read_names(reader, "roles", max_items=MAX_ROLES),
        not_before=fields.read_time(reader, "not-before"),
        not_after=fields.read_time(reader, "not-after"),
        addresses=fields.read_addresses(reader, "addresses"),
    )
    reader.finish()
    return member


def _read_former(reader: MapReader) -> FormerMember:
    former = FormerMember(
        peer=fields.read_peer(reader, "peer"),
        organisation=fields.read_name(reader, "organisation"),
        date=fields.read_time(reader, "date"),
        reason=fields.read_name(reader, "reason", max_bytes=MAX_REASON_BYTES),
    )
    reader.finish()
    return former
