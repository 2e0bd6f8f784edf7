"""Running a scenario on a testnet: every peer a whole node, every message real frames.

The same scenario files run on the event simulator (`simulation`), at more peers and repeatable to
the byte. Here a seed fixes the workload, the plan and the keys, but not the order in which trio
runs tasks, so several seeds are run and their spread is stated (`summarise`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import trio

from zerorag_p2p.config import NodeConfig
from zerorag_p2p.errors import NetworkError
from zerorag_p2p.model import PeerId, SharingTerms
from zerorag_p2p.node.process import return_large_memory
from zerorag_p2p.node.reports import DocumentStatus, QueryProgress, QueryReport
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.routing.walk import Walk
from zerorag_p2p.testnet.faults import Conditions
from zerorag_p2p.testnet.testnet import CONFIG, Testnet, TestnetNode
from zerorag_p2p.testnet.virtual_time import run_in_virtual_time
from zerorag_p2p.wire.embedding import transmitted
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
    make_plan,
)
from zerorag_p2p.workloads.results import (
    Json,
    make_result,
    mean_metrics,
    spread_of_metrics,
)
from zerorag_p2p.workloads.scenario import NetworkModel, Scenario
from zerorag_p2p.workloads.workload import QueryEvent, Workload

#: Told how many of how many questions have been asked.
OnProgress: TypeAlias = Callable[[int, int], None]

SYSTEM: Final = "testnet on trio"
_TARGET_FOUND: Final = "the target was found"

#: Time that a node has to find its first neighbours before anybody asks.
_SETTLING_S: Final = 10.0

#: Documents may be copied and shared again; only those that a scenario introduces are copied.
_SHARING: Final = Sharing(terms=SharingTerms(copy=True, reshare=True))

#: Documents of the exact search that a result is compared with.
_EXACT_K: Final = 5


async def run_scenario(
    scenario: Scenario, workload: Workload, on_progress: OnProgress | None = None
) -> Json:
    """Run a scenario once; its result in the format of result files.

    Args:
        scenario: The scenario, its seed and its number of peers.
        workload: Its workload, for as many peers.
        on_progress: Called after every question.
    """
    plan = make_plan(scenario, workload)
    testnet = Testnet(
        plan.workload,
        config=_config(scenario),
        conditions=_conditions(scenario.network),
        seed=scenario.seed,
        sharing=_SHARING,
    )
    began, virtual = time.monotonic(), trio.current_time()
    async with testnet.running():
        run = _Run(scenario, plan, testnet, on_progress or (lambda *_: None))
        await run.run()
    outcomes = sorted(run.outcomes, key=lambda outcome: outcome.event)
    return {
        **make_result(scenario, plan, outcomes, system=SYSTEM),
        "virtual_s": round(trio.current_time() - virtual, 3),
        "wall_s": round(time.monotonic() - began, 3),
    }


def run_on_testnet(
    scenario: Scenario, workload: Workload, on_progress: OnProgress | None = None
) -> Json:
    """`run_scenario` in virtual time, for those who are not on trio."""
    return_large_memory()
    return run_in_virtual_time(run_scenario, scenario, workload, on_progress)


def summarise(results: Sequence[Json]) -> Json:
    """One result for runs of a scenario over several seeds: the means, and how far they spread.

    `spread` has for every metric the smallest and largest value and the standard deviation,
    `spread_by_tenth` the same for each tenth of the run; `runs` has every run whole.
    """
    first = results[0]
    if len(results) == 1:
        return dict(first)
    tenths = list(zip(*(result["by_tenth"] for result in results), strict=True))
    metrics = [result["metrics"] for result in results]
    return {
        **{key: first[key] for key in ("name", "system", "workload", "peers", "seed", "settings")},
        "seeds": [result["seed"] for result in results],
        "metrics": mean_metrics(metrics),
        "by_tenth": [mean_metrics(tenth) for tenth in tenths],
        "spread": spread_of_metrics(metrics),
        "spread_by_tenth": [spread_of_metrics(tenth) for tenth in tenths],
        "wall_s": round(sum(result["wall_s"] for result in results), 3),
        "runs": [{**result, "variant": f"seed {result['seed']}"} for result in results],
    }


def _conditions(model: NetworkModel) -> Conditions:
    return Conditions(
        latency_s=model.latency_ms / 1000, jitter_s=model.jitter_ms / 1000, loss=model.loss
    )


def _config(scenario: Scenario) -> NodeConfig:
    """What a scenario says of its network, as settings of a node."""
    model = scenario.network
    refresh_s = max(model.refresh_s, 1.0)
    network = replace(
        CONFIG.network,
        dial_timeout_s=model.timeout_s,
        request_timeout_s=model.timeout_s,
        # A walk that is not cut short, even if every peer it asks is silent.
        query_timeout_s=2 * model.timeout_s * scenario.routing.contact_budget,
        maintenance_interval_s=2.0,
        advertisement_refresh_s=refresh_s,
        connection_idle_s=1.5 * refresh_s,
        departed_after_s=model.detection_s,
        max_connections=2 * scenario.peers,
    )
    # Half as often as production nodes: the work of gossip would exceed that of the questions.
    membership = replace(CONFIG.membership, exchange_interval_s=10.0, ping_interval_s=10.0)
    return replace(CONFIG, routing=scenario.routing, network=network, membership=membership)


@dataclass(slots=True)
class _Run:
    """A scenario under way. Peers are positions in the workload, as in the plan."""

    scenario: Scenario
    plan: Plan
    testnet: Testnet
    on_progress: OnProgress
    outcomes: list[QueryOutcome] = field(default_factory=list)
    _nodes: list[TestnetNode] = field(default_factory=list)
    _positions: dict[PeerId, int] = field(default_factory=dict)
    _down: set[int] = field(default_factory=set)
    _holders: list[set[int]] = field(default_factory=list)
    _introduced: frozenset[int] = frozenset()

    async def run(self) -> None:
        """Ask every question in its time, and do what the plan says in between."""
        workload, model = self.plan.workload, self.scenario.network
        self._introduced = self.plan.introduced
        self._nodes = list(self.testnet.nodes.values())
        self._positions = {node.peer_id: number for number, node in enumerate(self._nodes)}
        self._holders = [set() for _ in workload.documents]
        for position, documents in enumerate(workload.holdings):
            for document in documents:
                self._holders[document].add(position)
        randomness = random.Random(f"arrivals {self.scenario.seed}")
        self._skew_clocks(randomness)
        await trio.sleep(_SETTLING_S)
        steps = list(self.plan.steps)
        async with trio.open_nursery() as nursery:
            for number, event in enumerate(workload.events):
                while steps and steps[0].before <= number:
                    await self._take(steps.pop(0))
                if model.queries_per_s:
                    await trio.sleep(randomness.expovariate(model.queries_per_s))
                    nursery.start_soon(self._ask, number, event)
                else:
                    await self._ask(number, event)
                self.on_progress(number + 1, len(workload.events))

    def _skew_clocks(self, randomness: random.Random) -> None:
        most = self.scenario.network.clock_skew_s
        if most:
            for node in self._nodes:
                node.clock_skew_s = randomness.uniform(-most, most)

    # What happens between questions.

    async def _take(self, step: Step) -> None:
        match step:
            case CrashPeers(peers=peers):
                for peer in peers:
                    self._set_down(peer)
                names = [self._nodes[peer].name for peer in peers]
                await self.testnet.kill(*names, keep_state=False)
            case ReplacePeer(peer=peer):
                (node,) = await self.testnet.join([self.plan.workload.holdings[peer]])
                self._nodes[peer] = node
                self._positions[node.peer_id] = peer
                self._set_up(peer)
            case IntroduceTopic(documents=documents, owners=owners):
                for owner in owners:
                    holdings = self._nodes[owner].holdings
                    holdings.own(documents, "topic")
                    holdings.share("topic", _SHARING)
                    self._set_up(owner)
            case SplitPeers(groups=groups):
                self.testnet.partition(
                    [[self._nodes[peer].name for peer in group] for group in groups]
                )
            case ReunitePeers():
                self.testnet.heal()

    def _set_down(self, peer: int) -> None:
        self._down.add(peer)
        for holders in self._holders:
            holders.discard(peer)

    def _set_up(self, peer: int) -> None:
        self._down.discard(peer)
        holdings = self._nodes[peer].holdings
        for document, holders in enumerate(self._holders):
            if document in holdings:
                holders.add(peer)

    # Questions.

    async def _ask(self, number: int, event: QueryEvent) -> None:
        asker = event.peer
        holders = self._holders[event.document]
        introduced = event.document in self._introduced
        if asker in self._down or (introduced and asker in holders):
            return
        remote = len(holders) - (asker in holders)
        others = len(self._nodes) - len(self._down) - 1
        fetches = 0

        def count(progress: QueryProgress) -> None:
            nonlocal fetches
            fetches += progress.event == "fetch"

        workload = self.plan.workload
        embedding = transmitted(workload.query_vectors[event.query])
        exact = None if self.scenario.stop_at_target else self._exact(embedding, asker)
        node = self._nodes[asker]
        try:
            report = await self.testnet.query(
                node.name,
                workload.queries[event.query],
                embedding,
                stop=self._stop_at(event.document) if self.scenario.stop_at_target else None,
                on_progress=count,
            )
        except NetworkError:
            return  # it crashed
        self._keep_copies(node, asker, report)
        self.outcomes.append(
            self._outcome(
                number,
                event,
                report,
                remote=remote,
                fetches=fetches,
                exact=exact,
                random_hit=random_hit(others, remote, self.scenario.routing.contact_budget),
            )
        )

    def _outcome(
        self,
        number: int,
        event: QueryEvent,
        report: QueryReport,
        *,
        remote: int,
        fetches: int,
        exact: frozenset[str] | None,
        random_hit: float,
    ) -> QueryOutcome:
        answered = [contact.outcome == "answered" for contact in report.contacts]
        requests_to_target = next(
            (
                position
                for position, contact in enumerate(report.contacts, start=1)
                if answered[position - 1] and self._holds(contact.peer, event.document)
            ),
            None,
        )
        found = [document.content_hash for document in report.documents]
        target = self.testnet.table.hashes[event.document]
        return QueryOutcome(
            event=number,
            introduced=event.document in self._introduced,
            answerable=remote > 0,
            hit=requests_to_target is not None,
            recall_at_1=found[:1] == [target],
            recall_at_5_exact=(
                len(exact.intersection(found[:_EXACT_K])) / len(exact) if exact else None
            ),
            requests_to_target=requests_to_target,
            contacts=len(answered),
            failures=answered.count(False),
            messages=2 * (len(answered) + fetches + (report.new_neighbor is not None))
            - answered.count(False),
            bytes=report.bytes_sent + report.bytes_received,
            random_hit=random_hit,
        )

    def _holds(self, peer: PeerId, document: int) -> bool:
        return self._positions[peer] in self._holders[document]

    def _stop_at(self, document: int) -> Callable[[Walk], str | None]:
        """The paper's rule: a peer that holds the document has answered."""

        def stop(walk: Walk) -> str | None:
            found = any(
                step.outcome == "answered" and self._holds(step.peer, document)
                for step in reversed(walk.steps)
            )
            return _TARGET_FOUND if found else None

        return stop

    def _exact(self, embedding: np.ndarray[Any, Any], asker: int) -> frozenset[str]:
        """The best documents of everybody else, by comparing with every one."""
        table = self.testnet.table
        remote = np.array([len(holders - {asker}) > 0 for holders in self._holders])
        scores = np.where(remote, table.vectors @ embedding, -np.inf)
        best = np.argsort(-scores, kind="stable")[: min(_EXACT_K, int(remote.sum()))]
        return frozenset(table.hashes[document] for document in best.tolist())

    def _keep_copies(self, node: TestnetNode, asker: int, report: QueryReport) -> None:
        """Keep what was fetched of an introduced topic, as far as its terms allow."""
        if not self._introduced:
            return
        for found in report.documents:
            document = self.testnet.table.number(found.content_hash)
            if (
                document in self._introduced
                and found.status is DocumentStatus.VERIFIED
                and document not in node.holdings
                and keep_copy(
                    node.holdings,
                    node.identity,
                    found.content_hash,
                    found.attribution,
                    self.testnet.now() + node.clock_skew_s,
                )
            ):
                self._holders[document].add(asker)
