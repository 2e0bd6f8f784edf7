"""How much one peer may ask of us: rates, and lock-outs of those that probe.

Three things are counted for every peer, in memory that is bounded for each and in their number:

- requests and bytes, in token buckets, so that a flood is refused at the cost of a refusal;
- near-identical queries: repeating one with small changes and watching what differs tells what an
  answer is meant to hide (SHRINE locks out on repeated queries for this reason). Their embeddings
  are kept for as long as a repetition counts, `window_s`, whatever the asker allows to remember;
- fetches of what no query of the peer was answered with: guessing hashes tells what is held, even
  though a forbidden document and a missing one are refused alike.

Time is unix seconds; one that goes back adds nothing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zerorag_p2p.config import LimitsConfig
from zerorag_p2p.model import ContentHash, HashPrefix, PeerId, RefusalCode, Vector, hash_prefix
from zerorag_p2p.wire.refusal import Refusal

#: Different queries of a peer that repetitions are looked for among: the latest.
REMEMBERED_QUERIES: Final = 64

#: Documents returned to a peer that are remembered: the latest.
REMEMBERED_RESULTS: Final = 1_024

_MINUTE_S: Final = 60.0

_LARGEST: Final = 127  # of eight bits with a sign

#: Tokens that may be missing because differences of times are rounded.
_ROUNDING: Final = 1e-3


class Kind(enum.StrEnum):
    """What is counted and locked out apart."""

    QUERY = "query"
    FETCH = "fetch"
    ADVERTISE = "advertise"
    GOSSIP = "gossip"


@dataclass(slots=True)
class TokenBucket:
    """Tokens that are taken and come back with time, up to a capacity.

    Attributes:
        capacity: Most tokens, in it from the start.
        per_second: How many come back a second.
        at: When `tokens` was right.
    """

    capacity: float
    per_second: float
    at: float
    tokens: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.capacity

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` tokens are there; 0 if they are."""
        self._refill(now)
        missing = amount - self.tokens
        return missing / self.per_second if missing > _ROUNDING else 0.0

    def take(self, amount: float, now: float) -> None:
        """Take tokens, even those that are not there: they have to come back first."""
        self._refill(now)
        self.tokens -= amount

    def _refill(self, now: float) -> None:
        passed = max(0.0, now - self.at)
        self.tokens = min(self.capacity, self.tokens + passed * self.per_second)
        self.at = max(self.at, now)


@dataclass(frozen=True, slots=True)
class LockOut:
    """Why and until when (unix seconds) a peer is refused."""

    until: float
    reason: str


class _Asked:
    """The latest different queries of a peer, in eight bits a component."""

    def __init__(self, dimension: int) -> None:
        self._rows = np.empty((0, dimension), dtype=np.int8)
        self._scales = np.empty(0, dtype=np.float32)
        self._left: dict[int, TokenBucket] = {}  # by row, the one asked last at the end

    def __len__(self) -> int:
        return len(self._left)

    def forget_expired(self, window_s: float, now: float) -> None:
        """Drop queries not asked for `window_s`: as often as a fresh one they may be repeated."""
        kept = [row for row, left in self._left.items() if now - left.at < window_s]
        if len(kept) < len(self._left):
            self._rows, self._scales = self._rows[kept], self._scales[kept]
            self._left = {row: self._left[old] for row, old in enumerate(kept)}

    def left(self, embedding: Vector, similarity: float, fresh: TokenBucket) -> TokenBucket:
        """How often a query may still be repeated; `fresh` for one unlike the others."""
        row = self._same(embedding, similarity)
        if row is not None:
            left = self._left.pop(row)
        else:
            row, left = self._free_row(), fresh
            scale = float(np.abs(embedding).max()) / _LARGEST or 1.0
            self._rows[row] = np.rint(embedding / scale)
            self._scales[row] = scale
        self._left[row] = left
        return left

    def _same(self, embedding: Vector, similarity: float) -> int | None:
        count = len(self._left)
        if not count:
            return None
        products = self._rows[:count].astype(np.float32) @ embedding
        similarities = products * self._scales[:count]
        best = int(np.argmax(similarities))
        return best if similarities[best] >= similarity else None

    def _free_row(self) -> int:
        """A row for another query: a new one, or that of the query not asked for longest."""
        count = len(self._left)
        if count == REMEMBERED_QUERIES:
            row = next(iter(self._left))
            del self._left[row]
            return row
        if count == len(self._rows):
            more = min(max(4, count), REMEMBERED_QUERIES - count)
            self._rows = np.concatenate(
                [self._rows, np.empty_like(self._rows, shape=(more, self._rows.shape[1]))]
            )
            self._scales = np.concatenate([self._scales, np.empty(more, dtype=np.float32)])
        return count


