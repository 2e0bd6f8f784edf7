"""Rumours: what is passed on with every message until enough peers have been told.

After SWIM's infection-style dissemination (Das et al., DSN 2002, section 4.1): each peer tells a
rumour a number of times that grows with the logarithm of the group, the least told first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


def retransmissions(multiplier: int, members: int) -> int:
    """How often a rumour is told by each of `members` peers."""
    return multiplier * math.ceil(math.log10(members + 1))


class RumourQueue(Generic[_Item]):
    """Items to pass on, one a key; a new item under a key replaces the old one.

    Args:
        limit: Most items. Beyond it the one told most often is dropped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._told: dict[Hashable, int] = {}
        # Items by how often they were told, each level in the order in which they reached it.
        self._levels: list[dict[Hashable, _Item]] = [{}]

    def __len__(self) -> int:
        return len(self._told)

    def put(self, key: Hashable, item: _Item) -> None:
        """Pass `item` on from now on."""
        self.discard(key)
        self._told[key] = 0
        self._levels[0][key] = item
        if len(self._told) > self._limit:
            most_told = next(level for level in reversed(self._levels) if level)
            self.discard(next(iter(most_told)))

    def discard(self, key: Hashable) -> None:
        """Stop passing on what is under `key`."""
        told = self._told.pop(key, None)
        if told is not None:
            del self._levels[told][key]

    def take(self, count: int, *, times: int) -> list[_Item]:
        """Up to `count` items for one message, the least told first and of those the latest.

        Args:
            count: Most items.
            times: How often an item is told before it is dropped.
        """
        if not self._told:
            return []
        chosen: list[tuple[Hashable, _Item]] = []
        for level in self._levels:
            for key in reversed(level):
                if len(chosen) == count:
                    break
                chosen.append((key, level[key]))
        for key, item in chosen:
            told = self._told[key] + 1
            self.discard(key)
            if told < times:
                if told == len(self._levels):
                    self._levels.append({})
                self._told[key] = told
                self._levels[told][key] = item
        return [item for _, item in chosen]
