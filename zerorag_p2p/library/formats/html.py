"""HTML: what a reader sees of a page, with its headings; scripts and styles are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from zerorag_p2p.config import MAX_WHOLE_FILE_BYTES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.encoding import decode
from zerorag_p2p.library.formats.source_file import Extract, SourceFile
from zerorag_p2p.library.outline import TextBuilder
from zerorag_p2p.library.records import Record

_DROPPED: Final = frozenset({"script", "style", "template", "head", "noscript", "iframe", "svg"})
_INLINE: Final = frozenset(
    {
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn"),
        *("em", "font", "i", "img", "ins", "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s"),
        *("samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var"),
        "wbr",
    }
)
_CELLS: Final = frozenset({"td", "th"})
_HEADING: Final = re.compile(r"h([1-6])")
_BLANKS: Final = re.compile(r"[ \t\r\n\f\v]+")
_DECLARED: Final = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)=["']?([\w-]+)""")
_DECLARATION_BYTES: Final = 4 << 10


def read_html(source: SourceFile) -> Iterator[Record]:
    """Read a file as one record.

    Raises:
        LibraryError: It is too long, cannot be decoded, or is empty.
    """
    extract = extract_html(source.read(MAX_WHOLE_FILE_BYTES), encoding=source.options.encoding)
    yield Record(
        name="",
        title=extract.title or source.default_title,
        text=extract.text,
        outline=extract.outline,
    )


def extract_html(data: bytes, *, encoding: str = "") -> Extract:
    """Read a page, or a part of one.

    Args:
        data: Its bytes.
        encoding: Their encoding; "" for the one they declare if it fits, else a detected one.

    Raises:
        LibraryError: It cannot be decoded, or is empty.
    """
    from lxml import etree, html

    text = _decode(data, encoding)
    # What comes after elements that are nested too deep, 256 without `huge_tree` and 2048 with it,
    # is dropped without an exception.
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
    try:
        root = html.document_fromstring(text.encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        raise LibraryError("it has no text") from None
    if parser.error_log.filter_from_level(etree.ErrorLevels.FATAL):
        raise LibraryError("its elements are nested too deep, or one of them is too long")
    titles = (element.text_content() for element in root.iterfind(".//head/title"))
    page = _Page()
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        page.take(event, element)
    page.end_paragraph()
    title = " ".join(next(titles, "").split()) or page.first_heading
    return Extract(title, page.builder.text, page.builder.outline)


def _decode(data: bytes, encoding: str) -> str:
    if not encoding:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            declared = _DECLARED.search(data[:_DECLARATION_BYTES])
        if declared is not None:
            try:
                return data.decode(declared[1].decode())
            except (LookupError, UnicodeError, ValueError):
                return decode(data)
    return decode(data, encoding=encoding)


class _Page:
    """Takes in a page element by element, without recursion: pages may nest very deep."""

    def __init__(self) -> None:
        self.builder = TextBuilder()
        self.first_heading = ""
        self._lines: list[str] = []
        self._line: list[str] = []
        self._dropped = 0
        self._preformatted = 0

    def take(self, event: str, element: Any) -> None:
        """Take in the beginning or end of an element, and the text that follows it."""
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start":
            if tag in _DROPPED:
                self._dropped += 1
            elif not self._dropped:
                self._begin(tag)
                self._add(element.text)
            return
        if event == "end":
            if tag in _DROPPED:
                self._dropped -= 1
            elif not self._dropped:
                self._end(tag)
        if not self._dropped:
            self._add(element.tail)

    def end_paragraph(self) -> None:
        """End the paragraph that is being read."""
        self.builder.add_paragraph(self._paragraph())

    def _begin(self, tag: str) -> None:
        if tag in _INLINE:
            return
        if tag in _CELLS:
            if any(piece.strip() for piece in self._line):
                self._line.append(" | ")
        elif tag == "br" or (tag in {"li", "tr", "dt", "dd"} and (self._line or self._lines)):
            self._end_line()
        elif tag not in {"li", "tr", "tbody", "dt", "dd"}:
            self.end_paragraph()
        if tag == "li":
            self._line.append("- ")
        if tag == "pre":
            self._preformatted += 1

    def _end(self, tag: str) -> None:
        if tag == "pre":
            self._preformatted -= 1
        heading = _HEADING.fullmatch(tag)
        if heading:
            text = " ".join(self._paragraph().split())
            self.first_heading = self.first_heading or text
            self.builder.add_heading(int(heading[1]), text)
        elif tag not in _INLINE | _CELLS and tag not in {"br", "li", "tr", "tbody", "dt", "dd"}:
            self.end_paragraph()

    def _add(self, text: str | None) -> None:
        if not text:
            return
        if not self._preformatted:
            self._line.append(text)
            return
        first, *others = text.splitlines() or [""]
        self._line.append(first)
        for line in others:
            self._end_line()
            self._line.append(line)

    def _end_line(self) -> None:
        line = "".join(self._line)
        self._line.clear()
        self._lines.append(line if self._preformatted else _BLANKS.sub(" ", line).strip(" "))

    def _paragraph(self) -> str:
        self._end_line()
        text = "\n".join(self._lines)
        self._lines.clear()
        return text
