"""Ask a consortium through LlamaIndex: python examples/llama_index_retriever.py QUESTION."""

import sys

from zerorag_p2p.integrations.llama_index import ZeroRagRetriever

retriever = ZeroRagRetriever(similarity_top_k=3, purpose="treatment", user="dr-smith")
for node in retriever.retrieve(sys.argv[1]):
    print(node.metadata["organisation"], f"{node.score:.2f}", sep="\t")
    print(node.text)
