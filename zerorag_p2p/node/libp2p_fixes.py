"""What py-libp2p 0.8.1 does wrong, put right: one class or function for each bug.

We use the parts of py-libp2p that speak the protocols (multistream-select, Noise, Yamux) and leave
out its host and swarm (docs/decisions/libp2p-without-swarm.md). What is left to put right is here,
and everything that touches a private name is here. The version is pinned exactly; for each fix
tests/libp2p/test_fixes.py shows that the pinned version still has the bug, and fails once it has
not: then the fix can go.
"""

from __future__ import annotations

import logging
import os
from typing import Final

import libp2p.stream_muxer.yamux.yamux as yamux_module
import trio
from libp2p.abc import IMuxedStream, IRawConnection, ISecureConn
from libp2p.connection_types import ConnectionType
from libp2p.io.exceptions import ConnectionClosedError
from libp2p.peer.id import ID
from libp2p.protocol_muxer.exceptions import MultiselectCommunicatorError
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator
from libp2p.stream_muxer.yamux.yamux import Yamux, YamuxStream
from multiaddr import Multiaddr

from zerorag_p2p.config import (
    CONNECTION_BUFFER_BYTES,
    IDLE_PING_S,
    STREAM_WINDOW_BYTES,
    WRITE_TIMEOUT_S,
)

#: Bytes asked of the kernel at once.
_READ_BYTES: Final = 64 << 10


def was_reset(stream: IMuxedStream) -> bool:
    """Whether a stream that seems to be at its end was reset, or its connection lost.

    Stock Yamux forgets a stream when it is reset, and whoever reads it afterwards is told that the
    peer finished sending.
    """
    assert isinstance(stream, YamuxStream)
    return stream.reset_received


def silence_logging() -> None:
    """Keep py-libp2p's log lines off stderr, where a peer could write as much as it likes.

    Importing it sets its logger to WARNING without a handler or a parent, so that Python's last
    resort prints every warning. Whoever sets LIBP2P_DEBUG wants them.
    """
    if not os.environ.get("LIBP2P_DEBUG"):
        logging.getLogger("libp2p").setLevel(logging.CRITICAL)


def slow_down_pings() -> None:
    """Measure the round trip rarely; every 30 s kept half a core busy at 500 connections."""
    yamux_module.RTT_MEASURE_INTERVAL = int(IDLE_PING_S)


def bound_windows() -> None:
    """Stop a stream's receive window from growing to 16 MB."""
    yamux_module.MAX_WINDOW_SIZE = STREAM_WINDOW_BYTES


def batch_window_updates() -> None:
    """Grant window in halves instead of after every read, which costs a frame and a wake-up.

    `PY_YAMUX_RELEASE_ON_READ=0` is meant to do so, but as long as less than half of the window is
    used another branch goes on sending updates all the same.
    """
    # Yamux makes its streams itself, so there is no place for a subclass.
    YamuxStream._auto_tune_and_send_window_update = (  # type: ignore[method-assign]
        _grant_window_in_halves  # type: ignore[assignment]
    )


async def _grant_window_in_halves(stream: YamuxStream, *, bytes_read: int = 0) -> None:
    async with stream.window_lock:
        stream._pending_recv_release += bytes_read
        grant = stream._pending_recv_release
        if grant < stream._grow_threshold():
            return
        stream._pending_recv_release = 0
        stream.recv_window += grant
        buffered = len(stream.conn.stream_buffers.get(stream.stream_id, b""))
        grant += stream._apply_autotune_epoch(buffered)
    await stream.send_window_update(grant, skip_lock=True)


