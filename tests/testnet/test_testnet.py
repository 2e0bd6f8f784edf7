"""Whole nodes in one process: what can be done to them, and what they make of it."""

import logging
from collections import Counter

import pytest
import trio

from tests.testnet.nets import PEERS, asked, eventually, hit, small, with_network
from zerorag_p2p.errors import NetworkError, UsageError
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.network import Handler
from zerorag_p2p.testnet.faults import Conditions, black_hole, tarpit
from zerorag_p2p.testnet.speaker import note_speaker
from zerorag_p2p.testnet.testnet import NodeState, Testnet
from zerorag_p2p.testnet.virtual_time import run_in_virtual_time
from zerorag_p2p.wire.protocols import QUERY

EVERYONE = [f"p{number}" for number in range(PEERS)]


async def test_every_question_finds_its_document(autojump_clock: object) -> None:
    async with small().running() as testnet:
        for event in testnet.workload.events[:10]:
            # They have learnt nothing yet, so everybody has to be asked.
            report = await asked(testnet, event, stopping="budget")
            assert hit(testnet, event, report)
            assert {contact.outcome for contact in report.contacts} == {"answered"}


async def test_a_killed_node_is_unreachable_and_comes_back_with_its_state(
    autojump_clock: object,
) -> None:
    async with small().running() as testnet:
        event = testnet.workload.events[0]
        await asked(testnet, event)
        await trio.sleep(5)
        victim = next(name for name in EVERYONE if name != f"p{event.peer}")
        core = testnet[victim].core
        assert core is not None
        neighbors = {neighbor.peer for neighbor in core.peer.neighbors}
        await testnet.kill(victim)
        assert testnet.state(testnet[victim]) is NodeState.STOPPED
        report = await asked(testnet, event)
        outcomes = {contact.peer: contact.outcome for contact in report.contacts}
        assert outcomes[testnet[victim].peer_id] == "unreachable"
        with pytest.raises(UsageError, match="does not run"):
            await testnet.query(victim, testnet.workload.queries[0])
        await testnet.restart(victim)
        core = testnet[victim].core
        assert core is not None
        assert neighbors <= {neighbor.peer for neighbor in core.peer.neighbors}
        report = await asked(testnet, event)
        assert {contact.outcome for contact in report.contacts} == {"answered"}


async def test_the_dead_are_forgotten(autojump_clock: object) -> None:
    async with small().running() as testnet:
        await trio.sleep(5)
        dead = {testnet[name].peer_id for name in ("p1", "p2", "p3")}
        await testnet.kill("p1", "p2", "p3")

        def known() -> set[PeerId]:
            return {
                neighbor.peer
                for node in testnet.running_nodes()
                if node.core is not None
                for neighbor in node.core.peer.neighbors
            }

        await eventually(lambda: not known() & dead)


