"""Scenario files, and the plans drawn from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from zerorag_p2p.errors import ConfigError, UsageError
from zerorag_p2p.workloads.plan import CrashPeers, IntroduceTopic, ReplacePeer, make_plan
from zerorag_p2p.workloads.scenario import (
    Crash,
    Heal,
    Introduce,
    Partition,
    Replace,
    Scenario,
    list_scenarios,
    load_scenario,
    parse_scenario,
)
from zerorag_p2p.workloads.source import load_workload
from zerorag_p2p.workloads.synthetic import synthetic_workload

HEAD = 'name = "test"\nshows = "a test"\n'
PEERS = 40


def scenario(*timeline: object, **changes: object) -> Scenario:
    base = Scenario(name="test", shows="a test", peers=PEERS, draws=10)
    return replace(base, timeline=timeline, **changes)  # type: ignore[arg-type]


WORKLOAD = synthetic_workload(peers=PEERS, seed=1, draws=10)


def test_every_shipped_scenario_can_be_read_and_says_what_it_shows() -> None:
    scenarios = list_scenarios()
    assert {"churn", "new-topic"} <= {item.name for item in scenarios}
    for item in scenarios:
        assert item.shows.endswith(".")
        assert load_scenario(item.name) == item


def test_a_scenario_says_all_that_matters() -> None:
    read = parse_scenario(
        HEAD
        + """
        peers = 10
        [routing]
        start = "paper"
        [network]
        latency_ms = 7
        loss = 0.1
        [[timeline]]
        at = 0.25
        action = "crash"
        share = 0.5
        [[timeline]]
        at = 0.5
        action = "partition"
        """
    )
    assert read.routing.start == "paper"
    assert read.network.latency_ms == 7.0
    assert read.timeline == (Crash(at=0.25, share=0.5), Partition(at=0.5))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no 'name'"),
        ("name =", "not valid TOML"),
        (HEAD + "speed = 3", "unknown setting 'speed'"),
        (HEAD + 'workload = "books"', "'books' is unknown; known: pubmedqa, synthetic"),
        (HEAD + "peers = 1", "peers is too small"),
        (HEAD + "[routing]\nk = 0", "'routing.k' has to be from 1"),
        (HEAD + "[network]\nloss = 1.0", "loss has to be below 1"),
        (HEAD + "[network]\nlatency_ms = -1", "latency_ms is negative"),
        (HEAD + "timeline = 3", "'timeline' has to be a list"),
        (HEAD + "[[timeline]]\nat = 0.5", "action = None is unknown"),
        (HEAD + '[[timeline]]\naction = "crash"\nat = 0.5', "'crash' lacks a setting"),
        (HEAD + '[[timeline]]\naction = "heal"\nat = 2', "at has to be from 0 to 1"),
        (HEAD + '[[timeline]]\naction = "crash"\nat = 0.1\nshare = 1.0', "share has to be"),
        (HEAD + '[[timeline]]\naction = "introduce"\nat = 0.1\nowners = 0', "owners has to be"),
        (
            HEAD + '[[timeline]]\naction="heal"\nat=0.5\n[[timeline]]\naction="heal"\nat=0.4',
            "not in order",
        ),
    ],
)
def test_a_malformed_scenario_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint.replace("(", r"\(")):
        parse_scenario(text)


def test_an_unknown_scenario_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"known: .*churn"):
        load_scenario("earthquake")
    file = tmp_path / "own.toml"
    file.write_text(HEAD)
    assert load_scenario(str(file)).name == "test"


def test_those_that_crash_are_replaced_once_each() -> None:
    plan = make_plan(scenario(Crash(at=0.5, share=0.5), Replace(at=0.5, until=1.0)), WORKLOAD)
    crash, *replacements = plan.steps
    events = len(WORKLOAD.events)
    assert isinstance(crash, CrashPeers)
    assert crash.before == events // 2
    assert len(set(crash.peers)) == PEERS // 2
    replaced = [step.peer for step in replacements if isinstance(step, ReplacePeer)]
    assert sorted(replaced) == list(crash.peers)
    assert [step.before for step in plan.steps] == sorted(step.before for step in plan.steps)
    assert plan.steps[-1].before == events


def test_a_new_topic_is_unknown_before_and_popular_after() -> None:
    plan = make_plan(scenario(Introduce(at=0.6, owners=3)), WORKLOAD)
    (step,) = plan.steps
    assert isinstance(step, IntroduceTopic)
    assert len(step.documents) == 10
    assert len(step.owners) == 3
    assert plan.introduced == frozenset(step.documents)
    assert not any(plan.introduced & set(held) for held in plan.workload.holdings)
    before = plan.workload.events[: step.before]
    after = plan.workload.events[step.before :]
    assert not any(event.document in plan.introduced for event in before)
    asked = [event for event in after if event.document in plan.introduced]
    assert 0.3 < len(asked) / len(after) < 0.7
    assert not any(event.peer in step.owners for event in asked)
    for event in asked:
        assert plan.workload.answers[event.query] == event.document


def test_a_plan_depends_on_the_seed_alone() -> None:
    timeline = (Crash(at=0.2, share=0.3), Introduce(at=0.6, owners=2), Heal(at=0.9))
    assert make_plan(scenario(*timeline), WORKLOAD) == make_plan(scenario(*timeline), WORKLOAD)
    assert (
        make_plan(scenario(*timeline), WORKLOAD).steps
        != make_plan(scenario(*timeline, seed=2), WORKLOAD).steps
    )


def test_a_topic_of_another_size_is_missed() -> None:
    with pytest.raises(UsageError, match="no topic of exactly 11 documents"):
        make_plan(scenario(Introduce(at=0.5, owners=1, documents=11)), WORKLOAD)


def test_pubmedqa_has_to_be_somewhere(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the workload 'pubmedqa' needs PubMedQA: say in which"):
        load_workload(scenario(workload="pubmedqa"), None)
    with pytest.raises(UsageError, match=r"does not hold PubMedQA.*ori_pqal\.json"):
        load_workload(scenario(workload="pubmedqa"), tmp_path)


def test_a_partition_leaves_nobody_out() -> None:
    plan = make_plan(scenario(Partition(at=0.5, groups=3)), WORKLOAD)
    (step,) = plan.steps
    counts = Counter(peer for group in step.groups for peer in group)  # type: ignore[union-attr]
    assert counts == Counter(range(PEERS))
