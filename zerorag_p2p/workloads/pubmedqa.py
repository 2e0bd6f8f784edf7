"""PubMedQA's 1,000 labelled items as a workload (paper, section 4.1.1).

The data is not part of this package. A folder of it holds

    ori_pqal.json                        PubMedQA's labelled items, as published
    rephrasings.jsonl                    {"pmid": ..., "rephrasings": [five texts]} a line
    embeddings-all-mpnet-base-v2.npz     pmid [n]; documents [n, 768]; queries [n, 6, 768], the
                                         question and then its rephrasings
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import Content, ContentHash, Fingerprint, Vector, hash_content
from zerorag_p2p.wire.embedding import normalised_rows
from zerorag_p2p.workloads.interests import DOCUMENTS_PER_PEER, draw_interests
from zerorag_p2p.workloads.workload import Workload, WorkloadDocument

FINGERPRINT = Fingerprint(
    "all-mpnet-base-v2",
    "sha256:78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    768,
)


@dataclass(frozen=True)
class PubMedQA:
    """The data set, everything in the order of the abstracts.

    Attributes:
        pmids: PubMed's numbers.
        texts: The abstracts.
        topics: Of every abstract its Medical Subject Headings.
        documents: float32 [n, 768], embeddings of the abstracts, unit rows.
        variants: Of every abstract the question and its five rephrasings.
        queries: float32 [n, 6, 768], embeddings of the variants, unit rows.
        decisions: Of every abstract the answer to its question: yes, no or maybe.
    """

    pmids: list[str]
    texts: list[str]
    topics: list[tuple[str, ...]]
    documents: Vector
    variants: list[list[str]]
    queries: Vector
    decisions: list[str]

    @classmethod
    def load(cls, folder: Path) -> PubMedQA:
        """Read the three files of a folder.

        Raises:
            UsageError: One is missing or is not what it should be.
        """
        try:
            return cls._read(folder)
        except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise UsageError(
                f"{folder} does not hold PubMedQA ({error}); it has to hold ori_pqal.json, "
                "rephrasings.jsonl and embeddings-all-mpnet-base-v2.npz (docs/experiments.md)"
            ) from error

    @classmethod
    def _read(cls, folder: Path) -> PubMedQA:
        with np.load(folder / "embeddings-all-mpnet-base-v2.npz", allow_pickle=False) as arrays:
            pmids = [str(pmid) for pmid in arrays["pmid"]]
            documents = arrays["documents"].astype(np.float32)
            queries = arrays["queries"].astype(np.float32)
        items = json.loads((folder / "ori_pqal.json").read_text(encoding="utf-8"))
        lines = (folder / "rephrasings.jsonl").read_text(encoding="utf-8").splitlines()
        rephrasings = {item["pmid"]: item["rephrasings"] for item in map(json.loads, lines)}
        dimension = FINGERPRINT.dimension
        return cls(
            pmids=pmids,
            texts=["\n".join(items[pmid]["CONTEXTS"]) for pmid in pmids],
            topics=[tuple(dict.fromkeys(items[pmid]["MESHES"])) for pmid in pmids],
            documents=normalised_rows(documents),
            variants=[[items[pmid]["QUESTION"], *rephrasings[pmid]] for pmid in pmids],
            queries=normalised_rows(queries.reshape(-1, dimension)).reshape(queries.shape),
            decisions=[items[pmid]["final_decision"] for pmid in pmids],
        )

    def content(self, abstract: int) -> Content:
        """An abstract as libraries add it."""
        return Content(f"PubMed {self.pmids[abstract]}", self.texts[abstract])

    def hash_of(self, abstract: int) -> ContentHash:
        """Content hash of an abstract."""
        return hash_content(self.content(abstract).encode())


def pubmedqa_workload(
    data: PubMedQA, *, peers: int, seed: int, draws: int = DOCUMENTS_PER_PEER
) -> Workload:
    """The paper's workload: interests over the headings, `draws` documents and questions a peer."""
    topics: dict[str, list[int]] = {}
    for abstract, headings in enumerate(data.topics):
        for heading in headings:
            topics.setdefault(heading, []).append(abstract)
    variants = data.queries.shape[1]
    count = len(data.pmids)
    interests = draw_interests(
        list(topics.values()),
        [range(abstract * variants, (abstract + 1) * variants) for abstract in range(count)],
        peers=peers,
        draws=draws,
        generator=np.random.default_rng(seed),
    )
    return Workload(
        name="pubmedqa",
        fingerprint=FINGERPRINT,
        documents=tuple(
            WorkloadDocument(data.content(abstract), data.topics[abstract])
            for abstract in range(count)
        ),
        vectors=data.documents,
        queries=tuple(text for texts in data.variants for text in texts),
        query_vectors=data.queries.reshape(-1, data.queries.shape[2]),
        answers=tuple(abstract for abstract in range(count) for _ in range(variants)),
        holdings=interests.holdings,
        events=interests.events,
        statistics=interests.statistics,
        decisions=tuple(decision for decision in data.decisions for _ in range(variants)),
    )
