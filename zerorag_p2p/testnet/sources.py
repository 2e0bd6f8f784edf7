"""What the nodes of a testnet hold: the built-in corpus, a folder, or a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from zerorag_p2p.config import EmbeddingConfig
from zerorag_p2p.embedding.embedder import Embedder, open_embedder
from zerorag_p2p.errors import UsageError
from zerorag_p2p.library.loaders import find_files, load_file
from zerorag_p2p.library.records import BadRecord
from zerorag_p2p.model import Content, Fingerprint, Vector
from zerorag_p2p.testnet.demo import corpus_folder, load_hospitals, load_questions
from zerorag_p2p.wire.embedding import normalised_rows
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.source import load_workload
from zerorag_p2p.workloads.workload import (
    Events,
    PeerDocuments,
    QueryEvent,
    Workload,
    WorkloadDocument,
)

#: What `--documents` knows besides folders.
BUILT_IN: Final = ("hospitals", "synthetic", "pubmedqa")


@dataclass(frozen=True, slots=True)
class Source:
    """Documents, owners and questions of a testnet.

    Attributes:
        organisations: Of the nodes, in order.
        embed: Turns a question into a vector; without one only the workload's questions can be
            asked. It may block.
    """

    workload: Workload
    organisations: tuple[str, ...] = ()
    embed: Callable[[str], Vector] | None = None


def open_source(
    documents: str,
    *,
    peers: int | None,
    seed: int,
    embedding: EmbeddingConfig,
    pubmedqa: Path | None = None,
) -> Source:
    """The source that a user named.

    Args:
        documents: "hospitals", "synthetic", "pubmedqa", or a folder: of folders, one an
            organisation, or of files, which are dealt out.
        peers: Number of nodes; by default one an organisation, or 20.
        seed: Draws of the workloads follow from it.
        embedding: The embedder, where texts are embedded.
        pubmedqa: Where PubMedQA is.

    Raises:
        UsageError: There is no such source, or it holds no documents.
        EmbeddingError: The texts cannot be embedded.
    """
    match documents:
        case "hospitals":
            return _hospitals(open_embedder(embedding), peers)
        case "synthetic" | "pubmedqa":
            scenario = Scenario(
                name="testnet", shows="", workload=documents, peers=peers or 20, seed=seed
            )
            return Source(load_workload(scenario, pubmedqa))
    folder = Path(documents)
    if not folder.is_dir():
        raise UsageError(f"{documents!r} is neither a folder nor one of {', '.join(BUILT_IN)}")
    return _folder(folder, open_embedder(embedding), peers)


def texts_source(owners: Sequence[tuple[str, Sequence[str]]], embedding: EmbeddingConfig) -> Source:
    """A source of texts given with their organisations, one node each."""
    by_owner = [(name, [Content(text[:40], text) for text in texts]) for name, texts in owners]
    return _embedded("texts", by_owner, open_embedder(embedding), len(owners), {})


def _hospitals(embedder: Embedder, peers: int | None) -> Source:
    corpus = corpus_folder()
    hospitals = load_hospitals(corpus)
    names = {hospital.slug: hospital.name for hospital in hospitals}
    by_owner: list[tuple[str, list[Content]]] = []
    files: dict[str, Content] = {}
    with ExitStack() as stack:
        for hospital in hospitals:
            folder = stack.enter_context(resources.as_file(corpus / hospital.slug))
            contents = []
            for path in find_files([folder]):
                for content in _contents(path):
                    files.setdefault(f"{hospital.slug}/{path.name}", content)
                    contents.append(content)
            by_owner.append((hospital.name, contents))
    questions = {
        question.text: (names[question.asker], files[question.answers[0]])
        for question in load_questions(corpus)
    }
    return _embedded("hospitals", by_owner, embedder, peers or len(hospitals), questions)


def _folder(folder: Path, embedder: Embedder, peers: int | None) -> Source:
    organisations = sorted(path for path in folder.iterdir() if path.is_dir())
    if organisations:
        by_owner = [
            (path.name, [content for file in find_files([path]) for content in _contents(file)])
            for path in organisations
        ]
        return _embedded(folder.name, by_owner, embedder, peers or len(organisations), {})
    contents = [content for file in find_files([folder]) for content in _contents(file)]
    count = peers or 20
    dealt = [(f"Hospital {number}", contents[number::count]) for number in range(count)]
    return _embedded(folder.name, dealt, embedder, count, {})


def _contents(path: Path) -> Iterable[Content]:
    for record in load_file(path):
        if not isinstance(record, BadRecord):
            yield Content(record.title, record.text)


def _embedded(
    name: str,
    by_owner: Sequence[tuple[str, Sequence[Content]]],
    embedder: Embedder,
    peers: int,
    questions: dict[str, tuple[str, Content]],
) -> Source:
    """A workload of documents that are embedded now, cut into parts where they are long.

    With more nodes than owners each owner's documents are dealt out among several nodes.

    Args:
        name: Of the workload.
        by_owner: Organisations and what they own.
        embedder: Embeds documents and questions.
        peers: Number of nodes.
        questions: By text the organisation that asks and the document that answers.
    """
    organisations, held = _deal(by_owner, peers)
    contents: list[Content] = []
    numbers: dict[Content, list[int]] = {}
    for _, owned in by_owner:
        for content in owned:
            if content not in numbers:
                parts = [content.text[start:end] for start, end in embedder.cut(content.text)]
                numbers[content] = list(range(len(contents), len(contents) + len(parts)))
                contents += [
                    Content(content.title, part, number, len(parts))
                    for number, part in enumerate(parts)
                ]
    if not contents:
        raise UsageError(f"{name} holds no documents that can be read")
    fingerprint = embedder.fingerprint
    askers = _askers(organisations)
    events = [
        QueryEvent(askers[asker], query, numbers[content][0])
        for query, (asker, content) in enumerate(questions.values())
        if asker in askers
    ]
    workload = Workload(
        name=name,
        fingerprint=fingerprint,
        documents=tuple(WorkloadDocument(content) for content in contents),
        vectors=normalised_rows(embedder.embed_documents([item.text for item in contents])),
        queries=tuple(questions),
        query_vectors=_embed_questions(embedder, list(questions), fingerprint),
        answers=tuple(numbers[content][0] for _, content in questions.values()),
        holdings=PeerDocuments.of(
            sorted({number for content in owned for number in numbers[content]}) for owned in held
        ),
        events=Events.of(events),
    )
    return Source(workload, tuple(organisations), embedder.embed_query)


def _deal(
    by_owner: Sequence[tuple[str, Sequence[Content]]], peers: int
) -> tuple[list[str], list[list[Content]]]:
    """Names of the nodes, and what each of them holds."""
    organisations, held = [], []
    owners = len(by_owner)
    for peer in range(peers):
        name, owned = by_owner[peer % owners]
        hand, hands = peer // owners, len(range(peer % owners, peers, owners))
        organisations.append(name if hand == 0 else f"{name} {hand + 1}")
        held.append(list(owned[hand::hands]))
    return organisations, held


def _askers(organisations: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in reversed(list(enumerate(organisations)))}


def _embed_questions(
    embedder: Embedder, questions: Sequence[str], fingerprint: Fingerprint
) -> Vector:
    if not questions:
        return np.zeros((0, fingerprint.dimension), np.float32)
    return normalised_rows(np.array([embedder.embed_query(text) for text in questions]))
