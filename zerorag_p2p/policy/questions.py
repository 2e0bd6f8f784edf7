"""Questions that were answered lately, by which fetches under the same reference are judged."""

from __future__ import annotations

from collections import OrderedDict, deque

from zerorag_p2p.config import (
    JUDGED_QUESTIONS,
    JUDGED_QUESTIONS_PER_PEER,
    QUESTION_JUDGED_S,
)
from zerorag_p2p.model import PeerId, Vector


class RecentQuestions:
    """Embeddings of the questions of each peer, by audit reference, for `QUESTION_JUDGED_S`.

    Questions that are not to be remembered are among them: what is fetched is judged by them.
    A peer has `JUDGED_QUESTIONS_PER_PEER` of them and all together `JUDGED_QUESTIONS`; the oldest
    goes first. Of two questions under one reference the later counts.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[PeerId, str], tuple[float, Vector]] = OrderedDict()
        self._by_peer: dict[PeerId, deque[str]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, peer: PeerId, audit: str, query: Vector, now: float) -> None:
        """Remember that `peer` asked `query` under `audit` at unix time `now`."""
        self.forget_expired(now)
        self._drop((peer, audit))
        mine = self._by_peer.get(peer)
        if mine is not None and len(mine) >= JUDGED_QUESTIONS_PER_PEER:
            self._drop((peer, mine[0]))
        if len(self._entries) >= JUDGED_QUESTIONS:
            self._drop(next(iter(self._entries)))
        self._entries[peer, audit] = (now + QUESTION_JUDGED_S, query)
        self._by_peer.setdefault(peer, deque()).append(audit)

    def find(self, peer: PeerId, audit: str, now: float) -> Vector | None:
        """The question of `peer` under `audit`, if it was asked lately."""
        self.forget_expired(now)
        entry = self._entries.get((peer, audit))
        return None if entry is None else entry[1]

    def forget_expired(self, now: float) -> None:
        """Drop what was asked `QUESTION_JUDGED_S` ago or earlier."""
        while self._entries:
            key, (expires_at, _) = next(iter(self._entries.items()))
            if now < expires_at:
                return
            self._drop(key)

    def _drop(self, key: tuple[PeerId, str]) -> None:
        if self._entries.pop(key, None) is None:
            return
        peer, audit = key
        self._by_peer[peer].remove(audit)
        if not self._by_peer[peer]:
            del self._by_peer[peer]
