"""What a node has been doing: counts, the last refusals, figures of peers, and who is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal

from zerorag_p2p.config import KEPT_REFUSALS
from zerorag_p2p.model import ContentHash, PeerId, RefusalCode
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.figures import Figures
from zerorag_p2p.node.happenings import (
    ContactStarted,
    FetchAnswered,
    Happening,
    Observer,
    QueryAnswered,
    QueryStarted,
    Refused,
)

#: Codes of refusals that ask to wait.
_WAIT: Final = frozenset({RefusalCode.RATE_LIMITED, RefusalCode.PAUSED})

#: Of those, how long one stands for others alike, in seconds, and how many are looked through.
_QUIET_S: Final = 60.0
_LATELY: Final = 16


@dataclass(slots=True)
class Counts:
    """How often things happened since the start.

    Attributes:
        queries: Queries asked here, and `contacts` that they made.
        answered: Queries of others answered, with so many `returned` documents and `referrals`.
        delivered: Documents given to others that fetched them.
        refusals: Refusals, by us or by others.
    """

    queries: int = 0
    contacts: int = 0
    answered: int = 0
    returned: int = 0
    referrals: int = 0
    delivered: int = 0
    refusals: int = 0


class Activity:
    """Keeps the account of a node, and tells the observers.

    Args:
        directory: Names the organisations of peers.
        clock: Unix seconds.
    """

    def __init__(self, directory: Directory, clock: Callable[[], float]) -> None:
        self._directory = directory
        self._clock = clock
        self.counts = Counts()
        self.figures = Figures()
        self.refusals: deque[Refused] = deque(maxlen=KEPT_REFUSALS)
        self._observers: list[Observer] = []

    @contextmanager
    def watching(self, observer: Observer) -> Iterator[None]:
        """Tell `observer` of everything that happens while the context is entered."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    def tell(self, happening: Happening) -> None:
        """Take in what happened."""
        counts = self.counts
        match happening:
            case QueryStarted():
                counts.queries += 1
            case ContactStarted():
                counts.contacts += 1
            case QueryAnswered():
                counts.answered += 1
                counts.returned += happening.documents
                counts.referrals += happening.referrals
            case FetchAnswered():
                counts.delivered += happening.delivered
            case Refused():
                counts.refusals += 1
                self.refusals.append(happening)
            case _:
                pass
        for observer in tuple(self._observers):
            observer(happening)

    def tell_refusal(
        self,
        peer: PeerId,
        *,
        by: Literal["us", "them"],
        request: str,
        code: str,
        reason: str,
        document: ContentHash | None = None,
    ) -> None:
        """Take in a refusal; `Refused` explains the arguments.

        Of refusals that ask to wait, those that follow one alike within a minute are counted and
        not told, so that a flood neither hides the others nor floods the observers.
        """
        refused = Refused(
            at=self._clock(),
            by=by,
            peer=peer,
            organisation=self._directory.organisation(peer),
            request=request,
            code=code,
            reason=reason,
            document=document,
        )
        lately = islice(reversed(self.refusals), _LATELY)
        if code in _WAIT and any(_alike(refused, earlier) for earlier in lately):
            self.counts.refusals += 1
        else:
            self.tell(refused)


def _alike(refused: Refused, earlier: Refused) -> bool:
    passed = refused.at - earlier.at
    return passed < _QUIET_S and replace(refused, at=earlier.at) == earlier
