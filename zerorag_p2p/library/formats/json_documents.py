"""JSON that is one value: FHIR bundles and resources, and PubMedQA.

A file is read item by item, so that a bundle need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from zerorag_p2p.config import MAX_WHOLE_FILE_BYTES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.fhir import read_resource
from zerorag_p2p.library.formats.json_values import parse
from zerorag_p2p.library.formats.source_file import SourceFile
from zerorag_p2p.library.records import BadRecord, Record

_STARTS: Final = frozenset({"start_map", "start_array"})


def read_json(source: SourceFile) -> Iterator[Record | BadRecord]:
    """Read a file by what is in it.

    Raises:
        LibraryError: It is not JSON, or of no kind that is known.
    """
    match _resource_type(source):
        case None:
            yield from _read_pubmedqa(source)
        case "Bundle":
            yield from _read_bundle(source)
        case _:
            text = source.read(MAX_WHOLE_FILE_BYTES)
            yield from read_resource(parse(_decode(text)))


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(error) from None


def _not_utf8(error: UnicodeDecodeError) -> LibraryError:
    return LibraryError(f"it is not valid UTF-8 at byte {error.start}; convert it first")


@contextmanager
def _explaining() -> Iterator[None]:
    """Turn what the parser raises into our errors."""
    import ijson

    try:
        yield
    except UnicodeDecodeError as error:
        raise _not_utf8(error) from None
    except ijson.JSONError as error:
        reason = str(error).partition("\n")[0].strip()
        raise LibraryError(f"it is not valid JSON: {reason}") from None


def _rewind(source: SourceFile) -> None:
    """Go to the beginning, past a mark of the encoding."""
    source.file.seek(0)
    if source.file.read(3) != b"\xef\xbb\xbf":
        source.file.seek(0)


def _resource_type(source: SourceFile) -> str | None:
    """The type of FHIR resource that a file holds; None for something else."""
    import ijson

    _rewind(source)
    found = None
    with _explaining():
        for number, (prefix, event, value) in enumerate(ijson.parse(source.file, use_float=True)):
            if number == 0 and event != "start_map":
                raise LibraryError(
                    "it is neither FHIR nor PubMedQA: the outermost value is not an object"
                )
            if prefix == "resourceType" and event == "string":
                found = str(value)
                break
    _rewind(source)
    return found


def _read_bundle(source: SourceFile) -> Iterator[Record | BadRecord]:
    import ijson

    empty = True
    with _explaining():
        for number, entry in enumerate(ijson.items(source.file, "entry.item", use_float=True), 1):
            resource = entry.get("resource") if isinstance(entry, dict) else None
            if not isinstance(resource, dict):
                continue  # an entry may only tell what happened to a resource
            try:
                for item in read_resource(resource, address=str(entry.get("fullUrl") or "")):
                    empty = False
                    yield item
            except LibraryError as error:
                empty = False
                yield BadRecord(f"entry {number}", str(error))
    if empty:
        raise LibraryError("none of its resources has a text")


def _read_pubmedqa(source: SourceFile) -> Iterator[Record | BadRecord]:
    """Read {pmid: {"CONTEXTS": [...], ...}}: the abstracts, without their conclusions."""
    import ijson

    with _explaining():
        for pmid, item in ijson.kvitems(source.file, "", use_float=True):
            yield _read_abstract(pmid, item)


def _read_abstract(pmid: str, item: Any) -> Record | BadRecord:
    contexts = item.get("CONTEXTS") if isinstance(item, dict) else None
    if not isinstance(contexts, list) or not all(isinstance(text, str) for text in contexts):
        return BadRecord(
            f"item {pmid!r}", "it is neither FHIR nor PubMedQA: no list of texts 'CONTEXTS'"
        )
    metadata = {"pmid": pmid}
    if isinstance(item.get("YEAR"), str):
        metadata["year"] = item["YEAR"]
    if isinstance(item.get("MESHES"), list):
        metadata["mesh"] = "; ".join(map(str, item["MESHES"]))
    return Record(name=pmid, title=f"PubMed {pmid}", text="\n".join(contexts), metadata=metadata)
