import hashlib
import json
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import EmbedderUnavailable, EmbeddingError, LibraryError
from zerorag_p2p.library import contents
from zerorag_p2p.library.documents import StoredDocument
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.records import Record
from zerorag_p2p.library.reports import AddReport, FileStatus
from zerorag_p2p.model import (
    ContentHash,
    Document,
    Fingerprint,
    Purpose,
    ScoredDocument,
    SharingTerms,
    Vector,
    hash_content,
)
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.embedding import int8_wire_bytes, transmitted


def sign(document: Document, embedding: Vector, terms: SharingTerms) -> bytes:
    hashed = hashlib.sha256(int8_wire_bytes(embedding)).hexdigest()
    return f"{document.content_hash()} {hashed} {document.collection} {terms}".encode()


EMBEDDER = HashingEmbedder(max_words=40)


def open_library(home: Path, embedder: object = EMBEDDER, **options: int) -> Library:
    return Library(home, embedder, sign, **options)  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "library"


@pytest.fixture
def library(home: Path) -> Iterator[Library]:
    with open_library(home) as opened:
        yield opened


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def statuses(report: AddReport) -> list[tuple[str, str]]:
    return [(Path(item.path).name, str(item.status)) for item in report.files]


def search(library: Library, text: str, k: int = 5, **admission: object) -> list[ScoredDocument]:
    admit: object = admission.get("admit", lambda document: True)
    collections: object = admission.get("collections", lambda collection: True)
    return library.search(
        EMBEDDER.embed_query(text),
        k,
        admit_collection=collections,  # type: ignore[arg-type]
        admit=admit,  # type: ignore[arg-type]
    )


def texts(library: Library, found: Sequence[ScoredDocument]) -> list[str]:
    return [library.read(library.get(item.content_hash)[0]).text for item in found]


