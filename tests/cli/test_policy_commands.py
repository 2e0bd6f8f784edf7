"""Rules as operators use them: two hospitals, two processes, libp2p between them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hospitals import Hospital, two_hospitals

pytestmark = [pytest.mark.processes, pytest.mark.slow]

RULES = """
[[rule]]
name = "research sees hearts"
effect = "allow"
organisations = ["Clinic"]
collections = ["wards"]
purposes = ["research"]
view = "passage"

[[rule]]
name = "no questions about sepsis"
effect = "deny"
near = ["sepsis in children"]
at_least = 0.7

[[rule]]
name = "break glass"
effect = "emergency"
collections = ["wards"]
hours = 4
"""


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hospital, Hospital]]:
    folder = tmp_path_factory.mktemp("h")
    with two_hospitals(folder) as (owner, asker):
        for name, text in (
            ("heart.txt", "Diuretics in heart failure."),
            ("sepsis.txt", "Sepsis in children begins with fever."),
        ):
            (folder / name).write_text(text)
            owner.must("docs", "add", folder / name, "--collection", "wards")
        (owner.home / "policy.toml").write_text(RULES)
        owner.start()
        asker.start()
        yield owner, asker


def exit_code(result: subprocess.CompletedProcess[str]) -> int:
    assert "Traceback" not in result.stderr
    return result.returncode


def decisions(hospital: Hospital, *arguments: object) -> dict[str, bool]:
    result = hospital.run("policy", "check", "--json", *arguments)
    assert exit_code(result) in {0, 4}, result.stderr
    value = json.loads(result.stdout)
    allowed = {item["act"]: item["allowed"] for item in value["decisions"]}
    assert value["allowed"] is (allowed["result"] or allowed["fetch"])
    assert exit_code(result) == (0 if value["allowed"] else 4)
    return allowed


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline


def test_the_dry_run_says_what_then_happens(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, asker = hospitals
    clinic = ("--peer", "Clinic", "--purpose")
    heart, sepsis = "diuretics in heart failure", "sepsis in children"
    cases = [("research", heart, True), ("treatment", heart, False), ("research", sepsis, False)]
    for purpose, question, allowed in cases:
        tried = decisions(owner, *clinic, purpose, "--query", question)
        assert tried == {"result": allowed, "fetch": allowed, "advertise": False}
        asked = asker.run("query", question, "--purpose", purpose, "-k", "1", "--json")
        assert exit_code(asked) == (0 if allowed else 6), asked.stderr
        texts = [item["text"] for item in json.loads(asked.stdout)["documents"]]
        assert texts == (["Diuretics in heart failure."] if allowed else [])
    assert not decisions(owner, *clinic, "research", "--view", "whole")["fetch"]
    shown = owner.must("policy", "check", *clinic, "research", "--query", heart)
    assert "rule 'research sees hearts' allows 'wards'" in shown
    by_id = decisions(
        owner, "--peer", asker.must("id").strip(), "--purpose", "HRESCH", "--query", heart
    )
    assert by_id["result"]


def test_wrong_usage_of_the_dry_run_is_explained(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, _ = hospitals
    for arguments, message in (
        (("--peer", "Clinik", "--purpose", "research"), "there are: 'Clinic'"),
        (("--peer", "Clinic", "--purpose", "fun"), "no purpose of use"),
        (("--peer", "Clinic", "--purpose", "TREAT", "--collection", "x"), "there is no collection"),
    ):
        result = owner.run("policy", "check", *arguments)
        assert exit_code(result) in {1, 2}
        assert message in result.stderr


def test_a_denied_document_cannot_be_fetched_by_its_hash(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    owner, asker = hospitals
    found = json.loads(
        asker.must("query", "diuretics in heart failure", "--purpose", "research", "--json")
    )
    content_hash = found["documents"][0]["content_hash"]
    peer = owner.must("id").strip()
    result = asker.run("get", content_hash, "--peer", peer, "--purpose", "treatment")
    assert exit_code(result) == 4
    assert "no such document is available to you" in result.stderr
    assert "wards" not in result.stderr
    assert "no questions about sepsis" in owner.must("refusals")
    by_document = ("--peer", "Clinic", "--doc", content_hash[:12], "--purpose")
    heart = ("--query", "diuretics in heart failure")
    assert decisions(owner, *by_document, "research", *heart)["fetch"]
    assert not decisions(owner, *by_document, "treatment", *heart)["fetch"]
    unknown = owner.run(
        "policy", "check", "--peer", "Clinic", "--purpose", "TREAT", "--doc", "ab" * 32
    )
    assert exit_code(unknown) == 1
    assert "0 documents begin with" in unknown.stderr


def test_emergency_access_is_asked_for_seen_and_rearmed(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    owner, asker = hospitals
    question = ("query", "diuretics in heart failure", "--purpose", "emergency", "--json")
    assert exit_code(asker.run(*question)) == 6
    answer = json.loads(asker.must(*question, "--reason", "unconscious, no kin"))
    assert answer["documents"][0]["status"] == "verified"
    assert "EMERGENCY ACCESS 2 times since the start, 1 grant" in owner.must("status")
    value = json.loads(owner.must("policy", "emergencies", "--json"))
    assert [grant["organisation"] for grant in value["grants"]] == ["Clinic"]
    assert {access["reason"] for access in value["accesses"]} == {"unconscious, no kin"}
    assert {access["audit"] for access in value["accesses"]} == {answer["audit"]}
    assert "unconscious, no kin" in owner.must("policy", "emergencies")
    assert "unconscious" not in (owner.home / "log").read_text()
    assert "emergency access: Clinic" in (owner.home / "log").read_text()
    assert exit_code(owner.run("policy", "rearm")) == 2
    assert "rearmed 1 grant" in owner.must("policy", "rearm", asker.must("id").strip())
    assert "rearmed 0 grants" in owner.must("policy", "rearm", "--all")


def test_counts_are_asked_for_by_a_view(hospitals: tuple[Hospital, Hospital]) -> None:
    _, asker = hospitals
    counted = ("query", "diuretics in heart failure", "--purpose", "research", "--view", "count")
    answer = json.loads(asker.must(*counted, "--json"))
    assert (answer["count"], answer["documents"]) == (1, [])
    assert json.loads(asker.must(*counted, "--at-least", "-1", "--json"))["count"] == 2
    assert "1 matching document" in asker.must(*counted)


def test_rules_are_linted_shown_and_reloaded(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    owner, asker = hospitals
    assert "0 errors, 0 warnings" in owner.must("policy", "lint")
    draft = tmp_path / "draft.toml"
    draft.write_text(RULES.replace('"Clinic"', '"Clinik"'))
    wrong = owner.run("policy", "lint", "--file", draft)
    assert exit_code(wrong) == 2
    assert "no other member is of an organisation 'Clinik'" in wrong.stdout
    draft.write_text("[[rule]]")
    broken = owner.run("policy", "lint", "--file", draft)
    assert exit_code(broken) == 2
    assert "'name' is missing" in broken.stderr
    shown = json.loads(owner.must("policy", "show", "--json"))
    assert [rule["name"] for rule in shown["rules"]] == [
        "research sees hearts",
        "no questions about sepsis",
        "break glass",
    ]
    assert "emergency, 4 h" in owner.must("policy", "show")

    rules = owner.home / "policy.toml"
    rules.write_text(RULES + '\n[[rule]]\nname = "stop"\neffect = "deny"\n')
    assert "in force: 4 rules on documents, 0 on questions" in owner.must("policy", "reload")
    question = ("query", "diuretics in heart failure", "--purpose", "research", "--json")
    assert exit_code(asker.run(*question)) == 6
    rules.write_text("[[rule]]\n")
    assert exit_code(owner.run("policy", "reload")) == 2
    assert "the file is not in force" in owner.must("status")
    rules.write_text(RULES)
    eventually(lambda: json.loads(owner.must("status", "--json"))["policy"]["rules"] == 3)
    assert exit_code(asker.run(*question)) == 0


def test_a_question_is_kept_from_whom_our_rules_name(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    _, asker = hospitals
    (asker.home / "policy.toml").write_text(
        """
        [[outbound]]
        name = "private questions stay"
        effect = "deny"
        organisations = ["General Hospital"]
        marks = ["private"]

        [[outbound]]
        name = "no identifiers"
        effect = "allow"
        redact = ["identifiers"]
        """
    )
    asker.must("policy", "reload")
    question = ("query", "diuretics in heart failure of Mrs Catherine Okonkwo", "--purpose")
    kept = asker.run(*question, "research", "--mark", "private")
    assert exit_code(kept) == 4
    assert "let nobody be asked" in kept.stderr
    assert "not asked   General Hospital" in kept.stdout
    sent = asker.must(*question, "research")
    assert "(redacted: name)" in sent
    assert "sent as     diuretics in heart failure of" in sent


def test_rules_are_tried_out_without_a_node(hospitals: tuple[Hospital, Hospital]) -> None:
    owner, asker = hospitals
    owner.stop()
    heart = ("--query", "diuretics in heart failure")
    clinic = ("--peer", "Clinic", "--purpose")
    assert decisions(owner, *clinic, "research", *heart)["result"]
    assert not decisions(owner, *clinic, "treatment", *heart)["result"]
    assert "0 errors, 0 warnings" in owner.must("policy", "lint")
    assert "break glass" in owner.must("policy", "show")
    assert "nobody has used emergency access" in owner.must("policy", "emergencies")
    assert "rearmed 0 grants" in owner.must("policy", "rearm", "--all")
    assert exit_code(owner.run("policy", "reload")) == 3
    (asker.home / "policy.toml").unlink()
    nothing = asker.run("policy", "lint")
    assert exit_code(nothing) == 2
    assert "docs/policy.md" in nothing.stderr
