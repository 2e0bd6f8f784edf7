"""What was found and answered before, kept for a while in memory only.

The same question gets the same answer. A question that is nearly the same (as in Proximity, Bergman
et al. 2025) gets the same sources, and an answer of its own: two questions that mean different
things can be close, and a model that sees the sources can tell. Nothing is shared between users or
purposes of use, for which owners decide apart.

Whatever may change what is true of an answer forgets it: another roster, another own library, a
withdrawal, the end of the owner's terms, and age.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from zerorag_p2p.config import AskingConfig
from zerorag_p2p.model import ContentHash, Purpose, Score, Vector
from zerorag_p2p.node.reports import QueryReport
from zerorag_p2p.rag.passages import Passage
from zerorag_p2p.rag.reports import Answer, Scope
from zerorag_p2p.routing.walk import float_score


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What has to be the same for an answer to be used again.

    Attributes:
        state: Numbers that change with the roster and with the own library.
    """

    application: str
    user: str
    purpose: Purpose
    marks: tuple[str, ...]
    scope: Scope
    k: int
    budget: int
    state: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        search: Its report.
        passages: What an answer may cite.
        own_best: Best score of a document of our own; None if these were not searched.
    """

    search: QueryReport
    passages: tuple[Passage, ...]
    own_best: Score | None


@dataclass(slots=True)
class Known:
    """What was found for a question.

    Attributes:
        embedding: Of the question, unit length.
        at: When it was found, in Unix time.
        expires_at: When it may not be used any more.
        answer: Generated from it, if one was.
    """

    text: str
    embedding: Vector
    circumstances: Circumstances
    found: Found
    at: float
    expires_at: float
    answer: Answer | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.embedding.nbytes + sum(
            len(document.content) + len(document.text) for document in self.found.search.documents
        )


class AnswerMemory:
    """Bounded by number, by size and by age; the oldest goes first."""

    def __init__(self, settings: AskingConfig) -> None:
        self._settings = settings
        self._known: list[Known] = []

    def __len__(self) -> int:
        return len(self._known)

    def find(
        self, text: str, embedding: Vector, circumstances: Circumstances, now: float
    ) -> tuple[Known, Score] | None:
        """What is known of the same question, else of the nearest one, and how near that is."""
        self.forget_stale(circumstances.state, now)
        same = normalised(text)
        best: tuple[Known, Score] | None = None
        for known in self._known:
            if known.circumstances != circumstances:
                continue
            if known.text == same:
                return known, 1.0
            score = min(float_score(embedding, known.embedding), 1.0)
            if score >= self._settings.same_question and (best is None or score > best[1]):
                best = known, score
        return best

    def keep(
        self,
        text: str,
        embedding: Vector,
        circumstances: Circumstances,
        *,
        found: Found,
        answer: Answer | None,
        terms_end: float | None,
        now: float,
    ) -> None:
        """Keep what was found, in place of what was known of the same question.

        Args:
            text: The question.
            embedding: Its embedding.
            circumstances: Under which it was asked.
            found: The sources, and how they were found.
            answer: What was generated from the sources.
            terms_end: When the first owner's terms end.
            now: Unix time.
        """
        self.forget_stale(circumstances.state, now)
        expires_at = now + self._settings.keep_s
        if terms_end is not None:
            expires_at = min(expires_at, terms_end)
        known = Known(
            text=normalised(text),
            embedding=embedding,
            circumstances=circumstances,
            found=found,
            at=now,
            expires_at=expires_at,
            answer=answer,
        )
        self._known = [
            item
            for item in self._known
            if (item.text, item.circumstances) != (known.text, circumstances)
        ]
        self._known.append(known)
        while self._known and not self._fits():
            del self._known[0]

    def forget_stale(self, state: tuple[int, ...], now: float) -> None:
        """Forget what is too old, or was found with another roster or another own library."""
        self._known = [
            item
            for item in self._known
            if now < item.expires_at and item.circumstances.state == state
        ]

    def invalidate(self, content_hashes: Collection[ContentHash]) -> None:
        """Forget what has one of these documents among its sources or its search."""
        self._known = [
            item
            for item in self._known
            if not any(
                document.content_hash in content_hashes for document in item.found.search.documents
            )
        ]

    def invalidate_all(self) -> None:
        """Forget everything."""
        self._known = []

    def _fits(self) -> bool:
        return (
            len(self._known) <= self._settings.keep_answers
            and sum(item.size for item in self._known) <= self._settings.keep_bytes
        )


def normalised(text: str) -> str:
    """A question as it is compared: white space does not count."""
    return " ".join(text.split())
