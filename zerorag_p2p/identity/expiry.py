"""What runs out soon, so that it can be renewed in time.

An authority's key has no date of its own: what it signed, the roster, has.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zerorag_p2p.config import EXPIRY_WARNING_S
from zerorag_p2p.identity.roster import Roster
from zerorag_p2p.model import PeerId

_DAY_S: Final = 86_400


class Expiring(enum.StrEnum):
    """Kinds of what runs out."""

    MEMBERSHIP = "membership"
    ROSTER = "roster"
    TERMS = "terms"
    TOKEN = "token"  # noqa: S105 - the kind of thing, not one
    CERTIFICATE = "certificate"


_NEXT_STEPS: Final = {
    Expiring.MEMBERSHIP: "send the authority a new request (zerorag consortium request)",
    Expiring.ROSTER: "an authority has to renew it (zerorag consortium renew)",
    Expiring.TERMS: "copies end then; share the collection anew to go on (zerorag docs share)",
    Expiring.TOKEN: "the application needs another one (zerorag token rotate)",
    Expiring.CERTIFICATE: "renew it, and start the node again",
}


#: What ends, its name as in `Expiry`, and when, unix seconds.
Ending: TypeAlias = tuple[Expiring, str, int]


@dataclass(frozen=True, slots=True)
class Expiry:
    """Something that runs out soon, or did.

    Attributes:
        name: Of the collection, for terms; of the application, for a token; else "".
        expires_at: Unix seconds.
        days_left: Whole days from now, rounded down; negative once it has run out.
    """

    what: Expiring
    name: str
    expires_at: int
    days_left: int

    @property
    def sentence(self) -> str:
        """When it runs out and what to do, for people."""
        match self.what:
            case Expiring.TERMS:
                subject, verb = f"the terms of {self.name!r}", "end"
            case Expiring.MEMBERSHIP:
                subject, verb = "our membership", "ends"
            case Expiring.ROSTER:
                subject, verb = "the roster", "expires"
            case Expiring.TOKEN:
                subject, verb = f"the token of {self.name!r}", "ends"
            case Expiring.CERTIFICATE:
                subject, verb = "the certificate that applications are served with", "expires"
        if self.days_left < 0:
            when = "ran out"
        elif self.days_left == 0:
            when = f"{verb} within a day"
        else:
            when = f"{verb} in {self.days_left} days"
        return f"{subject} {when}: {_NEXT_STEPS[self.what]}"

    def to_json(self) -> dict[str, Any]:
        """The expiry as JSON."""
        return {
            "what": self.what.value,
            "name": self.name,
            "expires_at": self.expires_at,
            "days_left": self.days_left,
            "sentence": self.sentence,
        }


def expiring(
    roster: Roster,
    own: PeerId,
    now: float,
    *,
    terms: Mapping[str, int] | None = None,
    others: Iterable[Ending] = (),
    within_s: float = EXPIRY_WARNING_S,
) -> list[Expiry]:
    """What has run out or does so within `within_s`, the earliest first.

    Args:
        roster: The one held.
        own: Our peer id.
        now: Unix seconds.
        terms: When the terms of collections end, unix seconds.
        others: What else ends.
        within_s: How far to look ahead, in seconds.
    """
    ends = [(Expiring.ROSTER, "", roster.expires_at)]
    member = roster.member(own)
    if member is not None:
        ends.append((Expiring.MEMBERSHIP, "", member.not_after))
    ends += [(Expiring.TERMS, name, end) for name, end in (terms or {}).items()]
    ends += others
    return [
        Expiry(what, name, end, int((end - now) // _DAY_S))
        for what, name, end in sorted(ends, key=lambda item: (item[2], item[0], item[1]))
        if end <= now + within_s
    ]
