"""What routing state tells: how often somebody with candidate texts names what is behind it.

python -m benchmarks.leakage [--pubmedqa FOLDER] [--names]

The attacker has texts one of which is behind a vector that it was sent, embeds them with the
model that everybody uses, and names the one that scores best. With a folder of PubMedQA the
candidates are its 1,000 abstracts and questions, otherwise the corpus of the testnet, embedded by
the built-in model. `--names` measures what the embedding of a text tells about a name that was
removed from the text; that takes the built-in model and a minute or two.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.clinical_notes import FILLERS, Note, clinical_notes
from zerorag_p2p.config import WITHHELD_SCORE_STEP, EmbeddingConfig, RoutingConfig
from zerorag_p2p.embedding.embedder import Embedder, open_embedder
from zerorag_p2p.errors import EmbedderUnavailable
from zerorag_p2p.model import Vector
from zerorag_p2p.routing.summaries import summarise
from zerorag_p2p.wire.codes import decode_codes, encode_codes
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.workloads.pubmedqa import PubMedQA

SEED: Final = 0
#: Owners drawn, over whom figures are means.
OWNERS: Final = 20
#: Documents of an owner that advertises documents, and of one that advertises clusters.
FEW: Final = 30
MANY: Final = 200
SMALLEST: Final = (2, 5, 10, 20)
BITS: Final = (32, 4, 2, 1)
HIDDEN_NAMES: Final = 40
CORPUS: Final = Path(__file__).parent.parent / "testnet" / "corpora" / "hospitals"


@dataclass(frozen=True)
class Candidates:
    """What the attacker has, as unit rows.

    Attributes:
        name: Of the data.
        documents: [n, d].
        questions: [n, d], a question that each document answers.
        reworded: [n, d], the same questions in other words; None if there are none.
    """

    name: str
    documents: Vector
    questions: Vector
    reworded: Vector | None


@dataclass(frozen=True)
class Row:
    """One form of what is advertised, means over the owners.

    Attributes:
        vectors: Advertised.
        right: Share of the guesses, one a vector, that name a document of the owner.
        named: Share of the owner's documents that a guess names.
        listed: The same with as many guesses a vector as a cluster has documents at least.
        by_question: Share of the owner's documents named by somebody who has a question on each
            candidate and not its text.
    """

    form: str
    vectors: float
    right: float
    named: float
    listed: float
    by_question: float


def load_pubmedqa(folder: Path) -> Candidates:
    """PubMedQA's abstracts, their questions and the first rephrasing of each."""
    data = PubMedQA.load(folder)
    return Candidates("PubMedQA", data.documents, data.queries[:, 0], data.queries[:, 1])


