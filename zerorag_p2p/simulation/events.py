"""The event simulator: real `Peer` objects, messages as values, everything else made up.

Virtual time runs through an agenda of actions. A question becomes a walk at its querier; each
contact is a message that takes time, may be lost, may find its receiver gone, and comes back as a
reply; questions overlap. Nothing depends on real time, threads or the order of sets: the same
scenario, workload and seed give the same run, event by event, on the same machine and versions.

What a simulated network takes for granted: a roster that admits everybody, signed records and
releases, and a failure detector that tells all peers of a crash after `detection_s`
(`workloads.scenario.NetworkModel`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import (
    ContentHash,
    PeerId,
    Purpose,
    SharingTerms,
    Vector,
    View,
)
from zerorag_p2p.peer import Peer, Requester, read_result
from zerorag_p2p.policy.decision import AccessRequest, Act, decide
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.routing.walk import Contact, Finished, Waiting, Walk
from zerorag_p2p.simulation.agenda import Agenda
from zerorag_p2p.simulation.participant import Advertiser, Participant
from zerorag_p2p.simulation.pool import VectorPool
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.wire.query import QueryRequest, QueryResult
from zerorag_p2p.workloads.copies import keep_copy
from zerorag_p2p.workloads.holdings import ArrayHoldings, DocumentTable, statement_signer
from zerorag_p2p.workloads.outcome import QueryOutcome, random_hit
from zerorag_p2p.workloads.plan import (
    CrashPeers,
    IntroduceTopic,
    Plan,
    ReplacePeer,
    ReunitePeers,
    SplitPeers,
    Step,
)
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.workload import QueryEvent

#: Unix seconds at which every simulation starts.
EPOCH: Final = 1_700_000_000.0

CONSORTIUM: Final = "simulation"
COLLECTION: Final = "documents"

#: What the owner of any document allows: copies, which may be passed on.
TERMS: Final = SharingTerms(copy=True, reshare=True)

_EXACT: Final = 5

#: Called with the number of events that are due or over, and of all.
OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class _Query:
    """A question under way."""

    number: int
    event: QueryEvent
    querier: Participant
    embedding: Vector
    walk: Walk
    answerable: bool
    random_hit: float
    requests_to_target: int | None = None
    messages: int = 0


@dataclass(slots=True)
class SimulationRun:
    """What a simulation gave.

    Attributes:
        outcomes: Of every question that was asked, in the order of the events.
        unasked: Questions whose peer was down, or held the introduced document already.
        copies: Copies that were kept.
        copies_refused: Copies that could not be kept: the chain was at its longest.
        contacts: Requests sent.
        trace: SHA-256 over every step of every walk, for comparing runs.
    """

    outcomes: list[QueryOutcome] = field(default_factory=list)
    unasked: int = 0
    copies: int = 0
    copies_refused: int = 0
    contacts: int = 0
    trace: str = ""


class Simulation:
    """One run of a scenario.

    Args:
        scenario: Algorithm, network and seed; its timeline is in `plan`.
        plan: What `make_plan` made of the scenario and a workload.
    """

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self._scenario = scenario
        self._network = scenario.network
        self._plan = plan
        self._workload = plan.workload
        self._table = DocumentTable(plan.workload)
        self._queries: Vector = transmitted_rows(plan.workload.query_vectors)
        self._fingerprint = plan.workload.fingerprint.digest()
        self._pool = VectorPool(plan.workload.fingerprint.dimension)
        self._advertiser = Advertiser(self._table, scenario.routing.advertisement_bits)
        self._agenda = Agenda()
        self._trace = hashlib.sha256()
        self._run = SimulationRun()
        # One stream of random numbers a purpose: a lost message changes no walk's exploration.
        self._arrivals = random.Random(f"arrivals {scenario.seed}")
        self._delays = random.Random(f"delays {scenario.seed}")
        self._walks = random.Random(f"walks {scenario.seed}")
        self._membership = random.Random(f"membership {scenario.seed}")
        self._identities = 0
        self._steps = list(plan.steps)
        self._introduced = plan.introduced
        self._in_flight = 0
        self._due = 0
        #: Holders that are up, by document.
        self._holders = [0] * len(plan.workload.documents)
        self._places: list[Participant] = []
        self._by_peer: dict[PeerId, Participant] = {}
        #: Peers that are members as far as their own detectors know.
        self._members: list[PeerId] = []
        for place in range(len(plan.workload.holdings)):
            self._join(place)
        for participant in self._places:
            self._find_neighbors(participant)

    @property
    def participants(self) -> Sequence[Participant]:
        """The peers that fill the places of the workload now."""
        return self._places

    def run(self, on_progress: OnProgress | None = None) -> SimulationRun:
        """Ask every question of the workload; once."""
        self._on_progress = on_progress
        self._next_event()
        self._agenda.run()
        self._run.outcomes.sort(key=lambda outcome: outcome.event)
        self._run.trace = self._trace.hexdigest()
        return self._run

    # The questions.

    def _next_event(self) -> None:
        """The next event is due: take the steps before it, ask, and put the one after it down."""
        number = self._due
        if self._on_progress is not None:
            self._on_progress(number, len(self._workload.events))
        while self._steps and self._steps[0].before <= number:
            self._take(self._steps.pop(0))
        if number == len(self._workload.events):
            return
        self._due += 1
        rate = self._network.queries_per_s
        if rate:
            self._agenda.after(self._arrivals.expovariate(rate), self._next_event)
        self._ask(number, self._workload.events[number])

    def _ask(self, number: int, event: QueryEvent) -> None:
        querier = self._places[event.peer]
        known = event.document in self._introduced and event.document in querier.holdings
        if not querier.up or known:
            self._run.unasked += 1
            self._after_query()
            return
        embedding = self._queries[event.query]
        budget = self._scenario.routing.contact_budget
        walk = querier.peer.begin_query(
            embedding,
            now=self._now(querier),
            randomness=self._walks,
            roster=self._some_members(2 * budget),
        )
        holders = self._holders[event.document] - (event.document in querier.holdings)
        others = sum(1 for item in self._places if item.up) - 1 if self._uneven else self._others
        query = _Query(
            number,
            event,
            querier,
            embedding,
            walk,
            answerable=holders > 0,
            random_hit=random_hit(others, holders, budget),
        )
        self._advance(query)

    def _advance(self, query: _Query) -> None:
        """Send what the walk wants sent now."""
        while True:
            match query.walk.next():
                case Contact(peer, budget_left):
                    self._send(query, peer, budget_left)
                case Waiting():
                    return
                case Finished():
                    self._finish(query)
                    return
