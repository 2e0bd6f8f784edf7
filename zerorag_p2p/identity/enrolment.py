"""Enrolment: how a consortium begins, who joins and leaves, all as new versions of the roster.

Nothing here signs a roster or decides by itself: every function returns the next version, unsigned,
for the authorities to sign (`roster.sign_roster`). Each version lives as long from its issue as
the one before did, so signing any change also renews.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zerorag_p2p import cbor
from zerorag_p2p.config import (
    HAND_OVER_LIMIT,
    JOIN_REQUEST_LIMIT,
    MAX_FINGERPRINTS,
    ROSTER_GRACE_S,
    ROSTER_LIFETIME_S,
    ROTATION_OVERLAP_S,
)
from zerorag_p2p.errors import IntegrityError, RosterError, UsageError
from zerorag_p2p.identity import fields
from zerorag_p2p.identity.envelope import Domain, open_envelope, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import FormerMember, Member, Roster, Standing, standing
from zerorag_p2p.model import Fingerprint, PeerId

_CONSORTIUM_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_CONSORTIUM_HASH_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a member signs with its key to let another key take its place.

    The other key signs the join request that carries it, so both agree.

    Attributes:
        old: The key that signed.
        new: The key that takes its place.
        consortium: The consortium that the member belongs to.
        created_at: Unix seconds.
    """

    old: PeerId
    new: PeerId
    consortium: str
    created_at: int

    def to_json(self) -> dict[str, Any]:
        """The hand-over as JSON."""
        return {
            "old": self.old,
            "new": self.new,
            "consortium": self.consortium,
            "created-at": self.created_at,
        }


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What a peer that wants to join says of itself; an authority decides what to believe.

    Attributes:
        peer: The peer that signed.
        organisation: The organisation that runs it.
        addresses: Where it can be reached.
        fingerprints: Embeddings it can make, preferred first.
        created_at: Unix seconds.
        hand_over: Signed by the key in whose place this one comes, if that is so.
    """

    peer: PeerId
    organisation: str
    addresses: tuple[str, ...]
    fingerprints: tuple[Fingerprint, ...]
    created_at: int
    hand_over: HandOver | None = None

    def to_json(self) -> dict[str, Any]:
        """The request as JSON."""
        described = {"peer": self.peer, **self._to_map()}
        if self.hand_over is not None:
            described["hand-over"] = self.hand_over.to_json()
        return described

    def _to_map(self) -> dict[str, Any]:
        return {
            "organisation": self.organisation,
            "addresses": list(self.addresses),
            "fingerprints": fields.fingerprint_maps(self.fingerprints),
            "created-at": self.created_at,
        }


def sign_hand_over(old: Identity, new: PeerId, *, consortium: str, now: float) -> bytes:
    """Let `new` take the place of a member's key."""
    payload = cbor.encode({"new": new, "consortium": consortium, "created-at": int(now)})
    return seal(old, Domain.HAND_OVER, payload)


def open_hand_over(data: bytes) -> HandOver:
    """Verify a hand-over.

    Raises:
        DecodeError: It is malformed, or a key hands over to itself.
        IntegrityError: The signature does not verify.
    """
    envelope = open_envelope(data, Domain.HAND_OVER, limit=HAND_OVER_LIMIT)
    reader = cbor.MapReader(cbor.decode(envelope.payload, limit=HAND_OVER_LIMIT), "hand-over")
    hand_over = HandOver(
        old=envelope.signer,
        new=fields.read_peer(reader, "new"),
        consortium=fields.read_name(reader, "consortium"),
        created_at=fields.read_time(reader, "created-at"),
    )
    reader.finish()
    if hand_over.new == hand_over.old:
        reader.fail("a key hands over to itself")
    return hand_over


def sign_join_request(
    identity: Identity,
    *,
    organisation: str,
    addresses: Sequence[str],
    fingerprints: Sequence[Fingerprint],
    now: float,
    hand_over: bytes | None = None,
) -> bytes:
    """Ask to join; with a signed `hand_over`, in the place of the key that signed it.

    Raises:
        UsageError: A value is missing, malformed or too long.
    """
    request = JoinRequest(
        identity.peer_id, organisation, tuple(addresses), tuple(fingerprints), int(now)
    )
    values = request._to_map()
    if hand_over is not None:
        values["hand-over"] = hand_over
    payload = cbor.encode(values)
    with fields.refusing_own_mistakes():
        _decode_join_request(identity.peer_id, payload)
    return seal(identity, Domain.JOIN_REQUEST, payload)


