"""Consortia, folders of the user, AOL-IA, Amazon Electronics, and what describes a workload."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerorag_p2p.config import MAX_CONTENT_BYTES, MAX_NAME_BYTES, MAX_RECORD_BYTES
from zerorag_p2p.errors import ConfigError, UsageError
from zerorag_p2p.model import Content, Fingerprint
from zerorag_p2p.wire.embedding import normalised_rows
from zerorag_p2p.workloads import folder as folder_module
from zerorag_p2p.workloads import lines
from zerorag_p2p.workloads.amazon import AmazonElectronics
from zerorag_p2p.workloads.aol import AolIa
from zerorag_p2p.workloads.consortium import TopicAffinity, consortium_workload, draw_sizes
from zerorag_p2p.workloads.folder import read_workload, write_workload
from zerorag_p2p.workloads.lines import read_lines
from zerorag_p2p.workloads.scenario import Scenario, parse_scenario
from zerorag_p2p.workloads.source import load_workload
from zerorag_p2p.workloads.statistics import (
    PUBLISHED,
    describe_workload,
    recall_if_own_counted,
)
from zerorag_p2p.workloads.synthetic import synthetic_workload
from zerorag_p2p.workloads.workload import (
    Events,
    PeerDocuments,
    QueryEvent,
    Workload,
    WorkloadDocument,
)

BASE = synthetic_workload(peers=5, seed=3, draws=5, topics=20)
CONSORTIUM = consortium_workload(BASE, peers=20, seed=1)


def scenario(workload: str, **changes: Any) -> Scenario:
    return replace(Scenario(name="test", shows="a test", workload=workload, draws=5), **changes)


def save_lines(path: Path, objects: Iterable[object]) -> None:
    data = "".join(f"{json.dumps(item)}\n" for item in objects).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def per_peer(workload: Workload) -> dict[int, list[tuple[int, int]]]:
    asked = defaultdict(list)
    for event in workload.events:
        asked[event.peer].append((event.query, event.document))
    return dict(asked)


# Consortium


def test_every_document_has_one_owner_and_every_peer_a_document() -> None:
    assert sorted(CONSORTIUM.holdings.documents.tolist()) == list(range(200))
    assert all(CONSORTIUM.holdings)
    assert len(CONSORTIUM.holdings) == 20


def test_askers_do_not_own_what_they_ask_for() -> None:
    assert Counter(event.peer for event in CONSORTIUM.events) == dict.fromkeys(range(20), 30)
    for event in CONSORTIUM.events:
        assert event.document not in CONSORTIUM.holdings[event.peer]
        assert CONSORTIUM.answers[event.query] == event.document
    variants = {event.query % 6 for event in CONSORTIUM.events}
    assert variants == set(range(6))


def test_owners_specialise_and_ask_near_their_specialty() -> None:
    statistics = CONSORTIUM.statistics
    assert statistics["share_on_main_topics"] > 0.7
    assert statistics["share_if_dealt_at_random"] < 0.5
    assert statistics["affinity_of_askers"] > 5 * statistics["affinity_of_others"]


def test_a_seed_gives_the_same_consortium() -> None:
    again = consortium_workload(BASE, peers=20, seed=1)
    assert again.events == CONSORTIUM.events
    assert again.holdings == CONSORTIUM.holdings
    other = consortium_workload(BASE, peers=20, seed=2)
    assert other.holdings != CONSORTIUM.holdings
    assert BASE.statistics == synthetic_workload(peers=5, seed=3, draws=5, topics=20).statistics


@given(st.integers(2, 60), st.integers(0, 300), st.integers(0, 2**32))
def test_sizes_leave_nobody_and_nothing_out(peers: int, more: int, seed: int) -> None:
    sizes = draw_sizes(peers + more, peers, np.random.default_rng(seed))
    assert len(sizes) == peers
    assert sizes.min() >= 1
    assert sizes.sum() == peers + more


def test_sizes_have_a_long_tail() -> None:
    sizes = np.sort(draw_sizes(10_000, 200, np.random.default_rng(1)))
    assert sizes[-20:].sum() > 0.3 * sizes.sum()
    assert np.median(sizes) < 0.75 * sizes.mean()


def test_rare_topics_bring_documents_together() -> None:
    affinity = TopicAffinity([("all", "rare"), ("all", "rare"), ("all", "a"), ("all",), ()])
    to_first = affinity.to_all(0)
    assert to_first[:2] == pytest.approx(1, abs=1e-6)
    assert to_first[1] > to_first[3] > to_first[2] > to_first[4] == 0


def test_a_consortium_of_documents_without_topics_is_possible() -> None:
    plain = tuple(WorkloadDocument(item.content) for item in BASE.documents)
    workload = consortium_workload(replace(BASE, documents=plain), peers=4, seed=1, questions=3)
    assert len(workload.events) == 12
    assert workload.statistics["affinity_of_askers"] == 0


@pytest.mark.parametrize("peers", [1, 201])
def test_a_consortium_has_no_peer_without_a_document(peers: int) -> None:
    with pytest.raises(UsageError, match="2 to 200 peers"):
        consortium_workload(BASE, peers=peers, seed=1)


def test_somebody_else_has_to_know_an_answer() -> None:
    few = replace(BASE, answers=(0,) * len(BASE.answers))
    with pytest.raises(UsageError, match="no query about a document of another peer"):
        consortium_workload(few, peers=3, seed=1)


# Statistics


def handmade() -> Workload:
    """Six documents on six axes; peer 0 holds 0 to 3, peer 1 has 3 and 4, and nobody has 5."""
    vectors = np.eye(6, dtype=np.float32)
    queries = normalised_rows(np.array([[6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]], np.float32))
    topics = (("a",), ("b",), ("a", "b"), (), (), ())
    return Workload(
        name="handmade",
        fingerprint=Fingerprint("test", "1", 6),
        documents=tuple(WorkloadDocument(Content(f"{n}", f"{n}"), topics[n]) for n in range(6)),
        vectors=vectors,
        queries=("falling", "rising"),
        query_vectors=queries,
        answers=(0, 5),
        holdings=PeerDocuments.of([(0, 1, 2, 3), (3, 4)]),
        events=Events.of([QueryEvent(0, 0, 0), QueryEvent(1, 0, 0), QueryEvent(1, 1, 5)]),
        statistics={"draws_from_first_topic": 2.5},
    )


def test_a_workload_is_described() -> None:
    described = describe_workload(handmade())
    assert described["peers"] == 2
    assert described["documents"] == 6
    assert described["topics"] == 2
    assert described["questions"] == 3
    assert described["documents_a_peer"] == 3
    assert described["documents_a_peer_max"] == 4
    assert described["holders_a_document"] == 1
    assert described["holders_a_document_min"] == 0
    assert described["holders_a_document_max"] == 2
    assert described["share_answerable"] == pytest.approx(1 / 3, abs=1e-6)
    assert described["draws_from_first_topic"] == 2.5
    # Of documents 0 to 4, peer 1 holds two, and of those that peer 0 holds there are four.
    assert described["recall_if_own_counted"] == pytest.approx((2 + 4 + 4) / 15, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 12))
def test_recall_with_own_documents_is_what_brute_force_says(seed: int, peers: int) -> None:
    generator = np.random.default_rng(seed)
    held = [np.flatnonzero(generator.random(200) < 0.1).tolist() for _ in range(peers)]
    held[0].append(0)
    held[0] = sorted(set(held[0]))
    events = [QueryEvent(int(generator.integers(peers)), int(q), 0) for q in range(0, 60, 7)]
    workload = replace(BASE, holdings=PeerDocuments.of(held), events=Events.of(events))
    anywhere = sorted(set().union(*held))
    shares = []
    for event in events:
        scores = workload.vectors[anywhere] @ workload.query_vectors[event.query]
        top = [anywhere[number] for number in np.argsort(-scores)[:5]]
        others = set().union(*(held[peer] for peer in range(peers) if peer != event.peer))
        shares.append(len(others.intersection(top)) / len(top))
    # Embeddings are compared as transmitted, in 8 bits: a fifth place may go to another one.
    assert recall_if_own_counted(workload) == pytest.approx(np.mean(shares), abs=0.05)


def test_published_figures_go_with_ours() -> None:
    described = describe_workload(BASE)
    for figures in PUBLISHED.values():
        assert figures.keys() <= described.keys()
        assert all(figure.source for figure in figures.values())


# The user's own folder


def write_example(folder: Path) -> None:
    (folder / "workload.json").write_text(
        json.dumps({"name": "wards", "model": {"model": "tiny", "revision": "1"}})
    )
    save_lines(
        folder / "documents.jsonl",
        [
            {"id": "flu", "title": "Influenza", "text": "Rest.", "topics": ["virus"]},
            {"id": "gout", "text": "Drink."},
        ],
    )
    save_lines(
        folder / "queries.jsonl.gz",
        [
            {"id": "q1", "text": "What helps against the flu?", "document": "flu"},
            {"id": "q2", "text": "And gout?", "document": "gout"},
        ],
    )
    save_lines(
        folder / "peers.jsonl",
        [
            {"id": "north", "documents": ["gout", "flu"], "queries": ["q2"]},
            {"id": "south", "documents": [], "queries": ["q1", "q2", "q1"]},
        ],
    )
    np.savez(
        folder / "vectors.npz",
        documents=np.array([[3, 4], [0, 2]], np.float16),
        queries=np.array([[1, 0], [0, 1]], np.float32),
    )


def test_a_folder_is_read(tmp_path: Path) -> None:
    write_example(tmp_path)
    workload = read_workload(tmp_path, seed=1)
    assert workload.name == "wards"
    assert workload.fingerprint == Fingerprint("tiny", "1", 2)
    assert workload.documents == (
        WorkloadDocument(Content("Influenza", "Rest."), ("virus",)),
        WorkloadDocument(Content("", "Drink.")),
    )
    assert list(workload.holdings) == [(0, 1), ()]
    assert workload.answers == (0, 1)
    assert per_peer(workload) == {0: [(1, 1)], 1: [(0, 0), (1, 1), (0, 0)]}
    assert np.allclose(workload.vectors, np.array([[0.6, 0.8], [0, 1]]), atol=1e-3)


def change_line(name: str, number: int, **fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        items = [json.loads(line) for line in data.splitlines()]
        items[number - 1].update(fields)
        save_lines(path, items)

    return change


def write_raw(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def save_vectors(**arrays: Any) -> Callable[[Path], None]:
    return lambda folder: np.savez(folder / "vectors.npz", **arrays)


TWO = np.eye(2, dtype=np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "peers.jsonl").unlink(), r"has to hold peers\.jsonl or peers\.jsonl\.gz"),
        (lambda f: (f / "vectors.npz").unlink(), r"embed no texts.*numpy\.savez"),
        (lambda f: (f / "workload.json").unlink(), r"workload\.json has to say"),
        (write_raw("workload.json", b"[" * 5_000), r"workload\.json has to say"),
        (write_raw("workload.json", b'{"name": "x", "model": {"model": "x"}}'), "revision"),
        (
            write_raw(
                "workload.json",
                b'{"name": "x", "model": {"model": "x", "revision": "1", "dimension": 9}}',
            ),
            "9 dimensions",
        ),
        (write_raw("documents.jsonl", b'{"id": \n'), r"documents\.jsonl, line 1: it is not JSON"),
        (write_raw("documents.jsonl", b"[]\n"), "line 1: it is not a JSON object"),
        (write_raw("documents.jsonl", b"\n\xff\n"), "line 2: it is not UTF-8"),
        (write_raw("queries.jsonl.gz", b"plain"), r"queries\.jsonl\.gz cannot be read"),
        (write_raw("queries.jsonl.gz", gzip.compress(b"{}" * 99)[:-9]), "cannot be read"),
        (change_line("documents.jsonl", 2, id="flu"), "line 2: another document has the id 'flu'"),
        (change_line("documents.jsonl", 2, id=7), "line 2: 'id' has to be a text"),
        (change_line("documents.jsonl", 2, id="x" * (MAX_NAME_BYTES + 1)), "id is longer than"),
        (change_line("documents.jsonl", 1, text=" "), "line 1: 'text' has to be a text"),
        (change_line("documents.jsonl", 1, text="\ud800"), "line 1: 'text' is not valid Unicode"),
        (change_line("documents.jsonl", 1, text="x" * MAX_CONTENT_BYTES), "longer than .* split"),
        (change_line("documents.jsonl", 1, text="x" * MAX_RECORD_BYTES), "line 1: it is longer"),
        (change_line("documents.jsonl", 1, topics="virus"), "'topics' has to be a list of texts"),
        (
            change_line("queries.jsonl.gz", 2, document="rash"),
            r"queries\.jsonl\.gz, line 2: there is no document with the id 'rash'",
        ),
        (change_line("peers.jsonl", 2, documents=["rash"]), "line 2: there is no document"),
        (change_line("peers.jsonl", 2, queries=["q3"]), "line 2: there is no query with the id"),
        (write_raw("peers.jsonl", b'{"id": "north"}\n'), "two peers"),
        (save_vectors(documents=TWO), "does not hold the arrays"),
        (save_vectors(documents=TWO[:1], queries=TWO), "'documents' has 1 rows for 2 documents"),
        (save_vectors(documents=TWO, queries=TWO[:, :1]), "documents have 2 dimensions, queries 1"),
        (save_vectors(documents=TWO.astype(int), queries=TWO), "float16 or float32"),
        (save_vectors(documents=0 * TWO, queries=TWO), "an embedding is zero"),
        (save_vectors(documents=np.array([{}]), queries=TWO), "does not hold the arrays"),
        (write_raw("vectors.npz", b"PK\x03\x04"), "does not hold the arrays"),
    ],
)
def test_what_is_wrong_with_a_folder_is_named(
    tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    write_example(tmp_path)
    change(tmp_path)
    with pytest.raises(UsageError, match=message):
        read_workload(tmp_path, seed=1)


def test_a_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_example(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "MAX_ITEMS", 1)
        with pytest.raises(UsageError, match="line 2: there are more than 1 of them"):
            read_workload(tmp_path, seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "MAX_QUESTIONS", 3)
        with pytest.raises(UsageError, match="line 2: there are more than 3 questions"):
            read_workload(tmp_path, seed=1)
    monkeypatch.setattr(lines, "MAX_LINES", 1)
    with pytest.raises(UsageError, match="more than 1 lines"):
        list(read_lines(tmp_path / "peers.jsonl"))


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    documents = draw(
        st.lists(
            st.builds(
                WorkloadDocument,
                st.builds(Content, st.text(st.characters(exclude_categories=["Cs"])), texts),
                st.lists(texts, unique=True, max_size=2).map(tuple),
            ),
            min_size=1,
            max_size=4,
        )
    )
    numbers = st.integers(0, len(documents) - 1)
    queries = draw(st.lists(texts, min_size=1, max_size=4))
    answers = draw(st.lists(numbers, min_size=len(queries), max_size=len(queries)))
    holdings = draw(st.lists(st.sets(numbers).map(sorted), min_size=2, max_size=4))
    asked = draw(
        st.lists(
            st.tuples(st.integers(0, len(holdings) - 1), st.integers(0, len(queries) - 1)),
            min_size=1,
            max_size=9,
        )
    )
    dimension = draw(st.integers(1, 4))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    revision = draw(st.sampled_from(["1", 'a "quoted"\n one']))

    def rows(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return normalised_rows(generator.normal(size=(count, dimension)).astype(np.float32))

    return Workload(
        name=draw(texts),
        fingerprint=Fingerprint("model", revision, dimension, "cls", False, draw(st.just("q: "))),
        documents=tuple(documents),
        vectors=rows(len(documents)),
        queries=tuple(queries),
        query_vectors=rows(len(queries)),
        answers=tuple(answers),
        holdings=PeerDocuments.of(holdings),
        events=Events.of(QueryEvent(peer, query, answers[query]) for peer, query in asked),
    )


@settings(max_examples=25, deadline=None)
@given(workloads(), st.integers(0, 2**32))
def test_what_was_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, workload: Workload, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("folder")
    write_workload(workload, folder)
    again = read_workload(folder, seed=seed)
    for name in ("name", "fingerprint", "documents", "queries", "answers", "holdings"):
        assert getattr(again, name) == getattr(workload, name)
    assert np.array_equal(again.vectors, workload.vectors)
    assert np.array_equal(again.query_vectors, workload.query_vectors)
    assert per_peer(again) == per_peer(workload)
    assert again.events == read_workload(folder, seed=seed).events


def test_turns_of_the_peers_are_mixed(tmp_path: Path) -> None:
    write_workload(CONSORTIUM, tmp_path)
    one, two = read_workload(tmp_path, seed=1), read_workload(tmp_path, seed=2)
    assert one.events != two.events
    assert per_peer(one) == per_peer(two) == per_peer(CONSORTIUM)
    assert len(set(one.events.peers[:60].tolist())) > 10


def test_what_has_no_place_in_a_folder_is_refused(tmp_path: Path) -> None:
    workload = handmade()
    part = WorkloadDocument(Content("", "x", 0, 2))
    with pytest.raises(UsageError, match="part of a document"):
        write_workload(replace(workload, documents=(part, *workload.documents[1:])), tmp_path)
    with pytest.raises(UsageError, match="one query for several documents"):
        write_workload(replace(workload, answers=(1, 5)), tmp_path)


# AOL-IA


def write_aol(folder: Path) -> None:
    pages = [("p1", "One"), ("p2", ""), ("p3", "Three"), ("p4", "Four")]
    save_lines(
        folder / "docs.jsonl.gz",
        [
            {"doc_id": page, "title": title, "text": "body", "url": f"http://{page}", "wb_url": ""}
            for page, title in pages
        ],
    )
    (folder / "queries.tsv").write_text("a\tfirst query\nb\tsecond\nc\tthird\n")
    clicks = [
        "a 7 p1 1",
        "a 8 p2 1",
        "b 8 p1 1",
        "b 8 p1 1",
        "c 9 p3 1",
        "c 9 p2 1",
        "a 5 gone 1",
        "a 5 gone 1",
        "a 5 p4 1",
    ]
    (folder / "qrels").write_text("".join(f"{click}\n" for click in clicks).replace(" ", "\t"))
    generator = np.random.default_rng(1)
    np.savez(
        folder / "vectors.npz",
        documents=generator.normal(size=(4, 768)).astype(np.float16),
        document_ids=np.array(["p4", "p3", "p2", "p1"]),
        queries=generator.normal(size=(3, 768)).astype(np.float16),
        query_ids=np.array(["c", "b", "a"]),
    )


def test_aol_users_hold_what_they_clicked_and_ask_for_it(tmp_path: Path) -> None:
    write_aol(tmp_path)
    data = AolIa.load(tmp_path, users=2)
    assert data.users == ["8", "9"]  # three clicks, two clicks
    workload = load_workload(scenario("aol-ia", peers=2), tmp_path)
    contents = [item.content for item in workload.documents]
    assert contents == [
        Content("http://p2", "body\n\nhttp://p2"),
        Content("One", "One\n\nbody\n\nhttp://p1"),
        Content("Three", "Three\n\nbody\n\nhttp://p3"),
    ]
    assert workload.queries == ("first query", "second", "third")
    assert list(workload.holdings) == [(0, 1), (0, 2)]
    asked = per_peer(workload)
    assert sorted(asked[0]) == [(0, 0), (1, 1), (1, 1)]
    assert sorted(asked[1]) == [(2, 0), (2, 2)]
    assert workload.answers == (0, 1, 2)
    with np.load(tmp_path / "vectors.npz") as arrays:
        stored = normalised_rows(arrays["documents"].astype(np.float32))
    assert np.array_equal(workload.vectors, stored[[2, 3, 1]])
    assert load_workload(scenario("aol-ia", peers=2), tmp_path).events == workload.events


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("qrels", "a 7 p1\n", r"qrels, line 1: it is not a query id, a user id"),
        ("qrels", "a 7 p1 1\nx 7 p1 1\nx 8 p1 1\n", r"queries\.tsv lacks the query 'x'"),
        ("qrels", "a 7 p1 1\n", "1 users clicked a page of docs.jsonl.gz, fewer than 2"),
        ("queries.tsv", "a\tfirst\nb second\n", r"queries\.tsv, line 2: it is not a query id"),
        ("docs.jsonl", "{}\n", r"docs\.jsonl, line 1: 'doc_id' has to be a text"),
    ],
)
def test_what_is_wrong_with_aol_is_named(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    write_aol(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        AolIa.load(tmp_path, users=2)


def test_texts_without_an_embedding_are_named(tmp_path: Path) -> None:
    write_aol(tmp_path)
    row = np.ones((1, 768), np.float32)
    for ids, message in ((["p1"], "lacks 'p2'"), (["p1", "p2"], "names 2 rows.* has 1")):
        np.savez(
            tmp_path / "vectors.npz",
            documents=row,
            document_ids=np.array(ids),
            queries=row,
            query_ids=np.array(["a"]),
        )
        with pytest.raises(UsageError, match=message):
            load_workload(scenario("aol-ia", peers=2), tmp_path)


# Amazon Electronics

LENSES = [["Electronics", "Camera, Photo", "Lenses"]]
CABLES = [["Electronics", "Cables"], ["Electronics", "Audio"]]
PRODUCTS: list[dict[str, object]] = [
    {"asin": "B1", "title": "A lens", "description": "It's sharp.", "categories": LENSES},
    {"asin": "B2", "categories": CABLES, "brand": "Wire", "price": 3.5},
    {"asin": "B3", "title": "Unseen", "categories": []},
    {"asin": "B4", "title": "Another lens", "categories": LENSES},
]


def write_amazon(folder: Path, products: Sequence[object] = PRODUCTS) -> None:
    data = "".join(f"{product!r}\n" for product in products).encode()
    (folder / "meta_Electronics.json.gz").write_bytes(gzip.compress(data))
    bought = [("ann", "B1"), ("ann", "B4"), ("ann", "B2"), ("bob_x", "B2"), ("cy", "B1")]
    save_lines(
        folder / "reviews_Electronics_5.json.gz",
        [{"reviewerID": who, "asin": what, "reviewText": "Good."} for who, what in bought],
    )
    (folder / "query_text.txt.gz").write_bytes(gzip.compress(b"photo lenses\n\ncables\naudio\n"))
    judgements = b"ann_0 0 B1 1\nann_0 0 B4 1\nann_0 0 B2 0\nbob_x_2 0 B2 1\ncy_0 0 B1 1\n"
    (folder / "test.qrels.gz").write_bytes(gzip.compress(judgements))
    (folder / "train.qrels").write_text("ann_2 0 B2 1\nbob_x_3 0 B2 1\n")
    generator = np.random.default_rng(1)
    np.savez(
        folder / "vectors.npz",
        documents=generator.normal(size=(3, 768)).astype(np.float32),
        document_ids=np.array(["B1", "B2", "B4"]),
        queries=generator.normal(size=(3, 768)).astype(np.float32),
        query_ids=np.array(["0", "2", "3"]),
    )


def test_amazon_reviewers_search_categories(tmp_path: Path) -> None:
    write_amazon(tmp_path)
    data = AmazonElectronics.load(tmp_path, reviewers=2)
    assert data.reviewers == ["ann", "bob_x"]  # two questions each; the third has one
    assert data.queries == ["photo lenses", "cables", "audio"]
    assert data.relevant == {(0, 0): (0, 1), (1, 1): (2,), (0, 1): (2,), (1, 2): (2,)}
    workload = load_workload(scenario("amazon", peers=2), tmp_path)
    assert [item.content for item in workload.documents] == [
        Content("A lens", "A lens\n\nIt's sharp.\n\nElectronics, Camera, Photo, Lenses"),
        Content("Another lens", "Another lens\n\nElectronics, Camera, Photo, Lenses"),
        Content("B2", "Electronics, Cables\nElectronics, Audio\n\nWire\n\n3.5"),
    ]
    assert workload.documents[2].topics == ("Electronics, Cables", "Electronics, Audio")
    assert list(workload.holdings) == [(0, 1, 2), (2,)]
    assert {(event.peer, event.query) for event in workload.events} == data.relevant.keys()
    for event in workload.events:
        assert event.document in data.relevant[event.peer, event.query]
    assert workload.statistics == {"relevant_a_question": 1.25}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("test.qrels", "ann 0 B1 1\n", r"test\.qrels, line 1: it is not a reviewer id"),
        ("test.qrels", f"ann_{'9' * 5000} 0 B1 1\n", "line 1: it is not a reviewer id"),
        ("test.qrels", "ann_0 0 B3 1\n", r"test\.qrels, line 1: ann has no review of B3"),
        ("test.qrels", "ann_1 0 B1 1\n", r"line 2: the query is empty"),
        ("test.qrels", "ann_9 0 B1 1\n", r"has no line for the query 9"),
        ("reviews_Electronics_5.json", "{}\n", "line 1: 'reviewerID' has to be a text"),
        ("meta_Electronics.json", "{'asin': f()}\n", "neither JSON nor a Python dictionary"),
        ("meta_Electronics.json", "{'asin', 1}\n", "line 1: it is not a Python dictionary"),
        ("meta_Electronics.json", "{'asin': 'B1'}\n", "lacks the product 'B4'"),
        ("meta_Electronics.json", "{'asin': 'B1', 'categories': ['x']}\n", "list of lists"),
    ],
)
def test_what_is_wrong_with_amazon_is_named(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    write_amazon(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        AmazonElectronics.load(tmp_path, reviewers=2)


def test_metadata_may_be_json(tmp_path: Path) -> None:
    write_amazon(tmp_path)
    before = AmazonElectronics.load(tmp_path, reviewers=2)
    save_lines(tmp_path / "meta_Electronics.json", PRODUCTS)
    assert AmazonElectronics.load(tmp_path, reviewers=2) == before


def test_there_have_to_be_as_many_reviewers(tmp_path: Path) -> None:
    write_amazon(tmp_path)
    with pytest.raises(UsageError, match="3 reviewers have questions, fewer than 4"):
        load_workload(scenario("amazon", peers=4), tmp_path)


# Scenarios


def test_scenarios_name_their_workload(tmp_path: Path) -> None:
    text = 'name = "x"\nshows = "x"\nworkload = "consortium"\n'
    assert parse_scenario(text).workload == "consortium"
    with pytest.raises(ConfigError, match=r"'tape' is unknown.*aol-ia, amazon"):
        parse_scenario(text.replace("consortium", "tape"))
    made_up = load_workload(scenario("consortium", peers=20), None)
    assert made_up.name == "consortium-synthetic"
    assert len(made_up.events) == 20 * 5
    with pytest.raises(UsageError, match="does not hold PubMedQA"):
        load_workload(scenario("consortium", peers=20), tmp_path)
    for name, data in (("folder", "files of yours"), ("aol-ia", "AOL-IA"), ("amazon", "Amazon")):
        with pytest.raises(UsageError, match=f"needs {data}.* say in which folder"):
            load_workload(scenario(name), None)


def test_a_folder_has_the_peers_it_has(tmp_path: Path) -> None:
    write_example(tmp_path)
    assert len(load_workload(scenario("folder", peers=2), tmp_path).events) == 4
    with pytest.raises(UsageError, match=r"has 2 peers, the scenario 'test' 500"):
        load_workload(scenario("folder"), tmp_path)
