"""What a language model answers from the documents found (ZeroRAG, section 4.3 and figure 5(a)).

A run keeps the results of some of its questions. A language model is given each question with the
documents found for it, and decides it in a word, which is right or wrong. Runs need not be repeated
for that, and what the model decided once is not asked again.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import trio

from zerorag_p2p.config import GenerationConfig
from zerorag_p2p.errors import UsageError, ZeroRagError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.model import Content, ContentHash, PeerId, hash_content
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus, PeerName
from zerorag_p2p.rag.endpoint import Endpoint
from zerorag_p2p.rag.passages import merge
from zerorag_p2p.rag.prompt import Message, build_prompt
from zerorag_p2p.workloads.outcome_table import NO_DOCUMENT, OutcomeTable
from zerorag_p2p.workloads.results import Json
from zerorag_p2p.workloads.workload import Workload

#: In the folder of an experiment: what language models decided.
DECISIONS: Final = "decisions.json"

#: Documents of a result that the model is given, as in the paper.
PASSAGES: Final = 5

# Questions that the model is asked at once, and decisions after which they are stored.
_AT_ONCE: Final = 4
_STORED_AFTER: Final = 20

_INSTRUCTION: Final = "Begin the answer with the word yes, no or maybe."
_DECISION: Final = re.compile(r"\b(yes|no|maybe)\b", re.IGNORECASE)

_OWNER: Final = PeerName(PeerId("owner"), "")

#: Told how many questions are decided, and of how many.
OnDecided: TypeAlias = Callable[[int, int], None]


def draw_sample(table: OutcomeTable, events: int, count: int, seed: int) -> Json:
    """The results of some questions of the last tenth, of the same ones whatever system ran.

    Args:
        table: Outcomes, with results.
        events: Questions of the workload.
        count: How many questions; all if there are fewer.
        seed: Draws them.

    Returns:
        `events`, numbers of the questions in the workload, and `results`, for each the documents
        found, best first.

    Raises:
        ValueError: The outcomes are without results.
    """
    if table.results is None:
        raise ValueError("these outcomes say nothing of results")
    last = np.flatnonzero((table.events >= -(-events * 9 // 10)) & table.answerable)
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.choice(last, min(count, len(last)), replace=False))
    return {
        "events": table.events[rows].tolist(),
        "results": [
            [document for document in found if document != NO_DOCUMENT]
            for found in table.results[rows, :PASSAGES].tolist()
        ],
    }


class Decider:
    """A language model that decides questions, and what it decided before.

    Args:
        settings: Where the model is, and its name.
        path: Where decisions are kept.

    Raises:
        ConfigError: The settings do not name an endpoint that may be used.
    """

    def __init__(self, settings: GenerationConfig, path: Path) -> None:
        self._settings = settings
        self._endpoint = Endpoint(settings, randomness=random.Random(0))
        self._path = path
        self._decisions = _read_decisions(path)

    def answer(self, run: Json, workload: Workload, on_decided: OnDecided | None = None) -> Json:
        """Have the sampled questions of a run decided.

        Args:
            run: Of an experiment that keeps a sample.
            workload: That of the run.
            on_decided: Told how far this is.

        Returns:
            `model`, `questions`, the share `right`, and the share `held` of which the document was
            among those given.

        Raises:
            UsageError: The run keeps no sample, or nobody knows what would be right.
            GenerationError: The model failed; what it decided before is kept.
        """
        if "sample" not in run:
            raise UsageError(
                f"the run {run['variant']!r} with seed {run['seed']} kept no results; run it again "
                "with --fresh"
            )
        if not workload.decisions:
            raise UsageError(
                f"the questions of the workload {workload.name!r} are not of a kind that a word "
                "answers; give PubMedQA with --pubmedqa"
            )
        sample = run["sample"]
        asked = workload.events.queries[sample["events"]].tolist()
        wanted = workload.events.documents[sample["events"]].tolist()
        prompts = [
            Prompt(
                workload.queries[query],
                [workload.documents[document].content for document in found],
            )
            for query, found in zip(asked, sample["results"], strict=True)
        ]
        decisions = self._decide(prompts, on_decided or (lambda done, count: None))
        right = [
            decision == workload.decisions[query]
            for decision, query in zip(decisions, asked, strict=True)
        ]
        held = [
            document in found for document, found in zip(wanted, sample["results"], strict=True)
        ]
        return {
            "model": self._settings.model,
            "questions": len(asked),
            "right": round(float(np.mean(right)), 6),
            "held": round(float(np.mean(held)), 6),
        }

    def _decide(self, prompts: Sequence[Prompt], on_decided: OnDecided) -> list[str]:
        keys = [prompt.digest(self._settings.model) for prompt in prompts]
        missing = {
            key: prompt
            for key, prompt in zip(keys, prompts, strict=True)
            if key not in self._decisions
        }
        try:
            for number, (key, decision) in enumerate(self._ask(missing), start=1):
                self._decisions[key] = decision
                on_decided(len(prompts) - len(missing) + number, len(prompts))
                if number % _STORED_AFTER == 0:
                    self._store()
        finally:
            if missing:
                self._store()
        return [self._decisions[key] for key in keys]

    def _ask(self, prompts: Mapping[str, Prompt]) -> Iterable[tuple[str, str]]:
        items = list(prompts.items())
        for start in range(0, len(items), _AT_ONCE):
            keys, some = zip(*items[start : start + _AT_ONCE], strict=True)
            yield from zip(keys, trio.run(self._ask_some, some), strict=True)

    async def _ask_some(self, prompts: Sequence[Prompt]) -> list[str]:
        texts: list[list[str]] = [[] for _ in prompts]
        failures: list[ZeroRagError] = []

        async def complete(messages: Sequence[Message], pieces: list[str]) -> None:
            try:
                await self._endpoint.complete(messages, pieces.append)
            except ZeroRagError as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            for prompt, pieces in zip(prompts, texts, strict=True):
                nursery.start_soon(complete, prompt.messages(self._settings.passage_chars), pieces)
        if failures:
            raise failures[0]
        return [decision_in("".join(pieces)) for pieces in texts]

    def _store(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"decisions": self._decisions}, indent=0)
        write_atomic(self._path, text.encode())


class Prompt:
    """A question that a word answers, and the documents found for it.

    Args:
        question: The question.
        documents: The best first.
    """

    def __init__(self, question: str, documents: Sequence[Content]) -> None:
        self._question = question
        self._documents = documents

    def digest(self, model: str) -> str:
        """Names the prompt and the model that reads it."""
        hashes = [hash_content(document.encode()) for document in self._documents]
        text = json.dumps([model, _INSTRUCTION, self._question, hashes])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def messages(self, passage_chars: int) -> tuple[Message, Message]:
        """What the model reads; at most `passage_chars` characters of a document."""
        passages = merge(
            _as_returned(document, rank) for rank, document in enumerate(self._documents)
        )
        return build_prompt(
            f"{self._question}\n{_INSTRUCTION}",
            passages,
            token=secrets.token_hex(16),
            passage_chars=passage_chars,
        )


def decision_in(text: str) -> str:
    """The decision in an answer: yes, no or maybe, or "" if there is none."""
    found = _DECISION.search(text)
    return found[1].lower() if found else ""


def _as_returned(document: Content, rank: int) -> AnswerDocument:
    """A document as a search returns it; only the order of scores matters."""
    return AnswerDocument(
        content_hash=ContentHash(str(rank)),
        status=DocumentStatus.VERIFIED,
        score=1.0 - rank / 100,
        score_verified=True,
        owner=_OWNER,
        holder=_OWNER,
        text=document.text,
    )


def _read_decisions(path: Path) -> dict[str, str]:
    """What is stored; nothing of a file that is absent or damaged."""
    try:
        decisions = json.loads(path.read_bytes())["decisions"]
        return {str(key): str(value) for key, value in decisions.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
