"""The embedding models of a node: the one in use, and another while it goes over to that.

Going over has three steps, and the node answers throughout. What the library holds is embedded by
the next model too; meanwhile others see nothing of it. Then the node answers by both models, and
asks those that lack the model in use by the other. Once the roster prefers the next model it is the
one in use, and at last the vectors of the old one are deleted: when the roster names it no more, or
when the owner says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import trio

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.embedding.embedder import Embedder, open_embedder
from zerorag_p2p.errors import EmbeddingError, LocalError, UsageError
from zerorag_p2p.home import Home
from zerorag_p2p.library.contents import Sign
from zerorag_p2p.library.documents import StoredDocument
from zerorag_p2p.library.library import HeldProgress, Library
from zerorag_p2p.model import Fingerprint, Score, ScoredDocument, Vector
from zerorag_p2p.model_change import ModelChange, read_model_change, write_model_change
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.policies import PolicyFile
from zerorag_p2p.wire.embedding import transmitted

logger = logging.getLogger("zerorag.node")


class HeldCorpus:
    """A library by the vectors of its second model."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def search(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> Sequence[ScoredDocument]:
        """See `Library.search_held`."""
        return self._library.search_held(
            embedding, k, admit_collection=admit_collection, admit=admit
        )

    def count(
        self,
        embedding: Vector,
        above: Score,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[StoredDocument], bool],
    ) -> int:
        """See `Library.count_held`."""
        return self._library.count_held(
            embedding, above, admit_collection=admit_collection, admit=admit
        )


