"""Peer records: where a peer can be reached, in its own words (protocols/peer-record)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from zerorag_p2p import cbor
from zerorag_p2p.config import MAX_INTEGER, RECORD_LIMIT
from zerorag_p2p.identity.envelope import Domain, open_envelope, seal
from zerorag_p2p.identity.fields import read_addresses, refusing_own_mistakes
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import PeerId

#: Records whose verification is remembered: the same few come with every referral and in gossip.
_CACHED_RECORDS: Final = 4_096


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """The addresses of a peer. Of two records of one peer the higher sequence counts.

    Attributes:
        peer: Whose addresses they are: the peer that signed.
        addresses: Multiaddrs without the /p2p part, preferred first; none if not reachable.
        sequence: Grows with every record the peer signs.
    """

    peer: PeerId
    addresses: tuple[str, ...]
    sequence: int

    def to_json(self) -> dict[str, Any]:
        """The record as JSON."""
        return {"peer": self.peer, "addresses": list(self.addresses), "sequence": self.sequence}


def sign_record(identity: Identity, addresses: Sequence[str], sequence: int) -> bytes:
    """Sign the addresses of `identity`.

    Raises:
        UsageError: An address is malformed or names a peer, or there are too many.
    """
    payload = cbor.encode({"addresses": list(addresses), "sequence": sequence})
    with refusing_own_mistakes():
        _decode(identity.peer_id, payload)
    return seal(identity, Domain.PEER_RECORD, payload)


@lru_cache(maxsize=_CACHED_RECORDS)
def open_record(data: bytes) -> PeerRecord:
    """Verify a signed peer record.

    Raises:
        DecodeError: It is malformed.
        IntegrityError: The signature does not verify.
    """
    envelope = open_envelope(data, Domain.PEER_RECORD, limit=RECORD_LIMIT)
    return _decode(envelope.signer, envelope.payload)


def _decode(signer: PeerId, payload: bytes) -> PeerRecord:
    reader = cbor.MapReader(cbor.decode(payload, limit=RECORD_LIMIT), "peer record")
    record = PeerRecord(
        peer=signer,
        addresses=read_addresses(reader, "addresses"),
        sequence=reader.integer("sequence", maximum=MAX_INTEGER),
    )
    reader.finish()
    return record
