"""Reading documents from files: plain text, Markdown, JSON Lines and PubMedQA's JSON.

A file is read record by record. What is wrong with a record is yielded in its place, so that one
bad record, or file, never stops the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zerorag_p2p import cbor
from zerorag_p2p.config import (
    MAX_BAD_LINES,
    MAX_METADATA_BYTES,
    MAX_METADATA_ITEMS,
    MAX_RECORD_BYTES,
    MAX_SOURCE_FILE_BYTES,
    MAX_TITLE_BYTES,
)
from zerorag_p2p.errors import LibraryError, LocalError
from zerorag_p2p.files import read_bounded

_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One text to store, with what describes it.

    Attributes:
        name: Tells it from other records of the same file; "" for a file that is one record.
        text: What is embedded, shown and cited.
    """

    name: str
    title: str
    text: str
    metadata: dict[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """SHA-256 of title, text and metadata: two records with the same one are the same."""
        content = {"title": self.title, "text": self.text, "metadata": self.metadata}
        return hashlib.sha256(cbor.encode(content)).hexdigest()

    def check(self) -> None:
        """Refuse a record that cannot be stored.

        Raises:
            LibraryError: It has no text, is too large or is not valid Unicode.
        """
        for what, value, limit in (
            ("name", self.name, MAX_TITLE_BYTES),
            ("title", self.title, MAX_TITLE_BYTES),
            ("text", self.text, MAX_RECORD_BYTES),
            *(("metadata key", key, MAX_METADATA_BYTES) for key in self.metadata),
            *(
                (f"metadata {key!r}", item, MAX_METADATA_BYTES)
                for key, item in self.metadata.items()
            ),
        ):
            try:
                size = len(value.encode())
            except UnicodeEncodeError:
                raise LibraryError(f"its {what} is not valid Unicode") from None
            if size > limit:
                raise LibraryError(f"its {what} is longer than {limit} bytes")
        if not self.text.strip():
            raise LibraryError("it has no text")
        if len(self.metadata) > MAX_METADATA_ITEMS:
            raise LibraryError(f"it has more than {MAX_METADATA_ITEMS} items of metadata")


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be read, and why.

    Attributes:
        where: Its place in the file, "line 12" for instance; "" for the file as a whole.
        reason: A sentence without its subject, "it is not valid JSON".
    """

    where: str
    reason: str


def normalise_name(path: Path | str) -> str:
    """The name of a file or source: NFC, as macOS and Linux may spell one name in two ways.

    Raises:
        LibraryError: The name is not valid Unicode.
    """
    name = unicodedata.normalize("NFC", str(path))
    try:
        name.encode()
    except UnicodeEncodeError:
        raise LibraryError("its name is not valid UTF-8; rename it") from None
    return name


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Every file in `paths`, as an absolute path, once; folders are walked in sorted order.

    Hidden files and folders inside a folder are passed over, and links to folders are not followed.
    A path that does not exist is yielded as it is: reading it tells why not.
    """
    seen: set[Path] = set()
    for path in paths:
        for file in _walk(path.absolute()):
            if file not in seen:
                seen.add(file)
                yield file


def _walk(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder, name)


def load_file(path: Path) -> Iterator[Record | BadRecord]:
    """Read the records of one file, and what is wrong with the others, or with the file."""
    try:
        yield from _load(path)
    except LibraryError as error:
        yield BadRecord("", str(error))
    except OSError as error:
        yield BadRecord("", f"it cannot be read: {error.strerror}")


def _load(path: Path) -> Iterator[Record | BadRecord]:
    # Before anything is opened: opening a pipe would wait for its other end.
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise LibraryError("it is not a regular file")
    loader = _LOADERS.get(path.suffix.lower())
    if loader is None:
        kind = f"{path.suffix} files" if path.suffix else "files without a suffix"
        raise LibraryError(f"{kind} are not supported; supported are {', '.join(_LOADERS)}")
    if status.st_size > MAX_SOURCE_FILE_BYTES:
        raise _too_long(MAX_SOURCE_FILE_BYTES)
    yield from loader(path)


def _load_text(path: Path) -> Iterator[Record]:
    yield Record(name="", title=_default_title(path), text=_decode(_read(path, MAX_RECORD_BYTES)))


def _load_markdown(path: Path) -> Iterator[Record]:
    text = _decode(_read(path, MAX_RECORD_BYTES))
    heading = _HEADING.search(text)
    yield Record(name="", title=heading[1] if heading else _default_title(path), text=text)


def _load_json_lines(path: Path) -> Iterator[Record | BadRecord]:
    bad = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _read_line(line, _default_title(path))
            except LibraryError as error:
                bad += 1
                if bad > MAX_BAD_LINES:
                    raise LibraryError(
                        f"more than {MAX_BAD_LINES} of its lines are bad; the rest was not read"
                    ) from None
                yield BadRecord(f"line {number}", str(error))


def _read_line(line: bytes, default_title: str) -> Record:
    """Read {"text", "id"?, "title"?, "metadata"?}; without an id, the text names the record."""
    value = _parse(_decode(line))
    if not isinstance(value, dict):
        raise LibraryError("it is not a JSON object")
    text = _text(value, "text")
    title = _text(value, "title") if "title" in value else default_title
    if "id" in value:
        name = str(value["id"]) if type(value["id"]) is int else _text(value, "id")
    else:
        name = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict):
        raise LibraryError("'metadata' is not an object")
    described = {
        key: item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        for key, item in metadata.items()
    }
    return Record(name=name, title=title, text=text, metadata=described)


