"""Keeping copies of documents that other peers delivered, as far as their owners allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zerorag_p2p.embedding.embedder import Embedder
from zerorag_p2p.errors import AttributionError
from zerorag_p2p.identity.attribution import Fault, Statement, embedding_hash
from zerorag_p2p.identity.custody import NOT_ALLOWED, take_custody
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.library.library import Library
from zerorag_p2p.model import ContentHash, Vector, decode_content, hash_content
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus
from zerorag_p2p.wire.embedding import int8_wire_bytes, normalised_rows, transmitted

_REASONS: Final = MappingProxyType(
    {
        Fault.COPY_NOT_ALLOWED: "its owner does not allow copies",
        Fault.RESHARING_NOT_ALLOWED: "its owner does not allow copies of copies",
        Fault.TERMS_EXPIRED: "its owner's terms have ended",
        Fault.CHAIN_FULL: "it has gone through too many hands: get it from its owner",
    }
)
assert _REASONS.keys() == NOT_ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCopy:
    """What became of a document that was to be kept.

    Attributes:
        kept: Whether a copy is in the library now, be it from before.
        passed_on: Whether others may have it from us, where its collection is shared.
        reason: Why not, as far as one of them is not so; else "".
    """

    content_hash: ContentHash
    kept: bool
    passed_on: bool = False
    reason: str = ""


class Keeper:
    """Puts copies into a library, each with its chain of custody. Its methods block.

    Args:
        identity: The one that takes custody.
        library: Where the copies go.
        embedder: Gives the library's.
        clock: Unix seconds.
        withdrawn: Whether its owner took a statement back.
    """

    def __init__(
        self,
        identity: Identity,
        library: Library,
        embedder: Callable[[], Embedder],
        clock: Callable[[], float],
        *,
        withdrawn: Callable[[Statement], bool],
    ) -> None:
        self._identity = identity
        self._library = library
        self._embedder = embedder
        self._clock = clock
        self._withdrawn = withdrawn

    def keep(self, document: AnswerDocument, collection: str) -> KeptCopy:
        """Keep a document of an answer, if it was delivered whole and its owner allows copies.

        Args:
            document: As it was verified.
            collection: Ours that it goes to; made if there is none of this name.

        Raises:
            AttributionError, DecodeError: Its chain does not verify, though the answer says so.
            EmbeddingError: It cannot be embedded.
            LibraryError: The collection cannot have this name.
        """
        refusal = self._why_not(document)
        if refusal:
            return KeptCopy(content_hash=document.content_hash, kept=False, reason=refusal)
        try:
            links, chain = take_custody(self._identity, document.attribution, self._clock())
        except AttributionError as error:
            if error.fault not in NOT_ALLOWED:
                raise
            return KeptCopy(
                content_hash=document.content_hash,
                kept=False,
                reason=_REASONS[Fault(error.fault)],
            )
        statement = chain.statement
        if self._withdrawn(statement):
            reason = "its owner has just taken it back"
            return KeptCopy(content_hash=document.content_hash, kept=False, reason=reason)
        content = decode_content(document.content)
        vector = self._vector(document, statement, content.text)
        signed = (
            statement.fingerprint == self._embedder().fingerprint.digest()
            and embedding_hash(int8_wire_bytes(vector)) == statement.embedding_hash
        )
        self._library.keep(
            content,
            collection,
            links=links,
            statement=statement,
            vector=vector,
            signed_vector=signed,
        )
        reason = ""
        if not statement.terms.reshare:
            reason = "its owner does not allow copies to be passed on"
        elif not signed:
            reason = "its embedding here is not the one that its owner signed: keep it from a query"
        return KeptCopy(
            content_hash=document.content_hash, kept=True, passed_on=not reason, reason=reason
        )

    def _why_not(self, document: AnswerDocument) -> str:
        if document.owner.peer == self._identity.peer_id:
            return "it is our own"
        if document.status is not DocumentStatus.VERIFIED:
            return f"it is {document.status}"
        if hash_content(document.content) != document.content_hash:
            return "only a part of it was sent, or something was removed"
        return ""

    def _vector(self, document: AnswerDocument, statement: Statement, text: str) -> Vector:
        """The embedding that came with the document, if its owner signed it, else ours of it."""
        embedder = self._embedder()
        came = document.embedding
        if statement.fingerprint != embedder.fingerprint.digest():
            came = None
        if came is not None and embedding_hash(int8_wire_bytes(came)) == statement.embedding_hash:
            return came
        (row,) = normalised_rows(embedder.embed_documents([text]))
        return transmitted(row)
