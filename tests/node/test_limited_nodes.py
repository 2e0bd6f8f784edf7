"""Limits and pauses between whole nodes: refused, told when to come back, left alone so long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trio

from tests.node.lab import NETWORKS, Lab, add, eventually, impatient
from zerorag_p2p.config import LimitsConfig, NodeConfig
from zerorag_p2p.errors import LocalError, UsageError
from zerorag_p2p.identity.expiry import Expiring
from zerorag_p2p.membership.detector import PeerState
from zerorag_p2p.membership.events import PullAdvertisements
from zerorag_p2p.model import ContentHash, PeerId, Purpose, Vector, View
from zerorag_p2p.node.contacts import Failure
from zerorag_p2p.node.outgoing import Traffic
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.limits import Kind
from zerorag_p2p.wire.fetch import FetchItem
from zerorag_p2p.wire.gossip import (
    Ack,
    AdvertisementsReply,
    AdvertisementsRequest,
    GossipReply,
    GossipRequest,
    Ping,
    RosterReply,
    RosterRequest,
    WithdrawalsReply,
    WithdrawalsRequest,
    decode_gossip,
)
from zerorag_p2p.wire.protocols import FETCH, GOSSIP, QUERY


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def limited(lab: Lab, name: str, **limits: float) -> NodeConfig:
    return replace(lab.config(name), limits=LimitsConfig(**limits))  # type: ignore[arg-type]


def asked_of(node: Node, protocol: str) -> Callable[[], int]:
    """Counts the requests of `protocol` that reach `node`."""
    handler, limits = node.core.network._handlers[protocol]  # type: ignore[attr-defined]
    count = 0

    async def counting(peer: PeerId, payload: bytes) -> bytes:
        nonlocal count
        count += 1
        reply: bytes = await handler(peer, payload)
        return reply

    node.core.network._handlers[protocol] = (counting, limits)  # type: ignore[attr-defined]
    return lambda: count


async def fetch(node: Node, peer: PeerId, *documents: ContentHash) -> list[FetchItem] | Failure:
    return await node.core.exchanges.fetch(
        peer,
        documents,
        purpose=Purpose.TREAT,
        view=View.WHOLE,
        user="test",
        audit="0123456789abcdef",
        timeout_s=3.0,
        traffic=Traffic(),
    )


async def test_a_peer_that_asks_too_much_is_told_when_to_come_back_and_stays_away(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    config = limited(lab, "ann", requests_per_minute=6)
    async with (
        lab.node("ann", config=config) as ann,
        lab.node("bob") as bob,
        lab.node("cid") as cid,
    ):
        add(ann, "a note")
        count = asked_of(ann, QUERY)
        outcomes: list[str] = []
        while "refused" not in outcomes:
            report = await bob.query(f"question {len(outcomes)}", budget=2)
            outcomes += [item.outcome for item in report.contacts if item.peer == ann.peer_id]
            assert len(outcomes) < 10
        refusal = next(row for row in bob.refusals() if row["request"] == "query")
        assert "more than 6 requests a minute" in refusal["reason"]
        reached = count()
        for number in range(3):
            await bob.query(f"another question {number}", budget=2)
        assert count() == reached
        # It is not taken for dead, and others are answered as before.
        assert bob.core.membership.state(ann.peer_id) is PeerState.ALIVE
        assert bob.core._neighborhood.unreachable_since(ann.peer_id) is None
        assert (await cid.query("a note")).documents
        # Gossip goes on.
        assert ann.peer_id in bob.core.network.connected()


async def test_a_peer_that_was_told_to_wait_is_asked_again_afterwards(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    config = limited(lab, "ann", requests_per_minute=60)
    quiet = impatient(lab.config("bob"), advertisement_refresh_s=600.0)
    async with lab.node("ann", config=config) as ann, lab.node("bob", config=quiet) as bob:
        add(ann, "a note")
        while ann.core.limits.admit(bob.peer_id, Kind.QUERY, 0, time.time()) is None:
            pass
        report = await bob.query("a note")
        assert [item.outcome for item in report.contacts] == ["refused"]
        failure = bob.core.exchanges.refused_until_later(ann.peer_id, QUERY)
        assert failure is not None
        assert failure.retry_after_s == 1
        # The node's deadline bounds the wait; another request may take the first token.
        while not (await bob.query("a note")).documents:
            await eventually(
                lambda: bob.core.exchanges.refused_until_later(ann.peer_id, QUERY) is None
            )


async def test_repeating_a_question_with_small_changes_locks_out(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    config = limited(lab, "ann", repeated_queries=3)
    async with (
        lab.node("ann", config=config) as ann,
        lab.node("bob") as bob,
        lab.node("cid") as cid,
    ):
        add(ann, "a note about one patient")
        noise = np.random.default_rng(1)
        outcomes = []
        for _ in range(4):
            base = bob.embedder.embed_query("a note about one patient")
            changed = base + np.float32(0.05) * _unit(noise.standard_normal(len(base)))
            report = await bob.core.query("probe", _unit(changed), budget=2)
            outcomes += [item.outcome for item in report.contacts if item.peer == ann.peer_id]
        assert outcomes == ["answered", "answered", "answered", "refused"]
        (row,) = ann.status()["locked_out"]
        assert (row["peer"], row["request"]) == (bob.peer_id, "query")
        assert "near-identical" in row["reason"]
        assert (await cid.query("a note about one patient")).documents


async def test_questions_are_forgotten_once_no_limit_needs_them(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    late = 0.0
    async with (
        lab.node("ann", clock=lambda: time.time() + late) as ann,
        lab.node("bob") as bob,
    ):
        ann.home.policy.write_text(
            '[[rule]]\nname = "about hearts"\neffect = "allow"\nnear = ["heart"]\nat_least = 0.6'
        )
        await ann.policy.reload()
        (contact,) = (await bob.query("something private", remember=False)).contacts
        assert contact.outcome == "answered"
        service, account = ann.core.service, ann.core.limits._accounts[bob.peer_id]
        assert len(service._questions) == 1
        assert [len(asked) for asked in account.asked.values()] == [1]
        late = ann.core.limits._settings.window_s
        await eventually(lambda: not service._questions and not account.asked)


def _unit(row: np.ndarray) -> np.ndarray:
    unit: np.ndarray = (row / np.linalg.norm(row)).astype(np.float32)
    return unit


async def test_guessing_hashes_locks_out_and_fetching_what_was_found_does_not(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    config = limited(lab, "ann", unreturned_fetches=5)
    async with (
        lab.node("ann", config=config) as ann,
        lab.node("bob") as bob,
        lab.node("cid") as cid,
    ):
        add(ann, "a note", "another note")
        for _ in range(8):  # more than five fetches, all of documents that were returned
            assert (await cid.query("a note", k=2)).documents[0].status == "verified"
        for number in range(5):
            reply = await fetch(bob, ann.peer_id, ContentHash(f"{number:064x}"))
            assert not isinstance(reply, Failure)
        held = ann.library.vectors_to_advertise(["notes"])[1][0]
        reply = await fetch(bob, ann.peer_id, held)
        assert isinstance(reply, Failure)
        assert reply.code == "rate-limited"
        assert reply.retry_after_s == 600
        assert bob.core.exchanges.refused_until_later(ann.peer_id, FETCH) is not None
        assert [row["request"] for row in ann.status()["locked_out"]] == ["fetch"]
        assert (await cid.query("a note")).documents[0].status == "verified"


async def test_who_does_not_wait_is_refused_late_and_others_are_answered_meanwhile(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerorag_p2p.node.serving.REFUSAL_HELD_S", 60.0)
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    config = limited(lab, "ann", requests_per_minute=3)
    async with (
        lab.node("ann", config=config) as ann,
        lab.node("bob") as bob,
        lab.node("cid") as cid,
    ):
        count = asked_of(ann, QUERY)
        for node in (bob, cid):
            await node.core.sessions.ensure(ann.peer_id, timeout_s=6.0)
        while ann.core.limits.admit(bob.peer_id, Kind.QUERY, 0, time.time()) is None:
            pass
        answered = []

        async def ask(node: Node) -> None:
            await node.core.network.request(ann.peer_id, QUERY, b"\xa0", timeout_s=30.0)
            answered.append(node)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, bob)
            await eventually(lambda: count() == 1)
            await ask(cid)
            assert answered == [cid]
            nursery.cancel_scope.cancel()


async def test_a_flood_is_one_line_among_the_refusals(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    config = limited(lab, "ann", requests_per_minute=1)
    async with lab.node("ann", config=config) as ann, lab.node("bob") as bob:
        await bob.core.sessions.ensure(ann.peer_id, timeout_s=3.0)
        before = ann.status()["traffic"]["refusals"]

        async def ask() -> None:
            await bob.core.network.request(ann.peer_id, QUERY, b"\xa0", timeout_s=6.0)

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(ask)
        rows = [row["request"] for row in ann.refusals() if row["code"] == "rate-limited"]
        assert rows.count("query") == 1
        assert ann.status()["traffic"]["refusals"] >= before + 29


async def test_a_paused_node_answers_nobody_and_says_why(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(ann, "a note")
        add(bob, "a note of bob")
        assert (await bob.query("a note")).documents
        ann.pause("records are being moved")
        report = await bob.query("a note")
        assert not report.documents
        (contact,) = report.contacts
        assert (contact.outcome, contact.code) == ("refused", "paused")
        assert contact.reason == "this node is paused: records are being moved"
        for reply in (
            await fetch(bob, ann.peer_id, ContentHash("0" * 64)),
            await bob.core.exchanges.advertisement(
                ann.peer_id, dimension=256, known_sequence=None, timeout_s=3.0
            ),
        ):
            assert isinstance(reply, Failure)
            assert reply.code == "paused"
        # It asks as before.
        assert (await ann.query("a note of bob")).documents
        ann.resume()
        bob.core.exchanges._not_before.clear()  # instead of the minute that bob was told
        assert (await bob.query("a note")).documents


async def test_a_paused_node_passes_on_no_advertisements_and_stays_a_member(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(ann, "a note")
        add(bob, "a note of bob")

        async def gossip(request: GossipRequest) -> GossipReply | Failure:
            return await bob.core.exchanges.gossip(ann.peer_id, request, timeout_s=3.0)

        async def told() -> bool:
            ann.core._sketching._answered_at.clear()  # instead of half a round's wait
            reply = await gossip(AdvertisementsRequest(()))
            return isinstance(reply, AdvertisementsReply) and bool(reply.advertisements)

        assert await told()
        ann.pause("records are being moved")
        reply = await gossip(AdvertisementsRequest(()))
        assert isinstance(reply, Failure)
        assert (reply.code, reply.reason) == (
            "paused",
            "this node is paused: records are being moved",
        )
        assert isinstance(await gossip(Ping()), Ack)
        assert isinstance(await gossip(RosterRequest(0)), RosterReply)
        assert isinstance(await gossip(WithdrawalsRequest(())), WithdrawalsReply)
        assert bob.core.membership.state(ann.peer_id) is PeerState.ALIVE
        ann.resume()
        assert await told()


async def test_a_paused_node_asks_for_advertisements_without_saying_what_it_has(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"])
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(ann, "a note")
        handler, limits = bob.core.network._handlers[GOSSIP]  # type: ignore[attr-defined]
        directions: list[Vector | None] = []

        async def noting(peer: PeerId, payload: bytes) -> bytes:
            request = decode_gossip(payload)
            if isinstance(request, AdvertisementsRequest):
                directions.append(request.near)
            reply: bytes = await handler(peer, payload)
            return reply

        bob.core.network._handlers[GOSSIP] = (noting, limits)  # type: ignore[attr-defined]
        pull = PullAdvertisements(bob.peer_id, 3.0)
        await ann.core._gossip._pull(pull)
        assert directions
        assert directions[-1] is not None
        ann.pause()
        directions.clear()
        await ann.core._gossip._pull(pull)
        assert directions
        assert all(near is None for near in directions)


async def test_a_pause_outlives_a_restart(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        ann.pause("records are being moved")
    async with lab.node("ann") as again:
        assert again.core.service.pause is not None
        assert again.status()["pause"]["reason"] == "records are being moved"
        again.resume()
        assert again.core.service.pause is None
    assert not lab.homes["ann"].home.pause.exists()


async def test_a_damaged_pause_keeps_the_node_from_starting(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    lab.homes["ann"].home.pause.write_text("{")
    with pytest.raises(LocalError, match=r"pause.json is damaged"):
        async with lab.node("ann"):
            pass


async def test_the_reason_of_a_pause_is_one_short_line(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    async with lab.node("ann") as ann:
        for reason in ("two\nlines", "x" * 300):
            with pytest.raises(UsageError, match="one line of at most 256 bytes"):
                ann.pause(reason)
        assert ann.status()["pause"] is None


async def test_what_runs_out_is_warned_of_in_the_log_and_the_status(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path, "memory", ["ann"])
    caplog.set_level(logging.WARNING)
    async with lab.node("ann") as ann:
        assert ann.status()["expiring"] == []
    late = 61 * 86_400
    async with lab.node("ann", clock=lambda: time.time() + late) as ann:
        (expiry,) = ann.status()["expiring"]
        assert expiry["what"] == "roster"
        assert expiry["days_left"] in {28, 29}
        assert "zerorag consortium renew" in expiry["sentence"]
        await eventually(lambda: expiry["sentence"] in caplog.text)
        end = int(time.time() + late) + 3_600
        ann.watch_endings(lambda: [(Expiring.TOKEN, "intranet", end)])
        token, _ = ann.status()["expiring"]
        assert token["sentence"].startswith("the token of 'intranet' ends within a day: ")
        assert token["sentence"] in caplog.text