def load_corpus(embedder: Embedder) -> Candidates:
    """The documents of the testnet's corpus that answer a question best, and these questions."""
    documents, questions = [], []
    for line in (CORPUS / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        text = (CORPUS / item["answers"][0]).read_text(encoding="utf-8")
        if text not in documents:
            documents.append(text)
            questions.append(item["question"])
    return Candidates(
        "the testnet's corpus",
        embedder.embed_documents(documents),
        np.stack([embedder.embed_query(text) for text in questions]),
        None,
    )


def coded(vectors: Vector, bits: int) -> Vector:
    """Vectors as the receiver of an advertisement has them."""
    packed, factors = encode_codes(transmitted_rows(vectors), bits)
    return decode_codes(packed, factors, dimension=vectors.shape[1], bits=bits)


def guesses(rows: Vector, candidates: Vector, count: int = 1) -> NDArray[np.intp]:
    """Of every row the best `count` candidates, [n, count]."""
    return np.argsort(-(rows @ candidates.T), axis=1, kind="stable")[:, :count]


def documents_form(data: Candidates, form: str, bits: int | None) -> Row:
    """Documents advertised one by one; without `bits` as int8, as results carry them."""
    generator = np.random.default_rng(SEED)
    few = min(FEW, len(data.documents) // 3)
    right, by_question = [], []
    for _ in range(OWNERS):
        own = generator.choice(len(data.documents), size=few, replace=False)
        vectors = data.documents[own]
        rows = transmitted_rows(vectors) if bits is None else coded(vectors, bits)
        right.append(float((guesses(rows, data.documents)[:, 0] == own).mean()))
        by_question.append(float((guesses(rows, data.questions)[:, 0] == own).mean()))
    share = float(np.mean(right))
    return Row(form, few, share, share, share, float(np.mean(by_question)))


def centroids_form(data: Candidates, least: int) -> Row:
    """Centroids of at least `least` documents, with the bits that are the default."""
    settings = RoutingConfig()
    generator = np.random.default_rng(SEED)
    many = min(MANY, len(data.documents) // 2)
    rows = []
    for _ in range(OWNERS):
        own = generator.choice(len(data.documents), size=many, replace=False)
        limit = min(settings.advertisement_limit, many // least)
        summary = summarise(data.documents[own], limit, generator, least=least)
        sent = coded(summary.centroids, settings.advertisement_bits)
        first = guesses(sent, data.documents)[:, 0]
        several = guesses(sent, data.documents, least)
        asked = guesses(sent, data.questions)[:, 0]
        rows.append(
            (
                len(sent),
                np.isin(first, own).mean(),
                np.isin(own, first).mean(),
                np.isin(own, several).mean(),
                np.isin(own, asked).mean(),
            )
        )
    return Row(f"centroids of {least} or more", *(float(item) for item in np.mean(rows, axis=0)))


def difference(data: Candidates, least: int) -> float:
    """How often one added document is named by whoever compares the centroids before and after.

    The attacker knows that one was added and not the sizes of the clusters: it tries them.
    """
    settings = RoutingConfig()
    generator = np.random.default_rng(SEED)
    many = min(MANY, len(data.documents) // 2)
    named = 0
    trials = 5 * OWNERS
    for _ in range(trials):
        drawn = generator.choice(len(data.documents), size=many + 1, replace=False)
        limit = min(settings.advertisement_limit, many // least)
        before, after = (
            coded(
                summarise(data.documents[own], limit, generator, least=least).centroids,
                settings.advertisement_bits,
            )
            for own in (drawn[:-1], drawn)
        )
        nearest = before[np.argmax(after @ before.T, axis=1)]
        sizes = np.arange(least, 4 * least)[:, np.newaxis, np.newaxis]
        rest = ((sizes + 1) * after - sizes * nearest).reshape(-1, after.shape[1])
        rest /= np.linalg.norm(rest, axis=1, keepdims=True)
        scores = data.documents @ rest.T.astype(np.float32)
        named += int(np.argmax(scores.max(axis=1))) == drawn[-1]
    return named / trials


def remembered(data: Candidates) -> Iterator[tuple[str, float]]:
    """How often a remembered question is named, by what the attacker has."""
    asked = transmitted_rows(data.questions)
    everyone = np.arange(len(asked))
    yield "the questions", float((guesses(asked, data.questions)[:, 0] == everyone).mean())
    if data.reworded is not None:
        by_words = guesses(asked, data.reworded)[:, 0] == everyone
        yield "the questions in other words", float(by_words.mean())
    by_document = guesses(asked, data.documents)[:, 0] == everyone
    yield "documents that answer them", float(by_document.mean())


def removed_names(embedder: Embedder) -> dict[str, float]:
    """How often a name removed from a text is told, by what the attacker is sent of the text.

    It has the text without the name, and all candidates. "score" is what the owner answers when
    each candidate's text is asked for; where several score the same, one of them is guessed.
    """
    names = FILLERS["name.full"]
    generator = random.Random(SEED)
    hidden = [
        (note, label.start, label.end)
        for note in clinical_notes()
        for label in note.labels
        if note.text[label.start : label.end] in names
    ]
    chosen = generator.sample(hidden, HIDDEN_NAMES)
    told: dict[str, list[float]] = {}
    for note, start, end in chosen:
        embeddings = transmitted_rows(_candidates(embedder, names, note, start, end))
        truth = names.index(note.text[start:end])
        scores = embeddings @ embeddings[truth]
        redacted = note.text[:start] + note.text[end:]
        left = transmitted_rows(embedder.embed_documents([redacted]))[0]
        coarse = np.floor(scores / WITHHELD_SCORE_STEP + 1e-4)
        for what, seen in (
            ("the embedding of the whole text, or exact scores", scores),
            (f"scores of the whole text in steps of {WITHHELD_SCORE_STEP}", coarse),
            ("the embedding of the redacted text", embeddings @ left),
        ):
            told.setdefault(what, []).append(_told(seen, truth))
    told["nothing"] = [1 / len(names)]
    return {what: float(np.mean(shares)) for what, shares in told.items()}


def _candidates(
    embedder: Embedder, names: Sequence[str], note: Note, start: int, end: int
) -> Vector:
    texts = [note.text[:start] + name + note.text[end:] for name in names]
    return embedder.embed_documents(texts)


def _told(scores: Vector, truth: int) -> float:
    """The chance of naming the truth by guessing one of the best."""
    best = np.flatnonzero(scores == scores.max())
    return 1 / len(best) if truth in best else 0.0


def main() -> None:
    """Measure, and print tables for people and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pubmedqa", type=Path, metavar="FOLDER")
    parser.add_argument("--names", action="store_true", help="try to tell names removed from texts")
    arguments = parser.parse_args()
    model = open_embedder(EmbeddingConfig())
    if arguments.pubmedqa:
        data = load_pubmedqa(arguments.pubmedqa)
    else:
        try:
            data = load_corpus(model)
        except EmbedderUnavailable as error:
            print(f"the built-in model is missing ({error}); words are hashed instead")
            data = load_corpus(open_embedder(EmbeddingConfig(embedder="hashing")))
    count = len(data.documents)
    print(f"{count} candidates of {data.name}; a guess at random is right in {1 / count:.4f}\n")
    rows = [
        documents_form(data, "documents, int8", None),
        *(documents_form(data, f"documents, {bits} bits", bits) for bits in BITS),
        *(centroids_form(data, least) for least in SMALLEST if 2 * least <= min(MANY, count // 2)),
    ]
    print("| advertised | vectors | guesses right | named | named by m guesses | by question |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.form} | {row.vectors:.0f} | {row.right:.3f} | {row.named:.3f} | "
            f"{row.listed:.3f} | {row.by_question:.3f} |"
        )
    print("\n| smallest cluster | an added document is named |\n|---|---|")
    added = {
        least: difference(data, least) for least in SMALLEST if 2 * least <= min(MANY, count // 2)
    }
    for least, share in added.items():
        print(f"| {least} | {share:.3f} |")
    print("\n| the attacker has | a remembered question is named |\n|---|---|")
    asked = dict(remembered(data))
    for what, share in asked.items():
        print(f"| {what} | {share:.3f} |")
    figures: dict[str, object] = {
        "candidates": count,
        "data": data.name,
        "advertised": [asdict(row) for row in rows],
        "added": added,
        "remembered": asked,
    }
    if arguments.names:
        figures["names"] = told = removed_names(model)
        print("\n| the attacker is sent | a removed name is told |\n|---|---|")
        for what, share in told.items():
            print(f"| {what} | {share:.3f} |")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