class TestAdding:
    def test_added_unchanged_updated_skipped(self, library: Library, tmp_path: Path) -> None:
        folder = write(
            tmp_path / "in", a__md="# Sepsis\nfluids", b__txt="warfarin dose", c__tiff="x"
        )
        (folder / "d.pdf").write_bytes(b"\xff")
        (folder / "e.txt").write_text(" ")
        progress: list[str] = []
        report = library.add([folder], "notes", on_progress=lambda item: progress.append(item.path))
        assert statuses(report) == [
            ("a.md", "added"),
            ("b.txt", "added"),
            ("c.tiff", "skipped"),
            ("d.pdf", "skipped"),
            ("e.txt", "skipped"),
        ]
        assert report.count(FileStatus.SKIPPED) == 3
        assert report.documents == 2
        assert "not supported" in report.files[2].reason
        assert report.files[4].reason == "it has no text"
        assert progress == [item.path for item in report.files]
        assert texts(library, search(library, "warfarin", 1)) == ["warfarin dose"]

        generation = library.generation
        assert library.add([folder], "notes").count(FileStatus.UNCHANGED) == 2
        assert library.generation == generation

        (folder / "b.txt").write_text("heparin dose")
        report = library.add([folder], "notes")
        assert statuses(report)[:2] == [("a.md", "unchanged"), ("b.txt", "updated")]
        assert library.generation > generation
        assert "warfarin dose" not in texts(library, search(library, "warfarin dose"))
        assert library.stats().documents == library.stats().searchable == 2

    def test_it_is_all_there_after_reopening(self, home: Path, tmp_path: Path) -> None:
        folder = write(tmp_path / "in", a__md="# Sepsis\nfluids", b__txt="warfarin dose")
        with open_library(home) as library:
            library.add([folder], "notes")
            library.share("notes", Sharing(terms=SharingTerms(copy=True)))
            before = search(library, "fluids"), library.overview(), library.stats()
            (source,) = [item for item in library.sources() if item.title == "Sepsis"]
        with open_library(home) as library:
            after = search(library, "fluids"), library.overview(), library.stats()
            assert after[1:] == before[1:]
            for old, new in zip(before[0], after[0], strict=True):
                assert (old.content_hash, old.score) == (new.content_hash, new.score)
                assert old.attribution == new.attribution
                np.testing.assert_array_equal(old.embedding, new.embedding)
            assert source in library.sources("notes")
            assert library.add([folder], "notes").count(FileStatus.UNCHANGED) == 2

    def test_a_library_of_many_documents_is_opened_part_by_part(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records = [Record(name=str(n), title="t", text=f"note {n}") for n in range(23)]
        with open_library(home) as library:
            library.add_records(records, "notes")
        monkeypatch.setattr(contents, "LIBRARY_LOAD_DOCUMENTS", 5)
        with open_library(home) as library:
            assert library.stats().searchable == 23
            for number in (0, 4, 5, 22):
                assert texts(library, search(library, f"note {number}", 1)) == [f"note {number}"]

    def test_two_spellings_of_a_name_are_one_document(
        self, library: Library, tmp_path: Path
    ) -> None:
        folder = tmp_path / "in"
        folder.mkdir()
        composed, decomposed = "café.txt", unicodedata.normalize("NFD", "café.txt")
        (folder / composed).write_text("espresso")
        library.add([folder / composed], "menü")
        (folder / composed).rename(folder / decomposed)
        report = library.add([folder / decomposed], unicodedata.normalize("NFD", "menü"))
        assert [item.status for item in report.files] == [FileStatus.UNCHANGED]
        assert library.collections() == ["menü"]
        (folder / composed).write_text("cappuccino")
        report = library.add([folder], "menü")
        assert sorted(item.status for item in report.files) == ["skipped", "unchanged"]
        assert library.stats().documents == 1
        assert library.remove(str(folder / decomposed)) == 1

    def test_long_texts_become_several_documents_that_make_up_the_text(
        self, library: Library
    ) -> None:
        text = "".join(f"Sentence number {number} is here. " for number in range(60))
        report = library.add_records([Record(name="long", title="Long", text=text)], "notes")
        assert report.documents > 5
        found = search(library, "sentence", 100)
        documents = [library.read(library.get(item.content_hash)[0]) for item in found]
        documents.sort(key=lambda document: document.part)
        assert [document.part for document in documents] == list(range(report.documents))
        assert all(document.parts == report.documents for document in documents)
        whole = documents[0].text
        for document in documents[1:]:
            # Each begins with the last words of the one before it.
            overlap = next(n for n in range(100, 0, -1) if whole.endswith(document.text[:n]))
            assert document.text[:overlap].startswith("Sentence")
            whole += document.text[overlap:]
        assert whole == text

    def test_records_of_a_file_come_and_go_with_its_lines(
        self, library: Library, tmp_path: Path
    ) -> None:
        path = tmp_path / "notes.jsonl"

        def lines(*ids: str) -> str:
            return "".join(json.dumps({"id": i, "text": f"text {i}"}) + "\n" for i in ids)

        # What is repeated word for word is no document of its own.
        other = json.dumps({"id": "a", "text": "another text"}) + "\n"
        path.write_text(lines("a", "b", "a") + other + "nonsense\n")
        report = library.add([path], "notes")
        assert [(item.path, str(item.status), item.documents) for item in report.files] == [
            (f"{path}, a", "skipped", 0),
            (f"{path}, line 5", "skipped", 0),
            (str(path), "added", 2),
        ]
        # A line that cannot be read may have been one of the others: nothing is removed.
        path.write_text(lines("b", "c") + "nonsense\n")
        library.add([path], "notes")
        assert library.stats().sources == 3
        path.write_text(lines("b", "c"))
        assert library.add([path], "notes").files[-1].status is FileStatus.UPDATED
        assert [source.name for source in library.sources()] == [f"{path}#b", f"{path}#c"]
        assert library.remove(str(path)) == 2
        assert library.stats().documents == 0

    def test_one_text_that_cannot_be_embedded_does_not_stop_the_others(self, home: Path) -> None:
        class Picky(HashingEmbedder):
            def embed_documents(self, texts: Sequence[str]) -> Vector:
                vectors = super().embed_documents(texts)
                for row, text in zip(vectors, texts, strict=True):
                    row[0] = {"bad nan": np.nan, "bad inf": np.inf}.get(text, row[0])
                    if text == "bad zero":
                        row[:] = 0
                    if text == "bad error":
                        raise EmbeddingError("cannot embed this")
                return vectors

        records = [
            Record(name=text, title="", text=text)
            for text in ("good 1", "bad nan", "bad inf", "bad zero", "bad error", "good 2")
        ]
        with open_library(home, Picky()) as library:
            report = library.add_records(records, "notes")
            assert [item.path for item in report.files if item.status is FileStatus.ADDED] == [
                "good 1",
                "good 2",
            ]
            assert report.files[4].reason == "cannot embed this"
            assert library.stats().documents == 2

    def test_an_embedder_that_does_not_work_ends_adding(self, home: Path) -> None:
        class Broken(HashingEmbedder):
            def embed_documents(self, texts: Sequence[str]) -> Vector:
                raise EmbedderUnavailable("no model")

        with open_library(home, Broken()) as library:
            with pytest.raises(EmbedderUnavailable):
                library.add_records([Record(name="a", title="", text="x")], "notes")
            assert library.stats().documents == 0

    @pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 129])
    def test_names_that_collections_cannot_have(self, library: Library, name: str) -> None:
        with pytest.raises(LibraryError, match="cannot name a collection"):
            library.add([], name)


