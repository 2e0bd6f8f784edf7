"""Keeping a copy of a fetched document, as far as its owner's terms allow."""

from __future__ import annotations

from collections.abc import Sequence

from zerorag_p2p.config import MAX_CHAIN_LINKS
from zerorag_p2p.errors import AttributionError
from zerorag_p2p.identity.attribution import sign_custody, verify_chain
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.workloads.holdings import ArrayHoldings, DocumentTable


def keep_copy(
    holdings: ArrayHoldings,
    table: DocumentTable,
    identity: Identity,
    content_hash: ContentHash,
    links: Sequence[bytes],
    now: float,
) -> bool:
    """Keep a copy of a document, shared again if its owner's terms allow; whether it was kept.

    The chain, our custody statement included, is verified: what a receiver would refuse is not
    kept. A chain that is at its longest (`MAX_CHAIN_LINKS`) takes no further copy.

    Args:
        holdings: Where the copy goes.
        table: The documents that there are.
        identity: The one that takes custody.
        content_hash: The document that was fetched.
        links: Its attribution as it came.
        now: Unix seconds.

    Raises:
        AttributionError: The chain as it came does not verify or is about another document.
        DecodeError: A link is malformed.
    """
    statement = verify_chain(links).statement
    number = table.number(content_hash)
    if statement.content_hash != content_hash or number is None:
        raise AttributionError("other-document", f"the statement is about {statement.content_hash}")
    if len(links) == MAX_CHAIN_LINKS:
        return False
    extended = (*links, sign_custody(identity, links[-1], now))
    try:
        verify_chain(extended)
    except AttributionError:
        return False  # the terms do not allow it
    # A collection for each rule: copies are bound by their owners' terms, which may differ.
    terms = statement.terms
    collection = f"copies-{'reshared' if terms.reshare else 'kept'}"
    sharing = Sharing(purposes=terms.purposes, terms=terms) if terms.reshare else None
    holdings.keep(number, collection, extended)
    holdings.share(collection, sharing)
    return True
