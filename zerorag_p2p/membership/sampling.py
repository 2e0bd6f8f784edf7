"""Peer sampling: whom to exchange views with, and what to keep of what comes back.

After Jelasity et al., "Gossip-based peer sampling" (ACM TOCS 25(3), 2007), push-pull. In each round
one peer of the view is asked; both sides send half of their view with their own entry first, and
merge what they get.

Three additions keep a peer in touch when its view is of no use:

- A peer that does not answer falls out of the view at once, and the round tries another: first one
  that answered lately or a configured introduction, then the view again. So a view filled with
  peers that never answer costs rounds, but not the way back.
- A peer that fell out this way, or was found dead, is remembered as lost, and now and then one is
  tried again: two halves of a network that could not see each other find together.
- While the view is empty, lost peers and introductions are asked several at a time.

A newcomer does not put its introducer into the view unless it has nothing else: the one address
that everybody starts from would be in every view for long.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from zerorag_p2p.config import MembershipConfig
from zerorag_p2p.membership.view import PartialView
from zerorag_p2p.model import PeerId

# How much shorter or longer than the interval a round may be.
_JITTER: Final = 0.25


class PeerSampler:
    """The view of one peer and the exchanges that renew it.

    Args:
        own: The owner.
        introductions: Peers to start from, preferred first.
        usable: Whether a peer may be in the view: a member that is not known to be dead.
    """

    def __init__(
        self,
        own: PeerId,
        settings: MembershipConfig,
        *,
        introductions: Sequence[PeerId],
        usable: Callable[[PeerId], bool],
        randomness: random.Random,
    ) -> None:
        self._own = own
        self._settings = settings
        self._usable = usable
        self._randomness = randomness
        self.view = PartialView(
            own,
            capacity=settings.view_size,
            healer=settings.healer,
            swapper=settings.swapper,
            randomness=randomness,
        )
        self._introductions = [peer for peer in introductions if peer != own]
        self._next_introduction = 0
        # Dicts as ordered sets, the oldest first.
        self._lost: dict[PeerId, None] = {}
        self._answered: dict[PeerId, None] = {}
        # What was sent to whom in exchanges that are not over.
        self._exchanging: dict[PeerId, list[PeerId]] = {}
        self._attempts_left = 0
        self._next_round = math.inf
        self._next_reconnect = math.inf

    def start(self, now: float) -> None:
        """Begin with rounds, the first one at once."""
        self._next_round = now
        self._next_reconnect = now + self._settings.reconnect_interval_s

    def next_timeout(self) -> float:
        """When the next round is due, unix seconds."""
        return self._next_round

    def lost(self) -> list[PeerId]:
        """Peers that answered once and do no more, the last one last."""
        return list(self._lost)

    # Whom to ask.

    def begin_round(self, now: float) -> list[PeerId]:
        """Whom to exchange views with now, if a round is due."""
        if now < self._next_round:
            return []
        # Peers that started together must not go on in step: exchanges that cross mix badly.
        self._next_round = now + self._settings.exchange_interval_s * self._randomness.uniform(
            1 - _JITTER, 1 + _JITTER
        )
        self._attempts_left = self._settings.round_attempts - 1
        self.view.grow_older()
        partners: list[PeerId] = []
        if len(self.view):
            partner = self._partner()
            partners = [] if partner is None else [partner]
        else:
            partners = self._strangers(self._settings.join_parallel)
        if now >= self._next_reconnect:
            self._next_reconnect = now + self._settings.reconnect_interval_s
            lost = [peer for peer in self._lost if peer not in partners and self._free(peer)]
            if lost:
                partners.append(self._randomness.choice(lost))
        return partners

    def _partner(self) -> PeerId | None:
        if self._settings.peer_selection == "oldest":
            return self.view.oldest(excluded=self._exchanging)
        return self.view.random(excluded=self._exchanging)

    def _strangers(self, count: int) -> list[PeerId]:
        """Peers outside the view: lost ones and introductions in turn."""
        lost = [peer for peer in self._lost if self._free(peer)]
        self._randomness.shuffle(lost)
        strangers: dict[PeerId, None] = {}
        for _ in range(len(self._introductions)):
            introduction = self._introduce()
            if introduction is None:
                break
            strangers[introduction] = None
            if lost:
                strangers[lost.pop()] = None
            if len(strangers) >= count:
                break
        strangers.update(dict.fromkeys(lost))
        return list(strangers)[:count]

    def _introduce(self) -> PeerId | None:
        for _ in range(len(self._introductions)):
            peer = self._introductions[self._next_introduction % len(self._introductions)]
            self._next_introduction += 1
            if self._free(peer):
                return peer
        return None

    def _free(self, peer: PeerId) -> bool:
        return peer not in self._exchanging

    def _another(self) -> PeerId | None:
        """Whom to try after a failure: somebody outside the view once, then the view."""
        if self._attempts_left == self._settings.round_attempts - 2:
            answered = [peer for peer in self._answered if self._free(peer)]
            other = answered[-1] if answered else self._introduce()
            if other is not None:
                return other
        return self._partner()

    # What is sent and what comes back.

    def sample_for(self, peer: PeerId) -> list[tuple[PeerId, int]]:
        """Half of the view, to send to `peer` as a request."""
        sample = [entry for entry in self.view.sample() if entry[0] != peer]
        self._exchanging[peer] = [entry[0] for entry in sample]
        return sample

    def on_request(
        self, peer: PeerId, received: Iterable[tuple[PeerId, int]]
    ) -> list[tuple[PeerId, int]]:
        """Merge the half view of `peer` that asked; the half view to answer with."""
        sample = [entry for entry in self.view.sample() if entry[0] != peer]
        self._merge(received, [entry[0] for entry in sample])
        return sample

    def on_reply(self, peer: PeerId, received: Sequence[tuple[PeerId, int]]) -> None:
        """Merge the half view that `peer` answered with."""
        sent = self._exchanging.pop(peer, [])
        self._note_answer(peer)
        if not len(self.view):
            others = [entry for entry in received if entry[0] != peer]
            received = others or received
        self._merge(received, sent)

    def on_refusal(self, peer: PeerId) -> None:
        """`peer` is there, but exchanges no view now."""
        self._exchanging.pop(peer, None)
        self._note_answer(peer)

    def on_failure(self, peer: PeerId) -> PeerId | None:
        """`peer` did not answer; whom to try instead."""
        if self._exchanging.pop(peer, None) is None:
            return None
        self._answered.pop(peer, None)
        if self.view.remove(peer):
            self._lose(peer)
        elif peer in self._lost and len(self.view):
            return None  # it was but one more try
        if self._attempts_left <= 0:
            return None
        self._attempts_left -= 1
        return self._another()

    def _merge(self, received: Iterable[tuple[PeerId, int]], sent: Sequence[PeerId]) -> None:
        usable = [entry for entry in received if entry[0] != self._own and self._usable(entry[0])]
        for peer, _ in usable:
            self._lost.pop(peer, None)
        self.view.merge(usable, sent)

    def _note_answer(self, peer: PeerId) -> None:
        self._lost.pop(peer, None)
        self._answered.pop(peer, None)
        self._answered[peer] = None
        if len(self._answered) > self._settings.answered_limit:
            del self._answered[next(iter(self._answered))]

    # What is learnt elsewhere.

    def on_died(self, peer: PeerId) -> None:
        """`peer` is gone; it may come back."""
        self._answered.pop(peer, None)
        if self.view.remove(peer):
            self._lose(peer)

    def _lose(self, peer: PeerId) -> None:
        self._lost.pop(peer, None)
        self._lost[peer] = None
        if len(self._lost) > self._settings.lost_limit:
            del self._lost[next(iter(self._lost))]

    def forget(self, peer: PeerId) -> None:
        """`peer` is no member any more."""
        self.view.remove(peer)
        for peers in (self._lost, self._answered):
            peers.pop(peer, None)

    def restore(self, entries: Iterable[tuple[PeerId, int]], lost: Iterable[PeerId]) -> None:
        """Take over a saved view and lost peers, as far as they are usable."""
        self._merge(entries, ())
        for peer in lost:
            if peer not in self.view and self._usable(peer):
                self._lose(peer)
