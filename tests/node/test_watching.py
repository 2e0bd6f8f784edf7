"""What the owner of a node sees of what it does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.node.lab import Lab, add, eventually
from zerorag_p2p.client import AsyncClient, Client
from zerorag_p2p.control import consortium
from zerorag_p2p.control.server import serving
from zerorag_p2p.errors import PolicyDenied
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing

Json = dict[str, Any]

QUESTION = "apixaban before surgery"


async def watch(node: Node, events: list[Json], shutdown: trio.Event, ended: list[Json]) -> None:
    async with AsyncClient(node.home) as client:
        ended.append(await client.events(events.append))
    assert shutdown.is_set()


async def test_a_query_is_told_step_by_step_on_both_sides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob", "cid"], routing="paper")
    seen: dict[str, list[Json]] = {"ann": [], "bob": []}
    ended: list[Json] = []
    caplog.set_level(logging.DEBUG)
    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        add(bob, "apixaban before surgery", "insulin in ketoacidosis")
        add(cid, "dialysis and potassium")
        shutdown = trio.Event()
        async with trio.open_nursery() as nursery, serving(ann, shutdown), serving(bob, shutdown):
            for node, name in ((ann, "ann"), (bob, "bob")):
                nursery.start_soon(watch, node, seen[name], shutdown, ended)
            await eventually(lambda: all(seen.values()))
            report = await ann.query(QUESTION, k=2)
            await eventually(lambda: any(item["event"] == "fetch-answered" for item in seen["bob"]))
            await eventually(lambda: any(item["event"] == "query-ended" for item in seen["ann"]))
            shutdown.set()
    assert ended == [{"reason": "the node ends"}] * 2
    assert QUESTION not in caplog.text

    story = [event for event in seen["ann"] if event.get("query") == report.audit]
    assert story[0]["event"] == "query-started"
    assert (story[0]["text"], story[0]["k"], story[0]["purpose"]) == (QUESTION, 2, "TREAT")
    started = [event for event in story if event["event"] == "contact-started"]
    contacts = [event["contact"] for event in story if event["event"] == "contact-ended"]
    assert [event["peer"] for event in started] == [contact.peer for contact in report.contacts]
    assert [event["evidence"] for event in started] == [item.evidence for item in report.contacts]
    assert [item["milliseconds"] for item in contacts] == [
        contact.milliseconds for contact in report.contacts
    ]
    fetched = [event for event in story if event["event"] == "fetch-ended"]
    assert sum(event["verified"] for event in fetched) == 2
    end = story[-1]
    assert (end["event"], end["stopped"], end["documents"]) == ("query-ended", report.stopped, 2)
    assert (end["bytes_sent"], end["complete"]) == (report.bytes_sent, True)

    (answered,) = (event for event in seen["bob"] if event["event"] == "query-answered")
    assert (answered["peer"], answered["organisation"]) == (lab.peer("ann"), "Ann")
    assert (answered["k"], answered["remembered"]) == (2, True)
    assert QUESTION not in str(seen["bob"])


async def test_a_query_that_its_asker_leaves_is_told_to_have_ended(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    told: list[Any] = []
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note")
        with ann.watching(told.append), trio.CancelScope() as scope:
            await ann.query("a note", on_progress=lambda _: scope.cancel())
    ends = [item for item in told if item.event == "query-ended"]
    assert [item.stopped for item in ends] == ["abandoned by its asker"]


async def test_refusals_are_kept_on_both_sides_with_the_owner_s_reason(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a note", sharing=Sharing(purposes=(), members=(lab.peer("bob"),)))
        (content_hash,) = bob.library.vectors_to_advertise(["notes"])[1]
        with pytest.raises(PolicyDenied):
            await ann.core.fetch(content_hash, lab.peer("bob"))
        (ours,) = (item for item in bob.refusals() if item["request"] == "fetch")
        (theirs,) = (item for item in ann.refusals() if item["request"] == "fetch")
    assert (ours["by"], ours["peer"], ours["request"]) == ("us", lab.peer("ann"), "fetch")
    assert (ours["code"], ours["document"]) == ("denied", content_hash)
    assert (theirs["by"], theirs["peer"], theirs["code"]) == ("them", lab.peer("bob"), "denied")
    assert ours["reason"] != theirs["reason"]  # What is not said to strangers.


async def test_neighbours_memory_and_traffic_have_figures(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"], routing="paper")
    told: list[Any] = []
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        with ann.watching(told.append), bob.watching(told.append):
            add(bob, "a note")
            await eventually(lambda: bool(ann.neighbors() and ann.neighbors()[0]["advertisement"]))
            await ann.query("a note")
            shutdown = trio.Event()
            async with serving(bob, shutdown):

                def ask() -> tuple[Json, list[Json], Json]:
                    with Client(bob.home) as client:
                        return client.memory(), client.refusals(), client.status()["traffic"]

                memory, refusals, traffic = await trio.to_thread.run_sync(ask)
                shutdown.set()
            (neighbor,) = ann.neighbors()
            (member,) = ann.peers()
    assert neighbor["state"] == member["state"] == "connected"
    assert neighbor["round_trip_ms"] > 0
    assert neighbor["bytes_sent"] > 100
    assert neighbor["bytes_received"] > 100
    (querier,) = memory["queriers"]
    assert (memory["queries"], querier["queries"], querier["organisation"]) == (1, 1, "Ann")
    assert querier["asked_at"] < querier["first_expiry"] <= querier["last_expiry"]
    # A machine with much to do lets exchanges of views bunch up.
    assert {(item["request"], item["code"]) for item in refusals} <= {("gossip", "rate-limited")}
    assert (traffic["answered"], traffic["returned"], traffic["delivered"]) == (1, 1, 1)
    added = [item.peer for item in told if item.event == "neighbor-added"]
    assert lab.peer("bob") in added


async def test_a_neighbour_that_is_forgotten_is_told_with_the_reason(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    told: list[Any] = []
    async with lab.node("ann") as ann, lab.node("bob"):
        await eventually(lambda: bool(ann.neighbors()))
        roster = consortium.revoke(lab.homes["ann"].home, lab.peer("bob"), "left")
        with ann.watching(told.append):
            await ann.import_roster(roster)
    (removed,) = (item for item in told if item.event == "neighbor-removed")
    assert removed.peer == lab.peer("bob")
    assert "member" in removed.reason
