"""Files of lines, plain or gzip, read as streams.

What is wrong with a line is an error that names the file and the line.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from zerorag_p2p.config import MAX_RECORD_BYTES
from zerorag_p2p.errors import UsageError

#: Lines of the longest file. Guess: AOL's log, the longest one that is known here, has 36 million.
MAX_LINES: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, without its end.

    Attributes:
        path: The file.
        number: From 1.
        text: The line.
    """

    path: Path
    number: int
    text: str

    def fail(self, reason: str) -> NoReturn:
        """Raise the error that says what is wrong with this line.

        Raises:
            UsageError: Always.
        """
        raise UsageError(f"{self.path}, line {self.number}: {reason}")

    def record(self) -> Record:
        """Read the line as a JSON object.

        Raises:
            UsageError: It is none.
        """
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError) as error:
            self.fail(f"it is not JSON ({error})")
        if not isinstance(value, dict):
            self.fail("it is not a JSON object")
        return Record(self, value)


@dataclass(frozen=True, slots=True)
class Record:
    """A line that holds an object."""

    line: Line
    fields: dict[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """The text in a field; without a default it has to be there and not to be blank.

        Raises:
            UsageError: It is missing, blank, no text or not valid Unicode.
        """
        if default is not None and key not in self.fields:
            return default
        value = self.fields.get(key)
        if not isinstance(value, str) or (default is None and not value.strip()):
            self.line.fail(f"{key!r} has to be a text")
        self._check(key, value)
        return value

    def texts(self, key: str) -> list[str]:
        """The texts in a field that is a list; none if it is missing.

        Raises:
            UsageError: It is no list of texts, or one is not valid Unicode.
        """
        values = self.fields.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.line.fail(f"{key!r} has to be a list of texts")
        for value in values:
            self._check(key, value)
        return values

    def _check(self, key: str, value: str) -> None:
        try:
            value.encode()
        except UnicodeEncodeError:
            self.line.fail(f"{key!r} is not valid Unicode")


def find_file(folder: Path, name: str) -> Path:
    """The file of this name in a folder, or else the one with .gz after its name.

    Raises:
        UsageError: There is neither.
    """
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise UsageError(f"{folder} has to hold {name} or {name}.gz (docs/workloads.md)")


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file, which is uncompressed if its name ends in .gz.

    Raises:
        UsageError: The file cannot be read, has too many lines, or a line is too long or no UTF-8.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while data := file.readline(MAX_RECORD_BYTES + 1):
                number += 1
                if number > MAX_LINES:
                    raise UsageError(f"{path} has more than {MAX_LINES} lines")
                if len(data) > MAX_RECORD_BYTES:
                    raise UsageError(
                        f"{path}, line {number}: it is longer than {MAX_RECORD_BYTES} bytes"
                    )
                yield Line(path, number, data.decode().rstrip("\r\n"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}, line {number}: it is not UTF-8 ({error.reason})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read after line {number}: {error}") from error


def read_records(path: Path) -> Iterator[Record]:
    """The objects of a file of JSON Lines; blank lines are passed over.

    Raises:
        UsageError: As `read_lines`, or a line holds no object.
    """
    for line in read_lines(path):
        if line.text.strip():
            yield line.record()
