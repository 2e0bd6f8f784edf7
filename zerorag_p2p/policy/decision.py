"""Whether a peer may see a document: one pure function for results, fetches and advertisements.

Everything is denied that no rule allows. A collection starts unshared; sharing it is the rule.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from zerorag_p2p.model import ContentHash, PeerId, Purpose, Vector, View
from zerorag_p2p.policy.sharing import Sharing


class Act(enum.StrEnum):
    """What would let the document, or something about it, out."""

    RESULT = "result"
    FETCH = "fetch"
    ADVERTISE = "advertise"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """Who asks for what, and for what purpose.

    Attributes:
        requester: The authenticated peer; None stands for every member, now and later.
        organisation: The requester's organisation as the roster names it.
        purpose: Purpose of use; None for an advertisement, which serves every purpose.
        query: Embedding of the question, unit length; None where there is none.
    """

    act: Act
    requester: PeerId | None
    organisation: str
    purpose: Purpose | None
    view: View
    query: Vector | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome, the rule that led to it and a sentence for people."""

    allowed: bool
    rule: str
    reason: str


def decide(
    request: AccessRequest,
    *,
    collection: str,
    sharing: Sharing | None,
    document: ContentHash | None = None,
) -> Decision:
    """Decide on one document, or with `document` None on a collection as a whole.

    Args:
        request: Who asks for what.
        collection: Name of the collection the document belongs to.
        sharing: How the collection is shared; None if it is not.
        document: The document; no rule looks at single documents yet.
    """
    del document
    name = f"collection {collection!r}"
    if sharing is None:
        return Decision(False, "unshared", f"{name} is not shared")
    if request.act is Act.ADVERTISE:
        if not sharing.advertise:
            return Decision(False, "not-advertised", f"{name} is shared but not advertised")
        if sharing.members:
            reason = f"{name} is shared with some members only; an advertisement reaches all"
            return Decision(False, "members", reason)
        return Decision(True, "shared", f"{name} is shared with every member")
    if sharing.members and request.requester not in sharing.members:
        return Decision(False, "members", f"{name} is not shared with {request.organisation!r}")
    if sharing.purposes and request.purpose not in sharing.purposes:
        allowed = ", ".join(sharing.purposes)
        reason = f"{name} is shared for {allowed}, not for {request.purpose}"
        return Decision(False, "purpose", reason)
    if request.view.rank > sharing.view.rank:
        reason = f"{name} is shared up to the view {sharing.view!s}, not {request.view!s}"
        return Decision(False, "view", reason)
    return Decision(True, "shared", f"{name} is shared with {request.organisation!r}")
