"""FHIR R4 resources: what people wrote in them.

Texts are the attachments inside of a resource, its narrative, its notes, and the few elements that
hold prose. A resource without any is data and is passed over.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from zerorag_p2p.config import MAX_FHIR_DEPTH, MAX_METADATA_BYTES, MAX_TITLE_BYTES
from zerorag_p2p.errors import LibraryError, UsageError
from zerorag_p2p.library.formats.docx import extract_docx
from zerorag_p2p.library.formats.encoding import check_encoding, decode
from zerorag_p2p.library.formats.html import extract_html
from zerorag_p2p.library.formats.markdown import extract_markdown
from zerorag_p2p.library.formats.pdf import extract_pdf
from zerorag_p2p.library.formats.source_file import Extract
from zerorag_p2p.library.outline import TextBuilder
from zerorag_p2p.library.records import BadRecord, Record, content_name

Resource: TypeAlias = dict[str, Any]

#: Elements of resources that hold prose, by the type of the resource.
_PROSE: Final = {
    "ClinicalImpression": ("description", "summary"),
    "DetectedIssue": ("detail",),
    "DiagnosticReport": ("conclusion",),
    "DocumentReference": ("description",),
    "Observation": ("valueString",),
    "ServiceRequest": ("patientInstruction",),
}
#: Where resources keep attachments, by the type of the resource.
_ATTACHMENTS: Final = {
    "Communication": ("payload", "contentAttachment"),
    "DiagnosticReport": ("presentedForm", ""),
    "DocumentReference": ("content", "attachment"),
    "Media": ("content", ""),
}
_SHOWN_CHARACTERS: Final = 100
_DATES: Final = ("date", "effectiveDateTime", "issued", "authoredOn", "recordedDate", "created")


def read_resource(resource: Resource, *, address: str = "") -> Iterator[Record | BadRecord]:
    """Read the texts of one resource, or of all in a bundle.

    Args:
        resource: Parsed JSON.
        address: Of the resource; names one that has no id.

    Raises:
        LibraryError: It is no resource, or its texts cannot be read.
    """
    yield from _read(resource, address, MAX_FHIR_DEPTH)


def _read(resource: Resource, address: str, depth: int) -> Iterator[Record | BadRecord]:
    kind = resource.get("resourceType")
    if not isinstance(kind, str):
        raise LibraryError("it is no FHIR resource: 'resourceType' is not a text")
    if kind == "Bundle":
        if not depth:
            raise LibraryError(f"bundles are nested more than {MAX_FHIR_DEPTH} deep")
        for entry in _objects(resource, "entry"):
            inner = entry.get("resource")
            if isinstance(inner, dict):
                yield from _read(inner, str(entry.get("fullUrl") or ""), depth - 1)
        return
    number = resource.get("id")
    name = f"{kind}/{number}" if isinstance(number, str) else address
    metadata = _describe(resource, kind)
    title = _title(resource, kind)
    attached = list(_attachments(resource, kind))
    builder = TextBuilder()
    _add_narrative(builder, resource)
    for element in _PROSE.get(kind, ()):
        if isinstance(resource.get(element), str):
            builder.add_paragraph(resource[element])
    for payload in _objects(resource, "payload"):
        if isinstance(payload.get("contentString"), str):
            builder.add_paragraph(payload["contentString"])
    for note in _objects(resource, "note"):
        if isinstance(note.get("text"), str):
            builder.add_paragraph(note["text"])
    # What describes an attachment that is there tells nothing more.
    read = 0
    for position, (where, attachment) in enumerate(attached):
        if "data" not in attachment:
            if builder.length or read:
                continue
            yield BadRecord(name, f"its {where} is not inside of it, but elsewhere")
            continue
        try:
            extract = _extract(attachment)
        except LibraryError as error:
            yield BadRecord(name, f"its {where}: {error}")
            continue
        read += 1
        part = name or content_name(extract.text)
        yield Record(
            name=part if position == 0 else f"{part}#{position + 1}",
            title=_short(attachment.get("title")) or extract.title or title,
            text=extract.text,
            metadata=metadata,
            outline=extract.outline,
        )
    if builder.length and not (read and kind == "DocumentReference"):
        yield Record(
            name=(name or content_name(builder.text)) + ("#text" if read else ""),
            title=title,
            text=builder.text,
            metadata=metadata,
            outline=builder.outline,
        )


def _add_narrative(builder: TextBuilder, resource: Resource) -> None:
    """Add the narrative of a resource, and those of a composition's sections."""
    narrative = _narrative(resource)
    if narrative is not None:
        builder.add_text(narrative.text, narrative.outline)
    waiting = [(1, section) for section in reversed(_objects(resource, "section"))]
    while waiting:
        level, section = waiting.pop()
        if isinstance(section.get("title"), str):
            builder.add_heading(level, section["title"])
        inner = _narrative(section)
        if inner is not None:
            builder.add_paragraph(inner.text)
        waiting += [(level + 1, item) for item in reversed(_objects(section, "section"))]