class TestSearching:
    def test_admission_comes_before_the_cut(self, library: Library) -> None:
        records = [
            Record(name=str(n), title=str(n), text="warfarin dose" + " x" * n) for n in range(20)
        ]
        library.add_records(records, "notes")
        library.add_records([Record(name="s", title="s", text="warfarin dose")], "secret")
        found = search(
            library,
            "warfarin dose",
            3,
            collections=lambda collection: collection != "secret",
            admit=lambda document: int(document.title) >= 10,
        )
        titles = [library.get(item.content_hash)[0].title for item in found]
        assert titles == ["10", "11", "12"]

    def test_the_same_content_is_found_once_and_by_whom_it_is_admitted(
        self, library: Library
    ) -> None:
        record = Record(name="a", title="t", text="warfarin dose")
        library.add_records([record, replace(record, name="b")], "first")
        library.add_records([record], "second")
        library.add_records([Record(name="c", title="t", text="heparin dose")], "second")
        found = search(library, "warfarin dose", 2)
        assert texts(library, found) == ["warfarin dose", "heparin dose"]
        (other,) = search(
            library, "warfarin dose", 1, admit=lambda item: item.collection != "first"
        )
        assert b"second" in other.attribution[0]
        assert len(library.get(other.content_hash)) == 3

    def test_scores_and_statements_are_of_what_is_transmitted(self, library: Library) -> None:
        library.add_records([Record(name="a", title="t", text="warfarin dose")], "notes")
        query = EMBEDDER.embed_query("warfarin")
        (found,) = search(library, "warfarin")
        sent = transmitted(EMBEDDER.embed_documents(["warfarin dose"])[0])
        np.testing.assert_array_equal(found.embedding, sent)
        assert found.score == pytest.approx(float(query @ sent), abs=1e-6)
        hashed = hashlib.sha256(int8_wire_bytes(found.embedding)).hexdigest()
        assert hashed.encode() in found.attribution[0]

    def test_what_may_be_advertised(self, library: Library) -> None:
        record = Record(name="a", title="t", text="warfarin dose")
        library.add_records([record, Record(name="b", title="t", text="heparin")], "first")
        library.add_records([record, Record(name="c", title="t", text="insulin")], "second")
        vectors, hashes = library.vectors_to_advertise(["first", "second", "no such"])
        assert vectors.shape == (3, 256)
        assert len(set(hashes)) == 3
        vectors, hashes = library.vectors_to_advertise([])
        assert (vectors.shape, hashes) == ((0, 256), [])

    def test_hashes_are_resolved_by_their_beginning(self, library: Library) -> None:
        library.add_records([Record(name="a", title="t", text="x")], "notes")
        content_hash = hash_content(Document("t", "x", "notes", "a").content())
        assert library.resolve(content_hash[:8]) == [content_hash]
        assert library.resolve("00000000") == []
        for bad in ("", content_hash[:7], content_hash[:8].upper() + "G", "%" * 8):
            with pytest.raises(LibraryError, match="hexadecimal"):
                library.resolve(bad)


class TestRemoving:
    def test_removed_documents_are_gone_at_once(self, library: Library, home: Path) -> None:
        records = [Record(name=name, title=name, text=f"text of {name}") for name in "abc"]
        library.add_records(records, "notes")
        library.add_records(records[:1], "other")
        (stored,) = library.get(search(library, "text of b", 1)[0].content_hash)
        assert library.remove("a", "other") == 1
        assert library.remove(stored.content_hash[:12]) == 1
        assert library.get(stored.content_hash) == []
        with pytest.raises(LibraryError, match="was removed"):
            library.read(stored)
        assert sorted(texts(library, search(library, "text"))) == ["text of a", "text of c"]
        with pytest.raises(LibraryError, match="no source, file or content hash 'b'"):
            library.remove("b")
        with pytest.raises(LibraryError, match="no collection 'x'; there are: 'notes', 'other'"):
            library.remove("a", "x")
        for path in home.rglob("*.sqlite*"):
            assert b"text of b" not in path.read_bytes()

    def test_a_collection_goes_with_all_that_is_in_it(self, library: Library) -> None:
        library.add_records([Record(name="a", title="t", text="x")], "notes")
        library.share("notes", Sharing())
        assert library.remove_collection("notes") == 1
        assert (library.collections(), library.sharing("notes")) == ([], None)
        assert search(library, "x") == []
        library.add_records([Record(name="a", title="t", text="x")], "notes")
        assert library.sharing("notes") is None


