"""Documents told of while a walk goes on, walks that end early, and who else has the same text."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.node.lab import NETWORKS, Lab, add, eventually
from zerorag_p2p.control.saved_answer import verify_saved_answer
from zerorag_p2p.identity.attribution import verify_chain
from zerorag_p2p.node.querying import GOOD_ENOUGH
from zerorag_p2p.node.reports import DocumentStatus, QueryProgress, to_json


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_documents_are_told_of_before_the_walk_ends(tmp_path: Path, network: str) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"])
    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        add(bob, "apixaban before surgery")
        add(cid, "apixaban after bleeding")
        seen: list[QueryProgress] = []
        report = await ann.query("apixaban before surgery", k=2, fanout=1, on_progress=seen.append)
        events = [event.event for event in seen]
        last_contact = max(at for at, event in enumerate(events) if event == "contact")
        assert events.index("found") < last_contact
        hits = [event.document for event in seen if event.event == "found"]
        delivered = [event.document for event in seen if event.event == "document"]
        for hit in hits:
            assert hit is not None
            assert (hit.status, hit.text) == (DocumentStatus.UNAVAILABLE, "")
            assert verify_chain(hit.attribution).statement.owner == hit.owner.peer
        found = {document.content_hash: document for document in report.documents}
        assert {hit.content_hash for hit in hits if hit} == set(found)
        assert {item.content_hash: item.text for item in delivered if item} == {
            content_hash: document.text for content_hash, document in found.items()
        }


async def test_a_walk_ends_with_the_first_document_that_is_good_enough(tmp_path: Path) -> None:
    names = ["ann", "bob", "cid", "dan", "eve"]
    lab = Lab(tmp_path, "memory", names)
    async with AsyncExitStack() as stack:
        ann, *others = [await stack.enter_async_context(lab.node(name)) for name in names]
        for number, node in enumerate(others):
            add(node, f"apixaban before surgery {number}")
        await eventually(lambda: all(row["connected"] for row in ann.peers()))
        settings = {"k": 5, "fanout": 1, "stopping": "budget"}
        question = "apixaban before surgery"
        everything = await ann.query(question, **settings)  # type: ignore[arg-type]
        assert len(everything.contacts) == 4
        first = await ann.query(question, first=0.5, **settings)  # type: ignore[arg-type]
        assert first.stopped == GOOD_ENOUGH
        assert len(first.contacts) == 1
        (document,) = first.documents
        assert document.status is DocumentStatus.VERIFIED
        assert document.score >= 0.5
        assert first.complete
        none = await ann.query(question, first=1.0, **settings)  # type: ignore[arg-type]
        assert len(none.contacts) == 4
        at_once = await ann.query(question, k=1, first=0.5, fanout=4)
        assert at_once.stopped == GOOD_ENOUGH
        assert at_once.documents[0].status is DocumentStatus.VERIFIED
        # Requests that were given up leave their connections whole.
        again = await ann.query(question, **settings)  # type: ignore[arg-type]
        assert [contact.outcome for contact in again.contacts] == ["answered"] * 4


async def test_whoever_returned_the_same_text_is_named_with_an_attribution(
    tmp_path: Path, network: str
) -> None:
    lab = Lab(tmp_path, network, ["ann", "bob", "cid"], routing="paper")
    async with lab.node("ann") as ann, lab.node("bob") as bob, lab.node("cid") as cid:
        for node in (bob, cid):
            add(node, "the same text")
        report = await ann.query("the same text")
        (document,) = report.documents
        (other,) = document.others
        assert {document.holder.peer, other.holder.peer} == {lab.peer("bob"), lab.peer("cid")}
        statement = verify_chain(other.attribution).statement
        assert (statement.owner, statement.content_hash) == (
            other.holder.peer,
            document.content_hash,
        )
        saved, home = tmp_path / "answer.json", ann.home
        whole = to_json(report)

        def fault(**changes: object) -> str | None:
            answer = json.loads(json.dumps(whole))
            answer["documents"][0]["others"][0].update(changes)
            saved.write_text(json.dumps(answer))
            verdict = verify_saved_answer(saved, home.roster, home.withdrawals)
            found: str | None = verdict["fault"]
            return found

        holder = whole["documents"][0]["holder"]
        assert fault() is None
        assert fault(collection="other") == "shows-something-else"
        assert fault(owner={**whole["documents"][0]["others"][0]["owner"], "organisation": "E"})
        assert fault(holder=holder) == "sender-not-holder"
        assert fault(attribution=["AAAA"]) == "malformed"
