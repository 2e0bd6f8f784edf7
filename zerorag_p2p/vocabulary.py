"""Words that tell little."""

from __future__ import annotations

from typing import Final

#: English words that any sentence may have.
COMMON_WORDS: Final = frozenset(
    {
        *("an", "and", "are", "as", "at", "be", "been", "but", "by"),
        *("can", "could", "did", "do", "does", "for", "from", "had", "has"),
        *("have", "how", "if", "in", "into", "is", "it", "its", "may"),
        *("might", "more", "most", "no", "nor", "not", "of", "on", "or"),
        *("our", "over", "should", "such", "than", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "those", "to", "under", "was"),
        *("we", "were", "what", "when", "where", "which", "while", "who", "will"),
        *("with", "without", "would"),
    }
)
