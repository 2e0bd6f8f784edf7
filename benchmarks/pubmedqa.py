"""PubMedQA's abstracts, questions and their embeddings, one owner an abstract."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerorag_p2p.embedding.precomputed import write_precomputed
from zerorag_p2p.model import ContentHash, Vector
from zerorag_p2p.testnet.processes import LocalConsortium
from zerorag_p2p.wire.embedding import transmitted, transmitted_rows
from zerorag_p2p.workloads.pubmedqa import FINGERPRINT, PubMedQA


@dataclass(frozen=True)
class Question:
    """A variant of the question that an abstract answers."""

    text: str
    abstract: int
    embedding: Vector


def write_vectors(data: PubMedQA, path: Path) -> None:
    """The file of precomputed vectors that nodes embed from."""
    texts = dict(zip(data.texts, data.documents, strict=True))
    for variants, rows in zip(data.variants, data.queries, strict=True):
        texts.update(zip(variants, rows, strict=True))
    write_precomputed(path, list(texts), np.array(list(texts.values())), FINGERPRINT)


class PubMedConsortium:
    """Node processes that own the abstracts between them.

    Attributes:
        owner: For every abstract the number of the node that owns it.
        transmitted: For every abstract its embedding as transmitted.
    """

    def __init__(self, data: PubMedQA, nodes: LocalConsortium, owner: list[int]) -> None:
        self.data = data
        self.nodes = nodes
        self.owner = owner
        self.transmitted = transmitted_rows(data.documents)
        self.names = list(nodes.members)

    @classmethod
    def set_up(
        cls,
        data: PubMedQA,
        nodes: LocalConsortium,
        folder: Path,
        *,
        count: int,
        seed: int,
        settings: dict[str, object] | None = None,
    ) -> PubMedConsortium:
        """Enrol and start `count` nodes; each adds and shares the abstracts drawn for it."""
        vectors = folder / "vectors.npz"
        write_vectors(data, vectors)
        embedder = {"embedding.embedder": "precomputed", "embedding.vectors": str(vectors)}
        for number in range(count):
            nodes.add(f"n{number:02}", f"Hospital {number}", {**embedder, **(settings or {})})
        nodes.enrol("pubmedqa")
        nodes.start()
        draw = random.Random(seed)
        owner = [draw.randrange(count) for _ in data.pmids]
        for number, name in enumerate(nodes.members):
            items = {
                data.pmids[abstract]: {"CONTEXTS": [data.texts[abstract]]}
                for abstract in range(len(owner))
                if owner[abstract] == number
            }
            path = folder / f"{name}.json"
            path.write_text(json.dumps(items))
            with nodes.client(name) as client:
                report = client.add_documents([path], "abstracts")
                assert sum(item["documents"] for item in report["files"]) == len(items), report
                client.share("abstracts")
        return cls(data, nodes, owner)

    def await_learning(self, timeout_s: float) -> float:
        """Wait until every node knows what all others advertise; how long that took, in seconds."""
        began = time.monotonic()
        for name in self.names:
            with self.nodes.client(name) as client:
                while client.status()["sketches"]["peers"] < len(self.names) - 1:
                    if time.monotonic() - began > timeout_s:
                        raise SystemExit(f"{name} did not learn what all others advertise")
                    time.sleep(1.0)
        return time.monotonic() - began

    def question(self, abstract: int, variant: int) -> Question:
        """One question; its embedding as it is transmitted."""
        embedding = transmitted(self.data.queries[abstract, variant])
        return Question(self.data.variants[abstract][variant], abstract, embedding)

    def draw(self, count: int, seed: int) -> list[tuple[str, Question]]:
        """Questions with an asker each that does not own the answer."""
        draw = random.Random(seed)
        drawn = []
        while len(drawn) < count:
            question = self.question(draw.randrange(len(self.owner)), draw.randrange(6))
            asker = draw.randrange(len(self.names))
            if asker != self.owner[question.abstract]:
                drawn.append((self.names[asker], question))
        return drawn

    def exact(self, asker: str, question: Question, k: int) -> list[ContentHash]:
        """The k best documents of everybody but the asker, by exhaustive search."""
        scores = self.transmitted.astype(np.float64) @ question.embedding.astype(np.float64)
        own = np.array(self.owner) == self.names.index(asker)
        order = np.argsort(-np.where(own, -np.inf, scores), kind="stable")[:k]
        return [self.data.hash_of(int(abstract)) for abstract in order]

    def reached_owner(self, question: Question, answer: dict[str, object]) -> bool:
        """Whether the peer that owns the answer was among the contacts."""
        owner = self.nodes[self.names[self.owner[question.abstract]]].peer_id
        contacts = answer["contacts"]
        assert isinstance(contacts, list)
        return any(contact["peer"] == owner for contact in contacts)
