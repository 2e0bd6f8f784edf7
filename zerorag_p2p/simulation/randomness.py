"""Random numbers that Python and compiled code draw alike (SplitMix64, Steele et al., OOPSLA 2014).

Every question draws from a stream of its own, so that what one walk draws does not depend on the
others, and the vectorised simulator can take the same decisions as the event simulator.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

_Item = TypeVar("_Item")

#: Number of the stream that neighbours are drawn from; questions have the numbers from 0.
NEIGHBOR_STREAM: Final = -1

MASK: Final = (1 << 64) - 1
INCREMENT: Final = 0x9E3779B97F4A7C15
MULTIPLIERS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def stream_start(seed: int, number: int) -> int:
    """State in which the stream of `number` begins, for one seed."""
    return _mixed(_mixed(seed & MASK) ^ (number & MASK))


def stream_starts(seed: int, count: int) -> NDArray[np.uint64]:
    """`stream_start` of the streams from 0 to before `count`."""
    start = np.uint64(_mixed(seed & MASK))
    return _mixed_all(np.arange(count, dtype=np.uint64) ^ start)


def _mixed_all(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = values + np.uint64(INCREMENT)  # wraps around
    values = (values ^ (values >> np.uint64(30))) * np.uint64(MULTIPLIERS[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(MULTIPLIERS[1])
    return values ^ (values >> np.uint64(31))


def preference(own: int, other: int) -> int:
    """How little peer number `own` prefers `other` to equals: 53 bits, the same for both worlds."""
    return _mixed((own << 32) ^ other) >> 11


def _mixed(value: int) -> int:
    value = (value + INCREMENT) & MASK
    value = ((value ^ (value >> 30)) * MULTIPLIERS[0]) & MASK
    value = ((value ^ (value >> 27)) * MULTIPLIERS[1]) & MASK
    return value ^ (value >> 31)


class SplitMix(random.Random):
    """Python's random numbers, made of SplitMix64.

    Args:
        seed: Seed of the whole run.
        number: Which of its streams.
    """

    def __init__(self, seed: int, number: int) -> None:
        self._state = stream_start(seed, number)
        super().__init__(0)

    def seed(self, *arguments: Any) -> None:
        """Nothing: the stream is given to the constructor."""

    def _word(self) -> int:
        word = _mixed(self._state)
        self._state = (self._state + INCREMENT) & MASK
        return word

    def getrandbits(self, k: int, /) -> int:
        """The highest `k` bits of the next word; `k` is at most 64."""
        return self._word() >> (64 - k) if k else 0

    def random(self) -> float:
        """A number from 0 to below 1."""
        return (self._word() >> 11) * 2.0**-53


def draw(items: Sequence[_Item], count: int, randomness: random.Random) -> list[_Item]:
    """`count` different items in the order they were drawn; all of them if there are no more."""
    size = len(items)
    if count >= size:
        return list(items)
    positions: dict[int, None] = {}
    while len(positions) < count:
        positions.setdefault(randomness.randrange(size))
    return [items[position] for position in positions]