class SocketConnection(IRawConnection):
    """A TCP connection that reads exactly what is asked for and can be aborted.

    In place of `TrioTCPStream`, which makes two reads of the kernel a message, drops silently what
    is written to a closed socket, and whose callers give up on a message that arrives in more than
    101 pieces.
    """

    def __init__(self, stream: trio.SocketStream, *, is_initiator: bool) -> None:
        self.is_initiator = is_initiator
        self._stream = stream
        self._buffer = bytearray()

    async def read(self, n: int | None = None) -> bytes:
        """Read exactly `n` bytes, or whatever comes next.

        Raises:
            ConnectionClosedError: The connection ended before they came.
        """
        wanted = 1 if n is None else n
        while len(self._buffer) < wanted:
            try:
                data = await self._stream.receive_some(_READ_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ConnectionClosedError(f"the connection broke: {error}") from None
            if not data:
                raise ConnectionClosedError("the peer closed the connection")
            self._buffer += data
        taken = bytes(self._buffer[:n])
        del self._buffer[:n]
        return taken

    async def write(self, data: bytes) -> None:
        """Write all of `data`.

        Raises:
            ConnectionClosedError: The connection ended.
        """
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosedError(f"the connection broke: {error}") from None

    async def close(self) -> None:
        """See `abort`; closing a socket needs no waiting."""
        self.abort()

    def abort(self) -> None:
        """Close the socket now. Whoever reads or writes wakes up. May be called twice."""
        self._stream.socket.close()

    def get_remote_address(self) -> tuple[str, int] | None:
        """The address at the other end; nothing once the connection has ended."""
        try:
            host, port, *_ = self._stream.socket.getpeername()
        except OSError:
            return None
        return host, port

    def get_transport_addresses(self) -> list[Multiaddr]:
        """None: nothing of what we use asks for them."""
        return []

    def get_connection_type(self) -> ConnectionType:
        """Direct."""
        return ConnectionType.DIRECT


class StrictCommunicator(MultiselectCommunicator):
    """Protocol negotiation in which text that is not UTF-8 is an error of the peer.

    In the stock class it is a `UnicodeDecodeError` that no caller expects, and that brings the
    whole host down.

    Attributes:
        heard: The last line that the peer sent, for the log.
    """

    heard = ""

    async def read(self) -> str:
        """Read a line.

        Raises:
            MultiselectCommunicatorError: The peer sent something else, or the connection ended.
        """
        try:
            self.heard = await super().read()
        except UnicodeDecodeError:
            raise MultiselectCommunicatorError("a protocol id is not UTF-8") from None
        return self.heard


class SafeYamux(Yamux):
    """Yamux whose connection survives a cancelled task and whose memory a peer cannot fill."""

    def __init__(
        self, secured: ISecureConn, peer: ID, socket: SocketConnection, *, is_initiator: bool
    ) -> None:
        super().__init__(secured, peer, is_initiator=is_initiator)
        self._socket = socket

    def abort(self) -> None:
        """End the connection without a word; `start` then returns."""
        self._socket.abort()

    async def open_stream(self) -> YamuxStream:
        """Open a stream whole, or not at all.

        Stock Yamux keeps what it took for a stream whose opening was cancelled. The time is
        bounded by that of a write.
        """
        with trio.CancelScope(shield=True):
            return await super().open_stream()

    async def _write_frame(self, data: bytes) -> None:
        """Write a frame whole, or end the connection.

        Noise counts a message before it is written: a task cancelled in between leaves both sides
        with different counts, and the connection dead. And nothing bounded the time a peer may
        take to read it.
        """
        async with self._write_lock:
            with trio.CancelScope(shield=True) as scope:
                scope.deadline = trio.current_time() + WRITE_TIMEOUT_S
                await self.secured_conn.write(data)
        if scope.cancelled_caught:
            self.abort()
            raise ConnectionClosedError("the peer does not read")

    async def _read_data_body(self, length: int) -> bytes:
        """Read the data of a frame, unless the peer sends more than it was allowed to.

        Stock Yamux only warns about it, and keeps the data.
        """
        held = sum(map(len, self.stream_buffers.values()))
        if held + length > CONNECTION_BUFFER_BYTES:
            self.event_shutting_down.set()
            self.abort()
            raise ConnectionClosedError(f"the peer sent {length} bytes more than it may")
        return await super()._read_data_body(length)

    async def forget(self, stream: IMuxedStream) -> None:
        """Drop what is left of a stream that we are done with.

        Data that was never read stays for a minute or more otherwise.
        """
        assert isinstance(stream, YamuxStream)
        async with self.streams_lock:
            self.streams.pop(stream.stream_id, None)
            self.stream_buffers.pop(stream.stream_id, None)
            self.stream_events.pop(stream.stream_id, None)


def apply() -> None:
    """Apply the fixes that are settings of py-libp2p's modules. May be called again."""
    silence_logging()
    slow_down_pings()
    bound_windows()
    batch_window_updates()
