"""A node: one peer on a real network, with its library, sessions and timers.

async with Node("/srv/zerorag") as node:
    report = await node.query("Which dose for impaired renal function?")
"""

from __future__ import annotations

import logging
import os
import random
import resource
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import trio

from zerorag_p2p import __version__
from zerorag_p2p.config import (
    MAX_BUDGET,
    MAX_FANOUT,
    MAX_K,
    MAX_ROSTER_BYTES,
    NodeConfig,
    RoutingConfig,
)
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.errors import (
    ConfigError,
    DecodeError,
    LibraryError,
    LocalError,
    NetworkError,
    PolicyDenied,
    UsageError,
)
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.identity.keys import parse_peer_id
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.identity.roster import Roster, accept_roster, open_roster, roster_state
from zerorag_p2p.library.library import Library
from zerorag_p2p.model import CONTENT_HASH_DIGITS, ContentHash, PeerId, Purpose, Vector
from zerorag_p2p.node.checking import DocumentChecker
from zerorag_p2p.node.contacts import Failure, Outcome
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.files import HomeLock, load_identity
from zerorag_p2p.node.libp2p_network import Libp2pNetwork
from zerorag_p2p.node.neighborhood import Neighborhood
from zerorag_p2p.node.network import ConnectionEvent, Network, ProtocolLimits
from zerorag_p2p.node.outgoing import Exchanges, Traffic
from zerorag_p2p.node.querying import Querier, QuerySettings
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus, ProgressCallback, QueryReport
from zerorag_p2p.node.serving import Service
from zerorag_p2p.node.sessions import Sessions
from zerorag_p2p.node.signing import statement_signer
from zerorag_p2p.node.state import STATE_LIMIT, encode_state, restore_state
from zerorag_p2p.peer import Peer
from zerorag_p2p.routing.strategy import Strategy, strategy_from
from zerorag_p2p.wire.embedding import transmitted
from zerorag_p2p.wire.fetch import FetchRefused
from zerorag_p2p.wire.hello import Hello
from zerorag_p2p.wire.protocols import ADVERTISE, FETCH, HELLO, LIMITS, QUERY, SUPPORTED

logger = logging.getLogger("zerorag.node")


#: Who asks where no user does.
_OWN_USER = "node"


