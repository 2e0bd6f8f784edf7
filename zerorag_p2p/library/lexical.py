"""Search by words beside search by vectors: what is looked up, and one ranking of two.

BM25 itself is SQLite's (FTS5, in `documents`). Both rankings are of our own documents, for our own
questions: to others a question goes as an embedding, its text does not.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

from zerorag_p2p.config import MAX_SEARCHED_WORDS
from zerorag_p2p.vocabulary import COMMON_WORDS

_Item = TypeVar("_Item", bound=Hashable)

_WORD: Final = re.compile(r"\w+")

#: How far first places outweigh later ones. Measured (docs/retrieval.md); 60 where the method was
#: published (Cormack, Clarke, Büttcher 2009).
RANK_DAMPING: Final = 10


def searched_words(question: str) -> list[str]:
    """The first words of a question that documents are looked up by, each once.

    Words that any sentence may have are not among them: they tell nothing and cost most.
    """
    words = dict.fromkeys(_WORD.findall(question.casefold()))
    return [word for word in words if word not in COMMON_WORDS][:MAX_SEARCHED_WORDS]


def fuse(rankings: Iterable[Sequence[_Item]], *, damping: float = RANK_DAMPING) -> list[_Item]:
    """One ranking of several, each best first: reciprocal rank fusion.

    Where two items come out equal, the one is first that an earlier ranking has first.
    """
    totals: dict[_Item, float] = {}
    for ranking in rankings:
        for place, item in enumerate(ranking, start=1):
            totals[item] = totals.get(item, 0.0) + 1 / (damping + place)
    return sorted(totals, key=lambda item: -totals[item])