def _narrative(element: Resource) -> Extract | None:
    text = element.get("text")
    if not isinstance(text, dict) or text.get("status") == "empty":
        return None
    if not isinstance(text.get("div"), str) or not text["div"].strip():
        return None
    return extract_html(text["div"].encode(errors="replace"), encoding="utf-8")


def _attachments(resource: Resource, kind: str) -> Iterator[tuple[str, Resource]]:
    """The attachments of a resource, and what each is called."""
    if kind == "Binary":
        yield "content", resource
    element, inner = _ATTACHMENTS.get(kind, ("", ""))
    for item in _objects(resource, element):
        attachment = item.get(inner) if inner else item
        if isinstance(attachment, dict):
            yield "attachment", attachment


def _extract(attachment: Resource) -> Extract:
    """The text of an attachment.

    Raises:
        LibraryError: It is of a type that is not supported, or cannot be read.
    """
    declared = attachment.get("contentType")
    kind, *parameters = str(declared or "text/plain").lower().split(";")
    reader = _READERS.get(kind.strip())
    if reader is None:
        raise LibraryError(
            f"the type {str(declared)[:_SHOWN_CHARACTERS]!r} is not supported; supported are "
            f"{', '.join(_READERS)}"
        )
    if not isinstance(attachment["data"], str):
        raise LibraryError("its data is not a text")
    try:
        data = base64.b64decode("".join(attachment["data"].split()), validate=True)
    except (binascii.Error, ValueError):
        raise LibraryError("its data is not valid base64") from None
    encoding = ""
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "charset":
            encoding = value.strip(" \"'")
    try:
        return reader(data, encoding and check_encoding(encoding))
    except UsageError as error:
        raise LibraryError(str(error)) from None


def _extract_pdf(data: bytes, encoding: str) -> Extract:
    del encoding
    extract, bad = extract_pdf(io.BytesIO(data))
    if bad:
        raise LibraryError(f"{bad[0].where}: {bad[0].reason}")
    return extract


#: Readers of attachments by their type; each takes the bytes and the encoding, "" if not declared.
_READERS: Final[dict[str, Callable[[bytes, str], Extract]]] = {
    "text/plain": lambda data, encoding: Extract("", decode(data, encoding=encoding)),
    "text/markdown": lambda data, encoding: extract_markdown(decode(data, encoding=encoding)),
    "text/html": lambda data, encoding: extract_html(data, encoding=encoding),
    "application/xhtml+xml": lambda data, encoding: extract_html(data, encoding=encoding),
    "application/pdf": _extract_pdf,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": (
        lambda data, encoding: extract_docx(io.BytesIO(data))
    ),
}


def _title(resource: Resource, kind: str) -> str:
    for element in ("title", "description"):
        if title := _short(resource.get(element)):
            return title
    for element in ("code", "type"):
        if title := _concept(resource.get(element)):
            return title
    return kind


def _describe(resource: Resource, kind: str) -> dict[str, str]:
    """What is kept of a resource beside its text."""
    metadata = {"resource": kind}
    for element in _DATES:
        if isinstance(resource.get(element), str):
            metadata["date"] = resource[element]
            break
    if isinstance(resource.get("status"), str):
        metadata["status"] = resource["status"]
    if type_ := _concept(resource.get("type")) or _concept(resource.get("code")):
        metadata["type"] = type_
    subject = resource.get("subject")
    if isinstance(subject, dict) and isinstance(subject.get("reference"), str):
        metadata["subject"] = subject["reference"]
    return {
        key: value for key, value in metadata.items() if len(value.encode()) <= MAX_METADATA_BYTES
    }


def _concept(value: Any) -> str:
    """The text of a codeable concept, or how its code is displayed."""
    if not isinstance(value, dict):
        return ""
    shown = (item.get("display") for item in _objects(value, "coding"))
    return _short(value.get("text")) or _short(next(shown, None))


def _short(value: Any) -> str:
    """A text that fits a title, or ""."""
    if not isinstance(value, str) or len(value.encode(errors="replace")) > MAX_TITLE_BYTES:
        return ""
    return " ".join(value.split())


def _objects(value: Resource, key: str) -> list[Resource]:
    items = value.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
