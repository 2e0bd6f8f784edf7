"""Reading documents from files of every format that is supported.

A file is read record by record. What is wrong with a record is yielded in its place, so that one
bad record, or file, never stops the others.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.docx import read_docx
from zerorag_p2p.library.formats.html import read_html
from zerorag_p2p.library.formats.json_documents import read_json
from zerorag_p2p.library.formats.json_lines import read_json_lines
from zerorag_p2p.library.formats.markdown import read_markdown
from zerorag_p2p.library.formats.pdf import read_pdf
from zerorag_p2p.library.formats.source_file import ReadingOptions, SourceFile
from zerorag_p2p.library.formats.table import read_table
from zerorag_p2p.library.formats.text import read_text
from zerorag_p2p.library.records import BadRecord, Record

_logger = logging.getLogger("zerorag.library")

_READERS: Final[dict[str, Callable[[SourceFile], Iterator[Record | BadRecord]]]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".csv": read_table,
    ".tsv": read_table,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
}

_NO_OPTIONS: Final = ReadingOptions()


def find_files(
    paths: Iterable[Path], *, on_error: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """Every file in `paths`, as an absolute path, once; folders are walked in sorted order.

    Hidden files and folders inside a folder are passed over, and links to folders are not followed.
    A path that does not exist is yielded as it is: reading it tells why not.

    Args:
        paths: Files and folders.
        on_error: Told of folders that cannot be looked into.
    """
    seen: set[Path] = set()
    for path in paths:
        for file in _walk(path.absolute(), on_error):
            if file not in seen:
                seen.add(file)
                yield file


def _walk(path: Path, on_error: Callable[[OSError], None] | None) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path, onerror=on_error):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder, name)


def load_file(
    path: Path,
    options: ReadingOptions = _NO_OPTIONS,
    *,
    on_read: Callable[[int], None] | None = None,
) -> Iterator[Record | BadRecord]:
    """Read the records of one file, and what is wrong with the others, or with the file.

    Args:
        path: Of the file.
        options: How to read it.
        on_read: Told after every record how many bytes of the file were read.
    """
    try:
        reader = _reader_of(path)
        with SourceFile(path, options) as source:
            for item in reader(source):
                yield item
                if on_read is not None and not source.file.closed:
                    on_read(source.file.tell())
    except LibraryError as error:
        yield BadRecord("", str(error))
    except OSError as error:
        yield BadRecord("", f"it cannot be read: {error.strerror}")
    except Exception as error:  # a defect of a format's reader must not stop the other files
        # Without its message, which may hold what is in the file.
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        _logger.warning("%s cannot be read: %s in %s:%s", path, kind, where.filename, where.lineno)
        yield BadRecord("", f"it cannot be read: {kind} while reading it; the log tells more")


def _reader_of(path: Path) -> Callable[[SourceFile], Iterator[Record | BadRecord]]:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        kind = f"{path.suffix} files" if path.suffix else "files without a suffix"
        raise LibraryError(f"{kind} are not supported; supported are {', '.join(_READERS)}")
    return reader
