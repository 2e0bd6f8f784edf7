"""Any network, with a hook on what its peer answers: for liars and tarpits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import ConnectionEvent, Handler, Network, ProtocolLimits
from zerorag_p2p.testnet.faults import AnswerHook


class HookedNetwork:
    """Implements `node.network.Network` by another one.

    Attributes:
        hook: Answers in the place of the peer while it is set.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self.hook: AnswerHook | None = None

    @property
    def peer_id(self) -> PeerId:
        """See `Network.peer_id`."""
        return self._network.peer_id

    def addresses(self) -> tuple[str, ...]:
        """See `Network.addresses`."""
        return self._network.addresses()

    def running(self) -> AbstractAsyncContextManager[None]:
        """See `Network.running`."""
        return self._network.running()

    def serve(self, protocol: str, handler: Handler, limits: ProtocolLimits) -> None:
        """See `Network.serve`."""

        async def answer(requester: PeerId, payload: bytes) -> bytes:
            if self.hook is None:
                return await handler(requester, payload)
            return await self.hook(protocol, requester, payload, handler)

        self._network.serve(protocol, answer, limits)

    def watch(self, on_event: Callable[[ConnectionEvent], None]) -> None:
        """See `Network.watch`."""
        self._network.watch(on_event)

    async def connect(self, peer: PeerId, addresses: Sequence[str], *, timeout_s: float) -> None:
        """See `Network.connect`."""
        await self._network.connect(peer, addresses, timeout_s=timeout_s)

    async def request(
        self, peer: PeerId, protocol: str, payload: bytes, *, timeout_s: float
    ) -> bytes:
        """See `Network.request`."""
        return await self._network.request(peer, protocol, payload, timeout_s=timeout_s)

    async def disconnect(self, peer: PeerId) -> None:
        """See `Network.disconnect`."""
        await self._network.disconnect(peer)

    def connected(self) -> frozenset[PeerId]:
        """See `Network.connected`."""
        return self._network.connected()
