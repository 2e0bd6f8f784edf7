"""Adding and watching documents as users do it, without a node and with one."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.unit.made_files import make_pdf
from zerorag_p2p.cli.adding import AddingLine, progress_text
from zerorag_p2p.cli.main import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(item) for item in arguments])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    made = run("init", "--home", folder, "--organisation", "Clinic", "--embedder", "hashing")
    assert made.exit_code == 0
    assert run("consortium", "create", "cardio", "--home", folder).exit_code == 0
    return folder


def test_one_bad_file_is_named_and_the_others_are_added(home: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_bytes("Größe 180 cm".encode("cp1252"))
    (texts / "b.pdf").write_bytes(make_pdf(["Page one."]))
    (texts / "c.pdf").write_bytes(b"%PDF-1.7")
    result = run("docs", "add", texts, "--collection", "notes", "--home", home)
    assert result.exit_code == 5
    assert f"skipped {texts / 'c.pdf'}: it is no whole PDF" in result.stdout
    assert "notes: files: 2 added, 0 updated, 0 unchanged, 1 skipped; 2 documents" in result.stdout
    (texts / "c.pdf").unlink()
    result = run("docs", "add", texts, "--collection", "notes", "--home", home, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["counts"]["unchanged"] == 2


def test_events_are_lines_of_json_and_the_report_is_the_last(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"text": f"Note {n}"}) + "\n" for n in range(200)))
    result = run("docs", "add", path, "--home", home, "--events")
    assert result.exit_code == 0
    *events, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert {event["event"] for event in events} == {"progress", "file"}
    progress = [event for event in events if event["event"] == "progress"]
    assert progress[-1]["documents"] == 200
    assert progress[-1]["bytes"] == progress[-1]["all_bytes"] == path.stat().st_size
    assert last["event"] == "report"
    assert last["report"]["documents"] == 200


def test_columns_and_encodings_can_be_named(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("name,befund,nr\nMüller,žádné,7\n".encode("cp1250"))
    options = ("--encoding", "cp1250", "--text-column", "befund", "--title-column", "name")
    result = run("docs", "add", path, "--home", home, "--id-column", "nr", *options)
    assert result.exit_code == 0
    (row,) = json.loads(run("docs", "list", "--home", home, "--json").stdout)
    assert (row["title"], row["name"]) == ("Müller", f"{path}#7")
    result = run("docs", "add", path, "--home", home, "--text-column", "no such")
    assert result.exit_code == 5
    assert "it has no column 'no such'; it has 'name', 'befund', 'nr'" in result.stdout
    result = run("docs", "add", path, "--home", home, "--encoding", "klingon")
    assert result.exit_code == 2
    assert "there is no text encoding 'klingon'" in result.stderr


def test_folders_are_watched_listed_and_stopped_without_a_node(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    made = run("docs", "watch", folder, "--collection", "letters", "--home", home, "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["interval_s"] == 30
    again = run("docs", "watch", folder, "--collection", "letters", "--home", home, "--interval", 5)
    assert again.exit_code == 0
    listed = json.loads(run("docs", "watch", "--list", "--home", home, "--json").stdout)
    assert [(row["folder"], row["collection"], row["interval_s"]) for row in listed] == [
        (str(folder), "letters", 5)
    ]
    assert "not yet" in run("docs", "watch", "--list", "--home", home).stdout
    assert run("docs", "watch", "--home", home).exit_code == 2
    missing = run("docs", "watch", tmp_path / "none", "--home", home)
    assert missing.exit_code == 1
    assert "is no folder" in missing.stderr
    assert run("docs", "watch", folder, "--stop", "--home", home).exit_code == 0
    assert json.loads(run("docs", "watch", "--list", "--home", home, "--json").stdout) == []
    stopped = run("docs", "watch", folder, "--stop", "--home", home)
    assert stopped.exit_code == 1
    assert "is not watched; watched are: no folder" in stopped.stderr


def test_the_line_tells_how_far_the_work_is() -> None:
    event = {
        "event": "progress",
        "path": "/in/a.jsonl",
        "files": 1,
        "all_files": 3,
        "bytes": 25_000_000,
        "all_bytes": 100_000_000,
        "documents": 5_000,
    }
    assert progress_text(event, 0.5) == (
        "1 of 3 files; 25.0 MB of 100.0 MB; 5000 documents: /in/a.jsonl"
    )
    assert progress_text(event, 100.0) == (
        "1 of 3 files; 25.0 MB of 100.0 MB; 5000 documents, 50 a second; about 5 min left: "
        "/in/a.jsonl"
    )
    shown: list[str] = []
    line = AddingLine(shown.append, iter([0.0, 100.0]).__next__)
    line.take({"event": "file", "path": "/in/a.jsonl"})
    line.take(event)
    assert shown == [progress_text(event, 100.0)]
    assert "left" not in progress_text({**event, "bytes": 0}, 100.0)


def test_adding_loads_no_reader_that_is_not_needed(home: Path, tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "a.txt").write_text("plain")
    script = (
        "import sys; from click.testing import CliRunner; from zerorag_p2p.cli.main import cli\n"
        f"result = CliRunner().invoke(cli, ['docs', 'add', {str(tmp_path / 'a.txt')!r}, "
        f"'--home', {str(home)!r}])\n"
        "assert result.exit_code == 0, result.output\n"
        "print([name for name in ('pypdf', 'lxml', 'ijson', 'charset_normalizer') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
