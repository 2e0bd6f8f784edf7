import asyncio

import pytest
import trio

from tests.integrations.stub_node import TOKEN, StubNode, document
from zerorag_p2p.errors import PolicyDenied, TokenRejected
from zerorag_p2p.integrations.passages import Node, Question, ask, ask_async, passages


def test_only_verified_texts_are_passages_and_two_owners_of_one_are_two() -> None:
    answer = {
        "documents": [
            document("General", "one text"),
            document("Clinic", "one text"),
            document("Other", "x", status="denied"),
            document("Other", "y", status="rejected"),
            document("Other", "z", status="unavailable"),
            document("Other", ""),
        ],
        "purpose": "TREAT",
        "audit": "a1",
        "complete": False,
    }
    found = passages(answer)
    assert [(item.text, item.metadata["organisation"]) for item in found] == [
        ("one text", "General"),
        ("one text", "Clinic"),
    ]
    assert len({item.key for item in found}) == 2
    assert found[0].metadata == {
        "title": "one text",
        "owner": "12D3KooGeneral",
        "organisation": "General",
        "content_hash": f"{8:064x}",
        "verified": True,
        "score": 0.9,
        "score_verified": True,
        "holder": "12D3KooGeneral",
        "holder_organisation": "General",
        "collection": "wards",
        "part": 0,
        "parts": 1,
        "issued_at": 1_700_000_000,
        "purpose": "TREAT",
        "audit": "a1",
        "complete": False,
    }


async def test_a_question_goes_with_its_settings_and_without_those_left_out(node: StubNode) -> None:
    asked = Node(url=node.url, token=TOKEN)
    question = Question(k=2, purpose="research", user="dr-smith")

    async def use() -> int:
        return len(await ask_async(asked, "metformin", question))

    assert len(await trio.to_thread.run_sync(ask, asked, "metformin", question)) == 2
    assert await use() == 2
    assert await trio.to_thread.run_sync(asyncio.run, use()) == 2
    assert (
        node.queries
        == [{"text": "metformin", "k": 2, "purpose": "research", "user": "dr-smith"}] * 3
    )


def test_errors_of_the_node_stay_what_they_are(node: StubNode) -> None:
    with pytest.raises(TokenRejected):
        ask(Node(url=node.url, token="wrong"), "x", Question())
    node.error = (403, {"type": "PolicyDenied", "message": "not for research"})
    with pytest.raises(PolicyDenied, match="not for research"):
        ask(Node(url=node.url, token=TOKEN), "x", Question())


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(Node(url="http://127.0.0.1:1", token=TOKEN))
