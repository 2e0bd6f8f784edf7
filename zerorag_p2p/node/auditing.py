"""The audit log of a running node: entries are recorded at once and committed in groups.

Whoever lets something out records it, then awaits `commit`, and only then sends it. All commits
that wait together cost one sync of the disk. While the log cannot be written, `failure` says why,
and nothing is asked or answered.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self

import trio

from zerorag_p2p import __version__
from zerorag_p2p.audit.events import Event, Started
from zerorag_p2p.audit.heads import Head
from zerorag_p2p.audit.ledger import Ledger
from zerorag_p2p.audit.log import Purge
from zerorag_p2p.config import AUDIT_COMMIT_S, AUDIT_RETRY_S, AuditConfig
from zerorag_p2p.errors import AuditError
from zerorag_p2p.home import Home
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import PeerId, Vector
from zerorag_p2p.node.files import load_peer_id, local_secret
from zerorag_p2p.wire.embedding import int8_wire_bytes

logger = logging.getLogger("zerorag.audit")

_TEXT: Final = b"text\x00"
_EMBEDDING: Final = b"embedding\x00"


def former_keys(home: Home) -> tuple[PeerId, ...]:
    """The key that the present one of `home` took the place of, if there is one."""
    return (load_peer_id(home.previous_key),) if home.previous_key.exists() else ()


class Audit(Protocol):
    """Where a node records what it asks, answers and gives."""

    @property
    def active(self) -> bool:
        """Whether anything is recorded at all."""

    @property
    def failure(self) -> str:
        """Why nothing can be recorded, in a sentence, or ""."""

    def record(self, event: Event) -> None:
        """Add an entry to the log; `commit` makes it durable."""

    async def commit(self) -> None:
        """Wait until everything that was recorded is durable.

        Raises:
            AuditError: It cannot be made so.
        """

    def question(self, text: str) -> tuple[str, str | None]:
        """The keyed hash of a question, and its text if that is to be kept."""

    def embedding_hash(self, embedding: Vector) -> str:
        """The keyed hash of an embedding as it was transmitted."""

    @property
    def head(self) -> bytes | None:
        """The newest signed head of the log."""

    def on_head(self, peer: PeerId, signed: bytes) -> bytes | None:
        """Keep the head that `peer` shows; the one of its log to return to it, if any.

        Raises:
            DecodeError, IntegrityError: It does not verify.
        """

    def on_head_returned(self, peer: PeerId, signed: bytes) -> None:
        """Compare our log with a head of it that `peer` returned.

        Raises:
            DecodeError, IntegrityError: It does not verify.
        """

    async def run(self) -> None:
        """Write and sign until cancelled."""

    def status(self) -> dict[str, Any] | None:
        """How the log is, ready for JSON; None where there is none."""


class NoAudit:
    """Records nothing, for testnets and simulations."""

    active = False
    failure = ""
    head: bytes | None = None

    def record(self, event: Event) -> None:
        """Forget the entry."""

    async def commit(self) -> None:
        """Return at once."""

    def question(self, text: str) -> tuple[str, str | None]:
        """Nothing."""
        del text
        return "", None

    def embedding_hash(self, embedding: Vector) -> str:
        """Nothing."""
        del embedding
        return ""

    def on_head(self, peer: PeerId, signed: bytes) -> bytes | None:
        """Forget the head."""
        del peer, signed
        return None

    def on_head_returned(self, peer: PeerId, signed: bytes) -> None:
        """Forget the head."""

    async def run(self) -> None:
        """Return at once."""

    def status(self) -> dict[str, Any] | None:
        """Nothing."""
        return None


class NodeAudit:
    """The log in a home.

    Args:
        ledger: The log, open.
        secret: Keys the hashes of questions.
        settings: What is kept.
        clock: Unix seconds.
        admits: Whether a peer is a member; heads of others are not kept.

    Attributes:
        ledger: The log.
        faults: What is wrong with the log, as far as it was noticed, in sentences.
    """

    active = True

    def __init__(
        self,
        ledger: Ledger,
        *,
        secret: bytes,
        settings: AuditConfig,
        clock: Callable[[], float],
        admits: Callable[[PeerId], bool],
    ) -> None:
        self.ledger = ledger
        self.faults = list(ledger.faults)
        self.failure = ""
        self._secret = secret
        self._settings = settings
        self._clock = clock
        self._admits = admits
        self._recorded = trio.Event()
        self._written = trio.Event()
        self._limiter = trio.CapacityLimiter(1)
        self._returned: dict[PeerId, Head] = {}

    @classmethod
    def open(
        cls,
        home: Home,
        identity: Identity,
        settings: AuditConfig,
        *,
        clock: Callable[[], float],
        admits: Callable[[PeerId], bool],
    ) -> Self:
        """Open the log of `home` and record that it was.

        Raises:
            AuditError: The log cannot be read or written.
            KeyFileError: The secret of the log cannot be used.
        """
        secret = local_secret(home.audit_key)
        ledger = Ledger(home.audit, identity, clock(), former=former_keys(home))
        audit = cls(ledger, secret=secret, settings=settings, clock=clock, admits=admits)
        if ledger.log.cut:
            logger.warning(
                "the last audit entry was not finished: its %d bytes were cut off; it was never "
                "acknowledged",
                ledger.log.cut,
            )
        for fault in audit.faults:
            logger.error("the audit log is not whole: %s", fault)
        audit.record(
            Started(
                software=f"zerorag-p2p/{__version__}",
                peer=identity.peer_id,
                cut=ledger.log.cut,
                reason="; ".join(audit.faults),
            )
        )
        return audit

    # Recording.

    def record(self, event: Event) -> None:
        """See `Audit.record`. What waits to be written is bounded by the requests in flight."""
        self.ledger.log.append(event, self._clock())
        self._recorded.set()

    async def commit(self) -> None:
        """See `Audit.commit`."""
        log = self.ledger.log
        target = log.appended
        with trio.move_on_after(AUDIT_COMMIT_S):
            while log.durable.sequence < target and not self.failure:
                await self._written.wait()
        if log.durable.sequence < target:
            self._fail(
                f"the disk took longer than {AUDIT_COMMIT_S:g} s for an audit entry; nothing is "
                "asked or answered until it is faster"
            )
            raise AuditError(self.failure)

    def _fail(self, reason: str) -> None:
        if not self.failure:
            self.failure = reason
            logger.error("%s", reason)

    async def run(self) -> None:
        """See `Audit.run`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            nursery.start_soon(self._sign)

    async def _write(self) -> None:
        while True:
            await self._recorded.wait()
            self._recorded = trio.Event()
            try:
                await trio.to_thread.run_sync(self.ledger.log.write, limiter=self._limiter)
            except AuditError as error:
                self._fail(str(error))
                self._recorded.set()
            else:
                if self.failure:
                    logger.warning("the audit log can be written again: the node goes on")
                self.failure = ""
            self._written.set()
            self._written = trio.Event()
            if self.failure:
                await trio.sleep(AUDIT_RETRY_S)

    # Hashes of questions.

    def question(self, text: str) -> tuple[str, str | None]:
        """See `Audit.question`."""
        kept = text if self._settings.query_text else None
        return self._keyed(_TEXT + text.encode()), kept

    def embedding_hash(self, embedding: Vector) -> str:
        """See `Audit.embedding_hash`."""
        return self._keyed(_EMBEDDING + int8_wire_bytes(embedding))

    def _keyed(self, data: bytes) -> str:
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()

    # Heads.

    @property
    def head(self) -> bytes | None:
        """See `Audit.head`."""
        return self.ledger.book.head

    def on_head(self, peer: PeerId, signed: bytes) -> bytes | None:
        """See `Audit.on_head`."""
        return self.ledger.book.hold(peer, signed)

    def on_head_returned(self, peer: PeerId, signed: bytes) -> None:
        """See `Audit.on_head_returned`. The log is looked at within the interval of heads."""
        self._returned[peer] = self.ledger.book.take_back(peer, signed)

    async def _sign(self) -> None:
        while True:
            await trio.sleep(self._settings.head_interval_s)
            self.ledger.book.keep(self._admits)
            returned, self._returned = self._returned, {}
            try:
                await trio.to_thread.run_sync(
                    self._look_after_heads, returned, limiter=self._limiter
                )
            except AuditError as error:
                logger.warning("%s", error)
                self._returned = {**returned, **self._returned}

    def _look_after_heads(self, returned: Mapping[PeerId, Head]) -> None:
        """Sign and keep what is new, and compare with what others returned, in a thread."""
        self.ledger.sign_head(self._clock())
        self.ledger.book.save()
        for fault in self.ledger.contradicted(returned.values()):
            if fault not in self.faults:
                self.faults.append(fault)
                logger.error("the audit log is not whole: %s", fault)

    def status(self) -> dict[str, Any] | None:
        """See `Audit.status`."""
        newest = self.ledger.book.newest
        return {
            "entries": self.ledger.log.durable.sequence,
            "head": None if newest is None else {"sequence": newest.sequence, "at": newest.at},
            "heads_held": len(self.ledger.book.held),
            "failure": self.failure,
            "faults": self.faults,
        }

    async def purge(self, before: float, at: float) -> Purge:
        """Remove the files whose entries are all older than `before`; times are unix seconds.

        Raises:
            AuditError: The log cannot be written.
        """
        return await trio.to_thread.run_sync(self._purge, before, at, limiter=self._limiter)

    def _purge(self, before: float, at: float) -> Purge:
        purge = self.ledger.purge(before, at)
        self.ledger.sign_head(at)
        return purge

    def close(self) -> None:
        """Write what was recorded and sign it. Blocks."""
        try:
            self.ledger.close(self._clock())
        except AuditError as error:
            logger.error("%s", error)
