"""Advertisements of others, with real signatures: what is believed, kept and passed on."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zerorag_p2p.config import MembershipConfig, RoutingConfig
from zerorag_p2p.errors import IntegrityError
from zerorag_p2p.identity.envelope import Domain, seal
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash, HashPrefix, PeerId, RefusalCode, Vector
from zerorag_p2p.node.outgoing import SealedAdvertisement, open_advertisement
from zerorag_p2p.node.sketching import Sketching
from zerorag_p2p.node.state import held_advertisement
from zerorag_p2p.peer import Peer
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.advertise import Advertisement, encode_advertisement
from zerorag_p2p.wire.embedding import transmitted
from zerorag_p2p.wire.gossip import (
    AdvertisementsReply,
    AdvertisementsRequest,
    PassedOn,
    advertisement_digest,
)
from zerorag_p2p.wire.refusal import Refusal

NOW = 1_800_000_000
DIMENSION = 8
FINGERPRINT = "ab" * 32
IDENTITIES = [Identity.from_seed(bytes([number]) * 32) for number in range(1, 9)]
OWN, ALICE, BOB, CAROL, *OTHERS = IDENTITIES


def direction(number: int) -> Vector:
    """Unit vectors that turn away from that of 0 with the number."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[:2] = np.cos(number / 10), np.sin(number / 10)
    return vector


def advertise(
    owner: Identity, at: int = 0, *, signer: Identity | None = None, **changes: Any
) -> bytes:
    """A sealed advertisement of one document in `direction(at)`."""
    advertisement = Advertisement(
        owner=owner.peer_id,
        fingerprint=FINGERPRINT,
        sequence=1,
        issued_at=NOW - 3_600,
        expires_at=NOW + 3_600,
        bits=32,
        entries=(HashPrefix(f"{IDENTITIES.index(owner):016x}"),),
        vectors=direction(at)[None],
    )
    payload = encode_advertisement(replace(advertisement, **changes))
    return seal(signer or owner, Domain.ADVERTISEMENT, payload)


def withdraw(owner: Identity, sequence: int) -> bytes:
    nothing = np.zeros((0, DIMENSION), dtype=np.float32)
    return advertise(owner, sequence=sequence, withdrawn=True, entries=(), vectors=nothing)


class NoDocuments:
    """A corpus with nothing in it."""

    def sharing(self, collection: str) -> Sharing | None:
        del collection
        return None

    def collections(self) -> list[str]:
        return []

    def search(self, embedding: Vector, k: int, **admission: object) -> list[Any]:
        del embedding, k, admission
        return []

    def vectors_to_advertise(
        self, collections: object, **admission: object
    ) -> tuple[Vector, list[ContentHash]]:
        del collections, admission
        return np.zeros((0, DIMENSION), dtype=np.float32), []


class Setup:
    """The sketches of one peer, which advertises a document in `direction(0)`."""

    def __init__(self, limit: int = 6, *, byte_limit: int = 1 << 20, **settings: Any) -> None:
        self.now = float(NOW)
        self.members = {identity.peer_id for identity in IDENTITIES}
        self.suspects: set[PeerId] = set()
        self.learnt: list[PeerId] = []
        self.forged: set[PeerId] = set()
        self.opened = 0
        self.own = advertise(OWN)
        routing = RoutingConfig(sketch_limit=limit, sketch_bytes=byte_limit)
        self.peer = Peer(
            OWN.peer_id,
            NoDocuments(),
            routing,
            fingerprint=FINGERPRINT,
            dimension=DIMENSION,
            record_of=lambda _: None,
        )
        self.sketching = Sketching(
            peer=self.peer,
            own=lambda: open_advertisement(self.own, owner=None, dimension=DIMENSION),
            admits=self.members.__contains__,
            is_alive=lambda peer: peer not in self.suspects,
            record_of=lambda peer: f"record of {peer}".encode(),
            learn=self.learn,
            open_advertisement=self.open,
            settings=MembershipConfig(**settings),
            routing=routing,
            clock_tolerance_s=120.0,
            clock=lambda: self.now,
            randomness=random.Random(1),
        )

    def open(self, sealed: bytes, *, owner: PeerId | None, dimension: int) -> SealedAdvertisement:
        self.opened += 1
        return open_advertisement(sealed, owner=owner, dimension=dimension)

    def learn(self, record: bytes, peer: PeerId) -> None:
        if peer in self.forged:
            raise IntegrityError(f"{record!r} is no record of {peer}")
        self.learnt.append(peer)

    def hear(self, *sealed: bytes) -> bool:
        reply = AdvertisementsReply(tuple(PassedOn(item, b"record") for item in sealed))
        return self.sketching.take_in(ALICE.peer_id, reply)

    def held(self) -> dict[PeerId, int]:
        return {
            owner: held.sequence
            for owner in self.peer.sketches
            if (held := self.peer.advertisements.get(owner)) is not None
        }

    def give(self, *known: bytes, asker: Identity = BOB, near: Vector | None = None) -> list[bytes]:
        digests = sorted(advertisement_digest(item) for item in known)
        reply = self.sketching.answer(asker.peer_id, AdvertisementsRequest(tuple(digests), near))
        assert isinstance(reply, AdvertisementsReply)
        self.now += 60
        return [item.sealed for item in reply.advertisements]


