"""Documents of a library found by their words beside their vectors."""

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library import documents
from zerorag_p2p.library.documents import DocumentStore, WordSearch
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.records import Record
from zerorag_p2p.model import Document, SharingTerms, Vector
from zerorag_p2p.policy.sharing import Sharing

EMBEDDER = HashingEmbedder()
RARE = "zolgensma is given to infants with weak muscles"
COMMON = [f"a patient with fever and cough on ward {number}" for number in range(12)]
QUESTION = "patient with fever and zolgensma"
K = 6


def sign(document: Document, embedding: Vector, terms: SharingTerms) -> bytes:
    return hashlib.sha256(document.text.encode()).digest()


def open_library(home: Path, *, words: bool | None = True) -> Library:
    library = Library(home, EMBEDDER, sign)
    if words is not None:
        library.index_words(words)
    return library


def add(library: Library, *texts: str, collection: str = "notes") -> None:
    records = [Record(name=text[:40], title="t", text=text) for text in texts]
    library.add_records(records, collection)


def found(library: Library, question: str = QUESTION, k: int = K) -> list[str]:
    results = library.search_both(EMBEDDER.embed_query(question), question, k)
    return [library.read(library.get(item.content_hash)[0]).text for item in results]


def keys_of(home: Path, *words: str) -> list[int]:
    search = WordSearch(home / "documents.sqlite")
    try:
        return search.search(words, 100)
    finally:
        search.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "library"


@pytest.fixture
def library(home: Path) -> Iterator[Library]:
    with open_library(home) as opened:
        yield opened


def test_a_rare_word_brings_up_what_its_vector_does_not(library: Library) -> None:
    add(library, *COMMON, RARE)
    embedding = EMBEDDER.embed_query(QUESTION)
    alike = library.search(embedding, K, admit_collection=lambda _: True, admit=lambda _: True)
    results = library.search_both(embedding, QUESTION, K)
    assert RARE in found(library)
    assert len(results) == K
    by_vectors = {item.content_hash: item for item in alike}
    (rare,) = [item for item in results if item.content_hash not in by_vectors]
    assert rare.score == pytest.approx(float(rare.embedding @ embedding), abs=1e-6)
    for item in results:
        if item is not rare:
            assert item.score == pytest.approx(by_vectors[item.content_hash].score, abs=1e-6)
            assert item.attribution == by_vectors[item.content_hash].attribution
    library.index_words(False)
    assert RARE not in found(library)


def test_other_forms_of_a_word_are_found_and_what_no_word_of_is_asked_is_not(
    library: Library, home: Path
) -> None:
    add(library, "infusions were stopped", "Fièvre élevée")
    assert len(keys_of(home, "infusion")) == 1
    assert len(keys_of(home, "fievre")) == 1
    assert keys_of(home, "stop", "infusing") == keys_of(home, "infusion")
    assert keys_of(home, "warfarin") == []
    assert keys_of(home) == []


@pytest.mark.parametrize(
    "question", ["", '" OR NEAR(', "text: *", "what is it?", "a" * 5_000, "\0"]
)
def test_no_question_is_a_query_language(library: Library, question: str) -> None:
    add(library, RARE)
    vector = EMBEDDER.embed_query("anything")
    results = library.search_both(vector, question, 3)
    assert [library.read(library.get(item.content_hash)[0]).text for item in results] == [RARE]


def test_the_index_follows_every_change(library: Library, home: Path) -> None:
    add(library, RARE, COMMON[0])
    add(library, "apixaban", collection="other")
    (rare,) = keys_of(home, "zolgensma")
    library.add_records([Record(name=RARE[:40], title="t", text="risdiplam for infants")], "notes")
    assert keys_of(home, "zolgensma") == []
    assert len(keys_of(home, "risdiplam")) == 1
    assert keys_of(home, "risdiplam") != [rare]
    library.remove(COMMON[0][:40])
    assert keys_of(home, "fever") == []
    library.remove_collection("other")
    assert keys_of(home, "apixaban") == []
    assert found(library, "risdiplam") == ["risdiplam for infants"]
    check(home)


def test_the_index_is_kept_and_followed_by_whoever_does_not_search_it(home: Path) -> None:
    with open_library(home) as library:
        add(library, COMMON[0])
    with open_library(home, words=None) as library:  # as `zerorag docs add` without a node
        add(library, RARE)
        library.remove(COMMON[0][:40])
    with open_library(home) as library:
        assert found(library) == [RARE]
    assert keys_of(home, "fever") == []
    check(home)


def test_an_index_made_later_has_everything_and_one_that_goes_leaves_nothing(home: Path) -> None:
    with open_library(home, words=False) as library:
        add(library, *COMMON, RARE)
        assert RARE not in found(library)
        library.index_words(True)
        assert RARE in found(library)
        library.index_words(False)
        add(library, "risdiplam")
    names = {row[0] for row in rows(home, "SELECT name FROM sqlite_master")}
    assert not {name for name in names if "words" in name}


def test_no_file_keeps_words_of_what_was_removed_or_replaced(library: Library, home: Path) -> None:
    def put(name: str, text: str) -> None:
        library.add_records([Record(name=name, title="t", text=text)], "notes")

    add(library, *COMMON)
    put("a", "quinupristin")
    put("b", "dalfopristin")
    library.remove("a")
    put("b", "linezolid")
    data = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"linezolid" in data
    assert b"quinupristin" not in data
    assert b"dalfopristin" not in data


def test_what_was_taken_back_and_what_has_no_vector_is_not_found(
    library: Library, home: Path
) -> None:
    add(library, *COMMON, RARE)
    library.share("notes", Sharing(terms=SharingTerms(copy=True)))
    (rare,) = library.resolve(
        next(
            item.content_hash
            for item in library.search_both(EMBEDDER.embed_query(QUESTION), QUESTION, K)
            if library.read(library.get(item.content_hash)[0]).text == RARE
        )
    )
    library.withdraw(rare)
    assert RARE not in found(library)
    library.restore(rare)
    assert RARE in found(library)
    library.close()
    other = HashingEmbedder(dimension=128)
    with Library(home, other, sign) as opened:
        opened.index_words(True)
        assert opened.search_both(other.embed_query(QUESTION), QUESTION, K) == []


def test_the_same_text_of_two_collections_is_found_once(library: Library) -> None:
    add(library, RARE)
    add(library, RARE, COMMON[0], collection="other")
    assert sorted(found(library)) == sorted([RARE, COMMON[0]])


def test_a_search_goes_on_while_the_library_is_being_changed(library: Library, home: Path) -> None:
    add(library, RARE)
    search = WordSearch(home / "documents.sqlite")
    connection = sqlite3.connect(home / "documents.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM documents")
    assert len(search.search(["zolgensma"], 10)) == 1
    connection.execute("ROLLBACK")
    connection.close()
    search.close()
    with pytest.raises(LibraryError, match="failed"):
        search.search(["zolgensma"], 10)


def test_a_sqlite_without_full_text_search_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DocumentStore(tmp_path / "documents.sqlite")
    monkeypatch.setattr(documents, "_FULL_TEXT_MODULE", "no_such_module")
    with pytest.raises(LibraryError, match=r"no full-text search.*'asking.words'"):
        store.index_words(True)
    store.index_words(False)
    store.close()


def rows(home: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(home / "documents.sqlite")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def check(home: Path) -> None:
    """Raises unless the index has exactly the documents."""
    rows(home, "INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
