"""The queries of a node, put together from its events: those asked here and those it answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from zerorag_p2p.config import TOP_QUERIES, TOP_STEPS
from zerorag_p2p.tui.source import Json


@dataclass(slots=True)
class Step:
    """A contact or a fetch: the event that began it, and the one that ended it, if it has."""

    started: Json
    ended: Json | None = None

    @property
    def is_fetch(self) -> bool:
        """Whether texts were asked for, not documents looked for."""
        return bool(self.started["event"] == "fetch-started")


@dataclass(slots=True)
class AskedQuery:
    """A query that was asked here.

    Attributes:
        number: Tells queries apart; grows.
        started: Its first event; None if it began before anybody watched.
        hidden_steps: Steps beyond the limit, which are not kept.
        changes: Grows with every event.
    """

    number: int
    query: str
    at: float
    started: Json | None = None
    ended: Json | None = None
    steps: list[Step] = field(default_factory=list)
    hidden_steps: int = 0
    changes: int = 0

    @property
    def contacts(self) -> int:
        """How many peers were asked so far."""
        fetches = sum(step.is_fetch for step in self.steps)
        return len(self.steps) - fetches + self.hidden_steps

    @property
    def last_contact(self) -> Json | None:
        """The event of the contact that ended last."""
        return next(
            (step.ended for step in reversed(self.steps) if step.ended and not step.is_fetch), None
        )


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """A query of another peer that was answered here."""

    number: int
    event: Json


class QueryLog:
    """The newest queries, at most `TOP_QUERIES` of each kind.

    Attributes:
        changes: Grows with every event, so that nothing is drawn anew without need.
        lost: Events that the node dropped because they were not read in time.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.lost = 0
        self._asked: dict[str, AskedQuery] = {}
        self._answered: deque[AnsweredQuery] = deque(maxlen=TOP_QUERIES)
        self._numbers = count()

    def __iter__(self) -> Iterator[AskedQuery | AnsweredQuery]:
        """Every query, in no order."""
        yield from self._asked.values()
        yield from self._answered

    def asked(self, query: str) -> AskedQuery | None:
        """A query that was asked here, by its reference."""
        return self._asked.get(query)

    def handle(self, event: Json) -> None:
        """Take in an event of the node; those of other kinds are passed over."""
        match event["event"]:
            case "lost":
                self.lost += event["count"]
            case "query-answered":
                self._answered.append(AnsweredQuery(next(self._numbers), event))
            case "query-started":
                self._of(event).started = event
            case "contact-started" | "fetch-started":
                self._begin(self._of(event), event)
            case "contact-ended":
                self._end(self._of(event), event, event["contact"]["peer"], is_fetch=False)
            case "fetch-ended":
                self._end(self._of(event), event, event["peer"], is_fetch=True)
            case "query-ended":
                self._of(event).ended = event
            case _:
                return
        self.changes += 1

    def _of(self, event: Json) -> AskedQuery:
        query = self._asked.get(event["query"])
        if query is None:
            query = AskedQuery(next(self._numbers), event["query"], event["at"])
            self._asked[query.query] = query
            if len(self._asked) > TOP_QUERIES:
                del self._asked[next(iter(self._asked))]
        query.changes += 1
        return query

    def _begin(self, query: AskedQuery, event: Json) -> None:
        if len(query.steps) < TOP_STEPS:
            query.steps.append(Step(event))
        elif event["event"] == "contact-started":
            query.hidden_steps += 1

    def _end(self, query: AskedQuery, event: Json, peer: str, *, is_fetch: bool) -> None:
        for step in reversed(query.steps):
            if step.ended is None and step.is_fetch is is_fetch and step.started["peer"] == peer:
                step.ended = event
                return
