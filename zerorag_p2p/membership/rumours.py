"""Rumours: what is passed on with every message until enough peers have been told.

After SWIM's infection-style dissemination (Das et al., DSN 2002, section 4.1): each peer tells a
rumour a number of times that grows with the logarithm of the group, the least told first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


def retransmissions(multiplier: int, members: int) -> int:
    """How often a rumour is told by each of `members` peers."""
    return multiplier * math.ceil(math.log10(members + 1))


@dataclass(slots=True)
class _Rumour(Generic[_Item]):
    key: Hashable
    item: _Item
    number: int
    told: int = 0


class RumourQueue(Generic[_Item]):
    """Items to pass on, one a key; a new item under a key replaces the old one.

    Args:
        limit: Most items. Beyond it the one told most often is dropped.
        size: Bytes of an item, where `take` is to keep within a number of bytes.
    """

    def __init__(self, limit: int, size: Callable[[_Item], int] = lambda _: 0) -> None:
        self._limit = limit
        self._size = size
        self._rumours: dict[Hashable, _Rumour[_Item]] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._rumours)

    def put(self, key: Hashable, item: _Item) -> None:
        """Pass `item` on from now on."""
        self._number += 1
        self._rumours[key] = _Rumour(key, item, self._number)
        if len(self._rumours) > self._limit:
            stalest = max(self._rumours.values(), key=lambda rumour: (rumour.told, -rumour.number))
            del self._rumours[stalest.key]

    def discard(self, key: Hashable) -> None:
        """Stop passing on what is under `key`."""
        self._rumours.pop(key, None)

    def take(self, count: int, *, times: int, max_bytes: int | None = None) -> list[_Item]:
        """Up to `count` items for one message, the least told first and of those the newest.

        Args:
            count: Most items.
            times: How often an item is told before it is dropped.
            max_bytes: Most bytes of all items together; one that does not fit waits.
        """
        if not self._rumours:
            return []
        least_told = sorted(
            self._rumours.values(), key=lambda rumour: (rumour.told, -rumour.number)
        )
        items = []
        left = max_bytes
        for rumour in least_told[:count]:
            if left is not None:
                if self._size(rumour.item) > left:
                    continue
                left -= self._size(rumour.item)
            items.append(rumour.item)
            rumour.told += 1
            if rumour.told >= times:
                del self._rumours[rumour.key]
        return items