def _load_pubmedqa(path: Path) -> Iterator[Record | BadRecord]:
    """Read {pmid: {"CONTEXTS": [...], ...}}: the abstracts, without their conclusions."""
    value = _parse(_decode(_read(path, MAX_SOURCE_FILE_BYTES)))
    if not isinstance(value, dict):
        raise LibraryError("it is not PubMedQA: the outermost value is not an object")
    for pmid, item in value.items():
        contexts = item.get("CONTEXTS") if isinstance(item, dict) else None
        if not isinstance(contexts, list) or not all(isinstance(text, str) for text in contexts):
            yield BadRecord(f"item {pmid!r}", "it is not PubMedQA: no list of texts 'CONTEXTS'")
            continue
        metadata = {"pmid": pmid}
        if isinstance(item.get("YEAR"), str):
            metadata["year"] = item["YEAR"]
        if isinstance(item.get("MESHES"), list):
            metadata["mesh"] = "; ".join(map(str, item["MESHES"]))
        yield Record(name=pmid, title=f"PubMed {pmid}", text="\n".join(contexts), metadata=metadata)


_LOADERS: Final[dict[str, Callable[[Path], Iterator[Record | BadRecord]]]] = {
    ".txt": _load_text,
    ".md": _load_markdown,
    ".jsonl": _load_json_lines,
    ".json": _load_pubmedqa,
}


def _default_title(path: Path) -> str:
    return normalise_name(path.stem)


def _read(path: Path, limit: int) -> bytes:
    try:
        return read_bounded(path, limit)
    except LocalError:
        raise _too_long(limit) from None


def _too_long(limit: int) -> LibraryError:
    return LibraryError(f"it is longer than {limit} bytes; split it")


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LibraryError(
            f"it is not valid UTF-8 at byte {error.start}; convert it first"
        ) from None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise LibraryError(f"it is not valid JSON: {error}") from None
    except (ValueError, RecursionError):  # an integer of too many digits, or too deep a nesting
        raise LibraryError("it is not valid JSON: a value is too long or too deep") from None


def _text(value: dict[str, Any], key: str) -> str:
    if key not in value:
        raise LibraryError(f"{key!r} is missing")
    if not isinstance(value[key], str):
        raise LibraryError(f"{key!r} is not a text")
    return str(value[key])
