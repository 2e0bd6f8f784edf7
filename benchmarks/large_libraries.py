"""What is lost where owners advertise summaries of large libraries.

    python -m benchmarks.large_libraries [--peers 200|5000] [--quick] [--json]
    python -m benchmarks.large_libraries --pubmedqa FOLDER

Two million generated documents (`workloads.large`): 200 peers with 1,000 to 100,000, or 5,000 with
400. Every question goes through the walk of `routing = "complete"`, whose evidence is the summaries
of the peers that it knows. Three tables: ways to summarise beside each other; the share of peers
whose summaries everybody keeps; and how many clusters a walk starts from, with the margin of error
that it allows for.

    first n   recall@5 when n peers are asked in the order of their estimates and nothing else
    within 3  share of true best scores that lie within three errors of the estimate
    recall@5  of the walk, against the exact answer among all documents of other peers
    contacts  of the walk

Codes are those of 768 dimensions: their errors are drawn from a normal distribution with the
deviation that they have there. With `--pubmedqa`, instead, similarities of the generated documents
are printed beside those of the PubMedQA data. `--quick` takes 40 peers or 400, and few questions.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.config import RoutingConfig
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import NEVER_COMPARED, ContentHash, HashPrefix, PeerId, Vector, hash_prefix
from zerorag_p2p.peer import KNOWN_PER_WANTED
from zerorag_p2p.routing.evidence import Advertised, PeerReferral
from zerorag_p2p.routing.strategy import strategy_from
from zerorag_p2p.routing.summaries import SAMPLE_ROWS, Clusters, Summary, estimate, summarise
from zerorag_p2p.routing.walk import Contact, Finished, ReturnedDocument, Walk
from zerorag_p2p.wire.advertise import (
    Advertisement,
    Entry,
    Estimates,
    encode_advertise_reply,
    encode_advertisement,
)
from zerorag_p2p.wire.codes import decode_codes, encode_codes, score_errors
from zerorag_p2p.wire.embedding import normalised_rows
from zerorag_p2p.workloads.large import LargeLibraries, Questions, skewed_sizes
from zerorag_p2p.workloads.pubmedqa import PubMedQA

SEED = 1
EQUAL_SIZE = 400
#: Questions by number of peers, and what a quick run takes instead.
QUESTIONS = {200: 400, 5_000: 200}
QUICK_PEERS = {200: 40, 5_000: 400}
QUICK_QUESTIONS = 60
CODED_DIMENSION = 768
K = 5
FIRST = (5, 10, 20, 50)
MARGINS = (1.25, 2.0, 3.0)
PROFILE = (1, 5, 20, 100)
PROFILE_DOCUMENTS = 1_000

ROUTING = RoutingConfig(routing="complete", k=K)
STRATEGY = strategy_from(ROUTING)

Row = dict[str, str | int | float]
Choose = Callable[[Vector, int, np.random.Generator], Vector]


def choose_documents(rows: Vector, limit: int, generator: np.random.Generator) -> Vector:
    return rows[generator.choice(len(rows), size=limit, replace=False)]


def choose_farthest(rows: Vector, limit: int, generator: np.random.Generator) -> Vector:
    """Documents each of which is the farthest from those before it (k-centre, greedily)."""
    chosen = [int(generator.integers(len(rows)))]
    nearest = rows @ rows[chosen[0]]
    for _ in range(limit - 1):
        chosen.append(int(np.argmin(nearest)))
        np.maximum(nearest, rows @ rows[chosen[-1]], out=nearest)
    return rows[chosen]


def choose_centroids(rows: Vector, limit: int, generator: np.random.Generator) -> Vector:
    """Ten rounds of spherical k-means on 4,096 documents, from documents at random."""
    rows = rows[generator.permutation(len(rows))[:4_096]]
    centroids = choose_documents(rows, limit, generator)
    for _ in range(10):
        centroids = normalised_rows(Clusters.around(rows, centroids).sums)
    return centroids


@dataclass(frozen=True)
class Summarising:
    """A row of the first table.

    Attributes:
        name: How clusters are found.
        limit: Vectors advertised.
        choose: Finds centroids; None for `routing.summaries`.
        offsets: What has one of its own: a "cluster", a "library", or "none".
        bits: Of the codes.
    """

    name: str
    limit: int
    choose: Choose | None = None
    offsets: str = "cluster"
    bits: int = ROUTING.advertisement_bits

    def summarise(self, documents: Vector, generator: np.random.Generator) -> Summary:
        """Centroids with an offset for each cluster, whatever this row says."""
        if len(documents) <= self.limit:
            return Summary(documents, no_estimates(len(documents)))
        if self.choose is None:
            return summarise(documents, self.limit, generator)
        rows = documents[generator.permutation(len(documents))[:SAMPLE_ROWS]]
        clusters = Clusters.around(rows, self.choose(rows, self.limit, generator))
        scale = len(documents) / len(rows)
        return Summary(clusters.centroids, estimate(clusters, scale, generator))

    def advertised(self, summary: Summary) -> Estimates:
        """The estimates that this row is about."""
        estimates = summary.estimates
        match self.offsets:
            case "none":
                return no_estimates(len(summary.centroids))
            case "library":
                mean = np.full_like(estimates.offsets, estimates.offsets.mean())
                return Estimates(mean, estimates.errors)
        return estimates


def no_estimates(count: int) -> Estimates:
    return Estimates(np.zeros(count, np.float32), np.zeros(count, np.float32))


@dataclass(frozen=True)
class Evidence:
    """What peers advertise, for every question.

    Attributes:
        scores: float32 [questions, peers, items], best first.
        errors: float32 [questions, peers].
        documents: Whether items are documents; else there is one, for the best cluster.
    """

    scores: Vector
    errors: Vector
    documents: bool = False


@dataclass(frozen=True)
class World:
    """Who has which of the best documents.

    Attributes:
        questions: Who asks what.
        best: float32 [questions, peers, K], scores of each peer's best documents, minus infinity of
            the asker's.
        directions: float32 [peers, d], of the mean document of each peer.
    """

    questions: Questions
    best: Vector
    directions: Vector

    def exact(self, question: int) -> set[ContentHash]:
        flat = self.best[question].reshape(-1)
        return {content_hash(*divmod(int(item), K)) for item in np.argsort(-flat)[:K]}

    def fewest_contacts(self) -> float:
        count = len(self.best)
        top = np.argsort(-self.best.reshape(count, -1), axis=1)[:, :K] // K
        return float(np.mean([len(np.unique(row)) for row in top]))


def content_hash(peer: int, rank: int) -> ContentHash:
    return ContentHash(f"{peer * K + rank:016x}".ljust(64, "0"))


def examine(
    libraries: LargeLibraries, questions: Questions, ways: Sequence[Summarising]
) -> tuple[World, list[Evidence]]:
    """One pass over all peers, of whose documents only the best scores are kept."""
    count, peers = len(questions.askers), len(libraries)
    best = np.full((count, peers, K), NEVER_COMPARED, np.float32)
    directions = np.zeros((peers, questions.vectors.shape[1]), np.float32)
    found = [
        Evidence(np.zeros((count, peers, 1), np.float32), np.zeros((count, peers), np.float32))
        for _ in ways
    ]
    errors = {bits: code_error(bits) for bits in {way.bits for way in ways}}
    everyone = np.arange(count)
    for peer in range(peers):
        documents = libraries.documents(peer)
        directions[peer] = normalised_rows(documents.mean(axis=0, keepdims=True))[0]
        scores = questions.vectors @ documents.T
        best[:, peer] = -np.sort(-np.partition(scores, -K, axis=1)[:, -K:], axis=1)
        generator = np.random.default_rng((SEED, peer))
        summaries: dict[tuple[str, int], Summary] = {}
        for way, evidence in zip(ways, found, strict=True):
            if (way.name, way.limit) not in summaries:
                summaries[way.name, way.limit] = way.summarise(documents, generator)
            summary = summaries[way.name, way.limit]
            estimates = way.advertised(summary)
            scores = questions.vectors @ summary.centroids.T + estimates.offsets
            scores += errors[way.bits] * generator.standard_normal(scores.shape, dtype=np.float32)
            chosen = np.argmax(scores, axis=1)
            evidence.scores[:, peer, 0] = scores[everyone, chosen]
            evidence.errors[:, peer] = np.hypot(estimates.errors[chosen], errors[way.bits])
    best[everyone, questions.askers] = NEVER_COMPARED
    return World(questions, best, directions), found


def every_document(world: World) -> Evidence:
    """What every document's own vector tells; of each peer the best are enough."""
    error = code_error(ROUTING.advertisement_bits)
    noise = np.random.default_rng(SEED).standard_normal(world.best.shape, dtype=np.float32)
    errors = np.full(world.best.shape[:2], error, np.float32)
    return Evidence(world.best + error * noise, errors, documents=True)


