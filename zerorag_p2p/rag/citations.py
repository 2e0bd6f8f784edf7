"""Citations in a generated answer: those of no passage are taken out, all others are checked.

A citation is a number in square brackets, or several: [1], [2, 3], [1-3]. Whether a passage
supports the sentence that cites it is judged by words: the share of the sentence's words, without
those that any sentence has, that the passage has too. That finds a citation of another passage, and
does not find a sentence that twists what the passage says (docs/asking.md has the figures).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zerorag_p2p.vocabulary import COMMON_WORDS

#: Share of a sentence's words that a passage has to have. Measured (docs/asking.md).
SUPPORT_THRESHOLD: Final = 0.25

#: A sentence of fewer words cannot be judged.
_FEWEST_WORDS: Final = 3

_CITATION: Final = re.compile(r"\[ ?\d{1,3}(?: ?[,;\u2013-] ?\d{1,3}){0,11} ?\]")
_SPACED_CITATION: Final = re.compile(rf"\s{{0,8}}{_CITATION.pattern}")
#: At the end of a text, what may become the like, which has 80 characters at most.
_OPEN: Final = re.compile(r"\s{0,8}(?:\[[\d ,;\u2013-]{0,80})?\Z")
_RANGE: Final = re.compile(r"(\d+)(?:\s*[\u2013-]\s*(\d+))?")

#: A sentence: to a full stop or the like that something new follows, citations after it included.
_SENTENCE: Final = re.compile(
    rf".+?(?:[.!?](?:\s*{_CITATION.pattern})*(?=\s+[^a-z\s]|\s*\Z)|\Z)", re.DOTALL
)
_WORD: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]{2,}")
#: Words that any sentence may have.
_COMMON: Final = COMMON_WORDS | {"passage", "passages", "according"}


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that a sentence cites.

    Attributes:
        number: Of the passage.
        sentence: The sentence, without citations.
        support: Share of the sentence's words that the passage has, 0 to 1; None for a sentence
            that is too short to be judged.
    """

    number: int
    sentence: str
    support: float | None

    @property
    def supported(self) -> bool:
        """Whether nothing speaks against it."""
        return self.support is None or self.support >= SUPPORT_THRESHOLD


class CitationFilter:
    """Takes citations of passages that do not exist out of a text that arrives in pieces.

    Args:
        count: Number of passages.

    Attributes:
        removed: Numbers that were cited and do not exist, in order.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held = ""
        self.removed: list[int] = []

    def feed(self, piece: str) -> str:
        """Take in a piece; what can be shown by now."""
        text = self._held + piece
        open_ = _OPEN.search(text)
        assert open_ is not None, "it matches the empty end of any text"
        self._held = open_[0]
        return self._filter(text[: open_.start()])

    def finish(self) -> str:
        """What was held back, since a citation could have begun there."""
        text, self._held = self._held, ""
        return self._filter(text)

    def _filter(self, text: str) -> str:
        return _SPACED_CITATION.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        cited = _numbers(match[0], self._count)
        kept = [number for number in cited if 1 <= number <= self._count]
        self.removed += [number for number in cited if number not in kept]
        if not kept:
            return ""
        space = match[0][: match[0].index("[")]
        return f"{space}[{', '.join(map(str, kept))}]"


def check(text: str, passages: Sequence[str]) -> tuple[tuple[Citation, ...], int]:
    """The citations in a text, in order, and how many sentences cite nothing.

    Args:
        text: With citations of existing passages only.
        passages: The texts of passages 1, 2 and so on.
    """
    citations: list[Citation] = []
    uncited = 0
    known = [_words(passage) for passage in passages]
    for sentence in _sentences(text):
        bare = " ".join(_SPACED_CITATION.sub("", sentence).split())
        numbers = dict.fromkeys(
            number
            for match in _CITATION.finditer(sentence)
            for number in _numbers(match[0], len(passages))
        )
        words = _words(bare)
        if not numbers:
            uncited += len(words) >= _FEWEST_WORDS
        for number in numbers:
            support = None
            if len(words) >= _FEWEST_WORDS:
                support = len(words & known[number - 1]) / len(words)
            citations.append(Citation(number, bare, support))
    return tuple(citations), uncited


def support(sentence: str, passage: str) -> float | None:
    """Share of a sentence's words that a passage has; None if it has too few to tell."""
    words = _words(sentence)
    return len(words & _words(passage)) / len(words) if len(words) >= _FEWEST_WORDS else None


def _numbers(citation: str, count: int) -> list[int]:
    """The numbers in a citation. Of a range that leads beyond `count` its ends."""
    numbers: list[int] = []
    for first, last in _RANGE.findall(citation):
        begin, end = int(first), int(last or first)
        numbers += range(begin, end + 1) if begin <= end <= count else dict.fromkeys((begin, end))
    return list(dict.fromkeys(numbers))


def _sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for match in _SENTENCE.finditer(line):
            if match[0].strip():
                yield match[0].strip()


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold())) - _COMMON
