"""Which encoding a text is in: by its mark, else UTF-8 if it is that, else the likeliest.

Encodings of one byte a character can only be guessed. Where cp1252 is as likely as any other it is
taken: it is what Windows wrote in western Europe and America.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO, Final

from zerorag_p2p.errors import LibraryError, UsageError

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN: Final = "cp1252"
_CANDIDATES: Final = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "koi8_r", "mac_roman", "cp437", "cp850"),
    *("cp932", "euc_jp", "gb18030", "big5", "euc_kr"),
]
_CHUNK_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 1 << 10
_SAMPLE_BYTES: Final = 64 << 10
_WORD_BYTES: Final = 64
#: A word with a byte that is not ASCII.
_TELLING: Final = re.compile(rb"[!-~]{0,64}[\x80-\xff]+[!-~\x80-\xff]{0,64}")
#: A guess may be so much less orderly than the best one and still be taken. Guess.
_TIE: Final = 0.02


def check_encoding(name: str) -> str:
    """The name of a text encoding.

    Raises:
        UsageError: There is none of this name.
    """
    try:
        "".encode(name)
        b"".decode(name)
    except (LookupError, UnicodeError, ValueError):
        raise UsageError(
            f"there is no text encoding {name!r}; utf-8, utf-16 and cp1252 are some"
        ) from None
    return name


def detect(file: BinaryIO) -> str:
    """The encoding of a file, which is at its beginning before and after.

    Raises:
        LibraryError: No encoding is likely.
    """
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if encoding := _encoding_by_bytes(head):
        return encoding
    decoder = codecs.getincrementaldecoder("utf-8")()
    start = 0
    while True:
        chunk = file.read(_CHUNK_BYTES)
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            bad = start - pending + error.start
            break
        if not chunk:
            file.seek(0)
            return "utf-8"
        start += len(chunk)
    file.seek(max(0, bad - _WORD_BYTES))
    sample = file.read(_SAMPLE_BYTES)
    file.seek(0)
    return _likeliest(sample, bad)


def decode(data: bytes, *, encoding: str = "") -> str:
    """Decode a whole text.

    Args:
        data: The text.
        encoding: Its encoding; "" to detect it.

    Raises:
        LibraryError: It cannot be decoded.
    """
    if not encoding:
        encoding = _encoding_by_bytes(data[:_HEAD_BYTES])
    if not encoding:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            bad = error.start
        start = max(0, bad - _WORD_BYTES)
        encoding = _likeliest(data[start : start + _SAMPLE_BYTES], bad)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise undecodable(encoding, error) from None


def undecodable(encoding: str, error: UnicodeDecodeError) -> LibraryError:
    """The error of a text that is not in the encoding it seemed to be in."""
    return LibraryError(
        f"it is not valid {encoding} at byte {error.start}; name its encoding (--encoding), or "
        "convert it"
    )


def _encoding_by_bytes(head: bytes) -> str:
    """The encoding that the first bytes tell, or ""."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    # In UTF-16 without a mark every other byte of western text is zero.
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd > len(head) // 4 and even == 0:
        return "utf-16-le"
    if even > len(head) // 4 and odd == 0:
        return "utf-16-be"
    return ""


def _likeliest(sample: bytes, bad: int) -> str:
    """The likeliest encoding of a text that is not UTF-8.

    Args:
        sample: A part of it.
        bad: The byte of the text at which it is not UTF-8.
    """
    from charset_normalizer import from_bytes

    # Among much plain English a few other characters would tell nothing.
    telling = b" ".join(_TELLING.findall(sample))
    matches = list(from_bytes(telling, cp_isolation=_CANDIDATES))
    if not matches:
        raise LibraryError(
            f"it is not valid UTF-8 at byte {bad}, nor likely in another encoding; name its "
            "encoding (--encoding), or convert it"
        )
    least = min(match.chaos for match in matches)
    tied = [match for match in matches if match.chaos <= least + _TIE]
    if any(_WESTERN in match.could_be_from_charset for match in tied):
        return _WESTERN
    return str(matches[0].encoding)
