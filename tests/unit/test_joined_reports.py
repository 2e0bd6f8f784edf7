"""One answer of two, found by different embedding models."""

from __future__ import annotations

from dataclasses import replace

from zerorag_p2p.model import ContentHash, PeerId
from zerorag_p2p.node.reports import (
    AnswerDocument,
    DocumentStatus,
    PeerName,
    QueryReport,
    joined,
)

ANN = PeerName(PeerId("ann"), "Ann")
EMPTY = QueryReport(
    audit="1",
    query="q",
    asker=ANN,
    purpose="TREAT",
    k=3,
    budget=10,
    fanout=1,
    started_at=0.0,
    milliseconds=2.0,
    documents=(),
    rejected=(),
    contacts=(),
    stopped="first",
    complete=True,
    bytes_sent=1,
    bytes_received=2,
    fingerprint="old",
    consortium="c",
)


def document(
    name: str, score: float, status: DocumentStatus = DocumentStatus.VERIFIED
) -> AnswerDocument:
    return AnswerDocument(
        content_hash=ContentHash(name),
        status=status,
        score=score,
        score_verified=False,
        owner=ANN,
        holder=ANN,
    )


def report(*documents: AnswerDocument, **changes: object) -> QueryReport:
    return replace(EMPTY, documents=documents, **changes)  # type: ignore[arg-type]


def listed(answer: QueryReport) -> list[tuple[str, float]]:
    return [(item.content_hash, item.score) for item in answer.documents]


def test_documents_that_can_be_compared_are_ranked_by_one_model() -> None:
    first = report(document("a", 0.5), document("b", 0.2))
    second = report(
        document("c", 0.99),
        document("b", 0.98),
        document("d", 0.97, DocumentStatus.DENIED),
        document("e", 0.96),
    )
    scores = {ContentHash("b"): 0.2, ContentHash("c"): 0.4, ContentHash("e"): 0.6}
    assert listed(joined(first, second, scores)) == [("e", 0.6), ("a", 0.5), ("c", 0.4)]
    wide = joined(replace(first, k=9), second, scores)
    assert listed(wide) == [("e", 0.6), ("a", 0.5), ("c", 0.4), ("b", 0.2), ("d", 0.97)]
    assert [item.score_verified for item in wide.documents] == [True, False, True, False, False]


def test_documents_that_cannot_be_compared_alternate() -> None:
    first = report(document("a", 0.5), document("b", 0.2))
    second = report(document("c", 0.9), document("a", 0.8), document("d", 0.7))
    assert listed(joined(first, second, None)) == [("a", 0.5), ("c", 0.9), ("b", 0.2)]


def test_a_text_that_only_one_of_them_got_counts() -> None:
    first = report(document("a", 0.5, DocumentStatus.UNAVAILABLE))
    second = report(document("a", 0.9))
    (found,) = joined(first, second, {ContentHash("a"): 0.5}).documents
    assert found.status is DocumentStatus.VERIFIED


def test_figures_add_up() -> None:
    answer = joined(
        report(count=2, complete=True), report(count=3, complete=False, stopped="second"), None
    )
    assert (answer.count, answer.complete, answer.stopped) == (5, False, "first")
    assert (answer.milliseconds, answer.bytes_sent, answer.bytes_received) == (4.0, 2, 4)
    assert joined(report(), report(), None).count is None
