"""Verification of a document that another peer sent, before anybody sees it.

A node runs it on every fetched document, `zerorag verify` on a saved one; it needs the roster and
no network. The checks run from the inside out (statement, custody, release, bytes) and the first
that fails names the fault.

Who vouched as a member. A peer that is a member now vouches for whatever it signed. One that is no
longer a member vouches for what it dated before its membership ended, since documents outlive
memberships. The date is the signer's own word: if a key was stolen, its revocation does not
tell what the thief dated back, and `Verified.owner_standing` lets the reader judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zerorag_p2p.errors import AttributionError, DecodeError
from zerorag_p2p.identity.attribution import Chain, Fault, Statement, verify_chain
from zerorag_p2p.identity.release import Release, open_release
from zerorag_p2p.identity.roster import Roster, Standing, standing
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.model import ContentHash, PeerId, Purpose, hash_content


@dataclass(frozen=True, slots=True)
class Verified:
    """A document whose chain, release and bytes hold.

    Attributes:
        chain: The owner's statement and the custodians.
        release: What the sender says it sent.
        owner_organisation: The owner's organisation, from the roster.
        owner_standing: How the owner stands now; not always a member any more.
        complete: Whether the bytes are the whole content that the owner signed. Otherwise (a
            smaller view, a redacted text) the sender alone vouches for them.
    """

    chain: Chain
    release: Release
    owner_organisation: str
    owner_standing: Standing
    complete: bool


def verify_document(
    links: Sequence[bytes],
    release: bytes | None,
    content: bytes,
    *,
    roster: Roster,
    now: float,
    clock_tolerance_s: float,
    content_hash: ContentHash | None,
    sender: PeerId | None,
    receiver: PeerId | None,
    withdrawn: Callable[[Statement], bool] = lambda _: False,
) -> Verified:
    """Verify what a peer sent for a document.

    Args:
        links: The document's chain, the owner's statement first.
        release: The sender's release, if one came.
        content: The bytes sent.
        roster: The roster held; whether it is in force is for the caller to check.
        now: Unix time.
        clock_tolerance_s: How far ahead of ours the clocks of others may be.
        content_hash: The document asked for, or None if that is not known (offline).
        sender: The peer asked, or None if that is not known.
        receiver: The peer that asked, or None if that is not known.
        withdrawn: Whether the owner took a statement back, as far as that is known.

    Raises:
        AttributionError: The first fault found.
    """
    if release is None:
        raise AttributionError(Fault.RELEASE_MISSING, "the document came without a release")
    try:
        chain = verify_chain(links)
        check_chain(
            chain,
            roster,
            now=now,
            clock_tolerance_s=clock_tolerance_s,
            content_hash=content_hash,
            holder=None,
            withdrawn=withdrawn,
        )
        opened = open_release(release)
    except DecodeError as error:
        raise AttributionError(Fault.MALFORMED, str(error)) from None
    _check_sender(chain, opened, roster, now, sender)
    _check_release(chain.statement, opened, now + clock_tolerance_s, receiver)
    _check_bytes(opened, content)
    owner = chain.statement.owner
    return Verified(
        chain=chain,
        release=opened,
        owner_organisation=_organisation(roster, owner),
        owner_standing=standing(roster, owner, now),
        complete=opened.complete,
    )


def check_chain(
    chain: Chain,
    roster: Roster,
    *,
    now: float,
    clock_tolerance_s: float,
    content_hash: ContentHash | None,
    holder: PeerId | None,
    withdrawn: Callable[[Statement], bool] = lambda _: False,
) -> None:
    """Hold a chain, its signatures verified, against the roster, the time and what was asked.

    This is all that can be told of a query result, which comes without a release.

    Args:
        chain: What `attribution.verify_chain` returned.
        roster: The roster held.
        now: Unix time.
        clock_tolerance_s: How far ahead of ours the clocks of others may be.
        content_hash: The document in question, or None if that is not known.
        holder: The peer that claims to hold the document, or None if that is not known.
        withdrawn: Whether the owner took a statement back, as far as that is known.

    Raises:
        AttributionError: The first fault found.
    """
    statement, latest = chain.statement, now + clock_tolerance_s
    if content_hash is not None and statement.content_hash != content_hash:
        raise AttributionError(
            Fault.OTHER_DOCUMENT,
            f"the statement is about {statement.content_hash}, not about {content_hash}",
        )
    if statement.consortium != roster.consortium:
        raise AttributionError(
            Fault.WRONG_CONSORTIUM,
            f"the statement is for {statement.consortium}, ours is {roster.consortium}",
        )
    _check_date("statement", statement.issued_at, latest)
    _check_vouched(roster, statement.owner, statement.issued_at, now, Fault.OWNER_NOT_MEMBER)
    for custody in chain.custodians:
        _check_date("custody", custody.received_at, latest)
        _check_vouched(
            roster, custody.custodian, custody.received_at, now, Fault.CUSTODIAN_NOT_MEMBER
        )
    expires_at = statement.terms.expires_at
    if expires_at is not None and now >= expires_at:
        raise AttributionError(
            Fault.TERMS_EXPIRED, f"the owner's terms ended {int(now) - expires_at} s ago"
        )
    if withdrawn(statement):
        raise AttributionError(
            Fault.WITHDRAWN, f"{statement.owner} took back what it stated at {statement.issued_at}"
        )
    if holder is not None:
        _check_holder(chain, holder)


def check_withdrawal(
    withdrawal: Withdrawal, roster: Roster, *, now: float, clock_tolerance_s: float
) -> None:
    """Hold a withdrawal, its seal verified, against the roster and the time.

    Args:
        withdrawal: What `withdrawal.open_withdrawal` returned.
        roster: The roster held.
        now: Unix time.
        clock_tolerance_s: How far ahead of ours the clocks of others may be.

    Raises:
        AttributionError: It is not to be followed; the message names the first fault.
    """
    if withdrawal.consortium != roster.consortium:
        raise AttributionError(
            Fault.WRONG_CONSORTIUM,
            f"the withdrawal is for {withdrawal.consortium}, ours is {roster.consortium}",
        )
    _check_date("withdrawal", withdrawal.issued_at, now + clock_tolerance_s)
    _check_vouched(roster, withdrawal.owner, withdrawal.issued_at, now, Fault.OWNER_NOT_MEMBER)


def _check_holder(chain: Chain, holder: PeerId) -> None:
    if holder != chain.holder:
        raise AttributionError(
            Fault.SENDER_NOT_HOLDER,
            f"{holder} sent the document, but its chain ends with {chain.holder}",
        )
    if chain.custodians and not chain.statement.terms.reshare:
        raise AttributionError(
            Fault.RESHARING_NOT_ALLOWED,
            f"{holder} passes on a copy, which {chain.statement.owner} does not allow",
        )


def _check_sender(
    chain: Chain, release: Release, roster: Roster, now: float, sender: PeerId | None
) -> None:
    if sender is not None and release.sender != sender:
        raise AttributionError(
            Fault.RELEASE_BY_OTHER_SENDER,
            f"{sender} sent the document with a release signed by {release.sender}",
        )
    _check_holder(chain, release.sender)
    _check_vouched(roster, release.sender, release.issued_at, now, Fault.SENDER_NOT_MEMBER)


def _check_release(
    statement: Statement, release: Release, latest: float, receiver: PeerId | None
) -> None:
    if receiver is not None and release.receiver != receiver:
        raise AttributionError(
            Fault.RELEASE_FOR_OTHER_RECEIVER,
            f"the release is for {release.receiver}, not for {receiver}",
        )
    if release.content_hash != statement.content_hash:
        raise AttributionError(
            Fault.RELEASE_OF_OTHER_DOCUMENT,
            f"the release is of {release.content_hash}, the statement about "
            f"{statement.content_hash}",
        )
    # An owner is not bound by what it allows others, nor by its terms in an emergency.
    free = release.receiver == statement.owner or (
        release.sender == statement.owner and release.purpose is Purpose.ETREAT
    )
    if statement.terms.purposes and not free and release.purpose not in statement.terms.purposes:
        allowed = ", ".join(statement.terms.purposes)
        raise AttributionError(
            Fault.PURPOSE_NOT_ALLOWED,
            f"released for {release.purpose}, but the owner's terms allow {allowed}",
        )
    _check_date("release", release.issued_at, latest)


def _check_bytes(release: Release, content: bytes) -> None:
    actual = hash_content(content)
    if release.complete and actual != release.content_hash:
        raise AttributionError(
            Fault.CONTENT_HASH_MISMATCH,
            f"the content hashes to {actual}, the owner signed {release.content_hash}",
        )
    if actual != release.bytes_hash:
        raise AttributionError(
            Fault.RELEASE_OF_OTHER_BYTES,
            f"the bytes hash to {actual}, the sender released {release.bytes_hash}",
        )


def _check_date(what: str, date: int, latest: float) -> None:
    if date > latest:
        raise AttributionError(
            Fault.DATED_IN_FUTURE,
            f"the {what} is dated {date}, later than {int(latest)}: check the clocks of both sides",
        )


def _check_vouched(roster: Roster, peer: PeerId, date: int, now: float, fault: Fault) -> None:
    """Require that `peer` could sign as a member what it dated `date` (see the module text)."""
    current = standing(roster, peer, now)
    member, former = roster.member(peer), roster.former_member(peer)
    match current:
        case Standing.MEMBER:
            return
        case Standing.EXPIRED if member and date < member.not_after:
            return
        case Standing.REVOKED if former and date < former.date:
            return
    raise AttributionError(fault, f"{peer} {current.describe()}")


def _organisation(roster: Roster, peer: PeerId) -> str:
    entry = roster.member(peer) or roster.former_member(peer)
    assert entry is not None, "a peer that vouched is in the roster"
    return entry.organisation
