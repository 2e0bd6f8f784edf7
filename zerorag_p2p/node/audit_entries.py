"""Audit entries of what a node does, made from its messages and reports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from zerorag_p2p.audit import events
from zerorag_p2p.audit.events import CollectionNote, Decided, DocumentNote, Given
from zerorag_p2p.errors import AttributionError, DecodeError
from zerorag_p2p.identity.release import open_release
from zerorag_p2p.identity.roster import Roster
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.model import ContentHash, Purpose, View
from zerorag_p2p.node.contacts import Failure
from zerorag_p2p.node.happenings import Happening, PolicyChanged
from zerorag_p2p.node.outgoing import Traffic
from zerorag_p2p.node.reports import AnswerDocument, PeerName
from zerorag_p2p.peer import Requester
from zerorag_p2p.policy.decision import Decision
from zerorag_p2p.wire.fetch import FetchedDocument, FetchItem, FetchRequest
from zerorag_p2p.wire.query import QueryRequest, QueryResult, ResultDocument
from zerorag_p2p.wire.refusal import Refusal
from zerorag_p2p.wording import counted

ANSWERED: Final = "answered"

#: How a query was answered of which some or all collections were denied.
PARTLY_ANSWERED: Final = "partly answered"
DENIED: Final = "denied"

#: How a contact ended whose reply was not waited for.
GIVEN_UP: Final = "given up"


def result_note(document: ResultDocument, *, collection: str = "", rule: str = "") -> DocumentNote:
    """What a result tells of a document: its embedding, or only that it exists."""
    return DocumentNote(
        content_hash=document.content_hash,
        collection=collection,
        given=Given.COUNT if document.embedding is None else Given.EMBEDDING,
        rule=rule,
    )


def collection_notes(
    decisions: Iterable[tuple[str, Decision]], view: View
) -> tuple[CollectionNote, ...]:
    """What was decided on the collections that a question was asked of, denials at the end.

    Args:
        decisions: Names of collections with what was decided.
        view: How much was asked for.
    """
    allowed = Decided.COUNTED if view is View.COUNT else Decided.ALLOWED
    notes = [
        CollectionNote(
            collection=name,
            decided=allowed if decision.allowed else Decided.DENIED,
            rule=decision.rule,
        )
        for name, decision in decisions
    ]
    return tuple(sorted(notes, key=lambda note: note.decided is Decided.DENIED))


def query_answered(
    request: QueryRequest,
    requester: Requester,
    reply: QueryResult | Refusal,
    *,
    query: str,
    collections: tuple[CollectionNote, ...],
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
        collections: What was decided on each.
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
        outcome=reply.code.value if isinstance(reply, Refusal) else _answered(collections),
        reason=reply.reason if isinstance(reply, Refusal) else "",
        count=None if isinstance(reply, Refusal) else reply.count,
        collections=() if refused else collections,
        documents=() if refused else tuple(notes),
        received=received,
        sent=sent,
    )


def _answered(collections: Sequence[CollectionNote]) -> str:
    denied = [note.decided is Decided.DENIED for note in collections]
    if not any(denied):
        return ANSWERED
    return DENIED if all(denied) else PARTLY_ANSWERED


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


def emergency_access(
    request: QueryRequest | FetchRequest,
    requester: Requester,
    rules: Iterable[str],
    notes: Iterable[DocumentNote],
) -> events.EmergencyAccess:
    """The entry of documents that emergency rules alone let out."""
    return events.EmergencyAccess(
        reference=request.audit,
        peer=requester.peer,
        organisation=requester.organisation,
        user=request.user,
        view=request.view,
        reason=request.reason or "",
        rule=", ".join(rules),
        documents=tuple(notes),
    )


def locked_out(
    request: QueryRequest | FetchRequest,
    requester: Requester,
    refusal: Refusal,
    *,
    kind: str,
    now: float,
) -> events.LockedOut:
    """The entry of a peer that is locked out from a request on.

    Args:
        request: The one by which it went too far.
        requester: Who asked.
        refusal: What it is told.
        kind: What it is locked out of.
        now: Unix seconds.
    """
    return events.LockedOut(
        reference=request.audit,
        peer=requester.peer,
        organisation=requester.organisation,
        request=kind,
        reason=refusal.reason,
        until=int(now) + (refusal.retry_after_s or 0),
    )


def peer_contacted(
    reference: str, peer: PeerName, reply: QueryResult | Failure | None, traffic: Traffic
) -> events.PeerContacted:
    """The entry of a peer that a question of ours was sent to; the reply is None if given up."""
    documents = map(result_note, reply.documents) if isinstance(reply, QueryResult) else ()
    return events.PeerContacted(
        reference=reference,
        peer=peer.peer,
        organisation=peer.organisation,
        outcome=_outcome(reply),
        reason=reply.reason if isinstance(reply, Failure) else "",
        documents=tuple(documents),
        sent=traffic.sent,
        received=traffic.received,
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
    traffic: Traffic,
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
        traffic: Bytes of the requests and replies.
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
        sent=traffic.sent,
        received=traffic.received,
    )


def _outcome(reply: object) -> str:
    if reply is None:
        return GIVEN_UP
    return reply.outcome.value if isinstance(reply, Failure) else ANSWERED


def _fetched(item: FetchItem, view: View) -> DocumentNote:
    """What came of a document, as its release says; without a sound one, as it was asked for."""
    if not isinstance(item, FetchedDocument):
        return DocumentNote(content_hash=item.content_hash, given=Given.NOTHING)
    try:
        release = open_release(item.release)
    except (AttributionError, DecodeError):
        return DocumentNote(content_hash=item.content_hash, given=Given(view.value))
    return DocumentNote(
        content_hash=item.content_hash,
        given=Given(release.view.value),
        redacted=release.redaction,
    )


def copy_kept(document: AnswerDocument, collection: str) -> events.CopyKept:
    """The entry of a verified document of an answer of which a copy is in `collection` now."""
    note = DocumentNote(
        content_hash=document.content_hash, collection=collection, given=Given.WHOLE
    )
    return events.CopyKept(
        reference=open_release(document.release).audit,
        peer=document.holder.peer,
        organisation=document.holder.organisation,
        owner=document.owner.peer,
        documents=(note,),
    )


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
        case PolicyChanged():
            return policy_in_force(
                happening.digest, rules=happening.rules, outbound=happening.outbound
            )
        case _:
            return None
