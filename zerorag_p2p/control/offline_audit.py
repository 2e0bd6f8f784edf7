"""The audit log of a home whose node does not run."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from zerorag_p2p.audit.ledger import Ledger, verify_folder
from zerorag_p2p.control import audit
from zerorag_p2p.home import Home
from zerorag_p2p.node.auditing import former_keys
from zerorag_p2p.node.files import HomeLock, load_identity, load_peer_id

Json = dict[str, Any]


class OfflineAudit:
    """What `zerorag_p2p.client.Client` offers on the audit log, while the home is locked.

    Raises:
        LocalError: The home is not set up, or a node is starting in it.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = HomeLock(home.root, holder="a command")

    def __enter__(self) -> Self:
        self._home.require()
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def audit(
        self,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
        limit: int = 100,
    ) -> Json:
        """The last entries that are selected."""
        selection = audit.make_selection(
            since=since, peer=peer, kind=kind, document=document, reference=reference
        )
        return audit.newest(self._home.audit, selection, limit)

    def audit_page(
        self,
        after: int,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
    ) -> Json:
        """Selected entries after a number."""
        selection = audit.make_selection(
            since=since, peer=peer, kind=kind, document=document, reference=reference
        )
        return audit.page(self._home.audit, after, selection)

    def verify_audit(self) -> Json:
        """Whether the log is whole."""
        own = load_peer_id(self._home.key)
        return verify_folder(self._home.audit, own, *former_keys(self._home)).to_json()

    def disclosures(self, document: str) -> Json:
        """Who was given what of a document."""
        return audit.disclosures(self._home.audit, document)

    def purge_audit(self, before: float) -> Json:
        """Remove the files of the log whose entries are all older."""
        now = time.time()
        identity = load_identity(self._home.key)
        ledger = Ledger(self._home.audit, identity, now, former=former_keys(self._home))
        try:
            purge = ledger.purge(before, now)
        finally:
            ledger.close(now)
        return audit.purged(purge)
