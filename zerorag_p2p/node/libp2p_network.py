"""The network over libp2p: TCP, Noise and nothing else, Yamux.

Of py-libp2p we use what speaks these protocols, on sockets and in tasks of our own: its host and
swarm are left out (docs/decisions/libp2p-without-swarm.md). On the wire there is no difference.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from collections.abc import Sequence
from typing import Final

import trio
from libp2p.abc import IMuxedStream
from libp2p.crypto.ed25519 import Ed25519PrivateKey
from libp2p.crypto.keys import KeyPair
from libp2p.crypto.x25519 import create_new_key_pair as new_x25519_key_pair
from libp2p.custom_types import TProtocol
from libp2p.exceptions import BaseLibp2pError
from libp2p.io.abc import ReadWriteCloser
from libp2p.peer.id import ID
from libp2p.protocol_muxer.multiselect import (
    MULTISELECT_PROTOCOL_ID,
    PROTOCOL_NOT_FOUND_MSG,
    Multiselect,
)
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as NoiseTransport
from libp2p.stream_muxer.exceptions import MuxedConnUnavailable, MuxedStreamEOF
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX
from libp2p.utils import encode_delim

from zerorag_p2p.config import (
    KEEPALIVE_IDLE_S,
    KEEPALIVE_INTERVAL_S,
    KEEPALIVE_PROBES,
    MAX_HANDSHAKES,
    MAX_UNNEGOTIATED_STREAMS,
    NetworkConfig,
)
from zerorag_p2p.errors import ConnectionLost, NetworkError, RemoteError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node import libp2p_fixes
from zerorag_p2p.node.libp2p_fixes import SafeYamux, SocketConnection, StrictCommunicator
from zerorag_p2p.node.link_network import Link, LinkNetwork, StreamServer
from zerorag_p2p.node.network import Gate
from zerorag_p2p.node.request_streams import ByteStream
from zerorag_p2p.node.tcp_address import TcpAddress

_logger = logging.getLogger("zerorag.network")

_READ_BYTES: Final = 256 << 10

#: A Yamux frame of this much data fits one Noise message; py-libp2p would use two for its own
#: default, the second of 17 bytes.
_PIECE_BYTES: Final = 65_535 - 16 - 12

#: py-libp2p wants a deadline for every negotiation; ours come first.
_LIBRARY_TIMEOUT_S: Final = 3_600


class Libp2pNetwork(LinkNetwork):
    """Implements `node.network.Network` over libp2p."""

    def __init__(
        self, seed: bytes, listen: Sequence[str], *, gate: Gate, settings: NetworkConfig
    ) -> None:
        """Prepare a network; nothing happens before `running`.

        Args:
            seed: The Ed25519 private key, 32 bytes.
            listen: Multiaddrs such as "/ip4/0.0.0.0/tcp/4001"; none for a node that only dials.
            gate: Which peers may hold a connection.
            settings: Deadlines and bounds.
        """
        libp2p_fixes.apply()
        private = Ed25519PrivateKey.from_bytes(seed)
        keys = KeyPair(private, private.get_public_key())
        super().__init__(PeerId(ID.from_pubkey(keys.public_key).to_base58()), gate, settings)
        self._listen_on = tuple(listen)
        self._noise = NoiseTransport(keys, new_x25519_key_pair().private_key)
        self._listeners: list[trio.SocketListener] = []
        self._addresses: tuple[str, ...] = ()
        self._handshakes: dict[SocketConnection, trio.CancelScope] = {}  # the oldest first

    def addresses(self) -> tuple[str, ...]:
        """See `Network.addresses`."""
        return self._addresses

    # Listening.

    async def _listen(self) -> None:
        try:
            for text in self._listen_on:
                self._listeners += await _open_listeners(text)
        except BaseException:
            self._close_listeners()
            raise
        found = [address for listener in self._listeners for address in _dialable(listener)]
        self._addresses = tuple(dict.fromkeys(found))

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.socket.close()
        self._listeners.clear()

    async def _accept(self) -> None:
        try:
            if self._listeners:
                await trio.serve_listeners(self._welcome, self._listeners)
        finally:
            self._close_listeners()

    async def _welcome(self, stream: trio.SocketStream) -> None:
        """Carry a connection that somebody opened, if it is who may open one."""
        connection = _connection(stream, is_initiator=False)
        try:
            link = await self._greet(connection)
            if link is not None:
                await self._carry(link)
        finally:
            connection.abort()

    async def _greet(self, connection: SocketConnection) -> Link | None:
        """Shake hands with somebody who dialled us; nothing comes of whom we refuse."""
        address = connection.get_remote_address()
        host = address[0] if address else "an unknown address"
        if len(self._handshakes) >= MAX_HANDSHAKES:
            # An honest handshake takes milliseconds: the oldest is the least likely to be one.
            self._handshakes.pop(next(iter(self._handshakes))).cancel()
        link: Link | None = None
        try:
            with trio.move_on_after(self._settings.dial_timeout_s) as scope:
                self._handshakes[connection] = scope
                link = await self._secure_inbound(connection)
        except NetworkError as error:
            self._warn((host, "handshake"), "refused a connection from %s: %s", host, error)
        finally:
            self._handshakes.pop(connection, None)
        if scope.cancelled_caught:
            self._warn((host, "slow"), "refused a connection from %s: no handshake in time", host)
        return link

    async def _secure_inbound(self, connection: SocketConnection) -> Link | None:
        try:
            await _respond(connection, Multiselect({NOISE: None}))
            secured = await self._noise.secure_inbound(connection)
            remote = secured.get_remote_peer()
            peer = PeerId(remote.to_base58())
            if reason := self._refusal(peer):
                self._warn((peer, "refused"), "refused a connection of %s: %s", peer, reason)
                return None
            await _respond(secured, Multiselect({TProtocol(YAMUX): None}))
        except NetworkError:
            raise
        except Exception as error:
            # The documented boundary: a stranger's bytes pass through multistream-select, Noise,
            # protobuf and cryptography here, and each raises what it likes.
            raise NetworkError(f"the handshake failed: {_describe(error)}") from error
        muxer = SafeYamux(secured, remote, connection, is_initiator=False)
        return self._link(peer, muxer, dialled=False)

    def _link(self, peer: PeerId, muxer: SafeYamux, *, dialled: bool) -> Link:
        served = Multiselect({TProtocol(protocol): None for protocol in self.protocols})
        return _Libp2pLink(
            peer, muxer, served, dialled=dialled, timeout_s=self._settings.dial_timeout_s
        )

    # Dialling.

    async def _dial(self, peer: PeerId, address: str) -> Link:
        target = TcpAddress.parse(address)
        if target.peer is not None and target.peer != peer:
            raise NetworkError(f"the address is that of {target.peer}")
        if target.is_wildcard:
            raise NetworkError("it stands for every address of a machine and cannot be dialled")
        try:
            expected = ID.from_base58(peer)
        except ValueError:
            raise NetworkError(f"{peer!r} is not a peer id") from None
        try:
            stream = await trio.open_tcp_stream(target.host, target.port)
        except OSError as error:
            raise NetworkError(_describe(error.__cause__ or error)) from error
        connection = _connection(stream, is_initiator=True)
        try:
            await _propose(connection, NOISE)
            secured = await self._noise.secure_outbound(connection, expected)
            await _propose(secured, TProtocol(YAMUX))
        except Exception as error:
            # The documented boundary, as for an inbound handshake.
            connection.abort()
            raise NetworkError(f"the handshake failed: {_describe(error)}") from error
        except BaseException:
            connection.abort()
            raise
        muxer = SafeYamux(secured, expected, connection, is_initiator=True)
        return self._link(peer, muxer, dialled=True)


class _Libp2pLink(Link):
    def __init__(
        self,
        peer: PeerId,
        muxer: SafeYamux,
        served: Multiselect,
        *,
        dialled: bool,
        timeout_s: float,
    ) -> None:
        super().__init__(peer, dialled=dialled)
        self._muxer = muxer
        self._served = served
        self._timeout_s = timeout_s
        self._unnegotiated = 0

    async def run(self, serve: StreamServer) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_muxer, nursery.cancel_scope)
            while True:
                try:
                    stream = await self._muxer.accept_stream()
                except MuxedConnUnavailable:
                    break
                if self._unnegotiated < MAX_UNNEGOTIATED_STREAMS:
                    nursery.start_soon(self._welcome, stream, serve)
                else:
                    await _Libp2pStream(stream, self._muxer).abort()
            nursery.cancel_scope.cancel()

    async def _run_muxer(self, scope: trio.CancelScope) -> None:
        try:
            await self._muxer.start()
        except Exception:  # the documented boundary: a failure of the library ends one link
            _logger.exception("the connection of %s failed", self.peer)
        finally:
            scope.cancel()

    async def _welcome(self, yamux_stream: IMuxedStream, serve: StreamServer) -> None:
        stream = _Libp2pStream(yamux_stream, self._muxer)
        self._unnegotiated += 1
        try:
            with trio.fail_after(self._timeout_s):
                protocol = await _respond(yamux_stream, self._served)
        except (NetworkError, BaseLibp2pError, trio.TooSlowError) as error:
            _logger.debug("%s opened a stream in vain: %s", self.peer, _describe(error))
            await stream.abort()
            return
        finally:
            self._unnegotiated -= 1
        await serve(protocol, stream)

    async def open_stream(self, protocol: str) -> ByteStream:
        try:
            with trio.fail_after(self._timeout_s):
                await self._muxer.event_started.wait()
                opened = await self._muxer.open_stream()
                stream = _Libp2pStream(opened, self._muxer)
                try:
                    await _propose(opened, TProtocol(protocol))
                except BaseException:
                    with trio.CancelScope(shield=True):
                        await stream.abort()
                    raise
                return stream
        except trio.TooSlowError:
            raise ConnectionLost(f"{self.peer} did not accept a stream in time") from None
        except (NetworkError, BaseLibp2pError) as error:
            raise ConnectionLost(f"the connection to {self.peer} ended") from error

    def abort(self) -> None:
        self._muxer.abort()


class _Libp2pStream:
    """A Yamux stream as `ByteStream`."""

    def __init__(self, stream: IMuxedStream, muxer: SafeYamux) -> None:
        self._stream = stream
        self._muxer = muxer

    async def receive(self) -> bytes:
        try:
            return await self._stream.read(_READ_BYTES)
        except MuxedStreamEOF:
            if libp2p_fixes.was_reset(self._stream):
                raise ConnectionLost("the peer dropped the stream") from None
            return b""
        except BaseLibp2pError as error:
            raise ConnectionLost("the peer dropped the stream") from error

    async def send(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                await self._stream.write(data[start : start + _PIECE_BYTES])
        except BaseLibp2pError as error:
            raise ConnectionLost(f"the peer takes no more data: {_describe(error)}") from error

    async def finish(self) -> None:
        with contextlib.suppress(BaseLibp2pError):
            await self._stream.close()

    async def abort(self) -> None:
        with contextlib.suppress(BaseLibp2pError):
            await self._stream.reset()
        await self._muxer.forget(self._stream)


# Negotiation (multistream-select).


async def _respond(connection: ReadWriteCloser, served: Multiselect) -> str:
    """Let the other side choose one of the protocols we serve. Has no deadline of its own."""
    communicator = StrictCommunicator(connection)
    try:
        protocol, _ = await served.negotiate(communicator, _LIBRARY_TIMEOUT_S)
    except BaseLibp2pError:
        heard = communicator.heard[:64]
        wanted = ", ".join(str(item) for item in served.get_protocols())
        raise NetworkError(f"it did not agree on {wanted}; it last proposed {heard!r}") from None
    return str(protocol)


async def _propose(connection: ReadWriteCloser, protocol: TProtocol) -> None:
    """Agree with the other side on `protocol`, in one round trip.

    Raises:
        RemoteError: The other side does not serve it.
        NetworkError: The other side does not speak multistream-select, or is gone.
    """
    communicator = StrictCommunicator(connection)
    proposal = [MULTISELECT_PROTOCOL_ID, protocol]
    try:
        await connection.write(b"".join(encode_delim(line.encode()) for line in proposal))
        answer = [await communicator.read(), await communicator.read()]
    except BaseLibp2pError:
        raise NetworkError(f"it closed the connection instead of agreeing on {protocol}") from None
    if answer == [MULTISELECT_PROTOCOL_ID, PROTOCOL_NOT_FOUND_MSG]:
        raise RemoteError(f"the peer does not serve {protocol}")
    if answer != proposal:
        raise NetworkError(f"it answered {answer[-1][:64]!r} to {protocol}")


# Sockets.


def _connection(stream: trio.SocketStream, *, is_initiator: bool) -> SocketConnection:
    """Wrap a socket, and have the kernel notice a peer that is gone without a word."""
    with contextlib.suppress(OSError):  # a socket that is dead already: the first read tells
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
    return SocketConnection(stream, is_initiator=is_initiator)


async def _open_listeners(text: str) -> Sequence[trio.SocketListener]:
    """Listen on an address, without SO_REUSEPORT: with it two nodes share a port unnoticed."""
    address = TcpAddress.parse(text)
    if address.is_name:
        raise NetworkError(f"{text} in network.listen has to be an IP address")
    try:
        return await trio.open_tcp_listeners(address.port, host=address.host)
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                problem = "is already in use; choose another port in network.listen"
            case errno.EADDRNOTAVAIL:
                problem = "is not an address of this machine; see network.listen"
            case errno.EACCES:
                problem = "needs more rights; choose a port from 1024 on in network.listen"
            case _:
                problem = f"cannot be listened on: {_describe(error)}"
        raise NetworkError(f"{text} {problem}") from error


def _dialable(listener: trio.SocketListener) -> list[str]:
    """The addresses that reach a listener."""
    host, port, *_ = listener.socket.getsockname()
    return [str(address) for address in TcpAddress(host, port).expand()]


def _describe(error: BaseException) -> str:
    """What went wrong, on one line of bounded length: a stranger may have chosen the text."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = " ".join(words.split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
