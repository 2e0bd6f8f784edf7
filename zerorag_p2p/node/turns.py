"""Turns: the requests of one peer begin one at a time, with everybody else's in between."""

from __future__ import annotations

import trio


class Turn:
    """Lets one task go on in each round of the scheduler; the others wait in the order they came.

    A task that has its turn keeps nobody up afterwards, however long it then waits for something.
    """

    def __init__(self) -> None:
        self._taken = False
        self._waiting = trio.lowlevel.ParkingLot()

    async def take(self) -> None:
        """Wait for a turn; not at all if nobody had one in this round. Safe to cancel."""
        if self._taken:
            await self._waiting.park()
            return
        self._taken = True
        self._pass_on_later()

    def _pass_on_later(self) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(self._pass_on)

    def _pass_on(self) -> None:
        """Runs in a round of its own, after every task that was ready before."""
        self._taken = bool(self._waiting)
        if self._taken:
            self._waiting.unpark()
            self._pass_on_later()
