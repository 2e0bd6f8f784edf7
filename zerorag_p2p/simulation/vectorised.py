"""The vectorised simulator: 100,000 peers and millions of questions in minutes.

It runs the scenarios of the event simulator in a world without time: questions are asked one after
the other, messages take no time, and nothing is lost. A crash is noticed after as many questions
as its detection would take (`NetworkModel.detection_s`), a changed advertisement is seen at once.
Otherwise it takes the decisions that `peer.Peer` takes, the same ones (`simulation.kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.config import MAX_CHAIN_LINKS
from zerorag_p2p.errors import UsageError
from zerorag_p2p.peer import KNOWN_PER_WANTED
from zerorag_p2p.routing.referrals import MAX_HOLDERS
from zerorag_p2p.routing.strategy import (
    Referring,
    Start,
    choose_for_wanted,
    choose_nobody,
    choose_unknown_document,
    explore_roster,
    score_by_best,
    stop_when_nothing_is_wanted,
    stop_when_settled,
    strategy_from,
)
from zerorag_p2p.routing.walk import MAX_WANTED
from zerorag_p2p.simulation import arrays, kernel, peer_state
from zerorag_p2p.simulation.randomness import NEIGHBOR_STREAM, SplitMix, draw, stream_starts
from zerorag_p2p.simulation.similarities import SimilarityTables
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.plan import CrashPeers, IntroduceTopic, Plan, ReplacePeer, Step
from zerorag_p2p.workloads.query_sizes import QuerySizes
from zerorag_p2p.workloads.scenario import Scenario
from zerorag_p2p.workloads.sketches import sketched_places
from zerorag_p2p.workloads.workload import Workload

#: Called with the number of questions that are over, and of all.
OnProgress: TypeAlias = Callable[[int, int], None]

#: Questions between two reports of progress.
_CHUNK: Final = 20_000

#: Documents that a set of bits tells apart.
_BITS: Final = 64

_STARTS: Final = {
    Start.OWN_STATE_FIRST: arrays.OWN_STATE,
    Start.PAPER: arrays.NEIGHBORS,
    Start.ROSTER: arrays.ROSTER,
}


@dataclass(frozen=True, slots=True)
class _Detection:
    """Everybody learns that these peers are gone, before the question of this number."""

    before: int
    peers: tuple[int, ...]


class VectorisedSimulation:
    """One run of a scenario.

    Attributes:
        peers: State of the peers.
        outcomes: What became of the questions, as the kernel notes it.

    Args:
        scenario: Algorithm, seed and timeline.
        plan: What `make_plan` made of the scenario and its workload.
        traced: Whether `outcomes` says whom every question went to and who was referred to.
        id_order: Position of each peer among all, in the order of the texts of their ids; without
            it, peers are in the order of their numbers.

    Raises:
        UsageError: The scenario needs what this simulator does not have.
    """

    def __init__(
        self,
        scenario: Scenario,
        plan: Plan,
        *,
        traced: bool = False,
        id_order: Sequence[int] | None = None,
    ) -> None:
        self._scenario = scenario
        self._workload = plan.workload
        self._steps: list[Step | _Detection] = list(plan.steps)
        self._introduced = sorted(plan.introduced)
        self._rules = _rules(scenario)
        newcomers = sum(isinstance(step, ReplacePeer) for step in plan.steps)
        self.peers = _make_peers(scenario, plan, newcomers, id_order)
        self._count = len(plan.workload.holdings)
        self._members = np.arange(self._count, dtype=np.int32)
        self._neighbor_draws = SplitMix(scenario.seed, NEIGHBOR_STREAM)
        self.outcomes = _make_outcomes(plan.workload, self._rules, traced=traced)
        events = plan.workload.events
        introduced = np.full(len(plan.workload.documents), arrays.NOBODY, dtype=np.int32)
        introduced[self._introduced] = np.arange(len(self._introduced))
        rows = np.zeros(len(events), dtype=arrays.QUESTION)
        rows["stream"] = stream_starts(scenario.seed, len(events))
        rows["place"] = events.peers
        rows["query"] = events.queries
        rows["document"] = events.documents
        self._questions = arrays.Questions(rows=rows, introduced=introduced)
        self._tables = SimilarityTables(plan.workload, scenario.routing.advertisement_bits)
        self._world = arrays.World(
            rules=self._rules,
            similarities=self._tables.current,
            peers=self.peers,
            questions=self._questions,
            outcomes=self.outcomes,
            scratch=_make_scratch(self.peers, self._rules, len(plan.workload.documents)),
        )
        self._find_neighbors(range(self._count))

    def run(self, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of the workload. A simulation runs once."""
        events = len(self._workload.events)
        asked = 0
        while asked < events:
            while self._steps and self._steps[0].before <= asked:
                self._take(self._steps.pop(0))
            end = min(events, asked + _CHUNK)
            if self._steps:
                end = min(end, self._steps[0].before)
            asked = self.ask(asked, end)
            if on_progress is not None:
                on_progress(asked, events)
        return self._table()

    def ask(self, first: int, end: int) -> int:
        """Ask the questions from `first` to before `end`, whatever the timeline says.

        Returns:
            Before which question it ended: the tables of similarities may have no room for more.
        """
        rows = self._questions.rows
        entries = self._tables.cover(rows["query"][first:end])
        end = first + len(entries)
        rows["entry"][first:end] = entries
        self._world = self._world._replace(similarities=self._tables.current)
        kernel.ask_all(self._world, self._members, first, end)
        return end

    @property
    def similarities(self) -> arrays.Similarities:
        """What the kernel reads now."""
        return self._tables.current

    # The timeline.

    def _take(self, step: Step | _Detection) -> None:
        match step:
            case CrashPeers(before=before, peers=places):
                self._crash(before, places)
            case _Detection(peers=peers):
                self._detect(peers)
            case ReplacePeer(peer=place):
                self._replace(place)
            case IntroduceTopic(documents=documents, owners=owners):
                self._introduce(documents, owners)
            case _:
                raise UsageError(
                    "the vectorised simulator has no partitions; run this scenario on the event "
                    "simulator or a testnet"
                )

    def _crash(self, before: int, places: Sequence[int]) -> None:
        peers = [int(self.peers.at_place[place]) for place in places]
        peers = [peer for peer in peers if self.peers.state[peer]["up"]]
        for peer in peers:
            self.peers.state[peer]["up"] = False
            held = self.peers.held[peer, 1 : 1 + self.peers.held[peer, 0]]
            self.peers.holders[held] -= 1
        network = self._scenario.network
        delay = round(network.detection_s * network.queries_per_s)
        self._steps.append(_Detection(before + delay, tuple(peers)))
        self._steps.sort(key=lambda step: (step.before, not isinstance(step, _Detection)))

    def _detect(self, crashed: Sequence[int]) -> None:
        departed = np.full(len(self.peers.state), arrays.NOBODY, dtype=np.int32)
        departed[list(crashed)] = np.arange(len(crashed))
        self.peers.state["gone"][list(crashed)] = 1
        self._members = self._members[departed[self._members] == arrays.NOBODY]
        gone = np.zeros(self.peers.table.shape[1], dtype=np.int32)
        kept = np.zeros((2, self.peers.memory_query.shape[1]), dtype=np.int32)
        peer_state.forget_departed(self.peers, departed, gone, kept)
        self._find_neighbors(
            peer for peer in self.peers.at_place.tolist() if self.peers.state[peer]["up"]
        )

    def _replace(self, place: int) -> None:
        newcomer = self._count
        self._count += 1
        _take_holdings(self.peers, newcomer, self._workload.holdings[place])
        self.peers.state[newcomer]["place"] = place
        self.peers.at_place[place] = newcomer
        self._members = np.append(self._members, np.int32(newcomer))
        self._find_neighbors([newcomer])

    def _introduce(self, documents: Iterable[int], owners: Iterable[int]) -> None:
        for place in owners:
            owner = int(self.peers.at_place[place])
            for document in documents:
                number = self._questions.introduced[document]
                if not peer_state.holds(self.peers, owner, document):
                    peer_state.hold(self.peers, owner, document)
                    self.peers.chain[owner, number] = 1

    def _find_neighbors(self, peers: Iterable[int]) -> None:
        """While a peer has few neighbours, random members become its neighbours."""
        wanted, limit = self._scenario.routing.initial_neighbors, self.peers.neighbors.shape[1]
        pairs: list[tuple[int, int]] = []
        for peer in peers:
            count = int(self.peers.state[peer]["neighbor_count"])
            missing = wanted - count
            if missing <= 0:
                continue
            known = {peer, *self.peers.neighbors[peer, :count].tolist()}
            positions = draw(range(len(self._members)), missing + count + 1, self._neighbor_draws)
            drawn = self._members[positions].tolist()
            new = [other for other in drawn if other not in known][:missing]
            pairs += [(peer, other) for other in new[-limit:]]
        peer_state.add_neighbors(self.peers, np.array(pairs, dtype=np.int32).reshape(-1, 2))

    # The figures.

    def _table(self) -> OutcomeTable:
        rows = self.outcomes.rows
        asked = np.flatnonzero(rows["asked"])
        rows = rows[asked]
        adopted = rows["new_neighbor"] != arrays.NOBODY
        routing = self._scenario.routing
        sizes = QuerySizes.measure(
            self._workload.fingerprint,
            k=routing.k,
            bits=routing.advertisement_bits,
            telling=self._rules.wants,
        )

        def bytes_of(column: str, size: int) -> NDArray[np.int64]:
            return rows[column].astype(np.int64) * size

        return OutcomeTable(
            events=asked,
            answerable=rows["holders"] > 0,
            hit=rows["requests_to_target"] > 0,
            recall_at_1=rows["recall_at_1"] > 0,
            recall_at_5_exact=None if self._rules.stops_at_target else rows["recall_at_5"],
            requests_to_target=rows["requests_to_target"],
            contacts=rows["contacts"],
            rounds=rows["rounds"] if self._scenario.rounds else None,
            failures=rows["failures"],
            messages=rows["contacts"] + rows["replies"] + 2 * adopted + 2 * rows["fetched"],
            bytes=bytes_of("contacts", sizes.request)
            + bytes_of("have", sizes.have)
            + bytes_of("more_evidence", sizes.evidence)
            + bytes_of("replies", sizes.empty_result)
            + bytes_of("documents", sizes.document)
            + bytes_of("referrals", sizes.referral)
            + bytes_of("advertised", sizes.advertised)
            + adopted * sizes.empty_advertisement,
            holders=rows["holders"],
            results=self.outcomes.found[asked],
        )


