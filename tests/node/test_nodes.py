"""What users of a consortium of nodes rely on, over both networks."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from tests.node.lab import NETWORKS, Lab, add, eventually, impatient
from zerorag_p2p.config import SUMMARY_REST_S
from zerorag_p2p.errors import LibraryError, LocalError, PolicyDenied, UsageError
from zerorag_p2p.identity.release import open_release
from zerorag_p2p.model import Purpose, View
from zerorag_p2p.node.reports import DocumentStatus, QueryProgress
from zerorag_p2p.policy.sharing import Sharing


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_an_answer_carries_verified_documents_of_their_owners(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        add(bob, "apixaban before surgery", "insulin in ketoacidosis")
        add(cid, "apixaban after bleeding", "dialysis and potassium")
        seen: list[QueryProgress] = []
        report = await ann.query("apixaban before surgery", k=2, on_progress=seen.append)
        assert [document.text for document in report.documents] == [
            "apixaban before surgery",
            "apixaban after bleeding",
        ]
        first = report.documents[0]
        assert first.status is DocumentStatus.VERIFIED
        assert first.owner == first.holder
        assert (first.owner.peer, first.owner.organisation) == (lab.peer("bob"), "Bob")
        assert first.score_verified
        assert first.score == pytest.approx(1.0, abs=1e-6)
        assert report.complete
        assert {contact.peer for contact in report.contacts} == {lab.peer("bob"), lab.peer("cid")}
        assert {event.event for event in seen} == {"contact", "reply", "found", "fetch", "document"}
        assert report.new_neighbor is None or report.new_neighbor.peer == lab.peer("bob")
        release = open_release(first.release)
        assert (release.receiver, release.audit) == (lab.peer("ann"), report.audit)


async def test_unshared_documents_are_neither_found_nor_delivered(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "private note", sharing=None)
        report = await ann.query("private note")
        assert not report.documents
        (content_hash,) = bob.library.vectors_to_advertise(["notes"])[1]
        with pytest.raises(PolicyDenied, match="no such document is available to you"):
            await ann.get(content_hash, peer=lab.peer("bob"))
        with pytest.raises(PolicyDenied, match="no such document is available to you"):
            await ann.get("0" * 64, peer=lab.peer("bob"))
        bob.library.share("notes", Sharing(purposes=(Purpose.HRESCH,)))
        assert not (await ann.query("private note", purpose=Purpose.TREAT)).documents
        research = await ann.query("private note", purpose=Purpose.HRESCH)
        assert [item.status for item in research.documents] == [DocumentStatus.VERIFIED]
        document = await ann.get(content_hash, peer=lab.peer("bob"), purpose=Purpose.HRESCH)
        assert document.text == "private note"


async def test_a_text_that_is_denied_at_fetch_is_shown_as_denied(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")

        def withdraw(event: QueryProgress) -> None:
            if event.event == "reply":
                bob.library.unshare("notes")

        report = await ann.query("a note", on_progress=withdraw)
        (document,) = report.documents
        assert document.status is DocumentStatus.DENIED
        assert document.text == ""
        assert document.owner.peer == lab.peer("bob")


async def test_the_same_text_at_two_owners_survives_one_of_them(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"], routing="paper")
    async with AsyncExitStack() as stack:
        ann = await stack.enter_async_context(lab.node("ann"))
        nodes = {name: await stack.enter_async_context(lab.node(name)) for name in ("bob", "cid")}
        for node in nodes.values():
            add(node, "the same text")
        by_peer = {lab.peer(name): node for name, node in nodes.items()}
        replies = []

        def withdraw_first(event: QueryProgress) -> None:
            if event.event == "reply":
                replies.append(event.peer)
                if len(replies) == 2:
                    by_peer[replies[0]].library.unshare("notes")

        report = await ann.query("the same text", on_progress=withdraw_first)
        (document,) = report.documents
        assert document.status is DocumentStatus.VERIFIED
        assert document.holder.peer == replies[1]


async def test_advertisements_and_memory_steer_later_questions(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid", "dan"], routing="paper")
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(lab.node(name)) for name in lab.names]
        ann, bob, cid, dan = nodes
        add(bob, "heart failure and diuretics")
        add(cid, "stroke and thrombolysis")
        add(dan, "asthma in children")
        await eventually(
            lambda: (
                {row["peer"]: row["advertisement"] for row in ann.neighbors()}.keys()
                == {lab.peer(name) for name in ("bob", "cid", "dan")}
            )
        )
        await eventually(
            lambda: all(
                row["advertisement"] and row["advertisement"]["vectors"] for row in ann.neighbors()
            )
        )
        report = await ann.query("stroke and thrombolysis", k=1, budget=1)
        (contact,) = report.contacts
        assert (contact.peer, contact.evidence) == (lab.peer("cid"), "advertisement")
        assert report.documents[0].text == "stroke and thrombolysis"
        assert cid.status()["remembered_queries"] == 1


async def test_a_query_that_must_not_be_remembered_is_not(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"], routing="paper")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        for remember, remembered in ((False, 0), (True, 1)):
            report = await ann.query("something private", remember=remember)
            assert [item.outcome for item in report.contacts] == ["answered"]
            assert bob.status()["remembered_queries"] == remembered


async def test_routing_state_survives_a_restart(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"], routing="paper")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")
        await ann.query("a note")
        await eventually(
            lambda: any(
                row["advertisement"] and row["advertisement"]["vectors"] for row in ann.neighbors()
            )
        )
    assert lab.homes["ann"].home.state.stat().st_mode & 0o777 == 0o600
    async with lab.node("ann") as again:
        (row,) = again.neighbors()
        assert row["peer"] == lab.peer("bob")
        assert row["advertisement"]["vectors"] == 1
    async with lab.node("bob") as again:
        assert again.status()["remembered_queries"] == 1


async def test_what_the_best_of_a_cluster_scores_comes_with_an_advertisement(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    few = lab.config("bob", advertisement_limit=2)
    async with lab.node("ann") as ann, lab.node("bob", config=few) as bob:
        add(bob, *(f"part {number} of asthma in children" for number in range(8)))

        def advertised() -> bool:
            held = ann.core.peer.advertisements.get(lab.peer("bob"))
            return held is not None and len(held.documents) > 0

        await eventually(advertised)
        held = ann.core.peer.advertisements.get(lab.peer("bob"))
        assert held is not None
        assert held.estimates is not None
        assert len(held.documents) == len(held.estimates.offsets) <= 2
        report = await ann.query("part 3 of asthma in children", k=1)
        assert report.documents[0].text == "part 3 of asthma in children"


async def test_damaged_routing_state_costs_a_warning_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    for damaged in (b"", b"\xff" * 100, b"\xa1avab"):
        lab.homes["ann"].home.state.write_bytes(damaged)
        caplog.clear()
        async with lab.node("ann") as ann:
            assert not ann.neighbors()
        assert "cannot be used and is replaced" in caplog.text


async def test_a_peer_that_left_is_forgotten(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"], routing="paper")
    config = impatient(lab.config("ann"), departed_after_s=1.0, dial_timeout_s=0.5)
    async with lab.node("ann", config=config) as ann:
        async with lab.node("bob") as bob:
            add(bob, "a note")
            await bob.query("what ann remembers")
            await eventually(lambda: len(ann.neighbors()) == 1)
            assert ann.status()["remembered_queries"] == 1
        await eventually(lambda: not ann.neighbors())
        assert ann.status()["remembered_queries"] == 0
        report = await ann.query("a note", timeout_s=2.0)
        (contact,) = report.contacts
        assert contact.outcome == "unreachable"
        assert contact.peer == lab.peer("bob")


async def test_a_roster_that_revokes_a_member_evicts_it(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    from zerorag_p2p.control import consortium

    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        add(bob, "a note")
        assert (await cid.query("a note")).documents
        roster = consortium.revoke(lab.homes["ann"].home, lab.peer("cid"), "left")
        for node in (ann, bob):
            await node.import_roster(roster)
            await eventually(
                lambda node=node: (
                    lab.peer("cid") not in {row["peer"] for row in node.peers() if row["connected"]}
                )
            )
            assert lab.peer("cid") not in {row["peer"] for row in node.neighbors()}
        assert bob.status()["remembered_queries"] == 0
        report = await cid.query("a note", timeout_s=3.0)
        assert not report.documents
        assert {contact.outcome for contact in report.contacts} <= {"unreachable", "refused"}
        assert (await ann.query("a note")).documents


async def test_bad_arguments_are_named(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        with pytest.raises(UsageError, match="k has to be from 1 to 100, got 0"):
            await ann.query("x", k=0)
        with pytest.raises(UsageError, match="the question is empty"):
            await ann.query(" \n")
        with pytest.raises(LocalError, match=r"routing.stopping = 'soon' is unknown"):
            await ann.query("x", stopping="soon")
        with pytest.raises(LibraryError, match="name the peer to fetch it from"):
            await ann.get("0" * 64)


async def test_a_home_serves_one_node_at_a_time(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann"):
        with pytest.raises(LocalError, match="process"):
            async with lab.node("ann"):
                pass
    async with lab.node("ann"):
        pass


async def test_a_query_returns_by_its_deadline_and_names_who_is_silent(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")
        lab.hub.silence("/memory/3")
        began = trio.current_time()
        report = await ann.query("a note", timeout_s=1.0)
        assert trio.current_time() - began < 1.5
        assert [item.text for item in report.documents] == ["a note"]
        outcomes = {contact.peer: contact.outcome for contact in report.contacts}
        assert outcomes[lab.peer("bob")] == "answered"
        assert outcomes[lab.peer("cid")] in {"timed out", "unreachable"}


async def test_a_collection_shared_by_title_shows_titles_only(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note that stays with its owner", sharing=Sharing(view=View.TITLE))
        assert not (await ann.query("a note")).documents
        (document,) = (await ann.query("a note", view=View.TITLE)).documents
        assert document.status is DocumentStatus.VERIFIED
        assert document.title == "a note that stays wi"
        assert document.text == ""
        assert open_release(document.release).view is View.TITLE


async def test_a_summary_is_not_made_anew_for_every_batch(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    now = time.time()
    config = lab.config("ann", advertisement_limit=2)
    async with lab.node("ann", config=config, clock=lambda: now) as ann:
        advertise = ann.core.service.own_advertisement
        add(ann, *(f"note {number}" for number in range(5)))
        first, _ = advertise()
        assert first.estimates is not None
        add(ann, "one more note")
        assert advertise()[0] is first
        now += SUMMARY_REST_S
        assert advertise()[0].sequence > first.sequence
        ann.library.unshare("notes")
        assert advertise()[0].entries == ()
