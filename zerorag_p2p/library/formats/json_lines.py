"""JSON Lines: a text, or a FHIR resource, a line.

A text is {"text", "id"?, "title"?, "metadata"?}. FHIR servers export resources in this form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from zerorag_p2p.config import MAX_BAD_RECORDS, MAX_LINE_BYTES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.fhir import read_resource
from zerorag_p2p.library.formats.json_values import parse, text_of
from zerorag_p2p.library.formats.source_file import SourceFile
from zerorag_p2p.library.records import BadRecord, Record, content_name

_HEAD_BYTES: Final = 4


def read_json_lines(source: SourceFile) -> Iterator[Record | BadRecord]:
    """Read a file line by line.

    Raises:
        LibraryError: Most of its lines are bad, or one does not end.
    """
    good = bad = 0
    for number, line in enumerate(_lines(source), start=1):
        if not line.strip():
            continue
        try:
            yield from _read_line(line, source)
            good += 1
        except LibraryError as error:
            bad += 1
            if bad > max(MAX_BAD_RECORDS, good):
                raise LibraryError(
                    f"{bad} of its first {bad + good} lines are bad; the rest was not read"
                ) from None
            yield BadRecord(f"line {number}", str(error))


def _lines(source: SourceFile) -> Iterator[bytes]:
    """The lines as they are in the file, or in UTF-8 where it is said to be otherwise."""
    encoding = source.options.encoding
    if not encoding and source.file.peek(_HEAD_BYTES)[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        encoding = "utf-16"
    if not encoding:
        while line := source.file.readline(MAX_LINE_BYTES + 1):
            yield _bounded(line)
        return
    try:
        with source.text_stream(encoding) as stream:
            while text := stream.readline(MAX_LINE_BYTES + 1):
                yield _bounded(text.encode(errors="surrogatepass"))
    except UnicodeDecodeError as error:
        raise LibraryError(f"it is not valid {encoding}: {error.reason}") from None


def _bounded(line: bytes) -> bytes:
    if len(line) > MAX_LINE_BYTES:
        raise LibraryError(f"a line of it is longer than {MAX_LINE_BYTES} bytes; split it")
    return line


def _read_line(line: bytes, source: SourceFile) -> Iterator[Record | BadRecord]:
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LibraryError(
            f"it is not valid UTF-8 at byte {error.start}; name its encoding (--encoding), or "
            "convert it"
        ) from None
    value = parse(text)
    if not isinstance(value, dict):
        raise LibraryError("it is not a JSON object")
    if "resourceType" in value:
        yield from read_resource(value)
    else:
        yield _read_text(value, source.default_title)


def _read_text(value: dict[str, Any], default_title: str) -> Record:
    text = text_of(value, "text")
    title = text_of(value, "title") if "title" in value else default_title
    if "id" in value:
        name = str(value["id"]) if type(value["id"]) is int else text_of(value, "id")
    else:
        name = content_name(text)
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict):
        raise LibraryError("'metadata' is not an object")
    described = {
        key: item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        for key, item in metadata.items()
    }
    return Record(name=name, title=title, text=text, metadata=described)
