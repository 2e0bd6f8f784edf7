"""Tables (.csv, .tsv): a row a document.

The first row names the columns. The text is the column named so, else the one whose values are
long, else all of them. What is neither text, title nor id is metadata.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zerorag_p2p.config import MAX_BAD_RECORDS, MAX_METADATA_ITEMS, MAX_RECORD_BYTES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.encoding import detect, undecodable
from zerorag_p2p.library.formats.source_file import SourceFile
from zerorag_p2p.library.records import BadRecord, Record, content_name

_TEXT_NAMES: Final = (
    *("text", "abstract", "body", "content", "note", "report", "narrative", "document", "passage"),
    *("note_text", "report_text", "full_text", "fulltext", "inhalt", "befund", "texte"),
)
_TITLE_NAMES: Final = ("title", "subject", "heading", "headline", "name", "titel", "titre")
_ID_NAMES: Final = ("id", "identifier", "key", "uid", "uuid", "note_id", "document_id", "pmid")
_DELIMITERS: Final = ",;\t|"
_SAMPLE_CHARACTERS: Final = 64 << 10
_SAMPLE_ROWS: Final = 100
#: Characters that the values of a column have on average to be taken for texts. Guess.
_LONG: Final = 40


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a table by what they are for, as positions."""

    names: Sequence[str]
    text: Sequence[int]
    title: int | None
    id: int | None


def read_table(source: SourceFile) -> Iterator[Record | BadRecord]:
    """Read a file row by row.

    Raises:
        LibraryError: It has no rows or mostly bad ones, lacks a column that was asked for, or
            cannot be decoded.
    """
    encoding = source.options.encoding or detect(source.file)
    try:
        with source.text_stream(encoding) as stream:
            sample = stream.read(_SAMPLE_CHARACTERS)
            rows = csv.reader(_lines(sample, stream), delimiter=_delimiter(sample, source))
            csv.field_size_limit(MAX_RECORD_BYTES)  # of the whole process; nothing else reads CSV
            yield from _read_rows(rows, source)
    except UnicodeDecodeError as error:
        raise undecodable(encoding, error) from None


def _lines(sample: str, rest: Iterator[str]) -> Iterator[str]:
    """The lines of a table whose beginning was read already."""
    *whole, last = sample.splitlines(keepends=True) or [""]
    yield from whole
    if last.endswith(("\n", "\r")):
        yield last
        yield from rest
    else:
        yield last + next(rest, "")
        yield from rest


def _delimiter(sample: str, source: SourceFile) -> str:
    if source.path.suffix.lower() == ".tsv":
        return "\t"
    header = sample.partition("\n")[0]
    return max(_DELIMITERS, key=header.count)


def _read_rows(rows: Iterator[list[str]], source: SourceFile) -> Iterator[Record | BadRecord]:
    try:
        header = next((row for row in rows if any(row)), [])
        first = list(itertools.islice(rows, _SAMPLE_ROWS))
    except csv.Error as error:
        raise LibraryError(f"it is no table: {error}") from None
    if not first:
        raise LibraryError("it has no rows below the names of its columns")
    columns = _choose([name.strip() for name in header], first, source)
    good = bad = 0
    # The number of a row, not of a line: a value may have several lines.
    numbers = itertools.count(2)
    remaining = itertools.chain(first, rows)
    while True:
        try:
            row = next(remaining, None)
        except csv.Error as error:
            raise LibraryError(f"after row {next(numbers) - 1}: {error}") from None
        if row is None:
            return
        number = next(numbers)
        if not any(row):
            continue
        if len(row) != len(columns.names):
            bad += 1
            if bad > max(MAX_BAD_RECORDS, good):
                raise LibraryError(
                    f"{bad} of its first {bad + good} rows are bad; the rest was not read"
                )
            yield BadRecord(
                f"row {number}", f"it has {len(row)} values for {len(columns.names)} columns"
            )
            continue
        good += 1
        yield _record(row, columns, source)


def _choose(names: list[str], rows: Sequence[list[str]], source: SourceFile) -> _Columns:
    """Choose what the columns are for."""
    options = source.options
    title = _column(names, options.title_column, _TITLE_NAMES)
    number = _column(names, options.id_column, _ID_NAMES)
    if options.text_columns:
        text = [_named(names, name) for name in options.text_columns]
    else:
        found = _column(names, "", _TEXT_NAMES)
        text = [found] if found is not None else _longest(names, rows, {title, number})
    return _Columns(names, text, title if title not in text else None, number)


def _column(names: Sequence[str], wanted: str, usual: Sequence[str]) -> int | None:
    """The column of the wanted name, else of the first of the usual ones."""
    if wanted:
        return _named(names, wanted)
    lowered = [name.lower() for name in names]
    return next((lowered.index(name) for name in usual if name in lowered), None)


def _named(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise LibraryError(f"it has no column {name!r}; it has {', '.join(map(repr, names))}")
    return names.index(name)


def _longest(names: Sequence[str], rows: Sequence[list[str]], taken: set[int | None]) -> list[int]:
    """The column with the longest values if they are long, else all that are not taken."""
    means = {
        column: sum(len(row[column]) for row in rows if column < len(row)) / len(rows)
        for column in range(len(names))
        if column not in taken
    }
    if not means:
        return list(range(len(names)))
    longest = max(means, key=lambda column: means[column])
    return [longest] if means[longest] >= _LONG else list(means)


def _record(row: Sequence[str], columns: _Columns, source: SourceFile) -> Record:
    if len(columns.text) == 1:
        text = row[columns.text[0]]
    else:
        text = "\n".join(
            f"{columns.names[column]}: {row[column]}" for column in columns.text if row[column]
        )
    title = "" if columns.title is None else row[columns.title].strip()
    name = "" if columns.id is None else row[columns.id].strip()
    used = {*columns.text, columns.title, columns.id}
    others = [column for column in range(len(row)) if column not in used and row[column].strip()]
    return Record(
        name=name or content_name("\0".join(row)),
        title=title or source.default_title,
        text=text,
        metadata={
            columns.names[column] or f"column {column + 1}": row[column]
            for column in others[:MAX_METADATA_ITEMS]
        },
    )
