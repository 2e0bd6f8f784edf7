"""Cutting a text into parts of a limited number of tokens, without losing a character.

Boundaries are looked for from coarse to fine: sections, paragraphs, lines, sentences, words.
Separators stay with the part before them, so the parts joined are the text. Passages are parts that
begin with the last sentences of the part before them, so that what one sentence says of another is
found although they were cut apart; where a section begins nothing is repeated.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from zerorag_p2p.config import PASSAGE_OVERLAP_SHARE
from zerorag_p2p.errors import EmbeddingError

#: Where a passage begins and ends in its text, in characters.
Span: TypeAlias = tuple[int, int]

# Each matches a stretch of text up to and including one boundary of its kind.
_BOUNDARIES: Final = (
    re.compile(r"(?:(?!\n\s*\n).)+(?:\n\s*\n\s*)?|\n\s*\n\s*", re.DOTALL),
    re.compile(r"[^\n]*\n|[^\n]+"),
    re.compile(r".+?[.!?;。！？][\"')\]]*(?:\s+|$)|.+", re.DOTALL),
    re.compile(r"\s*\S+\s*|\s+"),
)
_SENTENCES: Final = 2  # the finest levels, by which what is repeated is chosen


def split_text(text: str, limit: int, count_tokens: Callable[[str], int]) -> list[str]:
    """Cut `text` into parts of at most `limit` tokens that joined are `text`.

    Args:
        text: Anything; an empty text is one empty part.
        limit: Tokens of the longest part, at least 1.
        count_tokens: Tokens of a text, without those that a model adds around it.

    Raises:
        EmbeddingError: A single character has more than `limit` tokens.
    """
    if count_tokens(text) <= limit:
        return [text]
    return _split(text, limit, count_tokens, level=0)


def cut_passages(
    text: str, limit: int, count_tokens: Callable[[str], int], sections: Sequence[int] = ()
) -> list[Span]:
    """Cut `text` into passages of at most `limit` tokens that cover it.

    Args:
        text: Anything; an empty text is one empty passage.
        limit: Tokens of the longest passage, at least 1.
        count_tokens: Tokens of a text, without those that a model adds around it.
        sections: Rising offsets at which sections begin.

    Raises:
        EmbeddingError: A single character has more than `limit` tokens.
    """
    if count_tokens(text) <= limit:
        return [(0, len(text))]
    overlap = int(limit * PASSAGE_OVERLAP_SHARE)
    starts = sorted({0, *(offset for offset in sections if 0 < offset < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise([*starts, len(text)])]
    parts: list[str] = []
    for stretch in _pack(pieces, limit - overlap, count_tokens):
        parts += split_text(stretch, limit - overlap, count_tokens)
    spans: list[Span] = []
    begins = frozenset(starts)
    start = 0
    for before, part in itertools.pairwise(["", *parts]):
        repeated = "" if start in begins else _ending(before, overlap, count_tokens)
        if count_tokens(repeated + part) > limit:
            repeated = ""
        spans.append((start - len(repeated), start + len(part)))
        start += len(part)
    return spans


def _ending(text: str, limit: int, count_tokens: Callable[[str], int]) -> str:
    """The last sentences of a text that fit the limit, else its last words."""
    for boundary in _BOUNDARIES[_SENTENCES:]:
        ending = ""
        for piece in reversed(boundary.findall(text)):
            if count_tokens(piece + ending) > limit:
                break
            ending = piece + ending
        if ending.strip() and ending != text:
            return ending
    return ""


def _split(text: str, limit: int, count_tokens: Callable[[str], int], *, level: int) -> list[str]:
    """Cut a text that is too long at the boundaries of `level`, and what is left at finer ones."""
    if level == len(_BOUNDARIES):
        return _halve(text, limit, count_tokens)
    parts: list[str] = []
    for stretch in _pack(_BOUNDARIES[level].findall(text), limit, count_tokens):
        # Counted whole: tokens of pieces need not add up to the tokens of their join.
        if count_tokens(stretch) <= limit:
            parts.append(stretch)
        else:
            parts += _split(stretch, limit, count_tokens, level=level + 1)
    return parts


def _pack(pieces: list[str], limit: int, count_tokens: Callable[[str], int]) -> list[str]:
    """Join neighbouring pieces while their tokens add up to at most `limit`."""
    packed: list[str] = []
    held: list[str] = []
    tokens = 0
    for piece in pieces:
        count = count_tokens(piece)
        if held and tokens + count > limit:
            packed.append("".join(held))
            held, tokens = [], 0
        held.append(piece)
        tokens += count
    packed.append("".join(held))
    return packed


def _halve(text: str, limit: int, count_tokens: Callable[[str], int]) -> list[str]:
    if count_tokens(text) <= limit:
        return [text]
    if len(text) == 1:
        raise EmbeddingError(f"the character {text!r} is longer than the model's {limit} tokens")
    middle = len(text) // 2
    return _halve(text[:middle], limit, count_tokens) + _halve(text[middle:], limit, count_tokens)
