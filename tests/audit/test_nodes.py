"""Both sides of a query record it before anything is let out, over the memory network."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.node.lab import Lab, add, eventually
from zerorag_p2p.audit.heads import open_head
from zerorag_p2p.audit.ledger import verify_folder
from zerorag_p2p.audit.reading import LogReader, Selection
from zerorag_p2p.config import AuditConfig, NodeConfig
from zerorag_p2p.errors import AuditError, PolicyDenied
from zerorag_p2p.model import ContentHash, Purpose, SharingTerms, View
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.fetch import FetchRequest, encode_fetch

Json = dict[str, Any]


def entries(node: Node | Path, kind: str) -> list[Json]:
    folder = node if isinstance(node, Path) else node.home.audit
    return LogReader(folder).newest(Selection(kind=kind), 100)


def is_recorded(node: Node, kind: str) -> bool:
    return bool(entries(node, kind))


def with_audit(config: NodeConfig, **settings: Any) -> NodeConfig:
    return replace(config, audit=AuditConfig(**settings))


async def test_both_sides_record_a_query_under_one_reference(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "apixaban before surgery")
        report = await ann.query("apixaban before surgery", user="dr-7", purpose=Purpose.HRESCH)
        (document,) = report.documents
        (asked,) = entries(ann, "query-asked")
        (contacted,) = entries(ann, "peer-contacted")
        (received,) = entries(ann, "fetch-received")
        (answered,) = entries(bob, "query-answered")
        (delivered,) = entries(bob, "fetch-answered")
    for entry in (asked, contacted, received, answered, delivered):
        assert entry["reference"] == report.audit
    assert (asked["user"], asked["purpose"], asked["text"]) == ("dr-7", "HRESCH", None)
    assert (contacted["peer"], contacted["organisation"]) == (lab.peer("bob"), "Bob")
    assert contacted["outcome"] == "answered"
    for entry in (answered, delivered):
        assert (entry["peer"], entry["organisation"]) == (lab.peer("ann"), "Ann")
        assert (entry["user"], entry["purpose"]) == ("dr-7", "HRESCH")
        assert entry["received"] > 0
        assert entry["sent"] > 0
    note = {
        "content_hash": document.content_hash,
        "collection": "notes",
        "rule": "sharing of notes",
    }
    assert answered["documents"] == [{**note, "given": "embedding"}]
    assert delivered["documents"] == [{**note, "given": "whole"}]
    assert [item["content_hash"] for item in received["documents"]] == [document.content_hash]


async def test_texts_are_recorded_only_where_they_were_asked_and_only_if_wanted(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    telling = with_audit(lab.config("ann"), query_text=True)
    async with lab.node("ann", config=telling) as ann, lab.node("bob") as bob:
        add(bob, "a note")
        await ann.query("apixaban for Mrs Miller")
        (asked,) = entries(ann, "query-asked")
        assert asked["text"] == "apixaban for Mrs Miller"
        await bob.query("apixaban for Mrs Miller")
        (silent,) = entries(bob, "query-asked")
        assert silent["text"] is None
        assert silent["query"] != asked["query"]  # each has a secret of its own
        await ann.query("apixaban for Mrs Miller")
        assert [entry["query"] for entry in entries(ann, "query-asked")] == [asked["query"]] * 2
        first, second = entries(bob, "query-answered")
        assert first["query"] == second["query"]
    for path in (bob.home.audit).iterdir():
        assert b"Miller" not in path.read_bytes()
    assert ann.home.audit_key.stat().st_mode & 0o777 == 0o600


async def test_refused_fetches_are_recorded_with_the_rule(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "for research only", sharing=Sharing(purposes=(Purpose.HRESCH,)))
        (content_hash,) = bob.library.vectors_to_advertise(["notes"])[1]
        for wanted in (content_hash, "0" * 64):
            with pytest.raises(PolicyDenied):
                await ann.get(wanted, peer=lab.peer("bob"))
        denied, unknown = entries(bob, "fetch-answered")
        assert denied["outcome"] == "delivered 0 of 1"
        (note,) = denied["documents"]
        assert (note["given"], note["collection"]) == ("nothing", "notes")
        assert note["rule"]
        assert [note["given"] for note in unknown["documents"]] == ["nothing"]
        assert LogReader(bob.home.audit).disclosures(content_hash) == []
        first, _ = entries(ann, "fetch-received")
        assert first["documents"][0]["given"] == "nothing"


async def test_peers_that_do_not_answer_are_recorded_too(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann:
        await ann.query("is anybody there", timeout_s=2.0)
        (contacted,) = entries(ann, "peer-contacted")
        assert contacted["peer"] == lab.peer("bob")
        assert contacted["outcome"] == "unreachable"


async def test_a_question_that_its_asker_leaves_is_recorded_with_its_contacts(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann:
        silent = lab.bare_network("bob")
        async with silent.running():
            with trio.CancelScope() as leaving:
                await ann.query("never mind", timeout_s=4.0, on_progress=lambda _: leaving.cancel())
            await ann.audit.commit()
            (contacted,) = entries(ann, "peer-contacted")
            assert contacted["outcome"] == "given up"


async def test_starts_rosters_rules_and_pauses_are_recorded(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        ann.pause("maintenance")
        ann.resume()
        await ann.audit.commit()
        (started,) = entries(ann, "started")
        assert (started["peer"], started["cut"]) == (ann.peer_id, 0)
        (roster,) = entries(ann, "roster-in-force")
        assert (roster["version"], roster["members"]) == (ann.core.directory.roster.version, 1)
        (policy,) = entries(ann, "policy-in-force")
        assert policy["source"] == "policy.toml"
        first, second = entries(ann, "answering-paused")
        assert (first["paused"], first["reason"]) == (True, "maintenance")
        assert second["paused"] is False
    assert not verify_folder(ann.home.audit, ann.peer_id).faults


# A disk that does not take entries.


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Lets the disk of audit logs be full, or have room again."""
    real = os.fdatasync

    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(is_full: bool) -> None:
        monkeypatch.setattr(os, "fdatasync", refuse if is_full else real)

    return fill


