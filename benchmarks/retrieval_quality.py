"""What search by vectors, by words and by both find on PubMedQA.

python -m benchmarks.retrieval_quality --pubmedqa FOLDER [--model builtin | --cost PASSAGES]

Without a model the vectors in the folder are searched, every abstract one passage. With a model the
abstracts are cut and embedded as a node does it, and there are keywords beside the questions. With
--cost it is measured instead what an index of the words of so many passages costs.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerorag_p2p.config import FUSED_DOCUMENTS, AskingConfig
from zerorag_p2p.embedding.sentence_transformers import open_model
from zerorag_p2p.library.documents import DocumentStore, StoredSource
from zerorag_p2p.library.lexical import fuse, searched_words
from zerorag_p2p.model import Content, ContentHash, PeerId, Vector
from zerorag_p2p.node.reports import AnswerDocument, DocumentStatus, PeerName
from zerorag_p2p.rag.passages import choose, merge, reorder
from zerorag_p2p.workloads.pubmedqa import PubMedQA

K = 5
KEYWORDS = 3
OWNER = PeerName(PeerId("owner"), "Owner")


@dataclass(frozen=True)
class Passages:
    """Texts, the number of the abstract that each is of, and their embeddings [n, d]."""

    texts: list[str]
    abstracts: list[int]
    embeddings: Vector


@dataclass(frozen=True)
class Questions:
    """Texts, the number of the abstract that each is about, and their embeddings [n, d]."""

    name: str
    texts: list[str]
    abstracts: list[int]
    embeddings: Vector


def load(data: PubMedQA, model: str | None) -> tuple[str, Passages, list[Questions]]:
    everything = list(range(len(data.texts)))
    if model is None:
        name = "all-mpnet-base-v2"
        passages = Passages(data.texts, everything, data.documents)
        first, others = data.queries[:, 0], data.queries[:, 1:].reshape(-1, data.queries.shape[2])
        embed: Callable[[list[str]], Vector] | None = None
    else:
        embedder = open_model(model)
        embed = embedder.embed_documents
        name = embedder.fingerprint.model
        cut = [[text[start:end] for start, end in embedder.cut(text)] for text in data.texts]
        texts = [text for parts in cut for text in parts]
        abstracts = [number for number, parts in enumerate(cut) for _ in parts]
        passages = Passages(texts, abstracts, embed(texts))
        first = embed([variants[0] for variants in data.variants])
        others = embed([text for variants in data.variants for text in variants[1:]])
    originals = [variants[0] for variants in data.variants]
    rephrased = [text for variants in data.variants for text in variants[1:]]
    about = np.repeat(everything, len(rephrased) // len(everything)).tolist()
    asked = [
        Questions("questions", originals, everything, first),
        Questions("rephrasings", rephrased, about, others),
    ]
    if embed is not None:
        words = keywords(data)
        asked.append(Questions("keywords", words, everything, embed(words)))
    return name, passages, asked


def keywords(data: PubMedQA) -> list[str]:
    """Of every question the three words that the fewest abstracts have, as for a search box."""
    held = Counter(word for text in data.texts for word in set(re.findall(r"\w+", text.casefold())))
    found = []
    for variants in data.variants:
        words = [word for word in searched_words(variants[0]) if held[word]]
        rarest = sorted(words, key=lambda word: held[word])[:KEYWORDS]
        found.append(" ".join(word for word in words if word in rarest) or variants[0])
    return found


def rank_by_vectors(passages: Passages, questions: Questions) -> list[list[int]]:
    scores = questions.embeddings @ passages.embeddings.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :FUSED_DOCUMENTS]
    return [[int(number) for number in row] for row in order]


def rank_by_words(
    folder: Path, passages: Passages, asked: Sequence[Questions]
) -> list[list[list[int]]]:
    store = DocumentStore(folder / "documents.sqlite")
    store.index_words(True)
    source = StoredSource(
        id=0, collection="c", name="s", origin="", title="", digest="", parts=len(passages.texts)
    )
    with store.change():
        number = store.add_source(store.add_collection("c").id, source)
        keys = {
            store.add_document(number, part, text, ContentHash(f"{part:064x}")): part
            for part, text in enumerate(passages.texts)
        }
    search = store.word_search()
    found = [
        [
            [keys[key] for key in search.search(searched_words(text), FUSED_DOCUMENTS)]
            for text in questions.texts
        ]
        for questions in asked
    ]
    search.close()
    store.close()
    return found


def report(
    name: str,
    questions: Questions,
    passages: Passages,
    rankings: Sequence[Sequence[int]],
    asks: bool,
) -> None:
    places = []
    answered = []
    for row, (ranking, abstract) in enumerate(zip(rankings, questions.abstracts, strict=True)):
        of = [passages.abstracts[number] for number in ranking]
        places.append(of.index(abstract) + 1 if abstract in of else np.inf)
        if asks:
            chosen = chosen_of(passages, ranking[: 2 * K], questions.embeddings[row])
            answered.append(abstract in chosen)
    found = np.array(places)
    print(
        f"{questions.name:12} {name:18} {np.mean(found <= 1):9.1%} {np.mean(found <= K):9.1%} "
        f"{np.mean(1 / found):7.4f}" + (f" {np.mean(answered):12.1%}" if asks else "")
    )


def chosen_of(passages: Passages, ranking: Sequence[int], question: Vector) -> set[int]:
    """Abstracts of the five passages that `zerorag ask` would choose of ten in this order."""
    documents = [
        AnswerDocument(
            content_hash=ContentHash(str(number)),
            status=DocumentStatus.VERIFIED,
            score=float(passages.embeddings[number] @ question),
            score_verified=True,
            owner=OWNER,
            holder=OWNER,
            title=str(passages.abstracts[number]),
            text=passages.texts[number],
            content=Content("", passages.texts[number]).encode(),
        )
        for number in ranking
    ]
    place = {document.content_hash: place for place, document in enumerate(documents)}
    merged = merge(documents)
    merged = reorder(merged, [-place[item.best.content_hash] for item in merged])
    chosen = choose(merged, K, diversity=AskingConfig().diversity)
    return {int(item.best.title) for item in chosen}


def measure_cost(path: Path, data: PubMedQA, count: int) -> None:
    """Passages of seven sentences each, drawn from all abstracts."""
    draw = random.Random(1)
    sentences = [sentence for text in data.texts for sentence in text.split(". ")]
    texts = [". ".join(draw.sample(sentences, 7)) for _ in range(count)]
    store = DocumentStore(path)
    with store.change():
        collection = store.add_collection("c").id
    add_sources(store, collection, texts)
    store.forget_deleted()
    before = path.stat().st_size
    made = seconds(lambda: store.index_words(True))
    store.forget_deleted()
    after = path.stat().st_size
    search = store.word_search()
    words = [searched_words(variants[1]) for variants in data.variants[:200]]
    each = [
        seconds(lambda chosen=chosen: search.search(chosen, FUSED_DOCUMENTS)) for chosen in words
    ]
    added = seconds(lambda: add_sources(store, collection, texts[:64], "again "))

    def remove() -> None:
        with store.change():
            store.delete_source(store.sources(name="5")[0].id)
        store.forget_deleted()

    removed = seconds(remove)
    print(f"{count} passages, {sum(map(len, texts)) / 1e6:.0f} million characters")
    print(f"index made in {made:.1f} s; file {before / 1e6:.0f} MB, with it {after / 1e6:.0f} MB")
    print(
        f"search: median {np.median(each) * 1e3:.0f} ms, 95% {np.quantile(each, 0.95) * 1e3:.0f} ms"
    )
    print(f"64 passages stored in {added:.2f} s, one removed in {removed:.2f} s")
    search.close()
    store.close()


def add_sources(
    store: DocumentStore, collection: int, texts: Sequence[str], prefix: str = ""
) -> None:
    with store.change():
        for number, text in enumerate(texts):
            source = StoredSource(
                id=0,
                collection="c",
                name=f"{prefix}{number}",
                origin="",
                title="",
                digest="",
                parts=1,
            )
            store.add_document(
                store.add_source(collection, source), 0, text, ContentHash(f"{number:064x}")
            )


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pubmedqa", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--model", help='instead of the vectors in the folder: "builtin"')
    parser.add_argument("--cost", type=int, metavar="PASSAGES")
    options = parser.parse_args()
    if options.cost is not None:
        with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
            data = PubMedQA.load(options.pubmedqa)
            measure_cost(Path(folder) / "documents.sqlite", data, options.cost)
        return
    name, passages, asked = load(PubMedQA.load(options.pubmedqa), options.model)
    print(f"{name}, {len(passages.texts)} passages of {len(set(passages.abstracts))} abstracts")
    print(f"{'asked':12} {'ranking':18}  recall@1  recall@{K}     MRR  in an answer")
    with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
        of_words = rank_by_words(Path(folder), passages, asked)
    for questions, by_words in zip(asked, of_words, strict=True):
        by_vectors = rank_by_vectors(passages, questions)
        pairs = list(zip(by_vectors, by_words, strict=True))
        report("vectors", questions, passages, by_vectors, asks=True)
        report("words (BM25)", questions, passages, by_words, asks=True)
        report("both", questions, passages, [fuse(pair) for pair in pairs], asks=True)
        for damping in (1, 3, 30, 60):
            fused = [fuse(pair, damping=damping) for pair in pairs]
            report(f"both, damping {damping}", questions, passages, fused, asks=False)


if __name__ == "__main__":
    main()
