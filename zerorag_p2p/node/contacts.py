"""How an exchange with another peer ended, in words for people and reports."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from zerorag_p2p.errors import (
    ConnectionLost,
    PeerUnreachable,
    RemoteRefusal,
    RequestTimeout,
    ZeroRagError,
)


class Outcome(enum.StrEnum):
    """How a contact ended; also the texts of reports."""

    ANSWERED = "answered"
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    UNREACHABLE = "unreachable"
    BROKE_PROTOCOL = "broke the protocol"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a peer gave no answer.

    Attributes:
        reason: A sentence; the peer's own for a refusal.
        code: The refusal's code, or "".
        retry_after_s: Seconds after which a refusal says that asking again makes sense.
    """

    outcome: Outcome
    reason: str
    code: str = ""
    retry_after_s: int | None = None


def failure_of(error: ZeroRagError) -> Failure:
    """Classify what a request to another peer raised."""
    match error:
        case RemoteRefusal():
            return Failure(Outcome.REFUSED, error.reason, error.code, error.retry_after_s)
        case RequestTimeout():
            return Failure(Outcome.TIMED_OUT, str(error))
        case PeerUnreachable() | ConnectionLost():
            return Failure(Outcome.UNREACHABLE, str(error))
        case _:
            return Failure(Outcome.BROKE_PROTOCOL, str(error))
