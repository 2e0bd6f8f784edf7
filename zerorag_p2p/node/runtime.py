"""A node: one peer on a real network, with its library, sessions and timers.

async with Node("/srv/zerorag") as node:
report = await node.query("Which dose for impaired renal function?")
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import trio

from zerorag_p2p.config import MAX_ROSTER_BYTES, NodeConfig
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.errors import ConfigError, DecodeError, LibraryError, LocalError, UsageError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.identity.keys import Identity, parse_peer_id
from zerorag_p2p.identity.roster import Roster, open_roster
from zerorag_p2p.library.library import Library
from zerorag_p2p.model import CONTENT_HASH_DIGITS, ContentHash, PeerId, Purpose, Vector, View
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.files import HomeLock, load_identity
from zerorag_p2p.node.happenings import Observer
from zerorag_p2p.node.libp2p_network import Libp2pNetwork
from zerorag_p2p.node.network import Network
from zerorag_p2p.node.process import process_figures
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus, ProgressCallback, QueryReport
from zerorag_p2p.node.signing import statement_signer
from zerorag_p2p.node.state import STATE_LIMIT
from zerorag_p2p.wire.embedding import transmitted

logger = logging.getLogger("zerorag.node")


class Node:
    """One peer of a consortium, running while its context is entered.

    Args:
        home: The node's folder, set up by `zerorag init`, with a roster imported.
        config: Settings instead of those in the home's `config.toml`.
        make_network: Makes the network from the key's seed; libp2p unless a test says otherwise.
        clock: Unix seconds.

    Attributes:
        core: What takes part in the network.
        library: Our documents. Its methods block: call them in a thread.
    """

    core: NodeCore
    library: Library

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
        identity = load_identity(self.home.key)
        signed_roster = self._read_roster()
        directory = Directory(identity.peer_id, open_roster(signed_roster), signed_roster)
        bootstrap = self._configure_bootstrap(directory)
        self.embedder = open_embedder(self.config.embedding)
        self.library = Library(
            self.home.library,
            self.embedder,
            statement_signer(
                identity, self.embedder.fingerprint, directory.roster.consortium, self._clock
            ),
        )
        stack.callback(self.library.close)
        self.core = NodeCore(
            identity=identity,
            directory=directory,
            network=self._network(identity, directory),
            holdings=self.library,
            fingerprint=self.embedder.fingerprint,
            config=self.config,
            bootstrap=bootstrap,
            clock=self._clock,
            randomness=random.Random(secrets.randbits(64)),
            on_roster=lambda data: write_atomic(self.home.roster, data),
        )
        self._restore()
        stack.callback(self._save)
        await stack.enter_async_context(self.core.running())
        self._started_at = self._clock()
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        nursery.start_soon(self._save_regularly)
        nursery.start_soon(trio.to_thread.run_sync, self.library.maintain)
        logger.info("%s (%s) is running", self.organisation, self.peer_id)

    def _network(self, identity: Identity, directory: Directory) -> Network:
        return self._make_network(
            identity.seed,
            self.config.network.listen,
            gate=lambda peer: directory.admits(peer, self._clock()),
            settings=self.config.network,
        )

    def _read_roster(self) -> bytes:
        if not self.home.roster.exists():
            raise LocalError(
                f"{self.home.root} has no roster yet; ask the consortium's authority for one and "
                "run `zerorag consortium import`"
            )
        return read_bounded(self.home.roster, MAX_ROSTER_BYTES)

    def _configure_bootstrap(self, directory: Directory) -> list[PeerId]:
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
        directory.configure_addresses(addresses)
        return list(addresses)

    # State across restarts.

    def _restore(self) -> None:
        try:
            self.core.restore_state(read_bounded(self.home.state, STATE_LIMIT))
        except FileNotFoundError:
            return
        except (DecodeError, LocalError) as error:
            logger.warning("%s cannot be used and is replaced: %s", self.home.state, error)

    def _save(self) -> None:
        state = self.core.encode_state()
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
        return self.core.peer_id

    @property
    def organisation(self) -> str:
        """Our organisation as the roster names it."""
        return self.core.directory.organisation(self.peer_id) or self.config.organisation

    async def query(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        timeout_s: float | None = None,
        purpose: Purpose = Purpose.TREAT,
        view: View = View.PASSAGE,
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
            view: How much of each document is wanted; owners may allow less, then nothing comes.
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
        embedding = await self._embed(text)
        return await self.core.query(
            text,
            embedding,
            k=k,
            budget=budget,
            fanout=fanout,
            timeout_s=timeout_s,
            purpose=purpose,
            view=view,
            user=user,
            routing=routing,
            stopping=stopping,
            remember=remember,
            on_progress=on_progress,
        )

    async def _embed(self, text: str) -> Vector:
        if not text.strip():
            raise UsageError("the question is empty")
        embedding = await trio.to_thread.run_sync(
            self.embedder.embed_query, text, limiter=self._embedding_limiter
        )
        return transmitted(embedding)

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
        return await self.core.fetch(ContentHash(content_hash), peer, purpose=purpose)

    def _own_document(self, content_hash: ContentHash) -> AnswerDocument:
        stored = self.library.get(content_hash)[0]
        document = self.library.read(stored)
        own = self.core.directory.name(self.peer_id)
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
            attribution=stored.links,
        )

    async def import_roster(self, data: bytes) -> Roster:
        """Judge by a newer roster from now on; those it excludes are disconnected and forgotten.

        Raises:
            RosterError: The roster may not follow the present one, with the reason.
        """
        return await self.core.import_roster(data)

    def status(self) -> dict[str, Any]:
        """How the node is doing, ready for JSON."""
        return {
            **self.core.status(),
            "organisation": self.organisation,
            "home": str(self.home.root),
            "uptime_s": round(self._clock() - self._started_at, 3),
            "library": asdict(self.library.stats()),
            "process": process_figures(),
        }

    def peers(self) -> list[dict[str, Any]]:
        """Every member of the roster but us, ready for JSON."""
        return self.core.peers()

    def neighbors(self) -> list[dict[str, Any]]:
        """The neighbour view from the oldest to the newest, ready for JSON."""
        return self.core.neighbors()

    def memory(self) -> dict[str, Any]:
        """Whose queries are remembered, ready for JSON."""
        return self.core.memory()

    def refusals(self) -> list[dict[str, Any]]:
        """The last refusals, ours and those of others, oldest first, ready for JSON."""
        return self.core.refusals()

    def watching(self, observer: Observer) -> AbstractContextManager[None]:
        """Tell `observer` of everything that happens while the context is entered."""
        return self.core.activity.watching(observer)
