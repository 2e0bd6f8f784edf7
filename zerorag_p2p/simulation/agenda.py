"""What happens when: a queue of actions in virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Agenda:
    """Actions ordered by time; those of the same time in the order they were put down.

    Attributes:
        now: Virtual seconds since the start; the time of the action under way.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Put down an action for `seconds` from now."""
        self._count += 1
        heapq.heappush(self._entries, (self.now + seconds, self._count, action))

    def run(self) -> None:
        """Do everything, and everything that this puts down, until nothing is left."""
        while self._entries:
            self.now, _, action = heapq.heappop(self._entries)
            action()
