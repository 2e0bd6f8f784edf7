"""A network made of links: authenticated connections that carry streams.

What `node.network` promises is kept here, once, for every kind of link. A kind of link says how to
listen, how to dial and how to open a stream, and nothing else.

The theory, in five rules:

1. Every task belongs to a link and every link to the network. Callers only wait for events, so
   that cancelling one harms nothing. Ending a link is one step: it leaves the table, its scope is
   cancelled, its socket closed; everything that was built on it unwinds.
2. Two peers that dial each other at once end up with two links. Both sides prefer the one that
   the smaller peer id dialled, so both soon ask over the same; the other is closed by the side
   that dialled it, once it has carried no stream for as long as a stream may be idle.
   The last link of a peer goes likewise, after the longer `connection_idle_s`: a consortium may
   have more members than a node may have connections.
3. A dial is shared by all who want that peer, lives while one of them waits, and tries addresses
   in parallel, each a little after the last (RFC 8305). The first that answers as the peer wins.
4. Requests of one peer begin one at a time, and between two of them everybody else has a turn
   (`Answerer`), however many streams a peer has and however many requests it sends at once.
   Of each protocol it has at most `max_requests_per_peer` in progress, on whatever streams; not of
   all together, since pings must not wait for slow fetches or refusals that are held back.
5. The gate is asked before a dial, after every handshake, and for every stream. Nothing of a
   refused peer stays.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from zerorag_p2p.config import (
    DIAL_STAGGER_S,
    MAX_ADDRESSES,
    MAX_INBOUND_PER_PEER,
    MAX_REMEMBERED_WARNINGS,
    MAX_STREAMS_PER_PROTOCOL,
    NetworkConfig,
)
from zerorag_p2p.errors import (
    ConnectionLost,
    NetworkError,
    PeerUnreachable,
    RequestTimeout,
    UsageError,
)
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import ConnectionEvent, Gate, Handler, ProtocolLimits
from zerorag_p2p.node.request_streams import Answerer, Asker, ByteStream
from zerorag_p2p.node.turns import Turn

_logger = logging.getLogger("zerorag.network")

#: Serves one stream that the peer opened for a protocol, to its end.
StreamServer: TypeAlias = Callable[[str, ByteStream], Awaitable[None]]


class Link(ABC):
    """An authenticated connection to one peer.

    Attributes:
        peer: The peer at the other end, proven by the handshake.
        dialled: Whether we dialled it.
    """

    def __init__(self, peer: PeerId, *, dialled: bool) -> None:
        self.peer = peer
        self.dialled = dialled

    @abstractmethod
    async def run(self, serve: StreamServer) -> None:
        """Carry the link to its end; call `serve` in a task for every stream the peer opens."""

    @abstractmethod
    async def open_stream(self, protocol: str) -> ByteStream:
        """Open a stream for `protocol`. Bounded in time; may be cancelled.

        Raises:
            ConnectionLost: The link ended, or the peer did not react.
            RemoteError: The peer does not serve `protocol`.
        """

    @abstractmethod
    def abort(self) -> None:
        """Free the socket now, whatever the peer does. May be called twice."""


@dataclass(slots=True, eq=False)
class _Share:
    """What one peer may take up at a time, over all of its links and their streams."""

    max_requests: int
    turn: Turn = field(default_factory=Turn)
    _slots: dict[str, trio.Semaphore] = field(default_factory=dict)

    def slots(self, protocol: str) -> trio.Semaphore:
        """One for every request of a protocol that may be in progress."""
        return self._slots.setdefault(protocol, trio.Semaphore(self.max_requests))


@dataclass(slots=True, eq=False)
class _Attached:
    """A link in the table, with what hangs on it."""

    link: Link
    nursery: trio.Nursery
    age: int
    share: _Share
    askers: dict[str, Asker] = field(default_factory=dict)
    served: Counter[str] = field(default_factory=Counter)
    streams: int = 0
    ended: trio.Event = field(default_factory=trio.Event)


@dataclass(slots=True, eq=False)
class _Dial:
    """A dial that runs, and what those who wait for it have brought."""

    addresses: dict[str, None] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)
    news: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    done: trio.Event = field(default_factory=trio.Event)
    waiting: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, addresses: Sequence[str]) -> None:
        """Try these addresses too."""
        self.untried += [address for address in addresses if address not in self.addresses]
        self.addresses.update(dict.fromkeys(addresses))
        self.announce()

    def announce(self) -> None:
        """Wake the dial: there is an address to try, or an attempt has failed."""
        self.news.set()
        self.news = trio.Event()


class LinkNetwork(ABC):
    """Implements `node.network.Network` over links."""

    def __init__(self, peer_id: PeerId, gate: Gate, settings: NetworkConfig) -> None:
        self._peer_id = peer_id
        self._gate = gate
        self._settings = settings
        self._handlers: dict[str, tuple[Handler, ProtocolLimits]] = {}
        self._watchers: list[Callable[[ConnectionEvent], None]] = []
        self._links: dict[PeerId, list[_Attached]] = {}  # of a peer: the preferred link first
        self._dials: dict[PeerId, _Dial] = {}
        self._nursery: trio.Nursery | None = None
        self._ages = itertools.count()
        self._warned: OrderedDict[Hashable, None] = OrderedDict()

    # What a kind of link provides.

    @abstractmethod
    def addresses(self) -> tuple[str, ...]:
        """See `Network.addresses`."""

    @abstractmethod
    async def _listen(self) -> None:
        """Claim the addresses to listen on.

        Raises:
            NetworkError: An address is malformed, taken or not ours.
        """

    @abstractmethod
    async def _accept(self) -> None:
        """Carry every link that peers dial, until cancelled; then give up the addresses."""

    @abstractmethod
    async def _dial(self, peer: PeerId, address: str) -> Link:
        """Dial one address. Leaves nothing behind when it fails or is cancelled.

        Raises:
            NetworkError: Nobody answers there, or somebody else than `peer`.
        """

    # The seam.

    @property
    def peer_id(self) -> PeerId:
        """See `Network.peer_id`."""
        return self._peer_id

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols we serve."""
        return tuple(self._handlers)

    def connected(self) -> frozenset[PeerId]:
        """See `Network.connected`."""
        return frozenset(self._links)

    def serve(self, protocol: str, handler: Handler, limits: ProtocolLimits) -> None:
        """See `Network.serve`."""
        assert self._nursery is None, "handlers are registered before the network starts"
        self._handlers[protocol] = (handler, limits)

    def watch(self, on_event: Callable[[ConnectionEvent], None]) -> None:
        """See `Network.watch`."""
        self._watchers.append(on_event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """See `Network.running`."""
        await self._listen()
        error: Exception | None = None
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._accept)
            try:
                yield
            except Exception as raised:  # not ours: kept out of the nursery's exception group
                error = raised
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel()
        if error is not None:
            raise error

    async def connect(self, peer: PeerId, addresses: Sequence[str], *, timeout_s: float) -> None:
        """See `Network.connect`."""
        addresses = addresses[:MAX_ADDRESSES]
        tried: set[str] = set()
        failures: list[str] = []
        with trio.move_on_after(max(timeout_s, 0.0)) as scope:
            while peer not in self._links:
                if reason := self._refusal(peer):
                    raise PeerUnreachable(f"{peer} was not dialled: {reason}")
                untried = [address for address in addresses if address not in tried]
                if not untried:
                    break
                dial = await self._share_dial(peer, untried)
                tried.update(dial.addresses)
                failures += dial.failures
        if peer in self._links:
            return
        if scope.cancelled_caught:
            where = ", ".join(addresses)
            raise PeerUnreachable(f"{peer} did not answer within {timeout_s:g} s at {where}")
        detail = "; ".join(failures) or "it has no address, or closed the connection at once"
        raise PeerUnreachable(f"{peer} could not be reached: {detail}")

    async def request(
        self, peer: PeerId, protocol: str, payload: bytes, *, timeout_s: float
    ) -> bytes:
        """See `Network.request`."""
        if protocol not in self._handlers:
            raise UsageError(f"{protocol} is not served here, so its limits are not known")
        _, limits = self._handlers[protocol]
        if len(payload) > limits.request_bytes:
            raise UsageError(
                f"a request of {len(payload)} bytes; {protocol} allows {limits.request_bytes}"
            )
        links = self._links.get(peer)
        if not links:
            raise ConnectionLost(f"there is no connection to {peer}")
        asker = self._asker(links[0], protocol, limits)
        with trio.move_on_after(max(timeout_s, 0.0)):
            return await asker.ask(payload)
        raise RequestTimeout(f"{peer} did not answer {protocol} within {timeout_s:g} s")

    async def disconnect(self, peer: PeerId) -> None:
        """See `Network.disconnect`."""
        dial = self._dials.get(peer)
        if dial is not None:
            self._give_up(peer, dial)
        attached = list(self._links.get(peer, ()))
        for item in attached:
            self._end(item)
        with trio.move_on_after(self._settings.close_timeout_s):
            for item in attached:
                await item.ended.wait()

    # Links.

    def _refusal(self, peer: PeerId) -> str | None:
        """Why `peer` may have no further link, if it may not."""
        if peer == self._peer_id:
            return "it is this node itself"
        if not self._gate(peer):
            return "it is not a member of the consortium, or no longer"
        if self._crowded():
            return f"there are {self._settings.max_connections} connections already"
        return None

    def _crowded(self) -> bool:
        return sum(map(len, self._links.values())) >= self._settings.max_connections

    async def _carry(self, link: Link, attached_event: trio.Event | None = None) -> None:
        """Put a link in the table, which sets the event, and carry it to its end."""
        ended = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                share = self._share(link.peer)
                attached = _Attached(link, nursery, next(self._ages), share, ended=ended)
                self._attach(attached)
                if attached_event is not None:
                    attached_event.set()
                try:
                    await link.run(functools.partial(self._serve_stream, attached))
                finally:
                    self._end(attached)
        finally:
            link.abort()
            ended.set()

    def _share(self, peer: PeerId) -> _Share:
        """The share of a peer: that of its other links, if it has any."""
        links = self._links.get(peer)
        return links[0].share if links else _Share(self._settings.max_requests_per_peer)

    def _attach(self, attached: _Attached) -> None:
        peer = attached.link.peer
        if reason := self._refusal(peer):
            self._warn((peer, "refused"), "refused a connection of %s: %s", peer, reason)
            attached.nursery.cancel_scope.cancel()
            return
        links = self._links.setdefault(peer, [])
        links.append(attached)
        self._arrange(peer)
        if len(links) == 1:
            self._tell(peer, connected=True)
        dial = self._dials.get(peer)
        if dial is not None and not attached.link.dialled and self._peer_id > peer:
            # The peer's own dial got here first, and by rule 2 it is the one to keep.
            self._give_up(peer, dial)

    def _end(self, attached: _Attached) -> None:
        """Take a link out of the table and begin its end. May be called twice."""
        peer = attached.link.peer
        links = self._links.get(peer, [])
        if attached in links:
            links.remove(attached)
            if links:
                self._arrange(peer)
            else:
                del self._links[peer]
                self._tell(peer, connected=False)
        attached.nursery.cancel_scope.cancel()
        attached.link.abort()

    def _arrange(self, peer: PeerId) -> None:
        """Put the preferred link first, and see which of the others may go."""
        links = self._links[peer]
        inbound = sorted((item for item in links if not item.link.dialled), key=lambda a: a.age)
        if len(inbound) > MAX_INBOUND_PER_PEER:
            self._end(inbound[0])  # which arranges the others
            return
        we_dial = self._peer_id < peer
        # Of equals the newest: the older may have died unnoticed.
        links.sort(key=lambda item: (item.link.dialled != we_dial, -item.age))
        now = trio.current_time()
        for item in links:
            patience = (
                self._settings.connection_idle_s
                if item is links[0]
                else self._settings.stream_idle_s
            )
            unused = item.link.dialled and not item.streams
            item.nursery.cancel_scope.deadline = now + patience if unused else math.inf

    def _tell(self, peer: PeerId, *, connected: bool) -> None:
        for on_event in self._watchers:
            on_event(ConnectionEvent(peer, connected))

    def _warn(self, key: Hashable, message: str, *values: object) -> None:
        """Log a warning the first time its key is seen."""
        if key not in self._warned:
            self._warned[key] = None
            if len(self._warned) > MAX_REMEMBERED_WARNINGS:
                self._warned.popitem(last=False)
            _logger.warning(message, *values)

    # Streams.

    @contextmanager
    def _counted(self, attached: _Attached) -> Iterator[None]:
        """Count a stream of a link for as long as it lasts."""
        attached.streams += 1
        attached.nursery.cancel_scope.deadline = math.inf
        try:
            yield
        finally:
            attached.streams -= 1
            if attached in self._links.get(attached.link.peer, ()):
                self._arrange(attached.link.peer)

    def _asker(self, attached: _Attached, protocol: str, limits: ProtocolLimits) -> Asker:
        asker = attached.askers.get(protocol)
        if asker is None or asker.spent:
            asker = attached.askers[protocol] = Asker(
                limits.reply_bytes,
                max_pending=self._settings.max_requests_per_peer,
                idle_s=self._settings.stream_idle_s,
            )
            attached.nursery.start_soon(self._run_asker, attached, protocol, asker)
        return asker

    async def _run_asker(self, attached: _Attached, protocol: str, asker: Asker) -> None:
        with self._counted(attached):
            try:
                await asker.run(functools.partial(attached.link.open_stream, protocol))
            finally:
                if attached.askers.get(protocol) is asker:
                    del attached.askers[protocol]

    async def _serve_stream(self, attached: _Attached, protocol: str, stream: ByteStream) -> None:
        peer = attached.link.peer
        if not self._gate(peer):
            self._end(attached)
            return
        if attached.served[protocol] >= MAX_STREAMS_PER_PROTOCOL:
            self._warn(
                (peer, "streams"), "%s opened too many streams for %s: refused", peer, protocol
            )
            await stream.abort()
            return
        handler, limits = self._handlers[protocol]
        attached.served[protocol] += 1
        try:
            with self._counted(attached):
                answerer = Answerer(
                    stream,
                    peer,
                    handler,
                    limits,
                    slots=attached.share.slots(protocol),
                    turn=attached.share.turn,
                )
                violation = await answerer.run()
        finally:
            attached.served[protocol] -= 1
        if violation is not None:
            self._warn(
                (peer, "framing"), "%s broke the framing of %s: %s", peer, protocol, violation
            )

    # Dials.

    async def _share_dial(self, peer: PeerId, addresses: Sequence[str]) -> _Dial:
        """Join the dial to `peer`, or begin one, and wait for its end."""
        dial = self._dials.get(peer)
        if dial is None:
            if self._nursery is None:
                raise PeerUnreachable(f"{peer} was not dialled: this network is not running")
            dial = self._dials[peer] = _Dial()
            self._nursery.start_soon(self._run_dial, self._nursery, peer, dial)
        dial.add(addresses)
        dial.waiting += 1
        try:
            await dial.done.wait()
        finally:
            dial.waiting -= 1
            if not dial.waiting:
                self._give_up(peer, dial)
        return dial

    def _give_up(self, peer: PeerId, dial: _Dial) -> None:
        """End a dial now; the next caller begins another. May be called twice."""
        if self._dials.get(peer) is dial:
            del self._dials[peer]
        dial.scope.cancel()
        dial.done.set()

    async def _run_dial(self, nursery: trio.Nursery, peer: PeerId, dial: _Dial) -> None:
        try:
            with dial.scope:
                link = await self._race(peer, dial)
                if link is not None:
                    attached = trio.Event()
                    nursery.start_soon(self._carry, link, attached)
                    await attached.wait()
        finally:
            self._give_up(peer, dial)

    async def _race(self, peer: PeerId, dial: _Dial) -> Link | None:
        """Try the addresses of a dial; the first link counts."""
        winner: Link | None = None
        running = 0

        async def attempt(address: str) -> None:
            nonlocal winner, running
            try:
                with trio.fail_after(self._settings.dial_timeout_s):
                    link = await self._dial(peer, address)
            except (NetworkError, trio.TooSlowError) as error:
                dial.failures.append(f"{address}: {str(error) or 'no answer'}")
                running -= 1
                dial.announce()
                return
            if winner is None:
                winner = link
                nursery.cancel_scope.cancel()
            else:
                link.abort()

        try:
            async with trio.open_nursery() as nursery:
                while dial.untried or running:
                    if dial.untried:
                        running += 1
                        nursery.start_soon(attempt, dial.untried.pop(0))
                    with trio.move_on_after(DIAL_STAGGER_S if dial.untried else math.inf):
                        await dial.news.wait()
        except BaseException:  # Cancelled, alone or in a group
            if winner is not None:
                winner.abort()
            raise
        return winner
