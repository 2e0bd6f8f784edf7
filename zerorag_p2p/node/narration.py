"""The story of one query asked here, told to observers as it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zerorag_p2p.model import NEVER_COMPARED, PeerId
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.happenings import (
    ContactEnded,
    ContactStarted,
    FetchEnded,
    FetchStarted,
    Observer,
    QueryEnded,
    QueryStarted,
)
from zerorag_p2p.node.outgoing import Traffic
from zerorag_p2p.node.reports import AnswerDocument, ContactReport, DocumentStatus, QueryReport
from zerorag_p2p.routing.walk import Step, Walk

#: Why a query ended whose asker did not wait for it.
ABANDONED = "abandoned by its asker"


class Narration:
    """Makes the events of one query, `audit` being its reference."""

    def __init__(
        self, audit: str, directory: Directory, clock: Callable[[], float], tell: Observer
    ) -> None:
        self._audit = audit
        self._directory = directory
        self._clock = clock
        self._tell = tell

    def begin(self, *, text: str, k: int, budget: int, fanout: int, purpose: str) -> None:
        """The query begins."""
        self._tell(
            QueryStarted(
                at=self._clock(),
                query=self._audit,
                text=text,
                k=k,
                budget=budget,
                fanout=fanout,
                purpose=purpose,
            )
        )

    def contact(self, step: Step, budget_left: int) -> None:
        """A peer is asked."""
        self._tell(
            ContactStarted(
                at=self._clock(),
                query=self._audit,
                peer=step.peer,
                organisation=self._directory.organisation(step.peer),
                evidence=step.reason,
                score=step.score if step.score > NEVER_COMPARED else None,
                budget_left=budget_left,
            )
        )

    def contact_ended(self, contact: ContactReport, walk: Walk) -> None:
        """A peer answered, refused, failed or was given up."""
        results = walk.results()
        self._tell(
            ContactEnded(
                at=self._clock(),
                query=self._audit,
                contact=contact,
                found=len(results),
                best=results[0].score if results else None,
            )
        )

    def fetch(self, holder: PeerId, documents: int) -> None:
        """Texts are asked of a holder."""
        self._tell(
            FetchStarted(
                at=self._clock(),
                query=self._audit,
                peer=holder,
                organisation=self._directory.organisation(holder),
                documents=documents,
            )
        )

    def fetch_ended(
        self, holder: PeerId, answers: Sequence[AnswerDocument], seconds: float
    ) -> None:
        """A holder delivered, or did not."""
        faults = [item.fault for item in answers if item.fault is not None]
        self._tell(
            FetchEnded(
                at=self._clock(),
                query=self._audit,
                peer=holder,
                organisation=self._directory.organisation(holder),
                documents=len(answers),
                verified=sum(item.status is DocumentStatus.VERIFIED for item in answers),
                reason=faults[0] if faults else "",
                milliseconds=seconds * 1000,
            )
        )

    def end(self, report: QueryReport | None, walk: Walk, traffic: Traffic, seconds: float) -> None:
        """The query is over; without a report it was abandoned."""
        self._tell(
            QueryEnded(
                at=self._clock(),
                query=self._audit,
                stopped=ABANDONED if report is None else report.stopped,
                complete=report is not None and report.complete,
                contacts=len(walk.visited),
                documents=0 if report is None else len(report.documents),
                bytes_sent=traffic.sent,
                bytes_received=traffic.received,
                milliseconds=seconds * 1000,
            )
        )
