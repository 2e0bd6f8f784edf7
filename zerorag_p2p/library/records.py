"""What is read from files: texts to store, and what is wrong with others."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerorag_p2p import cbor
from zerorag_p2p.config import (
    MAX_METADATA_BYTES,
    MAX_METADATA_ITEMS,
    MAX_RECORD_BYTES,
    MAX_TITLE_BYTES,
)
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.outline import Outline, outline_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One text to store, with what describes it.

    Attributes:
        name: Tells it from other records of the same file; "" for a file that is one record.
        text: What is embedded, shown and cited.
        outline: The pages and sections of the text.
    """

    name: str
    title: str
    text: str
    metadata: dict[str, str] = field(default_factory=dict)
    outline: Outline = ()

    def digest(self) -> str:
        """SHA-256 of all but the name: two records with the same one are the same."""
        content: dict[str, Any] = {
            "title": self.title,
            "text": self.text,
            "metadata": self.metadata,
        }
        if self.outline:
            content["outline"] = outline_json(self.outline)
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


def content_name(text: str) -> str:
    """The name of a record that has none: the first digits of the SHA-256 of its text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
