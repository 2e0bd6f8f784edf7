"""What a security officer tries before agreeing to connect, from enrolment to export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hospitals import Hospital, two_hospitals

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TEXT = "Naloxone reverses the respiratory depression of an opioid overdose."
QUESTION = "naloxone in an opioid overdose"
BREAK_GLASS = """
[[rule]]
name = "break glass"
effect = "emergency"
collections = ["toxicology"]
hours = 4
"""


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hospital, Hospital]]:
    """An owner and a clinic, both enrolled, both running; nothing is shared yet."""
    folder = tmp_path_factory.mktemp("h")
    with two_hospitals(folder) as (owner, clinic):
        (folder / "naloxone.txt").write_text(TEXT)
        owner.must("docs", "add", folder / "naloxone.txt", "--collection", "toxicology")
        (owner.home / "policy.toml").write_text(BREAK_GLASS)
        for hospital in (owner, clinic):
            hospital.start()
        yield owner, clinic


def ask(hospital: Hospital, *options: object) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and documents of the question."""
    result = hospital.run("query", QUESTION, "-k", "1", "--json", *options)
    assert "Traceback" not in result.stderr
    documents: list[dict[str, Any]] = json.loads(result.stdout)["documents"]
    return result.returncode, documents


def disclosures(hospital: Hospital, content_hash: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        hospital.must("audit", "disclosures", "--doc", content_hash, "--json")
    )
    return rows


def test_the_story_of_a_document(hospitals: tuple[Hospital, Hospital], tmp_path: Path) -> None:
    owner, clinic = hospitals
    saved = tmp_path / "answer.json"

    # Nothing is shared: nothing is found, whatever it is asked for.
    for purpose in ("TREAT", "HRESCH"):
        assert ask(clinic, "--purpose", purpose) == (6, [])

    # Shared for research, it is found for research and refused for treatment.
    owner.must("docs", "share", "toxicology", "--purpose", "HRESCH")
    code, (document,) = ask(clinic, "--purpose", "HRESCH", "--save", saved)
    assert (code, document["text"]) == (0, TEXT)
    content_hash = document["content_hash"]
    assert ask(clinic, "--purpose", "TREAT") == (6, [])
    peer = owner.must("id").strip()
    fetched = clinic.run("get", content_hash, "--peer", peer, "--purpose", "TREAT")
    assert fetched.returncode == 4
    assert TEXT not in fetched.stdout + fetched.stderr

    # An emergency takes a reason, and leaves an alarm.
    assert ask(clinic, "--purpose", "ETREAT") == (6, [])
    reason = "unconscious, pinpoint pupils"
    code, found = ask(clinic, "--purpose", "ETREAT", "--reason", reason)
    assert (code, [item["text"] for item in found]) == (0, [TEXT])
    assert json.loads(owner.must("status", "--json"))["emergencies"]["accesses"] > 0

    # The saved answer proves itself, and a changed one does not.
    assert clinic.run("verify", saved).returncode == 0
    forged = tmp_path / "forged.json"
    forged.write_text(saved.read_text().replace("reverses", "worsens"))
    assert clinic.run("verify", forged).returncode == 7

    # Taken back, it is found no more.
    owner.must("docs", "withdraw", content_hash)
    assert ask(clinic, "--purpose", "HRESCH") == (6, [])

    # Who received it, for what, is on record at both sides, and the records hold.
    told = disclosures(owner, content_hash)
    assert {row["purpose"] for row in told} == {"HRESCH", "ETREAT"}
    assert {row["organisation"] for row in told} == {"Clinic"}
    for hospital in (owner, clinic):
        assert json.loads(hospital.must("audit", "verify", "--json"))["whole"] is True
    exported = tmp_path / "audit.jsonl"
    owner.must("audit", "export", exported)
    lines = exported.read_text()
    assert reason in lines
    assert content_hash in lines
    assert TEXT not in lines
    assert QUESTION not in lines


def test_every_file_and_every_connection_is_accounted_for(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    owner, clinic = hospitals
    told = json.loads(owner.must("inventory", "--json"))
    listed = {row["path"].rstrip("/"): row for row in told["files"]}
    assert set(listed) == {".", *(path.name for path in owner.home.iterdir())}
    # Only what these tests log is not ours.
    assert [name for name, row in listed.items() if row["fault"]] == ["log"]
    assert all(listed[name]["secret"] for name in ("identity.key", "audit", "library"))
    directions = {(row["direction"], row["with"]) for row in told["connections"]}
    assert directions == {
        ("in", "members"),
        ("in", "this machine's owner"),
        ("out", "Clinic"),
    }
    key = clinic.home / "audit.key"
    key.chmod(0o640)
    (clinic.home / "notes.txt").write_text("something else")
    faults = {
        row["path"]: row["fault"]
        for row in json.loads(clinic.must("inventory", "--json"))["files"]
        if row["fault"]
    }
    assert set(faults) == {"audit.key", "notes.txt", "log"}
    assert "chmod 600" in clinic.must("inventory")
    key.chmod(0o600)
