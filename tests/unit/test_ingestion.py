"""Whole folders of files of every kind, large files, and work that was interrupted."""

import json
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.unit.made_files import make_docx, make_pdf, paragraph
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.library import adding, documents
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.reports import AddProgress, FileReport, FileStatus
from zerorag_p2p.model import Vector


class CountingEmbedder(HashingEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__(512)
        self.count = 0

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        self.count += len(texts)
        return super().embed_documents(texts)


def open_library(home: Path, embedder: HashingEmbedder) -> Library:
    return Library(home, embedder, lambda *_: b"statement")


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def library(tmp_path: Path, embedder: CountingEmbedder) -> Iterator[Library]:
    with open_library(tmp_path / "library", embedder) as opened:
        yield opened


def find(library: Library, embedder: HashingEmbedder, question: str) -> tuple[str, dict[str, str]]:
    """The text and metadata of the best document."""
    (best,) = library.search(
        embedder.embed_query(question),
        1,
        admit_collection=lambda _: True,
        admit=lambda _: True,
    )
    document = library.read(library.get(best.content_hash)[0])
    return document.text, document.metadata


def write_mixture(folder: Path) -> None:
    """A hundred files as a hospital has them."""
    folder.mkdir()
    kinds: list[tuple[str, Callable[[int], bytes]]] = [
        ("txt", lambda n: f"Plain note {n}.".encode()),
        ("md", lambda n: f"# Guideline {n}\n\nText of it.".encode()),
        ("html", lambda n: f"<title>Page {n}</title><p>Page text {n}.".encode()),
        ("pdf", lambda n: make_pdf([f"Scan {n}, page one.", f"Scan {n}, page two."])),
        ("docx", lambda n: make_docx(paragraph(f"Letter {n}."))),
        ("csv", lambda n: f"id,text\n1,Row one of {n}\n2,Row two of {n}\n".encode()),
        ("jsonl", lambda n: json.dumps({"text": f"Line {n}."}).encode()),
        (
            "json",
            lambda n: json.dumps(
                {"resourceType": "Observation", "id": str(n), "note": [{"text": f"Note {n}."}]}
            ).encode(),
        ),
    ]
    for number in range(92):
        suffix, make = kinds[number % len(kinds)]
        (folder / f"file {number:02}.{suffix}").write_bytes(make(number))
    (folder / "äöü – ελληνικά 漢字.txt").write_text("A name that is not ASCII.")
    (folder / "western.txt").write_bytes("Größe 180 cm, Fieber über 39 °C.".encode("cp1252"))
    with (folder / "attachments.jsonl").open("w") as lines:
        attachment = "QUJD" * (250 << 10)
        for number in range(ATTACHMENTS):
            lines.write(json.dumps({"text": f"Image {number}.", "image": attachment}) + "\n")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "blank.pdf").write_bytes(make_pdf([""]))
    (folder / "truncated.pdf").write_bytes(make_pdf(["Text of it."] * 3)[:300])
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    (folder / "broken.docx").write_bytes(b"PK\x03\x04")


#: Lines of a file of 200 MB.
ATTACHMENTS = 200
SKIPPED = {"empty.txt", "blank.pdf", "truncated.pdf", "picture.png", "broken.docx"}