def _rules(scenario: Scenario) -> arrays.Rules:
    routing, network = scenario.routing, scenario.network
    if network.loss:
        raise UsageError("the vectorised simulator loses no messages: set network.loss to 0")
    strategy = strategy_from(routing)
    if strategy.fanout > 1 and not scenario.rounds:
        raise UsageError("the vectorised simulator asks in rounds: set rounds = true")
    known = KNOWN_PER_WANTED * routing.k
    by_document = strategy.referring is Referring.BEST_DOCUMENTS
    if by_document and known > _BITS:
        raise UsageError(
            f"the vectorised simulator starts from at most {_BITS} documents: lower routing.k to "
            f"{_BITS // KNOWN_PER_WANTED}"
        )
    settles, wants = strategy.stop is stop_when_settled, strategy.choose_next is choose_for_wanted
    return arrays.Rules(
        start=_STARTS[strategy.start],
        scored=strategy.score is score_by_best,
        adaptive=strategy.choose_neighbor is not choose_nobody,
        explores=strategy.explore is explore_roster,
        settles=settles,
        by_document=by_document,
        evidence=not by_document and (settles or wants),
        wants=wants,
        completes=strategy.stop is stop_when_nothing_is_wanted,
        adopts_unknown=strategy.choose_neighbor is choose_unknown_document,
        stops_at_target=scenario.stop_at_target,
        k=routing.k,
        budget=routing.contact_budget,
        fanout=strategy.fanout,
        referrals=routing.referral_limit,
        memory_referrals=strategy.memory_referral_limit if by_document else 0,
        remembers=strategy.uses_memory,
        margin=routing.margin,
        known=known,
        patience=strategy.patience,
        draws=2 * routing.contact_budget + 1,
        longest_chain=MAX_CHAIN_LINKS,
    )


