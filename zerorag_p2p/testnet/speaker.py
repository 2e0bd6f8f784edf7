"""Which node of a testnet speaks, for the log that all of them write to.

Tasks inherit the speaker of the task that started them, so that everything a node does speaks in
its name without being told of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_speaker: Final = ContextVar("speaker", default="testnet")


@contextmanager
def speaking_as(name: str) -> Iterator[None]:
    """Let what is logged in the context, and in tasks that are started in it, be of `name`."""
    token = _speaker.set(name)
    try:
        yield
    finally:
        _speaker.reset(token)


def note_speaker(record: logging.LogRecord) -> bool:
    """A log filter that passes everything and sets `record.speaker`, a node or "testnet"."""
    record.speaker = _speaker.get()
    return True
