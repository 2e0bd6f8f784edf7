"""Values shared by every layer: identifiers, documents, scores, reasons. All frozen."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from typing import NewType, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zerorag_p2p import cbor

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
HASH_PREFIX_DIGITS = 16


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
        return list(View).index(self)


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

    def __str__(self) -> str:
        return f"{self.model}@{self.revision[:12]} ({self.dimension} dimensions)"


@dataclass(frozen=True, slots=True)
class SharingTerms:
    """What the owner allows a receiver to do with a copy of a document."""

    copy: bool = False
    reshare: bool = False
    purposes: tuple[Purpose, ...] = ()
    expires_at: int | None = None


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
    """

    title: str
    text: str
    collection: str
    source: str
    part: int = 0
    parts: int = 1
    metadata: dict[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        """The canonical bytes that are hashed, signed, sent and verified."""
        return encode_content(self.title, self.text, self.part, self.parts)

    def content_hash(self) -> ContentHash:
        """SHA-256 of `content()`."""
        return hash_content(self.content())


def encode_content(title: str, text: str, part: int = 0, parts: int = 1) -> bytes:
    """Encode the content of a document in its canonical form (protocols/fetch)."""
    return cbor.encode({"title": title, "text": text, "part": part, "parts": parts})


def hash_content(content: bytes) -> ContentHash:
    """Hash canonical content."""
    return ContentHash(hashlib.sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document found by a search in one peer's library, with the vector it was scored by."""

    content_hash: ContentHash
    score: Score
    embedding: Vector
    attribution: bytes