def test_a_hundred_files_of_every_kind(
    library: Library, embedder: CountingEmbedder, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    write_mixture(folder)
    assert len(list(folder.iterdir())) == 100
    report = library.add([folder], "mixed")
    skipped = [item for item in report.files if item.status is FileStatus.SKIPPED]
    assert {Path(item.path).name for item in skipped} == SKIPPED
    assert all(item.reason for item in skipped)
    assert report.count(FileStatus.ADDED) == 95
    # A table has two rows, and one file many lines; every other file is one document.
    tables = sum(path.suffix == ".csv" for path in folder.iterdir())
    assert report.documents == 94 + tables + ATTACHMENTS == library.stats().documents
    assert (folder / "attachments.jsonl").stat().st_size > 200_000_000
    assert find(library, embedder, "Fieber über 39 °C")[0] == "Größe 180 cm, Fieber über 39 °C."
    assert find(library, embedder, "name that is not ASCII")[0] == "A name that is not ASCII."
    assert find(library, embedder, "Scan 3, page two")[1] == {"page": "1-2"}

    embedded, stats, names = embedder.count, library.stats(), library.sources()
    for _ in range(2):
        again = library.add([folder], "mixed")
        assert Counter(item.status for item in again.files) == {
            FileStatus.UNCHANGED: 95,
            FileStatus.SKIPPED: 5,
        }
        assert again.documents == report.documents
        assert library.stats() == stats
        assert library.sources() == names
    assert embedder.count == embedded


def test_a_fact_at_the_end_of_a_long_document_is_found_with_its_place(
    library: Library, embedder: CountingEmbedder, tmp_path: Path
) -> None:
    filler = "The ward was calm and the staff did what there was to do that night. "
    paragraphs = "\n\n".join([filler * 20] * 17)
    assert len(paragraphs.split()) > 4_500
    fact = "Digoxin is halved when amiodarone begins."
    text = f"# Report\n\n{paragraphs}\n\n## Drugs\n\n{filler}{fact}\n"
    (tmp_path / "long.md").write_text(text)
    (tmp_path / "scan.pdf").write_bytes(make_pdf(["Nothing."] * 11 + ["Heparin was stopped."]))
    report = library.add([tmp_path / "long.md", tmp_path / "scan.pdf"], "notes")
    assert report.documents > 20
    found, metadata = find(library, embedder, "Digoxin is halved when amiodarone begins.")
    assert fact in found
    assert metadata == {"section": "Report > Drugs"}
    assert find(library, embedder, "heparin stopped")[1] == {"page": "1-12"}


def test_documents_survive_a_change_of_the_model_whole(tmp_path: Path) -> None:
    text = "# A\n\n" + "".join(f"Sentence {n} of the text. " for n in range(300)) + "\n\n# B\n\nend"
    (tmp_path / "a.md").write_text(text)
    with open_library(tmp_path / "library", HashingEmbedder(max_words=40)) as library:
        library.add([tmp_path / "a.md"], "notes")
        before = {source.digest for source in library.sources()}
        (source,) = library.sources()
        assert library._contents.store.whole_text(source.id)[0] == text
    other = HashingEmbedder(128, max_words=60)
    with open_library(tmp_path / "library", other) as library:
        assert library.embed_missing() == 1
        (source,) = library.sources()
        assert library._contents.store.whole_text(source.id)[0] == text
        assert {source.digest} == before
        assert find(library, other, "Sentence 299")[1] == {"section": "A"}
    with open_library(tmp_path / "library", other) as library:
        # What is told of a passage is stored with it.
        assert find(library, other, "Sentence 299")[1] == {"section": "A"}


def test_libraries_of_before_passages_overlapped_are_put_together_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "documents.sqlite"
    with monkeypatch.context() as before:
        before.setattr(documents, "_MIGRATIONS", documents._MIGRATIONS[:2])
        before.setattr(documents, "SCHEMA_VERSION", 2)
        old = documents.DocumentStore(path)
        for statement in (
            "INSERT INTO collections VALUES (1, 'notes', NULL)",
            "INSERT INTO sources VALUES (1, 1, 'a', '', 't', 'd', '{}', 3)",
            "INSERT INTO documents VALUES (1, 1, 0, 'é one ', 'h'), (2, 1, 1, 'two ', 'i'), "
            "(3, 1, 2, 'three', 'j')",
        ):
            old._connection.execute(statement)
        old.close()
    store = documents.DocumentStore(path)
    assert store.whole_text(1) == ("é one two three", ())
    assert store.watches() == []
    store.close()


def write_lines(path: Path, count: int) -> None:
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps({"id": number, "text": f"Note number {number}."}) + "\n")


def test_interrupted_work_goes_on_where_it_ended(
    library: Library, embedder: CountingEmbedder, tmp_path: Path
) -> None:
    path = tmp_path / "notes.jsonl"
    write_lines(path, 1_000)

    class Interrupted(Exception):
        pass

    def interrupt(progress: AddProgress) -> None:
        if progress.documents >= 500:
            raise Interrupted

    with pytest.raises(Interrupted):
        library.add([path], "notes", on_advance=interrupt)
    stored = library.stats().documents
    assert 0 < stored < 1_000
    embedder.count = 0
    report = library.add([path], "notes")
    assert report.documents == library.stats().documents == 1_000
    assert embedder.count == 1_000 - stored


