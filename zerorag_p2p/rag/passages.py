"""The passages of an answer: documents of several owners, merged, chosen and numbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zerorag_p2p.model import Score
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus

_WORD: Final = re.compile(r"\w+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Passage:
    """One text and every document that has it.

    Attributes:
        number: By which an answer cites it, from 1.
        documents: The best scored first; each with the attribution of its owner.
    """

    number: int
    documents: tuple[AnswerDocument, ...]

    @property
    def best(self) -> AnswerDocument:
        """The document that stands for the passage."""
        return self.documents[0]

    @property
    def text(self) -> str:
        """The text, as its best scored document has it."""
        return self.best.text

    @property
    def score(self) -> Score:
        """The best score."""
        return self.best.score


def merge(documents: Iterable[AnswerDocument]) -> list[Passage]:
    """The verified texts, each once, best first and numbered.

    Texts that differ in white space only are the same; every document that has a text is kept
    with it.
    """
    groups: dict[str, list[AnswerDocument]] = {}
    for document in sorted(documents, key=lambda document: -document.score):
        text = " ".join(document.text.split())
        if document.status is DocumentStatus.VERIFIED and text:
            groups.setdefault(text, []).append(document)
    return _numbered(Passage(0, tuple(group)) for group in groups.values())


def reorder(passages: Sequence[Passage], values: Sequence[float]) -> list[Passage]:
    """The passages by falling value, numbered anew; equal ones stay as they were.

    Args:
        passages: The passages.
        values: One of each.
    """
    order = sorted(range(len(passages)), key=lambda place: -values[place])
    return _numbered(passages[place] for place in order)


def choose(passages: Sequence[Passage], k: int, *, diversity: float) -> list[Passage]:
    """At most k passages, numbered anew: maximal marginal relevance (Carbonell, Goldstein 1998).

    The best one comes first, then always the one whose relevance less `diversity` times its
    likeness to what was chosen is highest. Likeness is the share of words that two passages have
    in common. The relevance of the i-th passage is the i-th best score of all, so that any order
    can be weighed against likeness.

    Args:
        passages: Best first, by score or otherwise.
        k: How many are wanted.
        diversity: 0 chooses by order alone.
    """
    left = list(passages)
    scores = sorted((passage.score for passage in left), reverse=True)
    relevance = {item.number: score for item, score in zip(left, scores, strict=True)}
    words = {passage.number: _words(passage.text) for passage in left}
    likeness = dict.fromkeys(words, 0.0)
    chosen: list[Passage] = []
    while left and len(chosen) < k:
        best = max(
            left, key=lambda item: relevance[item.number] - diversity * likeness[item.number]
        )
        left.remove(best)
        chosen.append(best)
        for item in left:
            alike = _jaccard(words[best.number], words[item.number])
            likeness[item.number] = max(likeness[item.number], alike)
    return _numbered(chosen)


def _numbered(passages: Iterable[Passage]) -> list[Passage]:
    return [replace(passage, number=number) for number, passage in enumerate(passages, start=1)]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first or second else 1.0
