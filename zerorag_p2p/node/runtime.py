"""A node: one peer on a real network, with its library, sessions and timers.

async with Node("/srv/zerorag") as node:
report = await node.query("Which dose for impaired renal function?")
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import trio

from zerorag_p2p.audit.events import AnsweringPaused
from zerorag_p2p.config import KEPT_ANSWERS, MAX_ROSTER_BYTES, NodeConfig
from zerorag_p2p.embedding.embedder import Embedder
from zerorag_p2p.errors import (
    AttributionError,
    ConfigError,
    DecodeError,
    EmbedderUnavailable,
    LibraryError,
    LocalError,
    UsageError,
)
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.identity.attribution import open_statement
from zerorag_p2p.identity.expiry import Ending
from zerorag_p2p.identity.keys import Identity, parse_peer_id
from zerorag_p2p.identity.roster import Roster, open_roster
from zerorag_p2p.library.library import Library
from zerorag_p2p.model import (
    CONTENT_HASH_DIGITS,
    ContentHash,
    Fingerprint,
    PeerId,
    Purpose,
    ScoredDocument,
    Vector,
    View,
)
from zerorag_p2p.node.audit_entries import copy_kept, policy_in_force, roster_in_force
from zerorag_p2p.node.auditing import NodeAudit
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.files import HomeLock, load_identity, load_peer_id, local_secret
from zerorag_p2p.node.following import FolderFollower
from zerorag_p2p.node.happenings import Observer
from zerorag_p2p.node.keeping import Keeper, KeptCopy
from zerorag_p2p.node.libp2p_network import Libp2pNetwork
from zerorag_p2p.node.models import Models
from zerorag_p2p.node.network import Network
from zerorag_p2p.node.pausing import Pause, read_pause, remove_pause, write_pause
from zerorag_p2p.node.policies import PolicyFile, load_grants, save_grants
from zerorag_p2p.node.process import process_figures
from zerorag_p2p.node.querying import RedactedQuestion
from zerorag_p2p.node.redactor import open_redaction, warn_of_unknown
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus, ProgressCallback, QueryReport
from zerorag_p2p.node.rotation import complete_rotation, due_key, find_predecessor
from zerorag_p2p.node.signing import StatementSigner, statement_signer
from zerorag_p2p.node.state import STATE_LIMIT
from zerorag_p2p.node.withdrawals import Withdrawals
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.outbound import Sending
from zerorag_p2p.redaction.redaction import Redacted, redact, rule_ids

logger = logging.getLogger("zerorag.node")

_DAY_S: Final = 86_400


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
        keeper: Puts copies of others' documents into it. Its methods block, too.
        follower: Follows the folders that are watched.
        policy: The file of our rules.
        superseded: Set when another key takes the place of ours: the node has to end, and its home
            to be started anew.
        models: The embedding model in use, and going over to another one.
        audit: The log of what is asked, answered and given.
    """

    audit: NodeAudit
    core: NodeCore
    follower: FolderFollower
    keeper: Keeper
    library: Library
    models: Models
    policy: PolicyFile

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
        self.superseded = trio.Event()
        self._saved_state = b""
        # Documents of the last answers, by audit reference, in case copies shall be kept.
        self._answers: dict[str, tuple[AnswerDocument, ...]] = {}

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
        signed_roster = self._read_roster()
        roster = open_roster(signed_roster)
        next_key = due_key(self.home, roster, self._clock())
        identity = load_identity(next_key or self.home.key)
        directory = Directory(identity.peer_id, roster, signed_roster)
        bootstrap = self._configure_bootstrap(directory)
        self.models = Models(
            self.home,
            self.config.embedding,
            interval_s=self.config.network.maintenance_interval_s,
        )
        withdrawals = Withdrawals(
            identity,
            directory.roster.consortium,
            self._clock,
            clock_tolerance_s=self.config.network.clock_tolerance_s,
            path=self.home.withdrawals,
            predecessor=find_predecessor(
                self.home, roster, self._clock(), going_over=next_key is not None
            ),
        )
        redaction = open_redaction(self.config.redaction)

        def sign_by(fingerprint: Fingerprint) -> StatementSigner:
            return statement_signer(
                identity,
                fingerprint,
                directory.roster.consortium,
                self._clock,
                not_before=withdrawals.not_before,
            )

        self.library = Library(
            self.home.library,
            self.embedder,
            sign_by(self.embedder.fingerprint),
            retract=withdrawals.retract,
            redaction=redaction,
        )
        stack.callback(self.library.close)
        self.models.hold(self.library, sign_by)
        await self._index_words()
        warn_of_unknown(redaction, self.library.collections())
        self.keeper = Keeper(
            identity,
            self.library,
            lambda: self.embedder,
            self._clock,
            withdrawn=withdrawals.covers,
        )
        self.follower = FolderFollower(self.library, self._clock)
        if next_key is not None:
            await trio.to_thread.run_sync(self._go_over_to, identity)
        self.audit = NodeAudit.open(
            self.home,
            identity,
            self.config.audit,
            clock=self._clock,
            admits=lambda peer: directory.admits(peer, self._clock()),
        )
        stack.callback(self.audit.close)
        guard = Guard()
        load_grants(self.home, guard)
        self.policy = PolicyFile(self.home, guard, self.embedder, self._clock)
        await trio.to_thread.run_sync(self.policy.load)
        paused = read_pause(self.home.pause)
        self._record_start(directory, guard, paused)
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
            redaction=redaction,
            guard=guard,
            pseudonym_secret=local_secret(self.home.pseudonym_key),
            audit=self.audit,
            withdrawals=withdrawals,
        )
        self.models.attach(self.core, self.policy, self._embedding_limiter)
        self.policy.activity = self.core.activity
        self.core.service.emergencies.on_changed = lambda: save_grants(self.home, guard)
        self.core.service.pause = paused
        self._restore()
        stack.callback(self._save)
        await stack.enter_async_context(self.core.running())
        self._started_at = self._clock()
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        nursery.start_soon(self._save_regularly)
        nursery.start_soon(self._warn_daily)
        nursery.start_soon(self._await_rotation)
        nursery.start_soon(self.policy.watch, self.config.network.maintenance_interval_s)
        nursery.start_soon(trio.to_thread.run_sync, self._embed_missing)
        nursery.start_soon(self._drop_ended)
        nursery.start_soon(self._save_withdrawals)
        nursery.start_soon(self.follower.run)
        nursery.start_soon(self.models.run)
        logger.info("%s (%s) is running", self.organisation, self.peer_id)

    def _record_start(self, directory: Directory, guard: Guard, paused: Pause | None) -> None:
        """Record what may have changed while the node did not run."""
        assert directory.signed_roster is not None, "a node has the roster as it was signed"
        self.audit.record(roster_in_force(directory.roster, directory.signed_roster))
        self.audit.record(
            policy_in_force(
                str(self.policy.status()["sha256"]),
                rules=len(guard.policy.rules),
                outbound=len(guard.policy.outbound),
            )
        )
        if paused is not None:
            self.audit.record(AnsweringPaused(paused=True, reason=paused.reason))

    def _go_over_to(self, successor: Identity) -> None:
        """End the rotation of the key: sign our documents anew, then put the next key in place."""
        peer = successor.peer_id
        count = self.library.sign_again(lambda link: open_statement(link).owner != peer)
        complete_rotation(self.home)
        logger.warning("the key is %s from now on; %d documents were signed anew", peer, count)

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

    def _embed_missing(self) -> None:
        """Embed what the model or the redaction of before embedded; then look after graphs."""
        try:
            self.library.embed_missing()
        except EmbedderUnavailable as error:
            logger.error("documents without an embedding are not found: %s", error)
            self.library.maintain()

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
        self.core.withdrawals.save()

    async def _save_regularly(self) -> None:
        while True:
            await trio.sleep(self.config.network.save_interval_s)
            self._save()

    async def _save_withdrawals(self) -> None:
        while True:
            await trio.sleep(self.config.network.maintenance_interval_s)
            await trio.to_thread.run_sync(self.core.withdrawals.save)

    # What ends with time.

    async def _drop_ended(self) -> None:
        """Delete copies that their owners' terms or withdrawals have ended, now and regularly."""
        for withdrawal in self.core.withdrawals.all():  # that a crash left no time to follow
            await trio.to_thread.run_sync(self.library.drop_withdrawn, withdrawal)
        while True:
            try:
                dropped = await trio.to_thread.run_sync(self.library.drop_ended, self._clock())
            except LibraryError as error:
                logger.error("what has ended is not deleted: %s", error)
            else:
                if dropped:
                    logger.info("deleted or unshared after the end of their terms: %d", dropped)
            await trio.sleep(self.config.network.save_interval_s)

    def watch_endings(self, endings: Callable[[], Sequence[Ending]]) -> None:
        """Warn of what else ends, in the status and daily in the log."""
        self.core.other_endings = endings
        kinds = {what for what, _, _ in endings()}
        for expiry in self.core.expiring():
            if expiry.what in kinds:
                logger.warning("%s", expiry.sentence)

    async def _warn_daily(self) -> None:
        while True:
            for expiry in self.core.expiring():
                logger.warning("%s", expiry.sentence)
            await trio.sleep(_DAY_S)

    async def _index_words(self) -> None:
        try:
            await trio.to_thread.run_sync(self.library.index_words, self.config.asking.words)
        except LibraryError as error:  # vectors find documents without it
            logger.warning("%s", error)

    async def _await_rotation(self) -> None:
        # Time alone makes a key due.
        while due_key(self.home, self.core.directory.roster, self._clock()) is None:  # noqa: ASYNC110
            await trio.sleep(self.config.network.maintenance_interval_s)
        logger.warning("a new key takes the place of ours: the node has to start anew")
        self.superseded.set()

    # Answering nobody.

    def pause(self, reason: str = "") -> Pause:
        """Refuse every query, fetch and request for our advertisement until `resume`.

        Gossip passes on no advertisements meanwhile. It lasts across restarts; our own queries and
        the rest of gossip go on.

        Args:
            reason: Every peer that asks sees it.

        Raises:
            UsageError: The reason is too long, or holds a character that cannot be printed.
        """
        pause = Pause(self._clock(), reason)
        write_pause(self.home.pause, pause)
        self.core.set_pause(pause)
        return pause

    def resume(self) -> None:
        """Answer again; without effect if the node is not paused."""
        remove_pause(self.home.pause)
        if self.core.service.pause is not None:
            self.core.set_pause(None)

    # What applications use.

    @property
    def embedder(self) -> Embedder:
        """The embedding model in use."""
        return self.models.embedder

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
        reason: str = "",
        marks: Sequence[str] = (),
        at_least: float | None = None,
        first: float | None = None,
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
            reason: Why emergency access is asked for; the owners' people see it.
            marks: What our own rules on questions know this one by.
            at_least: With the view count: how similar a document has to be to be counted.
            first: Score of a document that is enough: the search ends with it.
            on_progress: Told of every contact; must not block.

        Raises:
            UsageError: An argument is out of range.
            ConfigError: There is no algorithm or rule of that name, or our own rules name a
                redaction that there is not.
            EmbeddingError: The question cannot be embedded.
            PolicyDenied: Our own rules let the question not be sent, since redacting it failed.
        """
        by_model, redacted = await self._embed_redacted(text, purpose, marks)
        report = await self.core.query(
            text,
            next(iter(by_model.values())),
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
            reason=reason,
            marks=marks,
            at_least=at_least,
            first=first,
            redacted=redacted,
            by_model=by_model,
            on_progress=on_progress,
        )
        self._answers[report.audit] = report.documents
        if len(self._answers) > KEPT_ANSWERS:
            del self._answers[next(iter(self._answers))]
        return report

    async def _embed_redacted(
        self, text: str, purpose: Purpose, marks: Sequence[str]
    ) -> tuple[dict[str, Vector], RedactedQuestion | None]:
        """Embed what our own rules leave of a question.

        Rules that are about it whatever it says redact it before it is embedded at all. For rules
        on example questions it has to be embedded first; where that is not done on this machine,
        all of them redact it that may be about it.

        Returns:
            Embeddings by digest of the model, by which rules are chosen, and what is sent; None for
            the latter where nothing was to be redacted.
        """
        sending = self._sending_maybe(purpose, marks)
        names = sending.redact if self.models.elsewhere else sending.redact_anyway
        first = self._redact(text, names)
        by_model = await self._embed(first.text)
        wanted = self.core.sending(
            next(iter(by_model.values())), purpose=purpose, marks=marks
        ).redact
        if set(wanted) <= set(names):
            sent = RedactedQuestion(first.text, by_model, first.rules) if names else None
            return by_model, sent
        left = self._redact(text, tuple(dict.fromkeys((*names, *wanted))))
        return by_model, RedactedQuestion(left.text, await self._embed(left.text), left.rules)

    def _redact(self, text: str, names: Sequence[str]) -> Redacted:
        redactor = self.core.redaction.redactor
        return redact(text, redactor, rule_ids(names, redactor, "redact"))

    async def _embed(self, text: str) -> dict[str, Vector]:
        """Embeddings by digest of the model, the one in use first."""
        if not text.strip():
            raise UsageError("the question is empty")
        return await trio.to_thread.run_sync(
            self.models.embed_question, text, limiter=self._embedding_limiter
        )

    async def embed_question(
        self, text: str, *, purpose: Purpose = Purpose.TREAT, marks: Sequence[str] = ()
    ) -> Vector:
        """The embedding of a question as it is transmitted, [d].

        It is of the whole text where that stays on this machine, else of what is left by our own
        rules that may be about the question.

        Args:
            text: The question.
            purpose: Purpose of use.
            marks: What our own rules on questions know this one by.

        Raises:
            UsageError: It is empty.
            EmbeddingError: It cannot be embedded.
            ConfigError: Our own rules name a redaction that there is not.
            RedactionError: Redacting it failed.
        """
        if self.models.elsewhere:
            text = self._redact(text, self._sending_maybe(purpose, marks).redact).text
        return next(iter((await self._embed(text)).values()))

    def _sending_maybe(self, purpose: Purpose, marks: Sequence[str]) -> Sending:
        """What our own rules may say about a question, whatever its text is."""
        return self.core.sending(None, purpose=purpose, marks=marks)

    async def search_own(self, embedding: Vector, k: int) -> list[ScoredDocument]:
        """The k documents of our own library that are most similar to a question, best first."""
        return await trio.to_thread.run_sync(
            partial(
                self.library.search,
                embedding,
                k,
                admit_collection=lambda _: True,
                admit=lambda _: True,
            )
        )

    async def search_own_both(
        self, embedding: Vector, question: str, k: int
    ) -> list[ScoredDocument]:
        """As `search_own`, by similarity and by words at once; needs `asking.words`."""
        return await trio.to_thread.run_sync(self.library.search_both, embedding, question, k)

    async def own_documents(
        self, found: Sequence[ScoredDocument], *, purpose: Purpose, audit: str
    ) -> list[AnswerDocument]:
        """What `search_own` found, with texts and proofs; without what was removed meanwhile.

        Args:
            found: The documents.
            purpose: What they are used for.
            audit: Reference of the question.
        """
        return await trio.to_thread.run_sync(self._own_documents, found, purpose, audit)

    def _own_documents(
        self, found: Sequence[ScoredDocument], purpose: Purpose, audit: str
    ) -> list[AnswerDocument]:
        documents = []
        for item in found:
            for stored in self.library.get(item.content_hash):
                try:
                    document = self.core.own_document(
                        self.library.read(stored),
                        stored.links,
                        score=item.score,
                        purpose=purpose,
                        audit=audit,
                    )
                except (AttributionError, LibraryError) as error:
                    logger.info("%s is left out of an answer: %s", item.content_hash, error)
                    continue
                documents.append(document)
                break
        return documents

    async def get(
        self,
        content_hash: str,
        *,
        peer: PeerId | None = None,
        purpose: Purpose = Purpose.TREAT,
        reason: str = "",
    ) -> AnswerDocument:
        """One document: our own, or fetched from `peer` and verified.

        Args:
            content_hash: Content hash in hexadecimal; the first digits, at least 8, suffice for
                a document of our own.
            peer: Where to fetch it, if it is not ours.
            purpose: Purpose of use; the owner decides by it.
            reason: Why emergency access is asked for; the owner's people see it.

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
        return await self.fetch(content_hash, peer, purpose=purpose, reason=reason)

    async def fetch(
        self,
        content_hash: str,
        peer: PeerId,
        *,
        purpose: Purpose = Purpose.TREAT,
        reason: str = "",
    ) -> AnswerDocument:
        """One document fetched from `peer` and verified. Arguments and errors as for `get`."""
        return await self.core.fetch(
            ContentHash(content_hash), peer, purpose=purpose, reason=reason
        )

    async def keep_answer(self, audit: str, collection: str) -> list[KeptCopy]:
        """Keep copies of the documents of one of the last answers; see `keep`.

        Args:
            audit: The answer's audit reference.
            collection: Ours that they go to.

        Raises:
            UsageError: It is not one of the last answers.
        """
        documents = self._answers.get(audit)
        if documents is None:
            raise UsageError(
                f"{audit!r} is none of the last {KEPT_ANSWERS} answers: ask again, or fetch the "
                "documents one by one"
            )
        return [await self.keep(document, collection) for document in documents]

    def withdrawals(self) -> list[dict[str, Any]]:
        """What owners took back, as far as we know, ready for JSON."""
        return [
            {
                **withdrawal.to_json(),
                "organisation": self.core.directory.organisation(withdrawal.owner),
            }
            for withdrawal in self.core.withdrawals.all()
        ]

    async def keep(self, document: AnswerDocument, collection: str) -> KeptCopy:
        """Keep a copy of a document of an answer, if its owner allows that.

        Args:
            document: As `query` or `get` returned it.
            collection: Ours that it goes to; made, and not shared, if there is none of this name.

        Raises:
            AuditError: It cannot be recorded.
            EmbeddingError: It cannot be embedded.
            LibraryError: The collection cannot have this name.
        """
        copy = await trio.to_thread.run_sync(
            self.keeper.keep, document, collection, limiter=self._embedding_limiter
        )
        if copy.kept:
            self.audit.record(copy_kept(document, collection))
            await self.audit.commit()
        return copy

    def _own_document(self, content_hash: ContentHash) -> AnswerDocument:
        held = self.library.held(content_hash)
        if not held:
            raise LibraryError(
                f"{content_hash} has no embedding of the model in use; see `zerorag docs add`"
            )
        stored = held[0]
        document = self.library.read(stored)
        own = self.core.directory.name(self.peer_id)
        owner = own if stored.copy is None else self.core.directory.name(stored.copy.owner)
        return AnswerDocument(
            content_hash=content_hash,
            status=DocumentStatus.VERIFIED,
            score=1.0,
            score_verified=True,
            owner=owner,
            holder=own,
            collection=stored.collection,
            title=document.title,
            text=document.text,
            part=document.part,
            parts=document.parts,
            content=document.content(),
            attribution=stored.links,
            metadata=document.metadata,
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
            "next_key": self._next_key(),
            "policy": self.policy.status(),
            "migration": self.models.status(),
            "process": process_figures(),
        }

    def _next_key(self) -> dict[str, Any] | None:
        """The key that is to take the place of ours, ready for JSON."""
        if not self.home.next_key.exists():
            return None
        peer = load_peer_id(self.home.next_key)
        state = self.core.directory.standing(peer, self._clock())
        return {"peer_id": peer, "standing": state.value}

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
