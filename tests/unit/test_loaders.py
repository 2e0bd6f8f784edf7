import json
import os
import unicodedata
from pathlib import Path

import pytest

from zerorag_p2p.config import MAX_BAD_RECORDS, MAX_RECORD_BYTES, MAX_SOURCE_FILE_BYTES
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.library.loaders import find_files, load_file
from zerorag_p2p.library.records import BadRecord, Record, normalise_name


def load(path: Path, data: bytes | str) -> list[Record | BadRecord]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(load_file(path))


def reasons(items: list[Record | BadRecord]) -> list[tuple[str, str]]:
    return [(item.where, item.reason) for item in items if isinstance(item, BadRecord)]


def test_text_files_are_one_record_named_after_the_file(tmp_path: Path) -> None:
    assert load(tmp_path / "a note.txt", b"\xef\xbb\xbfText\r\nmore \xc3\xa9") == [
        Record(name="", title="a note", text="Text\r\nmore é")
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## Sepsis in children ##\ntext", "Sepsis in children"),
        ("# A\n# B", "A"),
        ("no heading, only #hashtag", "file"),
        ("#\n\n# C# and F#", "C# and F"),
    ],
)
def test_the_first_heading_is_the_title_of_markdown(tmp_path: Path, text: str, title: str) -> None:
    (found,) = load(tmp_path / "file.md", text)
    assert isinstance(found, Record)
    assert (found.name, found.title, found.text) == ("", title, text)


def test_json_is_in_utf8(tmp_path: Path) -> None:
    (item,) = load(tmp_path / "a.json", b'{"caf\xe9": {"CONTEXTS": []}}')
    assert isinstance(item, BadRecord)
    assert item.reason.startswith("it is not valid")


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": "n1", "title": "T", "text": "one", "metadata": {"ward": "3", "age": 4}}),
        "",
        json.dumps({"text": "two"}),
        json.dumps({"id": 7, "text": "three"}),
    ]
    first, second, third = load(tmp_path / "notes.jsonl", "\n".join(lines))
    assert first == Record(name="n1", title="T", text="one", metadata={"ward": "3", "age": "4"})
    assert isinstance(second, Record)
    assert (second.title, second.text, len(second.name)) == ("notes", "two", 16)
    assert third == Record(name="7", title="notes", text="three")


def test_bad_lines_are_reported_by_number_and_the_others_read(tmp_path: Path) -> None:
    lines = [
        b'{"text": "good"}',
        b"{",
        b"[1]",
        b'{"title": "no text"}',
        b'{"text": 5}',
        b'{"text": "x", "metadata": []}',
        b'{"text": "caf\xe9"}',
        b"9" * 5000,
        b"[" * 100_000,
        b'{"text": "also good"}',
    ]
    items = load(tmp_path / "notes.jsonl", b"\n".join(lines))
    assert [item.text for item in items if isinstance(item, Record)] == ["good", "also good"]
    assert [where for where, _ in reasons(items)] == [f"line {n}" for n in range(2, 10)]
    assert reasons(items)[2][1] == "'text' is missing"


def test_a_file_of_bad_lines_is_given_up(tmp_path: Path) -> None:
    items = load(tmp_path / "notes.jsonl", "nonsense\n" * 10_000)
    assert len(items) == MAX_BAD_RECORDS + 1
    assert reasons(items)[-1] == (
        "",
        f"{MAX_BAD_RECORDS + 1} of its first {MAX_BAD_RECORDS + 1} lines are bad; "
        "the rest was not read",
    )


def test_a_file_with_many_bad_lines_among_good_ones_is_read(tmp_path: Path) -> None:
    good = json.dumps({"text": "good"})
    items = load(tmp_path / "notes.jsonl", f"{good}\n{good}\nnonsense\n" * 500)
    assert len(reasons(items)) == 500
    assert len(items) == 1_500


def test_pubmedqa(tmp_path: Path) -> None:
    item = {
        "QUESTION": "Q?",
        "CONTEXTS": ["Background.", "Results."],
        "LABELS": ["BACKGROUND", "RESULTS"],
        "MESHES": ["Apoptosis", "Plant Leaves"],
        "YEAR": "2011",
        "LONG_ANSWER": "Not part of the text.",
    }
    data = json.dumps({"21645374": item, "1": {"QUESTION": "no contexts"}})
    good, bad = load(tmp_path / "ori_pqal.json", data)
    assert good == Record(
        name="21645374",
        title="PubMed 21645374",
        text="Background.\nResults.",
        metadata={"pmid": "21645374", "year": "2011", "mesh": "Apoptosis; Plant Leaves"},
    )
    assert isinstance(bad, BadRecord)
    assert bad.where == "item '1'"
    assert reasons(load(tmp_path / "list.json", "[]"))[0][1].startswith("it is neither FHIR")


def test_what_cannot_be_read_is_a_bad_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "broken.txt").symlink_to(tmp_path / "nowhere")
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(MAX_SOURCE_FILE_BYTES + 1)
    with (tmp_path / "large.md").open("wb") as file:
        file.truncate(MAX_RECORD_BYTES + 1)
    (tmp_path / "scan.tiff").write_bytes(b"II*")
    expected = {
        "pipe.txt": "it is not a regular file",
        "broken.txt": "it cannot be read: No such file or directory",
        "missing.txt": "it cannot be read: No such file or directory",
        "large.txt": f"it is longer than {MAX_SOURCE_FILE_BYTES} bytes; split it",
        "large.md": f"it is longer than {MAX_RECORD_BYTES} bytes; split it",
        "scan.tiff": ".tiff files are not supported; supported are .txt, .md, .html, .htm, "
        ".xhtml, .pdf, .docx, .csv, .tsv, .jsonl, .ndjson, .json",
    }
    for name, reason in expected.items():
        assert reasons(list(load_file(tmp_path / name))) == [("", reason)]


def test_folders_are_walked_in_order_without_hidden_files_or_loops(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "a/x.md", ".hidden/y.txt", "c.txt", ".z.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    found = list(find_files([tmp_path, tmp_path / "c.txt", tmp_path / "missing.txt"]))
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["c.txt", "a/x.md", "b/1.txt", "b/2.txt", "missing.txt"]


def test_names_are_composed_unicode(tmp_path: Path) -> None:
    assert normalise_name(unicodedata.normalize("NFD", "café")) == "café"
    with pytest.raises(LibraryError, match="not valid UTF-8"):
        normalise_name(Path(os.fsdecode(b"caf\xe9")))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record(name="a", title="t", text=" \n"), "no text"),
        (Record(name="a", title="t", text="\ud800"), "text is not valid Unicode"),
        (Record(name="a", title="t" * 2000, text="x"), "title is longer than 1024 bytes"),
        (Record(name="a", title="t", text="x", metadata={"k": "v" * 5000}), "metadata 'k'"),
        (
            Record(name="a", title="t", text="x", metadata={str(n): "" for n in range(65)}),
            "more than 64 items",
        ),
    ],
)
def test_records_that_cannot_be_stored(record: Record, reason: str) -> None:
    with pytest.raises(LibraryError, match=reason):
        record.check()


def test_the_digest_covers_title_text_and_metadata() -> None:
    record = Record(name="a", title="t", text="x", metadata={"k": "v"})
    others = [
        Record(name="a", title="u", text="x", metadata={"k": "v"}),
        Record(name="a", title="t", text="y", metadata={"k": "v"}),
        Record(name="a", title="t", text="x"),
    ]
    assert record.digest() not in {other.digest() for other in others}
    assert record.digest() == Record(name="b", title="t", text="x", metadata={"k": "v"}).digest()