class Models:
    """The embedding models of a node.

    Args:
        home: Where the change is kept.
        configured: What the settings say.
        interval_s: Seconds between two looks at the roster and at what is to be embedded.

    Attributes:
        embedder: The model in use.
        other: The next one, or the old one once the next is in use; None where there is one only.

    Raises:
        ConfigError, EmbedderUnavailable: As `open_embedder`.
        LocalError: The file of the change is damaged.
    """

    _library: Library
    _core: NodeCore
    _policy: PolicyFile

    def __init__(self, home: Home, configured: EmbeddingConfig, *, interval_s: float) -> None:
        self._home = home
        self._interval_s = interval_s
        self._configured = configured
        change = read_model_change(home.model_change)
        if change is not None and change.configured != configured:
            logger.warning(
                "config.toml names another embedding model than before: %s does not count any more",
                home.model_change,
            )
            home.model_change.unlink()
            change = None
        self._change = change or ModelChange(
            configured=configured, used=configured, other=None, arrived=False
        )
        self.embedder = open_embedder(self._change.used)
        self.other: Embedder | None = None
        if self._change.other is not None:
            self.other = open_embedder(self._change.other)
        self._progress = HeldProgress(0, 0)
        self._embedded_at = -1
        self._fault = ""
        self._lock = trio.Lock()
        self._pass = trio.CancelScope()
        self._wake = trio.Event()

    @property
    def elsewhere(self) -> bool:
        """Whether questions leave this machine to be embedded."""
        return any(
            item is not None and item.embedder == "endpoint"
            for item in (self._change.used, self._change.other)
        )

    def hold(self, library: Library, sign_by: Callable[[Fingerprint], Sign]) -> None:
        """Let the library search by the other model, too, if there is one."""
        self._library, self._sign_by = library, sign_by
        if self.other is not None:
            library.hold(self.other, sign_by(self.other.fingerprint))

    def attach(self, core: NodeCore, policy: PolicyFile, limiter: trio.CapacityLimiter) -> None:
        """Have a core answer by both models, before it runs.

        Args:
            core: The core.
            policy: Rules whose example questions the model in use embeds.
            limiter: Of the threads that embed what goes into the library or out of the node.
        """
        self._core, self._policy, self._limiter = core, policy, limiter
        core.embed_texts = self._embed_texts
        if self._change.arrived and self.other is not None:
            core.hold(self.other.fingerprint, HeldCorpus(self._library))

    def embed_question(self, text: str) -> dict[str, Vector]:
        """Embeddings of a question as they are transmitted, by digest of the model; blocks.

        Raises:
            EmbeddingError: The model in use cannot embed it.
        """
        embedder, other = self.embedder, self.other
        vectors = {embedder.fingerprint.digest(): transmitted(embedder.embed_query(text))}
        if other is not None and self._core.held is not None:
            try:
                vectors[other.fingerprint.digest()] = transmitted(other.embed_query(text))
            except EmbeddingError as error:  # those that lack the model in use are not asked
                logger.warning("a question is embedded by one model only: %s", error)
        return vectors

    async def _embed_texts(self, texts: Sequence[str], digest: str) -> Sequence[Vector]:
        """Embed texts of whatever length by the model of this digest."""
        models = {item.fingerprint.digest(): item for item in (self.embedder, self.other) if item}
        embedder = models.get(digest)
        if embedder is None:
            raise EmbeddingError("the embedding model has just been changed")

        def embed() -> Sequence[Vector]:
            return [transmitted(embedder.embed_query(text)) for text in texts]

        return await trio.to_thread.run_sync(embed, limiter=self._limiter)

    # Going over.

    async def begin(self, table: dict[str, Any]) -> dict[str, Any]:
        """Begin to go over to another model; the status.

        Args:
            table: Its settings, as in the table `[embedding]`.

        Raises:
            ConfigError, EmbedderUnavailable: As `open_embedder`.
            UsageError: The node goes over to a model already, uses it, or the roster does not name
                it.
        """
        settings = EmbeddingConfig.from_table(table)
        embedder = await trio.to_thread.run_sync(open_embedder, settings)
        fingerprint = embedder.fingerprint
        async with self._lock:
            if self.other is not None:
                raise UsageError(
                    f"there is another model already, {self.other.fingerprint}: first run "
                    "`zerorag migrate` with --finish or --cancel"
                )
            if fingerprint == self.embedder.fingerprint:
                raise UsageError(f"{fingerprint} is in use already")
            if fingerprint not in self._named():
                raise UsageError(
                    f"the roster does not name {fingerprint}: the consortium's authority adds it "
                    "by `zerorag consortium renew --next-model`"
                )
            await trio.to_thread.run_sync(self._library.hold, embedder, self._sign_by(fingerprint))
            self.other = embedder
            self._embedded_at = -1
            self._progress = await trio.to_thread.run_sync(self._library.held_progress)
            self._keep(
                ModelChange(
                    configured=self._configured,
                    used=self._change.used,
                    other=settings,
                    arrived=False,
                )
            )
        logger.info("going over to %s", fingerprint)
        self._wake.set()
        return self._require_status()

    async def finish(self) -> dict[str, Any]:
        """Delete what is left of the old model; the status.

        Raises:
            UsageError: The next model is not in use yet.
        """
        self._pass.cancel()
        async with self._lock:
            if self.other is None:
                raise UsageError("there is one embedding model only")
            if not self._change.arrived:
                raise UsageError(
                    f"{self.other.fingerprint} is not in use yet: everything has to be embedded, "
                    "and the roster to prefer it"
                )
            await self._let_go()
        return self._require_status()

    async def cancel(self) -> dict[str, Any]:
        """Stay with the model in use, and delete what the next one embedded; the status.

        Raises:
            UsageError: The next model is in use already, or there is none.
        """
        self._pass.cancel()
        async with self._lock:
            if self.other is None or self._change.arrived:
                raise UsageError("the node does not go over to another embedding model")
            await self._let_go()
        return self._require_status()

    async def _let_go(self) -> None:
        assert self.other is not None, "there are two models"
        gone, self.other = self.other.fingerprint, None
        self._core.release_held()
        await trio.to_thread.run_sync(self._library.release_held)
        self._keep(
            ModelChange(
                configured=self._configured,
                used=self._change.used,
                other=None,
                arrived=self._change.arrived,
            )
        )
        logger.info("vectors of %s are deleted", gone)

    def _keep(self, change: ModelChange) -> None:
        self._change = change
        if change.other is None and change.used == change.configured:
            self._home.model_change.unlink(missing_ok=True)
        else:
            write_model_change(self._home.model_change, change)

    async def run(self) -> None:
        """Embed what is to be embedded, and follow the roster, until cancelled."""
        while True:
            if self.other is not None:
                async with self._lock:
                    with trio.CancelScope() as self._pass:
                        try:
                            await self._advance()
                            self._fault = ""
                        except LocalError as error:
                            if str(error) != self._fault:
                                logger.error("going over to another model is held up: %s", error)
                            self._fault = str(error)
            with trio.move_on_after(self._interval_s):
                await self._wake.wait()
                self._wake = trio.Event()

    async def _advance(self) -> None:
        if self.other is None:
            return
        generation = self._library.generation
        if generation != self._embedded_at:
            await trio.to_thread.run_sync(self._library.embed_held, self._note)
            if self._progress.missing:
                return
            self._embedded_at = generation
        if self._core.held is None:
            self._core.hold(self.other.fingerprint, HeldCorpus(self._library))
            logger.info("answering by %s, too", self.other.fingerprint)
        named = self._named()
        both = (self.embedder.fingerprint, self.other.fingerprint)
        preferred = next((item for item in named if item in both), None)
        if preferred == self.other.fingerprint:
            await self._prefer(self.other)
        if self._change.arrived and self.other.fingerprint not in named:
            await self._let_go()

    def _note(self, progress: HeldProgress) -> None:
        trio.from_thread.check_cancelled()
        self._progress = progress

    async def _prefer(self, embedder: Embedder) -> None:
        """Use the other model from now on."""
        used, other = self._change.other, self._change.used
        assert used is not None, "there are two models"

        def switch(swap: Callable[[], None], take_rules: Callable[[], None]) -> None:
            swap()
            self._core.prefer_held()
            take_rules()
            self.embedder, self.other = embedder, self.embedder

        # The library waits for whoever adds to it, and the core changes in the same moment.
        async def when_ready(take_rules: Callable[[], None]) -> None:
            await trio.to_thread.run_sync(
                self._library.prefer_held,
                lambda swap: trio.from_thread.run_sync(switch, swap, take_rules),
                limiter=self._limiter,
            )

        with trio.CancelScope(shield=True):
            await self._policy.change_embedder(embedder, when_ready)
            self._keep(
                ModelChange(
                    configured=self._configured,
                    used=used,
                    other=other,
                    arrived=not self._change.arrived,
                )
            )
        logger.warning("the embedding model in use is %s from now on", embedder.fingerprint)
        self._embedded_at = -1
        await trio.to_thread.run_sync(partial(self._library.embed_missing))

    def _named(self) -> tuple[Fingerprint, ...]:
        roster = self._core.directory.roster
        return (*roster.fingerprints_current, *roster.fingerprints_next)

    def status(self) -> dict[str, Any] | None:
        """How far going over is, ready for JSON; None where nothing of the kind goes on."""
        if self.other is None and self._change.used == self._change.configured:
            return None
        return self._require_status()

    def _require_status(self) -> dict[str, Any]:
        stage = "finished"
        if self.other is not None and self._change.arrived:
            stage = "in use"
        elif self.other is not None:
            stage = "embedding" if self._core.held is None else "answering"
        return {
            "stage": stage,
            "used": self.embedder.fingerprint.to_map(),
            "other": None if self.other is None else self.other.fingerprint.to_map(),
            "sources": self._progress.sources,
            "done": self._progress.done,
            "refused": self._progress.refused,
            "fault": self._fault,
        }