def _make_peers(
    scenario: Scenario, plan: Plan, newcomers: int, id_order: Sequence[int] | None
) -> arrays.Peers:
    workload, routing = plan.workload, scenario.routing
    places = len(workload.holdings)
    count = places + newcomers
    numbers = routing.memory_limit + routing.neighbor_limit + 1
    if numbers > np.iinfo(np.int16).max:
        raise UsageError(
            "the vectorised simulator keeps at most 32,766 remembered queries and neighbours a "
            "peer: lower routing.memory_limit"
        )
    most = int(np.diff(workload.holdings.starts).max(initial=0)) + len(plan.introduced)
    if routing.advertisement_limit < most:
        raise UsageError(
            f"the vectorised simulator advertises every document, and a peer has {most}: raise "
            f"routing.advertisement_limit from {routing.advertisement_limit}"
        )
    # Zeros are pages that the system hands out when they are first written to, which most of them
    # never are.
    peers = arrays.Peers(
        at_place=np.arange(places, dtype=np.int32),
        sketches=sketched_places(
            workload,
            strategy_from(routing).sketch_limit,
            near_share=routing.sketch_near_share,
            seed=scenario.seed,
        ),
        state=np.zeros(count, dtype=arrays.PEER),
        held=np.zeros((count, 1 + most), dtype=np.int32),
        chain=np.zeros((count, len(plan.introduced)), dtype=np.int8),
        neighbors=np.zeros((count, routing.neighbor_limit), dtype=np.int32),
        neighbor_number=np.zeros((count, routing.neighbor_limit), dtype=np.int16),
        memory_query=np.zeros((count, routing.memory_limit), dtype=np.uint32),
        memory_number=np.zeros((count, routing.memory_limit), dtype=np.uint16),
        table=np.zeros((count, numbers), dtype=np.int32),
        references=np.zeros((count, numbers), dtype=np.int16),
        free=np.zeros((count, numbers), dtype=np.int16),
        holders=np.zeros(len(workload.documents), dtype=np.int32),
    )
    peers.state["id_order"] = np.arange(count) if id_order is None else id_order
    peers.state["place"][:places] = np.arange(places)
    for place, documents in enumerate(workload.holdings):
        _take_holdings(peers, place, documents)
    return peers


