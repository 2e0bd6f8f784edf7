"""How well we ourselves are doing, from the fate of our own pings.

After memberlist's awareness (Lifeguard, Dadgar et al., 2018): a peer whose messages get lost waits
longer before it accuses others.
"""

from __future__ import annotations


class LocalHealth:
    """A score from 0, healthy, to `limit` - 1."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._score = 0

    @property
    def factor(self) -> int:
        """What timeouts and intervals are multiplied by, from 1 to `limit`."""
        return self._score + 1

    def adjust(self, change: int) -> None:
        """Raise the score for a sign of bad health, lower it for one of good health."""
        self._score = max(0, min(self._limit - 1, self._score + change))