class Node:
    """One peer of a consortium, running while its context is entered.

    Args:
        home: The node's folder, set up by `zerorag init`, with a roster imported.
        config: Settings instead of those in the home's `config.toml`.
        make_network: Makes the network from the key's seed; libp2p unless a test says otherwise.
        clock: Unix seconds.
    """

    def __init__(
        self,
        home: Home | Path | str,
        config: NodeConfig | None = None,
        *,
        make_network: Callable[..., Network] = Libp2pNetwork,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.home = home if isinstance(home, Home) else Home(Path(home).absolute())
        self.config = config if config is not None else self.home.load_config()
        self._make_network = make_network
        self._clock = clock
        self._stack = AsyncExitStack()
        self._embedding_limiter = trio.CapacityLimiter(1)
        self._started_at = 0.0
        self._saved_state = b""

    # Starting and stopping.

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> None:
        self.home.require()
        stack.enter_context(HomeLock(self.home.root))
        self.identity = load_identity(self.home.key)
        self.directory = Directory(self.peer_id, open_roster(self._read_roster()))
        bootstrap = self._configure_bootstrap()
        self.embedder = open_embedder(self.config.embedding)
        sign = statement_signer(
            self.identity,
            self.embedder.fingerprint,
            self.directory.roster.consortium,
            self._clock,
        )
        self.library = Library(self.home.library, self.embedder, sign)
        stack.callback(self.library.close)
        self._randomness = random.Random(secrets.randbits(64))
        self._peer = Peer(
            self.peer_id,
            self.library,
            self.config.routing,
            fingerprint=self.embedder.fingerprint.digest(),
            dimension=self.embedder.fingerprint.dimension,
            record_of=self.directory.record,
        )
        self._network = self._make_network(
            self.identity.seed,
            self.config.network.listen,
            gate=lambda peer: self.directory.admits(peer, self._clock()),
            settings=self.config.network,
        )
        self._compose(bootstrap)
        self._restore()
        stack.callback(self._save)
        await stack.enter_async_context(self._network.running())
        self._record = sign_record(self.identity, self._announced(), int(self._clock()))
        self._started_at = self._clock()
        self._nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(self._nursery.cancel_scope.cancel)
        self._nursery.start_soon(self._neighborhood.run)
        self._nursery.start_soon(self._save_regularly)
        self._nursery.start_soon(trio.to_thread.run_sync, self.library.maintain)
        logger.info("%s (%s) is running", self.organisation, self.peer_id)

    def _compose(self, bootstrap: list[PeerId]) -> None:
        self._sessions = Sessions(
            self._network, self.directory, self._hello, self.config.network, self._clock
        )
        self._exchanges = Exchanges(
            self._network, self._sessions, self.config.network, self._on_outcome
        )
        self._neighborhood = Neighborhood(
            peer=self._peer,
            directory=self.directory,
            sessions=self._sessions,
            exchanges=self._exchanges,
            config=self.config,
            bootstrap=bootstrap,
            clock=self._clock,
            randomness=self._randomness,
        )
        self._checker = DocumentChecker(
            self.peer_id,
            self.directory,
            self._clock,
            clock_tolerance_s=self.config.network.clock_tolerance_s,
        )
        self._querier = Querier(
            exchanges=self._exchanges,
            directory=self.directory,
            peer=self._peer,
            checker=self._checker,
            settings=self.config.routing,
            clock=self._clock,
            randomness=self._randomness,
        )
        self._service = Service(
            identity=self.identity,
            directory=self.directory,
            sessions=self._sessions,
            peer=self._peer,
            library=self.library,
            settings=self.config.routing,
            clock=self._clock,
        )
        handlers = {
            HELLO: self._sessions.answer_hello,
            QUERY: self._service.answer_query,
            ADVERTISE: self._service.answer_advertise,
            FETCH: self._service.answer_fetch,
        }
        for protocol, handler in handlers.items():
            self._network.serve(protocol, handler, ProtocolLimits(*LIMITS[protocol]))
        self._network.watch(self._on_connection)

    def _read_roster(self) -> bytes:
        if not self.home.roster.exists():
            raise LocalError(
                f"{self.home.root} has no roster yet; ask the consortium's authority for one and "
                "run `zerorag consortium import`"
            )
        return read_bounded(self.home.roster, MAX_ROSTER_BYTES)

    def _configure_bootstrap(self) -> list[PeerId]:
        """Addresses of bootstrap peers go to the directory; their ids in order are returned."""
        addresses: dict[PeerId, list[str]] = {}
        for multiaddr in self.config.network.bootstrap:
            address, separator, text = multiaddr.rpartition("/p2p/")
            try:
                peer = parse_peer_id(text)
            except DecodeError:
                peer = None
            if not separator or peer is None:
                raise ConfigError(
                    f"network.bootstrap: {multiaddr!r} has to end in /p2p/ and a peer id"
                )
            addresses.setdefault(peer, []).append(address)
        self.directory.configure_addresses(addresses)
        return list(addresses)

    def _announced(self) -> tuple[str, ...]:
        return self.config.network.announce or self._network.addresses()

    def _hello(self) -> Hello:
        return Hello(
            consortium=self.directory.roster.consortium,
            roster_version=self.directory.roster.version,
            fingerprints=(self.embedder.fingerprint,),
            protocols=SUPPORTED,
            clock_ms=int(self._clock() * 1000),
            software=f"zerorag-p2p/{__version__}",
            record=self._record,
        )

    # What happens on the network.

    def _on_connection(self, event: ConnectionEvent) -> None:
        if not event.connected:
            self._sessions.end(event.peer)

    def _on_outcome(self, peer: PeerId, outcome: Outcome, had_full_time: bool) -> None:
        if outcome is Outcome.TIMED_OUT and not had_full_time:
            return  # we gave up early, which says nothing about the peer
        self._neighborhood.on_outcome(peer, outcome)
        if outcome is Outcome.TIMED_OUT:
            # A peer that accepts requests and does not answer may be frozen: a new connection
            # will tell, and nothing of the old one stays behind.
            self._nursery.start_soon(self._network.disconnect, peer)

    # State across restarts.

    def _restore(self) -> None:
        try:
            data = read_bounded(self.home.state, STATE_LIMIT)
            restore_state(data, self._peer, self.directory, self._clock())
        except FileNotFoundError:
            return
        except (DecodeError, LocalError) as error:
            logger.warning("%s cannot be used and is replaced: %s", self.home.state, error)

    def _save(self) -> None:
        state = encode_state(self._peer, self.directory)
        if state != self._saved_state:
            write_atomic(self.home.state, state, mode=0o600)
            self._saved_state = state

    async def _save_regularly(self) -> None:
        while True:
            await trio.sleep(self.config.network.save_interval_s)
            self._save()

    # What applications use.

    @property
    def peer_id(self) -> PeerId:
        """Our peer id."""
        return self.identity.peer_id

    @property
    def organisation(self) -> str:
        """Our organisation as the roster names it."""
        return self.directory.organisation(self.peer_id) or self.config.organisation

    async def query(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        timeout_s: float | None = None,
        purpose: Purpose = Purpose.TREAT,
        user: str = "",
        routing: str | None = None,
        stopping: str | None = None,
        remember: bool = True,
        on_progress: ProgressCallback | None = None,
    ) -> QueryReport:
        """Ask the consortium a question. Our own documents are not part of the answer.

        Args:
            text: The question.
            k: Number of documents wanted.
            budget: Most peers to contact.
            fanout: Requests in flight at a time.
            timeout_s: Deadline of the whole query, fetches included.
            purpose: Purpose of use; owners decide by it.
            user: Pseudonym of the user who asks; without one the node itself does.
            routing: Name of a routing algorithm other than the configured one.
            stopping: Name of a stopping rule other than the algorithm's.
            remember: Whether the peers asked may remember the question's embedding.
            on_progress: Told of every contact; must not block.

        Raises:
            UsageError: An argument is out of range.
            ConfigError: There is no algorithm or rule of that name.
            EmbeddingError: The question cannot be embedded.
        """
        defaults = self.config.routing
        settings = QuerySettings(
            text=text,
            embedding=await self._embed(text),
            k=_within("k", k, defaults.k, MAX_K),
            budget=_within("budget", budget, defaults.contact_budget, MAX_BUDGET),
            fanout=_within("fanout", fanout, defaults.fanout, MAX_FANOUT),
            timeout_s=timeout_s or self.config.network.query_timeout_s,
            purpose=purpose,
            user=user or _OWN_USER,
            strategy=self._strategy(routing, stopping),
            remember=remember,
        )
        report, walk = await self._querier.run(settings, on_progress)
        neighbor = self._peer.finish_query(walk, self._clock())
        if neighbor is not None:
            self._nursery.start_soon(self._neighborhood.adopt, neighbor)
            report = replace(report, new_neighbor=self.directory.name(neighbor))
        return report

    async def _embed(self, text: str) -> Vector:
        if not text.strip():
            raise UsageError("the question is empty")
        embedding = await trio.to_thread.run_sync(
            self.embedder.embed_query, text, limiter=self._embedding_limiter
        )
        return transmitted(embedding)

    def _strategy(self, routing: str | None, stopping: str | None) -> Strategy:
        settings = self.config.routing
        if routing is not None:
            settings = RoutingConfig(routing=routing)
        if stopping is not None:
            settings = replace(settings, stopping=stopping)
        return strategy_from(settings)

    async def get(
        self,
        content_hash: str,
        *,
        peer: PeerId | None = None,
        purpose: Purpose = Purpose.TREAT,
    ) -> AnswerDocument:
        """One document: our own, or fetched from `peer` and verified.

        Args:
            content_hash: Content hash in hexadecimal; the first digits, at least 8, suffice for
                a document of our own.
            peer: Where to fetch it, if it is not ours.
            purpose: Purpose of use; the owner decides by it.

        Raises:
            LibraryError: It is not ours and there is no `peer`, or the digits are ambiguous.
            UsageError: To fetch, the whole content hash is needed.
            PolicyDenied: The peer refuses it.
            NetworkError: The peer cannot be reached or does not answer.
            AttributionError: What it delivered does not verify.
        """
        matching = self.library.resolve(content_hash)
        if len(matching) > 1:
            raise LibraryError(f"{len(matching)} documents begin with {content_hash}")
        if matching:
            return self._own_document(matching[0])
        if peer is None:
            raise LibraryError(
                f"no document of ours begins with {content_hash}; name the peer to fetch it from"
            )
        if len(content_hash) != CONTENT_HASH_DIGITS:
            raise UsageError("to fetch a document its whole content hash is needed")
        return await self._fetch(ContentHash(content_hash), peer, purpose)

    def _own_document(self, content_hash: ContentHash) -> AnswerDocument:
        stored = self.library.get(content_hash)[0]
        document = self.library.read(stored)
        own = self.directory.name(self.peer_id)
        return AnswerDocument(
            content_hash=content_hash,
            status=DocumentStatus.VERIFIED,
            score=1.0,
            score_verified=True,
            owner=own,
            holder=own,
            collection=stored.collection,
            title=document.title,
            text=document.text,
            part=document.part,
            parts=document.parts,
            content=document.content(),
            attribution=(stored.attribution,),
        )

    async def _fetch(
        self, content_hash: ContentHash, peer: PeerId, purpose: Purpose
    ) -> AnswerDocument:
        reply = await self._exchanges.fetch(
            peer,
            [content_hash],
            purpose=purpose,
            user=_OWN_USER,
            audit=secrets.token_hex(8),
            timeout_s=self.config.network.request_timeout_s,
            traffic=Traffic(),
        )
        if isinstance(reply, Failure):
            raise NetworkError(f"{peer}: {reply.reason}")
        (item,) = reply
        if isinstance(item, FetchRefused):
            raise PolicyDenied(f"{peer} refused the document: {item.reason}")
        return self._checker.check_delivery(item, peer, score=1.0, score_verified=False)

    async def import_roster(self, data: bytes) -> Roster:
        """Judge by a newer roster from now on; those it excludes are disconnected and forgotten.

        Raises:
            RosterError: The roster may not follow the present one, with the reason.
        """
        roster = accept_roster(self.directory.roster, data, self._clock())
        write_atomic(self.home.roster, data)
        self.directory.replace_roster(roster)
        now = self._clock()
        known = self._network.connected() | {item.peer for item in self._peer.neighbors}
        for peer in sorted(known):
            if not self.directory.admits(peer, now):
                logger.info("%s %s", peer, self.directory.standing(peer, now).describe())
                self._neighborhood.forget(peer)
                await self._network.disconnect(peer)
        return roster

    def status(self) -> dict[str, Any]:
        """How the node is doing, ready for JSON."""
        now = self._clock()
        roster = self.directory.roster
        return {
            "peer_id": self.peer_id,
            "organisation": self.organisation,
            "version": __version__,
            "home": str(self.home.root),
            "uptime_s": round(now - self._started_at, 3),
            "consortium": roster.consortium,
            "roster": {
                "version": roster.version,
                "state": roster_state(roster, now).value,
                "expires_at": roster.expires_at,
                "newest_seen": self._sessions.newest_roster_seen,
                "members": len(roster.members),
                "own_standing": self.directory.standing(self.peer_id, now).value,
            },
            "addresses": list(self._announced()),
            "connections": len(self._network.connected()),
            "sessions": len(self._sessions),
            "neighbors": len(self._peer.neighbors),
            "remembered_queries": len(self._peer.memory),
            "advertised_vectors": len(self._peer.advertisements),
            "library": asdict(self.library.stats()),
            "fingerprint": self.embedder.fingerprint.to_map(),
            "requests": {"answered": self._service.answered, "refused": self._service.refused},
            "process": {
                "pid": os.getpid(),
                "tasks": trio.lowlevel.current_statistics().tasks_living,
                "descriptors": len(os.listdir("/proc/self/fd")),
                "rss_bytes": _resident_bytes(),
            },
        }

    def peers(self) -> list[dict[str, Any]]:
        """Every member of the roster but us, ready for JSON."""
        now = self._clock()
        connected = self._network.connected()
        rows = []
        for member in self.directory.roster.members:
            if member.peer == self.peer_id:
                continue
            session = self._sessions.get(member.peer)
            rows.append(
                {
                    "peer": member.peer,
                    "organisation": member.organisation,
                    "standing": self.directory.standing(member.peer, now).value,
                    "connected": member.peer in connected,
                    "neighbor": member.peer in self._peer.neighbors,
                    "addresses": list(self.directory.addresses(member.peer)),
                    "session": session
                    and {
                        "since": session.since,
                        "fingerprint": str(session.agreed),
                        "clock_skew_s": round(session.clock_skew_s, 3),
                        "roster_version": session.hello.roster_version,
                        "software": session.hello.software,
                    },
                    "last_error": self._sessions.last_error.get(member.peer),
                }
            )
        return rows

    def neighbors(self) -> list[dict[str, Any]]:
        """The neighbour view from the oldest to the newest, ready for JSON."""
        connected = self._network.connected()
        rows = []
        for neighbor in self._peer.neighbors:
            held = self._peer.advertisements.get(neighbor.peer)
            rows.append(
                {
                    "peer": neighbor.peer,
                    "organisation": self.directory.organisation(neighbor.peer),
                    "since": neighbor.since,
                    "last_useful": neighbor.last_useful,
                    "connected": neighbor.peer in connected,
                    "advertisement": held
                    and {
                        "vectors": len(held.documents),
                        "sequence": held.sequence,
                        "expires_at": held.expires_at,
                        "bytes": len(held.signed),
                    },
                }
            )
        return rows


def _within(name: str, value: int | None, default: int, largest: int) -> int:
    if value is None:
        return default
    if not 1 <= value <= largest:
        raise UsageError(f"{name} has to be from 1 to {largest}, got {value}")
    return value


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