class TestSharing:
    def test_collections_are_unshared_until_shared(self, library: Library) -> None:
        library.add_records([Record(name="a", title="t", text="x")], "notes")
        assert library.sharing("notes") is None
        assert not library.overview()[0].shared
        generation = library.generation
        sharing = Sharing(purposes=(Purpose.TREAT,))
        library.share("notes", sharing)
        assert library.sharing("notes") == sharing
        assert library.overview()[0].shared
        assert library.generation > generation
        library.unshare("notes")
        assert library.sharing("notes") is None
        for change in (lambda: library.share("x", sharing), lambda: library.unshare("x")):
            with pytest.raises(LibraryError, match="no collection 'x'"):
                change()

    def test_statements_carry_the_terms_in_force(self, library: Library) -> None:
        def attribution() -> bytes:
            (found,) = search(library, "x")
            return found.attribution[0]

        library.add_records([Record(name="a", title="t", text="x")], "notes")
        first = attribution()
        assert b"copy=False" in first
        library.share("notes", Sharing())
        assert attribution() == first
        library.share("notes", Sharing(terms=SharingTerms(copy=True)))
        assert b"copy=True" in attribution()
        library.add_records([Record(name="a", title="t", text="x changed")], "notes")
        assert b"copy=True" in attribution()
        library.unshare("notes")
        assert b"copy=False" in attribution()


class OtherModel(HashingEmbedder):
    """Splits at fewer words, and has another fingerprint."""

    def __init__(self, max_words: int = 40) -> None:
        super().__init__(128, max_words=max_words)

    @property
    def fingerprint(self) -> Fingerprint:
        return replace(super().fingerprint, revision="2")


class TestChangingTheModel:
    @pytest.mark.parametrize("max_words", [40, 2])
    def test_documents_are_embedded_anew(self, home: Path, max_words: int) -> None:
        records = [
            Record(name=str(n), title="t", text=f"note number {n}") for n in range(70, 0, -1)
        ]
        with open_library(home) as library:
            library.add_records(records, "notes")
        with open_library(home, OtherModel(max_words)) as library:
            assert (library.stats().searchable, library.stats().documents) == (0, 70)
            assert library.embed_missing() == 70
            assert library.embed_missing() == 0
            assert library.stats().searchable == library.stats().documents
            assert library.add_records(records, "notes").count(FileStatus.UNCHANGED) == 70
        with open_library(home) as library:
            # Both models' vectors stay where they cut the texts alike.
            assert library.stats().searchable == (70 if max_words == 40 else 0)

    def test_adding_again_embeds_anew_too(self, home: Path) -> None:
        record = Record(name="a", title="t", text="x")
        with open_library(home) as library:
            library.add_records([record], "notes")
        with open_library(home, OtherModel()) as library:
            assert library.add_records([record], "notes").count(FileStatus.UPDATED) == 1
            assert library.stats().searchable == 1


