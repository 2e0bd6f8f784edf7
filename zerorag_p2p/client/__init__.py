"""Clients of a running node, over the Unix socket in its home, or over TCP with a token.

`Client` is for plain synchronous code, `AsyncClient` for trio and asyncio. Both return what the
node's local interface says (docs/cli.md, GET /v1/openapi.json) as plain dicts and raise the
exceptions of `zerorag_p2p.errors`, those of the node included.

    with Client() as client:
        answer = client.query("dose of metformin in renal failure")
        for document in answer["documents"]:
            print(document["score"], document["owner"]["organisation"], document["title"])

An application that may not enter the home has a token (docs/applications.md): it uses
`Client(url=..., token=...)`, or `Client()` with ZERORAG_URL and ZERORAG_TOKEN_FILE set.
"""

from zerorag_p2p.client.asynchronous import AsyncClient
from zerorag_p2p.client.blocking import Client
from zerorag_p2p.client.calls import Json
from zerorag_p2p.client.connection import OnEvent, OnProgress
from zerorag_p2p.client.testnet import TestnetClient

__all__ = ["AsyncClient", "Client", "Json", "OnEvent", "OnProgress", "TestnetClient"]
