from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerorag_p2p.baselines.drag import DragSystem
from zerorag_p2p.baselines.expertise import Expertise
from zerorag_p2p.baselines.flooding import Flood, Flooding
from zerorag_p2p.baselines.graph import grow_graph
from zerorag_p2p.baselines.random_walk import RandomWalk
from zerorag_p2p.baselines.remote import RemoteDocuments
from zerorag_p2p.baselines.system import System
from zerorag_p2p.baselines.tarw import TopicAwareRandomWalk
from zerorag_p2p.baselines.topics import question_topics
from zerorag_p2p.errors import UsageError
from zerorag_p2p.workloads.outcome_table import NO_HIT
from zerorag_p2p.workloads.synthetic import QUERIES_PER_DOCUMENT, synthetic_workload
from zerorag_p2p.workloads.workload import Events, PeerDocuments, QueryEvent, Workload

PEERS = 40
SYSTEMS: tuple[DragSystem, ...] = (TopicAwareRandomWalk(), RandomWalk(), Flooding())
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)


def subjects(*, peers: int = PEERS, questions: int = 1_500) -> Workload:
    """DRAG's setting: a subject and all its documents have one owner, anybody asks anything."""
    base = synthetic_workload(peers=2, seed=1, topics=20)
    draw = random.Random("subjects")
    held: list[list[int]] = [[] for _ in range(peers)]
    owners: dict[str, int] = {}
    for number, document in enumerate(base.documents):
        held[owners.setdefault(document.topics[0], draw.randrange(peers))].append(number)
    queries = [draw.randrange(len(base.queries)) for _ in range(questions)]
    events = [QueryEvent(draw.randrange(peers), query, base.answers[query]) for query in queries]
    return replace(base, holdings=PeerDocuments.of(held), events=Events.of(events))


def small(holdings: Sequence[Sequence[int]], events: Sequence[tuple[int, int]]) -> Workload:
    """Peers with these documents; events are (asker, document)."""
    base = synthetic_workload(peers=2, seed=1, topics=1)
    return replace(
        base,
        holdings=PeerDocuments.of(holdings),
        events=Events.of(
            QueryEvent(peer, document * QUERIES_PER_DOCUMENT, document) for peer, document in events
        ),
    )


SUBJECTS = subjects()


