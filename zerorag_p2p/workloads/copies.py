"""Keeping a copy of a fetched document, as far as its owner's terms allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zerorag_p2p.config import MAX_CHAIN_LINKS
from zerorag_p2p.errors import AttributionError
from zerorag_p2p.identity.attribution import (
    Fault,
    open_custody,
    open_statement,
    sign_custody,
    verify_chain,
)
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.workloads.holdings import ArrayHoldings

_NOT_ALLOWED: Final = (Fault.COPY_NOT_ALLOWED, Fault.RESHARING_NOT_ALLOWED, Fault.TERMS_EXPIRED)


def keep_copy(
    holdings: ArrayHoldings,
    identity: Identity,
    content_hash: ContentHash,
    links: Sequence[bytes],
    now: float,
) -> bool:
    """Keep a copy of a document, shared again if its owner's terms allow; whether it was kept.

    The chain is verified with our custody statement in it: what a receiver would refuse is not
    kept. A chain that is at its longest (`MAX_CHAIN_LINKS`) takes no further copy.

    Args:
        holdings: Where the copy goes.
        identity: The one that takes custody.
        content_hash: The document that was fetched.
        links: Its attribution as it came.
        now: Unix seconds.

    Raises:
        AttributionError: The chain does not verify or is about another document.
        DecodeError: A link is malformed.
    """
    if len(links) >= MAX_CHAIN_LINKS:
        return False
    # Times in a chain may not go back, but clocks differ: ours may be behind the last holder's.
    received_at = max(now, _held_since(links))
    extended = (*links, sign_custody(identity, links[-1], received_at))
    try:
        statement = verify_chain(extended).statement
    except AttributionError as error:
        if error.fault in _NOT_ALLOWED:
            return False
        raise
    number = holdings.table.number(content_hash)
    if statement.content_hash != content_hash or number is None:
        reason = f"the statement is about {statement.content_hash}, not about {content_hash}"
        raise AttributionError(Fault.OTHER_DOCUMENT, reason)
    # Terms are an owner's for one of its collections, and so are the rules for its copies.
    collection = f"{statement.collection} of {statement.owner}"
    terms = statement.terms
    holdings.keep(number, collection, extended)
    if terms.reshare:
        holdings.share(collection, Sharing(purposes=terms.purposes, terms=terms))
    return True


def _held_since(links: Sequence[bytes]) -> float:
    """Since when the last holder has had the document, by its own clock."""
    if len(links) > 1:
        return open_custody(links[-1]).received_at
    return open_statement(links[0]).issued_at