def test_what_is_heard_is_held_and_its_owner_can_be_reached() -> None:
    setup = Setup()
    assert setup.hear(advertise(ALICE), advertise(BOB))
    assert setup.held() == {ALICE.peer_id: 1, BOB.peer_id: 1}
    assert setup.learnt == [ALICE.peer_id, BOB.peer_id]
    assert setup.sketching.size == len(advertise(ALICE)) + len(advertise(BOB))


def test_what_is_held_is_not_verified_again() -> None:
    setup = Setup()
    setup.hear(advertise(BOB))
    assert setup.opened == 1
    assert not setup.hear(advertise(BOB))
    assert setup.opened == 1


@pytest.mark.parametrize(
    ("sealed", "reason"),
    [
        (advertise(BOB, signer=CAROL), "sealed by"),
        (advertise(BOB)[:-1] + b"\x00", "signature"),
        (advertise(BOB, fingerprint="cd" * 32), "another embedding model"),
        (advertise(BOB, expires_at=NOW), "has expired"),
        (advertise(BOB, vectors=np.ones((1, 4), dtype=np.float32) / 2), "4 dimensions"),
        (b"no advertisement", "CBOR"),
    ],
)
def test_forgeries_are_refused_and_whoever_sent_them_is_named(
    sealed: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    setup = Setup()
    with caplog.at_level(logging.WARNING):
        assert setup.hear(sealed, advertise(CAROL)), "the good one counts"
    assert setup.held() == {CAROL.peer_id: 1}
    assert ALICE.peer_id in caplog.text
    assert reason in caplog.text


def test_nothing_is_kept_of_strangers_suspects_and_oneself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setup = Setup()
    setup.members.discard(BOB.peer_id)
    setup.suspects.add(CAROL.peer_id)
    assert not setup.hear(advertise(BOB), advertise(CAROL), advertise(OWN, sequence=9))
    assert setup.held() == {}
    assert not caplog.records
    setup.suspects.clear()
    assert setup.hear(advertise(CAROL)), "it was not declined for good"


def test_a_newer_one_replaces_an_older_one_and_never_the_other_way() -> None:
    setup = Setup()
    setup.hear(advertise(BOB, sequence=2))
    assert not setup.hear(advertise(BOB, sequence=1))
    assert setup.held() == {BOB.peer_id: 2}
    assert setup.hear(advertise(BOB, sequence=3))
    assert setup.held() == {BOB.peer_id: 3}


def test_a_withdrawal_takes_back_what_others_still_pass_on() -> None:
    setup = Setup()
    setup.hear(advertise(BOB, sequence=1), advertise(CAROL))
    assert len(setup.peer.advertisements) == 2
    assert setup.hear(withdraw(BOB, 2))
    assert len(setup.peer.advertisements) == 1
    assert not setup.hear(advertise(BOB, sequence=1))
    assert len(setup.peer.advertisements) == 1
    assert withdraw(BOB, 2) in setup.give(asker=CAROL), "others are to know, too"


def test_who_advertises_nothing_takes_no_place() -> None:
    setup = Setup()
    assert not setup.hear(withdraw(BOB, 2))
    assert setup.held() == {}
    assert not setup.hear(advertise(BOB, sequence=1)), "it was taken back"


def test_the_nearest_are_kept_and_the_rest_is_not_asked_for_again() -> None:
    setup = Setup(limit=2)
    everybody = {advertise(owner, at): owner for at, owner in enumerate(IDENTITIES[1:], start=1)}
    for sealed in reversed(everybody):
        setup.hear(sealed)
    assert len(setup.held()) == 2
    assert list(setup.sketching.near()) == [ALICE.peer_id]
    known = set(setup.sketching.request().known)
    assert known == {advertisement_digest(item) for item in (*everybody, setup.own)}


def test_the_bytes_are_bounded() -> None:
    size = len(advertise(BOB))
    setup = Setup(byte_limit=3 * size + size // 2)
    for at, owner in enumerate(IDENTITIES[1:]):
        setup.hear(advertise(owner, at))
        assert setup.sketching.size <= 3 * size + size // 2
    assert len(setup.held()) == 3


def test_declined_ones_are_remembered_up_to_a_limit() -> None:
    setup = Setup(limit=1, sketch_declined_limit=2)
    for owner in IDENTITIES[1:]:
        setup.hear(advertise(owner))
    assert len(setup.sketching.request().known) == 1 + 1 + 2


def test_whoever_leaves_or_expires_goes_and_makes_room() -> None:
    setup = Setup(limit=2)
    setup.hear(advertise(ALICE), advertise(BOB, expires_at=NOW + 60))
    declined = [owner for owner in (CAROL, *OTHERS) if not setup.hear(advertise(owner, 9))]
    assert declined
    assert not setup.sketching.drop_lost()
    setup.now += 61
    setup.sketching.request()
    assert BOB.peer_id not in setup.held()
    gone = next(iter(setup.held()))
    setup.peer.on_departed(gone)
    assert setup.sketching.drop_lost()
    assert not setup.sketching.drop_lost()
    assert setup.hear(*(advertise(owner, 9) for owner in declined))
    assert len(setup.held()) == 2


def test_who_is_no_member_any_more_goes() -> None:
    setup = Setup()
    setup.hear(advertise(ALICE), advertise(BOB))
    setup.members.discard(BOB.peer_id)
    setup.sketching.request()
    assert setup.held() == {ALICE.peer_id: 1}
    assert setup.sketching.drop_lost()


def test_a_neighbours_advertisement_stays_when_it_is_no_sketch() -> None:
    setup = Setup(limit=1)
    setup.peer.add_neighbor(BOB.peer_id, NOW)
    opened = open_advertisement(advertise(BOB), owner=BOB.peer_id, dimension=DIMENSION)
    assert setup.sketching.offer(held_advertisement(opened))
    for owner in (ALICE, CAROL, *OTHERS):
        setup.hear(advertise(owner))
    assert len(setup.held()) == 1
    assert BOB.peer_id in setup.peer.advertisements
    assert advertisement_digest(advertise(BOB)) in setup.sketching.request().known


# Passing on.


def test_what_the_asker_lacks_is_passed_on_our_own_first() -> None:
    setup = Setup()
    setup.hear(advertise(ALICE, 1), advertise(BOB, 2), advertise(CAROL, 3))
    given = setup.give()
    assert given[0] == setup.own
    assert set(given) == {setup.own, advertise(ALICE, 1), advertise(CAROL, 3)}
    assert setup.give(setup.own, advertise(CAROL, 3)) == [advertise(ALICE, 1)]


def test_the_nearest_to_the_asker_go_before_others() -> None:
    setup = Setup(sketch_exchange_bytes=2 * len(advertise(ALICE)))
    for at, owner in enumerate(OTHERS):
        setup.hear(advertise(owner, 3 * at))
    nearest = advertise(OTHERS[2], 6)
    for _ in range(3):
        first, _ = setup.give(setup.own, near=transmitted(direction(6)))
        assert first == nearest


def test_a_long_advertisement_gets_around_alone() -> None:
    def long(owner: Identity, sequence: int = 1) -> bytes:
        entries = tuple(HashPrefix(f"{number:016x}") for number in range(100))
        vectors = np.tile(direction(1), (100, 1))
        return advertise(owner, sequence=sequence, entries=entries, vectors=vectors)

    setup = Setup(sketch_exchange_bytes=1_000)
    assert len(long(CAROL)) > 1_000
    setup.hear(advertise(ALICE, 5), long(CAROL))
    assert setup.give(setup.own, near=direction(1)) == [long(CAROL)]
    setup.own = long(OWN, sequence=2)
    assert setup.give(near=direction(1)) == [long(OWN, sequence=2)]


def test_what_expires_soon_is_not_passed_on() -> None:
    setup = Setup()
    setup.hear(advertise(ALICE, expires_at=NOW + 100), advertise(CAROL, expires_at=NOW + 200))
    assert setup.give(setup.own) == [advertise(CAROL, expires_at=NOW + 200)]


def test_whoever_asks_too_often_is_refused() -> None:
    setup = Setup()
    request = AdvertisementsRequest(())
    assert isinstance(setup.sketching.answer(BOB.peer_id, request), AdvertisementsReply)
    refusal = setup.sketching.answer(BOB.peer_id, request)
    assert isinstance(refusal, Refusal)
    assert refusal.code is RefusalCode.RATE_LIMITED
    assert isinstance(setup.sketching.answer(CAROL.peer_id, request), AdvertisementsReply)
    setup.now += 2.5
    assert isinstance(setup.sketching.answer(BOB.peer_id, request), AdvertisementsReply)


def test_another_dimension_is_refused() -> None:
    near = np.ones(DIMENSION + 1, dtype=np.float32)
    refusal = Setup().sketching.answer(BOB.peer_id, AdvertisementsRequest((), near))
    assert isinstance(refusal, Refusal)
    assert refusal.code is RefusalCode.NO_COMMON_EMBEDDING


def test_whose_routing_wants_none_keeps_and_passes_on_none() -> None:
    setup = Setup(limit=0)
    assert not setup.sketching.active
    setup.peer.add_neighbor(BOB.peer_id, NOW)
    for owner in (ALICE, BOB):
        opened = open_advertisement(advertise(owner), owner=None, dimension=DIMENSION)
        setup.sketching.offer(held_advertisement(opened))
    assert setup.held() == {}
    assert BOB.peer_id in setup.peer.advertisements, "neighbours' are kept as ever"
    refusal = setup.sketching.answer(BOB.peer_id, AdvertisementsRequest(()))
    assert isinstance(refusal, Refusal)
    assert refusal.code is RefusalCode.UNSUPPORTED


def test_a_forged_record_is_named(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.forged.add(BOB.peer_id)
    setup.hear(advertise(BOB))
    assert "no record of" in caplog.text
    assert ALICE.peer_id in caplog.text