async def test_a_node_that_cannot_record_answers_nobody_until_it_can(
    tmp_path: Path, full: Callable[[bool], None], caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")
        (content_hash,) = bob.library.vectors_to_advertise(["notes"])[1]
        await ann.query("a note")
        recorded = len(entries(bob, "query-answered"))
        full(True)
        # Both have the same disk here: ann may not ask, and what others ask bob refuses.
        with pytest.raises(AuditError, match="No space left on device"):
            await ann.query("a note")
        assert ann.status()["audit"]["failure"]
        assert len(entries(ann, "peer-contacted")) == 1
        first = await bob.core.service.answer_fetch(lab.peer("ann"), _fetch_request(content_hash))
        assert b"paused" in first
        assert b"a note" not in first
        second = await bob.core.service.answer_fetch(lab.peer("ann"), _fetch_request(content_hash))
        assert b"paused" in second
        assert bob.status()["audit"]["failure"]
        assert "nothing is asked or answered until it can" in caplog.text
        full(False)
        await eventually(lambda: not bob.status()["audit"]["failure"])
        await eventually(lambda: not ann.status()["audit"]["failure"])
        report = await ann.query("a note")
        assert report.documents[0].text == "a note"
        assert len(entries(bob, "query-answered")) == recorded + 1
    assert not verify_folder(bob.home.audit, bob.peer_id).faults


def _fetch_request(content_hash: ContentHash) -> bytes:
    return encode_fetch(
        FetchRequest(
            documents=(content_hash,),
            purpose=Purpose.TREAT,
            user="node",
            audit="0123456789abcdef",
            view=View.PASSAGE,
            deadline_ms=1_000,
        )
    )


async def test_a_disk_that_hangs_counts_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        await ann.audit.commit()
        monkeypatch.setattr("zerorag_p2p.node.auditing.AUDIT_COMMIT_S", 0.05)
        going_on = trio.Event()
        real = os.fdatasync

        def hang(descriptor: int) -> None:
            trio.from_thread.run(going_on.wait)
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", hang)
        with pytest.raises(AuditError, match=r"took longer than 0\.05 s"):
            await ann.query("a question")
        assert ann.status()["audit"]["failure"]
        monkeypatch.setattr(os, "fdatasync", real)
        going_on.set()
        await eventually(lambda: not ann.status()["audit"]["failure"])


# Heads.


def quick(lab: Lab, name: str) -> NodeConfig:
    return with_audit(lab.config(name), head_interval_s=0.1)


async def test_a_log_that_was_put_back_is_shown_up_by_the_heads_that_others_hold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, "memory", ["bob", "ann"])
    backup = tmp_path / "backup"
    folder = lab.homes["ann"].home.audit
    async with lab.node("bob", config=quick(lab, "bob")) as bob:
        async with lab.node("ann", config=quick(lab, "ann")):
            pass
        shutil.copytree(folder, backup)
        async with lab.node("ann", config=quick(lab, "ann")) as ann:
            await ann.query("what nobody shall know was asked")
            reached = ann.status()["audit"]["entries"]
            held = bob.audit.ledger.book.held

            def is_held() -> bool:
                signed = held.get(ann.peer_id)
                return signed is not None and open_head(signed, ann.peer_id).sequence >= reached

            await eventually(is_held)
        assert not verify_folder(folder, lab.peer("ann")).faults
        shutil.rmtree(folder)
        shutil.copytree(backup, folder)
        assert not verify_folder(folder, lab.peer("ann")).faults  # as far as its own files tell
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            async with lab.node("ann", config=quick(lab, "ann")) as ann:
                await eventually(lambda: bool(ann.status()["audit"]["faults"]))
        assert "the audit log is not whole" in caplog.text
    assert verify_folder(folder, lab.peer("ann")).faults
    async with lab.node("ann") as ann:
        assert ann.status()["audit"]["faults"]
        await ann.audit.commit()
        (*_, started) = entries(ann, "started")
        assert "a signed head names" in started["reason"]


