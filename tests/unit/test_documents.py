import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.documents import DocumentStore, StoredSource
from zerorag_p2p.model import ContentHash

MODEL = "ab" * 32
HASH = ContentHash("cd" * 32)


def source(name: str = "note.txt", origin: str = "/data/note.txt") -> StoredSource:
    return StoredSource(
        id=0,
        collection="notes",
        name=name,
        origin=origin,
        title="Ein Titel",
        digest="ef" * 32,
        parts=2,
        metadata={"ward": "3 süd"},
    )


def fill(store: DocumentStore) -> list[int]:
    with store.change():
        collection = store.add_collection("notes")
        number = store.add_source(collection.id, source())
        keys = [store.add_document(number, part, f"text {part}", HASH) for part in range(2)]
        for key in keys:
            store.put_embedding(key, MODEL, b"vector", b"statement")
    return keys


def test_what_was_stored_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    store = DocumentStore(path)
    keys = fill(store)
    store.close()
    store = DocumentStore(path)
    (stored,) = store.sources()
    assert stored == replace(source(), id=stored.id)
    documents = list(store.embedded_documents(MODEL))
    assert [document.key for document, _ in documents] == keys
    document, vector = documents[1]
    assert vector == b"vector"
    assert (document.title, document.part, document.parts) == ("Ein Titel", 1, 2)
    assert document.metadata == {"ward": "3 süd"}
    assert document.attribution == b"statement"
    assert store.text(keys[1]) == "text 1"
    assert store.texts(stored.id) == dict(zip(keys, ["text 0", "text 1"], strict=True))
    assert store.counts() == {"notes": (1, 2)}
    store.close()


def test_a_change_that_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    store = DocumentStore(tmp_path / "documents.sqlite")

    def fail() -> None:
        with store.change():
            store.add_collection("notes")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert store.collections() == []
    assert store.generation() == 0
    fill(store)
    assert store.generation() == 1
    store.close()


def test_deleting_a_source_deletes_all_of_it_and_keys_are_not_used_again(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    store = DocumentStore(path)
    keys = fill(store)
    with store.change():
        store.delete_source(store.sources()[0].id)
    store.forget_deleted()
    assert list(store.embedded_documents(MODEL)) == []
    assert store.text(keys[0]) is None
    for file in tmp_path.iterdir():
        assert b"text 0" not in file.read_bytes()
    with store.change():
        number = store.add_source(store.collections()[0].id, source())
        assert store.add_document(number, 0, "x", HASH) > max(keys)
    store.close()


def test_sources_are_found_by_name_origin_and_missing_embedding(tmp_path: Path) -> None:
    store = DocumentStore(tmp_path / "documents.sqlite")
    fill(store)
    assert store.sources(collection="other") == []
    assert len(store.sources(collection="notes", name="note.txt")) == 1
    assert len(store.sources(origin="/data/note.txt", unembedded="00" * 32)) == 1
    assert store.sources(unembedded=MODEL) == []
    assert store.hashes_with_prefix("cdcdcdcdc") == [HASH]
    assert store.hashes_with_prefix("cdcdcdcdd") == []
    assert store.sources_of(HASH) == [store.sources()[0].id]
    store.close()


def test_a_newer_schema_is_refused_with_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    DocumentStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(LibraryError, match=r"schema is 9, this version knows 4.*upgrade"):
        DocumentStore(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(LibraryError, match="restore the file from a backup"):
        DocumentStore(path)
    assert path.read_bytes().startswith(b"not a database")
