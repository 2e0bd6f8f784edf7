"""A scenario put into practice: which peers do what, before which question.

A plan is drawn once, from the scenario's seed, so that every world that runs a scenario runs the
same one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.scenario import (
    Crash,
    Heal,
    Introduce,
    Partition,
    Replace,
    Scenario,
)
from zerorag_p2p.workloads.workload import Events, PeerDocuments, QueryEvent, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPeers:
    """These peers stop, without a word, just before the event of number `before`."""

    before: int
    peers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePeer:
    """A newcomer takes the place of the crashed `peer` in the workload.

    It holds the same documents and asks the same questions, under an identity of its own and
    without any state.
    """

    before: int
    peer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntroduceTopic:
    """`owners` get `documents`, each as an owner of its own; terms allow copies and resharing.

    From then on, whoever finds one of `documents` fetches it and keeps a copy
    (`workloads.copies.keep_copy`).
    """

    before: int
    topic: str
    documents: tuple[int, ...]
    owners: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPeers:
    """Peers of one group cannot reach those of another any more."""

    before: int
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReunitePeers:
    """Every peer can reach every other again."""

    before: int


Step: TypeAlias = CrashPeers | ReplacePeer | IntroduceTopic | SplitPeers | ReunitePeers


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        workload: The workload; documents to be introduced later are in nobody's holdings.
        steps: What happens between the questions, in order. A peer that is down when its question
            is due does not ask it; one that holds the document asked for does not either if the
            document is one that was introduced.
    """

    workload: Workload
    steps: tuple[Step, ...] = ()

    @property
    def introduced(self) -> frozenset[int]:
        """Documents that nobody holds at first."""
        return frozenset(
            document
            for step in self.steps
            if isinstance(step, IntroduceTopic)
            for document in step.documents
        )


def make_plan(scenario: Scenario, workload: Workload) -> Plan:
    """Draw what the timeline of a scenario leaves open.

    Raises:
        UsageError: The workload has no topic of the size to be introduced.
    """
    drawing = _Drawing(random.Random(f"plan {scenario.seed}"), workload)
    for entry in scenario.timeline:
        match entry:
            case Crash():
                drawing.crash(entry)
            case Replace():
                drawing.replace(entry)
            case Introduce():
                drawing.introduce(entry)
            case Partition():
                drawing.partition(entry)
            case Heal():
                drawing.steps.append(ReunitePeers(before=drawing.position(entry.at)))
    steps = sorted(drawing.steps, key=lambda step: step.before)
    return Plan(drawing.workload, tuple(steps))


@dataclass
class _Drawing:
    """A plan in the making; `down` are peers crashed and not replaced so far."""

    randomness: random.Random
    workload: Workload
    steps: list[Step] = field(default_factory=list)
    down: set[int] = field(default_factory=set)

    def position(self, at: float) -> int:
        return round(at * len(self.workload.events))

    def _up(self) -> list[int]:
        return [peer for peer in range(len(self.workload.holdings)) if peer not in self.down]

    def crash(self, entry: Crash) -> None:
        up = self._up()
        peers = sorted(self.randomness.sample(up, round(entry.share * len(up))))
        self.down.update(peers)
        self.steps.append(CrashPeers(before=self.position(entry.at), peers=tuple(peers)))

    def replace(self, entry: Replace) -> None:
        peers = sorted(self.down)
        self.randomness.shuffle(peers)
        self.down.clear()
        for number, peer in enumerate(peers, start=1):
            at = entry.at + (entry.until - entry.at) * number / len(peers)
            self.steps.append(ReplacePeer(before=self.position(at), peer=peer))

    def introduce(self, entry: Introduce) -> None:
        topic, documents = self._draw_topic(entry.documents)
        owners = tuple(sorted(self.randomness.sample(self._up(), entry.owners)))
        self.workload = _without(self.workload, documents)
        before = self.position(entry.at)
        others = [peer for peer in range(len(self.workload.holdings)) if peer not in set(owners)]
        questions = _questions_about(documents, self.workload)
        events = list(self.workload.events)
        for number in range(before, len(events)):
            if others and self.randomness.random() < entry.questions:
                query, document = self.randomness.choice(questions)
                events[number] = QueryEvent(self.randomness.choice(others), query, document)
        self.workload = replace(self.workload, events=Events.of(events))
        self.steps.append(
            IntroduceTopic(before=before, topic=topic, documents=documents, owners=owners)
        )

    def _draw_topic(self, size: int) -> tuple[str, tuple[int, ...]]:
        topics: dict[str, list[int]] = {}
        for number, document in enumerate(self.workload.documents):
            for topic in document.topics:
                topics.setdefault(topic, []).append(number)
        fitting = sorted(topic for topic, documents in topics.items() if len(documents) == size)
        if not fitting:
            raise UsageError(
                f"the workload {self.workload.name!r} has no topic of exactly {size} documents"
            )
        topic = self.randomness.choice(fitting)
        return topic, tuple(topics[topic])

    def partition(self, entry: Partition) -> None:
        peers = list(range(len(self.workload.holdings)))
        self.randomness.shuffle(peers)
        groups = tuple(
            tuple(sorted(peers[number :: entry.groups])) for number in range(entry.groups)
        )
        self.steps.append(SplitPeers(before=self.position(entry.at), groups=groups))


def _without(workload: Workload, documents: Sequence[int]) -> Workload:
    """The workload before `documents` were known to anybody."""
    gone = frozenset(documents)
    return replace(
        workload,
        holdings=PeerDocuments.of(
            [document for document in held if document not in gone] for held in workload.holdings
        ),
        events=Events.of(event for event in workload.events if event.document not in gone),
    )


def _questions_about(documents: Sequence[int], workload: Workload) -> list[tuple[int, int]]:
    """Every (query, document) of the workload about `documents`."""
    wanted = frozenset(documents)
    return [
        (query, document) for query, document in enumerate(workload.answers) if document in wanted
    ]
