"""From a question to an answer with its sources (DRAG, section 3.1).

Our own library comes first: if a document of it answers, nobody else learns of the question. If
none does, the consortium is asked. What is found is merged, chosen and numbered; a language model,
where one is configured, writes an answer that cites it; its citations are checked. Whatever goes
wrong with the model, the sources are delivered.
"""

from __future__ import annotations

import logging
import math
import random
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import trio

from zerorag_p2p.config import MAX_BUDGET, MAX_K, RERANKED_PASSAGES
from zerorag_p2p.embedding.reranking import CrossEncoder
from zerorag_p2p.errors import GenerationError, LocalError, RerankerUnavailable, UsageError
from zerorag_p2p.identity.attribution import verify_chain
from zerorag_p2p.model import ContentHash, Purpose, ScoredDocument, Vector
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus, QueryReport
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.rag.citations import CitationFilter, check
from zerorag_p2p.rag.endpoint import Endpoint
from zerorag_p2p.rag.memory import AnswerMemory, Circumstances, Found, Known, normalised
from zerorag_p2p.rag.passages import Passage, choose, merge, reorder
from zerorag_p2p.rag.prompt import build_prompt
from zerorag_p2p.rag.reports import (
    Answer,
    AskReport,
    Question,
    Reuse,
    Scope,
    SourcesFound,
    Tell,
    TextGenerated,
    hashes_of,
)

logger = logging.getLogger("zerorag.rag")

OWN_LIBRARY_ANSWERS = "a document of the own library answers"
OWN_LIBRARY_ONLY = "only the own library was asked for"


class Reranker(Protocol):
    """What orders passages by reading them with the question."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each of `texts` answers a question; may block, for seconds.

        Raises:
            RerankerUnavailable: It does not work.
        """


