"""Keeping the neighbour view alive.

First neighbours are found, their advertisements fetched and refreshed, and peers that left let go.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

import trio

from zerorag_p2p.config import NodeConfig
from zerorag_p2p.errors import NetworkError, RemoteError, RemoteRefusal
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.contacts import Failure, Outcome
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.happenings import NeighborAdded, NeighborRemoved
from zerorag_p2p.node.outgoing import Exchanges
from zerorag_p2p.node.sessions import Sessions
from zerorag_p2p.node.state import held_advertisement
from zerorag_p2p.peer import Peer
from zerorag_p2p.routing.adverts import HeldAdvertisement

logger = logging.getLogger("zerorag.node")

#: Neighbours that are looked after at the same time.
_PARALLEL = 8


class Neighborhood:
    """Looks after the neighbours of `peer`.

    Args:
        bootstrap: Peers whose addresses are configured; they are asked first.
        sample: Peers that gossip knows to be there, in random order.
        offer: Takes in a neighbour's advertisement.
        forget_expired: Drops what was kept, besides routing state, of questions that others asked.
        clock: Unix seconds.
        activity: Takes in who becomes a neighbour and who is forgotten.
    """

    def __init__(
        self,
        *,
        peer: Peer,
        directory: Directory,
        sessions: Sessions,
        exchanges: Exchanges,
        config: NodeConfig,
        bootstrap: Sequence[PeerId],
        sample: Callable[[], Sequence[PeerId]],
        offer: Callable[[HeldAdvertisement], object],
        forget_expired: Callable[[float], None],
        clock: Callable[[], float],
        randomness: random.Random,
        activity: Activity,
    ) -> None:
        self._peer = peer
        self._directory = directory
        self._sessions = sessions
        self._exchanges = exchanges
        self._config = config
        self._bootstrap = tuple(bootstrap)
        self._sample = sample
        self._offer = offer
        self._forget_expired = forget_expired
        self._clock = clock
        self._randomness = randomness
        self._activity = activity
        self._refreshed: dict[PeerId, float] = {}
        self._unreachable_since: dict[PeerId, float] = {}

    def on_outcome(self, peer: PeerId, outcome: Outcome) -> None:
        """Note whether `peer` could be reached; a refusal counts as reached."""
        if outcome in {Outcome.UNREACHABLE, Outcome.TIMED_OUT}:
            self._unreachable_since.setdefault(peer, self._clock())
        else:
            self._unreachable_since.pop(peer, None)

    async def adopt(self, peer: PeerId) -> None:
        """Make `peer` a neighbour and fetch its advertisement."""
        if peer not in self._peer.neighbors:
            evicted = self._peer.add_neighbor(peer, self._clock())
            if evicted is not None:
                self._refreshed.pop(evicted, None)
            self._activity.tell(
                NeighborAdded(
                    at=self._clock(),
                    peer=peer,
                    organisation=self._directory.organisation(peer),
                    evicted=None if evicted is None else self._directory.name(evicted),
                )
            )
        await self._refresh(peer)

    async def run(self) -> None:
        """Look after the neighbours until cancelled."""
        while True:
            self._drop_departed()
            # Questions may stay away for long, and what has expired would be saved until then.
            self._peer.forget_expired(self._clock())
            self._forget_expired(self._clock())
            async with trio.open_nursery() as nursery:
                limiter = trio.CapacityLimiter(_PARALLEL)
                for peer in self._due():
                    nursery.start_soon(self._refresh_within, limiter, peer)
                nursery.start_soon(self._find_neighbors)
            await trio.sleep(self._config.network.maintenance_interval_s)

    def forget(self, peer: PeerId, reason: str = "left") -> None:
        """Forget a peer that left or was revoked; `reason` is for people."""
        was_neighbor = peer in self._peer.neighbors
        self._peer.on_departed(peer)
        self._refreshed.pop(peer, None)
        self._unreachable_since.pop(peer, None)
        if was_neighbor:
            self._activity.tell(
                NeighborRemoved(
                    at=self._clock(),
                    peer=peer,
                    organisation=self._directory.organisation(peer),
                    reason=reason,
                )
            )

    def start_afresh(self) -> None:
        """Ask every neighbour for its advertisement anew."""
        self._refreshed.clear()

    def unreachable_since(self, peer: PeerId) -> float | None:
        """Since when `peer` could not be reached, in unix seconds; None if it could at last."""
        return self._unreachable_since.get(peer)

    def _drop_departed(self) -> None:
        now = self._clock()
        patience = self._config.network.departed_after_s
        for peer, since in list(self._unreachable_since.items()):
            if now - since >= patience:
                logger.info("%s has been unreachable for %.0f s and is forgotten", peer, patience)
                self.forget(peer, f"unreachable for {patience:g} s")

    def _due(self) -> list[PeerId]:
        """Neighbours without a session, or whose advertisement is missing or old."""
        now = self._clock()
        oldest = now - self._config.network.advertisement_refresh_s
        return [
            neighbor.peer
            for neighbor in self._peer.neighbors
            if self._sessions.get(neighbor.peer) is None
            or self._refreshed.get(neighbor.peer, 0.0) <= oldest
        ]

    async def _refresh_within(self, limiter: trio.CapacityLimiter, peer: PeerId) -> None:
        async with limiter:
            await self._refresh(peer)

    async def _refresh(self, peer: PeerId) -> None:
        held = self._peer.advertisements.get(peer)
        reply = await self._exchanges.advertisement(
            peer,
            dimension=self._peer.dimension,
            known_sequence=held.sequence if held is not None else None,
            timeout_s=self._config.network.request_timeout_s,
        )
        if isinstance(reply, Failure):
            logger.debug("no advertisement of %s: %s", peer, reply.reason)
            return
        if peer not in self._peer.neighbors:
            return
        self._refreshed[peer] = self._clock()
        if reply is None:
            return
        if reply.advertisement.fingerprint != self._peer.fingerprint:
            logger.info("%s advertises under another embedding model", peer)
            return
        self._offer(held_advertisement(reply))

    async def _find_neighbors(self) -> None:
        """While there are few neighbours: random peers, preferring those known to be there."""
        missing = self._config.routing.initial_neighbors - len(self._peer.neighbors)
        if missing <= 0:
            return
        members = self._directory.members(self._clock())
        self._randomness.shuffle(members)
        preferred = dict.fromkeys([*self._sample(), *self._bootstrap, *members])
        suitable = set(members) - {neighbor.peer for neighbor in self._peer.neighbors}
        candidates = [peer for peer in preferred if peer in suitable][: 2 * missing]
        async with trio.open_nursery() as nursery:
            for peer in candidates:
                nursery.start_soon(self._try_neighbor, peer)

    async def _try_neighbor(self, peer: PeerId) -> None:
        try:
            await self._sessions.ensure(peer, timeout_s=self._config.network.request_timeout_s)
        except (NetworkError, RemoteError, RemoteRefusal) as error:
            logger.debug("%s does not become a neighbour: %s", peer, error)
            return
        if len(self._peer.neighbors) < self._config.routing.initial_neighbors:
            await self.adopt(peer)
