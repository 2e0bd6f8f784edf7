"""A library with the vectors of two embedding models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.library.contents import Sign
from zerorag_p2p.library.library import HeldProgress, Library
from zerorag_p2p.library.records import Record
from zerorag_p2p.model import Document, ScoredDocument, SharingTerms, Vector
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.embedding import int8_wire_bytes, transmitted, transmitted_rows

OLD, NEW = HashingEmbedder(64, max_words=40), HashingEmbedder(32, max_words=40)


def signer(model: HashingEmbedder) -> Sign:
    def sign(document: Document, embedding: Vector, terms: SharingTerms) -> bytes:
        hashed = hashlib.sha256(int8_wire_bytes(embedding)).hexdigest()[:8]
        dimension = model.fingerprint.dimension
        return f"{dimension} {document.content_hash()[:8]} {hashed} {terms.copy}".encode()

    return sign


def open_library(folder: Path, *, held: HashingEmbedder | None = NEW) -> Library:
    library = Library(folder, OLD, signer(OLD))
    if held is not None:
        library.hold(held, signer(held))
    return library


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with open_library(tmp_path) as opened:
        yield opened


def add(library: Library, *texts: str, collection: str = "notes") -> None:
    library.add_records([Record(name=text, title="", text=text) for text in texts], collection)


def old(library: Library, text: str) -> list[ScoredDocument]:
    query = transmitted(OLD.embed_query(text))
    return library.search(query, 9, admit_collection=lambda _: True, admit=lambda _: True)


def new(library: Library, text: str) -> list[ScoredDocument]:
    query = transmitted(NEW.embed_query(text))
    return library.search_held(query, 9, admit_collection=lambda _: True, admit=lambda _: True)


def texts(library: Library, found: list[ScoredDocument]) -> list[str]:
    return [library.read(library.get(item.content_hash)[0]).text for item in found]


def check_statements(library: Library, found: list[ScoredDocument], dimension: int) -> None:
    """Every statement is about the vector that was found, and of its model."""
    for item in found:
        (content,) = library.get(item.content_hash)
        sharing = library.sharing(content.collection)
        copy = sharing is not None and sharing.terms.copy
        hashed = hashlib.sha256(int8_wire_bytes(item.embedding)).hexdigest()[:8]
        expected = f"{dimension} {item.content_hash[:8]} {hashed} {copy}".encode()
        assert item.attribution == (expected,)


def test_documents_are_embedded_by_both_and_found_by_either(library: Library) -> None:
    add(library, "apple pie", "blue sky")
    assert new(library, "apple pie") == []
    told: list[HeldProgress] = []
    library.embed_held(told.append)
    assert [item.done for item in told] == [0, 1, 2]
    assert library.held_progress().missing == 0
    for search, dimension in ((old, 64), (new, 32)):
        found = search(library, "apple pie")
        assert texts(library, found)[0] == "apple pie"
        assert len(found) == 2
        check_statements(library, found, dimension)
    assert (
        library.count_held(
            transmitted(NEW.embed_query("apple pie")),
            0.9,
            admit_collection=lambda _: True,
            admit=lambda _: True,
        )
        == 1
    )


def test_work_that_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(progress: HeldProgress) -> None:
        if progress.done == 1:
            raise Stop

    with open_library(tmp_path) as library:
        add(library, "apple pie", "blue sky", "cold tea")
        with pytest.raises(Stop):
            library.embed_held(stop)
    with open_library(tmp_path) as library:
        assert library.held_progress() == HeldProgress(3, 1)
        assert len(new(library, "apple pie")) == 1
        library.embed_held()
        assert len(new(library, "apple pie")) == 3


def test_what_changes_changes_for_both(library: Library) -> None:
    add(library, "apple pie", "blue sky")
    add(library, "cold tea", collection="other")
    library.embed_held()
    library.share("notes", Sharing(terms=SharingTerms(copy=True)))
    check_statements(library, old(library, "apple pie"), 64)
    check_statements(library, new(library, "apple pie"), 32)
    (apple, *_) = new(library, "apple pie")
    library.withdraw(apple.content_hash)
    assert texts(library, new(library, "apple pie")) != ["apple pie"]
    assert apple.content_hash not in {item.content_hash for item in new(library, "apple pie")}
    library.restore(apple.content_hash)
    check_statements(library, new(library, "apple pie"), 32)
    library.remove("apple pie")
    assert apple.content_hash not in {item.content_hash for item in new(library, "apple pie")}
    library.remove_collection("other")
    assert texts(library, new(library, "cold tea")) == ["blue sky"]
    library.add_records([Record(name="blue sky", title="", text="a grey sky")], "notes")
    assert new(library, "blue sky") == []  # until it is embedded anew
    library.embed_held()
    assert texts(library, new(library, "blue sky")) == ["a grey sky"]


def test_the_models_change_places_and_the_old_one_goes(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        add(library, "apple pie", "blue sky")
        library.embed_held()
        before = {item.content_hash for item in old(library, "apple pie")}
        library.prefer_held()
        vectors, hashes = library.vectors_to_advertise(["notes"])
        assert set(hashes) == before
        order = [library.read(library.get(item)[0]).text for item in hashes]
        np.testing.assert_array_equal(vectors, transmitted_rows(NEW.embed_documents(order)))
        add(library, "cold tea")  # by the new one from now on
        assert library.stats().searchable == 3
        library.embed_held()
        library.release_held()
        library.release_held()  # there is nothing left to release
        assert library.embed_missing() == 0
    with Library(tmp_path, NEW, signer(NEW)) as library:
        assert library.stats().searchable == 3
    with open_library(tmp_path, held=None) as library:
        assert library.stats().searchable == 0


def test_what_the_other_model_cannot_read_is_cut_anew_once_it_is_in_use(tmp_path: Path) -> None:
    short = HashingEmbedder(32, max_words=3)
    with open_library(tmp_path, held=short) as library:
        add(library, "apple pie", "one two three four five")
        library.embed_held()
        told: list[HeldProgress] = []
        library.embed_held(told.append)
        assert told[-1] == HeldProgress(2, 1, refused=1)
        assert told[-1].missing == 0
        assert len(old(library, "apple pie")) == 2  # found as before
        library.prefer_held()
        assert library.embed_missing() == 1
        found = library.search(
            transmitted(short.embed_query("five")),
            9,
            admit_collection=lambda _: True,
            admit=lambda _: True,
        )
        assert len(found) == 3


def test_nothing_is_held_before_a_second_model_is(tmp_path: Path) -> None:
    with open_library(tmp_path, held=None) as library:
        add(library, "apple pie")
        library.embed_held()
        assert new(library, "apple pie") == []
