"""Markdown: its headings are the outline, the first one the title."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from zerorag_p2p.config import MAX_OUTLINE_MARKS, MAX_RECORD_BYTES
from zerorag_p2p.library.formats.encoding import decode
from zerorag_p2p.library.formats.source_file import Extract, SourceFile
from zerorag_p2p.library.outline import Mark
from zerorag_p2p.library.records import Record

_HEADING_OR_FENCE: Final = re.compile(
    r"^ {0,3}(?:(?P<fence>```|~~~)|(?P<level>#{1,6})[ \t]+(?P<heading>.+?)[ \t]*#*[ \t]*$)",
    re.MULTILINE,
)
_LABEL_CHARACTERS: Final = 200


def read_markdown(source: SourceFile) -> Iterator[Record]:
    """Read a file as one record.

    Raises:
        LibraryError: It is too long, or cannot be decoded.
    """
    data = source.read(MAX_RECORD_BYTES)
    extract = extract_markdown(decode(data, encoding=source.options.encoding))
    yield Record(
        name="",
        title=extract.title or source.default_title,
        text=extract.text,
        outline=extract.outline,
    )


def extract_markdown(text: str) -> Extract:
    """The text as it is, with its headings; those inside of fenced code are none."""
    marks: list[Mark] = []
    fence = ""
    for match in _HEADING_OR_FENCE.finditer(text):
        if match["fence"]:
            if not fence:
                fence = match["fence"]
            elif fence == match["fence"]:
                fence = ""
        elif not fence and len(marks) < MAX_OUTLINE_MARKS:
            label = match["heading"][:_LABEL_CHARACTERS]
            marks.append(Mark(match.start(), len(match["level"]), label))
    return Extract(marks[0].label if marks else "", text, tuple(marks))
