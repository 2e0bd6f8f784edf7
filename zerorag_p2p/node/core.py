"""The core of a node: one peer on a network, without files, sockets of its own or an embedder.

`node.runtime.Node` puts a home, a library on disk and a real network around it; a testnet runs many
cores in one process.
"""

from __future__ import annotations

import hashlib
import logging
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import trio

from zerorag_p2p import __version__
from zerorag_p2p.audit.events import AnsweringPaused
from zerorag_p2p.config import (
    MAX_BUDGET,
    MAX_FANOUT,
    MAX_K,
    MAX_REASON_BYTES,
    NodeConfig,
    RoutingConfig,
)
from zerorag_p2p.errors import (
    AttributionError,
    EmbeddingError,
    NetworkError,
    PolicyDenied,
    UsageError,
)
from zerorag_p2p.identity.expiry import Ending, Expiry, expiring
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.identity.release import sign_release
from zerorag_p2p.identity.roster import Roster, accept_roster, roster_state
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.membership.detector import PeerState
from zerorag_p2p.membership.membership import Membership
from zerorag_p2p.model import (
    ContentHash,
    Document,
    Fingerprint,
    PeerId,
    Purpose,
    RefusalCode,
    Score,
    Vector,
    View,
)
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.audit_entries import (
    documents_withdrawn,
    entry_of,
    fetch_received,
    roster_in_force,
)
from zerorag_p2p.node.auditing import Audit, NoAudit
from zerorag_p2p.node.checking import DocumentChecker
from zerorag_p2p.node.contacts import Failure, Outcome
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.gossiping import Gossip
from zerorag_p2p.node.happenings import Happening
from zerorag_p2p.node.neighborhood import Neighborhood
from zerorag_p2p.node.network import ConnectionEvent, Network, ProtocolLimits
from zerorag_p2p.node.outgoing import (
    AdvertisementOpener,
    Exchanges,
    SealedAdvertisement,
    Traffic,
    open_advertisement,
)
from zerorag_p2p.node.pausing import Pause
from zerorag_p2p.node.querying import GOOD_ENOUGH, Querier, QuerySettings, RedactedQuestion
from zerorag_p2p.node.reports import (
    AnswerDocument,
    DocumentStatus,
    ProgressCallback,
    QueryReport,
    joined,
)
from zerorag_p2p.node.serving import Holdings, Service
from zerorag_p2p.node.sessions import Sessions
from zerorag_p2p.node.sketching import Sketching
from zerorag_p2p.node.state import encode_state, restore_state
from zerorag_p2p.node.withdrawals import Withdrawals
from zerorag_p2p.peer import OtherModel, Peer, Searched
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.limits import Limits
from zerorag_p2p.policy.outbound import Sending, sending_of
from zerorag_p2p.redaction.redaction import Redaction
from zerorag_p2p.routing.strategy import Start, Strategy, strategy_from
from zerorag_p2p.routing.walk import Walk, float_score
from zerorag_p2p.wire.fetch import FetchedDocument, FetchRefused
from zerorag_p2p.wire.hello import Hello
from zerorag_p2p.wire.protocols import ADVERTISE, FETCH, GOSSIP, HELLO, LIMITS, QUERY, SUPPORTED

logger = logging.getLogger("zerorag.node")

#: Who asks where no user does.
_OWN_USER = "node"

#: Embeds texts by the model of this digest, as they are transmitted.
EmbedTexts: TypeAlias = Callable[[Sequence[str], str], Awaitable[Sequence[Vector]]]

#: Share of a query's time that asking by our model has, where some are to be asked by another.
_FIRST_SHARE = 0.6

#: Guess of what a round trip takes in a wide area network.
_UNKNOWN_ROUND_TRIP_S = 0.1


