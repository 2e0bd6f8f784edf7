"""A semantic tree overlay: our reading of Semantica (Neague et al., arXiv 2502.10151).

The ZeroRAG paper compares with Semantica. This is not its code: it was written after what its
authors publish about it, the paper's summary and their repository, and is simpler.

- A peer is the mean of its documents' vectors. Peers join one by one, in random order. Each goes
  down a binary tree from the root, at every fork to the side whose centroid is nearer; if both are
  about as near, to both, as a clone. A leaf that gets too many peers forks: they are divided by
  2-means, and the means are the centroids.
- A peer's contacts are the most similar of the peers around its place in the tree: around each of
  its leaves the smallest subtree with enough others is taken.
- A question is handed from peer to peer, always to the contact whose mean is most similar to the
  question among those that have not had it. It ends when the budget is spent or all contacts of a
  peer have had it. Every peer on the way sends the asker its best documents.

Left out are churn and the rounds in which peers hear of further contacts from their contacts (the
authors' repository has none by default).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.baselines.peer_tree import PeerTree, mean_vectors
from zerorag_p2p.baselines.remote import NONE, RESULTS, RemoteDocuments, rank
from zerorag_p2p.baselines.system import OnProgress
from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.model import Vector
from zerorag_p2p.workloads.outcome_table import NO_HIT, OutcomeTable
from zerorag_p2p.workloads.query_sizes import QuerySizes
from zerorag_p2p.workloads.workload import Numbers, Workload

_BUDGET: Final = RoutingConfig().contact_budget

# Queries whose similarities to peers and documents are held at a time.
_BATCH: Final = 500

# Marks held at a time of who had a question and what it found, a byte each.
_MARKS: Final = 1 << 26


class SemanticTree:
    """The semantic tree with questions handed from contact to contact.

    Args:
        leaf_limit: Peers in a leaf above which it forks (the authors' repository: 50).
        contact_limit: Contacts a place in the tree, 50 there.
        clone_margin: A peer whose distances to the centroids of a fork differ by less goes to
            both sides, 5e-4 there.
        budget: Peers that a question reaches at most.
        stop_at_target: Whether a question ends at a peer that holds the document asked for, as in
            the runs of both papers. No real querier can know that.
        seed: Decides the order in which peers join, and where 2-means starts.
    """

    name = "semantic tree"

    def __init__(
        self,
        *,
        leaf_limit: int = 50,
        contact_limit: int = 50,
        clone_margin: float = 5e-4,
        budget: int = _BUDGET,
        stop_at_target: bool = True,
        seed: int = 1,
    ) -> None:
        self._leaf_limit = leaf_limit
        self._contact_limit = contact_limit
        self._clone_margin = clone_margin
        self._budget = budget
        self._stop_at_target = stop_at_target
        self._seed = seed

    def run(self, workload: Workload, on_progress: OnProgress | None = None) -> OutcomeTable:
        """Ask every question of a workload; see `System.run`."""
        remote = RemoteDocuments(workload)
        means = mean_vectors(remote.vectors, workload.holdings)
        contacts_of = self._connect(means)
        askers = workload.events.peers
        results: Numbers = np.full((len(askers), RESULTS), NONE, dtype=np.int32)
        contacts, requests, returned = np.zeros((3, len(askers)), dtype=np.int32)
        size = max(1, _MARKS // (len(means) + len(remote.vectors)))
        done = 0
        for questions in remote.questions(_BATCH):
            queries = remote.query_vectors[questions.queries]
            to_peers, to_documents = queries @ means.T, queries @ remote.vectors.T
            for start in range(0, len(questions.events), size):
                events = questions.events[start : start + size]
                rows = questions.rows[start : start + size]
                walks = _Walks(workload, events, contacts_of)
                for _ in range(self._budget):
                    walks.step(to_peers, rows)
                    if self._stop_at_target:
                        walks.stop_at_target()
                results[events] = walks.results(to_documents[rows])
                contacts[events], requests[events] = walks.contacts, walks.requests
                returned[events] = walks.returned
                done += len(events)
                if on_progress is not None:
                    on_progress(done, len(askers))
        sizes = QuerySizes.measure(workload.fingerprint, k=RESULTS)
        per_contact = sizes.request + sizes.empty_result
        return remote.outcomes(
            results,
            hit=requests != NO_HIT,
            requests_to_target=requests,
            contacts=contacts,
            messages=2 * contacts,
            hops=np.where(requests != NO_HIT, requests, contacts),
            bytes=per_contact * contacts.astype(np.int64) + sizes.document * returned,
        )

    def _connect(self, means: Vector) -> Numbers:
        """The contacts of every peer, after all have joined; see `PeerTree.contacts`."""
        generator = np.random.default_rng(self._seed)
        tree = PeerTree(
            means,
            leaf_limit=self._leaf_limit,
            clone_margin=self._clone_margin,
            generator=generator,
        )
        for peer in generator.permutation(len(means)).tolist():
            tree.join(peer)
        return tree.contacts(self._contact_limit)


class _Walks:
    """The walks of n questions side by side; they do not influence each other.

    Attributes:
        contacts: Peers that each question has reached, int32 [n].
        requests: Contacts up to the first that held the document asked for, or `NO_HIT`, [n].
        returned: Documents that those peers have sent, [n].
    """

    def __init__(self, workload: Workload, events: NDArray[np.intp], contacts_of: Numbers) -> None:
        count, peers = len(events), len(workload.holdings)
        self._holdings = workload.holdings
        self._contacts_of = contacts_of
        self._targets = workload.events.documents[events]
        self._at = workload.events.peers[events]
        self._walking: NDArray[np.intp] = np.arange(count)
        # The column after the last peer stands for no peer: nobody is to be chosen there.
        self._had = np.zeros((count, peers + 1), dtype=np.bool_)
        self._had[:, peers] = True
        self._had[self._walking, self._at] = True
        self._found = np.zeros((count, len(workload.documents)), dtype=np.bool_)
        self.contacts: Numbers = np.zeros(count, dtype=np.int32)
        self.requests: Numbers = np.full(count, NO_HIT, dtype=np.int32)
        self.returned: Numbers = np.zeros(count, dtype=np.int32)

    def step(self, similarities: Vector, rows: NDArray[np.intp]) -> None:
        """Hand every question on that can be.

        Args:
            similarities: Of some queries and all peers, [queries, peers].
            rows: Which of those queries each question asks, [n].
        """
        walking = self._walking
        options = self._contacts_of[self._at[walking]]
        had = self._had[walking[:, None], options]
        # Padding is out of range by one; any score will do, for it counts as having had it.
        in_range = np.minimum(options, similarities.shape[1] - 1)
        scores = similarities[rows[walking, None], in_range]
        scores[had] = -np.inf
        best = np.argmax(scores, axis=1)
        goes_on = ~had[np.arange(len(walking)), best]
        self._walking = walking = walking[goes_on]
        peers = options[goes_on, best[goes_on]]
        self._at[walking] = peers
        self._had[walking, peers] = True
        self.contacts[walking] += 1
        self._take_in(peers)

    def _take_in(self, peers: Numbers) -> None:
        """The peers just reached send their documents."""
        walking, starts = self._walking, self._holdings.starts
        held = starts[peers + 1] - starts[peers]
        # Positions of the documents of each peer, one peer after the other.
        within = np.arange(held.sum()) - np.repeat(np.cumsum(held) - held, held)
        documents = self._holdings.documents[np.repeat(starts[peers], held) + within]
        self._found[np.repeat(walking, held), documents] = True
        self.returned[walking] += np.minimum(held, RESULTS)
        hit = self._found[walking, self._targets[walking]]
        first = walking[hit & (self.requests[walking] == NO_HIT)]
        self.requests[first] = self.contacts[first]

    def stop_at_target(self) -> None:
        """Walk no further with questions that have reached a holder."""
        self._walking = self._walking[self.requests[self._walking] == NO_HIT]

    def results(self, similarities: Vector) -> Numbers:
        """The best documents that each question has found, [n, `RESULTS`], then `NONE`.

        A peer sends no more than `RESULTS` documents. What else it holds is counted as found here,
        but cannot be among the best of all.

        Args:
            similarities: Of questions and documents, [n, documents].
        """
        ranked = rank(np.where(self._found, similarities, np.float32(-np.inf)), RESULTS)
        found = np.take_along_axis(self._found, ranked, axis=1)
        results: Numbers = np.full((len(ranked), RESULTS), NONE, dtype=np.int32)
        results[:, : ranked.shape[1]] = np.where(found, ranked, NONE)
        return results
