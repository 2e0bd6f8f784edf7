"""Amazon Electronics: products, who bought them, and searches made of their categories.

The data is not part of this package. A folder of it holds, each as published in .gz or plain,

    reviews_Electronics_5.json    {"reviewerID", "asin", ...} a line, and
    meta_Electronics.json         {'asin', 'title', 'description', 'categories', 'brand', 'price',
                                  ...} a line, in JSON or as Python writes it: the reviews of
                                  products with five or more of them, and the products, by McAuley
                                  et al. (SIGIR 2015)
    query_text.txt                a query a line, and
    test.qrels                    reviewer id, underscore, number of the query's line from 0; 0;
                                  asin; and 1 if the reviewer bought it: the benchmark for
                                  personalised product search by Ai et al. (SIGIR 2017)
    train.qrels                   the same for its training half, where there is one
    vectors.npz                   see `workloads.vectors_file`; rows named by asin and by the number
                                  of the query's line

As in section 4.1.1 of the ZeroRAG paper, peers are reviewers, a peer holds the products that it
reviewed, and every pair of a reviewer and a query is one question, in random order. With fewer
peers than reviewers they are those with the most questions. A question has several relevant
products, those of the query that the reviewer bought: all are in `AmazonElectronics.relevant`, and
the event names one of them, drawn. The reviewer holds all of these itself; what it can find at
others is relevant to the query without having been bought by it: `AmazonElectronics.of_category`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import Content
from zerorag_p2p.workloads.lines import MAX_LINES, Line, Record, find_file, read_lines, read_records
from zerorag_p2p.workloads.pubmedqa import FINGERPRINT
from zerorag_p2p.workloads.vectors_file import Vectors
from zerorag_p2p.workloads.workload import (
    Events,
    PeerDocuments,
    QueryEvent,
    Workload,
    WorkloadDocument,
)

_REVIEWS: Final = "reviews_Electronics_5.json"
_PRODUCTS: Final = "meta_Electronics.json"
_QUERIES: Final = "query_text.txt"
_TEST: Final = "test.qrels"
_TRAIN: Final = "train.qrels"

#: Digits of the largest number of a query's line.
_DIGITS: Final = len(str(MAX_LINES))

#: Characters of a product's text that are read. Guess; the model reads the first 384 tokens.
MAX_CHARACTERS: Final = 20_000


@dataclass(frozen=True)
class AmazonElectronics:
    """The reviewers with the most questions, what they bought and what they search.

    Attributes:
        reviewers: Their ids, from the one with the most questions.
        asins: Ids of the products that they reviewed, in the order of the first reviews.
        products: These products, with their categories as topics; their text is title,
            description, categories, brand and price, as the paper embeds them.
        holdings: For every reviewer the products, ascending.
        query_ids: Of every query that they ask the number of its line, from 0, as text.
        queries: These queries.
        relevant: For every question, a (reviewer, query), the products it is about.
        of_category: For every query the products, ascending, that are relevant to it for anybody,
            reviewers that are no peers included. A query is a category, so that is what the
            category has.
    """

    reviewers: list[str]
    asins: list[str]
    products: list[WorkloadDocument]
    holdings: PeerDocuments
    query_ids: list[str]
    queries: list[str]
    relevant: dict[tuple[int, int], tuple[int, ...]]
    of_category: list[tuple[int, ...]]

    @classmethod
    def load(cls, folder: Path, *, reviewers: int) -> AmazonElectronics:
        """Read the texts of a folder, as far as the `reviewers` with most questions need them.

        Raises:
            UsageError: A file is missing or malformed, or there are fewer reviewers.
        """
        questions = dict.fromkeys(
            (judged.reviewer, judged.query) for judged in _read_judgements(folder)
        )
        counts = Counter(reviewer for reviewer, _ in questions)
        if len(counts) < reviewers:
            raise UsageError(
                f"{folder}: {len(counts)} reviewers have questions, fewer than {reviewers}; ask "
                "for fewer peers"
            )
        chosen = {
            reviewer: number for number, (reviewer, _) in enumerate(counts.most_common(reviewers))
        }
        asins, held = _read_reviews(find_file(folder, _REVIEWS), chosen)
        queries: dict[int, int] = {}
        relevant: dict[tuple[int, int], dict[int, None]] = {}
        of_category: dict[int, set[int]] = {}
        for judged in _read_judgements(folder):
            product = asins.get(judged.asin)
            if product is not None:
                of_category.setdefault(judged.query, set()).add(product)
            if judged.reviewer in chosen:
                reviewer = chosen[judged.reviewer]
                if product is None or product not in held[reviewer]:
                    judged.line.fail(f"{judged.reviewer} has no review of {judged.asin}")
                query = queries.setdefault(judged.query, len(queries))
                relevant.setdefault((reviewer, query), {})[product] = None
        texts = _read_queries(find_file(folder, _QUERIES), queries)
        products = _read_products(find_file(folder, _PRODUCTS), asins)
        return cls(
            reviewers=list(chosen),
            asins=list(asins),
            products=[products[asin] for asin in asins],
            holdings=PeerDocuments.of(map(sorted, held)),
            query_ids=list(map(str, queries)),
            queries=[texts[query] for query in queries],
            relevant={question: tuple(found) for question, found in relevant.items()},
            of_category=[tuple(sorted(of_category[query])) for query in queries],
        )


def amazon_workload(data: AmazonElectronics, vectors: Vectors, *, seed: int) -> Workload:
    """The paper's workload: reviewers hold what they reviewed and search its categories.

    Args:
        data: The reviewers.
        vectors: Of their products and queries.
        seed: Decides the order of the questions, and which of the relevant products each names.
    """
    generator = np.random.default_rng(seed)
    picks = generator.integers([len(found) for found in data.relevant.values()]).tolist()
    events = Events.of(
        QueryEvent(reviewer, query, found[pick])
        for ((reviewer, query), found), pick in zip(data.relevant.items(), picks, strict=True)
    )
    order = generator.permutation(len(events))
    answers: dict[int, int] = {}
    for (_, query), found in data.relevant.items():
        answers.setdefault(query, found[0])
    return Workload(
        name="amazon",
        fingerprint=FINGERPRINT,
        documents=tuple(data.products),
        vectors=vectors.documents,
        queries=tuple(data.queries),
        query_vectors=vectors.queries,
        answers=tuple(answers[query] for query in range(len(data.queries))),
        holdings=data.holdings,
        events=Events(events.peers[order], events.queries[order], events.documents[order]),
        relevant=tuple(data.of_category),
        statistics={
            "relevant_a_question": sum(map(len, data.relevant.values())) / len(data.relevant)
        },
    )


@dataclass(frozen=True, slots=True)
class _Judgement:
    """A line that says that a reviewer bought a product of a query."""

    line: Line
    reviewer: str
    query: int
    asin: str


def _read_judgements(folder: Path) -> Iterator[_Judgement]:
    """The judgements of the testing half, then those of the training half if it is there."""
    paths = [find_file(folder, _TEST)]
    if (folder / _TRAIN).is_file() or (folder / f"{_TRAIN}.gz").is_file():
        paths.append(find_file(folder, _TRAIN))
    for line in chain.from_iterable(map(read_lines, paths)):
        match line.text.split():
            case [_, _, _, "0"]:
                continue
            case [question, _, asin, "1"]:
                reviewer, _, query = question.rpartition("_")
                if reviewer and query.isdecimal() and len(query) <= _DIGITS:
                    yield _Judgement(line, reviewer, int(query), asin)
                    continue
        line.fail("it is not a reviewer id and query number, 0, a product id and 0 or 1")


def _read_reviews(
    path: Path, reviewers: Mapping[str, int]
) -> tuple[dict[str, int], list[set[int]]]:
    """Numbers of the products that these reviewers bought, and which of them each did."""
    asins: dict[str, int] = {}
    held: list[set[int]] = [set() for _ in reviewers]
    for record in read_records(path):
        reviewer = record.text("reviewerID")
        if reviewer in reviewers:
            held[reviewers[reviewer]].add(asins.setdefault(record.text("asin"), len(asins)))
    return asins, held


def _read_queries(path: Path, wanted: Collection[int]) -> dict[int, str]:
    queries = {}
    for line in read_lines(path):
        if line.number - 1 in wanted:
            queries[line.number - 1] = line.text
            if not line.text.strip():
                line.fail("the query is empty")
    for query in wanted:
        if query not in queries:
            raise UsageError(f"{path} has no line for the query {query}, counted from 0")
    return queries


def _read_products(path: Path, wanted: Collection[str]) -> dict[str, WorkloadDocument]:
    products = {}
    for line in read_lines(path):
        record = _product_record(line)
        asin = record.text("asin")
        if asin in wanted:
            products[asin] = _product(record, asin)
    for asin in wanted:
        if asin not in products:
            raise UsageError(f"{path} lacks the product {asin!r}, which was reviewed")
    return products


def _product_record(line: Line) -> Record:
    if not line.text.startswith("{'"):
        return line.record()
    try:
        fields = ast.literal_eval(line.text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        line.fail(f"it is neither JSON nor a Python dictionary ({error})")
    if not isinstance(fields, dict):
        line.fail("it is not a Python dictionary")
    return Record(line, fields)


def _product(record: Record, asin: str) -> WorkloadDocument:
    paths = record.fields.get("categories", [])
    if not isinstance(paths, list) or not all(
        isinstance(path, list) and all(isinstance(name, str) for name in path) for path in paths
    ):
        record.line.fail("'categories' has to be a list of lists of texts")
    topics = tuple(dict.fromkeys(", ".join(path) for path in paths))
    title, description, brand = (
        record.text(key, "")[:MAX_CHARACTERS] for key in ("title", "description", "brand")
    )
    price = record.fields.get("price", "")
    parts = (title, description, "\n".join(topics), brand, str(price))
    return WorkloadDocument(
        Content(title or asin, "\n\n".join(filter(None, parts)) or asin), topics
    )
