"""Checking what other peers claim about documents before anybody sees it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from zerorag_p2p.errors import AttributionError, DecodeError
from zerorag_p2p.identity.attribution import Chain, Fault, embedding_hash, verify_chain
from zerorag_p2p.identity.verification import check_chain, verify_document
from zerorag_p2p.model import Content, PeerId, Score, Vector, decode_content
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus
from zerorag_p2p.node.withdrawals import Withdrawals
from zerorag_p2p.routing.walk import ReturnedDocument
from zerorag_p2p.wire.embedding import int8_wire_bytes
from zerorag_p2p.wire.fetch import FetchedDocument

#: Chains whose signatures are remembered, for all nodes of a process.
_CACHED_CHAINS: Final = 4_096


class DocumentChecker:
    """Verifies results and deliveries of other peers for `own`.

    The signatures of a chain are checked once and remembered; what depends on the time, the
    roster, withdrawals and the result at hand is checked every time.
    """

    def __init__(
        self,
        own: PeerId,
        directory: Directory,
        withdrawals: Withdrawals,
        clock: Callable[[], float],
        *,
        clock_tolerance_s: float,
    ) -> None:
        self._own = own
        self._directory = directory
        self._withdrawals = withdrawals
        self._clock = clock
        self._clock_tolerance_s = clock_tolerance_s

    def check_result(self, document: ReturnedDocument, holder: PeerId) -> Chain:
        """The verified attribution of a result that `holder` returned.

        Raises:
            AttributionError: It does not hold; the message names the first fault.
            DecodeError: It is malformed.
        """
        chain = _open_chain(document.attribution)
        check_chain(
            chain,
            self._directory.roster,
            now=self._clock(),
            clock_tolerance_s=self._clock_tolerance_s,
            content_hash=document.content_hash,
            holder=holder,
            withdrawn=self._withdrawals.covers,
        )
        if document.embedding is not None:
            hashed = embedding_hash(int8_wire_bytes(document.embedding))
            if hashed != chain.statement.embedding_hash:
                raise AttributionError(
                    Fault.OTHER_EMBEDDING, "the embedding is not the one that the owner signed"
                )
        return chain

    def check_delivery(
        self,
        item: FetchedDocument,
        sender: PeerId,
        *,
        score: Score,
        score_verified: bool,
        embedding: Vector | None = None,
    ) -> AnswerDocument:
        """The verified document that `sender` delivered, ready for an answer.

        Raises:
            AttributionError: It does not hold; the message names the first fault.
        """
        verified = verify_document(
            item.attribution,
            item.release,
            item.content,
            roster=self._directory.roster,
            now=self._clock(),
            clock_tolerance_s=self._clock_tolerance_s,
            content_hash=item.content_hash,
            sender=sender,
            receiver=self._own,
            withdrawn=self._withdrawals.covers,
        )
        statement = verified.chain.statement
        content = _read_content(item.content)
        return AnswerDocument(
            content_hash=statement.content_hash,
            status=DocumentStatus.VERIFIED,
            score=score,
            score_verified=score_verified,
            owner=self._directory.name(statement.owner),
            holder=self._directory.name(sender),
            collection=statement.collection,
            title=content.title,
            text=content.text,
            part=content.part,
            parts=content.parts,
            issued_at=statement.issued_at,
            redaction=verified.release.redaction,
            content=item.content,
            attribution=item.attribution,
            release=item.release,
            embedding=embedding,
        )

    def check_again(self, document: AnswerDocument) -> None:
        """Hold a document that was verified earlier against the roster and the time of now.

        Raises:
            AttributionError: It does not verify any more; the message names the first fault.
        """
        verify_document(
            document.attribution,
            document.release,
            document.content,
            roster=self._directory.roster,
            now=self._clock(),
            clock_tolerance_s=self._clock_tolerance_s,
            content_hash=document.content_hash,
            sender=document.holder.peer,
            receiver=self._own,
            withdrawn=self._withdrawals.covers,
        )


@lru_cache(maxsize=_CACHED_CHAINS)
def _open_chain(attribution: tuple[bytes, ...]) -> Chain:
    return verify_chain(attribution)


def _read_content(data: bytes) -> Content:
    try:
        return decode_content(data)
    except DecodeError as error:
        raise AttributionError(Fault.MALFORMED, str(error)) from None
