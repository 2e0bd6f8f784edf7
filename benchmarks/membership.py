"""Membership at scale: a thousand reactors on a network that loses messages.

    python -m benchmarks.membership [TABLE ...] [--peers 1000] [--rounds 1000] [--limit 200]
        [--seed 1]

Every peer is a real `Membership`; only the clock, the network and the signatures are simulated.
Prints a JSON object: how the overlay forms (formation), what is left of the entries of peers that
crash (crash), how a partition heals (partition), detection time and false positives at several loss
rates (detection), how advertisements of others spread and what they cost (sketches), and whether a
live peer is removed in a long run with 5% loss (endurance, most of the time it all takes). A round
is the interval of view exchanges, which equals the ping interval.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.advertising import consortium, nearest, sketching_of
from zerorag_p2p.config import MembershipConfig
from zerorag_p2p.errors import DecodeError
from zerorag_p2p.identity.records import PeerRecord
from zerorag_p2p.membership.detector import PeerState
from zerorag_p2p.membership.events import (
    ContactFailed,
    Effect,
    Event,
    NoteDied,
    NoteSuspected,
    PullAdvertisements,
    PullEnded,
    PullWanted,
    RelayEnded,
    RelayPing,
    Reply,
    ReplyReceived,
    RequestFailed,
    RequestReceived,
    Send,
    Started,
    TimerFired,
)
from zerorag_p2p.membership.membership import Membership
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.sketching import Sketching
from zerorag_p2p.wire.gossip import (
    Ack,
    AdvertisementsReply,
    AdvertisementsRequest,
    GossipReply,
    GossipRequest,
    RosterRequest,
    encode_gossip,
    encode_gossip_reply,
)

#: Takes a reply, or None for one that never comes.
Answer: TypeAlias = Callable[[GossipReply | None], None]

BEGAN = 1_800_000_000.0
LATENCY_S = (0.01, 0.1)


def sign(peer: PeerId, sequence: int) -> bytes:
    """Stands for a signed record: the simulation has no forgers."""
    return f"{peer} {sequence}".encode()


def open_record(data: bytes) -> PeerRecord:
    """Reads what `sign` made."""
    peer, separator, sequence = data.decode(errors="replace").partition(" ")
    if not separator:
        raise DecodeError("no record")
    return PeerRecord(PeerId(peer), (), int(sequence))


@dataclass(frozen=True, slots=True)
class Verdict:
    """An observer suspects a peer or holds it for dead; `true` if the peer is indeed down."""

    at: float
    observer: PeerId
    peer: PeerId
    incarnation: int
    dead: bool
    true: bool


class Swarm:
    """Peers that exchange messages with latency and loss, in one thread and simulated time.

    Args:
        loss: Probability that a message is lost, each way.
    """

    def __init__(
        self, *, settings: MembershipConfig | None = None, loss: float = 0.0, seed: int = 1
    ) -> None:
        self.settings = settings or MembershipConfig()
        self.loss = loss
        self.now = BEGAN
        self.members: set[PeerId] = set()
        self.peers: dict[PeerId, Membership] = {}
        #: Peers that are down; they neither hear nor say anything.
        self.down: set[PeerId] = set()
        self.verdicts: list[Verdict] = []
        self.messages = 0
        #: Of the peers that keep advertisements of others; filled before they are added.
        self.sketching: dict[PeerId, Sketching] = {}
        #: Bytes of requests for advertisements of others, and of the replies to them.
        self.pulled_bytes = 0
        self._seed = seed
        self._randomness = random.Random(f"network {seed}")
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._wakes: dict[PeerId, float] = {}
        self._side: dict[PeerId, int] = {}

    # What a test does to it.

    def add(
        self, peer: PeerId, introductions: Iterable[PeerId], saved: bytes | None = None
    ) -> None:
        """Start a peer, or start it again."""
        self.members.add(peer)
        self.down.discard(peer)
        membership = self.peers[peer] = Membership(
            peer,
            self.settings,
            sign=partial(sign, peer),
            admit=self.members.__contains__,
            introductions=list(introductions),
            roster_version=1,
            members=max(len(self.members), 1),
            randomness=random.Random(f"{peer} {self._seed} {self.now}"),
            near=self.sketching[peer].near if peer in self.sketching else None,
            open_record=open_record,
        )
        if saved is not None:
            membership.restore(saved)
        self.report(peer, Started())

    def crash(self, peers: Iterable[PeerId]) -> None:
        """Take peers down without a word."""
        self.down.update(peers)

    def split(self, side: Iterable[PeerId]) -> None:
        """Cut the peers of `side` off from the others; an empty one heals the network."""
        self._side = dict.fromkeys(side, 1)

    def run(self, rounds: float) -> None:
        """Let time pass."""
        end = self.now + rounds * self.settings.exchange_interval_s
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = end

    def report(self, peer: PeerId, event: Event) -> GossipReply | None:
        """Give an event to a peer and carry out what it wants; the reply, if there is one."""
        membership = self.peers[peer]
        reply = None
        for effect in membership.handle(event, self.now):
            reply = self._carry_out(peer, effect) or reply
        self._schedule_wake(peer, membership)
        return reply

    # What can be seen of it.

    def live(self) -> list[PeerId]:
        """Peers that are up."""
        return [peer for peer in self.peers if peer not in self.down]

    def dead_entries(self) -> int:
        """Entries of peers that are down in views of peers that are up."""
        return sum(
            entry in self.down for peer in self.live() for entry, _ in self.peers[peer].view()
        )

    def links(self) -> NDArray[np.bool_]:
        """Who has whom in the view, shape [n, n], of the peers that are up."""
        numbers = {peer: number for number, peer in enumerate(self.live())}
        links = np.zeros((len(numbers), len(numbers)), dtype=np.bool_)
        for peer, number in numbers.items():
            for entry, _ in self.peers[peer].view():
                if entry in numbers:
                    links[number, numbers[entry]] = True
        return links

    # The network.

    def _at(self, when: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (when, self._number, action))

    def _schedule_wake(self, peer: PeerId, membership: Membership) -> None:
        due = membership.next_timeout()
        if due < self._wakes.get(peer, float("inf")):
            self._wakes[peer] = due
            self._at(due, partial(self._wake, peer, due))

    def _wake(self, peer: PeerId, due: float) -> None:
        if self._wakes.get(peer) != due:
            return
        del self._wakes[peer]
        if peer not in self.down:
            self.report(peer, TimerFired())

    def _carry_out(self, peer: PeerId, effect: Effect) -> GossipReply | None:
        match effect:
            case Reply(message):
                return message
            case Send():
                self._request(peer, effect)
            case PullAdvertisements():
                self._pull(peer, effect)
            case NoteSuspected() | NoteDied():
                self._note(peer, effect)
            case _:
                pass
        return None

    def _note(self, observer: PeerId, note: NoteSuspected | NoteDied) -> None:
        true = note.peer in self.down or self._side.get(note.peer) != self._side.get(observer)
        dead = isinstance(note, NoteDied)
        verdict = Verdict(self.now, observer, note.peer, note.incarnation, dead, true)
        self.verdicts.append(verdict)

    def _request(self, sender: PeerId, send: Send) -> None:
        """Deliver a request, and bring back its reply or, when its time is over, the failure."""
        deadline = self.now + send.timeout_s

        def end(event: Event) -> None:
            if sender not in self.down:
                self.report(sender, event)

        def answer(reply: GossipReply | None) -> None:
            if reply is None:
                self._at(deadline, lambda: end(RequestFailed(send.peer, send.request)))
            else:
                self._later(lambda: end(ReplyReceived(send.peer, send.request, reply)))

        self._ask(sender, send.peer, send.request, answer)

    def _pull(self, sender: PeerId, pull: PullAdvertisements) -> None:
        deadline = self.now + pull.timeout_s
        request = self.sketching[sender].request()
        self.pulled_bytes += len(encode_gossip(request))

        def end(reply: GossipReply) -> None:
            gained = isinstance(reply, AdvertisementsReply) and self.sketching[sender].take_in(
                pull.peer, reply
            )
            self.report(sender, PullEnded(pull.peer, gained))

        def fail() -> None:
            self.report(sender, ContactFailed(pull.peer))

        def answer(reply: GossipReply | None) -> None:
            if reply is None:
                self._at(deadline, fail)
            else:
                self._later(lambda: end(reply))

        self._ask(sender, pull.peer, request, answer)

    def _answer_pull(
        self, peer: PeerId, asker: PeerId, request: AdvertisementsRequest
    ) -> GossipReply:
        reply = self.sketching[peer].answer(asker, request)
        self.pulled_bytes += len(encode_gossip_reply(reply))
        if isinstance(reply, AdvertisementsReply) and self.sketching[peer].wants(asker, request):
            self.report(peer, PullWanted(asker))
        return reply

    def _ask(self, sender: PeerId, to: PeerId, request: GossipRequest, answer: Answer) -> None:
        """Carry a request over and its reply back; None if either does not get through."""

        def reply(message: GossipReply | None) -> None:
            answer(message if self._passes(to, sender) else None)

        def arrive() -> None:
            if to in self.down or isinstance(request, RosterRequest):
                answer(None)
                return
            if isinstance(request, AdvertisementsRequest):
                reply(self._answer_pull(to, sender, request))
                return
            membership = self.peers[to]
            for effect in membership.handle(RequestReceived(sender, request), self.now):
                if isinstance(effect, RelayPing):
                    self._relay(to, effect, reply)
                elif isinstance(effect, Reply):
                    reply(effect.message)
                else:
                    self._carry_out(to, effect)
            self._schedule_wake(to, membership)

        if to in self.peers and self._passes(sender, to):
            self._later(arrive)
        else:
            answer(None)

    def _relay(self, helper: PeerId, relay: RelayPing, reply: Answer) -> None:
        deadline = self.now + relay.timeout_s

        def end(message: Ack | None) -> None:
            if helper not in self.down:
                reply(self.report(helper, RelayEnded(relay.origin, relay.target, message)))

        def answer(message: GossipReply | None) -> None:
            if isinstance(message, Ack):
                self._later(lambda: end(message))
            else:
                self._at(deadline, lambda: end(None))

        self._ask(helper, relay.target, relay.request, answer)

    def _passes(self, sender: PeerId, to: PeerId) -> bool:
        self.messages += 1
        if sender in self.down or self._side.get(sender) != self._side.get(to):
            return False
        return not self.loss or self._randomness.random() >= self.loss

    def _later(self, action: Callable[[], None]) -> None:
        self._at(self.now + self._randomness.uniform(*LATENCY_S), action)


def names(count: int) -> list[PeerId]:
    return [PeerId(f"peer-{number:04}") for number in range(count)]


def joined(count: int, *, loss: float = 0.0, seed: int = 1, rounds: float = 0) -> Swarm:
    """Peers that all know the address of the first one and nothing else."""
    swarm = Swarm(loss=loss, seed=seed)
    peers = names(count)
    swarm.members.update(peers)
    for peer in peers:
        swarm.add(peer, peers[:1])
    swarm.run(rounds)
    return swarm


# Graphs.


def path_lengths(links: NDArray[np.bool_]) -> tuple[float, bool]:
    """Mean length of the shortest paths, and whether everybody reaches everybody."""
    count = len(links)
    step = links.astype(np.float32)
    reached = links | np.eye(count, dtype=np.bool_)
    total, length = links.sum(), 1
    while not reached.all():
        length += 1
        further = (reached.astype(np.float32) @ step > 0) & ~reached
        if not further.any():
            return float("inf"), False
        total += length * further.sum()
        reached |= further
    return float(total) / (count * (count - 1)), True


def random_links(count: int, degree: int, seed: int) -> NDArray[np.bool_]:
    """A graph in which everybody has `degree` others drawn at random."""
    generator = np.random.default_rng(seed)
    links = np.zeros((count, count), dtype=np.bool_)
    for number in range(count):
        drawn = generator.choice(count - 1, size=degree, replace=False)
        links[number, drawn + (drawn >= number)] = True
    return links


def shape(links: NDArray[np.bool_]) -> dict[str, Any]:
    length, connected = path_lengths(links)
    degrees = links.sum(axis=0)
    return {
        "strongly_connected": connected,
        "in_degree_deviation": round(float(degrees.std()), 3),
        "in_degree_range": [int(degrees.min()), int(degrees.max())],
        "path_length": round(length, 4),
        "view_size": round(float(links.sum(axis=1).mean()), 2),
    }


# The tables.


def formation(count: int, seed: int) -> list[dict[str, Any]]:
    """The overlay after some rounds, all peers having joined through one, and a random graph."""
    swarm = joined(count, seed=seed)
    rows, last = [], 0
    for rounds in (5, 10, 20, 40):
        swarm.run(rounds - last)
        last = rounds
        rows.append({"rounds": rounds} | shape(swarm.links()))
    degree = swarm.settings.view_size
    graphs = [shape(random_links(count, degree, seed + number)) for number in range(5)]
    return [
        *rows,
        {
            "rounds": "random graph",
            "strongly_connected": True,
            "in_degree_deviation": round(
                statistics.mean(graph["in_degree_deviation"] for graph in graphs), 3
            ),
            "path_length": round(statistics.mean(graph["path_length"] for graph in graphs), 4),
            "view_size": degree,
        },
    ]


def crash(count: int, seed: int) -> list[dict[str, Any]]:
    """Dead entries in the views of the survivors after half of the peers crashed at once."""
    swarm = joined(count, seed=seed, rounds=20)
    swarm.crash(random.Random(seed).sample(swarm.live(), count // 2))
    rows = []
    for rounds in range(0, 31, 5):
        swarm.run(5 if rounds else 0)
        entries = sum(len(swarm.peers[peer].view()) for peer in swarm.live())
        rows.append(
            {
                "rounds": rounds,
                "dead_entries": swarm.dead_entries(),
                "dead_share": round(swarm.dead_entries() / max(entries, 1), 4),
                "strongly_connected": path_lengths(swarm.links())[1],
            }
        )
    return rows


def partition(count: int, seed: int) -> list[dict[str, Any]]:
    """Links across and deaths believed in, while two halves are apart for 30 rounds and after."""
    swarm = joined(count, seed=seed, rounds=20)
    left = names(count)[: count // 2]
    rows, last = [], 0
    for rounds in (0, 10, 20, 30, 35, 40, 50, 60, 80):
        swarm.run(rounds - last)
        last = rounds
        links = swarm.links()
        across = links[: len(left), len(left) :].sum() + links[len(left) :, : len(left)].sum()
        rows.append(
            {
                "rounds": rounds,
                "phase": "apart" if 0 < rounds <= 30 else "together",
                "links_across": round(float(across / links.sum()), 3),
                "believed_dead": wrongly_dead(swarm),
            }
        )
        if rounds == 0:
            swarm.split(left)
        if rounds == 30:
            swarm.split(())
    return rows


def wrongly_dead(swarm: Swarm) -> float:
    """Share of pairs of live peers of which one holds the other for dead."""
    live = swarm.live()
    wrong = sum(swarm.peers[a].state(b) is PeerState.DEAD for a in live for b in live)
    return round(wrong / (len(live) * (len(live) - 1)), 4)


def detection(count: int, loss: float, seed: int) -> dict[str, Any]:
    """Crash nine peers, one every 5 rounds; when is it noticed, and who is taken for dead?"""
    swarm = joined(count, loss=loss, seed=seed, rounds=20)
    victims = random.Random(seed).sample(swarm.live()[1:], 9)
    crashed_at: dict[PeerId, float] = {}
    before, rounds = swarm.messages, 9 * 5 + 60
    for victim in victims:
        crashed_at[victim] = swarm.now
        swarm.crash([victim])
        swarm.run(5)
    swarm.run(60)
    interval = swarm.settings.ping_interval_s
    suspected, dead, known = [], [], []
    for victim, at in crashed_at.items():
        about = [item for item in swarm.verdicts if item.peer == victim and item.at >= at]
        deaths = {item.observer: item.at for item in about if item.dead}
        suspected.append((min(item.at for item in about) - at) / interval)
        dead.append((min(deaths.values()) - at) / interval)
        known.append((max(deaths.values()) - at) / interval)
    knowing = [
        swarm.peers[peer].state(victim) is PeerState.DEAD
        for victim in victims
        for peer in swarm.live()
    ]
    return {
        "loss": loss,
        "first_suspected_rounds": round(statistics.mean(suspected), 1),
        "first_dead_rounds": round(statistics.mean(dead), 1),
        "last_to_know_rounds": round(statistics.mean(known), 1),
        "know_in_the_end": round(statistics.mean(knowing), 4),
        **mistakes(swarm, count * rounds),
        "messages_per_peer_and_round": round((swarm.messages - before) / count / rounds, 1),
    }


def mistakes(swarm: Swarm, peer_rounds: int) -> dict[str, Any]:
    """Live peers that were suspected, and that were removed."""
    wrong = [item for item in swarm.verdicts if not item.true]
    own = {(item.peer, item.incarnation) for item in wrong if not item.dead}
    return {
        "false_suspicions_per_1000_peer_rounds": round(1_000 * len(own) / peer_rounds, 3),
        "live_peers_removed": sum(item.dead for item in wrong),
    }


def endurance(count: int, rounds: int, seed: int) -> dict[str, Any]:
    """Nobody crashes, 5% of the messages are lost: is anybody taken for dead?"""
    swarm = joined(count, loss=0.05, seed=seed, rounds=20)
    swarm.run(rounds)
    return {"loss": 0.05, "rounds": rounds, **mistakes(swarm, count * rounds)}


def advertising(count: int, limit: int, seed: int) -> tuple[Swarm, dict[PeerId, set[PeerId]]]:
    """Peers that start as `joined` and keep at most `limit` sketches; for each the nearest half."""
    swarm = Swarm(seed=seed)
    members = consortium(count, lambda: swarm.now, seed)
    peers = [member.identity.peer_id for member in members]
    swarm.sketching = sketching_of(members, limit, lambda: swarm.now, seed)
    swarm.members.update(peers)
    for peer in peers:
        swarm.add(peer, peers[:1])
    return swarm, nearest(members, limit // 2)


def nearest_held(swarm: Swarm, wanted: dict[PeerId, set[PeerId]]) -> float:
    """Share of the nearest advertisements that is held."""
    held = sum(len(best & set(swarm.sketching[peer].near())) for peer, best in wanted.items())
    return held / sum(map(len, wanted.values()))


def sketches(count: int, limit: int, seed: int) -> list[dict[str, Any]]:
    """How soon everybody holds the nearest advertisements, and the bytes it costs."""
    swarm, wanted = advertising(count, limit, seed)
    hour = round(3_600 / swarm.settings.exchange_interval_s)
    rows, last, before = [], 0, 0
    for rounds in (5, 10, 15, 20, 30, 40, 80, 160, hour, 2 * hour):
        swarm.run(rounds - last)
        hourly = (swarm.pulled_bytes - before) / count / (rounds - last) * hour
        sizes = [kept.size for kept in swarm.sketching.values()]
        rows.append(
            {
                "rounds": rounds,
                "nearest_held": round(nearest_held(swarm, wanted), 4),
                "kilobytes_held": round(statistics.mean(sizes) / 1_000, 1),
                "kilobytes_a_peer_and_hour": round(hourly / 1_000, 1),
            }
        )
        last, before = rounds, swarm.pulled_bytes
    return rows


TABLES = ("formation", "crash", "partition", "detection", "sketches", "endurance")


def main() -> int:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(TABLES)}; all if none")
    parser.add_argument("--peers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=1_000, help="of endurance")
    parser.add_argument("--limit", type=int, default=200, help="of sketches a peer")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        parser.error(f"no table is called {min(unknown)}; there are {', '.join(TABLES)}")
    peers, seed = options.peers, options.seed
    measure: dict[str, Callable[[], Any]] = {
        "formation": lambda: formation(peers, seed),
        "crash": lambda: crash(peers, seed),
        "partition": lambda: partition(peers, seed),
        "detection": lambda: [detection(peers, loss, seed) for loss in (0.0, 0.05, 0.2)],
        "sketches": lambda: sketches(peers, options.limit, seed),
        "endurance": lambda: endurance(peers, options.rounds, seed),
    }
    began = time.monotonic()
    result = {
        "name": "membership",
        "peers": peers,
        "seed": seed,
        "metrics": {name: measure[name]() for name in options.tables or TABLES},
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "wall_s": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
