"""Both sides of a query record it before anything is let out, over the memory network."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.node.lab import Lab, add, eventually
from zerorag_p2p.audit.events import AnsweringPaused
from zerorag_p2p.audit.heads import open_head
from zerorag_p2p.audit.ledger import verify_folder
from zerorag_p2p.audit.reading import LogReader, Selection
from zerorag_p2p.config import AuditConfig, LimitsConfig, NodeConfig, RedactionConfig
from zerorag_p2p.errors import AuditError, PolicyDenied
from zerorag_p2p.library.records import Record
from zerorag_p2p.model import ContentHash, Purpose, SharingTerms, View
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.fetch import FetchRequest, encode_fetch
from zerorag_p2p.wire.gossip import (
    Ack,
    AdvertisementsRequest,
    Ping,
    decode_gossip_reply,
    encode_gossip,
)

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
    for ours, theirs in ((contacted, answered), (received, delivered)):
        assert (ours["sent"], ours["received"]) == (theirs["received"], theirs["sent"])
    note = {
        "content_hash": document.content_hash,
        "collection": "notes",
        "rule": "sharing of notes",
        "redacted": [],
    }
    allowed = {"collection": "notes", "decided": "allowed", "rule": "sharing of notes"}
    assert (answered["outcome"], answered["collections"]) == ("answered", [allowed])
    assert answered["documents"] == [{**note, "given": "embedding"}]
    assert delivered["documents"] == [{**note, "given": "whole"}]
    assert received["documents"] == [{**note, "collection": "", "rule": "", "given": "whole"}]


def add_to(node: Node, collection: str, text: str, sharing: Sharing | None) -> None:
    node.library.add_records([Record(name=text, title=text, text=text)], collection)
    if sharing is not None:
        node.library.share(collection, sharing)


async def test_what_was_decided_on_every_collection_is_recorded(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    lab.homes["bob"].home.policy.write_text(
        '[[rule]]\nname = "no trials"\neffect = "deny"\ncollections = ["trials"]\n'
    )
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add_to(bob, "trials", "a trial", Sharing())
        await ann.query("a note")
        add_to(bob, "wards", "a note", Sharing())
        add_to(bob, "drafts", "a draft", None)
        await ann.query("a note", view=View.COUNT)
        await ann.query("a note")
        denied, counted, partly = entries(bob, "query-answered")
    no_trials = {"collection": "trials", "decided": "denied", "rule": "no trials"}
    no_drafts = {"collection": "drafts", "decided": "denied", "rule": "default"}
    wards = {"collection": "wards", "rule": "sharing of wards"}
    assert (denied["outcome"], denied["collections"]) == ("denied", [no_trials])
    assert denied["documents"] == []
    assert (counted["outcome"], counted["count"]) == ("partly answered", 1)
    assert counted["collections"] == [{**wards, "decided": "counted"}, no_drafts, no_trials]
    assert partly["outcome"] == "partly answered"
    assert partly["collections"] == [{**wards, "decided": "allowed"}, no_drafts, no_trials]
    assert [note["collection"] for note in partly["documents"]] == ["wards"]


async def test_both_sides_record_what_was_redacted(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    redacting = replace(lab.config("bob"), redaction=RedactionConfig(default=("date", "email")))
    async with lab.node("ann") as ann, lab.node("bob", config=redacting) as bob:
        add(bob, "seen on 2026-03-04 in the clinic")
        report = await ann.query("seen in the clinic")
        (delivered,) = entries(bob, "fetch-answered")
        (received,) = entries(ann, "fetch-received")
        rows = LogReader(bob.home.audit).disclosures(report.documents[0].content_hash)
    for entry in (delivered, received):
        (note,) = entry["documents"]
        assert (note["given"], note["redacted"]) == ("whole", ["date"])
    assert [(row["given"], row["redacted"]) for row in rows] == [
        ("embedding", []),
        ("whole", ["date"]),
    ]


async def test_a_delivery_with_an_unsound_release_is_recorded_as_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")
        monkeypatch.setattr("zerorag_p2p.node.serving.sign_release", lambda *_, **__: b"\x00")
        report = await ann.query("a note")
        assert [item.status for item in report.documents] == ["rejected"]
        (received,) = entries(ann, "fetch-received")
        assert [note["given"] for note in received["documents"]] == ["passage"]


async def test_a_copy_that_is_kept_is_recorded(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note", sharing=Sharing(terms=SharingTerms(copy=True)))
        report = await ann.query("a note")
        (copy,) = await ann.keep_answer(report.audit, "kept")
        assert copy.kept
        (kept,) = entries(ann, "copy-kept")
        assert kept["reference"] == report.audit
        assert (kept["peer"], kept["organisation"]) == (lab.peer("bob"), "Bob")
        assert kept["owner"] == lab.peer("bob")
        (note,) = kept["documents"]
        assert (note["content_hash"], note["collection"]) == (copy.content_hash, "kept")
        bob.library.unshare("notes")
        add(bob, "not to be copied")
        report = await ann.query("not to be copied")
        refused = [await ann.keep(document, "kept") for document in report.documents]
        assert not any(copy.kept for copy in refused)
        assert len(entries(ann, "copy-kept")) == 1


async def test_a_lock_out_is_recorded_once_whatever_follows(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    strict = replace(
        lab.config("bob"), limits=LimitsConfig(repeated_queries=2, unreturned_fetches=1)
    )
    async with lab.node("ann") as ann, lab.node("bob", config=strict) as bob:
        add(bob, "a note")
        began = time.time()
        for _ in range(3):
            await ann.query("a note", budget=1)
        for number in range(5):
            request = _fetch_request(ContentHash(f"{number:064x}"))
            await bob.core.service.answer_fetch(lab.peer("ann"), request)
        asked = [entry["reference"] for entry in entries(ann, "query-asked")]
        question, guesses = entries(bob, "locked-out")
    for entry in (question, guesses):
        assert (entry["peer"], entry["organisation"]) == (lab.peer("ann"), "Ann")
        assert began + 599 <= entry["until"] <= time.time() + 601
    assert (question["request"], question["reference"]) == ("query", asked[2])
    assert "near-identical" in question["reason"]
    assert guesses["request"] == "fetch"
    assert len(entries(bob.home.audit, "query-answered")) == 2
    assert len(entries(bob.home.audit, "fetch-answered")) == 3


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
        third = await bob.core._gossip.answer(
            lab.peer("ann"), encode_gossip(AdvertisementsRequest(()))
        )
        assert third == second
        pinged = await bob.core._gossip.answer(lab.peer("ann"), encode_gossip(Ping()))
        assert isinstance(decode_gossip_reply(pinged, asked=Ping()), Ack)
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


async def test_commits_that_wait_together_share_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = 50
    syncs = 0
    real = os.fdatasync

    def count(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        real(descriptor)

    def on_disk() -> set[str]:
        return {entry["reason"] for entry in entries(folder, "answering-paused")}

    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        folder = ann.home.audit
        await ann.audit.commit()
        monkeypatch.setattr(os, "fdatasync", count)

        async def commit(number: int) -> None:
            reason = f"number {number}"
            ann.audit.record(AnsweringPaused(paused=True, reason=reason))
            await ann.audit.commit()
            assert reason in on_disk()

        async with trio.open_nursery() as nursery:
            for number in range(commits):
                nursery.start_soon(commit, number)
        assert len(on_disk()) == commits
        # One for those that were recorded before the writer began, one for those since.
        assert 1 <= syncs <= 3
        syncs = 0
        await commit(commits)
        assert syncs == 1
    assert not verify_folder(folder, ann.peer_id).faults


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
        assert [entry["view"] for entry in accesses] == ["passage"] * 2
        assert [entry["documents"][0]["given"] for entry in accesses] == ["embedding", "whole"]
        assert {entry["reason"] for entry in accesses} == {"unconscious"}
        assert {entry["reference"] for entry in accesses} == {report.audit}
        (asked,) = entries(ann, "query-asked")
        assert asked["reason"] == "unconscious"
        (row, _) = LogReader(bob.home.audit).disclosures(report.documents[0].content_hash)
        assert row["rule"] == "break glass"
        await ann.query("a note", purpose=Purpose.ETREAT, reason="unconscious", view=View.TITLE)
        titles = entries(bob, "emergency-access")[2:]
        assert [entry["view"] for entry in titles] == ["title", "title"]
        assert [entry["documents"][0]["given"] for entry in titles] == ["count", "title"]
