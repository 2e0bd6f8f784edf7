"""What the thresholds of `zerorag ask` were chosen by, on PubMedQA.

python -m benchmarks.asking --pubmedqa FOLDER [--model builtin]
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from zerorag_p2p.embedding.sentence_transformers import open_model
from zerorag_p2p.model import Content, ContentHash, PeerId, Vector
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus, PeerName
from zerorag_p2p.rag.citations import support
from zerorag_p2p.rag.passages import choose, merge
from zerorag_p2p.workloads.pubmedqa import PubMedQA

OWNER = PeerName(PeerId("owner"), "Owner")


class Scores:
    """Similarities of the questions with each other and with the abstracts, by one model."""

    def __init__(self, data: PubMedQA, model: str | None) -> None:
        if model is None:
            self.name = "all-mpnet-base-v2"
            queries, documents = data.queries, data.documents
            parts = np.arange(len(documents))
        else:
            embedder = open_model(model)
            self.name = embedder.fingerprint.model
            texts = [text for variants in data.variants for text in variants]
            queries = embedder.embed_documents(texts).reshape(*data.queries.shape[:2], -1)
            split = [[text[start:end] for start, end in embedder.cut(text)] for text in data.texts]
            documents = embedder.embed_documents([part for cut in split for part in cut])
            parts = np.repeat(np.arange(len(split)), [len(cut) for cut in split])
        self.variants = queries.shape[1]
        self.queries: Vector = queries.reshape(-1, queries.shape[2])
        self.about = np.repeat(np.arange(len(queries)), self.variants)
        self.documents = np.full((len(self.queries), len(queries)), -1.0, dtype=np.float32)
        # The score of an abstract is that of the best of its parts.
        np.maximum.at(self.documents.T, parts, (self.queries @ documents.T).T)

    def with_own(self) -> Vector:
        """Score of the abstract that a question is about."""
        own: Vector = self.documents[np.arange(len(self.about)), self.about]
        return own


def measure_same_question(scores: Scores) -> None:
    print(
        f"\nsame_question ({scores.name}): two questions about different abstracts, and two of one"
    )
    likeness = scores.queries @ scores.queries.T
    same = scores.about[:, None] == scores.about[None]
    nearest_other = np.where(same, -1.0, likeness).max(axis=1)
    first = np.arange(0, len(scores.queries), scores.variants)
    rephrased = np.array([likeness[row, row + 1 : row + scores.variants] for row in first])
    print("threshold  wrongly shared  rephrasings that share")
    for threshold in (0.80, 0.82, 0.84, 0.86, 0.88, 0.90, 0.92, 0.95):
        wrong, right = (nearest_other >= threshold).mean(), (rephrased >= threshold).mean()
        print(f"{threshold:9.2f}  {wrong:14.3%}  {right:22.1%}")


def measure_good_score(scores: Scores) -> None:
    print(f"\ngood_score ({scores.name}): libraries with and without the abstract asked for")
    others = scores.documents.copy()
    others[np.arange(len(scores.about)), scores.about] = -1.0
    draw = np.random.default_rng(1)
    sizes = (30, 100, 300, 999)
    best = {}
    for size in sizes:
        chosen = np.array([draw.permutation(others.shape[1])[:size] for _ in others])
        best[size] = np.take_along_axis(others, chosen, axis=1).max(axis=1)
    print("threshold  answered " + "".join(f"  wrongly of {size:3}" for size in sizes))
    for threshold in (0.60, 0.65, 0.70, 0.75, 0.80):
        row = "".join(f"{(best[size] >= threshold).mean():16.2%}" for size in sizes)
        print(f"{threshold:9.2f}  {(scores.with_own() >= threshold).mean():8.1%}{row}")


def measure_support(data: PubMedQA, scores: Scores, folder: Path) -> None:
    print("\nSUPPORT_THRESHOLD: sentences of conclusions, and abstracts that they are not of")
    items = json.loads((folder / "ori_pqal.json").read_text(encoding="utf-8"))
    right, near, far = [], [], []
    count = len(data.pmids)
    for abstract, pmid in enumerate(data.pmids):
        row = scores.documents[abstract * scores.variants]
        found = [other for other in np.argsort(-row)[:6].tolist() if other != abstract][:5]
        for sentence in re.split(r"(?<=[.!?])\s+", items[pmid]["LONG_ANSWER"]):
            share = support(sentence, data.texts[abstract])
            if share is None:
                continue
            right.append(share)
            near += [support(sentence, data.texts[other]) for other in found]
            far.append(support(sentence, data.texts[(abstract + count // 2) % count]))
    print(f"{len(right)} sentences")
    print("threshold  own doubted  found beside it doubted  any other doubted")
    for threshold in (0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.50):
        doubted = [np.mean(np.array(shares) < threshold) for shares in (right, near, far)]
        print(f"{threshold:9.2f}  {doubted[0]:11.1%}  {doubted[1]:23.1%}  {doubted[2]:17.1%}")


def measure_diversity(data: PubMedQA, scores: Scores) -> None:
    print("\ndiversity: five passages of ten, alone and with an edited copy of every abstract")
    draw = random.Random(1)
    copies = [edited(text, draw) for text in data.texts]
    rows = draw.sample(range(len(scores.queries)), 1_000)
    print("diversity  answer among five  with copies: answer among five  different abstracts")
    for diversity in (0.0, 0.1, 0.25, 0.5, 1.0):
        alone, copied, different = [], [], []
        for row in rows:
            order = np.argsort(-scores.documents[row])
            ten = [passage(data.texts, row, abstract, scores) for abstract in order[:10]]
            alone.append(answered(ten, diversity, scores.about[row]))
            pairs = [
                item
                for abstract in order[:5]
                for item in (
                    passage(data.texts, row, abstract, scores),
                    passage(copies, row, abstract, scores, less=0.005),
                )
            ]
            copied.append(answered(pairs, diversity, scores.about[row]))
            different.append(len({item.title for item in chosen(pairs, diversity)}))
        print(
            f"{diversity:9.2f}  {np.mean(alone):17.1%}  {np.mean(copied):30.1%}  "
            f"{np.mean(different):19.2f}"
        )


def edited(text: str, draw: random.Random) -> str:
    """A text with every tenth word left out, as a hospital's own version of a guideline might."""
    return " ".join(word for word in text.split() if draw.random() > 0.1)


