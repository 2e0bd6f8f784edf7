"""A node as a component of Haystack."""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from zerorag_p2p.integrations.passages import Node, Passage, Question, ask, ask_async


@component
class ZeroRagRetriever:
    """Finds documents in a consortium.

    Args:
        home: The node's home; or
        url: where it listens for applications, with
        token: the application's token, `Secret.from_env_var("ZERORAG_TOKEN")` for instance, and
        ca: the file of the authorities that its certificate is judged by. What is left out comes
            from the environment; see `zerorag_p2p.client`.
        top_k: How many documents.
        budget: How many peers may be asked at most.
        timeout_s: Seconds for everything.
        purpose: Purpose of use; owners decide by it.
        view: How much of each document is wanted: "passage" or "whole".
    """

    def __init__(
        self,
        *,
        home: str | None = None,
        url: str | None = None,
        token: Secret | None = None,
        ca: str | None = None,
        top_k: int | None = None,
        budget: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        view: str | None = None,
    ) -> None:
        self.home = home
        self.url = url
        self.token = token
        self.ca = ca
        self.top_k = top_k
        self.budget = budget
        self.timeout_s = timeout_s
        self.purpose = purpose
        self.view = view

    def to_dict(self) -> dict[str, Any]:
        """Serialise; a token has to come from the environment for that."""
        described: dict[str, Any] = default_to_dict(
            self,
            home=self.home,
            url=self.url,
            token=None if self.token is None else self.token.to_dict(),
            ca=self.ca,
            top_k=self.top_k,
            budget=self.budget,
            timeout_s=self.timeout_s,
            purpose=self.purpose,
            view=self.view,
        )
        return described

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ZeroRagRetriever:
        """Make a component from what `to_dict` returned."""
        parameters = dict(data.get("init_parameters", {}))
        if parameters.get("token") is not None:
            parameters["token"] = Secret.from_dict(parameters["token"])
        made: ZeroRagRetriever = default_from_dict(cls, {**data, "init_parameters": parameters})
        return made

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        user: str | None = None,
        purpose: str | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Ask the consortium.

        Args:
            query: The question.
            user: The person who asks; others learn a pseudonym.
            purpose: Instead of the component's.
            top_k: Instead of the component's.
        """
        found = ask(self._node(), query, self._question(user, purpose, top_k))
        return {"documents": [_document(item) for item in found]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        user: str | None = None,
        purpose: str | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Ask the consortium, as `run` does, without blocking the event loop."""
        found = await ask_async(self._node(), query, self._question(user, purpose, top_k))
        return {"documents": [_document(item) for item in found]}

    def _node(self) -> Node:
        token = None if self.token is None else self.token.resolve_value()
        return Node(home=self.home, url=self.url, token=token, ca=self.ca)

    def _question(self, user: str | None, purpose: str | None, top_k: int | None) -> Question:
        return Question(
            k=top_k or self.top_k,
            budget=self.budget,
            timeout_s=self.timeout_s,
            purpose=purpose or self.purpose,
            view=self.view,
            user=user,
        )


def _document(passage: Passage) -> Document:
    return Document(
        id=passage.key, content=passage.text, meta=passage.metadata, score=passage.score
    )
