"""The network within one process: no sockets, no threads, no cryptography.

Everything above a link is the code that the real network runs, frames included. Time is trio's,
so that a virtual clock drives it. Peers are who they say they are. What goes wrong on the way is
up to the hub's `Faults`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, TypeAlias

import trio

from zerorag_p2p.config import NetworkConfig
from zerorag_p2p.errors import ConnectionLost, NetworkError, RemoteError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.link_network import Link, LinkNetwork, StreamServer
from zerorag_p2p.node.network import Gate
from zerorag_p2p.node.request_streams import ByteStream
from zerorag_p2p.testnet.faults import Faults

#: Bytes in flight each way on a stream: a piece for the reader and pieces that wait.
_PIECE_BYTES: Final = 64 << 10
_PIECES: Final = 4

#: Connections and streams that wait to be accepted.
_BACKLOG: Final = 64


#: Between two writes to one connection, so that the first is taken in before the second arrives.
_APART_S: Final = 1e-6

#: Bytes on their way, with the moment they arrive in trio's time; zero is at once.
_Piece: TypeAlias = tuple[float, bytes]


class MemoryHub:
    """What connects the memory networks of one process: addresses, and who is behind them.

    Attributes:
        faults: What goes wrong between them.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self._networks: dict[str, MemoryNetwork] = {}
        self._numbers = itertools.count(1)
        self._silent: set[str] = set()

    def claim(self, network: MemoryNetwork, wanted: str | None) -> str:
        """Give a network the address it wants, or else the next "/memory/<n>".

        Raises:
            NetworkError: Another network has the address.
        """
        address = wanted or f"/memory/{next(self._numbers)}"
        if address in self._networks:
            raise NetworkError(f"{address} is taken")
        self._networks[address] = network
        return address

    def release(self, address: str) -> None:
        """Forget an address; dialling it fails from now on."""
        self._networks.pop(address, None)

    def silence(self, address: str) -> None:
        """Let dials to `address` wait for ever, as at a frozen process or a tarpit."""
        self._silent.add(address)

    async def find(self, address: str) -> MemoryNetwork:
        """Look up who listens at `address`.

        Raises:
            NetworkError: Nobody does.
        """
        await trio.lowlevel.checkpoint()
        if address in self._silent:
            await trio.sleep_forever()
        if address not in self._networks:
            raise NetworkError("nobody listens there")
        return self._networks[address]