def passage(
    texts: Sequence[str], row: int, abstract: int, scores: Scores, *, less: float = 0.0
) -> AnswerDocument:
    return AnswerDocument(
        content_hash=ContentHash(str(abstract)),
        status=DocumentStatus.VERIFIED,
        score=float(scores.documents[row, abstract]) - less,
        score_verified=True,
        owner=OWNER,
        holder=OWNER,
        title=str(abstract),
        text=texts[abstract],
        content=Content("", texts[abstract]).encode(),
    )


def chosen(documents: Sequence[AnswerDocument], diversity: float) -> list[AnswerDocument]:
    return [item.best for item in choose(merge(documents), 5, diversity=diversity)]


def answered(documents: Sequence[AnswerDocument], diversity: float, abstract: int) -> bool:
    return any(item.title == str(abstract) for item in chosen(documents, diversity))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pubmedqa", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--model", help='instead of the vectors in the folder: "builtin"')
    options = parser.parse_args()
    data = PubMedQA.load(options.pubmedqa)
    scores = Scores(data, options.model)
    measures: list[Callable[[], None]] = [
        lambda: measure_same_question(scores),
        lambda: measure_good_score(scores),
    ]
    if options.model is None:  # these hardly depend on the model
        measures += [
            lambda: measure_support(data, scores, options.pubmedqa),
            lambda: measure_diversity(data, scores),
        ]
    for measure in measures:
        measure()


if __name__ == "__main__":
    main()
