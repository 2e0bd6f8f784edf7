"""What speaks for asking a peer: an advertisement of its documents, or a query it asked itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerorag_p2p.model import HashPrefix, PeerId, Score

#: Standard errors beyond which a peer that did not return what it advertises is not believed that
#: it was not good enough.
DOUBT: Final = 3.0


@dataclass(frozen=True, slots=True)
class Advertised:
    """Evidence that a peer holds a document.

    Attributes:
        score: Similarity of the advertised vector with the query, an estimate of the document's.
        document: The document; None for a cluster of documents.
        error: Standard error of the score.
    """

    score: Score
    document: HashPrefix | None = None
    error: float = 0.0

    def reach(self, margin: float) -> Score:
        """The most that the document's own score may be, `margin` standard errors up."""
        return self.score + margin * self.error

    def floor(self, margin: float) -> Score:
        """The least that the document's own score may be, `margin` standard errors down."""
        return self.score - margin * self.error


@dataclass(frozen=True, slots=True)
class PeerReferral:
    """What is known in favour of asking `peer`; the two kinds of evidence stay apart.

    Attributes:
        peer: Whom to ask.
        advertised: What it advertises, best first.
        remembered: Best score of a query that it once asked.
    """

    peer: PeerId
    advertised: tuple[Advertised, ...] = ()
    remembered: Score | None = None