def open_join_request(data: bytes) -> JoinRequest:
    """Verify a join request.

    Raises:
        DecodeError: It is malformed.
        IntegrityError: A signature does not verify, or the hand-over in it is to another key.
    """
    envelope = open_envelope(data, Domain.JOIN_REQUEST, limit=JOIN_REQUEST_LIMIT)
    return _decode_join_request(envelope.signer, envelope.payload)


def _decode_join_request(signer: PeerId, payload: bytes) -> JoinRequest:
    reader = cbor.MapReader(cbor.decode(payload, limit=JOIN_REQUEST_LIMIT), "join request")
    request = JoinRequest(
        peer=signer,
        organisation=fields.read_name(reader, "organisation"),
        addresses=fields.read_addresses(reader, "addresses"),
        fingerprints=fields.read_fingerprints(
            reader, "fingerprints", min_items=1, max_items=MAX_FINGERPRINTS
        ),
        created_at=fields.read_time(reader, "created-at"),
        hand_over=_read_hand_over(reader) if reader.has("hand-over") else None,
    )
    reader.finish()
    if request.hand_over is not None and request.hand_over.new != signer:
        raise IntegrityError(f"a hand-over to {request.hand_over.new} is used by {signer}")
    return request


def _read_hand_over(reader: cbor.MapReader) -> HandOver:
    return open_hand_over(reader.binary("hand-over", min_bytes=1, max_bytes=HAND_OVER_LIMIT))


def consortium_id(name: str, authorities: Iterable[PeerId]) -> str:
    """Derive the id of a new consortium: its name and a hash of name and first authorities.

    Two consortia that choose the same name differ by the hash. The id stays when authorities
    change later; it tells consortia apart and proves nothing.

    Raises:
        UsageError: The name is not 1 to 64 lower-case letters, digits and inner hyphens.
    """
    if not _CONSORTIUM_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a consortium: use up to 64 lower-case letters, digits and "
            "hyphens, a letter or digit first and last"
        )
    digest = hashlib.sha256(cbor.encode([name, sorted(authorities)])).hexdigest()
    return f"{name}-{digest[:_CONSORTIUM_HASH_DIGITS]}"


def create_roster(
    name: str,
    authorities: Iterable[PeerId],
    *,
    fingerprints: Sequence[Fingerprint],
    now: float,
    threshold: int = 1,
    members: Iterable[Member] = (),
    lifetime_s: int = ROSTER_LIFETIME_S,
    grace_s: int = ROSTER_GRACE_S,
) -> Roster:
    """Found a consortium: version 1 of its roster, to be signed by the authorities.

    Raises:
        UsageError: The name is malformed.
        RosterError: The parts contradict each other, the threshold and the authorities for
            instance.
    """
    authorities = sorted(set(authorities))
    return Roster(
        consortium=consortium_id(name, authorities),
        version=1,
        authorities=tuple(authorities),
        threshold=threshold,
        members=tuple(sorted(members, key=lambda member: member.peer)),
        former=(),
        fingerprints_current=tuple(fingerprints),
        fingerprints_next=(),
        issued_at=int(now),
        expires_at=int(now) + lifetime_s,
        grace_s=grace_s,
    )