class TestGraphs:
    def fill(self, home: Path, count: int = 60) -> None:
        records = [Record(name=f"{n:03}", title="t", text=f"note {n}") for n in range(count)]
        with open_library(home, exact_limit=20) as library:
            library.add_records(records, "notes")
            assert library.stats().graphs == 1

    def check_whole(self, home: Path, count: int = 60) -> None:
        with open_library(home, exact_limit=20) as library:
            library.maintain()
            assert library.stats().graphs == 1
            assert library.stats().searchable == count
            for number in (0, count - 1):
                assert texts(library, search(library, f"note {number}", 1)) == [f"note {number}"]

    def graph_file(self, home: Path) -> Path:
        (path,) = (home / "graphs").glob("*.usearch")
        return path

    def test_a_saved_graph_is_used_again(self, home: Path) -> None:
        self.fill(home)
        saved = self.graph_file(home).stat().st_mtime_ns
        self.check_whole(home)
        assert self.graph_file(home).stat().st_mtime_ns == saved

    @pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped", "random", "sidecar"])
    def test_a_damaged_graph_is_built_anew_and_that_is_logged(
        self, home: Path, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.fill(home)
        path = self.graph_file(home)
        data = path.read_bytes()
        sidecar = path.with_name(path.name + ".json")
        match damage:
            case "missing":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
            case "cut":
                path.write_bytes(data[:1000])
            case "flipped":
                path.write_bytes(data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
            case "random":
                path.write_bytes(np.random.default_rng(0).bytes(len(data)))
            case "sidecar":
                sidecar.unlink()
        self.check_whole(home)
        assert len(caplog.records) == (0 if damage == "missing" else 1)
        assert path.read_bytes() != b""
        caplog.clear()
        self.check_whole(home)
        assert caplog.records == []

    def test_no_file_keeps_the_vectors_of_removed_documents(self, home: Path) -> None:
        self.fill(home)
        with open_library(home, exact_limit=20) as library:
            (stored,) = library.get(search(library, "note 7", 1)[0].content_hash)
            vector = search(library, "note 7", 1)[0].embedding.tobytes()
            assert vector in self.graph_file(home).read_bytes()
            library.remove(stored.content_hash)
            assert list((home / "graphs").iterdir()) == []
        for path in home.rglob("*"):
            assert path.is_dir() or vector not in path.read_bytes()
        self.check_whole(home, 59)
        assert vector not in self.graph_file(home).read_bytes()

    def test_documents_are_added_even_if_their_graph_cannot_be_saved(
        self, home: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with open_library(home):
            pass
        (home / "graphs").rmdir()
        with open_library(home, exact_limit=20) as library:
            (home / "graphs").rmdir()
            (home / "graphs").write_text("in the way")
            records = [Record(name=str(n), title="t", text=f"note {n}") for n in range(30)]
            assert library.add_records(records, "notes").documents == 30
        assert "could not be saved" in caplog.text

    def test_leftovers_of_a_killed_process_are_swept(self, home: Path) -> None:
        self.fill(home)
        leftover = home / "graphs" / ".1-abc.usearch.x7"
        leftover.write_bytes(b"half")
        self.check_whole(home)
        assert not leftover.exists()


def test_threads_search_share_and_remove_while_others_add(library: Library) -> None:
    library.add_records([Record(name="first", title="t", text="note first")], "notes")
    errors: list[BaseException] = []
    done = threading.Event()

    def add(collection: str) -> None:
        try:
            for number in range(30):
                record = Record(name=str(number), title="t", text=f"note {number} {collection}")
                library.add_records([record], collection)
        except BaseException as error:
            errors.append(error)

    def look() -> None:
        try:
            while not done.is_set():
                assert texts(library, search(library, "note first", 1)) == ["note first"]
                library.share("notes", Sharing())
                library.unshare("notes")
        except BaseException as error:
            errors.append(error)

    adding = [threading.Thread(target=add, args=(name,)) for name in ("a", "b")]
    looking = threading.Thread(target=look)
    for thread in (*adding, looking):
        thread.start()
    for thread in adding:
        thread.join(60)
    done.set()
    looking.join(60)
    assert errors == []
    assert library.stats().documents == 61


def test_a_collection_may_be_removed_while_it_is_added_to(home: Path) -> None:
    embedding, removed = threading.Event(), threading.Event()

    class Slow(HashingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Vector:
            embedding.set()
            assert removed.wait(60)
            return super().embed_documents(texts)

    with open_library(home, Slow()) as library:
        errors: list[LibraryError] = []

        def add() -> None:
            try:
                library.add_records([Record(name="a", title="t", text="x")], "notes")
            except LibraryError as error:
                errors.append(error)

        thread = threading.Thread(target=add)
        thread.start()
        assert embedding.wait(60)
        library.remove_collection("notes")
        removed.set()
        thread.join(60)
        assert "no collection 'notes'" in str(errors[0])
        assert library.collections() == []


def test_a_damaged_embedding_is_named(home: Path) -> None:
    with open_library(home) as library:
        library.add_records([Record(name="a", title="t", text="x")], "notes")
        with library._contents.store.change():
            library._contents.store.put_embedding(
                1, EMBEDDER.fingerprint.digest(), b"short", b"statement"
            )
    with pytest.raises(LibraryError, match="embedding in the library's database is damaged"):
        open_library(home)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LibraryError, match="cannot hold a library: Not a directory"):
        open_library(tmp_path / "file" / "library")


def test_facts_for_decisions_need_no_text(library: Library) -> None:
    seen: list[StoredDocument] = []

    def admit(document: StoredDocument) -> bool:
        seen.append(document)
        return False

    record = Record(name="a", title="t", text="x", metadata={"ward": "3"})
    library.add_records([record], "notes")
    assert search(library, "x", admit=admit) == []
    assert (seen[0].collection, seen[0].metadata) == ("notes", {"ward": "3"})
    assert seen[0].content_hash == ContentHash(Document("t", "x", "notes", "a").content_hash())
