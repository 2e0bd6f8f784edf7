"""Notice of the compilation that keeps the first run of the vectorised simulator waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, install_listener


class _Notice(Listener):
    """Tells of the first function that is compiled; the others are compiled in the course of it."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._told = False

    def on_start(self, event: Event) -> None:
        del event
        if not self._told:
            self._told = True
            self._tell()

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def compilation_told(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` when numba begins to compile in this block; not for what its cache has."""
    with install_listener("numba:compile", _Notice(tell)):
        yield
