"""The library and the tokens of a home whose node does not run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from zerorag_p2p.audit.events import Event
from zerorag_p2p.audit.ledger import Ledger
from zerorag_p2p.config import NetworkConfig
from zerorag_p2p.control import audit, consortium, documents
from zerorag_p2p.control.scopes import Scope
from zerorag_p2p.control.tokens import TokenBook, check_label
from zerorag_p2p.control.users import pseudonym
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.home import Home
from zerorag_p2p.identity.roster import open_roster
from zerorag_p2p.identity.withdrawal import Withdrawal
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.library import Library
from zerorag_p2p.node.audit_entries import documents_withdrawn
from zerorag_p2p.node.auditing import former_keys
from zerorag_p2p.node.files import HomeLock, load_identity, local_secret
from zerorag_p2p.node.redactor import open_redaction
from zerorag_p2p.node.reports import PeerName
from zerorag_p2p.node.rotation import find_predecessor
from zerorag_p2p.node.signing import statement_signer
from zerorag_p2p.node.withdrawals import Withdrawals

Json = dict[str, Any]


class OfflineLibrary:
    """What `zerorag_p2p.client.Client` offers on documents, while the home is locked.

    The home needs a roster: what an owner signs about a document names the consortium.

    Raises:
        LocalError: The home is not set up, has no roster, or a node is starting in it.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._home.require()
        with ExitStack() as stack:
            stack.enter_context(HomeLock(self._home.root, holder="a command"))
            self._roster = open_roster(consortium.read(self._home))
            config = self._home.load_config()
            self._embedder = open_embedder(self._home.embedding(config))
            identity = load_identity(self._home.key)
            self._own = identity.peer_id
            self._identity = identity
            self._withdrawals = Withdrawals(
                identity,
                self._roster.consortium,
                time.time,
                clock_tolerance_s=NetworkConfig().clock_tolerance_s,
                path=self._home.withdrawals,
                predecessor=find_predecessor(
                    self._home, self._roster, time.time(), going_over=False
                ),
            )
            self._withdrawals.on_issued = self._record_withdrawal
            sign = statement_signer(
                identity,
                self._embedder.fingerprint,
                self._roster.consortium,
                time.time,
                not_before=self._withdrawals.not_before,
            )
            self._library = stack.enter_context(
                Library(
                    self._home.library,
                    self._embedder,
                    sign,
                    retract=self._withdrawals.retract,
                    redaction=open_redaction(config.redaction),
                )
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def add_documents(
        self,
        paths: Sequence[str | Path],
        collection: str,
        *,
        encoding: str = "",
        text_columns: Sequence[str] = (),
        title_column: str = "",
        id_column: str = "",
        on_progress: Callable[[Json], None] | None = None,
    ) -> Json:
        """Add files and folders; what became of each file."""
        absolute = [Path(path).absolute() for path in paths]
        options = _options(encoding, text_columns, title_column, id_column)
        return documents.add(self._library, absolute, collection, on_progress, options)

    def watch_folder(
        self,
        folder: str | Path,
        collection: str,
        *,
        interval_s: float,
        encoding: str = "",
        text_columns: Sequence[str] = (),
        title_column: str = "",
        id_column: str = "",
    ) -> Json:
        """Let a collection follow a folder, from the next start of the node on."""
        options = _options(encoding, text_columns, title_column, id_column)
        path = Path(folder).absolute()
        return documents.watch(self._library, path, collection, interval_s, options)

    def unwatch_folder(self, folder: str | Path, *, collection: str | None = None) -> Json:
        """Follow a folder no more."""
        return documents.unwatch(self._library, Path(folder).absolute(), collection)

    def watches(self) -> list[Json]:
        """The folders that are watched."""
        return documents.watches(self._library)

    def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """Remove a source from the library."""
        return documents.remove(self._library, name, collection)

    def withdraw(self, name: str, *, collection: str | None = None) -> Json:
        """Take documents back; the others are told once the node runs."""
        return documents.withdraw(self._library, name, collection)

    def restore(self, name: str, *, collection: str | None = None) -> Json:
        """Let others see withdrawn documents again."""
        return documents.restore(self._library, name, collection)

    def withdrawals(self) -> list[Json]:
        """What owners took back, as far as the home knows."""
        return [withdrawal.to_json() for withdrawal in self._withdrawals.all()]

    def documents(self, collection: str | None = None) -> list[Json]:
        """The sources in the library, of one collection or of all."""
        return documents.sources(self._library, collection)

    def collections(self) -> list[Json]:
        """The collections and how they are shared."""
        return documents.collections(self._library)

    def share(
        self,
        collection: str,
        *,
        members: Sequence[str],
        purposes: Sequence[str],
        view: str,
        advertise: bool,
        copy: bool,
        reshare: bool,
        expires_at: int | None = None,
    ) -> Json:
        """Share a collection."""
        sharing = documents.make_sharing(
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=copy,
            reshare=reshare,
            expires_at=expires_at,
        )
        value = documents.share(self._library, collection, sharing)
        self._record(audit.sharing_changed(value))
        return value

    def unshare(self, collection: str) -> Json:
        """Stop sharing a collection."""
        value = documents.unshare(self._library, collection)
        self._record(audit.sharing_changed(value))
        return value

    def _record(self, event: Event) -> None:
        """Add an entry to the audit log, durable when this returns."""
        now = time.time()
        ledger = Ledger(self._home.audit, self._identity, now, former=former_keys(self._home))
        try:
            ledger.log.append(event, now)
        finally:
            ledger.close(now)

    def _record_withdrawal(self, withdrawal: Withdrawal, sealed: bytes) -> None:
        del sealed
        member = self._roster.member(self._own)
        owner = PeerName(self._own, "" if member is None else member.organisation)
        self._record(documents_withdrawn(withdrawal, owner))


def _options(
    encoding: str, text_columns: Sequence[str], title_column: str, id_column: str
) -> ReadingOptions:
    return ReadingOptions(
        encoding=encoding,
        text_columns=tuple(text_columns),
        title_column=title_column,
        id_column=id_column,
    )


class OfflineTokens:
    """What `zerorag_p2p.client.Client` offers on tokens, while the home is locked.

    Raises:
        LocalError: The home is not set up, or a node is starting in it.
        KeyFileError: Others can read the file of tokens.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = HomeLock(home.root, holder="a command")

    def __enter__(self) -> Self:
        self._home.require()
        self._lock.acquire()
        try:
            self._book = TokenBook(self._home.tokens, time.time)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def tokens(self) -> list[Json]:
        """The tokens that are valid."""
        return self._book.shown()

    def create_token(self, label: str, *, scope: str, lifetime_s: int | None = None) -> Json:
        """Make a token."""
        return self._book.create(check_label(label), Scope(scope), lifetime_s=lifetime_s)

    def rotate_token(self, label: str, *, overlap_s: int = 0) -> Json:
        """Make a new token in the place of one."""
        return self._book.rotate(label, overlap_s=overlap_s)

    def revoke_token(self, label: str) -> Json:
        """End the tokens of an application."""
        return self._book.revoke(label)

    def pseudonym(self, user: str, *, application: str = "") -> Json:
        """Under which name others know a user of an application."""
        return {"pseudonym": pseudonym(local_secret(self._home.user_key), application, user)}
