"""One place of a workload in a simulation, and the peer that fills it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import HashPrefix, PeerId, Vector, hash_prefix
from zerorag_p2p.peer import Peer
from zerorag_p2p.routing.adverts import HeldAdvertisement
from zerorag_p2p.wire.codes import decode_codes, encode_codes
from zerorag_p2p.workloads.holdings import ArrayHoldings, DocumentTable


@dataclass(slots=True, eq=False)
class Participant:
    """A peer of a simulation.

    Attributes:
        place: Which holdings and questions of the workload are its own.
        identity: Its key.
        holdings: Its documents.
        peer: Its state and what it does with queries.
        clock_offset_s: How far its clock is ahead.
        up: Whether it runs.
        group: Part of the network it is in; peers of different groups cannot reach each other.
        followers: Peers that took its advertisement; some may have dropped it since.
        advertisement: The last one made, if any.
    """

    place: int
    identity: Identity
    holdings: ArrayHoldings
    peer: Peer
    clock_offset_s: float
    up: bool = True
    group: int = 0
    followers: dict[PeerId, None] = field(default_factory=dict)
    advertisement: HeldAdvertisement | None = None


class Advertiser:
    """Makes the advertisements of peers as their receivers hold them, coded and decoded again.

    Owners renew in time, so that an advertisement expires only with its owner.

    Args:
        table: The documents; each is coded once, whoever advertises it.
        bits: Bits a dimension of an advertised vector.

    Attributes:
        coded: float32 [n, d], the documents' vectors as receivers of advertisements hold them.
    """

    def __init__(self, table: DocumentTable, bits: int) -> None:
        self._bits = bits
        self.coded = self._code(table.vectors)
        self._numbers = {hash_prefix(item): number for number, item in enumerate(table.hashes)}

    def advertisement_of(self, owner: Participant, now: float) -> HeldAdvertisement:
        """What `owner` advertises at unix time `now`, the same until its documents change."""
        generation = owner.holdings.generation
        if owner.advertisement is None or owner.advertisement.sequence != generation:
            own = owner.peer.advertisement(now, np.random.default_rng(generation))
            documents = tuple(entry if isinstance(entry, str) else None for entry in own.entries)
            owner.advertisement = HeldAdvertisement(
                owner=owner.peer.peer_id,
                sequence=generation,
                expires_at=math.inf,
                vectors=self._received(own.vectors, documents),
                documents=documents,
                estimates=own.estimates,
            )
        return owner.advertisement

    def _received(self, vectors: Vector, documents: tuple[HashPrefix | None, ...]) -> Vector:
        if any(document is None for document in documents):
            return self._code(vectors)
        return self.coded[[self._numbers[item] for item in documents if item is not None]]

    def _code(self, vectors: Vector) -> Vector:
        packed, factors = encode_codes(vectors, self._bits)
        return decode_codes(packed, factors, dimension=vectors.shape[1], bits=self._bits)