@dataclass(slots=True)
class _Account:
    """What one peer asked."""

    rates: dict[str, TokenBucket] = field(default_factory=dict)
    lock_outs: dict[Kind, LockOut] = field(default_factory=dict)
    asked: dict[int, _Asked] = field(default_factory=dict)  # by dimension
    returned: dict[HashPrefix, None] = field(default_factory=dict)  # the latest last
    wait_until: dict[Kind, float] = field(default_factory=dict)  # as refusals said

    def locked(self, now: float) -> bool:
        return any(lock_out.until > now for lock_out in self.lock_outs.values())


class Limits:
    """Accounts of the peers that ask us."""

    def __init__(self, settings: LimitsConfig) -> None:
        self._settings = settings
        self._accounts: dict[PeerId, _Account] = {}  # the peer that asked last comes last

    def admit(self, peer: PeerId, kind: Kind, size: int, now: float) -> Refusal | None:
        """Count a request of `size` bytes, before it is decoded; why it is refused, if it is.

        A refused request costs nothing but time: it uses up no tokens.
        """
        settings = self._settings
        account = self._account(peer, now)
        lock_out = account.lock_outs.get(kind)
        if lock_out is not None:
            if lock_out.until > now:
                return _refuse(account, kind, lock_out.reason, lock_out.until - now, now)
            del account.lock_outs[kind]
        gossip = kind is Kind.GOSSIP
        requests = settings.gossip_per_minute if gossip else settings.requests_per_minute
        number = _bucket(account, "gossip" if gossip else "requests", requests, now)
        volume = _bucket(account, "bytes", settings.bytes_per_minute, now)
        # A request is let in while a byte is left, however large it and its answer are.
        number_s = 0.0 if number is None else number.wait_s(1, now)
        volume_s = 0.0 if volume is None else volume.wait_s(1, now)
        if number_s or volume_s:
            most = f"{requests} requests" if number_s else f"{settings.bytes_per_minute} bytes"
            wait_s = max(number_s, volume_s)
            return _refuse(account, kind, f"more than {most} a minute", wait_s, now)
        if number is not None:
            number.take(1, now)
        if volume is not None:
            volume.take(size, now)
        return None

    def was_told_to_wait(self, peer: PeerId, kind: Kind, now: float) -> bool:
        """Whether a refusal named a later time to come back.

        To be asked before `admit`, which may name another.
        """
        account = self._accounts.get(peer)
        return account is not None and now < account.wait_until.get(kind, now)

    def note_reply(self, peer: PeerId, size: int, now: float) -> None:
        """Count the bytes of an answer."""
        account = self._account(peer, now)
        volume = _bucket(account, "bytes", self._settings.bytes_per_minute, now)
        if volume is not None:
            volume.take(size, now)

    def check_query(self, peer: PeerId, embedding: Vector, now: float) -> Refusal | None:
        """Count a query by its embedding, of unit length; why it is refused, if it is.

        Embeddings are of as many dimensions as there are models in use.
        """
        settings = self._settings
        if not settings.repeated_queries:
            return None
        account = self._account(peer, now)
        asked = account.asked.setdefault(len(embedding), _Asked(len(embedding)))
        most = settings.repeated_queries
        fresh = TokenBucket(most, most / settings.window_s, now)
        asked.forget_expired(settings.window_s, now)
        left = asked.left(embedding, settings.repeat_similarity, fresh)
        if not left.wait_s(1, now):
            left.take(1, now)
            return None
        return self._lock_out(
            account,
            Kind.QUERY,
            f"more than {most} near-identical queries in {settings.window_s:g} s",
            now,
        )

    def forget_expired(self, now: float) -> None:
        """Drop the embeddings of queries that were not asked for `window_s`."""
        for account in self._accounts.values():
            for dimension, asked in list(account.asked.items()):
                asked.forget_expired(self._settings.window_s, now)
                if not asked:
                    del account.asked[dimension]

    def note_results(self, peer: PeerId, documents: Sequence[ContentHash], now: float) -> None:
        """Remember which documents a query of `peer` was answered with."""
        if not self._settings.unreturned_fetches:
            return
        returned = self._account(peer, now).returned
        for document in documents:
            prefix = hash_prefix(document)
            returned.pop(prefix, None)
            returned[prefix] = None
        for prefix in list(returned)[: max(0, len(returned) - REMEMBERED_RESULTS)]:
            del returned[prefix]

    def check_fetch(
        self, peer: PeerId, documents: Sequence[ContentHash], now: float
    ) -> Refusal | None:
        """Count a fetch by the documents it asks for; why it is refused, if it is."""
        settings = self._settings
        if not settings.unreturned_fetches:
            return None
        account = self._account(peer, now)
        unreturned = sum(hash_prefix(document) not in account.returned for document in documents)
        if not unreturned:
            return None
        left = account.rates.get("unreturned")
        if left is None:
            left = account.rates["unreturned"] = TokenBucket(
                settings.unreturned_fetches, settings.unreturned_fetches / settings.window_s, now
            )
        if not left.wait_s(unreturned, now):
            left.take(unreturned, now)
            return None
        return self._lock_out(
            account,
            Kind.FETCH,
            f"more than {settings.unreturned_fetches} documents fetched in "
            f"{settings.window_s:g} s that no query was answered with",
            now,
        )

    def lock_outs(self, now: float) -> list[tuple[PeerId, Kind, LockOut]]:
        """Who is locked out of what at the moment, the peer that asked last at the end."""
        return [
            (peer, kind, lock_out)
            for peer, account in self._accounts.items()
            for kind, lock_out in account.lock_outs.items()
            if lock_out.until > now
        ]

    def __len__(self) -> int:
        return len(self._accounts)

    def _lock_out(self, account: _Account, kind: Kind, reason: str, now: float) -> Refusal:
        lock_out = account.lock_outs[kind] = LockOut(now + self._settings.lockout_s, reason)
        return _refuse(account, kind, reason, lock_out.until - now, now)

    def _account(self, peer: PeerId, now: float) -> _Account:
        account = self._accounts.pop(peer, None)
        if account is None:
            if len(self._accounts) >= self._settings.peers:
                self._forget_one(now)
            account = _Account()
        self._accounts[peer] = account
        return account

    def _forget_one(self, now: float) -> None:
        """Forget the peer that was quiet for longest; whoever is locked out only if all are."""
        quiet = (peer for peer, account in self._accounts.items() if not account.locked(now))
        del self._accounts[next(quiet, next(iter(self._accounts)))]


def _bucket(account: _Account, name: str, per_minute: int, now: float) -> TokenBucket | None:
    """The bucket of a rate, of a minute's worth; None where there is no limit."""
    if not per_minute:
        return None
    bucket = account.rates.get(name)
    if bucket is None:
        bucket = account.rates[name] = TokenBucket(per_minute, per_minute / _MINUTE_S, now)
    return bucket


def _refuse(account: _Account, kind: Kind, reason: str, wait_s: float, now: float) -> Refusal:
    retry_after_s = math.ceil(wait_s)
    account.wait_until[kind] = now + retry_after_s
    return Refusal(RefusalCode.RATE_LIMITED, reason, retry_after_s)
