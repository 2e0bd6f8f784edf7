"""What is told of a question that is being answered, and of the answer at its end."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from zerorag_p2p.model import ContentHash, Purpose, Score
from zerorag_p2p.node.reports import QueryProgress, QueryReport, to_json
from zerorag_p2p.rag.citations import Citation
from zerorag_p2p.rag.passages import Passage


class Scope(enum.StrEnum):
    """Where an answer may come from.

    AUTO: the own library, and the consortium unless a document of ours answers.
    LOCAL: the own library only.
    NETWORK: the consortium only.
    """

    AUTO = "auto"
    LOCAL = "local"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and how. None leaves a choice to the node's configuration.

    Attributes:
        k: Passages wanted at most.
        budget: Peers to contact at most.
        timeout_s: For the search; generating the answer has its own deadline.
        reason: Why emergency access is asked for; the owners' people see it.
        marks: What our own rules on questions know this one by.
        user: Pseudonym of the user who asks; without one the node itself does.
        application: Through which the user asks; nothing is shared between two of them.
        remember: Whether the peers asked may remember the question's embedding.
        reuse: Whether what was found before may be used.
    """

    text: str
    k: int | None = None
    budget: int | None = None
    timeout_s: float | None = None
    purpose: Purpose = Purpose.TREAT
    reason: str = ""
    marks: tuple[str, ...] = ()
    user: str = ""
    application: str = ""
    scope: Scope = Scope.AUTO
    remember: bool = True
    reuse: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A generated answer, its citations checked.

    Attributes:
        text: Cites existing passages only.
        citations: In the order of the text.
        removed: Numbers that the model cited and that no passage has.
        uncited: Sentences that cite nothing.
    """

    text: str
    citations: tuple[Citation, ...]
    removed: tuple[int, ...]
    uncited: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """What of an answer was found before.

    Attributes:
        what: "answer", or "sources" when only the search was spared.
        question: The question it was found for.
        similarity: Of that question with this one; 1 if it is the same.
        age_s: How long ago.
    """

    what: Literal["answer", "sources"]
    question: str
    similarity: Score
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskReport:
    """An answer, what it rests on, and how that was found.

    Attributes:
        search: The search; its documents are those of the passages, and those that could not be
            had. Found without the network, it has no contacts.
        passages: What the answer may cite.
        answer: None without a language model, or if it failed before its first word.
        fault: Why there is no answer, or not all of it, although there should be one; else None.
        model: Name of the language model; "" if none is configured.
        own_best: Best score of a document of our own library; None if it was not searched.
        reused: What was found before; None for a fresh answer.
        milliseconds: Of the whole, the search and the generation.
    """

    search: QueryReport
    passages: tuple[Passage, ...]
    answer: Answer | None
    fault: str | None
    model: str
    own_best: Score | None
    reused: Reuse | None
    milliseconds: float

    def to_json(self) -> dict[str, Any]:
        """As JSON: what a query's answer has, and the rest beside it."""
        return {
            **to_json(self.search),
            "milliseconds": self.milliseconds,
            "passages": [passage_json(passage) for passage in self.passages],
            "answer": None if self.answer is None else _answer_json(self.answer),
            "fault": self.fault,
            "model": self.model,
            "own_best": self.own_best,
            "reused": to_json(self.reused),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesFound:
    """The passages are chosen; the answer is generated next."""

    event: Literal["sources"] = "sources"
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGenerated:
    """The next piece of the answer."""

    event: Literal["text"] = "text"
    text: str


AskProgress: TypeAlias = QueryProgress | SourcesFound | TextGenerated

#: Called in the task that asks; must not block.
Tell: TypeAlias = Callable[[AskProgress], None]


def progress_json(progress: AskProgress) -> dict[str, Any]:
    """Progress as JSON."""
    if isinstance(progress, SourcesFound):
        passages = [passage_json(passage) for passage in progress.passages]
        return {"event": progress.event, "passages": passages}
    described: dict[str, Any] = to_json(progress)
    return described


def passage_json(passage: Passage) -> dict[str, Any]:
    """A passage as JSON; its documents are named by what tells them apart."""
    return {
        "number": passage.number,
        "score": passage.score,
        "title": passage.best.title,
        "text": passage.text,
        "sources": [
            {
                "content_hash": document.content_hash,
                "owner": to_json(document.owner),
                "holder": to_json(document.holder),
                "status": document.status.value,
                "score": document.score,
                "collection": document.collection,
            }
            for document in passage.documents
        ],
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    described: dict[str, Any] = to_json(answer)
    for shown, citation in zip(described["citations"], answer.citations, strict=True):
        shown["supported"] = citation.supported
    return described


def hashes_of(passages: tuple[Passage, ...]) -> frozenset[ContentHash]:
    """The documents of passages."""
    return frozenset(
        document.content_hash for passage in passages for document in passage.documents
    )