async def test_the_log_tells_which_node_speaks(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zerorag")
    with caplog.filtering(note_speaker):
        async with small().running() as testnet:
            await trio.sleep(5)
            event = testnet.workload.events[0]
            victim, *_ = (name for name in EVERYONE if name != f"p{event.peer}")
            await testnet.kill(victim)
            await asked(testnet, event)
            await trio.sleep(60)
            gone = testnet[victim].peer_id
        speakers = {vars(record)["speaker"] for record in caplog.records}
        assert speakers <= set(EVERYONE) - {victim}
        mourners = [record for record in caplog.records if gone in record.getMessage()]
        assert {vars(record)["speaker"] for record in mourners} == set(EVERYONE) - {victim}


async def test_a_query_ends_with_its_node(autojump_clock: object) -> None:
    async def ask(testnet: Testnet) -> None:
        with pytest.raises(NetworkError, match="killed"):
            await testnet.query("p0", testnet.workload.queries[0])

    conditions = Conditions(latency_s=0.2)
    async with small(conditions=conditions).running() as testnet, trio.open_nursery() as nursery:
        nursery.start_soon(ask, testnet)
        await trio.sleep(1)
        await testnet.kill("p0")


async def test_a_frozen_node_costs_a_timeout_and_thaws(autojump_clock: object) -> None:
    async with small().running() as testnet:
        event = testnet.workload.events[0]
        await trio.sleep(3)
        victim = next(name for name in EVERYONE if name != f"p{event.peer}")
        testnet.freeze(victim)
        report = await asked(testnet, event)
        outcomes = {contact.peer: contact.outcome for contact in report.contacts}
        assert outcomes[testnet[victim].peer_id] in {"timed out", "unreachable"}
        testnet.thaw(victim)
        await trio.sleep(5)
        report = await asked(testnet, event)
        assert {contact.outcome for contact in report.contacts} == {"answered"}


async def test_halves_answer_for_themselves_until_they_heal(autojump_clock: object) -> None:
    async with small().running() as testnet:
        await trio.sleep(3)
        groups = testnet.split(2)
        half = next(group for group in groups if "p0" in group)
        report = await testnet.query("p0", testnet.workload.queries[0], stopping="budget")
        answered = {
            node.name
            for contact in report.contacts
            if contact.outcome == "answered" and (node := testnet.by_peer(contact.peer))
        }
        assert answered == set(half) - {"p0"}
        testnet.heal()
        await trio.sleep(60)
        report = await testnet.query("p0", testnet.workload.queries[0], stopping="budget")
        assert Counter(contact.outcome for contact in report.contacts) == {"answered": PEERS - 1}


async def test_a_newcomer_asks_and_answers(autojump_clock: object) -> None:
    async with small().running() as testnet:
        event = testnet.workload.events[0]
        holder = next(
            peer
            for peer, held in enumerate(testnet.workload.holdings)
            if peer != event.peer and event.document in held
        )
        (new,) = await testnet.join([testnet.workload.holdings[holder]])
        await testnet.kill(*(name for name in EVERYONE if name != f"p{event.peer}"))
        report = await asked(testnet, event)
        assert hit(testnet, event, report)
        assert new.name == f"p{PEERS}"
        await testnet.restart(*EVERYONE)
        report = await testnet.query(new.name, testnet.workload.queries[event.query])
        assert any(contact.outcome == "answered" for contact in report.contacts)


async def test_a_clock_ten_minutes_off_says_so(autojump_clock: object) -> None:
    async with small().running() as testnet:
        await testnet.kill("p1")
        testnet["p1"].clock_skew_s = 600.0
        await testnet.restart("p1")
        report = await testnet.query("p1", testnet.workload.queries[0])
        assert report.contacts
        assert all("clock skew 600 s" in contact.reason for contact in report.contacts)


async def test_a_tarpit_costs_its_timeout_and_no_more(autojump_clock: object) -> None:
    async with small(**with_network(request_timeout_s=1.0)).running() as testnet:
        event = testnet.workload.events[0]
        await trio.sleep(3)
        victim = next(name for name in EVERYONE if name != f"p{event.peer}")
        testnet.misbehave(victim, tarpit(3_600))
        report = await asked(testnet, event)
        contact = next(item for item in report.contacts if item.peer == testnet[victim].peer_id)
        assert contact.outcome == "timed out"
        assert contact.milliseconds == pytest.approx(1_000, abs=50)
        testnet.misbehave(victim, None)
        await trio.sleep(1)
        report = await asked(testnet, event)
        assert {contact.outcome for contact in report.contacts} == {"answered"}


async def test_a_black_hole_answers_with_nothing(autojump_clock: object) -> None:
    async with small().running() as testnet:
        for name in EVERYONE[1:]:
            testnet.misbehave(name, black_hole())
        report = await testnet.query("p0", testnet.workload.queries[0])
        assert not report.documents
        assert {contact.outcome for contact in report.contacts} == {"answered"}


async def test_a_liar_breaks_the_protocol_and_nothing_else(autojump_clock: object) -> None:
    async def lie(protocol: str, requester: PeerId, payload: bytes, honest: Handler) -> bytes:
        reply = await honest(requester, payload)
        return reply[:-1] if protocol == QUERY else reply

    async with small().running() as testnet:
        testnet.misbehave("p1", lie)
        report = await testnet.query("p0", testnet.workload.queries[0])
        outcomes = {contact.peer: contact.outcome for contact in report.contacts}
        assert outcomes.pop(testnet["p1"].peer_id) == "broke the protocol"
        assert set(outcomes.values()) == {"answered"}


async def test_the_snapshot_tells_what_was_done(autojump_clock: object) -> None:
    async with small().running() as testnet:
        await testnet.kill("p1")
        testnet.freeze("p2")
        testnet.split(3)
        testnet.set_conditions(Conditions(latency_s=0.01, loss=0.1))
        testnet["p3"].clock_skew_s = -5.0
        snapshot = testnet.snapshot()
    assert (snapshot["nodes"], snapshot["running"]) == (PEERS, PEERS - 2)
    assert (snapshot["frozen"], snapshot["stopped"], snapshot["partitioned"]) == (1, 1, True)
    assert (snapshot["latency_ms"], snapshot["loss"]) == (10.0, 0.1)
    rows = {row["name"]: row for row in snapshot["rows"]}
    assert [rows[name]["state"] for name in ("p0", "p1", "p2")] == ["running", "stopped", "frozen"]
    assert rows["p3"]["clock_skew_s"] == -5.0
    assert rows["p0"]["documents"] == len(testnet.workload.holdings[0])


async def test_mistakes_are_named(autojump_clock: object) -> None:
    async with small().running() as testnet:
        with pytest.raises(UsageError, match="no node 'p99'"):
            await testnet.kill("p99")
        with pytest.raises(UsageError, match="questions of the workload"):
            await testnet.query("p0", "something else")
        with pytest.raises(UsageError, match="2 to 8 groups"):
            testnet.split(1)
        with pytest.raises(UsageError, match="two groups"):
            testnet.partition([["p0"], ["p0"]])
    with pytest.raises(UsageError, match="unknown"):
        small(network="carrier pigeons")


async def test_what_fails_within_is_raised_as_it_is(autojump_clock: object) -> None:
    with pytest.raises(UsageError, match="no node 'p99'"):
        async with small().running() as testnet:
            await testnet.kill("p99")


# Clocks and networks.


async def test_libp2p_over_loopback() -> None:
    # Real handshakes on a busy machine: nobody is given up early, and everybody is asked.
    deadlines = with_network(dial_timeout_s=15.0, request_timeout_s=15.0, query_timeout_s=40.0)
    testnet = small(network="libp2p", **deadlines)
    with trio.fail_after(90):
        async with testnet.running():
            event = testnet.workload.events[0]
            assert hit(testnet, event, await asked(testnet, event, stopping="budget"))
            with pytest.raises(UsageError, match="memory network"):
                testnet.freeze("p1")
            victim = next(name for name in EVERYONE if name != f"p{event.peer}")
            await testnet.kill(victim)
            await testnet.restart(victim)
            assert testnet.snapshot()["running"] == PEERS


def test_virtual_time_needs_the_memory_network() -> None:
    async def run() -> None:
        async with small(network="libp2p").running():
            pass

    with pytest.raises(UsageError, match="virtual time needs the memory network"):
        run_in_virtual_time(run)


def test_virtual_time_allows_no_thread() -> None:
    async def run() -> None:
        async with small().running():
            await trio.to_thread.run_sync(lambda: None)

    with pytest.raises(UsageError, match="a thread was started in virtual time"):
        run_in_virtual_time(run)


def test_minutes_of_virtual_time_take_seconds() -> None:
    async def run() -> float:
        testnet = Testnet(small().workload, **with_network(maintenance_interval_s=600.0))
        async with testnet.running():
            before = testnet.now()
            await trio.sleep(300)
            return testnet.now() - before

    assert run_in_virtual_time(run) == pytest.approx(300)
