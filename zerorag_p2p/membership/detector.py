"""Failure detection: who is alive, suspected to be gone, or dead.

After SWIM (Das et al., DSN 2002) with the local health of memberlist (Lifeguard, Dadgar et al.,
2018). Every ping interval one watched peer is pinged. If it does not answer, helpers are asked to
ping it; if none of them gets through either, it is suspected. A suspect that shows no record with a
higher incarnation in time is pinged one last time, and is dead if neither we nor helpers reach it.

                  ping and helpers fail, or an accusation is heard
        alive  ------------------------------------------------->  suspect
          ^  ^                                                       |  |
          |  +---------------- record with a higher incarnation ----+  | last ping fails
          |                                                             v
          +------------------- record with a higher incarnation ----  dead

What differs from SWIM, because here are organisations and not machines of one cluster:

- The incarnation is the sequence of the peer's signed record. Only the peer can refute, and only
  with a signature; an accusation counts only against the newest record we hold.
- A rumour never kills. Whatever another peer says, a peer has the full time to refute it here, and
  whoever would bury it pings it first: a refutation that got lost on its way to a single peer would
  otherwise cost a live one.
- A peer is watched where it matters: in the view, which is a changing random sample, or among the
  neighbours. Everybody is in some views, so everybody is pinged about once an interval, and
  accusations reach those who do not watch.
- A failed contact of another kind counts as a ping that failed; a suspect that answers one is given
  its time again, and is pinged to let it refute.
"""

from __future__ import annotations

import enum
import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from zerorag_p2p.config import MembershipConfig
from zerorag_p2p.membership.events import NoteDied, NoteRecovered, NoteSuspected
from zerorag_p2p.membership.health import LocalHealth
from zerorag_p2p.model import PeerId
from zerorag_p2p.wire.gossip import Accusation, Update


class PeerState(enum.StrEnum):
    """What we think of a peer."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"


class Help(enum.Enum):
    """What came of asking a helper."""

    REACHED = enum.auto()
    NOT_REACHED = enum.auto()
    SILENT = enum.auto()


@dataclass(frozen=True, slots=True)
class PingPeer:
    """Ping `peer` and report `on_ping_ended`."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class AskHelper:
    """Ask `helper` to ping `target` and report `on_help_ended`."""

    helper: PeerId
    target: PeerId


Step: TypeAlias = PingPeer | AskHelper | NoteSuspected | NoteRecovered | NoteDied


@dataclass(slots=True)
class _Doubt:
    """Why a peer is not simply alive.

    Attributes:
        deadline: When a suspect is pinged for the last time, unix seconds.
        last_call: Whether that is under way.
    """

    state: PeerState
    incarnation: int
    deadline: float
    last_call: bool = False
    pinged_at: float = -math.inf


@dataclass(slots=True)
class _Probe:
    """A ping that is under way, and the helpers that have not reported yet."""

    waiting: dict[PeerId, None] = field(default_factory=dict)
    silent: int = 0


