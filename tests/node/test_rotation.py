"""A node goes over to a new key: others take it for the same organisation, documents stay valid."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.node.lab import Lab, add, eventually
from zerorag_p2p.config import ROTATION_SETTLE_S
from zerorag_p2p.control import consortium, keys
from zerorag_p2p.control.run import _run_once
from zerorag_p2p.identity.attribution import open_statement
from zerorag_p2p.identity.roster import open_roster
from zerorag_p2p.model import SharingTerms
from zerorag_p2p.node import rotation
from zerorag_p2p.node.files import load_peer_id
from zerorag_p2p.node.rotation import find_predecessor
from zerorag_p2p.policy.sharing import Sharing


def later() -> float:
    return time.time() + ROTATION_SETTLE_S + 1


def rotated(lab: Lab, name: str) -> tuple[str, bytes]:
    """Rotate the key of a node up to the roster that lists both keys; its new peer id."""
    home = lab.homes[name].home
    made = keys.rotate(home)
    data, _ = consortium.request(home)
    return made["next_peer_id"], consortium.approve(lab.homes["ann"].home, [data])


async def test_a_node_goes_over_to_its_new_key(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "libp2p", ["ann", "bob"])
    home = lab.homes["bob"].home
    old = load_peer_id(home.key)
    async with lab.node("bob", clock=later) as bob:
        add(bob, "a note of bob", "another note of bob")
        assert bob.status()["next_key"] is None
        new, roster = rotated(lab, "bob")
        assert bob.status()["next_key"] == {"peer_id": new, "standing": "unknown"}
        await bob.import_roster(roster)
        assert bob.status()["next_key"]["standing"] == "member"
        await bob.superseded.wait()  # `zerorag node run` starts the home anew
    async with lab.node("ann", clock=later) as ann:
        await ann.import_roster(roster)
        async with lab.node("bob", clock=later) as bob:
            assert bob.peer_id == new
            assert load_peer_id(home.key) == new
            assert load_peer_id(home.previous_key) == old
            assert bob.status()["organisation"] == "Bob"
            assert not bob.audit.faults
            report = await ann.query("a note of bob", k=2)
            assert [item.status for item in report.documents] == ["verified", "verified"]
            assert {item.owner.peer for item in report.documents} == {new}
            (warned,) = [row for row in ann.peers() if row["peer"] == old]
            assert warned["standing"] == "member"
        # Signed anew once, not at every start.
        async with lab.node("bob", clock=later) as again:
            for content_hash in again.library.vectors_to_advertise(["notes"])[1]:
                (stored,) = again.library.get(content_hash)
                assert open_statement(stored.attribution).owner == new


async def test_what_the_old_key_stated_is_withdrawn_while_it_is_a_member(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    home = lab.homes["bob"].home
    old = load_peer_id(home.key)
    terms = Sharing(terms=SharingTerms(copy=True))
    async with lab.node("ann", clock=later) as ann:
        async with lab.node("bob", clock=later) as bob:
            add(bob, "a note of bob", "another note of bob", sharing=terms)
            report = await ann.query("a note of bob", k=2)
            kept = [copy.content_hash for copy in await ann.keep_answer(report.audit, "kept")]
            assert len(kept) == 2
            _, roster = rotated(lab, "bob")
            await ann.import_roster(roster)
            await bob.import_roster(roster)
            await bob.superseded.wait()
        async with lab.node("bob", clock=later) as bob:
            assert bob.peer_id != old
            bob.library.withdraw(kept[0])
            await eventually(lambda: not ann.library.held(kept[0]))
            assert ann.library.held(kept[1])
    member = open_roster(roster).member(old)
    assert member is not None
    for now, found in ((member.not_after - 1, True), (member.not_after, False)):
        predecessor = find_predecessor(home, open_roster(roster), now, going_over=False)
        assert (predecessor is not None) == found


async def test_a_start_that_was_cut_off_before_the_key_changed_signs_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    home = lab.homes["ann"].home
    async with lab.node("ann") as ann:
        add(ann, "a note", "another note")
    new, roster = rotated(lab, "ann")
    consortium.install(home, roster)

    def crash(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zerorag_p2p.node.runtime.complete_rotation", crash)
    with pytest.raises(KeyboardInterrupt):
        async with lab.node("ann", clock=later):
            pass
    assert load_peer_id(home.key) != new
    monkeypatch.setattr("zerorag_p2p.node.runtime.complete_rotation", rotation.complete_rotation)
    async with lab.node("ann", clock=later) as ann:
        assert ann.peer_id == load_peer_id(home.key) == new
        for content_hash in ann.library.vectors_to_advertise(["notes"])[1]:
            (stored,) = ann.library.get(content_hash)
            assert open_statement(stored.attribution).owner == new


async def test_running_a_node_goes_on_with_the_new_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "libp2p", ["ann"])
    home = lab.homes["ann"].home
    old = load_peer_id(home.key)
    monkeypatch.setattr(rotation, "ROTATION_SETTLE_S", 0)
    ready: list[str] = []

    async def no_signal() -> AsyncIterator[int]:
        await trio.sleep_forever()
        yield 0

    async def rotate() -> None:
        await eventually(lambda: bool(ready))
        _, roster = rotated(lab, "ann")
        from zerorag_p2p.client import AsyncClient

        async with AsyncClient(home) as client:
            await client.import_roster(roster)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rotate)
            renewed = await _run_once(
                home,
                str(home.socket),
                lambda values: ready.append(str(values["peer_id"])),
                no_signal(),
            )
    assert renewed
    assert ready == [old]
    async with lab.node("ann") as again:
        assert again.peer_id != old
