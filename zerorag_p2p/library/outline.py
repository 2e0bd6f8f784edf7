"""Where the pages and sections of a text begin, and what a passage is told to be from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zerorag_p2p.config import MAX_OUTLINE_MARKS

_PARAGRAPH: Final = "\n\n"
_LABEL_CHARACTERS: Final = 200
_PAGE: Final = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """The beginning of a page or section.

    Attributes:
        offset: Characters of the text before it.
        level: Of a section's heading, from 1 for the outermost; 0 for a page.
        label: The heading, or the number of the page.
    """

    offset: int
    level: int
    label: str


#: The marks of a text by rising offset.
Outline: TypeAlias = tuple[Mark, ...]


def sections(outline: Outline) -> list[int]:
    """The offsets at which sections begin."""
    return sorted({mark.offset for mark in outline if mark.level != _PAGE})


def places(outline: Outline, spans: Sequence[tuple[int, int]]) -> list[dict[str, str]]:
    """What each passage of a text is told to be from: its "page" or pages, and its "section".

    Args:
        outline: Of the text.
        spans: Where the passages begin and end, by rising beginnings.
    """
    found = []
    offsets = [mark.offset for mark in outline]
    page = ""
    path: list[Mark] = []
    position = 0
    for start, end in spans:
        while position < len(outline) and outline[position].offset <= start:
            mark = outline[position]
            if mark.level == _PAGE:
                page = mark.label
            else:
                path = [*(item for item in path if item.level < mark.level), mark]
            position += 1
        first, last, inner = page, page, path
        for mark in outline[position : bisect_left(offsets, end, position)]:
            if mark.level == _PAGE:
                first, last = first or mark.label, mark.label
            elif not inner:
                inner = [mark]
        described = {}
        if last:
            described["page"] = first if first == last else f"{first}-{last}"
        if inner:
            described["section"] = " > ".join(mark.label for mark in inner)
        found.append(described)
    return found


def outline_json(outline: Outline) -> list[list[Any]]:
    """An outline as JSON."""
    return [[mark.offset, mark.level, mark.label] for mark in outline]


def outline_from_json(value: Iterable[tuple[int, int, str]]) -> Outline:
    """Read what `outline_json` returned."""
    return tuple(Mark(offset, level, label) for offset, level, label in value)


class TextBuilder:
    """Puts a text together paragraph by paragraph, and notes its pages and sections."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._marks: list[Mark] = []
        self._pending: list[tuple[int, str]] = []

    @property
    def outline(self) -> Outline:
        """The pages and sections of what was added."""
        return tuple(self._marks)

    @property
    def text(self) -> str:
        """What was added."""
        return "".join(self._pieces)

    @property
    def length(self) -> int:
        """Characters of what was added."""
        return self._length

    def add_page(self, label: str) -> None:
        """Begin a page with the next paragraph."""
        self._pending.append((_PAGE, label))

    def add_heading(self, level: int, text: str) -> None:
        """Add a heading, which begins a section, unless it is blank."""
        label = " ".join(text.split())[:_LABEL_CHARACTERS]
        if label:
            self._pending.append((level, label))
            self.add_paragraph(text)

    def add_paragraph(self, text: str) -> None:
        """Add a paragraph, unless it is blank."""
        text = text.strip()
        if not text:
            return
        if self._pieces:
            self._add(_PARAGRAPH)
        room = MAX_OUTLINE_MARKS - len(self._marks)
        self._marks += [Mark(self._length, *item) for item in self._pending[:room]]
        self._pending.clear()
        self._add(text)

    def add_text(self, text: str, outline: Outline) -> None:
        """Add a text with an outline of its own as a paragraph."""
        before = len(text) - len(text.lstrip())
        self.add_paragraph(text)
        start = self._length - len(text.strip()) - before
        room = MAX_OUTLINE_MARKS - len(self._marks)
        self._marks += [Mark(start + item.offset, item.level, item.label) for item in outline][
            :room
        ]

    def _add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
