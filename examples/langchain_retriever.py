"""Ask a consortium through LangChain: python examples/langchain_retriever.py QUESTION."""

import sys

from zerorag_p2p.integrations.langchain import ZeroRagRetriever

retriever = ZeroRagRetriever(k=3, purpose="treatment")
for document in retriever.invoke(sys.argv[1], user="dr-smith"):
    print(document.metadata["organisation"], f"{document.metadata['score']:.2f}", sep="\t")
    print(document.page_content)
