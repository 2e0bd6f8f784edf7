"""A revocation reaches a hundred nodes by gossip and ends sessions that are open."""

from __future__ import annotations

import pytest
import trio

from tests.testnet.nets import with_network, workload
from zerorag_p2p.node.contacts import Outcome
from zerorag_p2p.testnet.testnet import Testnet
from zerorag_p2p.testnet.virtual_time import run_in_virtual_time

NODES = 100
ROUNDS = 10


pytestmark = pytest.mark.slow


async def revoking() -> tuple[int, list[int]]:
    """Nodes with a session with the revoked one: before, and after each round of gossip."""
    # No session ends by itself.
    settings = with_network(stream_idle_s=3_600.0, connection_idle_s=3_600.0)
    async with Testnet(workload(NODES), **settings).running() as testnet:
        revoked, told = testnet["p7"], testnet["p0"]
        assert revoked.core is not None
        await trio.sleep(10)
        others = [node for node in testnet.nodes.values() if node is not revoked]
        for node in others:
            await revoked.core.sessions.ensure(node.peer_id, timeout_s=5.0)

        def connected() -> int:
            return sum(
                node.core is not None
                and (
                    revoked.peer_id in node.core.network.connected()
                    or node.core.sessions.get(revoked.peer_id) is not None
                )
                for node in others
            )

        before = connected()
        await testnet.revoke(revoked.name, "its key was stolen", told=told.name)
        after = []
        for _ in range(ROUNDS):
            await trio.sleep(testnet.config.membership.exchange_interval_s)
            after.append(connected())
            if not after[-1]:
                break
        for node in others:
            assert node.core is not None
            assert node.core.directory.roster.former_member(revoked.peer_id)
            assert revoked.peer_id not in node.core.peer.neighbors
            assert revoked.peer_id not in node.core.peer.advertisements
            assert revoked.peer_id not in {peer for peer, _ in node.core.membership.view()}
        query = testnet.workload.queries[0]
        report = await testnet.query(revoked.name, query, budget=20)
        assert report.contacts
        assert not [item for item in report.contacts if item.outcome == Outcome.ANSWERED]
        return before, after


def test_all_nodes_drop_a_revoked_peer_within_ten_rounds() -> None:
    before, after = run_in_virtual_time(revoking)
    assert before == NODES - 1
    assert after[-1] == 0, after
