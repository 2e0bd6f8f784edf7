"""Values shared by every layer: identifiers, documents, scores, reasons. All frozen."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from typing import NewType, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p import cbor
from zerorag_p2p.config import MAX_CONTENT_BYTES, MAX_DIMENSION, MAX_INTEGER, MAX_NAME_BYTES

#: A libp2p peer id in its base58 text form, "12D3KooW...".
PeerId = NewType("PeerId", str)

#: SHA-256 of a document's canonical content, 64 lower-case hexadecimal digits.
ContentHash = NewType("ContentHash", str)

#: The first eight bytes of a content hash, as 16 hexadecimal digits.
HashPrefix = NewType("HashPrefix", str)

#: Cosine similarity, -1 to 1; never compared is minus infinity.
Score: TypeAlias = float

#: A float32 array, one dimension for a vector, two for a matrix of row vectors.
Vector: TypeAlias = NDArray[np.float32]

NEVER_COMPARED: Score = float("-inf")
CONTENT_HASH_DIGITS = 64
HASH_PREFIX_DIGITS = 16
SALT_BYTES = 16


def hash_prefix(content_hash: ContentHash) -> HashPrefix:
    """Shorten a content hash to the prefix that advertisements and queries carry."""
    return HashPrefix(content_hash[:HASH_PREFIX_DIGITS])


class View(enum.StrEnum):
    """How much of a document a requester wants to see, from least to most."""

    COUNT = "count"
    TITLE = "title"
    PASSAGE = "passage"
    WHOLE = "whole"

    @property
    def rank(self) -> int:
        """0 for the view that shows least."""
        return _VIEW_RANKS[self]


_VIEW_RANKS = {view: rank for rank, view in enumerate(View)}


class Purpose(enum.StrEnum):
    """Purpose of use, from the HL7 v3 PurposeOfUse code system."""

    TREAT = "TREAT"
    ETREAT = "ETREAT"
    HRESCH = "HRESCH"
    HPAYMT = "HPAYMT"
    HOPERAT = "HOPERAT"
    PUBHLTH = "PUBHLTH"
    PATRQT = "PATRQT"


class RefusalCode(enum.StrEnum):
    """Why a peer refused a request. The texts are part of the wire protocol."""

    MALFORMED = "malformed"
    UNSUPPORTED = "unsupported"
    HELLO_REQUIRED = "hello-required"
    WRONG_CONSORTIUM = "wrong-consortium"
    NO_COMMON_EMBEDDING = "no-common-embedding"
    NO_COMMON_PROTOCOL = "no-common-protocol"
    CLOCK_SKEW = "clock-skew"
    NOT_A_MEMBER = "not-a-member"
    DENIED = "denied"
    BUSY = "busy"
    RATE_LIMITED = "rate-limited"
    PAUSED = "paused"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What must agree for two embeddings to be comparable.

    Attributes:
        model: Name of the embedding model.
        revision: SHA-256 of the model's weights, or another immutable version.
        dimension: Number of components of a vector.
        pooling: How token vectors become one vector, "mean" or "cls" for instance.
        normalised: Whether vectors have unit length.
        prefix: Text put before a document or query, or "".
    """

    model: str
    revision: str
    dimension: int
    pooling: str = "mean"
    normalised: bool = True
    prefix: str = ""

    def digest(self) -> str:
        """SHA-256 over the deterministic encoding, as 64 hexadecimal digits."""
        return hashlib.sha256(cbor.encode(self.to_map())).hexdigest()

    def to_map(self) -> dict[str, str | int | bool]:
        """The map that stands for this fingerprint on the wire and in a roster."""
        return {
            "model": self.model,
            "revision": self.revision,
            "dimension": self.dimension,
            "pooling": self.pooling,
            "normalised": self.normalised,
            "prefix": self.prefix,
        }

    @classmethod
    def from_map(cls, value: object) -> Fingerprint:
        """Read what `to_map` returned.

        Raises:
            DecodeError: A field is missing, unknown, of another type or out of bounds.
        """
        reader = cbor.MapReader(value, "fingerprint")
        fingerprint = cls(
            model=reader.text("model", min_bytes=1, max_bytes=MAX_NAME_BYTES),
            revision=reader.text("revision", min_bytes=1, max_bytes=MAX_NAME_BYTES),
            dimension=reader.integer("dimension", minimum=1, maximum=MAX_DIMENSION),
            pooling=reader.text("pooling", min_bytes=1, max_bytes=MAX_NAME_BYTES),
            normalised=reader.boolean("normalised"),
            prefix=reader.text("prefix", max_bytes=MAX_NAME_BYTES),
        )
        reader.finish()
        return fingerprint

    def __str__(self) -> str:
        return f"{self.model}@{self.revision[:12]} ({self.dimension} dimensions)"


