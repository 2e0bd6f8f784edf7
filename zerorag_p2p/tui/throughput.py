"""How much a node does in a second, from counts that only grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

#: Seconds that a rate is averaged over. Guess: steady to look at, and still of the present.
_WINDOW_S: Final = 10.0


class Throughput:
    """Rates over the last seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[str, int]]] = deque()

    def sample(self, now: float, counts: Mapping[str, int]) -> None:
        """Take in the counts at `now`, in seconds. Smaller ones mean that the node started anew."""
        if self._samples and any(
            counts[name] < before for name, before in self._samples[-1][1].items()
        ):
            self._samples.clear()
        self._samples.append((now, counts))
        while len(self._samples) > 2 and now - self._samples[1][0] >= _WINDOW_S:
            self._samples.popleft()

    def rate(self, name: str) -> float:
        """How fast the count `name` grows, a second; 0 before two samples."""
        if len(self._samples) < 2:
            return 0.0
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return (after[name] - before[name]) / max(ended - began, 1e-9)