class NodeCore:
    """One peer of a consortium.

    Args:
        identity: Our key.
        directory: Who else belongs, by the roster.
        network: Carries the messages; not yet running, and gated by `directory`.
        holdings: Our documents.
        fingerprint: Of the model that every embedding comes from.
        config: Settings.
        bootstrap: Peers to ask first for a start.
        clock: Unix seconds.
        randomness: Decides the order of exploration and whom gossip goes to.
        on_roster: Keeps a newer signed roster that was taken over.
        open_advertisement: How advertisements of other peers are verified.
        withdrawals: What owners took back; by default kept in memory only.
        guard: Decides what is let out, and whom questions go to; by default by how collections are
            shared, and to everybody.
        pseudonym_secret: What the pseudonyms of single questions are made with.
        redaction: What of our documents does not leave; by default all that is shared may.
        audit: Where it is recorded what is asked, answered and given; by default nowhere.

    Attributes:
        fingerprint: Of the model that we route and ask by.
        held: Of a second one, by which we answer, and ask those that lack the first.
        embed_texts: Embeds texts by the first, given its digest, where we ask by both.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        directory: Directory,
        network: Network,
        holdings: Holdings,
        fingerprint: Fingerprint,
        config: NodeConfig,
        bootstrap: Sequence[PeerId],
        clock: Callable[[], float],
        randomness: random.Random,
        on_roster: Callable[[bytes], None] = lambda _: None,
        open_advertisement: AdvertisementOpener = open_advertisement,
        withdrawals: Withdrawals | None = None,
        guard: Guard | None = None,
        pseudonym_secret: bytes = b"",
        redaction: Redaction | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.identity = identity
        self.directory = directory
        self.network = network
        self.fingerprint = fingerprint
        self.held: Fingerprint | None = None
        self.embed_texts: EmbedTexts | None = None
        self.config = config
        self._clock = clock
        self._on_roster = on_roster
        self._holdings = holdings
        if withdrawals is None:
            withdrawals = Withdrawals(
                identity,
                directory.roster.consortium,
                clock,
                clock_tolerance_s=config.network.clock_tolerance_s,
            )
        #: What ends of what the core knows nothing of.
        self.other_endings: Callable[[], Sequence[Ending]] = tuple
        self.withdrawals = withdrawals
        self._token: trio.lowlevel.TrioToken | None = None
        self.activity = Activity(directory, clock)
        self.limits = Limits(config.limits)
        self.guard = guard or Guard()
        self.redaction = redaction or Redaction()
        self.audit = audit or NoAudit()
        self._pseudonym_secret = pseudonym_secret or secrets.token_bytes(32)
        self.peer = Peer(
            identity.peer_id,
            holdings,
            config.routing,
            fingerprint=fingerprint.digest(),
            dimension=fingerprint.dimension,
            record_of=directory.record,
            preference=self._expected_round_trip,
            guard=self.guard,
            withholds=self.redaction.withholds_embeddings,
        )
        self.sessions = Sessions(
            network, directory, self._hello, config.network, clock, activity=self.activity
        )
        self.exchanges = Exchanges(
            network,
            self.sessions,
            config.network,
            self._on_outcome,
            activity=self.activity,
            open_advertisement=open_advertisement,
        )
        self.service = Service(
            identity=identity,
            directory=directory,
            sessions=self.sessions,
            peer=self.peer,
            holdings=holdings,
            settings=config.routing,
            clock=clock,
            activity=self.activity,
            limits=self.limits,
            guard=self.guard,
            redaction=self.redaction,
            audit=self.audit,
        )
        self._sketching = Sketching(
            peer=self.peer,
            own=lambda: SealedAdvertisement(*self.service.own_advertisement()),
            admits=lambda peer: directory.admits(peer, clock()),
            is_alive=lambda peer: self.membership.state(peer) is PeerState.ALIVE,
            record_of=directory.record,
            learn=directory.learn,
            open_advertisement=open_advertisement,
            settings=config.membership,
            routing=config.routing,
            clock_tolerance_s=config.network.clock_tolerance_s,
            clock=clock,
            randomness=randomness,
        )
        self.membership = Membership(
            identity.peer_id,
            config.membership,
            sign=lambda sequence: sign_record(identity, self.addresses(), sequence),
            admit=lambda peer: directory.admits(peer, clock()),
            introductions=list(dict.fromkeys([*bootstrap, *directory.members(clock())])),
            roster_version=directory.roster.version,
            members=len(directory.roster.members),
            randomness=randomness,
            near=self._sketching.near if self._sketching.active else None,
            withdrawals_held=self.withdrawals.summary,
        )
        self._gossip = Gossip(
            membership=self.membership,
            peer=self.peer,
            sketching=self._sketching,
            withheld=self.service.withheld,
            directory=directory,
            sessions=self.sessions,
            exchanges=self.exchanges,
            import_roster=self.import_roster,
            on_died=self._forget,
            withdrawals=self.withdrawals,
            on_withdrawn=self._drop_withdrawn,
            clock=clock,
            tell=self.activity.tell,
            limits=self.limits,
            audit=self.audit,
        )
        self._neighborhood = Neighborhood(
            peer=self.peer,
            directory=directory,
            sessions=self.sessions,
            exchanges=self.exchanges,
            config=config,
            bootstrap=bootstrap,
            sample=lambda: [peer for peer, _ in self.membership.view()],
            offer=self._sketching.offer,
            forget_expired=self.service.forget_expired,
            clock=clock,
            randomness=randomness,
            activity=self.activity,
        )
        self._checker = DocumentChecker(
            identity.peer_id,
            directory,
            self.withdrawals,
            clock,
            clock_tolerance_s=config.network.clock_tolerance_s,
        )
        self._querier = Querier(
            exchanges=self.exchanges,
            directory=directory,
            peer=self.peer,
            checker=self._checker,
            settings=config.routing,
            clock=clock,
            randomness=randomness,
            tell=self.activity.tell,
            audit=self.audit,
        )
        handlers = {
            HELLO: self.sessions.answer_hello,
            QUERY: self.service.answer_query,
            ADVERTISE: self.service.answer_advertise,
            FETCH: self.service.answer_fetch,
            GOSSIP: self._gossip.answer,
        }
        for protocol, handler in handlers.items():
            network.serve(protocol, handler, ProtocolLimits(*LIMITS[protocol]))
        network.watch(self._on_connection)

    @property
    def peer_id(self) -> PeerId:
        """Our peer id."""
        return self.identity.peer_id

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take part in the network while the context is entered.

        Raises:
            NetworkError: An address to listen on cannot be used.
        """
        with self.activity.watching(self._record_happening):
            async with self.network.running():
                self._gossip.start()
                self._token = trio.lowlevel.current_trio_token()
                self.withdrawals.on_issued = self._publish_withdrawal
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self.audit.run)
                    self._nursery.start_soon(self._gossip.run)
                    self._nursery.start_soon(self._neighborhood.run)
                    yield
                    self._nursery.cancel_scope.cancel()
                    self.withdrawals.on_issued = lambda *_: None

    def _record_happening(self, happening: Happening) -> None:
        entry = entry_of(happening)
        if entry is not None:
            self.audit.record(entry)

    def _record_withdrawal(self, withdrawal: Withdrawal) -> None:
        name = self.directory.name(withdrawal.owner)
        self.audit.record(documents_withdrawn(withdrawal, name))

    def _publish_withdrawal(self, withdrawal: Withdrawal, sealed: bytes) -> None:
        """Tell others of a withdrawal of ours, from whatever thread it was made in."""
        assert self._token is not None, "withdrawals are published while the core runs"
        logger.info("we took back %s", withdrawal.describe())
        self._token.run_sync_soon(self._record_withdrawal, withdrawal)
        self._token.run_sync_soon(self._gossip.publish_withdrawal, sealed)

    def _drop_withdrawn(self, withdrawal: Withdrawal) -> None:
        """Follow the withdrawal of another owner."""
        owner = self.directory.organisation(withdrawal.owner) or withdrawal.owner
        dropped = self._holdings.drop_withdrawn(withdrawal)
        self._record_withdrawal(withdrawal)
        logger.info(
            "%s took back %s; copies deleted here: %d", owner, withdrawal.describe(), dropped
        )

    def addresses(self) -> tuple[str, ...]:
        """The multiaddrs that we tell others to dial, without the /p2p part."""
        return self.config.network.announce or self.network.addresses()

    def _hello(self) -> Hello:
        return Hello(
            consortium=self.directory.roster.consortium,
            roster_version=self.directory.roster.version,
            fingerprints=self.fingerprints,
            protocols=SUPPORTED,
            clock_ms=int(self._clock() * 1000),
            software=f"zerorag-p2p/{__version__}",
            record=self.membership.own_record or sign_record(self.identity, (), 0),
        )

    @property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """Of the models that others may ask us by, preferred first."""
        return (self.fingerprint,) if self.held is None else (self.fingerprint, self.held)

    # Going over to another model (node.models).

    def hold(self, fingerprint: Fingerprint, corpus: Searched) -> None:
        """Answer by a second model, too, and ask those by it that lack the first.

        Args:
            fingerprint: The second model.
            corpus: Searches by whichever of the two models is not in use, also after
                `prefer_held`.
        """
        self.held = fingerprint
        self.peer.other = OtherModel(fingerprint.digest(), fingerprint.dimension, corpus)
        self.sessions.end_all()

    def prefer_held(self) -> None:
        """Route and ask by the second model from now on, and hold the first.

        The holdings have to have the vectors of the second from now on.
        """
        assert self.held is not None, "a second model is held"
        assert self.peer.other is not None, "and queries are answered by it"
        self.fingerprint, self.held = self.held, self.fingerprint
        self.peer.change_model(
            self.fingerprint.digest(),
            self.fingerprint.dimension,
            other=OtherModel(self.held.digest(), self.held.dimension, self.peer.other.corpus),
        )
        self._sketching.start_afresh()
        self._neighborhood.start_afresh()
        self.sessions.end_all()

    def release_held(self) -> None:
        """Answer and ask by the first model only."""
        self.held = self.peer.other = None
        self.sessions.end_all()

    def _compares_only_by_held(self, peer: PeerId) -> bool:
        """Whether a peer is known to compare by the held model and not by ours."""
        theirs = self.sessions.fingerprints.get(peer, ())
        return self.held in theirs and self.fingerprint not in theirs

    def _on_connection(self, event: ConnectionEvent) -> None:
        if not event.connected:
            self.sessions.end(event.peer)

    def _on_outcome(self, peer: PeerId, outcome: Outcome, had_full_time: bool) -> None:
        if outcome is Outcome.TIMED_OUT and not had_full_time:
            return  # we gave up early, which says nothing about the peer
        self._neighborhood.on_outcome(peer, outcome)
        self._gossip.on_outcome(peer, outcome)
        if outcome is Outcome.TIMED_OUT:
            # A peer that accepts requests and does not answer may be frozen: a new connection
            # will tell, and nothing of the old one stays behind.
            self._nursery.start_soon(self.network.disconnect, peer)

    async def query(
        self,
        text: str,
        embedding: Vector,
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
        first: Score | None = None,
        redacted: RedactedQuestion | None = None,
        by_model: Mapping[str, Vector] | None = None,
        stop: Callable[[Walk], str | None] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> QueryReport:
        """Ask the consortium a question whose embedding is given as it will be transmitted.

        `runtime.Node.query` explains the arguments and errors. `stop` is a stopping rule of the
        caller's own, in the place of the algorithm's. `redacted` is what is sent in the place of
        the question, as the owner's rules ask for.
        `by_model` has the question's embeddings by every model in use, by digest, where there may
        be two: those that lack the first are asked by the second.
        """
        if by_model is not None:
            embedding = _by(self.fingerprint, by_model)
        sending = self.sending(embedding, purpose=purpose, marks=marks)
        if sending.redact and redacted is None:
            raise PolicyDenied(
                "the outbound rules ask for the question to be redacted, which cannot be done here"
            )
        defaults = self.config.routing
        strategy = self._strategy(routing, stopping)
        sent = by_model if redacted is None else redacted.by_model
        settings = QuerySettings(
            text=text,
            embedding=embedding if sent is None else _by(self.fingerprint, sent),
            fingerprint=self.fingerprint.digest(),
            k=_within("k", k, defaults.k, MAX_K),
            budget=_within("budget", budget, defaults.contact_budget, MAX_BUDGET),
            fanout=_within("fanout", fanout, strategy.fanout, MAX_FANOUT),
            timeout_s=timeout_s or self.config.network.query_timeout_s,
            purpose=purpose,
            view=view,
            user=user or _OWN_USER,
            strategy=strategy if stop is None else replace(strategy, stop=stop),
            remember=remember and sending.remember,
            at_least=at_least,
            first=first,
            reason=_one_line("reason", reason) or None,
            sent=text if redacted is None else redacted.text,
            removed=() if redacted is None else redacted.rules,
            sending=sending,
            pseudonym_secret=self._pseudonym_secret,
        )
        held = None if self.held is None or sent is None else sent.get(self.held.digest())
        if held is None:
            report, walk = await self._querier.run(settings, on_progress)
        else:
            report, walk = await self._ask_by_both(settings, held, on_progress)
        neighbor = self.peer.finish_query(walk, self._clock())
        if neighbor is not None:
            self._nursery.start_soon(self._neighborhood.adopt, neighbor)
            report = replace(report, new_neighbor=self.directory.name(neighbor))
        return report

    async def _ask_by_both(
        self, settings: QuerySettings, held: Vector, on_progress: ProgressCallback | None
    ) -> tuple[QueryReport, Walk]:
        """Ask by our model, then those that lack it by the held one, whose embedding is `held`.

        The scores of two models cannot be compared, so each has a walk of its own, and what the
        second one found is embedded by our model. It has no evidence: it asks whoever there is,
        within the budget.
        """
        assert self.held is not None, "a second model is held"
        # Whatever changes meanwhile, whoever is not asked by one model is asked by the other.
        digest = self.held.digest()
        put_off = {
            peer
            for peer in self.directory.members(self._clock())
            if self._compares_only_by_held(peer)
        }
        began = trio.current_time()
        share = _FIRST_SHARE if put_off else 1.0
        first, walk = await self._querier.run(
            replace(
                settings,
                budget=max(settings.budget - len(put_off), (settings.budget + 1) // 2),
                timeout_s=settings.timeout_s * share,
                among=lambda peer: peer not in put_off,
            ),
            on_progress,
        )
        no_common = RefusalCode.NO_COMMON_EMBEDDING
        asked = [item for item in first.contacts if item.code != no_common]
        put_off.update(item.peer for item in first.contacts if item.code == no_common)
        first = replace(first, budget=settings.budget, contacts=tuple(asked))
        left_s = settings.timeout_s - (trio.current_time() - began)
        budget = settings.budget - len(asked)
        if not put_off or budget < 1 or first.stopped == GOOD_ENOUGH:
            return first, walk
        if left_s <= 0:
            return replace(first, complete=False), walk
        second, _ = await self._querier.run(
            replace(
                settings,
                embedding=held,
                fingerprint=digest,
                budget=budget,
                timeout_s=left_s,
                strategy=replace(settings.strategy, start=Start.ROSTER, stop=_never),
                among=put_off.__contains__,
                part_of=first.audit,
            ),
            on_progress,
        )
        return joined(first, second, await self._scores(settings, second)), walk

    async def _scores(
        self, settings: QuerySettings, report: QueryReport
    ) -> dict[ContentHash, Score] | None:
        """Scores by our model of documents that the held one found; None if one has none."""
        documents = [item for item in report.documents if item.status is DocumentStatus.VERIFIED]
        texts = [item.text for item in documents]
        if self.embed_texts is None or not all(text.strip() for text in texts):
            return None
        try:
            vectors = await self.embed_texts(texts, settings.fingerprint)
        except EmbeddingError as error:
            logger.warning("answers by two models cannot be compared: %s", error)
            return None
        return {
            item.content_hash: float_score(settings.embedding, vector)
            for item, vector in zip(documents, vectors, strict=True)
        }

    def sending(
        self, embedding: Vector | None, *, purpose: Purpose, marks: Sequence[str] = ()
    ) -> Sending:
        """What the owner's rules say about a question of this embedding, or that they may say."""
        return sending_of(self.guard.policy, purpose=purpose, query=embedding, marks=marks)

    def _expected_round_trip(self, peer: PeerId) -> float:
        """Seconds until `peer` answers; of one never asked a guess, another one for each."""
        seconds = self.activity.figures.get(peer).round_trip_s
        if seconds is not None:
            return seconds
        digest = hashlib.sha256(f"{self.identity.peer_id} {peer}".encode()).digest()
        share = int.from_bytes(digest[:4], "big") / (1 << 32)
        return _UNKNOWN_ROUND_TRIP_S * (0.5 + share)

    def _strategy(self, routing: str | None, stopping: str | None) -> Strategy:
        settings = self.config.routing
        if routing is not None:
            settings = RoutingConfig(routing=routing)
        if stopping is not None:
            settings = replace(settings, stopping=stopping)
        return strategy_from(settings)

    async def fetch(
        self,
        content_hash: ContentHash,
        peer: PeerId,
        *,
        purpose: Purpose = Purpose.TREAT,
        reason: str = "",
    ) -> AnswerDocument:
        """Fetch one document from `peer` and verify it.

        Raises:
            PolicyDenied: The peer refuses it.
            NetworkError: The peer cannot be reached or does not answer.
            AttributionError: What it delivered does not verify.
            AuditError: It cannot be recorded.
        """
        stated = _one_line("reason", reason) or None
        reference = secrets.token_hex(8)
        traffic = Traffic()
        reply = None
        await self.audit.commit()
        try:
            reply = await self.exchanges.fetch(
                peer,
                [content_hash],
                purpose=purpose,
                view=View.PASSAGE,
                user=_OWN_USER,
                audit=reference,
                timeout_s=self.config.network.request_timeout_s,
                traffic=traffic,
                reason=stated,
            )
        finally:
            self.audit.record(
                fetch_received(
                    [content_hash],
                    reply,
                    reference=reference,
                    holder=self.directory.name(peer),
                    user=_OWN_USER,
                    purpose=purpose,
                    view=View.PASSAGE,
                    traffic=traffic,
                )
            )
        await self.audit.commit()
        if isinstance(reply, Failure):
            raise NetworkError(f"{peer}: {reply.reason}")
        (item,) = reply
        if isinstance(item, FetchRefused):
            raise PolicyDenied(f"{peer} refused the document: {item.reason}")
        return self._checker.check_delivery(item, peer, score=1.0, score_verified=False)

    def no_longer_verified(self, documents: Iterable[AnswerDocument]) -> list[ContentHash]:
        """Those of the verified documents of an earlier answer that do not verify any more."""
        gone = []
        for document in documents:
            if document.status is DocumentStatus.VERIFIED:
                try:
                    self._checker.check_again(document)
                except AttributionError as error:
                    logger.info("%s is not used again: %s", document.content_hash, error)
                    gone.append(document.content_hash)
        return gone

    def own_document(
        self,
        document: Document,
        links: tuple[bytes, ...],
        *,
        score: Score,
        purpose: Purpose,
        audit: str,
    ) -> AnswerDocument:
        """A document of our own holdings, released to ourselves: it proves itself as others do.

        Args:
            document: The document.
            links: Its attribution.
            score: Cosine similarity with the question.
            purpose: What it is used for.
            audit: Reference of the question.

        Raises:
            AttributionError: It may not be used: the terms of a copy have ended, for instance.
        """
        content, content_hash = document.content(), document.content_hash()
        release = sign_release(
            self.identity,
            content,
            content_hash=content_hash,
            view=View.WHOLE,
            receiver=self.peer_id,
            purpose=purpose,
            audit=audit,
            now=self._clock(),
        )
        item = FetchedDocument(
            content_hash=content_hash, content=content, attribution=links, release=release
        )
        return self._checker.check_delivery(item, self.peer_id, score=score, score_verified=True)

    async def import_roster(self, data: bytes) -> Roster:
        """Judge by a newer roster from now on; those it excludes are disconnected and forgotten.

        Raises:
            RosterError: The roster may not follow the present one, with the reason.
        """
        roster = accept_roster(self.directory.roster, data, self._clock())
        self._on_roster(data)
        await self.replace_roster(roster, data)
        return roster

    async def replace_roster(self, roster: Roster, data: bytes) -> None:
        """Judge by another roster, decoded and verified already; see `import_roster`."""
        self.directory.replace_roster(roster, data)
        self.audit.record(roster_in_force(roster, data))
        self._gossip.on_roster_changed()
        now = self._clock()
        neighbors = {neighbor.peer for neighbor in self.peer.neighbors}
        for peer in sorted(self.network.connected() | neighbors | set(self.peer.sketches)):
            if not self.directory.admits(peer, now):
                standing = self.directory.standing(peer, now).describe()
                logger.info("%s %s", peer, standing)
                await self._forget(peer, standing)

    async def _forget(self, peer: PeerId, reason: str) -> None:
        """Let go of a peer that is gone or no member any more."""
        self._neighborhood.forget(peer, reason)
        await self.network.disconnect(peer)

    def encode_state(self) -> bytes:
        """Routing state, to be restored after a restart."""
        return encode_state(self.peer, self.directory, self.membership)

    def restore_state(self, data: bytes) -> None:
        """Take over routing state, as far as it is still valid, before the core runs.

        Raises:
            DecodeError: The data is malformed.
        """
        restore_state(
            data,
            self.peer,
            self.directory,
            self.membership,
            now=self._clock(),
            offer=self._sketching.offer,
        )

    def set_pause(self, pause: Pause | None) -> None:
        """Answer nobody while there is a pause; answer again with None. Gossip goes on."""
        self.service.pause = pause
        reason = "" if pause is None else pause.reason
        self.audit.record(AnsweringPaused(paused=pause is not None, reason=reason))
        logger.warning("paused: %s" if pause else "resumed%s", reason)

    def expiring(self) -> list[Expiry]:
        """What runs out soon, or did."""
        terms: dict[str, int] = {}
        for collection in self._holdings.collections():
            sharing = self._holdings.sharing(collection)
            if sharing is not None and sharing.terms.expires_at is not None:
                terms[collection] = sharing.terms.expires_at
        return expiring(
            self.directory.roster,
            self.peer_id,
            self._clock(),
            terms=terms,
            others=self.other_endings(),
        )

    def status(self) -> dict[str, Any]:
        """How the peer is doing, ready for JSON."""
        now = self._clock()
        roster = self.directory.roster
        return {
            "peer_id": self.peer_id,
            "organisation": self.directory.organisation(self.peer_id),
            "version": __version__,
            "consortium": roster.consortium,
            "roster": {
                "version": roster.version,
                "state": roster_state(roster, now).value,
                "expires_at": roster.expires_at,
                "newest_seen": self.sessions.newest_roster_seen,
                "members": len(roster.members),
                "own_standing": self.directory.standing(self.peer_id, now).value,
            },
            "addresses": list(self.addresses()),
            "connections": len(self.network.connected()),
            "sessions": len(self.sessions),
            "neighbors": len(self.peer.neighbors),
            "remembered_queries": len(self.peer.memory),
            "advertised_vectors": len(self.peer.advertisements),
            "sketches": {"peers": len(self.peer.sketches), "bytes": self._sketching.size},
            "withdrawals": len(self.withdrawals),
            "pause": self.service.pause and self.service.pause.to_json(),
            "next_key": None,
            "migration": None,
            "expiring": [expiry.to_json() for expiry in self.expiring()],
            "locked_out": [
                {
                    "peer": peer,
                    "organisation": self.directory.organisation(peer),
                    "request": kind.value,
                    "until": lock_out.until,
                    "reason": lock_out.reason,
                }
                for peer, kind, lock_out in self.limits.lock_outs(now)
            ],
            "fingerprint": self.fingerprint.to_map(),
            "emergencies": {
                "accesses": self.service.emergencies.accesses,
                "grants": len(self.guard.grants.entries()),
            },
            "requests": {"answered": self.service.answered, "refused": self.service.refused},
            "audit": self.audit.status(),
            "traffic": {
                **asdict(self.activity.counts),
                "bytes_sent": self.activity.figures.bytes_sent,
                "bytes_received": self.activity.figures.bytes_received,
            },
        }

    def peers(self) -> list[dict[str, Any]]:
        """Every member of the roster but us, ready for JSON."""
        now = self._clock()
        connected = self.network.connected()
        view = dict(self.membership.view())
        rows = []
        for member in self.directory.roster.members:
            if member.peer == self.peer_id:
                continue
            session = self.sessions.get(member.peer)
            rows.append(
                {
                    "peer": member.peer,
                    "organisation": member.organisation,
                    "standing": self.directory.standing(member.peer, now).value,
                    "connected": member.peer in connected,
                    "state": self._state(member.peer, connected),
                    "detector": self.membership.state(member.peer).value,
                    "view_age": view.get(member.peer),
                    "neighbor": member.peer in self.peer.neighbors,
                    "sketch": member.peer in self.peer.sketches,
                    "addresses": list(self.directory.addresses(member.peer)),
                    "session": session
                    and {
                        "since": session.since,
                        "fingerprint": str(session.agreed),
                        "clock_skew_s": round(session.clock_skew_s, 3),
                        "roster_version": session.hello.roster_version,
                        "software": session.hello.software,
                    },
                    "last_error": self.sessions.last_error.get(member.peer),
                }
            )
        return rows

    def neighbors(self) -> list[dict[str, Any]]:
        """The neighbour view from the oldest to the newest, ready for JSON."""
        connected = self.network.connected()
        rows = []
        for neighbor in self.peer.neighbors:
            held = self.peer.advertisements.get(neighbor.peer)
            figures = self.activity.figures.get(neighbor.peer)
            seconds = figures.round_trip_s
            rows.append(
                {
                    "peer": neighbor.peer,
                    "organisation": self.directory.organisation(neighbor.peer),
                    "since": neighbor.since,
                    "last_useful": neighbor.last_useful,
                    "connected": neighbor.peer in connected,
                    "state": self._state(neighbor.peer, connected),
                    "detector": self.membership.state(neighbor.peer).value,
                    "round_trip_ms": None if seconds is None else round(seconds * 1000, 3),
                    "bytes_sent": figures.bytes_sent,
                    "bytes_received": figures.bytes_received,
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

    def _state(self, peer: PeerId, connected: frozenset[PeerId]) -> str:
        """Whether we hold a connection to `peer`, could have one, or tried in vain."""
        if peer in connected:
            return "connected"
        if self._neighborhood.unreachable_since(peer) is not None:
            return "unreachable"
        return "not connected"

    def memory(self) -> dict[str, Any]:
        """Whose queries are remembered, ready for JSON. Neither texts nor embeddings are told."""
        expiries: dict[PeerId, list[float]] = {}
        for querier, _, expires_at in self.peer.memory.entries():
            expiries.setdefault(querier, []).append(expires_at)
        return {
            "queries": len(self.peer.memory),
            "capacity": self.config.routing.memory_limit,
            "queriers": [
                {
                    "peer": querier,
                    "organisation": self.directory.organisation(querier),
                    "queries": len(times),
                    "asked_at": self.activity.figures.get(querier).asked_at,
                    "first_expiry": min(times),
                    "last_expiry": max(times),
                }
                for querier, times in expiries.items()
            ],
        }

    def refusals(self) -> list[dict[str, Any]]:
        """The last refusals, ours and those of others, oldest first, ready for JSON."""
        return [
            {name: value for name, value in asdict(refusal).items() if name != "event"}
            for refusal in self.activity.refusals
        ]


def _never(walk: Walk) -> None:
    """A stopping rule that leaves it to the budget."""
    del walk


def _by(fingerprint: Fingerprint, by_model: Mapping[str, Vector]) -> Vector:
    embedding = by_model.get(fingerprint.digest())
    if embedding is None:
        raise EmbeddingError("the embedding model has just been changed; ask again")
    return embedding


def _one_line(name: str, text: str) -> str:
    if len(text.encode()) > MAX_REASON_BYTES or not text.isprintable():
        raise UsageError(f"{name} has to be one line of at most {MAX_REASON_BYTES} bytes")
    return text


def _within(name: str, value: int | None, default: int, largest: int) -> int:
    if value is None:
        return default
    if not 1 <= value <= largest:
        raise UsageError(f"{name} has to be from 1 to {largest}, got {value}")
    return value
