"""A consortium on files: founding it, asking to join, approving, revoking, taking a roster over.

The authority's key is apart from the node's: it founds and changes the consortium, is needed for
nothing else, and may be kept on another machine.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from zerorag_p2p.config import (
    MAX_ADDRESSES,
    MAX_ROSTER_BYTES,
    MEMBERSHIP_LIFETIME_S,
    NetworkConfig,
)
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.errors import ConfigError, LocalError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.identity import enrolment
from zerorag_p2p.identity.keys import Identity, encode_key_file, parse_peer_id
from zerorag_p2p.identity.roster import (
    Member,
    Roster,
    accept_roster,
    open_roster,
    read_roster,
    roster_state,
    sign_roster,
    standing,
)
from zerorag_p2p.node.files import HomeLock, load_identity, write_secret

_DAY_S: Final = 86_400
_ANY_PORT: Final = "/tcp/0"
_ANY_INTERFACE: Final = ("/ip4/0.0.0.0/", "/ip6/::/")


def create(home: Home, name: str, *, valid_days: int | None = None) -> dict[str, Any]:
    """Found a consortium: an authority's key and a roster with this node as its first member.

    Raises:
        LocalError: The home belongs to a consortium already, or has an authority's key.
        UsageError: The name cannot be used.
    """
    home.require()
    now = time.time()
    config = home.load_config()
    if home.roster.exists() or home.authority_key.exists():
        existing = home.roster if home.roster.exists() else home.authority_key
        raise LocalError(f"{existing} exists already; found another consortium in another --home")
    authority = Identity.generate()
    founder = Member(
        peer=load_identity(home.key).peer_id,
        organisation=_organisation(home),
        roles=(),
        not_before=int(now),
        not_after=int(now) + _lifetime_s(valid_days),
        addresses=_addresses(config.network),
    )
    roster = enrolment.create_roster(
        name,
        [authority.peer_id],
        fingerprints=[open_embedder(config.embedding).fingerprint],
        members=[founder],
        now=now,
    )
    data = sign_roster(roster, authority)
    with HomeLock(home.root, holder="a command"):
        write_secret(home.authority_key, encode_key_file(authority))
        write_atomic(home.roster, data)
    return describe(data)


def request(home: Home) -> tuple[bytes, dict[str, Any]]:
    """Ask to join, in the words of the settings: the signed request, and what it says.

    Raises:
        ConfigError: The settings name no organisation.
    """
    home.require()
    config = home.load_config()
    data = enrolment.sign_join_request(
        load_identity(home.key),
        organisation=_organisation(home),
        addresses=_addresses(config.network),
        fingerprints=[open_embedder(config.embedding).fingerprint],
        now=time.time(),
    )
    return data, enrolment.open_join_request(data).to_json()


def approve(
    home: Home,
    requests: Sequence[bytes],
    *,
    valid_days: int | None = None,
    roles: Sequence[str] = (),
) -> bytes:
    """Admit those who asked: the next version of the roster, signed and not yet in force.

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
        roster = enrolment.approve(roster, asked, roles=roles, not_after=not_after, now=now)
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


def renew(home: Home) -> bytes:
    """Prolong the roster unchanged: its next version, signed and not yet in force.

    Raises:
        LocalError: This home founded no consortium.
    """
    return sign_roster(enrolment.renew(_current(home), time.time()), _authority(home))


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
        RosterError: It is malformed, or lacks signatures of its own authorities.
    """
    roster = open_roster(data)
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
            f"{home.root} has no authority's key: only the home that ran "
            "`zerorag consortium create` can change the consortium"
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
