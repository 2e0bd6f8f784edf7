"""Gossip between whole nodes, over both networks."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.lab import NETWORKS, Lab, eventually
from zerorag_p2p.config import NodeConfig
from zerorag_p2p.control import consortium
from zerorag_p2p.identity.roster import open_roster
from zerorag_p2p.membership.detector import PeerState
from zerorag_p2p.node.files import load_identity
from zerorag_p2p.node.runtime import Node

NAMES = ["ann", "bob", "cid", "dan"]


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def knowing_only(lab: Lab, name: str, *others: str) -> NodeConfig:
    """A configuration that names the addresses of some peers only."""
    config = lab.config(name)
    if lab.network == "memory":
        bootstrap = [
            f"/memory/{number}/p2p/{member.peer_id}"
            for number, member in enumerate(lab.homes, start=1)
            if member.name in others
        ]
    else:
        bootstrap = [f"{lab.homes[other].address}/p2p/{lab.peer(other)}" for other in others]
    return replace(config, network=replace(config.network, bootstrap=tuple(bootstrap)))


def without_addresses(lab: Lab) -> None:
    """Let the roster name no address, so that only the configuration and gossip do."""
    home = lab.homes[lab.names[0]].home
    authority = load_identity(home.authority_key)
    roster = open_roster(consortium.read(home))
    members = tuple(replace(member, addresses=()) for member in roster.members)
    from zerorag_p2p.identity.roster import sign_roster

    signed = sign_roster(replace(roster, members=members, version=roster.version + 1), authority)
    for member in lab.homes:
        consortium.install(member.home, signed)


def view(node: Node) -> set[str]:
    return {peer for peer, _ in node.core.membership.view()}


async def test_one_live_address_is_enough_to_join(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, NAMES)
    without_addresses(lab)
    async with AsyncExitStack() as stack:
        first = lab.names[0]
        nodes = {
            name: await stack.enter_async_context(
                lab.node(name, config=knowing_only(lab, name, *({first} - {name})))
            )
            for name in lab.names
        }
        for name, node in nodes.items():
            others = {lab.peer(other) for other in lab.names if other != name}
            await eventually(lambda node=node, others=others: view(node) == others)
        await eventually(lambda: len(nodes["dan"].neighbors()) == 3)


async def test_a_saved_view_replaces_bootstrap_peers_that_are_gone(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, NAMES)
    without_addresses(lab)
    async with AsyncExitStack() as stack:
        for name in ("ann", "bob", "cid"):
            await stack.enter_async_context(lab.node(name, config=knowing_only(lab, name, "ann")))
        async with lab.node("dan", config=knowing_only(lab, "dan", "ann")) as dan:
            await eventually(lambda: len(view(dan)) == 3)
        async with lab.node("dan", config=knowing_only(lab, "dan")) as again:
            await eventually(
                lambda: any(row["connected"] for row in again.peers() if row["peer"] in view(again))
            )
            assert len(view(again)) >= 2


async def test_a_peer_that_died_is_noticed_and_forgotten(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, NAMES, routing="paper")
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(lab.node(name)) for name in NAMES[:3]]
        async with lab.node("dan") as dan:
            await eventually(lambda: all(dan.peer_id in view(node) for node in nodes))
            await dan.query("what the others remember")
            assert all(node.status()["remembered_queries"] == 1 for node in nodes)
        for node in nodes:
            await eventually(
                lambda node=node: node.core.membership.state(lab.peer("dan")) is PeerState.DEAD
            )
            await eventually(lambda node=node: node.status()["remembered_queries"] == 0)
            assert lab.peer("dan") not in view(node)
            assert lab.peer("dan") not in {row["peer"] for row in node.neighbors()}


async def test_a_newer_roster_travels_evicts_and_is_kept(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, NAMES)
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(lab.node(name)) for name in NAMES]
        dan = lab.peer("dan")
        await eventually(lambda: all(dan in view(node) for node in nodes[:3]))
        roster = consortium.revoke(lab.homes["ann"].home, dan, "left")
        await nodes[0].import_roster(roster)
        for name, node in zip(NAMES[:3], nodes[:3], strict=True):
            await eventually(
                lambda node=node: node.core.directory.roster.version == open_roster(roster).version
            )
            await eventually(
                lambda node=node: (
                    dan not in {row["peer"] for row in node.peers() if row["connected"]}
                )
            )
            assert dan not in view(node)
            assert lab.homes[name].home.roster.read_bytes() == roster
