"""Peers that advertise documents and keep the advertisements of others, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p.config import MembershipConfig, NetworkConfig, RoutingConfig
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import (
    ContentHash,
    HashPrefix,
    PeerId,
    ScoredDocument,
    Vector,
    hash_prefix,
)
from zerorag_p2p.node.outgoing import SealedAdvertisement, open_advertisement
from zerorag_p2p.node.sketching import Sketching
from zerorag_p2p.node.state import held_advertisement
from zerorag_p2p.peer import DocumentFacts, Peer
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.routing.sketches import Sketch
from zerorag_p2p.testnet.authority import seeded_identity
from zerorag_p2p.wire.advertise import Advertisement, decode_advertisement, encode_advertisement
from zerorag_p2p.workloads.holdings import DocumentTable
from zerorag_p2p.workloads.synthetic import synthetic_workload

#: Dimensions of the vectors that are advertised: those of all-mpnet-base-v2.
DIMENSION: Final = 768
#: Documents drawn by a peer, of which about `advertisement_limit` are different.
DRAWS: Final = 60
TOPICS: Final = 400


#: Bytes of a signed peer record with one address.
RECORD_BYTES: Final = 250


class NoDocuments:
    """A corpus with nothing in it: what is advertised is made by `Advertiser`."""

    def sharing(self, collection: str) -> Sharing | None:
        """Nothing is shared."""
        del collection
        return None

    def collections(self) -> list[str]:
        """There are none."""
        return []

    def search(
        self,
        embedding: Vector,
        k: int,
        *,
        admit_collection: Callable[[str], bool],
        admit: Callable[[DocumentFacts], bool],
    ) -> list[ScoredDocument]:
        """Nothing is found."""
        del embedding, k, admit_collection, admit
        return []

    def vectors_to_advertise(
        self, collections: Sequence[str], *, admit: Callable[[DocumentFacts], bool]
    ) -> tuple[Vector, Sequence[ContentHash]]:
        """Nothing is advertised."""
        del collections, admit
        return np.zeros((0, DIMENSION), np.float32), ()


class NoRows:
    """Keeps no vectors: nobody asks a question here."""

    def __init__(self, dimension: int) -> None:
        del dimension

    def write(self, start: int, vectors: Vector) -> None:
        """See `routing.rows.Rows`."""

    def move(self, start: int, rows: NDArray[np.intp]) -> None:
        """See `routing.rows.Rows`."""

    def read(self, row: int) -> Vector:
        """See `routing.rows.Rows`."""
        raise AssertionError(f"row {row} is not kept")

    def dot(self, embedding: Vector, size: int) -> NDArray[np.float32]:
        """See `routing.rows.Rows`."""
        raise AssertionError(f"{size} rows are not kept")


@dataclass(slots=True)
class Advertiser:
    """A peer's own advertisement, renewed in the middle of its lifetime as a node does.

    Attributes:
        vectors: Of its documents, float32 [n, DIMENSION].
        phase_s: How long before the clock begins the first advertisement was made.
    """

    identity: Identity
    fingerprint: str
    entries: tuple[HashPrefix, ...]
    vectors: Vector
    phase_s: float
    clock: Callable[[], float]
    _newest: SealedAdvertisement | None = None

    def advertisement(self) -> SealedAdvertisement:
        """The advertisement at the moment."""
        lifetime_s = int(RoutingConfig().advertisement_lifetime_s)
        newest, now = self._newest, self.clock()
        if newest is None or now >= newest.advertisement.issued_at + lifetime_s / 2:
            issued_at = int(now - self.phase_s if newest is None else now)
            payload = encode_advertisement(
                Advertisement(
                    owner=self.identity.peer_id,
                    fingerprint=self.fingerprint,
                    sequence=issued_at,
                    issued_at=issued_at,
                    expires_at=issued_at + lifetime_s,
                    bits=RoutingConfig().advertisement_bits,
                    entries=self.entries,
                    vectors=self.vectors,
                )
            )
            sealed = seal(self.identity, Domain.ADVERTISEMENT, payload)
            newest = self._newest = SealedAdvertisement(decode_advertisement(payload), sealed)
        return newest


def consortium(count: int, clock: Callable[[], float], seed: int) -> list[Advertiser]:
    """Peers with documents and interests of the synthetic workload, in `DIMENSION` dimensions."""
    workload = synthetic_workload(peers=count, seed=seed, draws=DRAWS, topics=TOPICS)
    generator = np.random.default_rng(seed)
    # Isometric, so that what is near stays near.
    turned, _ = np.linalg.qr(generator.normal(size=(DIMENSION, workload.vectors.shape[1])))
    hashes = DocumentTable(workload).hashes
    settings = RoutingConfig()
    members = []
    for number, holdings in enumerate(workload.holdings):
        held = list(holdings)[: settings.advertisement_limit]
        members.append(
            Advertiser(
                identity=seeded_identity(seed, f"p{number}"),
                fingerprint=workload.fingerprint.digest(),
                entries=tuple(hash_prefix(hashes[document]) for document in held),
                vectors=(workload.vectors[held] @ turned.T).astype(np.float32),
                phase_s=generator.uniform(0, settings.advertisement_lifetime_s / 2),
                clock=clock,
            )
        )
    return members


def sketching_of(
    members: Sequence[Advertiser], limit: int, clock: Callable[[], float], seed: int
) -> dict[PeerId, Sketching]:
    """The sketches of every member, at most `limit`; what one has verified, all have."""
    opener = lru_cache(maxsize=4 * len(members))(open_advertisement)
    routing, network = RoutingConfig(sketch_limit=limit), NetworkConfig()
    made = {}
    for member in members:
        peer = Peer(
            member.identity.peer_id,
            NoDocuments(),
            routing,
            fingerprint=member.fingerprint,
            dimension=DIMENSION,
            record_of=lambda _: None,
            make_rows=NoRows,
        )
        made[peer.peer_id] = Sketching(
            peer=peer,
            own=member.advertisement,
            admits=lambda _: True,
            is_alive=lambda _: True,
            record_of=lambda owner: f"{owner} 1".encode().ljust(RECORD_BYTES),
            learn=lambda _, __: None,
            open_advertisement=opener,
            settings=MembershipConfig(),
            routing=routing,
            clock_tolerance_s=network.clock_tolerance_s,
            clock=clock,
            randomness=random.Random(f"{peer.peer_id} {seed}"),
        )
    return made


def nearest(members: Sequence[Advertiser], count: int) -> dict[PeerId, set[PeerId]]:
    """For every member the `count` others whose advertisements are nearest to its own."""
    directions = np.stack([_direction(member) for member in members])
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -np.inf)
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    peers = [member.identity.peer_id for member in members]
    return {
        peer: {peers[number] for number in row.tolist()}
        for peer, row in zip(peers, best, strict=True)
    }


def _direction(member: Advertiser) -> Vector:
    direction = Sketch.of(held_advertisement(member.advertisement())).direction
    assert direction is not None, "every member advertises something"
    return direction
