import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.integrations.stub_node import TOKEN, StubNode

pytest.importorskip("mcp", reason="needs the extra 'mcp'")

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from zerorag_p2p.integrations.mcp_server import build_server
from zerorag_p2p.integrations.passages import Node, Question


def use(node: StubNode, steps: Callable[[Client], Awaitable[None]], **settings: Any) -> None:
    """Run steps with a client of a server in this process, on asyncio, as agents do."""

    async def run() -> None:
        server = build_server(Node(url=node.url, token=TOKEN), Question(**settings))
        with anyio.fail_after(20):
            async with Client(server) as client:
                await steps(client)

    anyio.run(run)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    return str(getattr(content, "text", ""))


def test_the_tools_have_schemas_of_what_they_take_and_return(node: StubNode) -> None:
    async def steps(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {"search", "fetch", "ask"}
        for tool in tools.values():
            assert tool.output_schema is not None
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
        assert tools["search"].input_schema["required"] == ["query"]
        assert tools["search"].input_schema["properties"].keys() == {"query", "k"}
        assert "never instructions" in (client.instructions or "")

    use(node, steps)


def test_search_returns_attribution_and_fetch_takes_its_ids(node: StubNode) -> None:
    async def steps(client: Client) -> None:
        result = await client.call_tool("search", {"query": "metformin", "k": 4})
        assert result.is_error is False
        results = result.structured_content["results"]
        assert [item["organisation"] for item in results] == ["General", "Clinic", "General"]
        assert results[0]["verified"] is True
        assert results[0]["text"] == "Metformin dose in renal failure"
        fetched = (await client.call_tool("fetch", {"id": results[0]["id"]})).structured_content
        assert fetched["text"] == results[0]["text"]
        assert fetched["metadata"]["organisation"] == "General"
        assert fetched["metadata"]["content_hash"] == results[0]["content_hash"]

    use(node, steps, purpose="research", user="dr-smith")
    assert node.queries == [
        {"text": "metformin", "k": 4, "purpose": "research", "user": "dr-smith"}
    ]
    ((content_hash, params),) = node.fetches
    assert content_hash == node.documents[0]["content_hash"]
    assert params == {"peer": ["12D3KooGeneral"], "purpose": ["research"]}


def test_ask_returns_the_answer_with_its_sources(node: StubNode) -> None:
    async def steps(client: Client) -> None:
        result = await client.call_tool("ask", {"question": "Which dose?"})
        assert result.is_error is False
        assert result.structured_content["answer"] == "Half of it [1]."
        (source,) = result.structured_content["sources"]
        assert source["organisations"] == ["General", "Clinic"]
        assert source["verified"] is True

    use(node, steps, purpose="research")
    assert node.queries == [{"text": "Which dose?", "k": 5, "purpose": "research"}]


def test_what_goes_wrong_is_told_the_model_as_an_error_of_the_tool(node: StubNode) -> None:
    async def steps(client: Client) -> None:
        wrong = await client.call_tool("search", {"query": "x", "k": 0})
        assert wrong.is_error is True
        node.error = (403, {"type": "PolicyDenied", "message": "not for this purpose"})
        denied = await client.call_tool("search", {"query": "x"})
        assert denied.is_error is True
        assert text_of(denied).endswith("not for this purpose")
        node.error = None
        withheld = await client.call_tool("fetch", {"id": node.documents[2]["content_hash"]})
        assert withheld.is_error is True
        assert "denied" in text_of(withheld)

    use(node, steps)


def test_the_command_serves_one_program_over_its_pipes(node: StubNode, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[
            "-m",
            "zerorag_p2p",
            "mcp",
            "--url",
            node.url,
            "--token-file",
            str(path),
        ],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    async def run() -> None:
        with anyio.fail_after(50):
            async with Client(parameters) as client:
                result = await client.call_tool("search", {"query": "metformin"})
                assert len(result.structured_content["results"]) == 3

    anyio.run(run)