def code_error(bits: int) -> np.float32:
    """Standard error of a score by codes of `CODED_DIMENSION` dimensions."""
    rows = np.random.default_rng(SEED).standard_normal((64, CODED_DIMENSION)).astype(np.float32)
    decoded = decode_codes(*encode_codes(rows, bits), dimension=CODED_DIMENSION, bits=bits)
    return np.float32(score_errors(decoded).mean())


class Network:
    """Peers that answer and refer as `Peer` does, by evidence that is known beforehand.

    Args:
        world: Who has what.
        evidence: What they advertise.
        kept: Whose advertisements each peer keeps, int32 [peers, n].
        margin: Standard errors by which they are taken to be off at most.
    """

    def __init__(
        self,
        world: World,
        evidence: Evidence,
        kept: NDArray[np.int32],
        margin: float = ROUTING.margin,
    ) -> None:
        self._world = world
        self._evidence = evidence
        self._kept = kept
        self._margin = margin
        self._start = KNOWN_PER_WANTED * K if evidence.documents else ROUTING.contact_budget
        self._peers = [PeerId(f"{peer:05d}") for peer in range(world.best.shape[1])]

    def ask(self, question: int) -> tuple[float, int]:
        """Recall@5 and the contacts of a question."""
        asker = int(self._world.questions.askers[question])
        walk = Walk(
            querier=self._peers[asker],
            k=K,
            budget=ROUTING.contact_budget,
            strategy=STRATEGY,
            randomness=random.Random(question),
            fanout=STRATEGY.fanout,
            patience=STRATEGY.patience,
            margin=self._margin,
            roster=self._peers,
        )
        walk.start_from(self._refer(question, asker, asker, self._start, None))
        asked: deque[Contact] = deque()
        while not isinstance(action := walk.next(), Finished):
            if isinstance(action, Contact):
                asked.append(action)
                continue
            contact = asked.popleft()
            peer = int(contact.peer)
            referrals = self._refer(question, peer, asker, ROUTING.referral_limit, contact.above)
            walk.on_reply(contact.peer, self._answer(question, peer, contact.above), referrals)
        exact = self._world.exact(question)
        returned = {found.document.content_hash for found in walk.results()}
        return len(exact & returned) / K, len(walk.visited)

    def _answer(self, question: int, peer: int, above: float | None) -> list[ReturnedDocument]:
        return [
            ReturnedDocument(content_hash(peer, rank), score)
            for rank, score in enumerate(self._world.best[question, peer].tolist())
            if score > NEVER_COMPARED and (above is None or score > above)
        ]

    def _refer(
        self, question: int, knower: int, asker: int, limit: int, above: float | None
    ) -> list[PeerReferral]:
        kept = self._kept[knower]
        scores = self._evidence.scores[question, kept]
        errors = self._evidence.errors[question, kept]
        reach = scores + self._margin * errors[:, None]
        usable = (kept != asker) & (kept != knower)
        useful = usable[:, None] & (reach > (NEVER_COMPARED if above is None else above))
        places = np.flatnonzero(useful)
        places = places[np.argsort(-scores.reshape(-1)[places], kind="stable")[:limit]]
        referred: dict[int, list[Advertised]] = {}
        for place in places.tolist():
            number, item = divmod(place, scores.shape[1])
            peer = int(kept[number])
            advertised = Advertised(
                float(scores[number, item]), self._document(peer, item), float(errors[number])
            )
            referred.setdefault(peer, []).append(advertised)
        return [PeerReferral(self._peers[peer], tuple(items)) for peer, items in referred.items()]

    def _document(self, peer: int, item: int) -> HashPrefix | None:
        return hash_prefix(content_hash(peer, item)) if self._evidence.documents else None


