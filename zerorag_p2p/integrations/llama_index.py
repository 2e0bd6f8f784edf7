"""A node as a retriever of LlamaIndex."""

from __future__ import annotations

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from zerorag_p2p.integrations.passages import Node, Passage, Question, ask, ask_async


class ZeroRagRetriever(BaseRetriever):
    """Finds documents in a consortium.

    A text that two owners have is two nodes: LlamaIndex drops nodes of the same id, and who vouches
    for a text matters.

    Args:
        home: The node's home; or
        url: where it listens for applications, with
        token: the application's token, and
        ca: the file of the authorities that its certificate is judged by. What is left out comes
            from the environment; see `zerorag_p2p.client`.
        similarity_top_k: How many documents.
        budget: How many peers may be asked at most.
        timeout_s: Seconds for everything.
        purpose: Purpose of use; owners decide by it.
        view: How much of each document is wanted: "passage" or "whole".
        user: The person who asks; others learn a pseudonym.
        callback_manager: As every retriever has.
    """

    def __init__(
        self,
        *,
        home: str | None = None,
        url: str | None = None,
        token: str | None = None,
        ca: str | None = None,
        similarity_top_k: int | None = None,
        budget: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        view: str | None = None,
        user: str | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._asked_node = Node(home=home, url=url, token=token, ca=ca)
        self._question = Question(
            k=similarity_top_k,
            budget=budget,
            timeout_s=timeout_s,
            purpose=purpose,
            view=view,
            user=user,
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = ask(self._asked_node, query_bundle.query_str, self._question)
        return [_scored(item) for item in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await ask_async(self._asked_node, query_bundle.query_str, self._question)
        return [_scored(item) for item in found]


#: What a language model gets to read with the text; the rest of the attribution is for programs.
_READABLE = ("title", "organisation")


def _scored(passage: Passage) -> NodeWithScore:
    hidden = [name for name in passage.metadata if name not in _READABLE]
    node = TextNode(
        id_=passage.key,
        text=passage.text,
        metadata=passage.metadata,
        excluded_embed_metadata_keys=hidden,
        excluded_llm_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=passage.score)
