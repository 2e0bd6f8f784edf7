"""Locality-sensitive hashing over a distributed hash table: DHT-LSH of the ZeroRAG paper (4.1.4).

Every peer publishes the vectors of its documents: in each of L hash tables a vector falls into a
bucket, and the bucket is a key of the table that the peers keep together (`baselines.kademlia`).
Who asks hashes the question likewise, looks up its L buckets, scores every vector that they hold
exactly, and has the best five. The paper says how a document is found, not how a lookup is routed
or ends; here both are Kademlia's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from zerorag_p2p.baselines.kademlia import BUCKET_SIZE, ID_BITS, KademliaNetwork, Lookup
from zerorag_p2p.baselines.lookup_sizes import LookupSizes
from zerorag_p2p.baselines.lsh import PStableHash
from zerorag_p2p.baselines.remote import NONE, RESULTS, RemoteDocuments
from zerorag_p2p.baselines.system import OnProgress
from zerorag_p2p.model import Vector
from zerorag_p2p.workloads.outcome_table import OutcomeTable
from zerorag_p2p.workloads.workload import Numbers, Workload

_KEY_BYTES: Final = ID_BITS // 8

# Queries hashed at a time.
_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Publication:
    """What it takes to publish every document of a workload, and where the vectors end up.

    Attributes:
        stores: Times that a peer has a vector stored under a key: copies of documents times L.
        messages: Requests and replies of their lookups, and of storing each vector at the peers
            closest to its key.
        bytes: Their bytes.
        keys: Buckets that hold something.
        mean_bucket: Documents in the bucket of a document, mean over documents and tables, as a
            share of all documents.
        largest_bucket: Documents in the largest bucket, as a share of all.
    """

    stores: int
    messages: int
    bytes: int
    keys: int
    mean_bucket: float
    largest_bucket: float


class DhtLsh:
    """DHT-LSH with L tables.

    `contacts` are the different peers asked in the L lookups, `hops` those of the longest of them.
    The walks for a question are made once, by the first peer that asks it; others that ask the
    same are charged the same. Fetching the documents found is not counted.

    Attributes:
        publication: What publishing took in the last run; None before.

    Args:
        tables: Number of hash tables, L. The paper tries 10, 20 and 50.
        projections: Functions that a bucket combines, k = 10 in the paper.
        width: Width of an interval of a function, w = 3 in the paper.
        seed: Decides hash functions, ids and routing tables.
    """

    def __init__(
        self, tables: int, *, projections: int = 10, width: float = 3.0, seed: int = 1
    ) -> None:
        self._tables = tables
        self._projections = projections
        self._width = width
        self._seed = seed
        self.publication: Publication | None = None

    @property
    def name(self) -> str:
        """The name with the number of tables, "dht-lsh (L = 10)"."""
        return f"dht-lsh (L = {self._tables})"

    def run(self, workload: Workload, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of a workload; see `System.run`."""
        remote = RemoteDocuments(workload)
        hashing = PStableHash(
            remote.vectors.shape[1],
            tables=self._tables,
            projections=self._projections,
            width=self._width,
            seed=self._seed,
        )
        index = _Index(remote, hashing, KademliaNetwork(len(workload.holdings), seed=self._seed))
        self.publication = index.publish()
        askers = workload.events.peers
        results: Numbers = np.full((len(askers), RESULTS), NONE, dtype=np.int32)
        costs = np.zeros((len(askers), len(_Cost._fields)), dtype=np.int64)
        done = 0
        for questions in remote.questions(_BATCH):
            for row, keys in enumerate(index.keys(remote.query_vectors[questions.queries])):
                events = questions.events[questions.rows == row]
                ranked = index.candidates(int(questions.queries[row]), keys)
                results[events] = remote.first(askers[events], np.tile(ranked, (len(events), 1)))
                costs[events] = index.cost(int(askers[events[0]]), keys)
            done += len(questions.events)
            if on_progress is not None:
                on_progress(done, len(askers))
        contacts, messages, hops, sent = costs.T
        return remote.outcomes(
            results,
            contacts=contacts.astype(np.int32),
            messages=messages.astype(np.int32),
            hops=hops.astype(np.int32),
            bytes=sent,
        )


