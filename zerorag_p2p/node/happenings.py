"""What happens in a node, for whoever watches it: the events of `GET /v1/events`.

A query asked here is told whole, its text included: the stream is for the owner of the node. Of a
query that is answered for another peer neither text nor embedding is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zerorag_p2p.model import ContentHash, PeerId
from zerorag_p2p.node.reports import ContactReport, PeerName


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStarted:
    """A query begins here. `query` is its audit reference, which its other events repeat."""

    event: Literal["query-started"] = "query-started"
    at: float
    query: str
    text: str
    k: int
    budget: int
    fanout: int
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactStarted:
    """A peer is asked.

    Attributes:
        evidence: What led to the contact, as in `ContactReport`.
        score: Score of that evidence; None for exploration.
        budget_left: Contacts that remain after this one.
    """

    event: Literal["contact-started"] = "contact-started"
    at: float
    query: str
    peer: PeerId
    organisation: str
    evidence: str
    score: float | None
    budget_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactEnded:
    """A peer answered, refused or failed, or was given up.

    Attributes:
        found: Documents held after it.
        best: Score of the best of them.
    """

    event: Literal["contact-ended"] = "contact-ended"
    at: float
    query: str
    contact: ContactReport
    found: int
    best: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStarted:
    """The texts of `documents` results are asked of a holder."""

    event: Literal["fetch-started"] = "fetch-started"
    at: float
    query: str
    peer: PeerId
    organisation: str
    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEnded:
    """A holder delivered texts, or did not.

    Attributes:
        verified: Documents of which everything verifies.
        reason: Why the first of the others is missing, or "".
    """

    event: Literal["fetch-ended"] = "fetch-ended"
    at: float
    query: str
    peer: PeerId
    organisation: str
    documents: int
    verified: int
    reason: str
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEnded:
    """A query is over.

    Attributes:
        stopped: Why its walk ended, or that its asker left.
    """

    event: Literal["query-ended"] = "query-ended"
    at: float
    query: str
    stopped: str
    complete: bool
    contacts: int
    documents: int
    bytes_sent: int
    bytes_received: int
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswered:
    """Another peer's query was answered with so many documents and referrals."""

    event: Literal["query-answered"] = "query-answered"
    at: float
    peer: PeerId
    organisation: str
    k: int
    purpose: str
    remembered: bool
    documents: int
    referrals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswered:
    """Another peer fetched documents here; `delivered` of them it was given."""

    event: Literal["fetch-answered"] = "fetch-answered"
    at: float
    peer: PeerId
    organisation: str
    purpose: str
    documents: int
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """We refused something to a peer, or a peer refused something to us.

    Attributes:
        by: Who refused.
        request: What was asked for: "hello", "query", "fetch" or "advertise".
        code: A refusal code of the protocol.
        reason: A sentence. Ours may say more than the peer was told.
        document: The document of a refused fetch.
    """

    event: Literal["refused"] = "refused"
    at: float
    by: Literal["us", "them"]
    peer: PeerId
    organisation: str
    request: str
    code: str
    reason: str
    document: ContentHash | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmergencyAccess:
    """A peer was given documents that an emergency rule alone lets out.

    Attributes:
        rules: Names of the rules.
        request: What it asked for: "query" or "fetch".
        user: Pseudonym of the person who asks, of the peer's making.
        audit: Reference under which the peer logs its request.
        reason: The reason that it stated.
        first: Whether the peer's time by one of the rules begins with it.
    """

    event: Literal["emergency-access"] = "emergency-access"
    at: float
    peer: PeerId
    organisation: str
    rules: tuple[str, ...]
    request: str
    user: str
    audit: str
    reason: str
    documents: tuple[ContentHash, ...]
    first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """Other rules of the owner are in force from now on.

    Attributes:
        digest: SHA-256 of the file they are from, or "" where there is none.
        rules, outbound: How many rules there are on documents and on questions.
    """

    event: Literal["policy-changed"] = "policy-changed"
    at: float
    digest: str
    rules: int
    outbound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborAdded:
    """A peer became a neighbour, in place of `evicted` where the view was full."""

    event: Literal["neighbor-added"] = "neighbor-added"
    at: float
    peer: PeerId
    organisation: str
    evicted: PeerName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborRemoved:
    """A neighbour was forgotten, and why."""

    event: Literal["neighbor-removed"] = "neighbor-removed"
    at: float
    peer: PeerId
    organisation: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChanged:
    """What the failure detector thinks of a peer changed: "alive", "suspect" or "dead"."""

    event: Literal["member-changed"] = "member-changed"
    at: float
    peer: PeerId
    organisation: str
    state: str


Happening: TypeAlias = (
    QueryStarted
    | ContactStarted
    | ContactEnded
    | FetchStarted
    | FetchEnded
    | QueryEnded
    | QueryAnswered
    | FetchAnswered
    | Refused
    | EmergencyAccess
    | PolicyChanged
    | NeighborAdded
    | NeighborRemoved
    | MemberChanged
)

#: Told of what happens, in the task in which it happens; must not block or raise.
Observer: TypeAlias = Callable[[Happening], None]
