"""The seam between a node and whatever carries its messages.

Implemented by `node.libp2p_network` (real sockets) and `testnet.memory_network` (one process). One
conformance suite (`testnet.conformance`) runs against both.

A network authenticates peers and moves opaque payloads. It knows nothing of rosters beyond the
`Gate` it is given, and nothing of what a payload means.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from zerorag_p2p.model import PeerId


@dataclass(frozen=True, slots=True)
class ProtocolLimits:
    """Bytes of the longest payload that a protocol allows in each direction."""

    request_bytes: int
    reply_bytes: int


#: Answers one request of an authenticated peer. The payload is at most `request_bytes` long.
Handler: TypeAlias = Callable[[PeerId, bytes], Awaitable[bytes]]

#: Whether a peer, by its authenticated id, may hold a connection. Pure, fast, never raises.
Gate: TypeAlias = Callable[[PeerId], bool]


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A connection to `peer` came up, or the last one ended."""

    peer: PeerId
    connected: bool


class Network(Protocol):
    """Authenticated request and reply between peers.

    Every wait ends by its deadline. Cancelling a caller never harms a connection: only the
    caller's own wait ends. A reply that comes after its deadline is dropped. A connection serves
    requests both ways, whoever opened it.
    """

    @property
    def peer_id(self) -> PeerId:
        """Our own id."""

    def addresses(self) -> tuple[str, ...]:
        """Multiaddrs we can be dialled at, without the /p2p part, the port filled in.

        A wildcard such as 0.0.0.0 is replaced by the addresses it stands for.
        """

    def running(self) -> AbstractAsyncContextManager[None]:
        """Listen, dial and answer for as long as the context lasts; it can be entered once.

        Raises:
            NetworkError: An address to listen on is malformed, taken or not ours.
        """

    def serve(self, protocol: str, handler: Handler, limits: ProtocolLimits) -> None:
        """Answer requests for `protocol` with `handler`; call before the network starts.

        Requests of one stream run concurrently, up to a bound. A handler that raises costs that
        request its stream, nothing more. A handler is cancelled when its connection ends.
        """

    def watch(self, on_event: Callable[[ConnectionEvent], None]) -> None:
        """Call `on_event`, which must not block, at every change of `connected()`."""

    async def connect(self, peer: PeerId, addresses: Sequence[str], *, timeout_s: float) -> None:
        """Have a connection to `peer`, dialling `addresses` if there is none.

        Callers that want the same peer at the same time share one dial.

        Raises:
            PeerUnreachable: No address answered as `peer` before the deadline, the gate refuses
                `peer`, it is this node itself, or there are too many connections.
        """

    async def request(
        self, peer: PeerId, protocol: str, payload: bytes, *, timeout_s: float
    ) -> bytes:
        """Send a request over an existing connection and wait for its reply.

        The limits are those given to `serve`: we ask only for protocols that we serve ourselves.

        Raises:
            RequestTimeout: No reply before the deadline.
            ConnectionLost: There is no connection, or it ended first.
            RemoteError: The peer does not serve `protocol`, broke the framing or exceeded a limit.
            UsageError: We do not serve `protocol`, or `payload` exceeds its limit.
        """

    async def disconnect(self, peer: PeerId) -> None:
        """Drop every connection to `peer`, and any dial to it, within the close deadline.

        It works on a peer that no longer reads. Handlers that serve `peer` are cancelled, the
        caller included if it is one.
        """

    def connected(self) -> frozenset[PeerId]:
        """Peers that we hold a connection to."""
