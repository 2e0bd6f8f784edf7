"""What an owner's terms keep whoever holds a document from doing with it.

Terms bind whoever they reach: the owner, whose statement names them, and the holder of a copy,
beside its own policy. A receiver checks the same (`identity.verification`).
"""

from __future__ import annotations

from zerorag_p2p.model import Purpose, SharingTerms
from zerorag_p2p.policy.sharing import Sharing


def withheld_by_terms(
    copied: SharingTerms | None, sharing: Sharing | None, purpose: Purpose | None, now: float
) -> str:
    """Why terms keep a document from other peers, a sentence; "" where they do not.

    Args:
        copied: The owner's terms, where we hold a copy; None for a document of our own.
        sharing: How the collection is shared, whose terms our own documents are under.
        purpose: What it would be sent for; None for an advertisement, which serves every purpose.
        now: Unix seconds.
    """
    terms = copied or (SharingTerms() if sharing is None else sharing.terms)
    if copied is not None and not copied.reshare:
        return "its owner does not allow copies to be passed on"
    if terms.expires_at is not None and now >= terms.expires_at:
        return f"the owner's terms ended {int(now) - terms.expires_at} s ago"
    # In an emergency an owner may let out more of its own than its terms say.
    if copied is None and purpose is Purpose.ETREAT:
        return ""
    if purpose is not None and terms.purposes and purpose not in terms.purposes:
        return f"the owner's terms allow {', '.join(terms.purposes)}, not {purpose}"
    return ""