def approve(
    roster: Roster,
    request: JoinRequest,
    *,
    roles: Sequence[str],
    not_after: float,
    now: float,
    overlap_s: int = ROTATION_OVERLAP_S,
) -> Roster:
    """Admit the peer that asked, or prolong its membership until `not_after` (unix time).

    A key that takes the place of another gets its organisation and, unless `roles` are given, its
    roles; the other one stays a member for `overlap_s` at most.

    Raises:
        RosterError: The peer was revoked before, has no embedding in common with the consortium, or
            takes the place of a key that is no member or of another organisation.
    """
    former = roster.former_member(request.peer)
    if former:
        raise RosterError(
            f"{request.peer} was revoked ({former.reason}) and cannot return under the same key: "
            "it needs a new identity"
        )
    wanted = (*roster.fingerprints_current, *roster.fingerprints_next)
    if not set(wanted) & set(request.fingerprints):
        raise RosterError(
            f"{request.peer} has no embedding in common with the consortium: it makes "
            f"{', '.join(map(str, request.fingerprints))}; the consortium uses "
            f"{', '.join(map(str, wanted))}"
        )
    # What it signed as a member stays within its membership when that is prolonged.
    known = roster.member(request.peer)
    replaced = None
    if request.hand_over is not None and known is None:
        replaced = _replaced(roster, request, request.hand_over, now)
        roles = roles or replaced.roles
    member = Member(
        peer=request.peer,
        organisation=request.organisation,
        roles=tuple(roles),
        not_before=known.not_before if known else int(now),
        not_after=int(not_after),
        addresses=request.addresses,
    )
    others = _without(roster.members, request.peer)
    if replaced is not None:
        ending = min(replaced.not_after, int(now) + overlap_s)
        old = dataclasses.replace(replaced, not_after=ending)
        others = (*_without(others, replaced.peer), old)
    members = sorted((*others, member), key=lambda item: item.peer)
    return _next_version(roster, now, members=tuple(members))


def _replaced(roster: Roster, request: JoinRequest, hand_over: HandOver, now: float) -> Member:
    """The member whose place the peer that asked takes."""
    if hand_over.consortium != roster.consortium:
        raise RosterError(
            f"{hand_over.old} hands over in {hand_over.consortium}, not in {roster.consortium}"
        )
    state = standing(roster, hand_over.old, now)
    member = roster.member(hand_over.old)
    if member is None or state is not Standing.MEMBER:
        raise RosterError(
            f"{request.peer} cannot take the place of {hand_over.old}, which {state.describe()}: "
            "it has to ask to join as any other"
        )
    if member.organisation != request.organisation:
        raise RosterError(
            f"{request.peer} is of {request.organisation!r} and cannot take the place of "
            f"{hand_over.old} of {member.organisation!r}"
        )
    return member


def revoke(roster: Roster, peer: PeerId, reason: str, now: float) -> Roster:
    """End a peer's membership for good.

    Raises:
        RosterError: It is not a member, or it is an authority and has to be replaced as such
            first.
    """
    member = roster.member(peer)
    if member is None:
        raise RosterError(f"{peer} cannot be revoked: it is not a member")
    if peer in roster.authorities:
        raise RosterError(
            f"{peer} cannot be revoked while it is an authority: change the authorities first"
        )
    entry = FormerMember(peer, member.organisation, int(now), reason)
    former = sorted((*roster.former, entry), key=lambda item: item.peer)
    members = _without(roster.members, peer)
    return _next_version(roster, now, members=members, former=tuple(former))


def change_authorities(
    roster: Roster, authorities: Iterable[PeerId], threshold: int, now: float
) -> Roster:
    """Hand over to other authorities.

    The present ones (to the present threshold) and the new ones (to the new) have to sign.

    Raises:
        RosterError: The threshold does not fit, or a new authority is a former member.
    """
    chosen = tuple(sorted(set(authorities)))
    return _next_version(roster, now, authorities=chosen, threshold=threshold)


def renew(
    roster: Roster,
    now: float,
    *,
    lifetime_s: int | None = None,
    fingerprints_current: Sequence[Fingerprint] | None = None,
    fingerprints_next: Sequence[Fingerprint] | None = None,
) -> Roster:
    """Prolong the roster, and change its lifetime or embeddings where they are given."""
    changes: dict[str, Any] = {}
    if lifetime_s is not None:
        changes["expires_at"] = int(now) + lifetime_s
    if fingerprints_current is not None:
        changes["fingerprints_current"] = tuple(fingerprints_current)
    if fingerprints_next is not None:
        changes["fingerprints_next"] = tuple(fingerprints_next)
    return _next_version(roster, now, **changes)


def _without(members: tuple[Member, ...], peer: PeerId) -> tuple[Member, ...]:
    return tuple(member for member in members if member.peer != peer)


def _next_version(roster: Roster, now: float, **changes: Any) -> Roster:
    lifetime_s = roster.expires_at - roster.issued_at
    times = {"issued_at": int(now), "expires_at": int(now) + lifetime_s}
    return dataclasses.replace(roster, version=roster.version + 1, **(times | changes))
