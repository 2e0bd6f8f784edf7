"""How the vectorised simulator is compiled, and the random numbers of its compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from zerorag_p2p.simulation.arrays import Scratch
from zerorag_p2p.simulation.randomness import INCREMENT, MULTIPLIERS

_INCREMENT = np.uint64(INCREMENT)
_FIRST_MULTIPLIER = np.uint64(MULTIPLIERS[0])
_SECOND_MULTIPLIER = np.uint64(MULTIPLIERS[1])

#: A score of what was never compared.
NEVER = np.float32(-np.inf)

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a function, once for all processes.

    It may not allocate: numba's counting of references to arrays is off, since it took two thirds
    of the time.
    """
    # numba's annotations leave `_nrt` out.
    result: _Function = njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]
    return result


@compiled
def _word(scratch: Scratch) -> np.uint64:
    walk = scratch.walk[0]
    walk.random += _INCREMENT
    return _mixed(walk.random)


@compiled
def _mixed(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(30))) * _FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * _SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@compiled
def preference(own: int, other: int) -> np.uint64:
    """See `simulation.randomness.preference`."""
    value = (np.uint64(own) << np.uint64(32)) ^ np.uint64(other)
    return _mixed(value + _INCREMENT) >> np.uint64(11)


@compiled
def below(limit: int, scratch: Scratch) -> int:
    """A number from 0 to below `limit`, as `random.Random.randrange` draws it."""
    bits = 0
    while limit >> bits:
        bits += 1
    shift = np.uint64(64 - bits)
    number = int(_word(scratch) >> shift)
    while number >= limit:
        number = int(_word(scratch) >> shift)
    return number


@compiled
def shuffle(items: NDArray[np.int32], count: int, scratch: Scratch) -> None:
    """Put the first `count` items in random order, as `random.Random.shuffle` does."""
    for last in range(count - 1, 0, -1):
        other = below(last + 1, scratch)
        items[last], items[other] = items[other], items[last]