@given(
    attachments=st.integers(1, 5),
    more=st.integers(1, 30),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
@settings(max_examples=50)
def test_a_graph_is_connected_and_grows_by_as_many_links_a_peer(
    attachments: int, more: int, seed: int, data: st.DataObject
) -> None:
    peers = attachments + more
    graph = grow_graph(peers, attachments, random.Random(seed))
    assert sum(map(len, graph)) == 2 * attachments * (peers - attachments)
    for peer, neighbors in enumerate(graph):
        assert peer not in neighbors
        assert len(set(neighbors)) == len(neighbors)
        assert all(peer in graph[neighbor] for neighbor in neighbors)
    asker = data.draw(st.integers(0, peers - 1))
    assert len(Flood(graph, asker, peers + 1).arrivals) == peers - 1


def test_a_grown_graph_has_hubs() -> None:
    degrees = sorted(map(len, grow_graph(500, 4, random.Random(1))))
    assert degrees[0] == 4
    assert degrees[len(degrees) // 2] < 8
    assert degrees[-1] > 40


@pytest.mark.parametrize("attachments", [0, 5, 6])
def test_a_graph_needs_links_and_more_peers_than_links(attachments: int) -> None:
    with pytest.raises(UsageError, match=f"5 peers cannot grow by {attachments} links"):
        grow_graph(5, attachments, random.Random(1))


# 0 - 1 - 3 - 4
#  \  |  /
#    2 -
SQUARE = ((1, 2), (0, 2, 3), (0, 1, 3), (1, 2, 4), (3,))


@pytest.mark.parametrize(
    ("max_hops", "reached", "hops", "requests"),
    [
        (2, [1, 2], 1, 2),  # 0 to 1 and 2
        (3, [1, 2, 3], 2, 6),  # and 1 to 2 and 3, 2 to 1 and 3
        (4, [1, 2, 3, 4], 3, 8),  # and 3, which has it from 1, to 2 and 4
        (9, [1, 2, 3, 4], 3, 8),  # 4 knows nobody else
    ],
)
def test_a_flood_sends_a_message_on_every_link(
    max_hops: int, reached: list[int], hops: int, requests: int
) -> None:
    flood = Flood(SQUARE, 0, max_hops)
    assert list(flood.arrivals) == reached
    assert [arrival.contact for arrival in flood.arrivals.values()] == [1, 2, 3, 4][: len(reached)]
    assert (flood.hops, flood.requests) == (hops, requests)


def test_every_peer_a_flood_reaches_replies_if_it_has_the_document() -> None:
    # One link a peer on four peers: three links, so that nobody hears anything twice.
    workload = small([[], [0], [0, 1], [2]], [(0, 0), (0, 2), (0, 1), (0, 3)])
    run = Flooding(attachments=1).run_counted(workload)
    outcomes, counts = run
    assert outcomes.messages is not None
    assert outcomes.contacts is not None
    assert outcomes.bytes is not None
    assert outcomes.messages.tolist() == [3 + 2, 3 + 1, 3 + 1, 3]
    assert outcomes.contacts.tolist() == [3, 3, 3, 3]
    assert outcomes.hit.tolist() == [True, True, True, False]
    assert counts.messages[3] == 4
    assert counts.hops[3] == 6
    # Replies differ by a document more, and by a reply with two documents.
    document = outcomes.bytes[2] - outcomes.bytes[1]
    assert outcomes.bytes[0] - outcomes.bytes[2] == outcomes.bytes[1] - outcomes.bytes[3]
    assert 100 < document < outcomes.bytes[1] - outcomes.bytes[3]


@every_system
def test_results_follow_from_the_seed(system: DragSystem) -> None:
    workload = replace(SUBJECTS, events=SUBJECTS.events[:200])
    first, second = system.run_counted(workload), system.run_counted(workload)
    other = replace(system, seed=2).run_counted(workload)
    for name in ("hit", "messages", "hops", "contacts", "bytes", "recall_at_5_exact"):
        one, same = getattr(first.outcomes, name), getattr(second.outcomes, name)
        np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(first.counts.messages, second.counts.messages)
    assert (first.counts.messages != other.counts.messages).any()


@every_system
@pytest.mark.parametrize("max_hops", [2, 3, 6])
def test_nobody_is_asked_beyond_the_last_hop(system: DragSystem, max_hops: int) -> None:
    workload = replace(SUBJECTS, events=SUBJECTS.events[:300])
    limited = replace(system, max_hops=max_hops)
    outcomes, counts = limited.run_counted(workload)
    graph = grow_graph(PEERS, system.attachments, random.Random(f"graph {system.seed}"))
    assert outcomes.hops is not None
    assert outcomes.requests_to_target is not None
    assert outcomes.hops.max() < max_hops
    owners = {document: peer for peer, held in enumerate(workload.holdings) for document in held}
    for event, hit in zip(workload.events, outcomes.hit, strict=True):
        near = Flood(graph, event.peer, max_hops).arrivals
        assert not hit or owners[event.document] in near
        assert hit or owners[event.document] not in near or not isinstance(limited, Flooding)
    assert (counts.hops[~counts.hit] == max_hops).all()
    np.testing.assert_array_equal(outcomes.requests_to_target != NO_HIT, outcomes.hit)


@every_system
def test_columns_agree(system: DragSystem) -> None:
    outcomes, counts = system.run_counted(SUBJECTS)
    asked, at = outcomes.contacts, outcomes.requests_to_target
    assert asked is not None
    assert at is not None
    assert outcomes.messages is not None
    assert (at <= asked).all()
    assert (outcomes.messages >= asked).all()
    assert not (outcomes.hit & ~outcomes.answerable).any()
    # With one owner a document, DRAG's hits are ours and those at home.
    np.testing.assert_array_equal(counts.hit, outcomes.hit | ~outcomes.answerable)
    assert (counts.messages[~outcomes.answerable] == 1).all()
    assert (counts.hops[~outcomes.answerable] == 0).all()
    # The answering peer has the whole subject: a hit brings nearly all that an exact search does.
    assert outcomes.recall_at_5_exact is not None
    assert outcomes.recall_at_5_exact[outcomes.hit].mean() > 0.8
    assert (outcomes.recall_at_5_exact[outcomes.answerable & ~outcomes.hit] == 0).all()


def test_a_walk_exceeds_its_hops_by_the_hit_rate_in_messages() -> None:
    counts = RandomWalk().run_counted(SUBJECTS).counts
    np.testing.assert_array_equal(counts.messages - counts.hops, counts.hit)
    assert counts.messages.max() == 6


def test_topics_find_more_than_chance_and_send_less_than_a_flood() -> None:
    tarw, walk, flood = (system.run_counted(SUBJECTS) for system in SYSTEMS)
    asked = tarw.outcomes.answerable
    assert tarw.outcomes.hit[asked].mean() > 0.95
    assert tarw.outcomes.hit[asked].mean() > 3 * walk.outcomes.hit[asked].mean()
    assert tarw.outcomes.messages is not None
    assert flood.outcomes.messages is not None
    assert tarw.outcomes.messages.mean() < 0.5 * flood.outcomes.messages.mean()
    # By DRAG's count a flood stops at the first hit, and the later questions need fewer messages.
    late = slice(len(SUBJECTS.events) // 2, None)
    messages = tarw.counts.messages
    assert messages[late].mean() < 0.7 * flood.counts.messages[late].mean()
    assert messages[late].mean() < 0.8 * messages[:200].mean()


def test_a_walk_without_topics_to_go_by_is_refused() -> None:
    bare = replace(
        SUBJECTS, documents=tuple(replace(item, topics=()) for item in SUBJECTS.documents)
    )
    with pytest.raises(UsageError, match="no document of the workload 'synthetic' has a topic"):
        TopicAwareRandomWalk().run(bare)
    RandomWalk().run(replace(bare, events=bare.events[:3]))


def test_questions_are_about_the_topic_of_their_answer() -> None:
    topics = question_topics(RemoteDocuments(SUBJECTS))
    right = [
        SUBJECTS.documents[answer].topics == about
        for answer, about in zip(SUBJECTS.answers, topics, strict=True)
    ]
    assert sum(right) > 0.95 * len(right)


def test_every_peer_on_the_path_credits_the_next() -> None:
    expertise = Expertise()
    expertise.learn([0, 4, 7], ["heart", "drugs"])
    expertise.learn([0, 5], ["drugs"])
    assert expertise.relevance(["heart", "drugs", "lung"])(0) == {4: 2, 5: 1}
    assert expertise.relevance(["heart"])(4) == {7: 1}
    assert expertise.relevance(["heart"])(7) == {}
    assert expertise.relevance(["lung"])(0) == {}


@every_system
def test_the_copies_of_the_asker_never_count(system: System) -> None:
    # Everybody but the last peer has document 0; only the asker has 1; document 2 has two holders.
    workload = small([[0, 1], [0], [0], [0], [0, 2], [2]], [(0, 0), (0, 1), (4, 2)] * 30)
    outcomes = system.run(workload)
    rows = [outcomes.rows(np.arange(90) % 3 == number) for number in range(3)]
    assert rows[0].answerable.all()
    assert rows[0].hit.mean() > 0.8
    assert not rows[1].answerable.any()
    assert not rows[1].hit.any()
    assert not rows[1].recall_at_1.any()
    assert rows[2].answerable.all()
    assert rows[0].holders is not None
    assert rows[2].holders is not None
    assert (rows[0].holders == 4).all()
    assert (rows[2].holders == 1).all()
    assert outcomes.requests_to_target is not None
    assert (outcomes.requests_to_target[outcomes.hit] >= 1).all()


@every_system
def test_with_a_threshold_a_search_ends_at_what_is_similar_enough(system: DragSystem) -> None:
    workload = replace(SUBJECTS, events=SUBJECTS.events[:300])
    anything = replace(system, threshold=-1.0).run_counted(workload)
    nothing = replace(system, threshold=1.01).run_counted(workload)
    assert not nothing.counts.hit.any()
    assert not nothing.outcomes.recall_at_1.any()
    if not isinstance(system, RandomWalk):
        assert anything.counts.hit.all()
        assert nothing.outcomes.hit[nothing.outcomes.answerable].mean() > 0.9
    found, target = anything.counts.hit.mean(), anything.outcomes.recall_at_1.mean()
    assert found > 0.6
    assert target < 0.4


@every_system
def test_progress_is_told_to_the_end(system: System) -> None:
    told: list[tuple[int, int]] = []
    system.run(SUBJECTS, lambda done, of: told.append((done, of)))
    assert told == [(1_000, 1_500), (1_500, 1_500)]


def test_settings_that_ask_nobody_are_refused() -> None:
    with pytest.raises(UsageError, match="max_hops = 1"):
        Flooding(max_hops=1)
    with pytest.raises(UsageError, match="k = 0"):
        TopicAwareRandomWalk(k=0)
