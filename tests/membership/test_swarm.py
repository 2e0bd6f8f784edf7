"""Many reactors on a simulated network (benchmarks.membership)."""

from __future__ import annotations

import random

import pytest

from benchmarks.membership import (
    Swarm,
    advertising,
    joined,
    names,
    nearest_held,
    path_lengths,
    random_links,
    shape,
    sign,
    wrongly_dead,
)
from zerorag_p2p.membership.events import NoteDied, RequestReceived, TimerFired
from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.gossip import Entry, Exchange


@pytest.mark.slow
def test_a_thousand_join_through_one_and_clean_up_after_half_of_them() -> None:
    swarm = joined(1_000, rounds=20)
    formed = shape(swarm.links())
    ideal = shape(random_links(1_000, swarm.settings.view_size, seed=1))
    assert formed["strongly_connected"]
    for measure in ("in_degree_deviation", "path_length"):
        assert formed[measure] == pytest.approx(ideal[measure], rel=0.1)

    swarm.crash(random.Random(1).sample(swarm.live(), 500))
    swarm.run(25)  # docs/membership.md
    assert swarm.dead_entries() == 0
    assert path_lengths(swarm.links())[1]


@pytest.mark.slow
def test_a_partition_of_thirty_rounds_heals() -> None:
    swarm = joined(80, rounds=20)
    left = names(80)[:40]
    swarm.split(left)
    swarm.run(30)
    apart = swarm.links()
    assert not apart[:40, 40:].any()
    assert not apart[40:, :40].any()
    assert wrongly_dead(swarm) > 0.3

    swarm.split(())
    swarm.run(30)
    together = swarm.links()
    across = (together[:40, 40:].sum() + together[40:, :40].sum()) / together.sum()
    assert 0.4 < across < 0.6
    assert wrongly_dead(swarm) < 0.001


@pytest.mark.slow
def test_five_percent_loss_removes_nobody() -> None:
    swarm = joined(50, loss=0.05, rounds=20)
    swarm.run(100)
    assert any(not item.dead for item in swarm.verdicts), "nothing was tested"
    assert not any(item.dead for item in swarm.verdicts)


def test_a_peer_that_is_down_is_noticed_by_everybody() -> None:
    swarm = joined(30, rounds=15)
    victim = swarm.live()[-1]
    swarm.crash([victim])
    swarm.run(20)
    observers = {item.observer for item in swarm.verdicts if item.peer == victim and item.dead}
    assert observers == set(swarm.live())


def test_a_peer_that_comes_back_is_taken_back() -> None:
    swarm = joined(30, rounds=15)
    victim = swarm.live()[-1]
    swarm.crash([victim])
    swarm.run(20)
    swarm.add(victim, swarm.live()[:1])
    swarm.run(10)
    assert wrongly_dead(swarm) == 0
    assert sum(victim == entry for peer in swarm.live() for entry, _ in swarm.peers[peer].view())


def test_a_newcomer_gets_past_thirty_introductions_that_never_answer() -> None:
    swarm = joined(40, rounds=10)
    silent = [PeerId(f"silent-{number}") for number in range(30)]
    swarm.members.update(silent)
    swarm.down.update(silent)
    newcomer = PeerId("newcomer")
    swarm.add(newcomer, [*silent, swarm.live()[0]])
    swarm.run(10)
    view = {peer for peer, _ in swarm.peers[newcomer].view()}
    assert len(view) == swarm.settings.view_size
    assert not view & set(silent)


def test_a_view_full_of_peers_that_never_answer_is_left_behind() -> None:
    swarm = joined(40, rounds=10)
    silent = [PeerId(f"silent-{number}") for number in range(30)]
    swarm.members.update(silent)
    swarm.down.update(silent)
    newcomer = PeerId("newcomer")
    swarm.add(newcomer, swarm.live()[:1])
    swarm.run(1)
    liar = swarm.live()[1]
    for _ in range(5):
        entries = tuple(Entry(sign(peer, 1), 0) for peer in silent)
        swarm.peers[newcomer].handle(RequestReceived(liar, Exchange(entries)), swarm.now)
        swarm.run(1)
    swarm.run(20)
    view = {peer for peer, _ in swarm.peers[newcomer].view()}
    assert len(view - set(silent)) > len(view) / 2
    links = {peer for peer in swarm.live() if newcomer in dict(swarm.peers[peer].view())}
    assert links, "nobody knows the newcomer"


def test_a_peer_whose_bootstrap_is_gone_rejoins_from_its_saved_view() -> None:
    swarm = joined(40, rounds=10)
    bootstrap, restarted = swarm.live()[0], swarm.live()[-1]
    saved = swarm.peers[restarted].snapshot()
    swarm.crash([bootstrap, restarted])
    swarm.run(20)
    swarm.add(restarted, [bootstrap], saved)
    swarm.run(5)
    assert len(swarm.peers[restarted].view()) > 10
    assert path_lengths(swarm.links())[1]


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[object]:
        swarm = joined(30, loss=0.1, seed=seed, rounds=8)
        return [swarm.messages, *(swarm.peers[peer].view() for peer in swarm.live())]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_frozen_peer_forgives_when_it_wakes() -> None:
    swarm = joined(30, loss=0.0, rounds=10)
    frozen = swarm.live()[3]
    swarm.split([frozen])
    swarm.run(3)  # long enough to suspect, not to bury
    assert any(item.observer == frozen for item in swarm.verdicts)
    swarm.split(())
    membership = swarm.peers[frozen]
    later = swarm.now + 3_600
    effects = membership.handle(TimerFired(), later)
    assert not any(isinstance(effect, NoteDied) for effect in effects)


def test_peers_find_each_other_with_no_view_in_common() -> None:
    swarm = Swarm()
    first, second = names(2)
    swarm.members.update((first, second))
    swarm.add(first, [])
    swarm.add(second, [first])
    swarm.run(2)
    assert [peer for peer, _ in swarm.peers[first].view()] == [second]
    assert [peer for peer, _ in swarm.peers[second].view()] == [first]


def test_the_nearest_advertisements_are_soon_held_and_then_cost_little() -> None:
    swarm, wanted = advertising(20, limit=6, seed=1)
    swarm.run(20)
    assert nearest_held(swarm, wanted) > 0.9
    at_first = swarm.pulled_bytes
    swarm.run(100)
    assert nearest_held(swarm, wanted) > 0.95
    assert (swarm.pulled_bytes - at_first) / 100 < at_first / 20 / 20
