"""Ask a consortium in a pipeline of Haystack: python examples/haystack_pipeline.py QUESTION."""

import os
import sys

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # Haystack reports its use otherwise.

from haystack import Pipeline
from haystack.components.builders import PromptBuilder

from zerorag_p2p.integrations.haystack import ZeroRagRetriever

TEMPLATE = """\
Answer from these passages, and name the organisation of each that you use.
{% for document in documents %}
[{{ loop.index }}] {{ document.meta.organisation }}: {{ document.content }}
{% endfor %}
Question: {{ question }}"""

pipeline = Pipeline()
pipeline.add_component("retriever", ZeroRagRetriever(top_k=3, purpose="treatment"))
pipeline.add_component("prompt", PromptBuilder(TEMPLATE, required_variables="*"))
pipeline.connect("retriever.documents", "prompt.documents")

question = sys.argv[1]
result = pipeline.run({"retriever": {"query": question}, "prompt": {"question": question}})
print(result["prompt"]["prompt"])
