import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from zerorag_p2p.config import MAX_WATCHES
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import LibraryError, UsageError
from zerorag_p2p.library import watching
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.watching import WatchReport
from zerorag_p2p.model import Vector


class CountingEmbedder(HashingEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__(64)
        self.count = 0

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        self.count += len(texts)
        return super().embed_documents(texts)


class Watched:
    """A library that follows a folder, and what is in both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "in"
        self.folder.mkdir()
        self.embedder = CountingEmbedder()
        self.open()

    def open(self) -> None:
        self.library = Library(self.root / "library", self.embedder, lambda *_: b"statement")

    def reopen(self) -> None:
        self.library.close()
        self.open()

    def write(self, name: str, text: str, *, age: int = 0) -> Path:
        """Write a file, changed `age` seconds after the epoch."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(age * 10**9, age * 10**9))
        return path

    def look(self) -> WatchReport:
        (watch,) = self.library.watches()
        return self.library.look(watch)

    def changes(self) -> dict[str, int]:
        report = self.look()
        assert report.problem == ""
        return report.changes

    @property
    def names(self) -> list[str]:
        return [Path(source.name).name for source in self.library.sources()]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    made.write("a.txt", "alpha")
    made.write("sub/b.md", "# Beta\ntext")
    made.library.watch(made.folder, "notes")
    yield made
    made.library.close()


def test_what_is_there_at_first_is_read_once(watched: Watched) -> None:
    assert watched.look() == WatchReport(files=2, changes={"added": 2})
    assert watched.names == ["a.txt", "b.md"]
    generation, embedded = watched.library.generation, watched.embedder.count
    assert watched.look() == WatchReport(files=2)
    assert (watched.library.generation, watched.embedder.count) == (generation, embedded)


def test_a_file_is_read_once_two_looks_found_it_the_same(watched: Watched) -> None:
    watched.look()
    watched.write("c.txt", "half of", age=1)
    watched.write("a.txt", "alpha cha", age=1)
    assert watched.changes() == {"waiting": 2}
    watched.write("c.txt", "half of it was written", age=2)
    assert watched.changes() == {"updated": 1, "waiting": 1}
    assert watched.changes() == {"added": 1}
    assert watched.changes() == {}
    assert watched.names == ["a.txt", "c.txt", "b.md"]


def test_a_file_that_changes_while_it_is_read_is_read_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.look()
    path = watched.write("c.txt", "first", age=1)
    assert watched.changes() == {"waiting": 1}
    original = watching._hash_file

    def change(read: Path) -> str:
        digest = original(read)
        watched.write("c.txt", "second", age=2)
        return digest

    monkeypatch.setattr(watching, "_hash_file", change)
    assert watched.changes() == {"added": 1}
    monkeypatch.undo()
    assert watched.changes() == {"waiting": 1}
    # What was read had been the second text already.
    assert watched.changes() == {"unchanged": 1}
    assert path.read_text() == "second"
    assert watched.changes() == {}


def test_a_new_time_of_change_alone_changes_nothing(watched: Watched) -> None:
    watched.look()
    embedded = watched.embedder.count
    watched.write("a.txt", "alpha", age=9)
    assert watched.changes() == {"waiting": 1}
    assert watched.changes() == {}
    assert watched.embedder.count == embedded


def test_deleted_and_renamed_files_are_followed(watched: Watched) -> None:
    watched.look()
    (watched.folder / "a.txt").rename(watched.folder / "z.txt")
    assert watched.changes() == {"added": 1, "removed": 1}
    assert watched.names == ["b.md", "z.txt"]
    (watched.folder / "sub").rename(watched.folder / "other")
    assert watched.changes() == {"added": 1, "removed": 1}
    assert watched.names == ["b.md", "z.txt"]
    (watched.folder / "z.txt").unlink()
    assert watched.changes() == {"removed": 1}
    assert watched.names == ["b.md"]
    assert watched.library.stats().documents == 1


def test_another_spelling_of_a_name_removes_nothing(watched: Watched) -> None:
    composed, decomposed = "café.txt", unicodedata.normalize("NFD", "café.txt")
    watched.write(composed, "espresso", age=3)
    watched.look()
    (watched.folder / composed).rename(watched.folder / decomposed)
    assert watched.changes() == {"unchanged": 1, "removed": 1}
    assert watched.names == ["a.txt", "café.txt", "b.md"]


def test_a_restart_goes_on_where_it_ended(watched: Watched) -> None:
    watched.look()
    embedded = watched.embedder.count
    watched.write("c.txt", "gamma", age=1)
    (watched.folder / "a.txt").unlink()
    watched.reopen()
    assert watched.changes() == {"added": 1, "removed": 1}
    assert watched.embedder.count == embedded + 1
    assert watched.names == ["c.txt", "b.md"]


def test_an_interrupted_look_goes_on_where_it_ended(watched: Watched) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(progress: object) -> None:
        if watched.library.stats().documents == 1:
            raise Interrupted

    (watch,) = watched.library.watches()
    with pytest.raises(Interrupted):
        watched.library.look(watch, on_advance=interrupt)
    watched.reopen()
    assert watched.library.stats().documents == 1
    assert sum(watched.changes().values()) >= 1
    assert watched.library.stats().documents == 2


def test_nothing_is_removed_because_it_cannot_be_seen(watched: Watched) -> None:
    watched.look()
    moved = watched.root / "elsewhere"
    watched.folder.rename(moved)
    assert watched.look().problem == "the folder is missing; nothing was changed"
    watched.folder.mkdir()  # a disk that is not mounted
    assert watched.look().problem.startswith("the folder is empty; nothing is removed")
    watched.folder.rmdir()
    moved.rename(watched.folder)
    assert watched.changes() == {}
    assert watched.library.stats().documents == 2


@pytest.mark.parametrize("name", ["sub", "sub/b.md"])
def test_what_cannot_be_opened_is_kept(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    watched.look()
    unreadable = watched.folder / name

    def scan(path: str) -> object:  # the tests may run as root, who may read everything
        if Path(path) == unreadable:
            raise PermissionError(13, "Permission denied", path)
        return original(path)

    original = os.scandir
    monkeypatch.setattr(os, "scandir", scan)
    if name == "sub/b.md":
        original_stat = Path.stat

        def fail(path: Path, **options: bool) -> os.stat_result:
            if path == unreadable:
                raise PermissionError(13, "Permission denied", str(path))
            return original_stat(path, **options)

        monkeypatch.setattr(Path, "stat", fail)
    (watched.folder / "a.txt").unlink()
    watched.write("c.txt", "gamma", age=1)
    report = watched.look()
    assert report.problem == f"{unreadable} cannot be opened"
    assert report.changes == {"removed": 1, "waiting": 1}
    assert watched.names == ["b.md"]


def test_files_that_are_skipped_are_named_and_not_read_again(watched: Watched) -> None:
    watched.write("c.pdf", "no pdf")
    report = watched.look()
    assert report.changes == {"added": 2, "skipped": 1}
    assert [Path(item.path).name for item in report.skipped] == ["c.pdf"]
    assert watched.look() == WatchReport(files=3)
    watched.reopen()
    (watch,) = watched.library.watches()
    info = watched.library.watch_info(watch)
    assert (info.files, info.skipped) == (3, 1)
    ((path, reason),) = info.reasons
    assert path == str(watched.folder / "c.pdf")
    assert reason.startswith("it is no whole PDF")


def test_hidden_files_and_pipes_are_passed_over(watched: Watched) -> None:
    watched.write(".c.txt.part", "half")
    os.mkfifo(watched.folder / "pipe.txt")
    (watched.folder / "nowhere.txt").symlink_to(watched.root / "nowhere")
    assert watched.look() == WatchReport(files=2, changes={"added": 2})


def test_a_folder_may_be_watched_for_several_collections(watched: Watched) -> None:
    watched.library.watch(watched.folder, "others", interval_s=60)
    for watch in watched.library.watches():
        watched.library.look(watch)
    assert watched.names == ["a.txt", "b.md"] * 2
    (ended,) = watched.library.unwatch(watched.folder, "notes")
    assert ended.collection == "notes"
    (watch,) = watched.library.watches()
    assert (watch.collection, watch.interval_s) == ("others", 60)
    assert watched.library.stats().documents == 4  # documents stay


def test_watching_again_changes_how(watched: Watched) -> None:
    watched.write("t.csv", "a,b\none,two\n")
    options = ReadingOptions(title_column="b")
    watched.library.watch(watched.folder, "notes", interval_s=5, options=options)
    watched.look()
    watched.reopen()
    (watch,) = watched.library.watches()
    assert (watch.interval_s, watch.reading_options) == (5, options)
    assert "two" in {source.title for source in watched.library.sources()}


def test_a_watch_ends_with_its_collection(watched: Watched) -> None:
    (watch,) = watched.library.watches()
    watched.library.remove_collection("notes")
    assert watched.library.watches() == []
    with pytest.raises(LibraryError, match="no collection"):
        watched.library.look(watch)
    assert watched.library.collections() == []


def test_what_cannot_be_watched(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    library = watched.library
    with pytest.raises(LibraryError, match="is no folder"):
        library.watch(watched.folder / "a.txt", "notes")
    with pytest.raises(UsageError, match="from 1 to 86400 seconds"):
        library.watch(watched.folder, "notes", interval_s=0.5)
    with pytest.raises(UsageError, match="no text encoding"):
        library.watch(watched.folder, "notes", options=ReadingOptions(encoding="klingon"))
    with pytest.raises(LibraryError, match="inside of the other"):
        library.watch(watched.folder / "sub", "notes")
    with pytest.raises(LibraryError, match="inside of the other"):
        library.watch(watched.root, "notes")
    with pytest.raises(LibraryError, match="is not watched; watched are: "):
        library.unwatch(watched.root)
    with pytest.raises(LibraryError, match="is not watched"):
        library.unwatch(watched.folder, "others")
    for number in range(MAX_WATCHES - 1):
        library.watch(watched.folder, f"c{number}")
    with pytest.raises(LibraryError, match="100 folders are watched"):
        library.watch(watched.folder, "too many")
    monkeypatch.setattr(watching, "MAX_WATCHED_FILES", 1)
    report = library.look(library.watches()[0])
    assert "more than 1 files" in report.problem
    assert report.changes == {}