class Asker:
    """Answers questions for the people and programs of one node.

    Args:
        node: Running; it searches.
        clock: Unix seconds.
        randomness: Spreads repeated requests to the language model over time.
        reranker: Orders passages, instead of the one that is configured.

    Raises:
        ConfigError: The configured language model may not be used.
        RerankerUnavailable: There is no cross-encoder where one is configured.
    """

    def __init__(
        self,
        node: Node,
        *,
        clock: Callable[[], float] = time.time,
        randomness: random.Random | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        config = node.config
        self._node = node
        self._settings = config.asking
        self._generation = config.generation
        self._routing = config.routing
        self._clock = clock
        self._memory = AnswerMemory(config.asking)
        if reranker is None and config.asking.reranker:
            reranker = CrossEncoder(Path(config.asking.reranker).expanduser())
        self._reranker = reranker
        self._endpoint = None
        if config.generation.base_url:
            self._endpoint = Endpoint(
                config.generation,
                randomness=randomness or random.Random(secrets.randbits(64)),
                clock=clock,
            )

    def invalidate(self, content_hashes: Collection[ContentHash]) -> None:
        """Use nothing again that rests on these documents, as when an owner takes them back.

        What is used again is verified anew in any case.
        """
        self._memory.invalidate(content_hashes)

    def invalidate_all(self) -> None:
        """Use nothing again that was found until now."""
        self._memory.invalidate_all()

    async def ask(self, question: Question, tell: Tell) -> AskReport:
        """Answer a question.

        Args:
            question: The question.
            tell: Told of the search, of the sources once they are chosen, and of the answer as it
                is written.

        Raises:
            UsageError: An argument is out of range.
            EmbeddingError: The question cannot be embedded.
            PolicyDenied: The outbound rules do not let the question out.
        """
        started = trio.current_time()
        k = _within("k", question.k, self._routing.k, MAX_K)
        budget = _within("budget", question.budget, self._routing.contact_budget, MAX_BUDGET)
        embedding = await self._node.embed_question(
            question.text, purpose=question.purpose, marks=question.marks
        )
        circumstances = Circumstances(
            application=question.application,
            user=question.user,
            purpose=question.purpose,
            marks=question.marks,
            scope=question.scope,
            k=k,
            budget=budget,
            state=self._state(),
        )
        # Emergency access is asked for anew each time: owners count and review it.
        reusable = question.reuse and question.purpose is not Purpose.ETREAT
        known, reuse = None, None
        if reusable:
            known, reuse = self._recall(question.text, embedding, circumstances)
        if known is not None:
            found = known.found
        else:
            found = await self._search(question, embedding, k, tell)
        tell(SourcesFound(passages=found.passages))
        answer, fault = None, None
        if reuse is not None and known is not None and reuse.what == "answer":
            answer = known.answer
        else:
            answer, fault = await self._generate(question.text, found.passages, tell)
        finished = answer if fault is None else None
        if known is None:
            if reusable and found.passages and found.search.complete:
                self._keep(question.text, embedding, circumstances, found, finished)
        elif known.text == normalised(question.text):
            known.answer = finished
        return AskReport(
            search=found.search,
            passages=found.passages,
            answer=answer,
            fault=fault,
            model=self._generation.model if self._endpoint is not None else "",
            own_best=found.own_best,
            reused=reuse,
            milliseconds=(trio.current_time() - started) * 1000,
        )

    # What was found before.

    def _state(self) -> tuple[int, ...]:
        return (self._node.core.directory.roster.version, self._node.library.generation)

    def _recall(
        self, text: str, embedding: Vector, circumstances: Circumstances
    ) -> tuple[Known, Reuse] | tuple[None, None]:
        now = self._clock()
        match = self._memory.find(text, embedding, circumstances, now)
        if match is None:
            return None, None
        known, similarity = match
        gone = self._node.core.no_longer_verified(known.found.search.documents)
        if gone:
            self.invalidate(gone)
            return None, None
        same = known.text == normalised(text)
        return known, Reuse(
            what="answer" if same and known.answer is not None else "sources",
            question=known.text,
            similarity=similarity,
            age_s=now - known.at,
        )

    def _keep(
        self,
        text: str,
        embedding: Vector,
        circumstances: Circumstances,
        found: Found,
        answer: Answer | None,
    ) -> None:
        # As it is by now: what changed during the search is not covered.
        if circumstances.state == self._state():
            self._memory.keep(
                text,
                embedding,
                circumstances,
                found=found,
                answer=answer,
                terms_end=_terms_end(found.search.documents),
                now=self._clock(),
            )

    # The search.

    async def _search(self, question: Question, embedding: Vector, k: int, tell: Tell) -> Found:
        own: list[ScoredDocument] = []
        places: dict[ContentHash, int] = {}
        # Twice as many: they cost nothing, and there is more to choose from.
        count = min(2 * k, MAX_K)
        if question.scope is not Scope.NETWORK:
            own = await self._node.search_own(embedding, count)
        own_best = own[0].score if own else None
        enough = own_best is not None and own_best >= self._settings.good_score
        if question.scope is Scope.LOCAL or (enough and question.scope is Scope.AUTO):
            reason = OWN_LIBRARY_ONLY if question.scope is Scope.LOCAL else OWN_LIBRARY_ANSWERS
            search = self._without_network(question, k, reason)
            if self._settings.words:
                # Documents of others have no place in this ranking.
                own = await self._node.search_own_both(embedding, question.text, count)
                places = {document.content_hash: place for place, document in enumerate(own)}
        else:
            search = await self._node.query(
                question.text,
                k=k,
                budget=question.budget,
                timeout_s=question.timeout_s,
                purpose=question.purpose,
                reason=question.reason,
                marks=question.marks,
                user=question.user,
                remember=question.remember,
                on_progress=tell,
            )
        documents = [
            *search.documents,
            *await self._node.own_documents(own, purpose=question.purpose, audit=search.audit),
        ]
        merged = merge(documents)
        if places:
            best = [min(places[item] for item in hashes_of((passage,))) for passage in merged]
            merged = reorder(merged, [-place for place in best])
        merged = await self._rerank(question.text, merged)
        passages = tuple(choose(merged, k, diversity=self._settings.diversity))
        cited = hashes_of(passages)
        kept = [
            document
            for document in sorted(documents, key=lambda document: -document.score)
            if document.content_hash in cited or document.status is not DocumentStatus.VERIFIED
        ]
        return Found(replace(search, documents=tuple(kept)), passages, own_best)

    async def _rerank(self, question: str, passages: list[Passage]) -> list[Passage]:
        """The passages in the cross-encoder's order; as they are without one, or if it fails."""
        if self._reranker is None or len(passages) < 2:
            return passages
        judged, rest = passages[:RERANKED_PASSAGES], passages[RERANKED_PASSAGES:]
        try:
            values = await trio.to_thread.run_sync(
                self._reranker.scores, question, [passage.text for passage in judged]
            )
        except RerankerUnavailable as error:
            logger.warning("passages are ordered without a reranker: %s", error)
            return passages
        return reorder(passages, [*values, *(-math.inf for _ in rest)])

    def _without_network(self, question: Question, k: int, reason: str) -> QueryReport:
        """The report of a search that asked nobody."""
        core = self._node.core
        return QueryReport(
            audit=secrets.token_hex(8),
            query=question.text,
            asker=core.directory.name(core.peer_id),
            purpose=question.purpose,
            k=k,
            budget=0,
            fanout=0,
            started_at=self._clock(),
            milliseconds=0.0,
            documents=(),
            rejected=(),
            contacts=(),
            stopped=reason,
            complete=True,
            bytes_sent=0,
            bytes_received=0,
            fingerprint=core.fingerprint.digest(),
            consortium=core.directory.roster.consortium,
        )

    # The answer.

    async def _generate(
        self, question: str, passages: Sequence[Passage], tell: Tell
    ) -> tuple[Answer | None, str | None]:
        """An answer, or what there is of it, and what went wrong."""
        if self._endpoint is None or not passages:
            return None, None
        messages = build_prompt(
            question,
            passages,
            token=secrets.token_hex(16),
            passage_chars=self._generation.passage_chars,
        )
        citations = CitationFilter(len(passages))
        pieces: list[str] = []

        def add(text: str) -> None:
            if text:
                pieces.append(text)
                tell(TextGenerated(text=text))

        try:
            fault = await self._endpoint.complete(
                messages, lambda piece: add(citations.feed(piece))
            )
        except (GenerationError, LocalError) as error:
            logger.warning("no answer, or not all of it: %s", error)
            fault = str(error)
        add(citations.finish())
        text = "".join(pieces)
        if not text.strip():
            return None, fault or "the language model answered nothing"
        checked, uncited = check(text, [passage.text for passage in passages])
        answer = Answer(
            text=text,
            citations=checked,
            removed=tuple(citations.removed),
            uncited=uncited,
        )
        return answer, fault


def _terms_end(documents: Sequence[AnswerDocument]) -> float | None:
    """When the first owner's terms for one of these documents end."""
    ends = [
        verify_chain(document.attribution).statement.terms.expires_at
        for document in documents
        if document.status is DocumentStatus.VERIFIED
    ]
    return min((end for end in ends if end is not None), default=None)


def _within(name: str, value: int | None, default: int, largest: int) -> int:
    if value is not None and not 1 <= value <= largest:
        raise UsageError(f"{name} has to be from 1 to {largest}, got {value}")
    return default if value is None else value