def test_progress_is_told_while_a_file_is_read(library: Library, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", 300)
    (tmp_path / "b.txt").write_text("last")
    size = sum(path.stat().st_size for path in tmp_path.glob("*.*"))
    told: list[AddProgress] = []
    files: list[FileReport] = []
    library.add(
        [tmp_path / "a.jsonl", tmp_path / "b.txt"],
        "notes",
        on_progress=files.append,
        on_advance=told.append,
    )
    assert {(item.all_files, item.all_bytes) for item in told} == {(2, size)}
    for figures in (
        [item.bytes for item in told],
        [item.documents for item in told],
        [item.files for item in told],
    ):
        assert figures == sorted(figures)
    assert len({item.bytes for item in told}) > 5
    assert (told[-1].bytes, told[-1].files, told[-1].documents) == (size, 2, 301)
    assert [Path(item.path).name for item in files] == ["a.jsonl", "b.txt"]


def test_a_file_full_of_faults_is_told_of_in_few_lines(library: Library, tmp_path: Path) -> None:
    lines = [json.dumps({"id": "same", "text": f"text {n}"}) for n in range(1_000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    report = library.add([tmp_path / "a.jsonl"], "notes")
    assert len(report.files) == 101
    assert report.files[-1].status is FileStatus.ADDED
    assert report.files[-1].reason == "999 of its records were skipped"


def test_the_reading_options_reach_the_reader(library: Library, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\none,two\n")
    library.add([tmp_path / "a.csv"], "notes", options=ReadingOptions(title_column="b"))
    assert [source.title for source in library.sources()] == ["two"]


def test_a_batch_ends_where_its_texts_are_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "LIBRARY_BATCH_CHARACTERS", 10)
    monkeypatch.setattr(adding, "LIBRARY_BATCH_RECORDS", 3)
    items = [
        adding.Record(name="", title="", text="x" * length) for length in (4, 4, 4, 1, 1, 1, 30, 1)
    ]
    lengths = [[len(item.text) for item in batch] for batch in adding._batches(items)]  # type: ignore[union-attr]
    assert lengths == [[4, 4, 4], [1, 1, 1], [30], [1]]


LARGE = 60 << 20

#: Adds a large file with an embedder that costs nothing, and prints by how much the most memory
#: ever used grew.
SCRIPT = """
import resource, sys
from pathlib import Path
import numpy as np
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.library.library import Library

class Cheap(HashingEmbedder):
    def cut(self, text, sections=()):
        step = 100_000
        return [(start, min(start + step, len(text))) for start in range(0, len(text), step)]
    def embed_documents(self, texts):
        return np.ones((len(texts), 256), dtype=np.float32)

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

folder = Path(sys.argv[1])
with Library(folder / "library", Cheap(), lambda *_: b"s") as library:
    library.add([folder / f"small{Path(sys.argv[2]).suffix}"], "notes")
    before = used()
    report = library.add([folder / sys.argv[2]], "notes")
    print(used() - before, report.documents, *(item.reason for item in report.files))
"""


def write_large(path: Path, size: int) -> None:
    text = "The patient was seen on the ward. " * 2_900
    with path.open("w") as file:
        match path.suffix:
            case ".txt":
                for _ in range(size // len(text) + 1):
                    file.write(text + "\n\n")
            case ".csv":
                file.write("id,text\n")
                for number in range(size // len(text) + 1):
                    file.write(f'{number},"{text} {number}"\n')
            case ".jsonl":
                for number in range(size // len(text) + 1):
                    file.write(json.dumps({"id": number, "text": f"{text} {number}"}) + "\n")
            case ".json":
                file.write('{"resourceType": "Bundle", "entry": [')
                for number in range(size // len(text) + 1):
                    note = {"resourceType": "Observation", "id": str(number)}
                    resource = {**note, "note": [{"text": f"{text} {number}"}]}
                    file.write((", " if number else "") + json.dumps({"resource": resource}))
                file.write("]}")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["txt", "csv", "jsonl", "json"])
def test_a_large_file_does_not_need_to_fit_into_memory(tmp_path: Path, suffix: str) -> None:
    write_large(tmp_path / f"small.{suffix}", 1 << 20)
    write_large(tmp_path / f"large.{suffix}", LARGE)
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path), f"large.{suffix}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    grown_kb, documents, *reasons = result.stdout.split()
    assert reasons == []
    assert int(documents) > 500
    assert int(grown_kb) << 10 < LARGE // 2
