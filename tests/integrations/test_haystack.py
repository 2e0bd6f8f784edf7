import asyncio

import pytest

from tests.integrations.stub_node import TOKEN, StubNode

pytest.importorskip("haystack", reason="needs the extra 'haystack'")

from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.utils import Secret

from zerorag_p2p.integrations.haystack import ZeroRagRetriever


def test_documents_carry_their_attribution(node: StubNode) -> None:
    retriever = ZeroRagRetriever(url=node.url, token=Secret.from_token(TOKEN), top_k=1)
    found = retriever.run("metformin", user="dr-smith", top_k=4)["documents"]
    assert [document.meta["organisation"] for document in found] == ["General", "Clinic", "General"]
    assert found[0].content == "Metformin dose in renal failure"
    assert found[0].id != found[1].id
    assert (found[0].score, found[0].meta["verified"]) == (0.9, True)
    assert node.queries[0] == {"text": "metformin", "k": 4, "user": "dr-smith"}
    again = asyncio.run(retriever.run_async("metformin"))["documents"]
    assert [document.id for document in again] == [found[0].id]


def test_a_pipeline_survives_being_written_and_read(
    node: StubNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    pipeline = Pipeline()
    pipeline.add_component(
        "retriever",
        ZeroRagRetriever(
            url=node.url, token=Secret.from_env_var("MY_TOKEN"), top_k=4, purpose="research"
        ),
    )
    template = "{% for d in documents %}{{ d.meta.organisation }},{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("retriever.documents", "prompt.documents")
    written = pipeline.dumps()
    assert TOKEN not in written
    # Haystack trusts its own modules only, until it is told of another.
    read = Pipeline.loads(written, allowed_modules=["zerorag_p2p.integrations.haystack"])
    result = read.run({"retriever": {"query": "metformin"}})
    assert result["prompt"]["prompt"] == "General,Clinic,General,"
    assert node.queries[0] == {"text": "metformin", "k": 4, "purpose": "research"}


def test_a_token_in_plain_is_not_written() -> None:
    retriever = ZeroRagRetriever(url="http://127.0.0.1:1", token=Secret.from_token(TOKEN))
    with pytest.raises(ValueError, match="token"):
        retriever.to_dict()


def test_without_a_token_it_is_written_and_read() -> None:
    retriever = ZeroRagRetriever(home="/srv/zerorag", view="whole", timeout_s=3.5, budget=7)
    again = ZeroRagRetriever.from_dict(retriever.to_dict())
    assert again.to_dict() == retriever.to_dict()
    assert (again.home, again.view, again.timeout_s, again.budget) == (
        "/srv/zerorag",
        "whole",
        3.5,
        7,
    )
