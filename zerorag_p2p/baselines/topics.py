"""What a question is about, in the topics that documents have."""

from __future__ import annotations

from typing import Final

import numpy as np

from zerorag_p2p.baselines.remote import RemoteDocuments
from zerorag_p2p.errors import UsageError

# Questions compared with all documents at a time.
_BATCH: Final = 1_024


def question_topics(remote: RemoteDocuments) -> list[tuple[str, ...]]:
    """For every query of a workload the topics of the document most similar to it.

    DRAG has a language model name a question's topics (arXiv 2505.00443, algorithm 1, line 1).
    This stands in for the model. It looks at every document there is, as the model has read about
    every subject, and at nobody's holdings: it knows what a question is about, not who could
    answer it.

    Raises:
        UsageError: No document has a topic.
    """
    documents = remote.workload.documents
    if not any(document.topics for document in documents):
        raise UsageError(
            f"no document of the workload {remote.workload.name!r} has a topic, and a topic-aware "
            "walk goes by nothing else: give the documents topics or choose another system"
        )
    queries = remote.query_vectors
    return [
        documents[nearest].topics
        for start in range(0, len(queries), _BATCH)
        for nearest in np.argmax(
            queries[start : start + _BATCH] @ remote.vectors.T, axis=1
        ).tolist()
    ]
