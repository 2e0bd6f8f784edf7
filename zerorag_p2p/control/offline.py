"""The library of a home whose node does not run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from zerorag_p2p.control import consortium, documents
from zerorag_p2p.embedding.embedder import open_embedder
from zerorag_p2p.home import Home
from zerorag_p2p.identity.roster import open_roster
from zerorag_p2p.library.library import Library
from zerorag_p2p.node.files import HomeLock, load_identity
from zerorag_p2p.node.signing import statement_signer

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
            roster = open_roster(consortium.read(self._home))
            embedder = open_embedder(self._home.load_config().embedding)
            sign = statement_signer(
                load_identity(self._home.key), embedder.fingerprint, roster.consortium, time.time
            )
            self._library = stack.enter_context(Library(self._home.library, embedder, sign))
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
        on_progress: Callable[[Json], None] | None = None,
    ) -> Json:
        """Add files and folders; what became of each file."""
        absolute = [Path(path).absolute() for path in paths]
        return documents.add(self._library, absolute, collection, on_progress)

    def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """Remove a source from the library."""
        return documents.remove(self._library, name, collection)

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
    ) -> Json:
        """Share a collection."""
        sharing = documents.make_sharing(
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=copy,
            reshare=reshare,
        )
        return documents.share(self._library, collection, sharing)

    def unshare(self, collection: str) -> Json:
        """Stop sharing a collection."""
        return documents.unshare(self._library, collection)
