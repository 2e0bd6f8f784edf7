"""advertise: what a peer lets every member know it holds (protocols/advertise).

An advertisement is sealed by its owner (identity.envelope) and stays the same bytes however it
travels. This module reads and writes its payload and the messages that carry the sealed object.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import cbor2
import numpy as np
from numpy.typing import NDArray

from zerorag_p2p import cbor
from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    ADVERTISE_REQUEST_LIMIT,
    ADVERTISEMENT_LIMIT,
    MAX_ADVERTISED,
    MAX_DIMENSION,
    MAX_INTEGER,
)
from zerorag_p2p.identity.fields import (
    read_digest,
    read_peer,
    read_time,
    refusing_own_mistakes,
)
from zerorag_p2p.model import HashPrefix, PeerId, Vector
from zerorag_p2p.wire.codes import (
    CODE_BITS,
    FLOAT_BITS,
    MIN_FACTOR,
    code_bytes,
    decode_codes,
    encode_codes,
)
from zerorag_p2p.wire.embedding import LENGTH_TOLERANCE
from zerorag_p2p.wire.message import (
    encode_message,
    prefix_bytes,
    read_message,
    read_prefix,
    refuse_repeats,
)
from zerorag_p2p.wire.refusal import REFUSAL, Refusal, read_refusal

_GET: Final = "get"
_ADVERTISEMENT: Final = "advertisement"
_UNCHANGED: Final = "unchanged"

#: Bytes of the longest payload: the rest is for its seal and for the reply around it.
PAYLOAD_LIMIT: Final = ADVERTISEMENT_LIMIT - 512

#: Bounds of what an owner may claim that the best document of a cluster scores beyond its centroid,
#: and of the standard error of that: a claim draws questions.
MAX_OFFSET: Final = 0.5
MAX_ESTIMATE_ERROR: Final = 0.5

#: What an advertised vector stands for: a document, or the number of a cluster of documents.
Entry: TypeAlias = HashPrefix | int


@dataclass(frozen=True, slots=True)
class AdvertiseRequest:
    """A request for the peer's advertisement for the agreed fingerprint.

    Attributes:
        known_sequence: Sequence of the advertisement that the asker holds, if any.
    """

    known_sequence: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """What the best document behind each vector may score beyond the vector itself.

    Both are 0 for a vector that is a document's own.

    Attributes:
        offsets: float32 [n], -`MAX_OFFSET` to `MAX_OFFSET`, to be added to the vector's score.
        errors: float32 [n], 0 to `MAX_ESTIMATE_ERROR`, standard errors of what results, that of the
            vector's code not included.
    """

    offsets: Vector
    errors: Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advertisement:
    """What an owner advertises. Of two by one owner the higher sequence counts.

    Attributes:
        owner: Whose documents they are; the receiver checks that this peer sealed them.
        fingerprint: Digest of the fingerprint of the vectors, 64 hexadecimal digits.
        sequence: Grows with every advertisement of the owner.
        issued_at: Unix seconds.
        expires_at: Unix seconds, after which the advertisement is void.
        withdrawn: Whether the owner takes back what it advertised; then there are no entries.
        bits: Bits a dimension, 1, 2, 4, or 32 for float32.
        entries: What each vector stands for.
        vectors: Shape [n, d]. To be encoded: the vectors themselves. Decoded: rows whose product
            with a query is the estimated score (`codes.decode_codes`).
        estimates: Of the best document behind every vector, where clusters are advertised.
    """

    owner: PeerId
    fingerprint: str
    sequence: int
    issued_at: int
    expires_at: int
    withdrawn: bool = False
    bits: int = 4
    entries: tuple[Entry, ...] = ()
    vectors: Vector = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    estimates: Estimates | None = None

    @property
    def documents(self) -> tuple[HashPrefix | None, ...]:
        """The document of every row; None for a centroid."""
        return tuple(None if isinstance(entry, int) else entry for entry in self.entries)


def encode_advertisement(advertisement: Advertisement) -> bytes:
    """Encode an advertisement's payload, to be sealed by its owner.

    Raises:
        EmbeddingError: A vector is not finite, is zero or has the wrong shape.
        UsageError: A field is out of bounds or contradicts another.
        LocalError: The payload is longer than `PAYLOAD_LIMIT`.
    """
    fields: dict[str, object] = {
        "type": _ADVERTISEMENT,
        "owner": advertisement.owner,
        "fingerprint": bytes.fromhex(advertisement.fingerprint),
        "sequence": advertisement.sequence,
        "issued-at": advertisement.issued_at,
        "expires-at": advertisement.expires_at,
        "withdrawn": advertisement.withdrawn,
    }
    if advertisement.entries:
        fields["vectors"] = _vector_fields(advertisement)
    payload = encode_message(fields, limit=PAYLOAD_LIMIT)
    with refusing_own_mistakes():
        decode_advertisement(payload)
    return payload


def _vector_fields(advertisement: Advertisement) -> dict[str, object]:
    packed, factors = encode_codes(advertisement.vectors, advertisement.bits)
    fields: dict[str, object] = {
        "dimension": advertisement.vectors.shape[1],
        "bits": advertisement.bits,
        "entries": [
            entry if isinstance(entry, int) else prefix_bytes(entry)
            for entry in advertisement.entries
        ],
        "codes": packed.tobytes(),
    }
    if advertisement.bits != FLOAT_BITS:
        fields["factors"] = _floats(factors)
    if advertisement.estimates is not None:
        fields["estimates"] = {
            "offsets": _floats(advertisement.estimates.offsets),
            "errors": _floats(advertisement.estimates.errors),
        }
    return fields


def _floats(values: Vector) -> cbor2.CBORTag:
    return cbor2.CBORTag(cbor.TAG_FLOAT32, values.astype("<f4").tobytes())


def decode_advertisement(payload: bytes, *, dimension: int | None = None) -> Advertisement:
    """Decode the payload of an advertisement whose seal has been verified.

    The caller checks that `owner` sealed it and that it has not expired.

    Raises:
        DecodeError: It is malformed, or its vectors do not have `dimension`.
    """
    _, reader = read_message(
        payload, limit=PAYLOAD_LIMIT, what=_ADVERTISEMENT, types=[_ADVERTISEMENT]
    )
    advertisement = Advertisement(
        owner=read_peer(reader, "owner"),
        fingerprint=read_digest(reader, "fingerprint"),
        sequence=reader.integer("sequence", maximum=MAX_INTEGER),
        issued_at=read_time(reader, "issued-at"),
        expires_at=read_time(reader, "expires-at"),
        withdrawn=reader.boolean("withdrawn"),
    )
    if advertisement.expires_at <= advertisement.issued_at:
        reader.fail("'expires-at' is not after 'issued-at'")
    if reader.has("vectors"):
        if advertisement.withdrawn:
            reader.fail("a withdrawal has no 'vectors'")
        advertisement = _with_vectors(advertisement, reader.map("vectors"), dimension)
    reader.finish()
    return advertisement


def _with_vectors(
    advertisement: Advertisement, reader: MapReader, expected_dimension: int | None
) -> Advertisement:
    dimension = reader.integer("dimension", minimum=1, maximum=MAX_DIMENSION)
    if expected_dimension not in (None, dimension):
        reader.fail(f"the vectors have {dimension} dimensions, expected {expected_dimension}")
    bits = reader.integer("bits", minimum=1, maximum=FLOAT_BITS)
    if bits not in CODE_BITS:
        reader.fail(f"'bits' is not one of {CODE_BITS}")
    entries = _read_entries(reader)
    size = len(entries) * code_bytes(dimension, bits)
    codes = reader.binary("codes", min_bytes=size, max_bytes=size)
    packed = np.frombuffer(codes, np.uint8).reshape(len(entries), -1)
    if bits == FLOAT_BITS:
        factors = np.ones(len(entries), dtype=np.float32)
        _check_float_rows(reader, packed)
    else:
        factors = _read_floats(reader, "factors", len(entries), MIN_FACTOR, 1.0)
        used_bits = dimension * bits % 8
        if used_bits and (packed[:, -1] >> used_bits).any():
            reader.fail("'codes' has a padding bit that is set")
    estimates = None
    if reader.has("estimates"):
        estimates = _read_estimates(reader.map("estimates"), len(entries))
    reader.finish()
    vectors = decode_codes(packed, factors, dimension=dimension, bits=bits)
    return replace(advertisement, bits=bits, entries=entries, vectors=vectors, estimates=estimates)


def _read_entries(reader: MapReader) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for item in reader.items("entries", min_items=1, max_items=MAX_ADVERTISED):
        field_reader = MapReader({"entry": item}, "entries")
        if isinstance(item, bytes):
            entries.append(read_prefix(field_reader, "entry"))
        else:
            entries.append(field_reader.integer("entry", maximum=MAX_INTEGER))
    refuse_repeats(reader, "entries", entries)
    return tuple(entries)


def _read_estimates(reader: MapReader, count: int) -> Estimates:
    offsets = _read_floats(reader, "offsets", count, -MAX_OFFSET, MAX_OFFSET)
    errors = _read_floats(reader, "errors", count, 0.0, MAX_ESTIMATE_ERROR)
    reader.finish()
    return Estimates(offsets, errors)


def _read_floats(reader: MapReader, key: str, count: int, minimum: float, maximum: float) -> Vector:
    """Take `count` float32 numbers within the bounds, both included."""
    array = reader.array(key, tags=frozenset({cbor.TAG_FLOAT32}), max_bytes=4 * count)
    if len(array.value) != 4 * count:
        reader.fail(f"{key!r} does not hold {count} numbers")
    values = np.frombuffer(array.value, "<f4")
    if not ((values >= minimum) & (values <= maximum)).all():
        reader.fail(f"{key!r} holds a number that is not between {minimum:g} and {maximum:g}")
    return values


def _check_float_rows(reader: MapReader, packed: NDArray[np.uint8]) -> None:
    rows = packed.view("<f4")
    if not np.isfinite(rows).all():
        reader.fail("a vector is not finite")
    lengths = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    if (np.abs(lengths - 1.0) > LENGTH_TOLERANCE).any():
        reader.fail("a vector does not have unit length")


def encode_advertise_request(request: AdvertiseRequest) -> bytes:
    """Encode a request for an advertisement."""
    fields: dict[str, object] = {"type": _GET}
    if request.known_sequence is not None:
        fields["known-sequence"] = request.known_sequence
    return encode_message(fields, limit=ADVERTISE_REQUEST_LIMIT)


def decode_advertise_request(data: bytes) -> AdvertiseRequest:
    """Decode a request for an advertisement.

    Raises:
        DecodeError: It is malformed.
    """
    _, reader = read_message(
        data, limit=ADVERTISE_REQUEST_LIMIT, what="advertise request", types=[_GET]
    )
    known_sequence = None
    if reader.has("known-sequence"):
        known_sequence = reader.integer("known-sequence", maximum=MAX_INTEGER)
    reader.finish()
    return AdvertiseRequest(known_sequence)


def encode_advertise_reply(sealed: bytes | None) -> bytes:
    """Encode the reply: the sealed advertisement, or None when the asker's is the newest.

    Raises:
        LocalError: The reply is longer than `ADVERTISEMENT_LIMIT`.
    """
    if sealed is None:
        return encode_message({"type": _UNCHANGED}, limit=ADVERTISEMENT_LIMIT)
    return encode_message({"type": _ADVERTISEMENT, "object": sealed}, limit=ADVERTISEMENT_LIMIT)


def decode_advertise_reply(data: bytes) -> bytes | Refusal | None:
    """Decode the reply: the sealed advertisement, None for unchanged, or a refusal.

    Raises:
        DecodeError: It is malformed.
    """
    message_type, reader = read_message(
        data,
        limit=ADVERTISEMENT_LIMIT,
        what="advertise reply",
        types=[_ADVERTISEMENT, _UNCHANGED, REFUSAL],
    )
    if message_type == REFUSAL:
        return read_refusal(reader)
    sealed = None
    if message_type == _ADVERTISEMENT:
        sealed = reader.binary("object", min_bytes=1, max_bytes=ADVERTISEMENT_LIMIT)
    reader.finish()
    return sealed
