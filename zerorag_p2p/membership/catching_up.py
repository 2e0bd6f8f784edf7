"""Catching up on withdrawals: whom to ask for those that were told while we were not there.

Every message carries a digest of the withdrawals that its sender holds. A peer whose digest is not
ours may have some that we lack. One that had none for us has them neither at the next message: its
digest is remembered until what we hold ourselves has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

#: Digests that are remembered as of no use. Guess: peers that differ in the same way have the same.
_FRUITLESS: Final = 128


class CatchingUp:
    """Decides which message is answered by a request for withdrawals.

    Args:
        held: Digest of those that we hold; empty while there are none.
        pause_s: Least time between two requests, unless the last one brought something.
    """

    def __init__(self, held: Callable[[], bytes], pause_s: float) -> None:
        self._held = held
        self._pause_s = pause_s
        self._next = -math.inf
        self._fruitless: dict[bytes, None] = {}
        self._fruitless_for = b""

    def wants(self, held: bytes, now: float) -> bool:
        """Whether to ask, at `now`, a peer that holds the withdrawals of this digest."""
        own = self._held()
        if own != self._fruitless_for:
            self._fruitless, self._fruitless_for = {}, own
        if held in {b"", own} or held in self._fruitless or now < self._next:
            return False
        self._next = now + self._pause_s
        return True

    def on_ended(self, held: bytes, *, gained: bool) -> None:
        """The peer that was asked answered; whether it had any for us."""
        if gained:
            self._next = -math.inf
            return
        if self._held() != self._fruitless_for:
            return  # what it had for us came another way meanwhile
        self._fruitless[held] = None
        if len(self._fruitless) > _FRUITLESS:
            del self._fruitless[next(iter(self._fruitless))]
