"""A user's own workload, in a folder of five files.

    workload.json      {"name": "cardiology", "model": {"model": "all-mpnet-base-v2", "revision":
                       "sha256:..."}}, the model being a `Fingerprint`; what it leaves out has the
                       defaults there, and the dimension is that of the vectors
    documents.jsonl    {"id", "text", "title": optional, "topics": optional list} a line
    queries.jsonl      {"id", "text", "document": id of the document that answers it}
    peers.jsonl        {"id", "documents": [ids], "queries": [ids, in the order they are asked]}
    vectors.npz        see `workloads.vectors_file`; rows in the order of the lines

A file of lines may be compressed, as documents.jsonl.gz for instance.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from zerorag_p2p.config import MAX_CONTENT_BYTES, MAX_NAME_BYTES
from zerorag_p2p.errors import DecodeError, LocalError, UsageError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.model import Content, Fingerprint
from zerorag_p2p.workloads.lines import Record, find_file, read_records
from zerorag_p2p.workloads.vectors_file import VECTORS_FILE, read_vectors_in_order
from zerorag_p2p.workloads.workload import (
    Events,
    Numbers,
    PeerDocuments,
    Workload,
    WorkloadDocument,
)

#: Documents, queries or peers of a folder, each. Guess; their texts are kept in memory.
MAX_ITEMS: Final = 2_000_000

#: Questions that all peers of a folder ask. Guess; seven times the paper's longest run.
MAX_QUESTIONS: Final = 10_000_000

_WORKLOAD: Final = "workload.json"
_DOCUMENTS: Final = "documents.jsonl"
_QUERIES: Final = "queries.jsonl"
_PEERS: Final = "peers.jsonl"

#: Bytes of the longest workload.json.
_WORKLOAD_LIMIT: Final = 64 << 10


@dataclass
class _Ids:
    """Which positions the ids of a file stand for."""

    what: str
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        name = record.text("id")
        if len(name.encode()) > MAX_NAME_BYTES:
            record.line.fail(f"its id is longer than {MAX_NAME_BYTES} bytes")
        if name in self.numbers:
            record.line.fail(f"another {self.what} has the id {name!r}")
        if len(self.numbers) == MAX_ITEMS:
            record.line.fail(f"there are more than {MAX_ITEMS} of them")
        self.numbers[name] = len(self.numbers)

    def find(self, record: Record, name: str) -> int:
        if name not in self.numbers:
            record.line.fail(f"there is no {self.what} with the id {name!r}")
        return self.numbers[name]


def read_workload(folder: Path, *, seed: int) -> Workload:
    """Read a user's folder.

    Each peer asks its queries in its own order; whose turn it is, is drawn.

    Args:
        folder: The folder.
        seed: Decides whose turn it is.

    Raises:
        UsageError: A file is missing, malformed or contradicts another; the message names the file
            and the line.
    """
    name, model = _read_header(folder / _WORKLOAD)
    document_ids, query_ids, peer_ids = _Ids("document"), _Ids("query"), _Ids("peer")
    documents = []
    for record in read_records(find_file(folder, _DOCUMENTS)):
        document_ids.add(record)
        documents.append(_read_document(record))
    queries, answers = [], []
    for record in read_records(find_file(folder, _QUERIES)):
        query_ids.add(record)
        queries.append(record.text("text"))
        answers.append(document_ids.find(record, record.text("document")))
    holdings, asked, questions = [], [], 0
    for record in read_records(find_file(folder, _PEERS)):
        peer_ids.add(record)
        held = {document_ids.find(record, item) for item in record.texts("documents")}
        holdings.append(sorted(held))
        asked.append([query_ids.find(record, item) for item in record.texts("queries")])
        questions += len(asked[-1])
        if questions > MAX_QUESTIONS:
            record.line.fail(f"there are more than {MAX_QUESTIONS} questions up to here")
    if len(holdings) < 2 or not questions:
        raise UsageError(f"{folder / _PEERS} needs two peers or more and a question one asks")
    vectors = read_vectors_in_order(folder, documents=len(documents), queries=len(queries))
    return Workload(
        name=name,
        fingerprint=_fingerprint(folder / _WORKLOAD, model, vectors.documents.shape[1]),
        documents=tuple(documents),
        vectors=vectors.documents,
        queries=tuple(queries),
        query_vectors=vectors.queries,
        answers=tuple(answers),
        holdings=PeerDocuments.of(holdings),
        events=_interleave(asked, np.array(answers, np.int32), np.random.default_rng(seed)),
    )


def write_workload(workload: Workload, folder: Path) -> None:
    """Write a workload as a folder that `read_workload` reads.

    Reading it gives back everything but the statistics and the order of questions of different
    peers. Ids are positions.

    Raises:
        UsageError: Something in the workload has no place in such a folder.
    """
    parts = next((item for item in workload.documents if item.content.parts != 1), None)
    if parts is not None:
        raise UsageError(f"{parts.content.title!r} is part of a document; write whole ones")
    answers = np.array(workload.answers, np.int32)
    if (answers[workload.events.queries] != workload.events.documents).any():
        raise UsageError(
            f"the workload {workload.name!r} asks one query for several documents; in a folder a "
            "query has one"
        )
    asked: list[list[str]] = [[] for _ in workload.holdings]
    for event in workload.events:
        asked[event.peer].append(str(event.query))
    folder.mkdir(parents=True, exist_ok=True)
    header = {"name": workload.name, "model": workload.fingerprint.to_map()}
    write_atomic(folder / _WORKLOAD, json.dumps(header, ensure_ascii=False).encode())
    _write_lines(
        folder / _DOCUMENTS,
        (
            {
                "id": str(number),
                "title": document.content.title,
                "text": document.content.text,
                "topics": list(document.topics),
            }
            for number, document in enumerate(workload.documents)
        ),
    )
    _write_lines(
        folder / _QUERIES,
        (
            {"id": str(number), "text": text, "document": str(answer)}
            for number, (text, answer) in enumerate(
                zip(workload.queries, workload.answers, strict=True)
            )
        ),
    )
    _write_lines(
        folder / _PEERS,
        (
            {"id": str(number), "documents": list(map(str, held)), "queries": asked[number]}
            for number, held in enumerate(workload.holdings)
        ),
    )
    np.savez(folder / VECTORS_FILE, documents=workload.vectors, queries=workload.query_vectors)


def _read_header(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        header = json.loads(read_bounded(path, _WORKLOAD_LIMIT))
        name, model = header["name"], header["model"]
        if not isinstance(name, str) or not name or not isinstance(model, dict):
            raise TypeError("'name' is no text or 'model' is no object")
    except (OSError, LocalError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f'{path} has to say {{"name": ..., "model": {{"model": ..., "revision": ...}}}} '
            f"({error}; docs/workloads.md)"
        ) from error
    return name, model


def _fingerprint(path: Path, model: dict[str, Any], dimension: int) -> Fingerprint:
    try:
        fingerprint = Fingerprint.from_map({**Fingerprint("", "", dimension).to_map(), **model})
    except DecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    if fingerprint.dimension != dimension:
        raise UsageError(
            f"{path}: the model has {fingerprint.dimension} dimensions, {VECTORS_FILE} {dimension}"
        )
    return fingerprint


def _read_document(record: Record) -> WorkloadDocument:
    content = Content(record.text("title", ""), record.text("text"))
    if len(content.encode()) > MAX_CONTENT_BYTES:
        record.line.fail(f"its title and text are longer than {MAX_CONTENT_BYTES} bytes; split it")
    return WorkloadDocument(content, tuple(dict.fromkeys(record.texts("topics"))))


def _interleave(
    asked: Sequence[Sequence[int]], answers: Numbers, generator: np.random.Generator
) -> Events:
    """The peers' questions, each peer's in its order, the turns in random order."""
    counts = np.array([len(queries) for queries in asked])
    turns = generator.permutation(np.repeat(np.arange(len(asked), dtype=np.int32), counts))
    queries = np.empty(len(turns), np.int32)
    # A stable sort has the turns of each peer one after the other, in their order.
    queries[np.argsort(turns, kind="stable")] = np.concatenate(
        [np.array(queries, np.int32) for queries in asked]
    )
    return Events(turns, queries, answers[queries])


def _write_lines(path: Path, objects: Iterable[dict[str, object]]) -> None:
    lines = (json.dumps(item, ensure_ascii=False) for item in objects)
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
