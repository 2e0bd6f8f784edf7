"""A withdrawal reaches every copy in a testnet of thirty nodes."""

from __future__ import annotations

import pytest
import trio

from tests.testnet.nets import eventually
from zerorag_p2p.model import ContentHash, SharingTerms
from zerorag_p2p.node.reports import DocumentStatus
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.testnet.testnet import CONFIG, Testnet, TestnetNode
from zerorag_p2p.workloads.copies import keep_copy
from zerorag_p2p.workloads.synthetic import synthetic_workload

PEERS = 30
ROUND_S = CONFIG.membership.exchange_interval_s

#: Rounds of gossip within which a withdrawal has reached everybody. A rumour reaches a multiple of
#: the peers with every round, so half of them are needed as a rule (docs/custody.md).
ROUNDS = 10


def open_testnet() -> Testnet:
    workload = synthetic_workload(peers=PEERS, seed=1, draws=6, topics=6)
    return Testnet(workload, sharing=Sharing(terms=SharingTerms(copy=True, reshare=True)))


def spread(testnet: Testnet) -> tuple[ContentHash, list[TestnetNode]]:
    """Let everybody keep a document of p0, each from the one before; who has a copy."""
    owner = testnet["p0"]
    number = owner.holdings.numbers()[0]
    content_hash = testnet.table.hashes[number]
    (held,) = owner.holdings.get(content_hash)
    links = held.links
    holders = [node for node in testnet.nodes.values() if number not in node.holdings]
    for node in holders:
        if len(links) == 8:
            links = held.links
        assert keep_copy(node.holdings, node.identity, content_hash, links, testnet.now())
        (copy,) = node.holdings.get(content_hash)
        links = copy.links
    assert len(holders) > PEERS / 2
    return content_hash, holders


def rumours(node: TestnetNode) -> int:
    """How many withdrawals a node passes on unasked."""
    assert node.core is not None
    return len(node.core.membership._news._withdrawals)


@pytest.mark.slow
async def test_every_copy_is_gone_within_ten_rounds(autojump_clock: object) -> None:
    async with open_testnet().running() as testnet:
        await trio.sleep(4 * ROUND_S)
        content_hash, holders = spread(testnet)
        away, late = holders[3].name, holders[5].name
        await testnet.kill(away, late)
        testnet.withdraw("p0", content_hash)
        present = [node for node in holders if node.name not in {away, late}]
        await eventually(
            lambda: all(not node.holdings.get(content_hash) for node in present),
            within_s=ROUNDS * ROUND_S,
        )
        assert testnet[away].holdings.get(content_hash)

        # Who returns at once hears the rumour; who returns when it has died away asks.
        await testnet.restart(away)
        await eventually(lambda: not testnet[away].holdings.get(content_hash), within_s=2 * ROUND_S)
        await eventually(lambda: not any(map(rumours, testnet.running_nodes())))
        assert all(len(node.withdrawals) == 1 for node in testnet.running_nodes())
        await testnet.restart(late)
        await eventually(lambda: not testnet[late].holdings.get(content_hash), within_s=2 * ROUND_S)


async def test_what_was_withdrawn_is_not_found_any_more(autojump_clock: object) -> None:
    async with open_testnet().running() as testnet:
        await trio.sleep(4 * ROUND_S)
        content_hash, holders = spread(testnet)
        number = testnet.table.number(content_hash)
        assert number is not None
        asker = holders[-1].name
        embedding = testnet.table.vectors[number]
        report = await testnet.query(asker, "the document itself", embedding, k=1)
        assert [item.content_hash for item in report.documents] == [content_hash]
        assert report.documents[0].status is DocumentStatus.VERIFIED
        testnet.withdraw("p0", content_hash)
        await trio.sleep(ROUNDS * ROUND_S)
        report = await testnet.query(asker, "the document itself", embedding, k=5)
        owner = testnet["p0"].peer_id
        assert not [
            item
            for item in report.documents
            if (item.content_hash, item.owner.peer) == (content_hash, owner)
        ]
        assert not report.rejected


async def test_half_of_a_network_that_was_cut_off_catches_up(autojump_clock: object) -> None:
    async with open_testnet().running() as testnet:
        await trio.sleep(4 * ROUND_S)
        content_hash, holders = spread(testnet)
        others = [node.name for node in holders[::2]]
        testnet.partition([others])
        testnet.withdraw("p0", content_hash)
        near = [node for node in holders if node.name not in others]
        await eventually(
            lambda: all(not node.holdings.get(content_hash) for node in near),
            within_s=ROUNDS * ROUND_S,
        )
        assert all(testnet[name].holdings.get(content_hash) for name in others)
        testnet.heal()
        await eventually(
            lambda: all(not testnet[name].holdings.get(content_hash) for name in others),
            within_s=3 * ROUNDS * ROUND_S,
        )