class FailureDetector:
    """States of peers, and the pings that decide them.

    Args:
        watched: The peers to ping.
        incarnation_of: Sequence of the newest record held of a peer.
        members: Number of members of the consortium.
    """

    def __init__(
        self,
        settings: MembershipConfig,
        *,
        watched: Callable[[], Sequence[PeerId]],
        incarnation_of: Callable[[PeerId], int | None],
        members: int,
        randomness: random.Random,
    ) -> None:
        self._settings = settings
        self._watched = watched
        self._incarnation_of = incarnation_of
        self.members = members
        self._randomness = randomness
        self.health = LocalHealth(settings.health_limit)
        self._doubts: dict[PeerId, _Doubt] = {}
        # Deadlines of suspects. One that has moved or is void stays until its time and is skipped.
        self._deadlines: list[tuple[float, PeerId]] = []
        self._probes: dict[PeerId, _Probe] = {}
        # Who is still to be pinged before everybody is pinged again.
        self._turn: list[PeerId] = []
        self._next_ping = math.inf

    def start(self, now: float) -> None:
        """Begin to ping."""
        self._next_ping = now + self._randomness.uniform(0, self._settings.ping_interval_s)

    def next_timeout(self) -> float:
        """When `on_timer` is due, unix seconds."""
        if self._deadlines:
            return min(self._next_ping, self._deadlines[0][0])
        return self._next_ping

    def state(self, peer: PeerId) -> PeerState:
        """What we think of `peer`."""
        doubt = self._doubts.get(peer)
        return PeerState.ALIVE if doubt is None else doubt.state

    def accusation(self, peer: PeerId) -> Update | None:
        """What we would say against `peer`, to itself first of all."""
        doubt = self._doubts.get(peer)
        if doubt is None:
            return None
        dead = doubt.state is PeerState.DEAD
        accusation = Accusation.DEAD if dead else Accusation.SUSPECT
        return Update(peer, accusation, doubt.incarnation)

    def suspicion_timeout_s(self) -> float:
        """How long a suspect has to refute."""
        scale = max(1.0, math.log10(max(self.members, 1)))
        return self._settings.suspicion_multiplier * scale * self._settings.ping_interval_s

    # Time.

    def on_timer(self, now: float) -> list[Step]:
        """Ping suspects whose time is over for the last time, and others when it is time to."""
        interval = self._settings.ping_interval_s * self.health.factor
        if now - self._next_ping > interval:
            self._forgive(now)
        steps: list[Step] = list(self._call_for_the_last_time(now))
        if now < self._next_ping:
            return steps
        self._next_ping = now + interval
        # One after the other, since both may name the same peer.
        due = (self._next_in_turn(), self._next_suspect())
        steps.extend(self._ping(peer, now) for peer in due if peer and peer not in self._probes)
        return steps

    def _forgive(self, now: float) -> None:
        """Start every suspect's time again: we slept, and heard no refutation in our sleep."""
        for peer, doubt in self._doubts.items():
            if doubt.state is PeerState.SUSPECT:
                self._set_deadline(peer, doubt, now)

    def _call_for_the_last_time(self, now: float) -> list[PingPeer]:
        pings = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, peer = heapq.heappop(self._deadlines)
            doubt = self._doubts.get(peer)
            if doubt is None or doubt.state is PeerState.DEAD or doubt.deadline != deadline:
                continue
            doubt.last_call = True
            doubt.deadline = math.inf
            if peer not in self._probes:
                pings.append(self._ping(peer, now))
        return pings

    def _next_in_turn(self) -> PeerId | None:
        watched = self._watched()
        for fresh in (False, True):
            if fresh:
                self._turn = list(watched)
                self._randomness.shuffle(self._turn)
            while self._turn:
                peer = self._turn.pop()
                if peer in watched and self.state(peer) is not PeerState.DEAD:
                    return peer
        return None

    def _next_suspect(self) -> PeerId | None:
        """The watched suspect that was not pinged for longest."""
        if not self._doubts:
            return None
        suspects = [peer for peer in self._watched() if self.state(peer) is PeerState.SUSPECT]
        return min(suspects, key=lambda peer: self._doubts[peer].pinged_at, default=None)

    # Pings.

    def _ping(self, peer: PeerId, now: float) -> PingPeer:
        self._probes[peer] = _Probe()
        doubt = self._doubts.get(peer)
        if doubt is not None:
            doubt.pinged_at = now
        return PingPeer(peer)

    def on_ping_ended(self, peer: PeerId, *, reached: bool, now: float) -> list[Step]:
        """A ping was answered, or not."""
        probe = self._probes.get(peer)
        if probe is None or probe.waiting:
            return []
        if reached:
            del self._probes[peer]
            self.health.adjust(-1)
            self._spare(peer, now)
            return []
        return self._ask_helpers(peer, now)

    def _ask_helpers(self, target: PeerId, now: float) -> list[Step]:
        candidates = [
            peer
            for peer in self._watched()
            if peer != target and self.state(peer) is PeerState.ALIVE
        ]
        count = min(self._settings.indirect_pings, len(candidates))
        helpers = self._randomness.sample(candidates, count)
        self._probes[target].waiting = dict.fromkeys(helpers)
        if not helpers:
            self.health.adjust(1)
            return self._conclude(target, now)
        return [AskHelper(helper, target) for helper in helpers]

    def on_help_ended(
        self, helper: PeerId, target: PeerId, outcome: Help, now: float
    ) -> list[Step]:
        """A helper reported, or did not."""
        probe = self._probes.get(target)
        if probe is None or helper not in probe.waiting:
            return []
        del probe.waiting[helper]
        if outcome is Help.REACHED:
            del self._probes[target]
            self.health.adjust(-1)
            self._spare(target, now)
            return []
        # A helper that is silent as well speaks against our own connection.
        probe.silent += outcome is Help.SILENT
        if probe.waiting:
            return []
        self.health.adjust(probe.silent)
        return self._conclude(target, now)

    def _conclude(self, peer: PeerId, now: float) -> list[Step]:
        del self._probes[peer]
        doubt = self._doubts.get(peer)
        if doubt is not None:
            if not doubt.last_call:
                return []
            doubt.state = PeerState.DEAD
            doubt.last_call = False
            return [NoteDied(peer, doubt.incarnation)]
        incarnation = self._incarnation_of(peer)
        if incarnation is None:
            return []
        return [self._suspect(peer, incarnation, now)]

    def _spare(self, peer: PeerId, now: float) -> None:
        """A peer that was called for the last time was reached: its time starts again."""
        doubt = self._doubts.get(peer)
        if doubt is not None and doubt.last_call:
            self._set_deadline(peer, doubt, now)

    # Evidence from elsewhere.

    def on_accused(self, update: Update, now: float) -> list[Step]:
        """Another peer accused one; what it says counts for the incarnation we know only."""
        if update.peer in self._doubts or update.incarnation != self._incarnation_of(update.peer):
            return []
        return [self._suspect(update.peer, update.incarnation, now)]

    def on_record(self, peer: PeerId, incarnation: int) -> list[Step]:
        """A verified record of `peer` came in; it refutes accusations of lower incarnations."""
        doubt = self._doubts.get(peer)
        if doubt is None or incarnation <= doubt.incarnation:
            return []
        del self._doubts[peer]
        return [NoteRecovered(peer)]

    def on_contact_failed(self, peer: PeerId, now: float) -> list[Step]:
        """`peer` did not answer something else: ask helpers at once."""
        if peer in self._probes or peer in self._doubts or self._incarnation_of(peer) is None:
            return []
        self._probes[peer] = _Probe()
        return self._ask_helpers(peer, now)

    def on_contact_succeeded(self, peer: PeerId, now: float) -> list[Step]:
        """`peer` answered something else: let it know what is said against it."""
        doubt = self._doubts.get(peer)
        if doubt is None:
            return []
        self._spare(peer, now)
        # A busy peer answers often: once an interval is enough.
        interval = self._settings.ping_interval_s
        if (
            doubt.state is PeerState.SUSPECT
            and doubt.deadline < now + self.suspicion_timeout_s() - interval
        ):
            self._set_deadline(peer, doubt, now)
        if peer in self._probes or now - doubt.pinged_at < interval:
            return []
        return [self._ping(peer, now)]

    def forget(self, peer: PeerId) -> None:
        """`peer` is no member any more."""
        self._doubts.pop(peer, None)
        self._probes.pop(peer, None)

    def _suspect(self, peer: PeerId, incarnation: int, now: float) -> NoteSuspected:
        doubt = self._doubts[peer] = _Doubt(PeerState.SUSPECT, incarnation, math.inf)
        self._set_deadline(peer, doubt, now)
        return NoteSuspected(peer, incarnation)

    def _set_deadline(self, peer: PeerId, doubt: _Doubt, now: float) -> None:
        doubt.last_call = False
        doubt.deadline = now + self.suspicion_timeout_s()
        heapq.heappush(self._deadlines, (doubt.deadline, peer))