def kept_by_each(world: World, share: float, near: bool) -> NDArray[np.int32]:
    """Whose advertisements each peer keeps: any, or half of them those nearest by content."""
    peers = len(world.directions)
    count = round(share * (peers - 1))
    generator = np.random.default_rng(SEED)
    kept = np.empty((peers, count), np.int32)
    for peer in range(peers):
        order = generator.permutation(peers)
        order = order[order != peer]
        if near:
            cosines = world.directions[order] @ world.directions[peer]
            nearest = np.argsort(-cosines, kind="stable")[: count // 2]
            order = np.concatenate([order[nearest], np.delete(order, nearest)])
        kept[peer] = order[:count]
    return kept


def recall_in_order(world: World, evidence: Evidence) -> Row:
    """Recall@5 after some contacts in the order of the estimates."""
    count, peers, _ = world.best.shape
    held = np.zeros((count, peers))
    top = np.argsort(-world.best.reshape(count, -1), axis=1)[:, :K] // K
    np.add.at(held, (np.arange(count)[:, None], top), 1 / K)
    scores = evidence.scores.max(axis=2)
    scores[np.arange(count), world.questions.askers] = NEVER_COMPARED
    found = np.cumsum(np.take_along_axis(held, np.argsort(-scores, axis=1), axis=1), axis=1)
    return {
        f"first {contacts}": float(found[:, min(contacts, peers) - 1].mean()) for contacts in FIRST
    }


def share_within(world: World, evidence: Evidence) -> float:
    """Share of peers and questions whose best score is within three errors of the estimate."""
    best = world.best[:, :, 0]
    others = best > NEVER_COMPARED
    missed = np.abs(best[others] - evidence.scores[:, :, 0][others])
    return float((missed <= 3 * evidence.errors[others]).mean())


def walk_figures(world: World, network: Network) -> Row:
    outcomes = [network.ask(question) for question in range(len(world.best))]
    recall, contacts = np.mean(outcomes, axis=0).tolist()
    return {"recall@5": recall, "contacts": contacts}


def advertisement_bytes(count: int, bits: int, *, clusters: bool) -> int:
    """Bytes of a sealed advertisement of `count` vectors of `CODED_DIMENSION` dimensions."""
    owner = Identity.from_seed(bytes(32))
    entries: tuple[Entry, ...] = tuple(range(count))
    if not clusters:
        entries = tuple(hash_prefix(content_hash(0, rank)) for rank in range(count))
    advertisement = Advertisement(
        owner=owner.peer_id,
        fingerprint="0" * 64,
        sequence=1_800_000_000,
        issued_at=1_800_000_000,
        expires_at=1_800_086_400,
        bits=bits,
        entries=entries,
        vectors=np.ones((count, CODED_DIMENSION), np.float32),
        estimates=no_estimates(count) if clusters else None,
    )
    payload = encode_advertisement(advertisement)
    return len(encode_advertise_reply(seal(owner, Domain.ADVERTISEMENT, payload)))


def every_document_bytes(documents: int) -> int:
    """As if an advertisement could hold so many."""
    bits = ROUTING.advertisement_bits
    one, two = (advertisement_bytes(count, bits, clusters=False) for count in (1, 2))
    return one + (documents - 1) * (two - one)


def ways(limits: Sequence[int]) -> Iterator[Summarising]:
    """The rows of the first table."""
    for limit in limits:
        yield Summarising("documents at random", limit, choose_documents)
        yield Summarising("k-centre", limit, choose_farthest)
        yield Summarising("k-means", limit, choose_centroids, offsets="none")
        yield Summarising("k-means", limit, choose_centroids)
        yield Summarising("k-means++", limit, offsets="none")
        yield Summarising("k-means++", limit, offsets="library")
        yield Summarising("k-means++", limit)


def other_sizes(largest: int) -> Iterator[Summarising]:
    yield Summarising("k-means++", 16)
    yield Summarising("k-means++", 256, bits=1)
    if largest > 1_024:
        yield Summarising("k-means++", 1_024, bits=1)


def run(libraries: LargeLibraries, questions: int, quick: bool) -> dict[str, list[Row]]:
    """The rows of each table; the first of "summaries" is for every document advertised."""
    limits = (64,) if quick else (64, 256)
    rows = list(ways(limits))
    if not quick:
        rows += other_sizes(int(libraries.sizes.max()))
    world, evidences = examine(libraries, libraries.ask(questions), rows)
    choices = {
        "all": kept_by_each(world, 1.0, near=False),
        "50%, random": kept_by_each(world, 0.5, near=False),
        "50%, half nearest": kept_by_each(world, 0.5, near=True),
        "10%, random": kept_by_each(world, 0.1, near=False),
        "10%, half nearest": kept_by_each(world, 0.1, near=True),
    }
    summaries: list[Row] = [_every_document_row(world, libraries, choices["all"])]
    for way, evidence in zip(rows, evidences, strict=True):
        summaries.append(
            {
                "summary": way.name,
                "vectors": way.limit,
                "bits": way.bits,
                "offsets": way.offsets,
                "bytes": advertisement_bytes(way.limit, way.bits, clusters=True),
                **recall_in_order(world, evidence),
                "within 3": share_within(world, evidence),
                **walk_figures(world, Network(world, evidence, choices["all"])),
            }
        )
    chosen = {limit: evidences[rows.index(Summarising("k-means++", limit))] for limit in limits}
    return {
        "summaries": summaries,
        "kept": [
            {
                "vectors": limit,
                "kept": name,
                **walk_figures(world, Network(world, evidence, kept)),
            }
            for limit, evidence in chosen.items()
            for name, kept in choices.items()
        ],
        "margins": [
            {
                "vectors": limit,
                "margin": f"{margin:g}",
                **walk_figures(world, Network(world, evidence, choices["all"], margin)),
            }
            for limit, evidence in chosen.items()
            for margin in MARGINS
        ],
    }


def _every_document_row(world: World, libraries: LargeLibraries, kept: NDArray[np.int32]) -> Row:
    count = round(float(libraries.sizes.mean()))
    evidence = every_document(world)
    return {
        "summary": "every document",
        "vectors": count,
        "bits": ROUTING.advertisement_bits,
        "offsets": "",
        "bytes": every_document_bytes(count),
        **recall_in_order(world, evidence),
        "within 3": share_within(world, evidence),
        **walk_figures(world, Network(world, evidence, kept)),
        "fewest contacts": world.fewest_contacts(),
    }


def print_table(rows: Sequence[Row]) -> None:
    names = list(rows[-1])
    print(f"\n| {' | '.join(names)} |")
    print("|---" * len(names) + "|")
    for row in rows:
        print(f"| {' | '.join(cell(name, row[name]) for name in names)} |")


def cell(name: str, value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.1f}" if name == "contacts" else f"{100 * value:.1f}%"
    return f"{value:,}" if isinstance(value, int) else value


def print_profile(folder: Path) -> None:
    """Similarities of a thousand generated documents beside PubMedQA's."""
    data = PubMedQA.load(folder)
    variants = data.queries.shape[1]
    queries = data.queries.reshape(-1, data.queries.shape[2])
    own = np.repeat(np.arange(len(data.documents)), variants)
    libraries = LargeLibraries(skewed_sizes(200, SEED), SEED)
    generator = np.random.default_rng(SEED)
    share = PROFILE_DOCUMENTS / libraries.sizes.sum()
    drawn = np.concatenate(
        [
            documents[generator.random(len(documents)) < share]
            for documents in map(libraries.documents, range(len(libraries)))
        ]
    )
    questions = libraries.ask(QUESTIONS[200])
    header = " | ".join(f"{rank}." for rank in PROFILE)
    print(f"| | {header} | {header} | own document |")
    print("|---" * (2 + 2 * len(PROFILE)) + "|")
    scores = queries @ data.documents.T
    of_own = float(scores[np.arange(len(own)), own].mean())
    scores[np.arange(len(own)), own] = NEVER_COMPARED
    print(profile_line("PubMedQA", data.documents, scores, of_own))
    of_own = float(np.einsum("nd,nd->n", questions.vectors, questions.documents).mean())
    print(profile_line("generated", drawn, questions.vectors @ drawn.T, of_own))


def profile_line(name: str, documents: Vector, query_scores: Vector, of_own: float) -> str:
    similarities = documents @ documents.T
    np.fill_diagonal(similarities, NEVER_COMPARED)
    cells = [
        f"{-np.sort(-scores, axis=1)[:, rank - 1].mean():.2f}"
        for scores in (similarities, query_scores)
        for rank in PROFILE
    ]
    return f"| {name} | {' | '.join(cells)} | {of_own:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, choices=(200, 5_000), default=200)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pubmedqa", type=Path)
    options = parser.parse_args()
    if options.pubmedqa is not None:
        print_profile(options.pubmedqa)
        return
    peers = QUICK_PEERS[options.peers] if options.quick else options.peers
    skewed = options.peers == 200
    sizes = skewed_sizes(peers, SEED) if skewed else np.full(peers, EQUAL_SIZE)
    libraries = LargeLibraries(sizes, SEED)
    questions = QUICK_QUESTIONS if options.quick else QUESTIONS[options.peers]
    tables = run(libraries, questions, options.quick)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    result = {
        "benchmark": "large-libraries",
        "peers": peers,
        "documents": int(sizes.sum()),
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
        "questions": questions,
        "fewest_contacts": tables["summaries"][0]["fewest contacts"],
        "cpu_s": round(usage.ru_utime + usage.ru_stime),
        "gigabytes": round(usage.ru_maxrss / 1e6, 1),
    }
    if options.json:
        print(json.dumps(result | tables))
        return
    print(", ".join(f"{key} {value}" for key, value in result.items()))
    for rows in tables.values():
        print_table(rows)


if __name__ == "__main__":
    main()
