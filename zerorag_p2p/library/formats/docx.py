"""Word documents (.docx): paragraphs, headings by style, tables, footnotes.

The XML is read as it is: content controls and insertions that are tracked are part of the text,
what was deleted is not, nor are headers and footers.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from zerorag_p2p.config import MAX_WHOLE_FILE_BYTES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.source_file import Extract, SourceFile
from zerorag_p2p.library.outline import TextBuilder
from zerorag_p2p.library.records import Record

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TITLE: Final = "{http://purl.org/dc/elements/1.1/}title"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_MAIN_TYPE: Final = re.compile(
    r"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml|ms-word)"
    r"\.(?:document|template)\.(?:macroEnabled(?:Template)?\.)?main\+xml"
)
_HEADING_STYLE: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)
_UNSEEN: Final = frozenset(
    {_FALLBACK, *(_W + name for name in ("del", "moveFrom", "pPr", "rPr", "instrText"))}
)
_CONTAINERS: Final = frozenset(
    _W + name for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag")
)
_MAX_STYLES: Final = 32  # of a chain of styles based on each other


def read_docx(source: SourceFile) -> Iterator[Record]:
    """Read a file as one record.

    Raises:
        LibraryError: It is no Word document, or too long.
    """
    extract = extract_docx(source.file)
    yield Record(
        name="",
        title=extract.title or source.default_title,
        text=extract.text,
        outline=extract.outline,
    )


def extract_docx(file: BinaryIO) -> Extract:
    """Read a Word document.

    Raises:
        LibraryError: As `read_docx`.
    """
    from lxml import etree

    try:
        with zipfile.ZipFile(file) as archive:
            reader = _Reader(archive)
            return reader.read()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise LibraryError(f"it is no whole Word document: {error}") from None
    except etree.XMLSyntaxError as error:
        raise LibraryError(f"it is no whole Word document: {error.msg}") from None


class _Reader:
    """Reads the parts of one document."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._names = frozenset(archive.namelist())
        self._read_bytes = 0
        self._builder = TextBuilder()
        self._levels: dict[str, int] = {}
        self._title = ""

    def read(self) -> Extract:
        """Read the whole document."""
        main = self._main_part()
        folder = main.rpartition("/")[0]
        self._levels = self._heading_levels(f"{folder}/styles.xml")
        body = self._part(main).find(f"{_W}body")
        if body is not None:
            self._take_blocks(body)
        for name in ("footnotes", "endnotes"):
            if f"{folder}/{name}.xml" in self._names:
                for note in self._part(f"{folder}/{name}.xml"):
                    self._take_blocks(note)
        title = ""
        if "docProps/core.xml" in self._names:
            title = self._part("docProps/core.xml").findtext(_TITLE) or ""
        return Extract(
            " ".join(title.split()) or self._title, self._builder.text, self._builder.outline
        )

    def _part(self, name: str) -> Any:
        """The XML of a part.

        Raises:
            LibraryError: It is too long; an archive may be much larger than its file.
        """
        from lxml import etree

        with self._archive.open(name) as file:
            data = file.read(MAX_WHOLE_FILE_BYTES - self._read_bytes + 1)
        self._read_bytes += len(data)
        if self._read_bytes > MAX_WHOLE_FILE_BYTES:
            raise LibraryError(f"its content is longer than {MAX_WHOLE_FILE_BYTES} bytes; split it")
        return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))

    def _main_part(self) -> str:
        if "[Content_Types].xml" in self._names:
            for override in self._part("[Content_Types].xml"):
                name = override.get("PartName", "").lstrip("/")
                kind = override.get("ContentType", "")
                if _MAIN_TYPE.fullmatch(kind) and name in self._names:
                    return str(name)
        raise LibraryError("it is no Word document")

    def _heading_levels(self, name: str) -> dict[str, int]:
        """The level of every style of headings, by the style's id; 0 for titles."""
        if name not in self._names:
            return {}
        own: dict[str, int] = {}
        based: dict[str, str] = {}
        for style in self._part(name).iterfind(f"{_W}style"):
            number = style.get(f"{_W}styleId", "")
            named = _value(style.find(f"{_W}name"))
            heading = _HEADING_STYLE.fullmatch(named)
            level = _value(style.find(f"{_W}pPr/{_W}outlineLvl"))
            if named.lower() == "title":
                own[number] = 0
            elif heading:
                own[number] = int(heading[1])
            elif level.isdecimal() and int(level) < 9:
                own[number] = int(level) + 1
            based[number] = _value(style.find(f"{_W}basedOn"))
        levels = {}
        for number in based:
            ancestor = number
            for _ in range(_MAX_STYLES):
                if ancestor in own:
                    levels[number] = own[ancestor]
                    break
                ancestor = based.get(ancestor, "")
        return levels

    def _take_blocks(self, container: Any) -> None:
        # A list instead of recursion: controls may nest as deep as the XML does.
        waiting = list(reversed(container))
        while waiting:
            element = waiting.pop()
            if element.tag == f"{_W}p":
                self._take_paragraph(element)
            elif element.tag == f"{_W}tbl":
                rows = (_row(row) for row in element.iter(f"{_W}tr"))
                self._builder.add_paragraph("\n".join(row for row in rows if row))
            elif element.tag in _CONTAINERS:
                waiting += reversed(element)

    def _take_paragraph(self, paragraph: Any) -> None:
        text = _text(paragraph)
        properties = paragraph.find(f"{_W}pPr")
        level = None
        if properties is not None:
            direct = _value(properties.find(f"{_W}outlineLvl"))
            if direct.isdecimal() and int(direct) < 9:
                level = int(direct) + 1
            else:
                level = self._levels.get(_value(properties.find(f"{_W}pStyle")))
        if level:
            self._title = self._title or " ".join(text.split())
            self._builder.add_heading(level, text)
            return
        if level == 0:
            self._title = self._title or " ".join(text.split())
        self._builder.add_paragraph(text)


def _value(element: Any) -> str:
    return "" if element is None else str(element.get(f"{_W}val", ""))


def _row(row: Any) -> str:
    """The cells of a table's row; a table inside a cell has rows of its own."""
    cells = (
        " ".join(_text(cell).split())
        for cell in row.iter(f"{_W}tc")
        if next(cell.iterancestors(f"{_W}tr")) is row
    )
    return " | ".join(cells).strip(" |")


def _text(element: Any) -> str:
    """The text of an element as it is read, with its line breaks and tabs."""
    from lxml import etree

    pieces: list[str] = []
    walk = etree.iterwalk(element, events=("start",))
    for _, item in walk:
        if item.tag in _UNSEEN or (item.tag == f"{_W}tbl" and item is not element):
            walk.skip_subtree()
        elif item.tag == f"{_W}t":
            pieces.append(item.text or "")
        elif item.tag == f"{_W}tab":
            pieces.append("\t")
        elif item.tag in {f"{_W}br", f"{_W}cr"} or (item.tag == f"{_W}p" and item is not element):
            pieces.append("\n")
        elif item.tag == f"{_W}noBreakHyphen":
            pieces.append("-")
    return "".join(pieces)
