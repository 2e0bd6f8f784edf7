"""Audit entries of what a node does, made from its messages and reports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from zerorag_p2p.audit import events
from zerorag_p2p.audit.events import DocumentNote, Given
from zerorag_p2p.identity.roster import Roster
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.model import ContentHash, Purpose, View
from zerorag_p2p.node.contacts import Failure
from zerorag_p2p.node.happenings import EmergencyAccess, Happening, PolicyChanged
from zerorag_p2p.node.reports import PeerName
from zerorag_p2p.peer import Requester
from zerorag_p2p.wire.fetch import FetchedDocument, FetchItem, FetchRequest
from zerorag_p2p.wire.query import QueryRequest, QueryResult, ResultDocument
from zerorag_p2p.wire.refusal import Refusal
from zerorag_p2p.wording import counted

ANSWERED = "answered"

#: What an emergency access is given, by what it asks for.
_EMERGENCY_GIVEN: Final = {"query": Given.EMBEDDING, "fetch": Given.WHOLE}

#: How a contact ended whose reply was not waited for.
GIVEN_UP = "given up"


def result_note(document: ResultDocument, *, collection: str = "", rule: str = "") -> DocumentNote:
    """What a result tells of a document: its embedding, or only that it exists."""
    return DocumentNote(
        content_hash=document.content_hash,
        collection=collection,
        given=Given.COUNT if document.embedding is None else Given.EMBEDDING,
        rule=rule,
    )


def query_answered(
    request: QueryRequest,
    requester: Requester,
    reply: QueryResult | Refusal,
    *,
    query: str,
    notes: Iterable[DocumentNote],
    received: int,
    sent: int,
) -> events.QueryAnswered:
    """The entry of a query of another peer.

    Args:
        request: What was asked.
        requester: Who asked.
        reply: What is answered.
        query: Keyed hash of its embedding.
        notes: Of the documents in the reply.
        received: Bytes of the request.
        sent: Bytes of the reply.
    """
    refused = isinstance(reply, Refusal)
    return events.QueryAnswered(
        reference=request.audit,
        peer=requester.peer,
        organisation=requester.organisation,
        user=request.user,
        purpose=request.purpose,
        view=request.view,
        query=query,
        outcome=reply.code.value if isinstance(reply, Refusal) else ANSWERED,
        reason=reply.reason if isinstance(reply, Refusal) else "",
        count=None if isinstance(reply, Refusal) else reply.count,
        documents=() if refused else tuple(notes),
        received=received,
        sent=sent,
    )


def fetch_answered(
    request: FetchRequest,
    requester: Requester,
    notes: Sequence[DocumentNote],
    *,
    received: int,
    sent: int,
) -> events.FetchAnswered:
    """The entry of a fetch by another peer; the other arguments are those of `query_answered`."""
    delivered = sum(note.given is not Given.NOTHING for note in notes)
    return events.FetchAnswered(
        reference=request.audit,
        peer=requester.peer,
        organisation=requester.organisation,
        user=request.user,
        purpose=request.purpose,
        view=request.view,
        outcome=f"delivered {delivered} of {len(notes)}",
        reason=request.reason or "",
        documents=tuple(notes),
        received=received,
        sent=sent,
    )


def peer_contacted(
    reference: str, peer: PeerName, reply: QueryResult | Failure | None
) -> events.PeerContacted:
    """The entry of a peer that a question of ours was sent to; None if it was given up."""
    documents = map(result_note, reply.documents) if isinstance(reply, QueryResult) else ()
    return events.PeerContacted(
        reference=reference,
        peer=peer.peer,
        organisation=peer.organisation,
        outcome=_outcome(reply),
        reason=reply.reason if isinstance(reply, Failure) else "",
        documents=tuple(documents),
    )


def fetch_received(
    wanted: Sequence[ContentHash],
    reply: Sequence[FetchItem] | Failure | None,
    *,
    reference: str,
    holder: PeerName,
    user: str,
    purpose: Purpose,
    view: View,
) -> events.FetchReceived:
    """The entry of a fetch of ours, before what came is verified.

    Args:
        wanted: Which documents were asked for.
        reply: What became of each, or why there is no reply; None if it was given up.
        reference: Of the query they were found by.
        holder: Who was asked.
        user: Pseudonym of the person who asks.
        purpose: What they are wanted for.
        view: How much of them was asked for.
    """
    if reply is None or isinstance(reply, Failure):
        notes = [DocumentNote(content_hash=item, given=Given.NOTHING) for item in wanted]
    else:
        notes = [_fetched(item, view) for item in reply]
    return events.FetchReceived(
        reference=reference,
        peer=holder.peer,
        organisation=holder.organisation,
        user=user,
        purpose=purpose,
        view=view,
        outcome=_outcome(reply),
        reason=reply.reason if isinstance(reply, Failure) else "",
        documents=tuple(notes),
    )


def _outcome(reply: object) -> str:
    if reply is None:
        return GIVEN_UP
    return reply.outcome.value if isinstance(reply, Failure) else ANSWERED


def _fetched(item: FetchItem, view: View) -> DocumentNote:
    given = Given(view.value) if isinstance(item, FetchedDocument) else Given.NOTHING
    return DocumentNote(content_hash=item.content_hash, given=given)


def roster_in_force(roster: Roster, signed: bytes) -> events.RosterInForce:
    """The entry of the roster that is in force."""
    return events.RosterInForce(
        version=roster.version,
        digest=hashlib.sha256(signed).hexdigest(),
        members=len(roster.members),
        former=len(roster.former),
    )


def documents_withdrawn(withdrawal: Withdrawal, owner: PeerName) -> events.DocumentsWithdrawn:
    """The entry of documents that their owner, we or another, took back."""
    return events.DocumentsWithdrawn(
        peer=owner.peer,
        organisation=owner.organisation,
        reason=withdrawal.describe(),
        documents=tuple(
            DocumentNote(content_hash=item, given=Given.NOTHING) for item in withdrawal.documents
        ),
    )


def policy_in_force(digest: str, *, rules: int, outbound: int) -> events.PolicyInForce:
    """The entry of the owner's rules that are in force; `digest` is "" where there is no file."""
    return events.PolicyInForce(
        source="policy.toml",
        digest=digest or hashlib.sha256(b"").hexdigest(),
        reason=f"{counted(rules, 'rule')} on documents, {outbound} on questions",
    )


def entry_of(happening: Happening) -> events.Event | None:
    """The entry of something that happened, if it is of a kind that is recorded."""
    match happening:
        case EmergencyAccess():
            return events.EmergencyAccess(
                reference=happening.audit,
                peer=happening.peer,
                organisation=happening.organisation,
                user=happening.user,
                reason=happening.reason,
                rule=", ".join(happening.rules),
                documents=tuple(
                    DocumentNote(content_hash=item, given=_EMERGENCY_GIVEN[happening.request])
                    for item in happening.documents
                ),
            )
        case PolicyChanged():
            return policy_in_force(
                happening.digest, rules=happening.rules, outbound=happening.outbound
            )
        case _:
            return None
