"""Pulls: whom to ask for advertisements of others, and when.

Every round one peer is asked, in turn one of those nearest by content and one of the view. Who is
near knows who else is near, and the view, a random sample, leads to near ones nobody near knows yet
(T-Man: Jelasity, Montresor and Babaoglu, Computer Networks 53(13), 2009).

A pull that brings nothing to keep doubles the pause before the next one, one that does halves it.
When something held is lost, or the members change, the pauses start afresh. Whoever asks, and
would be kept itself, is asked back at once, so that an exchange serves both sides; that counts for
nothing else, so nobody keeps a peer from asking others by asking it often.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Final

from zerorag_p2p.config import MembershipConfig
from zerorag_p2p.model import PeerId

# How much shorter or longer than planned a pause may be.
_JITTER: Final = 0.25


class PullSchedule:
    """When to pull, and from whom.

    Args:
        near: Peers that are nearest by content.
        view: Peers of the view.
        usable: Whether a peer may be asked: a member that is not known to be dead.
    """

    def __init__(
        self,
        settings: MembershipConfig,
        *,
        near: Callable[[], Iterable[PeerId]],
        view: Callable[[], Iterable[PeerId]],
        usable: Callable[[PeerId], bool],
        randomness: random.Random,
    ) -> None:
        self._settings = settings
        self._sources = [view, near]
        self._usable = usable
        self._randomness = randomness
        self._pause_s = settings.exchange_interval_s
        self._next = math.inf
        # Who is to be asked back, and who was.
        self._wanted: PeerId | None = None
        self._asked_back: PeerId | None = None
        self._wanted_at = math.inf

    def start(self, now: float) -> None:
        """Begin to pull once the view has had a round to fill."""
        self._plan(now)

    def next_timeout(self) -> float:
        """When the next pull is due, unix seconds."""
        return min(self._next, self._wanted_at)

    def begin(self, now: float) -> PeerId | None:
        """Whom to ask now, if a pull is due and there is anybody."""
        wanted, self._wanted, self._wanted_at = self._wanted, None, math.inf
        if wanted is not None and self._usable(wanted):
            self._asked_back = wanted
            return wanted
        if now < self._next:
            return None
        self._plan(now)
        for _ in self._sources:
            self._sources.reverse()
            peers = [peer for peer in self._sources[-1]() if self._usable(peer)]
            if peers:
                return self._randomness.choice(peers)
        return None

    def on_ended(self, peer: PeerId, *, gained: bool, now: float) -> None:
        """`peer` answered a pull; whether anything it brought is kept."""
        if peer == self._asked_back:
            self._asked_back = None
            return
        if gained:
            self._pause_s = max(self._pause_s / 2, self._settings.exchange_interval_s)
        else:
            self._pause_s = min(
                self._pause_s * 2,
                max(self._settings.sketch_pause_s, self._settings.exchange_interval_s),
            )
        self._plan(now)

    def ask_back(self, peer: PeerId, now: float) -> None:
        """Pull from `peer` at once: what it advertises itself would be kept."""
        self._wanted = peer
        self._wanted_at = now

    def hurry(self, now: float) -> None:
        """Pull as at the start again, if pulls have begun."""
        if self._next < math.inf:
            self._pause_s = self._settings.exchange_interval_s
            self._plan(now)

    def _plan(self, now: float) -> None:
        self._next = now + self._pause_s * self._randomness.uniform(1 - _JITTER, 1 + _JITTER)
