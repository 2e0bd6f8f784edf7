"""Routing state across restarts: neighbours, advertisements, query memory, records of peers.

All of it can be learnt again, so a file that cannot be read costs a warning, not the start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import numpy as np

from zerorag_p2p import cbor
from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import ADVERTISEMENT_LIMIT, MAX_INTEGER, RECORD_LIMIT
from zerorag_p2p.errors import IntegrityError
from zerorag_p2p.identity.fields import read_peer
from zerorag_p2p.identity.records import open_record
from zerorag_p2p.membership.membership import Membership
from zerorag_p2p.model import PeerId
from zerorag_p2p.node.directory import Directory
from zerorag_p2p.node.outgoing import SealedAdvertisement, open_advertisement
from zerorag_p2p.peer import Peer
from zerorag_p2p.routing.adverts import HeldAdvertisement
from zerorag_p2p.wire.embedding import decode_embedding, encode_embeddings

logger = logging.getLogger("zerorag.node")

STATE_LIMIT: Final = 512 << 20
_MAX_ENTRIES: Final = 1_000_000
_VERSION: Final = 1


def encode_state(peer: Peer, directory: Directory, membership: Membership) -> bytes:
    """What `restore_state` reads."""
    return cbor.encode(
        {
            "version": _VERSION,
            "fingerprint": peer.fingerprint,
            "neighbors": [
                {"peer": neighbor.peer, "since": int(neighbor.since)} for neighbor in peer.neighbors
            ],
            "advertisements": [held.signed for held in peer.advertisements],
            "memory": _remembered(peer),
            "records": directory.records(),
            "membership": membership.snapshot(),
        }
    )


def _remembered(peer: Peer) -> list[dict[str, object]]:
    entries = list(peer.memory.entries())
    if not entries:
        return []
    embeddings = encode_embeddings(np.stack([embedding for _, embedding, _ in entries]))
    return [
        {"peer": querier, "embedding": embedding, "expires-at": int(expires_at)}
        for (querier, _, expires_at), embedding in zip(entries, embeddings, strict=True)
    ]


def restore_state(
    data: bytes,
    peer: Peer,
    directory: Directory,
    membership: Membership,
    *,
    now: float,
    offer: Callable[[HeldAdvertisement], object],
) -> None:
    """Take over saved state, as far as it is still valid.

    State under another embedding model is dropped, and so is what concerns peers that are no
    members any more. Advertisements go to `offer`, neighbours' and others'.

    Raises:
        DecodeError: The data is malformed.
    """
    reader = MapReader(cbor.decode(data, limit=STATE_LIMIT), "routing state")
    reader.integer("version", minimum=_VERSION, maximum=_VERSION)
    fingerprint = reader.text("fingerprint", max_bytes=64)
    neighbors = reader.items("neighbors", max_items=_MAX_ENTRIES)
    advertisements = reader.items("advertisements", max_items=_MAX_ENTRIES)
    memory = reader.items("memory", max_items=_MAX_ENTRIES)
    records = reader.items("records", max_items=_MAX_ENTRIES)
    saved_membership = reader.binary("membership", max_bytes=STATE_LIMIT)
    reader.finish()
    _restore_records(records, directory)
    try:
        membership.restore(saved_membership)
    except IntegrityError as error:
        logger.warning("the saved view of the membership is dropped: %s", error)
    if fingerprint != peer.fingerprint:
        logger.info("the embedding model changed; neighbours and query memory start afresh")
        return

    def admitted(who: PeerId) -> bool:
        return directory.admits(who, now)

    for item in neighbors:
        entry = MapReader(item, "neighbor")
        who = read_peer(entry, "peer")
        since = entry.integer("since", maximum=MAX_INTEGER)
        entry.finish()
        if admitted(who):
            peer.add_neighbor(who, since)
    for item in advertisements:
        advertisement = _read_advertisement(MapReader({"sealed": item}, "advertisement"), peer, now)
        if advertisement is not None and admitted(advertisement.owner):
            offer(advertisement)
    for item in memory:
        _restore_query(MapReader(item, "remembered query"), peer, now, admitted)


def _restore_records(records: list[object], directory: Directory) -> None:
    for item in records:
        sealed = MapReader({"record": item}, "records").binary("record", max_bytes=RECORD_LIMIT)
        try:
            directory.learn(sealed, open_record(sealed).peer)
        except IntegrityError as error:
            logger.warning("a saved peer record is dropped: %s", error)


def _read_advertisement(reader: MapReader, peer: Peer, now: float) -> HeldAdvertisement | None:
    sealed = reader.binary("sealed", max_bytes=ADVERTISEMENT_LIMIT)
    try:
        opened = open_advertisement(sealed, owner=None, dimension=peer.dimension)
    except IntegrityError as error:
        logger.warning("a saved advertisement is dropped: %s", error)
        return None
    advertisement = opened.advertisement
    if advertisement.fingerprint != peer.fingerprint or advertisement.expires_at <= now:
        return None
    return held_advertisement(opened)


def _restore_query(
    reader: MapReader, peer: Peer, now: float, admitted: Callable[[PeerId], bool]
) -> None:
    querier = read_peer(reader, "peer")
    embedding, _ = decode_embedding(reader.map("embedding"), dimension=peer.dimension)
    expires_at = reader.integer("expires-at", maximum=MAX_INTEGER)
    reader.finish()
    if expires_at > now and admitted(querier):
        peer.memory.add(querier, embedding, expires_at=expires_at)


def held_advertisement(opened: SealedAdvertisement) -> HeldAdvertisement:
    """A verified advertisement in the form that routing keeps."""
    advertisement = opened.advertisement
    return HeldAdvertisement(
        owner=advertisement.owner,
        sequence=advertisement.sequence,
        expires_at=advertisement.expires_at,
        vectors=advertisement.vectors,
        documents=advertisement.documents,
        signed=opened.sealed,
        estimates=advertisement.estimates,
    )
