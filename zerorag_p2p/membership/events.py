"""What happens to a membership reactor, and what it wants done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.gossip import (
    Ack,
    Exchange,
    GossipReply,
    Nack,
    Ping,
    PingRequest,
    RosterRequest,
)
from zerorag_p2p.wire.refusal import Refusal

#: What membership asks of other peers itself.
MembershipRequest: TypeAlias = Exchange | Ping | PingRequest | RosterRequest


# Events.


@dataclass(frozen=True, slots=True)
class Started:
    """The network listens; our addresses are known."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time that `next_timeout` named has come."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """An admitted peer asked something. The effects hold a `Reply` or a `RelayPing`."""

    peer: PeerId
    request: Exchange | Ping | PingRequest


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """A peer answered `request`, which a `Send` asked for."""

    peer: PeerId
    request: MembershipRequest
    reply: GossipReply


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A peer could not be reached or did not answer `request` in time."""

    peer: PeerId
    request: MembershipRequest


@dataclass(frozen=True, slots=True)
class RelayEnded:
    """What came of a `RelayPing`: the target's answer, or None. The effects hold a `Reply`."""

    origin: PeerId
    target: PeerId
    answer: Ack | None


@dataclass(frozen=True, slots=True)
class RecordReceived:
    """A peer record came in outside gossip, in a hello or a referral."""

    record: bytes


@dataclass(frozen=True, slots=True)
class ContactFailed:
    """A peer did not answer something else, a query for instance, with full time for it."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class ContactSucceeded:
    """A peer answered something else, if only with a refusal."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class NeighborsChanged:
    """These are the owner's neighbours now; they are watched besides the view."""

    peers: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class RosterChanged:
    """Another roster is in force."""

    version: int
    members: int


@dataclass(frozen=True, slots=True)
class AddressesChanged:
    """Our addresses are not those of our record any more."""


@dataclass(frozen=True, slots=True)
class WithdrawalPublished:
    """A verified withdrawal, our own or another's, is to be passed on."""

    sealed: bytes


@dataclass(frozen=True, slots=True)
class PullEnded:
    """A peer answered a `PullAdvertisements`; whether anything that it brought is kept."""

    peer: PeerId
    gained: bool


@dataclass(frozen=True, slots=True)
class PullWanted:
    """A peer asked for advertisements whose own would be kept, and is not known."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class AdvertisementsLost:
    """Advertisements of others are held no more: their owners are gone, or they expired."""


@dataclass(frozen=True, slots=True)
class WithdrawalsPulled:
    """A peer answered a `PullWithdrawals`.

    Attributes:
        held: As in the effect.
        gained: Whether it had a withdrawal that was new and good.
    """

    peer: PeerId
    held: bytes
    gained: bool


Event: TypeAlias = (
    Started
    | TimerFired
    | RequestReceived
    | ReplyReceived
    | RequestFailed
    | RelayEnded
    | RecordReceived
    | ContactFailed
    | ContactSucceeded
    | NeighborsChanged
    | RosterChanged
    | AddressesChanged
    | WithdrawalPublished
    | PullEnded
    | PullWanted
    | AdvertisementsLost
    | WithdrawalsPulled
)


# Effects.


@dataclass(frozen=True, slots=True)
class Send:
    """Ask `peer`, and report `ReplyReceived` or `RequestFailed` after `timeout_s` at the latest."""

    peer: PeerId
    request: MembershipRequest
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that the event was about."""

    message: Exchange | Ack | Nack | Refusal


@dataclass(frozen=True, slots=True)
class RelayPing:
    """Ping `target` for `origin`, and report `RelayEnded` after `timeout_s` at the latest."""

    origin: PeerId
    target: PeerId
    request: Ping
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PullAdvertisements:
    """Ask `peer` for advertisements of others; then report `PullEnded`, or `ContactFailed`."""

    peer: PeerId
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PullWithdrawals:
    """Ask `peer` for withdrawals that we lack; then report `WithdrawalsPulled`, or `ContactFailed`.

    Attributes:
        held: Digest of those that the peer holds.
    """

    peer: PeerId
    held: bytes
    timeout_s: float


@dataclass(frozen=True, slots=True)
class LearnRecord:
    """Dial `peer` by this verified record from now on."""

    peer: PeerId
    record: bytes


@dataclass(frozen=True, slots=True)
class JudgeRoster:
    """See whether `data` is a newer roster that may be followed; then report `RosterChanged`."""

    peer: PeerId
    data: bytes


@dataclass(frozen=True, slots=True)
class JudgeWithdrawal:
    """Verify what `peer` passed on; if it is good and new, report `WithdrawalPublished`."""

    peer: PeerId
    sealed: bytes


@dataclass(frozen=True, slots=True)
class NoteSuspected:
    """`peer` is suspected to be gone; it has some time to show that it is not."""

    peer: PeerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class NoteRecovered:
    """`peer`, which was suspected or dead, is alive."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class NoteDied:
    """`peer` is gone: forget it as a neighbour, its advertisements and its remembered queries."""

    peer: PeerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class NoteMisbehaved:
    """`peer` sent what an honest peer never sends."""

    peer: PeerId
    reason: str


Effect: TypeAlias = (
    Send
    | Reply
    | RelayPing
    | PullAdvertisements
    | PullWithdrawals
    | LearnRecord
    | JudgeRoster
    | JudgeWithdrawal
    | NoteSuspected
    | NoteRecovered
    | NoteDied
    | NoteMisbehaved
)
