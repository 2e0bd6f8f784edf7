"""What can go wrong between the peers of one process, and with them.

`Faults` is shared by every memory network of a hub and may be changed at any moment. The theory:

- Latency, jitter and bandwidth delay what is written; what goes over a connection one way arrives
  in the order it was written in. Requests are answered side by side, so replies may overtake.
- A loss takes a whole write, which is one frame or several that were joined. The framing holds,
  the stream stays usable, and whoever waited for a reply runs into its deadline. A dial is not
  lost: a transport repeats its handshake.
- A partition swallows writes and lets dials wait; nobody is told. What one side closes meanwhile,
  the other learns when the partition heals.
- A frozen peer neither sends nor receives, as a stopped process: what others send waits for it,
  and new dials wait too. Its own timers run on, so its requests run into their deadlines.
- A misbehaving peer answers what a hook makes of its honest answer (`AnswerHook`).

Randomness is seeded, but is drawn in the order in which tasks run, and trio shuffles that order.
Two runs with one seed are therefore alike, not equal: state the spread over several seeds.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import trio

from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import Handler
from zerorag_p2p.wire.protocols import QUERY
from zerorag_p2p.wire.query import QueryResult, encode_query_result

#: Answers a request in the place of a peer: protocol, requester, payload, the honest handler.
AnswerHook: TypeAlias = Callable[[str, PeerId, bytes, Handler], Awaitable[bytes]]

#: Group of a partition for peers that no group names.
_REST: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What every write between two peers goes through.

    Attributes:
        latency_s: One way.
        jitter_s: Mean of the exponentially distributed time that is added to the latency.
        bandwidth: Bytes a second that a peer can send, to all others together; 0 for no limit.
        loss: Share of writes that never arrive, 0 to 1.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    bandwidth: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if min(self.latency_s, self.jitter_s, self.bandwidth) < 0:
            raise UsageError("latency, jitter and bandwidth cannot be negative")
        if not 0 <= self.loss <= 1:
            raise UsageError(f"loss has to be from 0 to 1, got {self.loss:g}")

    @property
    def delaying(self) -> bool:
        """Whether anything arrives later than it was sent."""
        return self.latency_s > 0 or self.jitter_s > 0 or self.bandwidth > 0


class Faults:
    """The state of a memory hub's links and peers.

    Attributes:
        conditions: Of every link; may be replaced while networks run.
    """

    def __init__(self, conditions: Conditions | None = None, *, seed: int = 0) -> None:
        self.conditions = conditions or Conditions()
        self._randomness = random.Random(seed)
        self._groups: dict[PeerId, int] | None = None
        self._frozen: dict[PeerId, trio.Event] = {}
        self._line_free_at: dict[PeerId, float] = {}
        self._untold: list[Callable[[], None]] = []

    # Links.

    def partition(self, groups: Sequence[Collection[PeerId]]) -> None:
        """Let nothing pass between groups. Peers in none of them form one more.

        Raises:
            UsageError: A peer is in two groups.
        """
        numbers: dict[PeerId, int] = {}
        for number, group in enumerate(groups):
            for peer in group:
                if numbers.setdefault(peer, number) != number:
                    raise UsageError(f"{peer} cannot be in two groups of a partition")
        self.heal()
        self._groups = numbers

    def heal(self) -> None:
        """End the partition; what it kept from peers, the end of links for instance, they learn."""
        self._groups = None
        untold, self._untold = self._untold, []
        for tell in untold:
            tell()

    def separated(self, one: PeerId, other: PeerId) -> bool:
        """Whether a partition is between two peers."""
        groups = self._groups
        return groups is not None and groups.get(one, _REST) != groups.get(other, _REST)

    def tell_after_heal(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the partition ends."""
        self._untold.append(tell)

    def swallows(self, sender: PeerId, receiver: PeerId) -> bool:
        """Whether a write is lost; draws from the randomness."""
        loss = self.conditions.loss
        return self.separated(sender, receiver) or (loss > 0 and self._randomness.random() < loss)

    def arrival(self, sender: PeerId, size: int) -> float:
        """When a write of `size` bytes that begins now has arrived, in trio's time.

        Zero if nothing is delayed. Draws from the randomness.
        """
        conditions = self.conditions
        if not conditions.delaying:
            return 0.0
        sent_at = trio.current_time()
        if conditions.bandwidth:
            sent_at = max(sent_at, self._line_free_at.get(sender, 0.0))
            sent_at += size / conditions.bandwidth
            self._line_free_at[sender] = sent_at
        return sent_at + self._delay_s()

    async def dial(self, dialler: PeerId, dialled: PeerId) -> None:
        """Take the time of a handshake, one round trip, or for ever behind a partition."""
        if self.separated(dialler, dialled):
            await trio.sleep_forever()
        await self.thawed(dialler)
        await self.thawed(dialled)
        if self.conditions.delaying:
            await trio.sleep(self._delay_s() + self._delay_s())

    def _delay_s(self) -> float:
        conditions = self.conditions
        if not conditions.jitter_s:
            return conditions.latency_s
        return conditions.latency_s + self._randomness.expovariate(1 / conditions.jitter_s)

    # Peers.

    def freeze(self, peer: PeerId) -> None:
        """Stop what `peer` sends and receives. Without effect if it is frozen."""
        if peer not in self._frozen:
            self._frozen[peer] = trio.Event()

    def thaw(self, peer: PeerId) -> None:
        """Let a frozen peer go on. Without effect if it is not frozen."""
        thawed = self._frozen.pop(peer, None)
        if thawed is not None:
            thawed.set()

    def frozen(self, peer: PeerId) -> bool:
        """Whether `peer` is frozen."""
        return peer in self._frozen

    async def thawed(self, peer: PeerId) -> None:
        """Wait until `peer` is not frozen; at once, without a checkpoint, if it is not now."""
        while (thawed := self._frozen.get(peer)) is not None:
            await thawed.wait()


# Ways to misbehave.


def tarpit(delay_s: float) -> AnswerHook:
    """Answer honestly, `delay_s` too late."""

    async def answer(protocol: str, requester: PeerId, payload: bytes, honest: Handler) -> bytes:
        del protocol
        await trio.sleep(delay_s)
        return await honest(requester, payload)

    return answer


def black_hole() -> AnswerHook:
    """Answer every query with nothing: no documents and nobody to ask."""

    async def answer(protocol: str, requester: PeerId, payload: bytes, honest: Handler) -> bytes:
        if protocol != QUERY:
            return await honest(requester, payload)
        await trio.lowlevel.checkpoint()
        return encode_query_result(QueryResult(documents=(), referrals=()))

    return answer
