"""Plain text. A long one is several records, so that it is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TextIO

from zerorag_p2p.config import TEXT_BLOCK_CHARACTERS
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.formats.encoding import detect, undecodable
from zerorag_p2p.library.formats.source_file import SourceFile
from zerorag_p2p.library.records import Record

_BREAKS: Final = ("\n\n", "\n", " ")


def read_text(source: SourceFile) -> Iterator[Record]:
    """Read a file as one record, or as several that follow each other, named "1", "2", ...

    Raises:
        LibraryError: It cannot be decoded.
    """
    encoding = source.options.encoding or detect(source.file)
    try:
        with source.text_stream(encoding) as stream:
            for number, block, whole in _blocks(stream):
                if "\0" in block:
                    raise LibraryError("it is no text: it has zero bytes")
                yield Record(
                    name="" if whole else str(number), title=source.default_title, text=block
                )
    except UnicodeDecodeError as error:
        raise undecodable(encoding, error) from None


def _blocks(stream: TextIO) -> Iterator[tuple[int, str, bool]]:
    """Number, text and whether it is all there is, of each block that is not blank."""
    held = stream.read(TEXT_BLOCK_CHARACTERS + 1)
    if len(held) <= TEXT_BLOCK_CHARACTERS:
        yield 1, held, True
        return
    number = 1
    while held:
        end = _end_of_block(held)
        if held[:end].strip():
            yield number, held[:end], False
            number += 1
        held = held[end:]
        held += stream.read(TEXT_BLOCK_CHARACTERS + 1 - len(held))


def _end_of_block(text: str) -> int:
    """Where the block that `text` begins with ends: after a paragraph, else a line, else a word."""
    if len(text) <= TEXT_BLOCK_CHARACTERS:
        return len(text)
    for separator in _BREAKS:
        end = text.rfind(separator, TEXT_BLOCK_CHARACTERS // 2, TEXT_BLOCK_CHARACTERS)
        if end >= 0:
            return end + len(separator)
    return TEXT_BLOCK_CHARACTERS
