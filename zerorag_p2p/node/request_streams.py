"""Requests and replies over one byte stream: the asking end and the answering end.

The side that asks opens the stream; it carries frames (protocols/README.md) for as long as both
sides want it. Every request has an id of the asker's choosing, unique among those in flight, and
its reply carries the same id, so that many requests share the stream and replies come in any
order.

Callers only wait; they never write, so cancelling one cannot leave half a frame behind. One task
of the stream writes, one reads, and both end with the stream.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn, Protocol, TypeAlias

import trio

from zerorag_p2p.errors import ConnectionLost, DecodeError, RemoteError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import Handler, ProtocolLimits
from zerorag_p2p.node.turns import Turn
from zerorag_p2p.wire.framing import MAX_REQUEST_ID, FrameReader, encode_frame

_logger = logging.getLogger("zerorag.network")

#: Requests that wait to be written are joined into one write up to about this many bytes.
_JOIN_BYTES: Final = 64 << 10


class ByteStream(Protocol):
    """Ordered bytes both ways, between us and one authenticated peer."""

    async def receive(self) -> bytes:
        """Wait for bytes; none at all means that the peer has finished sending.

        Raises:
            ConnectionLost: The stream or its connection ended.
        """

    async def send(self, data: bytes) -> None:
        """Write all of `data`. A cancelled call leaves the stream unusable.

        Raises:
            ConnectionLost: The stream or its connection ended, or the peer stopped reading.
        """

    async def finish(self) -> None:
        """Say that no more is sent. Never raises; bounded in time."""

    async def abort(self) -> None:
        """Drop the stream both ways. Never raises; bounded in time; may be called twice."""


#: Opens the stream of an asker. Raises `ConnectionLost` or `RemoteError`; bounded in time.
StreamOpener: TypeAlias = Callable[[], Awaitable[ByteStream]]


@dataclass(slots=True)
class _Waiter:
    done: trio.Event = field(default_factory=trio.Event)
    reply: bytes | None = None


class Asker:
    """The asking end. `run` carries it; `ask` may be called by any number of tasks.

    An asker is spent once its stream has ended: `spent` turns true before anything else can
    happen, and whoever finds it so makes a new one.
    """

    def __init__(self, reply_limit: int, *, max_pending: int, idle_s: float) -> None:
        self._reply_limit = reply_limit
        self._idle_s = idle_s
        self._slots = trio.Semaphore(max_pending)
        self._queue, self._queued = trio.open_memory_channel[tuple[int, bytes]](max_pending)
        self._pending: dict[int, _Waiter] = {}
        self._next_id = 0
        self._users = 0
        self._unused = trio.CancelScope(deadline=trio.current_time() + idle_s)
        self._failure: type[ConnectionLost] | type[RemoteError] | None = None
        self._reason = "the stream was idle"

    @property
    def spent(self) -> bool:
        """Whether the stream has ended and this asker answers no one any more."""
        return self._failure is not None or self._unused.cancel_called

    async def ask(self, payload: bytes) -> bytes:
        """Send a request and wait for its reply, however long that takes. Safe to cancel.

        Raises:
            ConnectionLost: The stream ended first.
            RemoteError: The peer does not serve the protocol, or broke the framing.
        """
        self._users += 1
        self._unused.deadline = math.inf
        try:
            async with self._slots:
                return await self._exchange(payload)
        finally:
            self._users -= 1
            if not self._users:
                self._unused.deadline = trio.current_time() + self._idle_s

    async def _exchange(self, payload: bytes) -> bytes:
        if self.spent:
            self._raise_failure()
        request_id = self._take_id()
        waiter = self._pending[request_id] = _Waiter()
        try:
            await self._queue.send((request_id, payload))
            await waiter.done.wait()
        except trio.BrokenResourceError:  # the stream ended while the queue was full
            self._raise_failure()
        finally:
            del self._pending[request_id]
        if waiter.reply is None:
            self._raise_failure()
        return waiter.reply

    def _take_id(self) -> int:
        while self._next_id in self._pending:
            self._next_id = (self._next_id + 1) & MAX_REQUEST_ID
        taken = self._next_id
        self._next_id = (taken + 1) & MAX_REQUEST_ID
        return taken

    def _fail(self, failure: type[ConnectionLost] | type[RemoteError], reason: str) -> None:
        """Wake everyone who waits, with an error. The first failure counts."""
        if self._failure is None:
            self._failure, self._reason = failure, reason
        for waiter in self._pending.values():
            waiter.done.set()

    def _raise_failure(self) -> NoReturn:
        raise (self._failure or ConnectionLost)(self._reason)

    async def run(self, open_stream: StreamOpener) -> None:
        """Open the stream and carry it until it ends or nobody has asked for `idle_s`."""
        try:
            stream = await open_stream()
            try:
                with self._unused:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._write, stream, nursery.cancel_scope)
                        await self._read(stream)
                        nursery.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await stream.abort()
        except (ConnectionLost, RemoteError) as error:
            self._fail(type(error), str(error))
        finally:
            self._fail(ConnectionLost, "the connection ended before the reply came")
            self._queued.close()

    # Messages live in `_write_some` and `_read_some` only: a task that waits, perhaps for hours,
    # holds on to none.

    async def _write(self, stream: ByteStream, scope: trio.CancelScope) -> None:
        try:
            while True:
                await self._write_some(stream)
        except trio.EndOfChannel:
            return
        except ConnectionLost as error:
            self._fail(ConnectionLost, str(error))
            scope.cancel()

    async def _write_some(self, stream: ByteStream) -> None:
        batch = [await self._queued.receive()]
        size = len(batch[0][1])
        while size < _JOIN_BYTES:
            try:
                batch.append(self._queued.receive_nowait())
            except trio.WouldBlock:
                break
            size += len(batch[-1][1])
        # Whoever gave up while the request was in the queue needs no reply.
        wanted = [encode_frame(*item) for item in batch if item[0] in self._pending]
        await stream.send(b"".join(wanted))

    async def _read(self, stream: ByteStream) -> None:
        reader = FrameReader(self._reply_limit)
        try:
            while await self._read_some(stream, reader):
                pass
        except DecodeError as error:
            self._fail(RemoteError, str(error))
        except ConnectionLost as error:
            self._fail(ConnectionLost, str(error))
        else:
            self._fail(ConnectionLost, "the peer ended the stream before the reply came")

    async def _read_some(self, stream: ByteStream, reader: FrameReader) -> bool:
        data = await stream.receive()
        reader.feed(data)
        for request_id, payload in reader.frames():
            waiter = self._pending.get(request_id)
            if waiter is not None:  # otherwise its asker gave up
                waiter.reply = payload
                waiter.done.set()
        return bool(data)


class Answerer:
    """The answering end: hands every request to a handler and sends back what it returns.

    Args:
        slots: One for every request that may be served at a time; streams may share them.
        turn: Shared by all streams of the peer, so that a flood of its requests costs others one
            handler at a time.
    """

    def __init__(
        self,
        stream: ByteStream,
        peer: PeerId,
        handler: Handler,
        limits: ProtocolLimits,
        *,
        slots: trio.Semaphore,
        turn: Turn,
    ) -> None:
        self._stream = stream
        self._peer = peer
        self._handler = handler
        self._limits = limits
        self._slots = slots
        self._turn = turn
        self._writing = trio.Lock()

    async def run(self) -> DecodeError | None:
        """Answer until the stream ends, then leave it finished or aborted.

        While no slot is free nothing is read: the rest waits in the peer's socket.

        Returns:
            How the peer broke the framing, if it did.
        """
        violation: DecodeError | None = None
        try:
            async with trio.open_nursery() as nursery:
                try:
                    await self._read(nursery)
                except DecodeError as error:
                    violation = error
                    nursery.cancel_scope.cancel()
                except ConnectionLost:
                    nursery.cancel_scope.cancel()
            if not nursery.cancel_scope.cancel_called:
                await self._stream.finish()
        finally:
            with trio.CancelScope(shield=True):
                await self._stream.abort()
        return violation

    async def _read(self, nursery: trio.Nursery) -> None:
        reader = FrameReader(self._limits.request_bytes)
        while await self._read_some(reader, nursery):
            pass

    async def _read_some(self, reader: FrameReader, nursery: trio.Nursery) -> bool:
        data = await self._stream.receive()
        reader.feed(data)
        for request_id, payload in reader.frames():
            await self._slots.acquire()
            nursery.start_soon(self._answer, request_id, payload, nursery.cancel_scope)
        return bool(data)

    async def _answer(self, request_id: int, payload: bytes, scope: trio.CancelScope) -> None:
        try:
            await self._turn.take()
            reply = await self._call_handler(payload)
            if reply is None:
                scope.cancel()
                return
            async with self._writing:
                await self._stream.send(encode_frame(request_id, reply))
        except ConnectionLost:
            scope.cancel()
        finally:
            self._slots.release()

    async def _call_handler(self, payload: bytes) -> bytes | None:
        """The handler's reply, or nothing (and a line in the log) if there is none to send."""
        try:
            reply = await self._handler(self._peer, payload)
        except Exception as error:  # the documented boundary: a handler may raise anything
            # Neither the message nor the traceback is logged: they may quote a document.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            problem = f"raised {type(error).__name__} at {frame.filename}:{frame.lineno}"
        else:
            if len(reply) <= self._limits.reply_bytes:
                return reply
            limit = self._limits.reply_bytes
            problem = f"replied with {len(reply)} bytes, the limit of the protocol is {limit}"
        _logger.error("a handler %s; the stream of %s was dropped", problem, self._peer)
        return None