@dataclass(frozen=True, slots=True)
class SharingTerms:
    """What the owner allows a receiver to do with a copy of a document.

    Attributes:
        copy: Whether a copy may be kept.
        reshare: Whether a copy may be passed on.
        purposes: What the document may be used for; empty for any purpose.
        expires_at: Unix seconds from which on nothing of it is allowed; None for no end.
    """

    copy: bool = False
    reshare: bool = False
    purposes: tuple[Purpose, ...] = ()
    expires_at: int | None = None

    def allow_all_of(self, other: SharingTerms) -> bool:
        """Whether these terms forbid nothing that `other` allows."""
        return (
            self.copy >= other.copy
            and self.reshare >= other.reshare
            and (not self.purposes or set(self.purposes) >= set(other.purposes or Purpose))
            and (
                self.expires_at is None
                or (other.expires_at is not None and self.expires_at >= other.expires_at)
            )
        )


@dataclass(frozen=True, slots=True)
class Document:
    """A retrieval unit: one passage of a source, with its own content hash.

    A source (a file, a record) that is longer than the embedding model reads becomes several
    documents, numbered `part` of `parts`.

    Attributes:
        title: Title of the source.
        text: The passage.
        collection: Name of the owner's collection.
        source: Owner-local name of the source, NFC-normalised.
        part: Number of the passage within its source, from 0.
        parts: Number of passages of the source.
        metadata: Small text values, for people and filters; not part of the content hash.
        salt: Random bytes that are hashed with the content, `SALT_BYTES`, or none.
    """

    title: str
    text: str
    collection: str
    source: str
    part: int = 0
    parts: int = 1
    metadata: dict[str, str] = field(default_factory=dict)
    salt: bytes = b""

    def whole(self) -> Content:
        """All of its content."""
        return Content(self.title, self.text, self.part, self.parts, self.salt)

    def content(self) -> bytes:
        """The canonical bytes that are hashed, signed, sent and verified."""
        return self.whole().encode()

    def content_hash(self) -> ContentHash:
        """SHA-256 of `content()`."""
        return hash_content(self.content())


@dataclass(frozen=True, slots=True)
class Content:
    """What of a document is hashed, signed, sent and verified.

    The hash of a text with one unknown name in it lets everybody try names. With a salt, which goes
    with the whole content only, it does not.
    """

    title: str
    text: str
    part: int = 0
    parts: int = 1
    salt: bytes = b""

    def encode(self) -> bytes:
        """The canonical bytes (protocols/fetch)."""
        fields: dict[str, object] = {
            "title": self.title,
            "text": self.text,
            "part": self.part,
            "parts": self.parts,
        }
        if self.salt:
            fields["salt"] = self.salt
        return cbor.encode(fields)


def decode_content(data: bytes) -> Content:
    """Read canonical content.

    Raises:
        DecodeError: It is malformed or too long.
    """
    reader = cbor.MapReader(cbor.decode(data, limit=MAX_CONTENT_BYTES), "content")
    content = Content(
        title=reader.text("title", max_bytes=MAX_CONTENT_BYTES),
        text=reader.text("text", max_bytes=MAX_CONTENT_BYTES),
        part=reader.integer("part", maximum=MAX_INTEGER),
        parts=reader.integer("parts", minimum=1, maximum=MAX_INTEGER),
        salt=(
            reader.binary("salt", min_bytes=SALT_BYTES, max_bytes=SALT_BYTES)
            if reader.has("salt")
            else b""
        ),
    )
    reader.finish()
    return content


def hash_content(content: bytes) -> ContentHash:
    """Hash canonical content."""
    return ContentHash(hashlib.sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document found by a search in one peer's library, with the vector it was scored by."""

    content_hash: ContentHash
    score: Score
    embedding: Vector
    attribution: tuple[bytes, ...]
    collection: str = ""
