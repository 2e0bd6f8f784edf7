"""The command line as its users run it: two hospitals, two processes, one question."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.hospitals import Hospital, two_hospitals

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TEXTS = {
    "metformin.txt": "Metformin dose has to be reduced in renal failure.",
    "sepsis.txt": "Sepsis in children begins with fever and a fast pulse.",
    "asthma.md": "# Asthma\n\nInhaled steroids prevent attacks of asthma.",
}


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hospital, Hospital]]:
    folder = tmp_path_factory.mktemp("h")
    with two_hospitals(folder) as (owner, asker):
        texts = folder / "texts"
        texts.mkdir()
        for name, text in TEXTS.items():
            (texts / name).write_text(text)
        owner.must("docs", "add", texts, "--collection", "wards")
        owner.must("docs", "share", "wards")
        owner.start()
        asker.start()
        yield owner, asker


@pytest.fixture
def answer(hospitals: tuple[Hospital, Hospital], tmp_path: Path) -> Path:
    path = tmp_path / "answer.json"
    hospitals[1].must("query", "metformin dose in renal failure", "--save", path, "--json")
    return path


def test_a_question_finds_the_document_of_the_other_hospital(
    hospitals: tuple[Hospital, Hospital], answer: Path
) -> None:
    found = json.loads(answer.read_text())
    best = found["documents"][0]
    assert best["title"] == "metformin"
    assert best["text"] == TEXTS["metformin.txt"]
    assert best["status"] == "verified"
    assert best["owner"]["organisation"] == "General Hospital"
    assert found["asker"]["organisation"] == "Clinic"
    assert answer.stat().st_mode & 0o077 == 0

    shown = hospitals[1].must("query", "metformin dose in renal failure", "-k", "1", "--explain")
    assert "General Hospital" in shown
    assert "attribution verified" in shown
    assert "Metformin dose has to be reduced in renal failure." in shown
    assert "asked 1 peer of at most 50 (1 answered)" in shown


def test_a_saved_answer_verifies_offline_and_any_change_is_named(
    hospitals: tuple[Hospital, Hospital], answer: Path
) -> None:
    asker = hospitals[1]
    assert "verified: 3 documents" in asker.must("verify", answer)
    report = json.loads(asker.must("verify", answer, "--json"))
    assert (report["verified"], report["fault"]) == (3, None)

    whole = answer.read_text()

    def tampered(**changes: object) -> dict[str, object]:
        value = json.loads(whole)
        value["documents"][0].update(changes)
        answer.write_text(json.dumps(value))
        result = asker.run("verify", answer, "--json")
        assert result.returncode == 7
        assert result.stderr.startswith("error: ")
        told: dict[str, object] = json.loads(result.stdout)
        return told

    first, second = json.loads(whole)["documents"][:2]
    clinic = {**first["owner"], "organisation": "Clinic"}
    assert "the title shown is 'Insulin'" in str(tampered(title="Insulin")["message"])
    assert "the text shown is" in str(tampered(text="Or not.")["message"])
    assert tampered(owner=clinic)["fault"] == "shows-something-else"
    assert tampered(release="")["fault"] == "release-missing"
    assert tampered(content=second["content"])["fault"] == "content-hash-mismatch"
    assert tampered(attribution=second["attribution"])["fault"] == "other-document"
    assert tampered(status="unavailable")["fault"] == "shows-without-proof"


def test_a_file_that_is_no_answer_is_wrong_usage(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"documents": 3}')
    result = hospitals[1].run("verify", path)
    assert result.returncode == 2
    assert "is not an answer saved by" in result.stderr


def test_get_shows_our_own_document_or_fetches_one(
    hospitals: tuple[Hospital, Hospital], answer: Path
) -> None:
    owner, asker = hospitals
    best = json.loads(answer.read_text())["documents"][0]
    own = json.loads(owner.must("get", best["content_hash"][:16], "--json"))
    assert own["text"] == TEXTS["metformin.txt"]
    peer = best["owner"]["peer"]
    fetched = json.loads(asker.must("get", best["content_hash"], "--peer", peer, "--json"))
    assert (fetched["text"], fetched["status"]) == (own["text"], "verified")
    missing = asker.run("get", best["content_hash"])
    assert missing.returncode == 1
    assert "peer" in missing.stderr


def test_status_peers_and_neighbors_tell_how_the_node_is(
    hospitals: tuple[Hospital, Hospital], answer: Path
) -> None:
    owner, asker = hospitals
    status = json.loads(asker.must("status", "--json"))
    assert status["organisation"] == "Clinic"
    assert status["roster"]["members"] == 2
    [peer] = json.loads(asker.must("peers", "--json"))
    assert (peer["organisation"], peer["connected"]) == ("General Hospital", True)
    [neighbor] = json.loads(asker.must("neighbors", "--json"))
    assert neighbor["peer"] == peer["peer"] == owner.must("id").strip()
    for command in ("status", "peers", "neighbors"):
        assert "General Hospital" in owner.must(command) or "General Hospital" in asker.must(
            command
        )


def test_documents_can_be_changed_while_the_node_runs(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    owner, asker = hospitals
    note = tmp_path / "note.txt"
    note.write_text("Zebra stripes confuse flies.")
    report = json.loads(owner.must("docs", "add", note, "--collection", "zoo", "--json"))
    assert report["counts"]["added"] == 1
    question = ("query", "zebra stripes", "-k", "1", "--json")
    assert "Zebra" not in asker.must(*question)
    owner.must("docs", "share", "zoo", "--purpose", "research")
    assert "Zebra" not in asker.must(*question)
    assert "Zebra" in asker.must(*question, "--purpose", "research")
    owner.must("docs", "unshare", "zoo")
    assert "Zebra" not in asker.must(*question, "--purpose", "research")
    assert "zoo" in owner.must("docs", "stats")
    owner.must("docs", "remove", note)
    assert json.loads(owner.must("docs", "list", "--collection", "zoo", "--json")) == []


def test_a_newer_roster_is_taken_over_by_the_running_node(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    owner, asker = hospitals
    roster = tmp_path / "roster.cbor"
    version = json.loads(owner.must("consortium", "renew", "--out", roster, "--json"))["version"]
    assert json.loads(owner.must("status", "--json"))["roster"]["version"] == version
    asker.must("consortium", "import", roster)
    assert json.loads(asker.must("status", "--json"))["roster"]["version"] == version


def test_a_paused_hospital_answers_nobody_until_it_goes_on(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    owner, asker = hospitals
    owner.must("pause", "--reason", "stocktaking")
    assert "PAUSED" in owner.must("status")
    assert json.loads(owner.must("status", "--json"))["pause"]["reason"] == "stocktaking"
    refused = asker.run("query", "metformin dose in renal failure", "--explain", "--json")
    (contact,) = json.loads(refused.stdout)["contacts"]
    assert (contact["outcome"], contact["code"]) == ("refused", "paused")
    assert contact["reason"] == "this node is paused: stocktaking"
    owner.must("resume")
    assert json.loads(owner.must("status", "--json"))["pause"] is None
    assert "PAUSED" not in owner.must("status")


def test_a_second_node_in_the_same_home_is_refused(hospitals: tuple[Hospital, Hospital]) -> None:
    result = hospitals[0].run("node", "run")
    assert result.returncode == 1
    assert "already runs" in result.stderr
    assert "Traceback" not in result.stderr
    hospitals[0].must("status")


def test_a_port_in_use_is_an_error_that_names_it(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    other = Hospital(tmp_path / "c")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"/ip4/127.0.0.1/tcp/{taken.getsockname()[1]}"
        other.must("init", "--organisation", "C", "--embedder", "hashing", "--listen", listen)
        other.must("consortium", "create", "solo")
        result = other.run("node", "run")
    assert result.returncode == 1
    assert listen in result.stderr
    assert "Traceback" not in result.stderr


def test_sigterm_and_stop_end_a_node_in_good_order(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, _ = hospitals
    assert owner.stop() == 0
    log = (owner.home / "log").read_text()
    assert "the node has ended" in log
    assert "Traceback" not in log
    assert not (owner.home / "node.sock").exists()
    assert owner.run("status").returncode == 3

    owner.start()
    owner.must("node", "stop")
    assert owner.process is not None
    assert owner.process.wait(timeout=15) == 0
