"""Python's cyclic garbage collector beside hundreds of nodes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_THRESHOLDS: Final = (200_000, 20, 100)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the garbage collector run seldom while the context is entered.

    It looks at young objects after every 700 that are made, and at old ones after every 70,000: a
    testnet makes so many that half of its time would go into that.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
