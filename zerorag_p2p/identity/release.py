"""Releases: what a peer sent of a document, to whom and for what, signed by the sender.

The owner's statement covers the whole document. What leaves may be less: a view, or a redacted
text. So the sender, be it the owner or a permitted holder, signs a release over the bytes it sends
(protocols/attribution).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zerorag_p2p import cbor
from zerorag_p2p.config import MAX_REDACTIONS, RELEASE_LIMIT
from zerorag_p2p.errors import AttributionError
from zerorag_p2p.identity import cose, fields
from zerorag_p2p.identity.attribution import Fault, verify_message
from zerorag_p2p.identity.envelope import Domain
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import ContentHash, PeerId, Purpose, View


@dataclass(frozen=True, slots=True)
class Release:
    """What was sent, once, from one peer to another.

    Attributes:
        content_hash: The document version it is from.
        bytes_hash: SHA-256 of the bytes sent, 64 hexadecimal digits; equal to the content hash
            when the whole content was sent.
        view: How much of the document the bytes show.
        redaction: Ids of the redaction rules that were applied, in order.
        sender: The peer that signed.
        receiver: The peer it was sent to.
        purpose: What for.
        audit: The reference under which both sides log it, or "".
        issued_at: Unix seconds.
    """

    content_hash: ContentHash
    bytes_hash: str
    view: View
    redaction: tuple[str, ...]
    sender: PeerId
    receiver: PeerId
    purpose: Purpose
    audit: str
    issued_at: int

    @property
    def complete(self) -> bool:
        """Whether the sender says that it sent the whole content, unchanged."""
        return self.view is View.WHOLE and not self.redaction

    def to_json(self) -> dict[str, Any]:
        """The release as JSON, digests in hexadecimal."""
        return {
            "content-hash": self.content_hash,
            "bytes-hash": self.bytes_hash,
            "view": self.view.value,
            "redaction": list(self.redaction),
            "sender": self.sender,
            "receiver": self.receiver,
            "purpose": self.purpose.value,
            "audit": self.audit,
            "issued-at": self.issued_at,
        }


def sign_release(
    identity: Identity,
    content: bytes,
    *,
    content_hash: ContentHash,
    view: View,
    redaction: Sequence[str] = (),
    receiver: PeerId,
    purpose: Purpose,
    audit: str = "",
    now: float,
) -> bytes:
    """Sign that `content`, exactly these bytes, goes to `receiver`.

    Raises:
        UsageError: A name is too long or not printable.
    """
    payload = cbor.encode(
        {
            "content-hash": bytes.fromhex(content_hash),
            "bytes-hash": hashlib.sha256(content).digest(),
            "view": view.value,
            "redaction": list(redaction),
            "sender": identity.peer_id,
            "receiver": receiver,
            "purpose": purpose.value,
            "audit": audit,
            "issued-at": int(now),
        }
    )
    with fields.refusing_own_mistakes():
        _decode(payload)
    return cose.sign1(identity, payload, aad=Domain.RELEASE.encode())


def open_release(data: bytes) -> Release:
    """Verify a release by itself; `verification.verify_document` holds it against a document.

    Raises:
        DecodeError: It is malformed.
        AttributionError: The signature does not verify, or is not the sender's.
    """
    signer, payload = verify_message(data, Domain.RELEASE, limit=RELEASE_LIMIT)
    release = _decode(payload)
    if signer != release.sender:
        raise AttributionError(
            Fault.RELEASE_BY_OTHER_SENDER,
            f"the release names {release.sender} as sender, but {signer} signed it",
        )
    return release


def _decode(payload: bytes) -> Release:
    reader = cbor.MapReader(cbor.decode(payload, limit=RELEASE_LIMIT), "release")
    release = Release(
        content_hash=ContentHash(fields.read_digest(reader, "content-hash")),
        bytes_hash=fields.read_digest(reader, "bytes-hash"),
        view=fields.read_view(reader, "view"),
        redaction=fields.read_names(reader, "redaction", max_items=MAX_REDACTIONS),
        sender=fields.read_peer(reader, "sender"),
        receiver=fields.read_peer(reader, "receiver"),
        purpose=fields.read_purpose(reader, "purpose"),
        audit=fields.read_name(reader, "audit", min_bytes=0),
        issued_at=fields.read_time(reader, "issued-at"),
    )
    reader.finish()
    return release