def _take_holdings(peers: arrays.Peers, peer: int, documents: Sequence[int]) -> None:
    peers.state[peer]["up"] = 1
    peers.held[peer, 0] = len(documents)
    peers.held[peer, 1 : 1 + len(documents)] = documents
    peers.holders[list(documents)] += 1


def _make_outcomes(workload: Workload, rules: arrays.Rules, *, traced: bool) -> arrays.Outcomes:
    count = len(workload.events)

    def trace(width: int) -> NDArray[np.int32]:
        return np.full((count, width if traced else 0), arrays.NOBODY, dtype=np.int32)

    rows = np.zeros(count, dtype=arrays.OUTCOME)
    rows["new_neighbor"] = arrays.NOBODY
    return arrays.Outcomes(
        rows=rows,
        visited=trace(rules.budget),
        referred=trace(rules.budget * (rules.referrals + rules.memory_referrals)),
        found=np.full((count, rules.k), arrays.NOBODY, dtype=np.int32),
    )


def _make_scratch(peers: arrays.Peers, rules: arrays.Rules, documents: int) -> arrays.Scratch:
    count = len(peers.state)
    referrals = rules.referrals + rules.memory_referrals
    first = rules.known * MAX_HOLDERS if rules.by_document else 0
    heard = first + (rules.budget + 1) * referrals
    candidates = min(count, peers.neighbors.shape[1] + rules.draws + heard)
    return arrays.Scratch(
        walk=np.zeros(1, dtype=arrays.WALK),
        candidates=np.zeros(candidates, dtype=arrays.CANDIDATE),
        seen=_never_seen(count),
        asked=np.zeros(rules.fanout, dtype=np.int32),
        drawn=np.zeros(rules.draws, dtype=np.int32),
        order=np.zeros(max(rules.draws, peers.neighbors.shape[1]), dtype=np.int32),
        result=np.zeros(rules.k, dtype=arrays.FOUND),
        best=np.zeros(peers.table.shape[1], dtype=np.float32),
        referrals=np.zeros(first + referrals, dtype=arrays.REFERRAL),
        reply=np.zeros(rules.k, dtype=np.int32),
        told=np.zeros(rules.k, dtype=arrays.FOUND),
        promises=np.zeros(documents, dtype=arrays.PROMISE),
        promise_of=_never_seen(documents),
        pairs=np.zeros(heard, dtype=arrays.PAIR),
        offers=np.zeros(candidates, dtype=arrays.OFFER),
        wanted=np.zeros(MAX_WANTED, dtype=np.int32),
        sure=np.zeros(rules.k, dtype=np.float64),
        documents=np.zeros(max(rules.known, rules.referrals), dtype=arrays.ADVERTISED),
        knows=np.zeros(peers.sketches.shape[1] + peers.neighbors.shape[1], dtype=arrays.KNOWN),
        holders=np.zeros(MAX_HOLDERS, dtype=np.int32),
    )


def _never_seen(count: int) -> NDArray[np.void]:
    seen = np.zeros(count, dtype=arrays.SEEN)
    seen["question"] = arrays.NOBODY
    return seen
