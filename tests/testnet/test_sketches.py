"""Advertisements of peers that are no neighbours, in a testnet of twelve nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import trio

from tests.testnet.nets import eventually
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.core import NodeCore
from zerorag_p2p.node.network import Handler
from zerorag_p2p.testnet.testnet import CONFIG, Testnet
from zerorag_p2p.wire.gossip import (
    AdvertisementsReply,
    AdvertisementsRequest,
    decode_gossip,
    decode_gossip_reply,
    encode_gossip_reply,
)
from zerorag_p2p.wire.protocols import GOSSIP
from zerorag_p2p.workloads.synthetic import synthetic_workload

PEERS = 12
ROUND_S = CONFIG.membership.exchange_interval_s


def sketching(limit: int, **membership: Any) -> Testnet:
    """A testnet whose nodes have few neighbours, and sketches of `limit` peers."""
    config = replace(
        CONFIG,
        routing=replace(CONFIG.routing, sketch_limit=limit, initial_neighbors=2, neighbor_limit=2),
        membership=replace(CONFIG.membership, **membership),
    )
    workload = synthetic_workload(peers=PEERS, seed=1, draws=6, topics=6)
    return Testnet(workload, config=config)


def cores(testnet: Testnet) -> list[NodeCore]:
    return [node.core for node in testnet.running_nodes() if node.core is not None]


def everybody_knows_everybody(testnet: Testnet) -> bool:
    peers = {core.peer_id for core in cores(testnet)}
    return all(set(core.peer.sketches) == peers - {core.peer_id} for core in cores(testnet))


async def test_everybody_soon_holds_what_everybody_advertises(autojump_clock: object) -> None:
    async with sketching(20).running() as testnet:
        await eventually(lambda: everybody_knows_everybody(testnet), within_s=12 * ROUND_S)
        for core in cores(testnet):
            assert len(core.peer.neighbors) <= 2
            advertised = {held.owner for held in core.peer.advertisements if held.documents}
            assert len(advertised) == PEERS - 1
            status = core.status()["sketches"]
            assert status["peers"] == PEERS - 1
            assert status["bytes"] > 0
            assert all(row["sketch"] for row in core.peers())


async def test_half_of_few_places_hold_the_nearest(autojump_clock: object) -> None:
    async with sketching(4).running() as testnet:
        await trio.sleep(20 * ROUND_S)
        means = {
            core.peer_id: testnet.workload.vectors[list(held)].mean(axis=0)
            for core, held in zip(cores(testnet), testnet.workload.holdings, strict=True)
        }
        right = 0
        for core in cores(testnet):
            own = means[core.peer_id]
            others = sorted(
                (mean @ own / np.linalg.norm(mean), peer)
                for peer, mean in means.items()
                if peer != core.peer_id
            )
            assert len(core.peer.sketches) == 4
            right += len({peer for _, peer in others[-2:]} & set(core.peer.sketches))
        assert right >= 0.8 * 2 * PEERS


async def test_without_sketches_nothing_is_kept_nor_asked_for(autojump_clock: object) -> None:
    async with sketching(0).running() as testnet:
        await trio.sleep(8 * ROUND_S)
        for core in cores(testnet):
            assert not core.peer.sketches
            neighbors = {neighbor.peer for neighbor in core.peer.neighbors}
            assert {held.owner for held in core.peer.advertisements} <= neighbors
            assert core.service.refused == 0


async def test_whoever_dies_goes_and_whoever_joins_comes(autojump_clock: object) -> None:
    async with sketching(20).running() as testnet:
        await eventually(lambda: everybody_knows_everybody(testnet))
        await trio.sleep(12 * ROUND_S)  # pauses grow
        await testnet.kill("p3")
        dead = testnet["p3"].peer_id
        await eventually(lambda: not any(dead in core.peer.sketches for core in cores(testnet)))
        await testnet.join([[0, 1, 2]])
        await eventually(lambda: everybody_knows_everybody(testnet), within_s=100 * ROUND_S)


async def test_whoever_is_revoked_goes_at_once(autojump_clock: object) -> None:
    async with sketching(20).running() as testnet:
        await eventually(lambda: everybody_knows_everybody(testnet))
        core = cores(testnet)[0]
        revoked = testnet["p5"].peer_id
        roster = core.directory.roster
        members = tuple(member for member in roster.members if member.peer != revoked)
        await core.replace_roster(replace(roster, members=members), b"")
        assert revoked not in core.peer.sketches
        assert revoked not in core.peer.advertisements


async def test_changed_documents_reach_those_who_are_no_neighbours(autojump_clock: object) -> None:
    async with sketching(20, sketch_pause_s=4 * ROUND_S).running() as testnet:
        await eventually(lambda: everybody_knows_everybody(testnet))
        changed = testnet["p2"]
        changed.holdings.own([58, 59], "documents")
        count = len(changed.holdings)

        def known() -> bool:
            held = [core.peer.advertisements.get(changed.peer_id) for core in cores(testnet)]
            return sum(item is not None and len(item.documents) == count for item in held) == 11

        assert not known()
        await eventually(known, within_s=20 * ROUND_S)


async def test_sketches_survive_a_restart_until_they_expire(autojump_clock: object) -> None:
    async with sketching(20).running() as testnet:
        await eventually(lambda: everybody_knows_everybody(testnet))
        await testnet.kill("p1", "p2")
        testnet["p2"].clock_skew_s = CONFIG.routing.advertisement_lifetime_s + 60
        await testnet.restart("p1", "p2")
        restarted, late = testnet["p1"].core, testnet["p2"].core
        assert restarted is not None
        assert len(restarted.peer.sketches) == PEERS - 1
        assert late is not None
        assert not late.peer.sketches


async def test_with_room_for_few_in_an_answer_everybody_still_gets_everything(
    autojump_clock: object,
) -> None:
    async with sketching(20, sketch_exchange_bytes=2_000).running() as testnet:
        await trio.sleep(2 * ROUND_S)
        assert not everybody_knows_everybody(testnet)
        await eventually(lambda: everybody_knows_everybody(testnet), within_s=40 * ROUND_S)


async def test_whoever_passes_on_forgeries_is_named_and_nobody_believes_them(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def forge(protocol: str, peer: PeerId, payload: bytes, honest: Handler) -> bytes:
        answer = await honest(peer, payload)
        if protocol != GOSSIP or not isinstance(decode_gossip(payload), AdvertisementsRequest):
            return answer
        reply = decode_gossip_reply(answer, asked=AdvertisementsRequest(()))
        assert isinstance(reply, AdvertisementsReply)
        forged = [replace(item, sealed=item.sealed[:-1] + b"?") for item in reply.advertisements]
        return encode_gossip_reply(AdvertisementsReply(tuple(forged)))

    async with sketching(20).running() as testnet:
        liar = testnet["p4"]
        testnet.misbehave("p4", forge)
        await eventually(lambda: everybody_knows_everybody_but(testnet, liar.peer_id))
        forgeries = [line for line in caplog.messages if "bad advertisement" in line]
        assert forgeries
        assert all(line.startswith(liar.peer_id) for line in forgeries)


def everybody_knows_everybody_but(testnet: Testnet, liar: PeerId) -> bool:
    peers = {core.peer_id for core in cores(testnet)} - {liar}
    return all(
        set(core.peer.sketches) >= peers - {core.peer_id}
        for core in cores(testnet)
        if core.peer_id != liar
    )
