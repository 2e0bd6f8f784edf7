"""A testnet as people use it: asked all the time, looked at, and broken by hand."""

from dataclasses import replace

import pytest

from tests.testnet.nets import eventually, workload
from zerorag_p2p.errors import UsageError
from zerorag_p2p.node.happenings import Happening
from zerorag_p2p.testnet.background import TestnetStarter
from zerorag_p2p.testnet.live import LiveTestnet
from zerorag_p2p.testnet.served_node import ServedNode
from zerorag_p2p.testnet.testnet import Testnet
from zerorag_p2p.workloads.workload import Events, QueryEvent

THREE = {
    "Clinic": ["Gout and diet."],
    "Hospital": ["Metformin and the kidneys."],
    "Hospice": ["Morphine at night."],
}


async def test_only_questions_that_another_node_can_answer_count_as_found_or_not(
    autojump_clock: object,
) -> None:
    made = workload()
    holders = [
        [peer for peer, held in enumerate(made.holdings) if document in held]
        for document in range(len(made.documents))
    ]
    alone = next(document for document, peers in enumerate(holders) if len(peers) == 1)
    (answerable,) = list(made.events)[:1]
    unanswerable = QueryEvent(holders[alone][0], answerable.query, alone)
    events = Events.of([answerable, unanswerable])
    async with Testnet(replace(made, events=events)).running() as testnet:
        live = LiveTestnet(testnet, None)
        for event in events:
            await live._ask_event(event)
        snapshot = live.snapshot()
    assert (snapshot["asked"], snapshot["window"], snapshot["hit_rate"]) == (2, 1, 1.0)


async def test_why_there_is_no_question_is_told(autojump_clock: object) -> None:
    async with Testnet(workload()).running() as testnet:
        live = LiveTestnet(testnet, None)
        await testnet.kill(*testnet.nodes)
        with pytest.raises(UsageError, match="restart one"):
            await live.query(None, None)


async def test_who_watches_a_node_sees_it_die_and_live_again(autojump_clock: object) -> None:
    seen: list[Happening] = []
    async with Testnet(workload()).running() as testnet:
        live = LiveTestnet(testnet, None)
        served = ServedNode(live, testnet["p1"])
        await testnet.kill("p1")
        with served.watching(seen.append):
            await testnet.restart("p1")
            await eventually(lambda: testnet["p1"].core is not None)
            await live.query("p1", testnet.workload.queries[0])
            assert seen
        count = len(seen)
        await live.query("p1", testnet.workload.queries[0])
        assert len(seen) == count


def test_a_newcomer_has_a_home_like_the_others(zerorag_testnet: TestnetStarter) -> None:
    testnet = zerorag_testnet(THREE)
    with testnet.control() as control:
        assert control.join(1)["nodes"] == ["p3"]
        with control.node("p3") as newcomer:
            assert newcomer.status()["organisation"] == "Hospital 3"
            assert len(newcomer.documents()) == 1


def test_what_was_done_is_told_and_what_cannot_be_done_is_refused(
    zerorag_testnet: TestnetStarter,
) -> None:
    testnet = zerorag_testnet(THREE)
    with testnet.control() as control:
        assert control.partition([["p0", "Clinic"]])["groups"] == [["p0"], ["p1", "p2"]]
        with pytest.raises(UsageError, match="p1 cannot be in two groups"):
            control.partition([["p1"], ["Hospital"]])
        with pytest.raises(UsageError, match="second group"):
            control.partition([["p0", "p1", "p2"]])
        control.links(jitter_ms=3.0, bandwidth=1e6)
        control.misbehave("tarpit", "Clinic")
        snapshot = control.status()
        assert (snapshot["jitter_ms"], snapshot["bandwidth"]) == (3.0, 1e6)
        assert [row["misbehaving"] for row in snapshot["rows"]] == ["tarpit", "", ""]
        with pytest.raises(UsageError, match="p1 is running; this needs a stopped node"):
            control.restart("p1")
