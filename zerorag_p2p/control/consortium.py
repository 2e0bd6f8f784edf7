"""A consortium on files: founding it, asking to join, approving, revoking, taking a roster over.

The authority's key is apart from the node's: it founds and changes the consortium, is needed for
nothing else, and may be kept on another machine. With several authorities a roster is a proposal
until as many as the threshold asks for have signed it, one after the other (`sign`) or at the same
time (`combine`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from zerorag_p2p.config import (
    MAX_ADDRESSES,
    MAX_FINGERPRINTS,
    MAX_ROSTER_BYTES,
    MEMBERSHIP_LIFETIME_S,
    ROTATION_OVERLAP_S,
    EmbeddingConfig,
    NetworkConfig,
)
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.errors import ConfigError, LocalError, RosterError, UsageError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.identity import enrolment
from zerorag_p2p.identity.keys import Identity, parse_peer_id
from zerorag_p2p.identity.roster import (
    Member,
    Roster,
    SignedRoster,
    accept_roster,
    add_signature,
    open_roster,
    read_roster,
    roster_state,
    sign_roster,
    standing,
)
from zerorag_p2p.node.files import (
    HomeLock,
    encode_like,
    load_identity,
    load_peer_id,
    write_secret,
)
from zerorag_p2p.wording import moment

_DAY_S: Final = 86_400
_ANY_PORT: Final = "/tcp/0"
_ANY_INTERFACE: Final = ("/ip4/0.0.0.0/", "/ip6/::/")


def create(
    home: Home,
    name: str,
    *,
    valid_days: int | None = None,
    authorities: Sequence[str] = (),
    threshold: int | None = None,
) -> bytes:
    """Found a consortium: a roster with this node as its first member, and an authority's key.

    Args:
        home: Of the founder. The roster is in force there at once, if nobody else has to sign.
        name: Of the consortium.
        valid_days: How long the founder is a member.
        authorities: Peer ids of authorities besides this home's own.
        threshold: How many of all authorities have to sign; by default more than half.

    Returns:
        The roster, signed by this home's authority.

    Raises:
        LocalError: The home belongs to a consortium already.
        UsageError: The name cannot be used.
        RosterError: The threshold does not fit.
        DecodeError: An authority is no peer id.
    """
    home.require()
    now = time.time()
    config = home.load_config()
    if home.roster.exists():
        raise LocalError(
            f"{home.roster} exists already; found another consortium in another --home"
        )
    known = home.authority_key.exists()
    authority = load_identity(home.authority_key) if known else Identity.generate()
    everybody = {authority.peer_id, *map(parse_peer_id, authorities)}
    founder = Member(
        peer=load_peer_id(home.key),
        organisation=_organisation(home),
        roles=(),
        not_before=int(now),
        not_after=int(now) + _lifetime_s(valid_days),
        addresses=_addresses(config.network),
    )
    roster = enrolment.create_roster(
        name,
        everybody,
        threshold=len(everybody) // 2 + 1 if threshold is None else threshold,
        fingerprints=[open_embedder(home.embedding(config)).fingerprint],
        members=[founder],
        now=now,
    )
    data = sign_roster(roster, authority)
    with HomeLock(home.root, holder="a command"):
        if not known:
            write_secret(home.authority_key, encode_like(authority, home.key))
        if roster.threshold == 1:
            write_atomic(home.roster, data)
    return data


def request(home: Home) -> tuple[bytes, dict[str, Any]]:
    """Ask to join, in the words of the settings: the signed request, and what it says.

    While the key is being rotated, the next key asks, with a hand-over that the present one signs.

    Raises:
        ConfigError: The settings name no organisation.
    """
    home.require()
    config = home.load_config()
    identity, hand_over = load_identity(home.key), None
    if home.next_key.exists():
        old, identity = identity, load_identity(home.next_key)
        consortium = _current(home).consortium
        hand_over = enrolment.sign_hand_over(
            old, identity.peer_id, consortium=consortium, now=time.time()
        )
    data = enrolment.sign_join_request(
        identity,
        organisation=_organisation(home),
        addresses=_addresses(config.network),
        fingerprints=[open_embedder(home.embedding(config)).fingerprint],
        now=time.time(),
        hand_over=hand_over,
    )
    return data, enrolment.open_join_request(data).to_json()


def approve(
    home: Home,
    requests: Sequence[bytes],
    *,
    valid_days: int | None = None,
    roles: Sequence[str] = (),
    overlap_days: int | None = None,
) -> bytes:
    """Admit those who asked: the next version of the roster, signed and not yet in force.

    Args:
        home: Of an authority.
        requests: Signed requests.
        valid_days: How long the new members belong.
        roles: Of the new members.
        overlap_days: How long a key that is rotated stays a member beside the new one.

    Raises:
        LocalError: This home founded no consortium.
        IntegrityError: A request is not signed by whom it names, or a peer was revoked.
        DecodeError: A request is malformed.
    """
    now = time.time()
    authority, roster = _authority(home), _current(home)
    for data in requests:
        asked = enrolment.open_join_request(data)
        not_after = int(now) + _lifetime_s(valid_days)
        roster = enrolment.approve(
            roster,
            asked,
            roles=roles,
            not_after=not_after,
            now=now,
            overlap_s=ROTATION_OVERLAP_S if overlap_days is None else overlap_days * _DAY_S,
        )
    return sign_roster(roster, authority)


def revoke(home: Home, peer: str, reason: str) -> bytes:
    """End a membership: the next version of the roster, signed and not yet in force.

    Raises:
        LocalError: This home founded no consortium.
        RosterError: The peer is not a member.
        DecodeError: The text is not a peer id.
    """
    authority, roster = _authority(home), _current(home)
    return sign_roster(
        enrolment.revoke(roster, parse_peer_id(peer), reason, time.time()), authority
    )


def renew(
    home: Home,
    *,
    next_model: dict[str, Any] | None = None,
    prefer_next: bool = False,
    retire_models: bool = False,
) -> bytes:
    """Prolong the roster: its next version, signed and not yet in force.

    Args:
        home: Of an authority.
        next_model: Settings of an embedding model that members may go over to from now on.
        prefer_next: Whether the next model is preferred from now on.
        retire_models: Whether only the model that is preferred stays.

    Raises:
        LocalError: This home founded no consortium.
        UsageError: There is no next model, or it is in use already.
        ConfigError, EmbedderUnavailable: The settings of the model cannot be used.
    """
    roster = _current(home)
    current, following = roster.fingerprints_current, roster.fingerprints_next
    if next_model is not None:
        fingerprint = open_embedder(EmbeddingConfig.from_table(next_model)).fingerprint
        if fingerprint in current:
            raise UsageError(f"the consortium uses {fingerprint} already")
        following = (fingerprint,)
    if prefer_next:
        if not following:
            raise UsageError("the roster names no next embedding model; add one by --next-model")
        current, following = (*following, *current)[:MAX_FINGERPRINTS], ()
    if retire_models:
        current = current[:1]
    renewed = enrolment.renew(
        roster, time.time(), fingerprints_current=current, fingerprints_next=following
    )
    return sign_roster(renewed, _authority(home))


def change_authorities(home: Home, authorities: Sequence[str], threshold: int) -> bytes:
    """Hand over to other authorities: the next version of the roster, signed by this one.

    Raises:
        LocalError: This home has no authority's key.
        RosterError: The threshold does not fit, or a new authority is a former member.
        DecodeError: An authority is no peer id.
    """
    chosen = [parse_peer_id(peer) for peer in authorities]
    roster = enrolment.change_authorities(_current(home), chosen, threshold, time.time())
    return sign_roster(roster, _authority(home))


def sign(home: Home, data: bytes) -> bytes:
    """Add this home's authority to the signatures of a proposed roster.

    Raises:
        LocalError: This home has no authority's key, or its authority has no say in the roster.
        RosterError: The roster is malformed, or may not follow the one that this home holds.
    """
    authority = _authority(home)
    roster = read_roster(data).roster
    current = _current(home) if home.roster.exists() else None
    entitled = {*roster.authorities, *(current.authorities if current is not None else ())}
    if authority.peer_id not in entitled:
        raise LocalError(
            f"the authority of {home.root}, {authority.peer_id}, is none of {roster.consortium}"
        )
    if current is not None:
        if roster.consortium != current.consortium:
            raise RosterError(
                f"the roster is of consortium {roster.consortium}, ours is {current.consortium}"
            )
        if roster.version <= current.version:
            raise RosterError(
                f"the roster is of version {roster.version}, and version {current.version} is in "
                "force: let it be proposed anew"
            )
    return add_signature(data, authority)


def combine(copies: Sequence[bytes]) -> bytes:
    """Put the signatures of several copies of one roster together.

    Raises:
        RosterError: A copy is malformed, or they are not of one roster.
    """
    first, *others = (read_roster(data) for data in copies)
    signatures = dict(first.signatures)
    for signed in others:
        if signed.payload != first.payload:
            raise RosterError(
                f"the files hold different rosters, of version {first.roster.version} and "
                f"{signed.roster.version}: only copies of one can be combined"
            )
        signatures.update(signed.signatures)
    return SignedRoster(first.roster, first.payload, signatures).encode()


def progress(home: Home, data: bytes) -> dict[str, Any]:
    """Which signatures a proposed roster has and lacks, for it to follow the one in force.

    At a change of authorities those before it have to sign as well as those after it.

    Raises:
        RosterError: It is malformed.
    """
    signed = read_roster(data)
    sides = [signed.roster]
    if home.roster.exists():
        current = _current(home)
        if (current.authorities, current.threshold) != (
            signed.roster.authorities,
            signed.roster.threshold,
        ):
            sides.append(current)
    rows: list[dict[str, Any]] = [
        {
            "version": roster.version,
            "signed": signed.signers_among(roster.authorities),
            "needed": roster.threshold,
            "authorities": len(roster.authorities),
            "missing": [peer for peer in roster.authorities if peer not in signed.signatures],
        }
        for roster in sides
    ]
    return {"complete": all(row["signed"] >= row["needed"] for row in rows), "sides": rows}


def changes(home: Home, data: bytes) -> list[str]:
    """What a roster changes against the one of this home, a line for each change.

    Raises:
        RosterError: It is malformed.
    """
    roster = read_roster(data).roster
    if not home.roster.exists():
        names = [f"{member.organisation} ({member.peer})" for member in roster.members]
        return [f"member: {name}" for name in names]
    return _differences(_current(home), roster)


def _differences(old: Roster, new: Roster) -> list[str]:
    lines = []
    for member in new.members:
        known = old.member(member.peer)
        name = f"{member.organisation} ({member.peer})"
        if known is None:
            lines.append(f"new member: {name}, until {moment(member.not_after)}")
        elif known != member:
            until = f"until {moment(member.not_after)} (was {moment(known.not_after)})"
            roles = f"roles {', '.join(member.roles) or 'none'}"
            lines.append(f"changed member: {name}, {until}, {roles}")
    lines += [
        f"revoked: {former.organisation} ({former.peer}): {former.reason}"
        for former in new.former
        if old.former_member(former.peer) is None
    ]
    lines += [
        f"left out: {member.organisation} ({member.peer})"
        for member in old.members
        if new.member(member.peer) is None and new.former_member(member.peer) is None
    ]
    if (old.authorities, old.threshold) != (new.authorities, new.threshold):
        lines.append(f"authorities: {new.threshold} of {', '.join(new.authorities)}")
    lines.append(f"valid until {moment(new.expires_at)} (was {moment(old.expires_at)})")
    return lines


def install(home: Home, data: bytes, *, trusted: Collection[str] = ()) -> dict[str, Any]:
    """Take a roster over while no node runs in `home`.

    Args:
        home: Whose roster is replaced.
        data: The signed roster.
        trusted: Where the home has no roster yet: the authorities known to be right.

    Raises:
        RosterError: It is refused, with the reason.
        LocalError: A node runs.
    """
    home.require()
    authorities = [parse_peer_id(peer) for peer in trusted]
    with HomeLock(home.root, holder="a command"):
        current = _current(home) if home.roster.exists() else None
        accept_roster(current, data, time.time(), trusted_authorities=authorities)
        write_atomic(home.roster, data)
    return describe(data)


def describe(data: bytes) -> dict[str, Any]:
    """A roster for people and programs: what it says, who signed, how it and its members stand.

    Raises:
        RosterError: It is malformed, or a signature does not verify. There may be too few of them.
    """
    roster = read_roster(data).roster
    now = time.time()
    described = roster.to_json()
    for entry, member in zip(described["members"], roster.members, strict=True):
        entry["standing"] = standing(roster, member.peer, now).value
    signers = read_roster(data).signatures
    described["signed-by"] = [peer for peer in roster.authorities if peer in signers]
    described["state"] = roster_state(roster, now).value
    return described


def read(home: Home) -> bytes:
    """The roster file of `home`.

    Raises:
        LocalError: There is none.
    """
    if not home.roster.exists():
        raise LocalError(
            f"{home.root} has no roster; run `zerorag consortium import` with the roster that "
            "your consortium gave you, or `zerorag consortium create`"
        )
    return read_bounded(home.roster, MAX_ROSTER_BYTES)


def _current(home: Home) -> Roster:
    return open_roster(read(home))


def _authority(home: Home) -> Identity:
    if not home.authority_key.exists():
        raise LocalError(
            f"{home.root} has no authority's key: only a home that ran "
            "`zerorag consortium create` or `zerorag consortium authority` can change a consortium"
        )
    return load_identity(home.authority_key)


def _organisation(home: Home) -> str:
    organisation = home.load_config().organisation
    if not organisation:
        raise ConfigError(f"set 'organisation' in {home.config} first: members see that name")
    return organisation


def _lifetime_s(valid_days: int | None) -> int:
    return MEMBERSHIP_LIFETIME_S if valid_days is None else valid_days * _DAY_S


def _addresses(network: NetworkConfig) -> tuple[str, ...]:
    """Where others can reach this node, as far as the settings tell before it runs."""
    fixed = (
        address
        for address in network.announce or network.listen
        if not address.endswith(_ANY_PORT) and not address.startswith(_ANY_INTERFACE)
    )
    return tuple(fixed)[:MAX_ADDRESSES]
