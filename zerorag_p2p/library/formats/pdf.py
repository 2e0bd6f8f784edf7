"""PDF: the text layer, page by page. Scanned pages have none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import BinaryIO

from zerorag_p2p.config import MAX_PDF_PAGES, MAX_RECORD_BYTES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.source_file import Extract, SourceFile, too_long
from zerorag_p2p.library.outline import TextBuilder
from zerorag_p2p.library.records import BadRecord, Record


def read_pdf(source: SourceFile) -> Iterator[Record | BadRecord]:
    """Read a file as one record, and tell which of its pages cannot be read.

    Raises:
        LibraryError: It is no PDF, is encrypted, too long, or has no text.
    """
    extract, bad = extract_pdf(source.file)
    yield from bad
    yield Record(
        name="",
        title=extract.title or source.default_title,
        text=extract.text,
        outline=extract.outline,
    )


def extract_pdf(file: BinaryIO) -> tuple[Extract, list[BadRecord]]:
    """Read a PDF; its text, and the pages that cannot be read.

    Raises:
        LibraryError: As `read_pdf`.
    """
    from pypdf import PdfReader
    from pypdf.errors import FileNotDecryptedError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every flaw it works around
    builder = TextBuilder()
    bad: list[BadRecord] = []
    try:
        reader = PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            raise LibraryError("it is encrypted; remove its password first")
        count = len(reader.pages)
        if count > MAX_PDF_PAGES:
            raise LibraryError(f"it has more than {MAX_PDF_PAGES} pages; split it")
        title = reader.metadata.title if reader.metadata is not None else None
    except LibraryError:
        raise
    except FileNotDecryptedError:
        raise LibraryError("it is encrypted; remove its password first") from None
    except Exception as error:  # the boundary to a library that raises whatever a file provokes
        raise LibraryError(f"it is no whole PDF: {_describe(error)}") from None
    for number in range(count):
        try:
            text = reader.pages[number].extract_text()
        except Exception as error:  # as above
            bad.append(BadRecord(f"page {number + 1}", f"it cannot be read: {_describe(error)}"))
            continue
        builder.add_page(str(number + 1))
        builder.add_paragraph(_sound(text))
        if builder.length > MAX_RECORD_BYTES:
            raise too_long(MAX_RECORD_BYTES)
    if not builder.length:
        raise LibraryError(
            "none of its pages can be read"
            if bad
            else "it has no text; scanned pages need text recognition first"
        )
    return Extract(_sound(str(title or "")).strip(), builder.text, builder.outline), bad


def _sound(text: str) -> str:
    """A text without the halves of characters and the zeros that broken fonts leave."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\0", "")


def _describe(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
