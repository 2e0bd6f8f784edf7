"""Words for people: figures, times and ids as they are shown in terminals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400


def printable(text: object) -> str:
    """A text without control characters: they could clear a screen or turn a line around."""
    return "".join(
        character if character.isprintable() or character == "\n" else "\ufffd"
        for character in str(text)
    )


def short_peer(peer: str) -> str:
    """A peer id as people compare it: all begin alike, so the end tells them apart."""
    return f"{peer[:8]}…{peer[-6:]}"


def moment(timestamp: float | None) -> str:
    """A unix time in UTC, to the minute."""
    if timestamp is None:
        return "-"
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M UTC")


def duration(seconds: float) -> str:
    """A span of time in its two largest units, for instance "3 h 20 min"."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f} h {seconds % _HOUR_S // _MINUTE_S:.0f} min"
    return f"{seconds // _DAY_S:.0f} d {seconds % _DAY_S // _HOUR_S:.0f} h"


def span(seconds: float) -> str:
    """A span of time in its largest unit, to be shown in a column: "3 h" for instance."""
    if seconds < _MINUTE_S:
        return f"{max(seconds, 0.0):.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f} h"
    return f"{seconds // _DAY_S:.0f} d"


def milliseconds(value: float | None) -> str:
    """A time in milliseconds, or in seconds where it is long."""
    if value is None:
        return "-"
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def counted(number: int, noun: str) -> str:
    """A number and its noun, for instance "1 document" or "2 documents"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(count: float) -> str:
    """A number of bytes in a decimal unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} GB"
