"""Answers of a node as passages, the form that every framework takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zerorag_p2p.client import AsyncClient, Client

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Which node is asked; what is left out comes from the environment (`zerorag_p2p.client`).

    Attributes:
        home: Its home or socket, for programs of its owner.
        url: Where it listens for applications, instead of `home`.
        token: The application's token.
        ca: PEM file of the authorities that a certificate is judged by.
    """

    home: str | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    ca: str | None = None

    def client(self) -> Client:
        """A client of the node; to be closed by the caller."""
        return Client(self.home, url=self.url, token=self.token, ca=self.ca)

    def async_client(self) -> AsyncClient:
        """The same for trio and asyncio."""
        return AsyncClient(self.home, url=self.url, token=self.token, ca=self.ca)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked along with a text; the node decides where nothing is given.

    Attributes:
        k: How many documents.
        budget: How many peers may be asked at most.
        timeout_s: Seconds for everything.
        purpose: Purpose of use, "treatment" or "research" for instance; owners decide by it.
        view: How much of each document is wanted: "passage" or "whole".
        user: The person who asks; others learn a pseudonym.
    """

    k: int | None = None
    budget: int | None = None
    timeout_s: float | None = None
    purpose: str | None = None
    view: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text whose proofs hold, and where it comes from.

    Attributes:
        key: Content hash and owner: one text of two owners is two passages.
        score: Cosine similarity with the question.
        metadata: Attribution, ready for JSON.
    """

    key: str
    text: str
    score: float
    metadata: Json


def ask(node: Node, text: str, question: Question) -> list[Passage]:
    """Ask a node; what it found, the best first.

    Raises:
        ZeroRagError: The node cannot be reached, or refuses.
    """
    with node.client() as client:
        return passages(client.query(text, **_settings(question)))


async def ask_async(node: Node, text: str, question: Question) -> list[Passage]:
    """Ask a node, on trio or asyncio, as `ask` does."""
    async with node.async_client() as client:
        return passages(await client.query(text, **_settings(question)))


def passages(answer: Json) -> list[Passage]:
    """The passages of an answer: texts that were withheld or do not verify are none."""
    return [
        passage(document, answer)
        for document in answer["documents"]
        if document["status"] == "verified" and document["text"]
    ]


def passage(document: Json, answer: Json | None = None) -> Passage:
    """A verified document as a passage; `answer` tells how it was found."""
    owner, holder = document["owner"], document["holder"]
    metadata = {
        "title": document["title"],
        "owner": owner["peer"],
        "organisation": owner["organisation"],
        "content_hash": document["content_hash"],
        "verified": document["status"] == "verified",
        "score": document["score"],
        "score_verified": document["score_verified"],
        "holder": holder["peer"],
        "holder_organisation": holder["organisation"],
        "collection": document["collection"],
        "part": document["part"],
        "parts": document["parts"],
        "issued_at": document["issued_at"],
    }
    if answer is not None:
        metadata |= {
            "purpose": answer["purpose"],
            "audit": answer["audit"],
            "complete": answer["complete"],
        }
    return Passage(
        key=f"{document['content_hash']}@{owner['peer']}",
        text=document["text"],
        score=document["score"],
        metadata=metadata,
    )


def _settings(question: Question) -> Json:
    return {
        "k": question.k,
        "budget": question.budget,
        "timeout_s": question.timeout_s,
        "purpose": question.purpose,
        "view": question.view,
        "user": question.user,
    }
