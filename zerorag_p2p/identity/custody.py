"""Taking custody: keeping a copy of a document under its owner's terms, and saying so."""

from __future__ import annotations

from collections.abc import Sequence

from zerorag_p2p.config import MAX_CHAIN_LINKS
from zerorag_p2p.errors import AttributionError
from zerorag_p2p.identity.attribution import (
    Chain,
    Fault,
    open_custody,
    open_statement,
    sign_custody,
    verify_chain,
)
from zerorag_p2p.identity.keys import Identity

#: Faults that say no more than that a copy may not be kept.
NOT_ALLOWED = frozenset(
    {Fault.COPY_NOT_ALLOWED, Fault.RESHARING_NOT_ALLOWED, Fault.TERMS_EXPIRED, Fault.CHAIN_FULL}
)


def take_custody(
    identity: Identity, links: Sequence[bytes], now: float
) -> tuple[tuple[bytes, ...], Chain]:
    """The chain of a document with our custody statement in it, and what it says.

    The chain is verified with it: what a receiver would refuse is not signed into being.

    Args:
        identity: The one that takes custody.
        links: The document's attribution as it came.
        now: Unix seconds.

    Raises:
        AttributionError: The chain does not verify, or the terms do not allow a copy; the fault is
            then one of `NOT_ALLOWED`.
        DecodeError: A link is malformed.
    """
    if len(links) >= MAX_CHAIN_LINKS:
        raise AttributionError(
            Fault.CHAIN_FULL,
            f"the chain has {MAX_CHAIN_LINKS} links, the most there may be; get the document from "
            "its owner or an earlier holder",
        )
    # Times in a chain may not go back, but clocks differ: ours may be behind the last holder's.
    received_at = max(now, _held_since(links))
    extended = (*links, sign_custody(identity, links[-1], received_at))
    return extended, verify_chain(extended)


def _held_since(links: Sequence[bytes]) -> float:
    """Since when the last holder has had the document, by its own clock."""
    if len(links) > 1:
        return open_custody(links[-1]).received_at
    return open_statement(links[0]).issued_at