async def test_a_whole_log_is_never_called_otherwise(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["bob", "ann"])
    async with lab.node("bob", config=quick(lab, "bob")) as bob:
        for _ in range(2):
            async with lab.node("ann", config=quick(lab, "ann")) as ann:
                # A head is returned when another one is shown: the log has to grow.
                returned = ann.audit.ledger.book.returned
                known = dict(returned)
                for number in itertools.count():
                    await ann.query(f"question {number}")
                    if returned != known:
                        break
                assert ann.peer_id in bob.audit.ledger.book.held
                assert not ann.status()["audit"]["faults"]
                assert not bob.status()["audit"]["faults"]
                assert ann.audit.ledger.verify().faults == ()
    for name in ("ann", "bob"):
        assert verify_folder(lab.homes[name].home.audit, lab.peer(name)).faults == ()


# What others cause.


async def test_withdrawals_and_shared_collections_are_recorded(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["bob", "ann"])
    terms = Sharing(terms=SharingTerms(copy=True))
    async with lab.node("bob") as bob, lab.node("ann") as ann:
        add(bob, "a note", sharing=terms)
        (content_hash,) = bob.library.vectors_to_advertise(["notes"])[1]
        await trio.to_thread.run_sync(bob.library.unshare, "notes")
        for node in (bob, ann):
            await eventually(partial(is_recorded, node, "documents-withdrawn"))
            (withdrawn,) = entries(node, "documents-withdrawn")
            assert (withdrawn["peer"], withdrawn["organisation"]) == (lab.peer("bob"), "Bob")
            named = [note["content_hash"] for note in withdrawn["documents"]]
            assert named in ([content_hash], [])
            assert withdrawn["reason"]


async def test_emergency_access_is_recorded_with_its_reason(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    lab.homes["bob"].home.policy.write_text(
        '[[rule]]\nname = "break glass"\neffect = "emergency"\ncollections = ["notes"]\nhours = 4\n'
    )
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note", sharing=None)
        report = await ann.query("a note", purpose=Purpose.ETREAT, reason="unconscious")
        assert report.documents[0].text == "a note"
        (policy,) = entries(bob, "policy-in-force")
        assert policy["reason"] == "1 rule on documents, 0 on questions"
        accesses = entries(bob, "emergency-access")
        assert [entry["rule"] for entry in accesses] == ["break glass"] * 2
        assert [entry["documents"][0]["given"] for entry in accesses] == ["embedding", "whole"]
        assert {entry["reason"] for entry in accesses} == {"unconscious"}
        assert {entry["reference"] for entry in accesses} == {report.audit}
        (asked,) = entries(ann, "query-asked")
        assert asked["reason"] == "unconscious"
        (row, _) = LogReader(bob.home.audit).disclosures(report.documents[0].content_hash)
        assert row["rule"] == "break glass"
