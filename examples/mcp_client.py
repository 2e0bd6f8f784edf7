"""Use the tools of `zerorag mcp` as an agent does: python examples/mcp_client.py QUESTION."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters

# An agent's configuration says the same: a command, its arguments and its environment.
server = StdioServerParameters(
    command=sys.executable,
    args=["-m", "zerorag_p2p", "mcp", "--purpose", "treatment"],
    env={name: value for name, value in os.environ.items() if name.startswith("ZERORAG_")},
)


async def main() -> None:
    async with Client(server) as client:
        found = await client.call_tool("search", {"query": sys.argv[1], "k": 3})
        for result in found.structured_content["results"]:
            print(result["organisation"], f"{result['score']:.2f}", sep="\t")
            print(result["text"])


asyncio.run(main())
