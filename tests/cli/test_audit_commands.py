"""The audit log on the command line, with a running node and without."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.logs import ASKER, NOON
from tests.cli.hospitals import Hospital, set_up, two_hospitals
from zerorag_p2p.audit.events import (
    CollectionNote,
    CopyKept,
    Decided,
    DocumentNote,
    FetchAnswered,
    Given,
    LockedOut,
    QueryAnswered,
)
from zerorag_p2p.audit.log import AuditLog
from zerorag_p2p.model import ContentHash, Purpose, View

pytestmark = [pytest.mark.processes, pytest.mark.slow]

NOTE = "Metformin dose has to be reduced in renal failure."
DAY_S = 86_400

Json = dict[str, Any]


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hospital, Hospital]]:
    """Two hospitals after one question; their nodes have ended."""
    folder = tmp_path_factory.mktemp("h")
    with two_hospitals(folder) as (owner, asker):
        (folder / "metformin.txt").write_text(NOTE)
        owner.must("docs", "add", folder / "metformin.txt", "--collection", "wards")
        owner.must("docs", "share", "wards")
        owner.start()
        asker.start()
        asker.must("query", "metformin dose in renal failure", "--user", "dr-7")
        yield owner, asker


def listed(hospital: Hospital, *options: object) -> list[Json]:
    found: list[Json] = json.loads(hospital.must("audit", "list", "--json", *options))
    return found


def same_with_and_without_a_node(hospital: Hospital, *command: object) -> str:
    """What a command prints while the node runs, which it prints as well when it does not."""
    if hospital.process is None:
        hospital.start()
    running = hospital.must(*command)
    assert hospital.stop() == 0
    stopped = hospital.must(*command)
    hospital.start()
    assert running == stopped
    return running


def test_both_sides_list_the_same_reference(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, asker = hospitals
    (asked,) = listed(asker, "--kind", "query-asked")
    (answered,) = listed(owner, "--kind", "query-answered")
    assert asked["reference"] == answered["reference"]
    assert answered["organisation"] == "Clinic"
    assert asked["text"] is None
    theirs = listed(owner, "--reference", asked["reference"])
    assert [entry["kind"] for entry in theirs] == ["query-answered", "fetch-answered"]
    assert listed(owner, "--peer", "clinic", "--since", "2020-01-01") == theirs
    assert listed(owner, "--since", "2999-01-01") == []
    assert len(listed(owner, "--limit", "1")) == 1
    content_hash = answered["documents"][0]["content_hash"]
    assert listed(owner, "--doc", content_hash[:12]) == theirs
    shown = asker.must("audit", "list")
    assert "peer-contacted" in shown
    assert "General Hospital" in shown


def test_how_collections_are_shared_is_recorded_without_a_node_too(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    entries = listed(hospitals[0], "--kind", "policy-in-force")
    first = entries[0]
    assert first["source"] == "sharing of wards"
    assert first["reason"] == (
        "with every member for any purpose, up to the view whole, advertised"
    )


def test_disclosures_name_who_received_a_document(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, _ = hospitals
    (delivered,) = listed(owner, "--kind", "fetch-answered")
    (note,) = delivered["documents"]
    command = ("audit", "disclosures", "--doc", note["content_hash"], "--json")
    rows = json.loads(same_with_and_without_a_node(owner, *command))
    assert [(row["organisation"], row["given"], row["purpose"]) for row in rows] == [
        ("Clinic", "embedding", "TREAT"),
        ("Clinic", "whole", "TREAT"),
    ]
    shown = owner.must("audit", "disclosures", "--doc", note["content_hash"][:8])
    assert "Clinic" in shown
    assert "advertisements go to every member" in shown.splitlines()[-1]
    refused = owner.run("audit", "disclosures", "--doc", "metformin")
    assert refused.returncode == 2
    assert "hexadecimal digits" in refused.stderr


def test_a_list_tells_what_was_denied_redacted_locked_out_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    hospital = set_up(tmp_path / "h", "General Hospital")
    who: Json = {"reference": "1f", "peer": ASKER.peer_id, "organisation": "City Clinic"}
    asked: Json = {**who, "user": "node", "purpose": Purpose.TREAT}
    note = DocumentNote(content_hash=ContentHash("ab" * 32), given=Given.WHOLE)
    wards = CollectionNote(collection="wards", decided=Decided.ALLOWED, rule="sharing of wards")
    trials = CollectionNote(collection="trials", decided=Decided.DENIED, rule="no trials")
    log = AuditLog(hospital.home / "audit")
    for event in (
        QueryAnswered(
            **asked,
            view=View.WHOLE,
            query="0" * 64,
            outcome="partly answered",
            collections=(wards, trials),
            received=1,
            sent=1,
        ),
        FetchAnswered(
            **asked,
            view=View.WHOLE,
            outcome="delivered 1 of 1",
            documents=(replace(note, redacted=("date", "name")),),
            received=1,
            sent=1,
        ),
        LockedOut(**who, request="fetch", reason="more than 5 documents", until=int(NOON)),
        CopyKept(**who, owner=ASKER.peer_id, documents=(note,)),
    ):
        log.append(event, NOON)
    log.write()
    log.close()
    rows = hospital.must("audit", "list").splitlines()[-4:]
    short_peer = f"{ASKER.peer_id[:8]}…{ASKER.peer_id[-6:]}"
    for row, what in zip(
        rows,
        (
            "partly answered; trials denied by no trials",
            "delivered 1 of 1; whole, redacted of abababababab",
            "of fetch until 2027-01-15 12:00 UTC; more than 5 documents",
            f"owner {short_peer}; whole of abababababab",
        ),
        strict=True,
    ):
        assert what in row
        assert f"City Clinic ({short_peer})" in row
    command = ("audit", "disclosures", "--doc", "abababab")
    assert "whole, redacted" in hospital.must(*command)
    (given,) = json.loads(hospital.must(*command, "--json"))
    assert (given["given"], given["redacted"]) == ("whole", ["date", "name"])


def test_an_export_has_every_entry_a_line(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    owner, _ = hospitals
    file = tmp_path / "audit.jsonl"
    told = json.loads(owner.must("audit", "export", file, "--json"))
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    assert told["entries"] == len(entries)
    assert [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    assert all(second["previous"] == first["hash"] for first, second in itertools.pairwise(entries))
    assert file.stat().st_mode & 0o777 == 0o600
    owner.must("audit", "export", file, "--kind", "query-answered")
    assert len(file.read_text().splitlines()) == 1
    assert owner.run("audit", "export", file, "--kind", "rumour").returncode == 2


def test_a_log_that_was_changed_does_not_verify(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, _ = hospitals
    assert "The log is whole." in owner.must("audit", "verify")
    assert owner.process is not None
    owner.stop()
    report = json.loads(owner.must("audit", "verify", "--json"))
    assert (report["whole"], report["faults"]) == (True, [])
    folder = owner.home / "audit"
    kept = owner.home / "kept"
    shutil.copytree(folder, kept)
    (path,) = folder.glob("*.log")
    data = bytearray(path.read_bytes())
    for damaged in (
        data[:-1],  # the end is cut
        data[: len(data) // 2],
        data.replace(b"Clinic", b"Nobody"),
        b"",
    ):
        path.write_bytes(damaged)
        result = owner.run("audit", "verify", "--json")
        assert result.returncode == 7, result.stderr
        assert not json.loads(result.stdout)["whole"]
        assert "not whole" in result.stderr
    path.write_bytes(data.replace(b"Clinic", b"Nobody"))
    partial = owner.run("audit", "list")
    assert partial.returncode == 5
    assert "could not be read" in partial.stderr
    owner.start()
    status = owner.must("status")
    assert "NOT WHOLE" in status
    assert owner.run("audit", "verify").returncode == 7
    owner.stop()
    shutil.rmtree(folder)
    kept.rename(folder)
    owner.start()
    assert owner.run("audit", "verify").returncode == 0


def test_old_entries_are_purged_and_the_rest_verifies(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    owner, _ = hospitals
    nothing = json.loads(owner.must("audit", "purge", "--before", "2020-01-01", "--json"))
    assert nothing == {"removed": 0, "up_to": 0}
    assert owner.run("audit", "purge", "--before", "2999-01-01").returncode == 2
    assert owner.run("audit", "purge", "--before", "yesterday").returncode == 2
    assert "no file" in same_with_and_without_a_node(
        owner, "audit", "purge", "--before", "2020-01-01"
    )
    assert owner.run("audit", "verify").returncode == 0


def test_status_tells_of_the_log(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, _ = hospitals
    if owner.process is None:
        owner.start()
    audit = json.loads(owner.must("status", "--json"))["audit"]
    assert audit["failure"] == ""
    assert audit["faults"] == []
    assert audit["entries"] > 4
    assert "entries, " in owner.must("status")
