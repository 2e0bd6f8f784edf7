from __future__ import annotations

from typing import cast

import pytest

from zerorag_p2p.config import KEPT_REFUSALS
from zerorag_p2p.model import PeerId
from zerorag_p2p.node import figures as figures_module
from zerorag_p2p.node.activity import Activity
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.figures import Figures
from zerorag_p2p.node.happenings import FetchAnswered, Happening, QueryAnswered

ANN, BOB = PeerId("ann"), PeerId("bob")


class Names:
    def organisation(self, peer: PeerId) -> str:
        return peer.title()


@pytest.fixture
def activity() -> Activity:
    return Activity(cast("Directory", Names()), lambda: 1_000.0)


def answered(documents: int) -> QueryAnswered:
    return QueryAnswered(
        at=0.0,
        peer=ANN,
        organisation="Ann",
        k=5,
        purpose="TREAT",
        remembered=True,
        documents=documents,
        referrals=2,
    )


def test_counts_grow_whether_or_not_somebody_watches(activity: Activity) -> None:
    seen: list[Happening] = []
    activity.tell(answered(3))
    with activity.watching(seen.append):
        activity.tell(answered(1))
        fetched = FetchAnswered(
            at=0.0, peer=ANN, organisation="Ann", purpose="TREAT", documents=3, delivered=2
        )
        activity.tell(fetched)
    activity.tell(answered(0))
    assert seen == [answered(1), fetched]
    counts = activity.counts
    assert (counts.answered, counts.returned, counts.referrals, counts.delivered) == (3, 4, 6, 2)


def test_the_last_refusals_are_kept_and_no_more(activity: Activity) -> None:
    for number in range(KEPT_REFUSALS + 5):
        activity.tell_refusal(BOB, by="us", request="fetch", code="denied", reason=str(number))
    assert len(activity.refusals) == KEPT_REFUSALS
    assert activity.counts.refusals == KEPT_REFUSALS + 5
    newest = activity.refusals[-1]
    assert (newest.organisation, newest.at, newest.reason) == ("Bob", 1_000.0, str(number))


def test_bytes_are_counted_by_peer_and_in_all() -> None:
    figures = Figures()
    figures.note(ANN, sent=10)
    figures.note(ANN, sent=1, received=100)
    figures.note(BOB, received=5)
    assert (figures.get(ANN).bytes_sent, figures.get(ANN).bytes_received) == (11, 100)
    assert (figures.bytes_sent, figures.bytes_received) == (11, 105)
    assert figures.get(PeerId("nobody")).round_trip_s is None


def test_a_round_trip_follows_the_newest_by_an_eighth() -> None:
    ann = Figures().note(ANN)
    ann.note_round_trip(0.8)
    assert ann.round_trip_s == 0.8
    ann.note_round_trip(1.6)
    assert ann.round_trip_s == pytest.approx(0.9)


def test_figures_of_peers_not_heard_of_for_longest_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figures_module, "MAX_ROSTER_MEMBERS", 2)
    figures = Figures()
    for peer in ("ann", "bob", "ann", "cid"):
        figures.note(PeerId(peer), sent=1)
    assert [figures.get(PeerId(peer)).bytes_sent for peer in ("ann", "bob", "cid")] == [2, 0, 1]
    assert figures.bytes_sent == 4
