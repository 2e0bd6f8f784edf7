"""PubMedQA's abstracts, questions and their embeddings, one owner an abstract."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerorag_p2p.embedding.precomputed import write_precomputed
from zerorag_p2p.model import Content, ContentHash, Fingerprint, Vector, hash_content
from zerorag_p2p.testnet.processes import LocalConsortium
from zerorag_p2p.wire.embedding import normalised_rows, transmitted, transmitted_rows

FINGERPRINT = Fingerprint(
    "all-mpnet-base-v2",
    "sha256:78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    768,
)


@dataclass(frozen=True)
class Question:
    """A variant of the question that an abstract answers."""

    text: str
    abstract: int
    embedding: Vector


@dataclass(frozen=True)
class PubMedQA:
    """The data set, all arrays in the order of the abstracts."""

    pmids: list[str]
    texts: list[str]
    documents: Vector
    variants: list[list[str]]
    queries: Vector

    @classmethod
    def load(cls, folder: Path) -> PubMedQA:
        """Read `ori_pqal.json`, `rephrasings.jsonl` and the embeddings from a folder."""
        arrays = np.load(folder / "embeddings-all-mpnet-base-v2.npz")
        pmids = [str(pmid) for pmid in arrays["pmid"]]
        items = json.loads((folder / "ori_pqal.json").read_text(encoding="utf-8"))
        lines = (folder / "rephrasings.jsonl").read_text(encoding="utf-8").splitlines()
        rephrasings = {item["pmid"]: item["rephrasings"] for item in map(json.loads, lines)}
        return cls(
            pmids=pmids,
            texts=["\n".join(items[pmid]["CONTEXTS"]) for pmid in pmids],
            documents=normalised_rows(arrays["documents"].astype(np.float32)),
            variants=[[items[pmid]["QUESTION"], *rephrasings[pmid]] for pmid in pmids],
            queries=arrays["queries"].astype(np.float32),
        )

    def hash_of(self, abstract: int) -> ContentHash:
        """Content hash of an abstract as the library adds it."""
        return hash_content(
            Content(f"PubMed {self.pmids[abstract]}", self.texts[abstract]).encode()
        )

    def question(self, abstract: int, variant: int) -> Question:
        """One question; its embedding as it is transmitted."""
        embedding = transmitted(self.queries[abstract, variant])
        return Question(self.variants[abstract][variant], abstract, embedding)

    def write_vectors(self, path: Path) -> None:
        """The file of precomputed vectors that nodes embed from."""
        texts = dict(zip(self.texts, self.documents, strict=True))
        for variants, rows in zip(self.variants, self.queries, strict=True):
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
        data.write_vectors(vectors)
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

    def draw(self, count: int, seed: int) -> list[tuple[str, Question]]:
        """Questions with an asker each that does not own the answer."""
        draw = random.Random(seed)
        drawn = []
        while len(drawn) < count:
            question = self.data.question(draw.randrange(len(self.owner)), draw.randrange(6))
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