class MemoryNetwork(LinkNetwork):
    """Implements `node.network.Network` within one process."""

    def __init__(
        self,
        hub: MemoryHub,
        peer_id: PeerId,
        *,
        gate: Gate,
        settings: NetworkConfig,
        address: str | None = None,
    ) -> None:
        """Prepare a network; nothing happens before `running`.

        Args:
            hub: What the networks that can reach each other have in common.
            peer_id: Our own id.
            gate: Which peers may hold a connection.
            settings: Deadlines and bounds; its addresses do not count here.
            address: Where to listen; by default the hub chooses.
        """
        super().__init__(peer_id, gate, settings)
        self._hub = hub
        self._wanted = address
        self._addresses: tuple[str, ...] = ()
        self._dialled, self._accepted = trio.open_memory_channel[_MemoryLink](_BACKLOG)

    def addresses(self) -> tuple[str, ...]:
        """See `Network.addresses`."""
        return self._addresses

    async def _listen(self) -> None:
        self._addresses = (self._hub.claim(self, self._wanted),)

    async def _accept(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                async for link in self._accepted:
                    nursery.start_soon(self._carry, link)
        finally:
            self._hub.release(self._addresses[0])
            self._accepted.close()

    async def _dial(self, peer: PeerId, address: str) -> Link:
        network = await self._hub.find(address)
        if network.peer_id != peer:
            raise NetworkError(f"the peer there is {network.peer_id}")
        await self._hub.faults.dial(self.peer_id, peer)
        if reason := network._refusal(self.peer_id):
            raise NetworkError(f"the peer refused: {reason}")
        faults = self._hub.faults
        ours = _MemoryLink(peer, network.protocols, faults, dialled=True)
        theirs = _MemoryLink(self.peer_id, self.protocols, faults, dialled=False)
        ours.other, theirs.other = theirs, ours
        try:
            network._dialled.send_nowait(theirs)
        except (trio.WouldBlock, trio.BrokenResourceError):
            raise NetworkError("the peer accepts no connection") from None
        return ours


class _MemoryLink(Link):
    """One end of a connection. A stream opened at one end is served at the other."""

    other: _MemoryLink

    def __init__(
        self, peer: PeerId, served: tuple[str, ...], faults: Faults, *, dialled: bool
    ) -> None:
        super().__init__(peer, dialled=dialled)
        self._served = served
        self._faults = faults
        self._opened, self._incoming = trio.open_memory_channel[tuple[str, ByteStream]](_BACKLOG)
        self._streams: dict[_MemoryStream, None] = {}
        self._latest_arrival = 0.0

    async def run(self, serve: StreamServer) -> None:
        async with trio.open_nursery() as nursery:
            async for protocol, stream in self._incoming:
                nursery.start_soon(serve, protocol, stream)
            nursery.cancel_scope.cancel()

    async def open_stream(self, protocol: str) -> ByteStream:
        await trio.lowlevel.checkpoint()
        if protocol not in self._served:
            raise RemoteError(f"{self.peer} does not serve {protocol}")
        there, at_there = trio.open_memory_channel[_Piece](_PIECES)
        back, at_back = trio.open_memory_channel[_Piece](_PIECES)
        ours = _MemoryStream(self, there, at_back)
        theirs = _MemoryStream(self.other, back, at_there)
        try:
            self.other._opened.send_nowait((protocol, theirs))
        except trio.WouldBlock:
            raise ConnectionLost(f"{self.peer} does not accept a stream") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionLost(f"the connection to {self.peer} ended") from None
        return ours

    def abort(self) -> None:
        if self.separated:
            self._faults.tell_after_heal(self.abort)
            return
        for end in (self, self.other):
            end._opened.close()
            for stream in list(end._streams):
                stream.cut()

    @property
    def separated(self) -> bool:
        """Whether the other end learns nothing now of what happens at this one."""
        return self._faults.separated(self.other.peer, self.peer)

    async def before_sending(self, size: int) -> float | None:
        """Wait while we are frozen; when `size` bytes arrive, or None if they are lost."""
        await self._faults.thawed(self.other.peer)
        if self._faults.swallows(self.other.peer, self.peer):
            return None
        arrival = self._faults.arrival(self.other.peer, size)
        if arrival:
            # What goes over one connection arrives in order, whatever its stream.
            arrival = max(arrival, self._latest_arrival + _APART_S)
            self._latest_arrival = arrival
        return arrival

    async def before_receiving(self, arrival: float) -> None:
        """Wait until what arrives at `arrival` is here and we are not frozen."""
        if arrival > trio.current_time():
            await trio.sleep_until(arrival)
        await self._faults.thawed(self.other.peer)

    def tell_after_heal(self, tell: Callable[[], None]) -> None:
        """Let the other end know once the partition is over."""
        self._faults.tell_after_heal(tell)


class _MemoryStream:
    """One end of a stream: pieces of bytes through two channels."""

    def __init__(
        self,
        link: _MemoryLink,
        outgoing: trio.MemorySendChannel[_Piece],
        incoming: trio.MemoryReceiveChannel[_Piece],
    ) -> None:
        self._link = link
        self._outgoing = outgoing
        self._incoming = incoming
        link._streams[self] = None

    async def receive(self) -> bytes:
        try:
            arrival, data = await self._incoming.receive()
        except trio.EndOfChannel:
            return b""
        except trio.ClosedResourceError:
            raise ConnectionLost("the stream was dropped") from None
        await self._link.before_receiving(arrival)
        return data

    async def send(self, data: bytes) -> None:
        arrival = await self._link.before_sending(len(data))
        if arrival is None:
            await trio.lowlevel.checkpoint()
            return
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                await self._outgoing.send((arrival, data[start : start + _PIECE_BYTES]))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionLost("the stream was dropped") from None

    async def finish(self) -> None:
        if self._link.separated:
            self._link.tell_after_heal(self._outgoing.close)
        else:
            self._outgoing.close()

    async def abort(self) -> None:
        self.cut()

    def cut(self) -> None:
        """Drop the stream both ways."""
        if self._link.separated:
            self._link.tell_after_heal(self.cut)
            return
        self._outgoing.close()
        self._incoming.close()
        self._link._streams.pop(self, None)
