"""A consortium in which one node knows as much as its limits allow."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from benchmarks.forking import fork_node
from zerorag_p2p.config import MembershipConfig, RoutingConfig
from zerorag_p2p.control import consortium
from zerorag_p2p.embedding.precomputed import write_precomputed
from zerorag_p2p.files import write_atomic
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.records import sign_record
from zerorag_p2p.identity.roster import open_roster
from zerorag_p2p.membership.membership import Membership
from zerorag_p2p.model import ContentHash, Fingerprint, HashPrefix, Vector
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.files import load_identity
from zerorag_p2p.node.outgoing import open_advertisement
from zerorag_p2p.node.state import encode_state, held_advertisement
from zerorag_p2p.peer import Peer
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.testnet.processes import LocalConsortium, Member
from zerorag_p2p.wire.advertise import Advertisement, encode_advertisement
from zerorag_p2p.wire.embedding import transmitted_rows

DIMENSION = 768
NEIGHBORS = 50
ADVERTISED = 30
REMEMBERED = 1_000
DOCUMENTS = 50
NOW = 2_000_000_000

FINGERPRINT = Fingerprint("benchmark", "1", DIMENSION)


def random_vectors(seed: int, count: int) -> Vector:
    """Unit vectors as they are transmitted, [count, DIMENSION]."""
    rows = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return transmitted_rows(rows)


def texts(kind: str, count: int) -> list[str]:
    """Texts that the nodes of the benchmark can embed."""
    return [f"{kind} {number}" for number in range(count)]


def enrol(folder: Path, count: int) -> LocalConsortium:
    """Homes of `count` members whose embedder knows the benchmark's texts; nothing runs yet."""
    known = [*texts("document", DOCUMENTS), *texts("question", 1_000)]
    vectors = folder / "vectors.npz"
    write_precomputed(vectors, known, random_vectors(0, len(known)), FINGERPRINT)
    nodes = LocalConsortium(folder, launch=fork_node)
    settings: dict[str, object] = {
        "embedding.embedder": "precomputed",
        "embedding.vectors": str(vectors),
        "routing.initial_neighbors": 0,
    }
    for number in range(count):
        nodes.add(f"n{number:02}", f"Hospital {number}", settings)
    nodes.enrol("benchmark")
    return nodes


class NoDocuments:
    """A corpus with nothing in it."""

    def sharing(self, collection: str) -> Sharing | None:
        """Nothing is shared."""
        del collection
        return None

    def collections(self) -> list[str]:
        """There are none."""
        return []

    def search(self, embedding: Vector, k: int, **admission: object) -> list[object]:
        """Nothing is found."""
        del embedding, k, admission
        return []

    def vectors_to_advertise(
        self, collections: object, **admission: object
    ) -> tuple[Vector, list[ContentHash]]:
        """Nothing is advertised."""
        del collections, admission
        return np.zeros((0, DIMENSION), np.float32), []


def fill(peer: Peer, directory: Directory, others: list[Member]) -> None:
    """Give a peer all the neighbours, advertisements and remembered queries it may have."""
    for number, member in enumerate(others):
        identity = load_identity(member.home.key)
        directory.learn(sign_record(identity, (member.address,), 1), member.peer_id)
        if number < NEIGHBORS:
            peer.add_neighbor(member.peer_id, NOW)
            advertisement = Advertisement(
                owner=member.peer_id,
                fingerprint=FINGERPRINT.digest(),
                sequence=1,
                issued_at=NOW,
                expires_at=NOW + 10**8,
                withdrawn=False,
                bits=4,
                entries=tuple(
                    HashPrefix(f"{number * ADVERTISED + row:016x}") for row in range(ADVERTISED)
                ),
                vectors=random_vectors(100 + number, ADVERTISED),
            )
            sealed = seal(identity, Domain.ADVERTISEMENT, encode_advertisement(advertisement))
            opened = open_advertisement(sealed, owner=member.peer_id, dimension=DIMENSION)
            peer.on_advertisement(held_advertisement(opened))
    draw = random.Random(0)
    for row in random_vectors(1, REMEMBERED):
        peer.memory.add(draw.choice(others).peer_id, row, expires_at=NOW + 10**8)


def full_peer(nodes: LocalConsortium, name: str) -> tuple[Peer, Directory]:
    """A peer at full state, as the node `name` would be."""
    member = nodes[name]
    directory = Directory(member.peer_id, open_roster(consortium.read(member.home)))
    peer = Peer(
        member.peer_id,
        NoDocuments(),  # type: ignore[arg-type]
        RoutingConfig(),
        fingerprint=FINGERPRINT.digest(),
        dimension=DIMENSION,
        record_of=directory.record,
    )
    fill(peer, directory, [item for item in nodes if item.name != name])
    return peer, directory


def write_full_state(nodes: LocalConsortium, name: str) -> None:
    """Let the node `name` start at full state."""
    peer, directory = full_peer(nodes, name)
    identity = load_identity(nodes[name].home.key)
    membership = Membership(
        identity.peer_id,
        MembershipConfig(),
        sign=lambda sequence: sign_record(identity, (), sequence),
        admit=lambda _: True,
        introductions=(),
        roster_version=directory.roster.version,
        members=len(directory.roster.members),
        randomness=random.Random(0),
    )
    state = encode_state(peer, directory, membership)
    write_atomic(nodes[name].home.state, state, mode=0o600)
