"""Keeping a copy of a fetched document, as far as its owner's terms allow."""

from __future__ import annotations

from collections.abc import Sequence

from zerorag_p2p.errors import AttributionError
from zerorag_p2p.identity.attribution import Fault
from zerorag_p2p.identity.custody import NOT_ALLOWED, take_custody
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.workloads.holdings import ArrayHoldings


def keep_copy(
    holdings: ArrayHoldings,
    identity: Identity,
    content_hash: ContentHash,
    links: Sequence[bytes],
    now: float,
) -> bool:
    """Keep a copy of a document, shared again if its owner's terms allow; whether it was kept.

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
    try:
        extended, chain = take_custody(identity, links, now)
    except AttributionError as error:
        if error.fault in NOT_ALLOWED:
            return False
        raise
    statement = chain.statement
    number = holdings.table.number(content_hash)
    if statement.content_hash != content_hash or number is None:
        reason = f"the statement is about {statement.content_hash}, not about {content_hash}"
        raise AttributionError(Fault.OTHER_DOCUMENT, reason)
    # Terms are an owner's for one of its collections, and so are the rules for its copies.
    collection = f"{statement.collection} of {statement.owner}"
    holdings.keep(number, collection, extended, statement)
    if statement.terms.reshare:
        sharing = Sharing(purposes=statement.terms.purposes, terms=statement.terms)
        holdings.share(collection, sharing)
    return True
