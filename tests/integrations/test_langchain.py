import asyncio
import threading

import pytest

from tests.integrations.stub_node import TOKEN, StubNode
from zerorag_p2p.errors import NodeNotRunningError

pytest.importorskip("langchain_core", reason="needs the extra 'langchain'")

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from zerorag_p2p.integrations.langchain import ZeroRagRetriever


@pytest.fixture
def retriever(node: StubNode) -> ZeroRagRetriever:
    return ZeroRagRetriever(url=node.url, token=TOKEN, k=4, purpose="treatment")


def test_documents_carry_their_attribution(node: StubNode, retriever: ZeroRagRetriever) -> None:
    found = retriever.invoke("metformin", user="dr-smith")
    assert [document.page_content[:6] for document in found] == ["Metfor", "Metfor", "Sepsis"]
    first, second, _ = found
    assert first.metadata["organisation"] == "General"
    assert first.metadata["verified"] is True
    assert (first.metadata["owner"], first.metadata["score"]) == ("12D3KooGeneral", 0.9)
    assert first.metadata["content_hash"] == second.metadata["content_hash"]
    assert first.id != second.id
    assert node.queries[0]["user"] == "dr-smith"
    assert node.queries[0]["purpose"] == "treatment"


def test_it_is_part_of_a_chain(node: StubNode, retriever: ZeroRagRetriever) -> None:
    def organisations(documents: list[Document]) -> list[str]:
        return [document.metadata["organisation"] for document in documents]

    chain = retriever | RunnableLambda(organisations)
    assert chain.invoke("metformin") == ["General", "Clinic", "General"]
    assert chain.batch(["a", "b"]) == [["General", "Clinic", "General"]] * 2


def test_async_questions_do_not_block_the_loop(node: StubNode, retriever: ZeroRagRetriever) -> None:
    node.hold = threading.Event()

    async def use() -> list[list[Document]]:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(retriever.ainvoke(text)) for text in ("a", "b", "c")]
            await asyncio.to_thread(node.wait_for_queries, 3)  # All are under way at once.
            assert node.hold is not None
            node.hold.set()
        return [task.result() for task in asked]

    assert [len(found) for found in asyncio.run(asyncio.wait_for(use(), 8))] == [3, 3, 3]


def test_a_token_is_kept_out_of_sight(retriever: ZeroRagRetriever) -> None:
    assert TOKEN not in repr(retriever)
    assert TOKEN not in str(retriever.model_dump())


def test_a_node_that_does_not_run_is_an_error(retriever: ZeroRagRetriever) -> None:
    with pytest.raises(NodeNotRunningError):
        ZeroRagRetriever(url="http://127.0.0.1:1", token=TOKEN).invoke("x")
