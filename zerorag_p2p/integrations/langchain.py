"""A node as a retriever of LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import SecretStr

from zerorag_p2p.integrations.passages import Node, Passage, Question, ask, ask_async


class ZeroRagRetriever(BaseRetriever):
    """Finds documents in a consortium.

    Where the node is: `home`, or `url` and `token` (and `ca`), or else the environment; see
    `zerorag_p2p.client`. What is asked: the other fields, as in `Client.query`. `user` and
    `purpose` can be given with a question, too: `retriever.invoke(text, user="dr-smith")`.
    """

    home: str | None = None
    url: str | None = None
    token: SecretStr | None = None
    ca: str | None = None
    k: int | None = None
    budget: int | None = None
    timeout_s: float | None = None
    purpose: str | None = None
    view: str | None = None
    user: str | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        user: str | None = None,
        purpose: str | None = None,
    ) -> list[Document]:
        del run_manager
        return [_document(item) for item in ask(self._node(), query, self._asked(user, purpose))]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        user: str | None = None,
        purpose: str | None = None,
    ) -> list[Document]:
        del run_manager
        found = await ask_async(self._node(), query, self._asked(user, purpose))
        return [_document(item) for item in found]

    def _node(self) -> Node:
        token = None if self.token is None else self.token.get_secret_value()
        return Node(home=self.home, url=self.url, token=token, ca=self.ca)

    def _asked(self, user: str | None, purpose: str | None) -> Question:
        return Question(
            k=self.k,
            budget=self.budget,
            timeout_s=self.timeout_s,
            purpose=purpose or self.purpose,
            view=self.view,
            user=user or self.user,
        )


def _document(passage: Passage) -> Document:
    metadata: dict[str, Any] = passage.metadata
    return Document(id=passage.key, page_content=passage.text, metadata=metadata)
