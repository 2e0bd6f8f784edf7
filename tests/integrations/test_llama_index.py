import asyncio
import threading

import pytest

from tests.integrations.stub_node import TOKEN, StubNode

pytest.importorskip("llama_index.core", reason="needs the extra 'llama-index'")

from llama_index.core.schema import MetadataMode, NodeWithScore

from zerorag_p2p.integrations.llama_index import ZeroRagRetriever


@pytest.fixture
def retriever(node: StubNode) -> ZeroRagRetriever:
    return ZeroRagRetriever(url=node.url, token=TOKEN, similarity_top_k=4, user="dr-smith")


def test_one_text_of_two_owners_is_two_nodes(node: StubNode, retriever: ZeroRagRetriever) -> None:
    found = retriever.retrieve("metformin")
    assert [item.metadata["organisation"] for item in found] == ["General", "Clinic", "General"]
    assert found[0].text == found[1].text
    assert found[0].node.hash != found[1].node.hash
    assert found[0].score == 0.9
    assert found[0].metadata["verified"] is True
    assert node.queries[0] == {"text": "metformin", "k": 4, "user": "dr-smith"}


def test_a_model_reads_title_and_organisation_only(retriever: ZeroRagRetriever) -> None:
    text = retriever.retrieve("metformin")[0].node.get_content(MetadataMode.LLM)
    assert "organisation: General" in text
    assert "content_hash" not in text


def test_async_questions_do_not_block_the_loop(node: StubNode, retriever: ZeroRagRetriever) -> None:
    node.hold = threading.Event()

    async def use() -> list[list[NodeWithScore]]:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(retriever.aretrieve(text)) for text in ("a", "b", "c")]
            await asyncio.to_thread(node.wait_for_queries, 3)  # All are under way at once.
            assert node.hold is not None
            node.hold.set()
        return [task.result() for task in asked]

    assert [len(found) for found in asyncio.run(asyncio.wait_for(use(), 8))] == [3, 3, 3]
