"""The event simulator: real `Peer` objects, messages as values, everything else made up.

Virtual time runs through an agenda of actions. A question becomes a walk at its querier; each
contact is a request that takes time, may be lost or find its receiver gone, and comes back as a
reply; questions overlap. Nothing depends on real time, threads or the order of sets: the same
scenario and workload give the same run, event by event, on the same machine and versions.

What a simulation takes for granted: a roster that admits everybody, signed records and releases,
and failure detectors that tell every peer of a crash after `detection_s`
(`workloads.scenario.NetworkModel`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from zerorag_p2p.model import PeerId, Purpose, Vector, View
from zerorag_p2p.peer import Requester, read_result
from zerorag_p2p.policy.decision import AccessRequest
from zerorag_p2p.policy.guard import Guard
from zerorag_p2p.policy.rules import Act
from zerorag_p2p.routing.walk import Contact, Finished, FoundDocument, Waiting, Walk
from zerorag_p2p.simulation.agenda import Agenda
from zerorag_p2p.simulation.participant import Participant
from zerorag_p2p.simulation.population import Population
from zerorag_p2p.simulation.randomness import SplitMix
from zerorag_p2p.simulation.wires import Wires
from zerorag_p2p.wire.embedding import transmitted_rows
from zerorag_p2p.wire.query import QueryRequest, QueryResult
from zerorag_p2p.wire.refusal import Refusal
from zerorag_p2p.workloads.copies import keep_copy
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

TARGET_FOUND: Final = "target found"

#: Virtual seconds before the first question, for first advertisements to arrive, and after each
#: change while questions wait for each other.
_SETTLING_S: Final = 1.0

#: Documents of the exact answer that results are compared with.
_EXACT: Final = 5

#: Called with the number of events that are due or over, and of all.
OnProgress: TypeAlias = Callable[[int, int], None]


@dataclass(slots=True)
class SimulationRun:
    """What a simulation gave.

    Attributes:
        outcomes: Of every question that was asked, in the order of the events.
        unasked: Questions whose peer was down, or held the introduced document already.
        copies: Copies that were kept.
        copies_refused: Copies that could not be kept, as the chain was at its longest.
        contacts: Requests sent.
        trace: SHA-256 over every step of every walk, to tell runs apart.
    """

    outcomes: list[QueryOutcome] = field(default_factory=list)
    unasked: int = 0
    copies: int = 0
    copies_refused: int = 0
    contacts: int = 0
    trace: str = ""


@dataclass(slots=True, kw_only=True)
class _Query:
    """A question under way; `expected` is the probability of a hit in random order."""

    number: int
    event: QueryEvent
    querier: Participant
    embedding: Vector
    walk: Walk
    answerable: bool
    expected: float
    requests_to_target: int | None = None
    messages: int = 0
    over: bool = False


class Simulation:
    """One run of a scenario.

    Attributes:
        population: The peers.

    Args:
        scenario: Algorithm, network and seed.
        plan: What `make_plan` made of the scenario and a workload.
    """

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self._scenario = scenario
        self._workload = plan.workload
        self._steps = list(reversed(plan.steps))
        self._introduced = plan.introduced
        self._queries: Vector = transmitted_rows(plan.workload.query_vectors)
        self._fingerprint = plan.workload.fingerprint.digest()
        self._agenda = Agenda()
        self._wires = Wires(scenario.network, scenario.seed)
        self.population = Population(
            scenario, plan.workload, self._queries, agenda=self._agenda, wires=self._wires
        )
        self._arrivals = random.Random(f"arrivals {scenario.seed}")
        self._due = 0
        self._trace = hashlib.sha256()
        self._run = SimulationRun()
        self._on_progress: OnProgress | None = None
        self._on_finished: Callable[[int, Walk], None] | None = None

    def run(
        self,
        on_progress: OnProgress | None = None,
        on_finished: Callable[[int, Walk], None] | None = None,
    ) -> SimulationRun:
        """Ask every question of the workload. A simulation runs once.

        Args:
            on_progress: Called with the number of events that are due or over, and of all.
            on_finished: Called with the number of an event and its walk when it is over and the
                querier has chosen its new neighbour.
        """
        self._on_progress = on_progress
        self._on_finished = on_finished
        self._agenda.after(_SETTLING_S, self._next_event)
        self._agenda.run()
        self._run.outcomes.sort(key=lambda outcome: outcome.event)
        self._run.trace = self._trace.hexdigest()
        return self._run

    # The timeline.

    def _next_event(self) -> None:
        """Take the steps before the event that is due, then ask its question."""
        number = self._due
        if self._on_progress is not None:
            self._on_progress(number, len(self._workload.events))
        wait = 0.0
        while self._steps and self._steps[-1].before <= number:
            self._take(self._steps.pop())
            wait = _SETTLING_S
        if number == len(self._workload.events):
            return
        self._due += 1
        event = self._workload.events[number]
        rate = self._scenario.network.queries_per_s
        if rate:
            self._agenda.after(self._arrivals.expovariate(rate), self._next_event)
            self._ask(number, event)
        else:
            self._agenda.after(wait, partial(self._ask, number, event))

    def _after_question(self) -> None:
        if not self._scenario.network.queries_per_s:  # one at a time
            self._agenda.after(0.0, self._next_event)

    def _take(self, step: Step) -> None:
        match step:
            case CrashPeers(peers=peers):
                self.population.crash(peers)
            case ReplacePeer(peer=peer):
                self.population.replace(peer)
            case IntroduceTopic(documents=documents, owners=owners):
                self.population.introduce(documents, owners)
            case SplitPeers(groups=groups):
                self.population.split(groups)
            case ReunitePeers():
                self.population.reunite()

    # The questions.

    def _ask(self, number: int, event: QueryEvent) -> None:
        querier = self.population.places[event.peer]
        introduced = event.document in self._introduced
        if not querier.up or (introduced and event.document in querier.holdings):
            self._run.unasked += 1
            self._after_question()
            return
        budget = self._scenario.routing.contact_budget
        embedding = self._queries[event.query]
        randomness = SplitMix(self._scenario.seed, number)
        holders = self.population.remote_holders(event.document, querier)
        query = _Query(
            number=number,
            event=event,
            querier=querier,
            embedding=embedding,
            walk=querier.peer.begin_query(
                embedding,
                now=self.population.now(querier),
                randomness=randomness,
                # More than can be asked: the same as all of them, in random order.
                roster=self.population.some_members(2 * budget + 1, randomness),
            ),
            answerable=holders > 0,
            expected=random_hit(self.population.up - 1, holders, budget),
        )
        self._advance(query)

    def _advance(self, query: _Query) -> None:
        """Send what the walk wants sent now."""
        while True:
            match query.walk.next():
                case Contact() as contact:
                    self._send(query, contact)
                case Waiting():
                    return
                case Finished():
                    self._finish(query)
                    return

    def _send(self, query: _Query, contact: Contact) -> None:
        receiver = self.population.participant(contact.peer)
        network = self._scenario.network
        self._run.contacts += 1
        query.messages += 1
        lifetime = self._scenario.routing.memory_lifetime_s
        request = QueryRequest(
            embedding=query.embedding,
            fingerprint=self._fingerprint,
            k=query.walk.k,
            budget_left=contact.budget_left,
            deadline_ms=int(network.timeout_s * 1000),
            purpose=Purpose.TREAT,
            user="",
            audit="",
            view=View.WHOLE,
            remember_until=int(self.population.now(query.querier) + lifetime),
            have=contact.have,
            above=contact.above,
        )
        times_out_at = self._agenda.now + network.timeout_s
        if self._wires.loses():
            self._fail_at(times_out_at, query, receiver)
        else:
            receive = partial(self._receive, query, receiver, request, times_out_at)
            self._agenda.after(self._wires.delay(), receive)

    def _receive(
        self, query: _Query, receiver: Participant, request: QueryRequest, times_out_at: float
    ) -> None:
        """The request arrives at the peer that is asked."""
        if not receiver.up or not self._wires.connect(query.querier, receiver):
            self._fail_at(times_out_at, query, receiver)
            return
        requester = Requester(query.querier.peer.peer_id, "")
        reply = receiver.peer.answer(request, requester, self.population.now(receiver))
        query.messages += 1
        delay = self._wires.delay()
        if self._wires.loses() or self._agenda.now + delay > times_out_at:
            self._fail_at(times_out_at, query, receiver)
            return
        holds = query.event.document in receiver.holdings
        self._agenda.after(delay, partial(self._take_in, query, receiver, reply, holds))

    def _fail_at(self, time: float, query: _Query, receiver: Participant) -> None:
        wait = max(0.0, time - self._agenda.now)
        self._agenda.after(wait, partial(self._fail, query, receiver.peer.peer_id))

    def _fail(self, query: _Query, peer: PeerId) -> None:
        query.walk.on_failure(peer, "timed out")
        self._continue(query)

    def _take_in(
        self, query: _Query, sender: Participant, reply: QueryResult | Refusal, holds: bool
    ) -> None:
        """The reply arrives at the querier; `holds` tells whether it comes from a holder."""
        assert isinstance(reply, QueryResult)  # all peers of a simulation agree on the embedding
        peer = sender.peer.peer_id
        documents, referrals = read_result(query.embedding, reply)
        query.walk.on_reply(peer, documents, referrals)
        if holds and query.requests_to_target is None:
            query.requests_to_target = list(query.walk.visited).index(peer) + 1
            if self._scenario.stop_at_target:
                query.walk.stop(TARGET_FOUND)
        self._continue(query)

    def _continue(self, query: _Query) -> None:
        if query.over:
            return
        if not query.querier.up:  # it crashed meanwhile
            query.over = True
            self._run.unasked += 1
            self._after_question()
        elif not (self._scenario.rounds and query.walk.in_flight):
            self._advance(query)

    def _finish(self, query: _Query) -> None:
        query.over = True
        querier, walk = query.querier, query.walk
        neighbor = querier.peer.finish_query(walk, self.population.now(querier))
        if neighbor is not None:
            query.messages += 2
            self.population.adopt(querier, neighbor)
        results = walk.results()
        found: list[FoundDocument] = []
        if query.event.document in self._introduced:
            wanted = self.population.table.hashes[query.event.document]
            found = [item for item in results if item.document.content_hash == wanted]
        if found:
            query.messages += 2
            self._agenda.after(self._wires.round_trip(), partial(self._fetch, query, found[0]))
        self._note(query, results)
        if self._on_finished is not None:
            self._on_finished(query.number, walk)
        if not found:
            self._after_question()

    # The documents.

    def _fetch(self, query: _Query, found: FoundDocument) -> None:
        """Fetch the document from the first holder that delivers it, and keep a copy."""
        querier, document = query.querier, query.event.document
        if querier.up and document not in querier.holdings:
            self._fetch_from_holders(querier, document, found)
        self._after_question()

    def _fetch_from_holders(
        self, querier: Participant, document: int, found: FoundDocument
    ) -> None:
        for holder in found.holders:
            links = self._delivered(self.population.participant(holder), found, querier)
            if links is None:
                continue
            now = self.population.now(querier)
            content_hash = found.document.content_hash
            if keep_copy(querier.holdings, querier.identity, content_hash, links, now):
                self._run.copies += 1
                self.population.note_copy(querier, document)
            else:
                self._run.copies_refused += 1
            return

    def _delivered(
        self, holder: Participant, found: FoundDocument, querier: Participant
    ) -> tuple[bytes, ...] | None:
        """The attribution that comes with the document, if the holder lets it out."""
        if not holder.up or not self._wires.connect(holder, querier):
            return None
        content_hash = found.document.content_hash
        access = AccessRequest(
            act=Act.FETCH,
            requester=querier.peer.peer_id,
            organisation="",
            purpose=Purpose.TREAT,
            view=View.WHOLE,
            at=self.population.now(holder),
        )
        decide = Guard().for_request(access, holder.holdings.sharing)
        for stored in holder.holdings.get(content_hash):
            if decide(stored.collection, stored.terms).allowed:
                return stored.links
        return None

    # The figures.

    def _note(self, query: _Query, results: Sequence[FoundDocument]) -> None:
        hashes = self.population.table.hashes
        exact = None
        if not self._scenario.stop_at_target:
            exact = self._recall_of_exact(query, results)
        steps = query.walk.steps
        failures = sum(step.outcome not in {"answered", TARGET_FOUND} for step in steps)
        outcome = QueryOutcome(
            event=query.number,
            introduced=query.event.document in self._introduced,
            answerable=query.answerable,
            hit=query.requests_to_target is not None,
            recall_at_1=bool(results)
            and results[0].document.content_hash == hashes[query.event.document],
            recall_at_5_exact=exact,
            requests_to_target=query.requests_to_target,
            contacts=len(steps),
            failures=failures,
            messages=query.messages,
            random_hit=query.expected,
        )
        self._run.outcomes.append(outcome)
        lines = [f"{query.number} {query.querier.peer.peer_id} {self._agenda.now!r}"]
        lines += [
            f"{step.peer} {step.score!r} {step.outcome} {step.documents} {step.new_candidates}"
            for step in steps
        ]
        self._trace.update("\n".join(lines).encode())

    def _recall_of_exact(self, query: _Query, results: Sequence[FoundDocument]) -> float | None:
        """Share of the best documents of all other peers that the result holds."""
        table, population = self.population.table, self.population
        scores = table.vectors @ query.embedding
        best: list[int] = []
        for number in np.argsort(-scores, kind="stable").tolist():
            if population.remote_holders(number, query.querier) > 0:
                best.append(number)
                if len(best) == _EXACT:
                    break
        if not best:
            return None
        found = {item.document.content_hash for item in results[:_EXACT]}
        return sum(table.hashes[number] in found for number in best) / len(best)
