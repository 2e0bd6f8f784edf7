"""A file that documents are read from, and what its reader is told about it."""

from __future__ import annotations

import io
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from zerorag_p2p.config import MAX_NAME_BYTES, MAX_SOURCE_FILE_BYTES
from zerorag_p2p.errors import LibraryError, UsageError
from zerorag_p2p.library.formats.encoding import check_encoding
from zerorag_p2p.library.outline import Outline
from zerorag_p2p.library.records import normalise_name

_MAX_COLUMNS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """How files are read where their readers shall not decide themselves.

    Attributes:
        encoding: Of text files, as Python names it; "" to detect it.
        text_columns: Columns of a table that make up the text; () for those that look like it.
        title_column: Column of a table with the title; "" for one that is named like it.
        id_column: Column of a table that names a row; "" for one that is named like it.
    """

    encoding: str = ""
    text_columns: tuple[str, ...] = ()
    title_column: str = ""
    id_column: str = ""

    def check(self) -> None:
        """Refuse options that no file can be read with.

        Raises:
            UsageError: The encoding is unknown, or a column's name is too long.
        """
        if self.encoding:
            check_encoding(self.encoding)
        if len(self.text_columns) > _MAX_COLUMNS:
            raise UsageError(f"more than {_MAX_COLUMNS} columns make up the text; name fewer")
        for name in (*self.text_columns, self.title_column, self.id_column):
            if len(name.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
                raise UsageError(f"the name of a column is longer than {MAX_NAME_BYTES} bytes")

    def to_json(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        values = {
            "encoding": self.encoding,
            "text_columns": list(self.text_columns),
            "title_column": self.title_column,
            "id_column": self.id_column,
        }
        return {key: value for key, value in values.items() if value}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ReadingOptions:
        """Read what `to_json` returned."""
        return cls(**{**value, "text_columns": tuple(value.get("text_columns", ()))})


@dataclass(frozen=True, slots=True)
class Extract:
    """The text of a document, and the title it gives itself, or ""."""

    title: str
    text: str
    outline: Outline = ()


class SourceFile:
    """A regular file, open for reading. Use it as a context manager.

    Raises:
        LibraryError: It is no regular file, or too long.
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        # Before anything is opened: opening a pipe would wait for its other end.
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LibraryError("it is not a regular file")
        if status.st_size > MAX_SOURCE_FILE_BYTES:
            raise too_long(MAX_SOURCE_FILE_BYTES)
        self.path = path
        self.options = options
        self.size = status.st_size
        self.file: io.BufferedReader = path.open("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.file.close()

    @property
    def default_title(self) -> str:
        """The title of what has none of its own: the name of the file."""
        return normalise_name(self.path.stem)

    def read(self, limit: int) -> bytes:
        """All of a file of at most `limit` bytes.

        Raises:
            LibraryError: It is longer.
        """
        data = self.file.read(limit + 1)
        if len(data) > limit:
            raise too_long(limit)
        return data

    def text_stream(self, encoding: str, *, errors: str = "strict") -> io.TextIOWrapper:
        """The rest of the file as text with its own line ends; closed with the file."""
        return io.TextIOWrapper(self.file, encoding=encoding, errors=errors, newline="")


def too_long(limit: int) -> LibraryError:
    """The error of a file or text of more than `limit` bytes."""
    return LibraryError(f"it is longer than {limit} bytes; split it")