class _Cost(NamedTuple):
    """Of one question."""

    contacts: int
    messages: int
    hops: int
    bytes: int


class _Index:
    """The buckets of all tables, by key, in the network that stores them."""

    def __init__(
        self, remote: RemoteDocuments, hashing: PStableHash, network: KademliaNetwork
    ) -> None:
        self._remote = remote
        self._hashing = hashing
        self._network = network
        self._sizes = LookupSizes.measure(remote.vectors.shape[1], key_bytes=_KEY_BYTES)
        buckets: defaultdict[int, list[int]] = defaultdict(list)
        held = np.flatnonzero(remote.copies)
        for document, keys in zip(held.tolist(), self.keys(remote.vectors[held]), strict=True):
            for key in keys:
                buckets[key].append(document)
        self._buckets = {key: np.array(bucket) for key, bucket in buckets.items()}
        self._stored_at = {key: network.closest(key) for key in buckets}

    def keys(self, vectors: Vector) -> list[list[int]]:
        """For each of `vectors` [n, d] its key in every table."""
        tables = self._hashing.codes(vectors)
        return [
            [_key(table, codes.tobytes()) for table, codes in enumerate(of_vector)]
            for of_vector in tables.swapaxes(0, 1)
        ]

    def candidates(self, query: int, keys: Sequence[int]) -> Numbers:
        """Documents in the buckets of `keys`, each once, the most similar to a query first."""
        buckets = [self._buckets[key] for key in keys if key in self._buckets]
        if not buckets:
            return np.empty(0, dtype=np.int32)
        documents = np.unique(np.concatenate(buckets))
        scores = self._remote.vectors[documents] @ self._remote.query_vectors[query]
        return documents[np.argsort(-scores, kind="stable")].astype(np.int32)

    def cost(self, asker: int, keys: Sequence[int]) -> _Cost:
        """What looking up `keys` takes."""
        lookups = [self._network.lookup(asker, key, self._stored_at.get(key, ())) for key in keys]
        return _Cost(
            contacts=len(set().union(*(lookup.asked for lookup in lookups))),
            messages=sum(lookup.messages for lookup in lookups),
            hops=max(lookup.hops for lookup in lookups),
            bytes=sum(map(self._lookup_bytes, lookups, keys)),
        )

    def _lookup_bytes(self, lookup: Lookup, key: int) -> int:
        sizes, requests = self._sizes, len(lookup.asked)
        total = requests * sizes.request + (requests - lookup.values) * self._peers_bytes()
        if lookup.values:
            bucket = self._buckets[key]
            holders = int(self._remote.copies[bucket].sum())
            content = len(bucket) * sizes.document + holders * sizes.holder
            total += lookup.values * (sizes.empty_value + content)
        return total

    def _peers_bytes(self) -> int:
        named = min(BUCKET_SIZE, len(self._network) - 1)
        return self._sizes.empty_peers + named * self._sizes.peer

    def publish(self) -> Publication:
        """What it takes that every holder of a document stores it under its keys.

        The walk to a key is made once, by a holder of one of its documents.
        """
        copies, sizes = self._remote.copies, self._sizes
        stores = messages = total = 0
        for key, bucket in self._buckets.items():
            lookup = self._network.lookup(int(self._remote.holder[bucket[0]]), key)
            times, replicas = int(copies[bucket].sum()), len(self._stored_at[key])
            walk = len(lookup.asked) * (sizes.request + self._peers_bytes())
            stores += times
            messages += times * (lookup.messages + 2 * replicas)
            total += times * (walk + replicas * (sizes.store + sizes.stored))
        held = np.count_nonzero(copies)
        filled = np.array([len(bucket) for bucket in self._buckets.values()])
        return Publication(
            stores=stores,
            messages=messages,
            bytes=total,
            keys=len(filled),
            mean_bucket=float((filled**2).sum() / filled.sum() / held),
            largest_bucket=float(filled.max() / held),
        )


def _key(table: int, codes: bytes) -> int:
    digest = blake2b(codes, digest_size=_KEY_BYTES, salt=table.to_bytes(blake2b.SALT_SIZE))
    return int.from_bytes(digest.digest())
