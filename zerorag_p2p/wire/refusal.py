"""Refusals: the reply of a peer that will not do what it was asked (protocols/README.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import MAX_REASON_BYTES, MAX_RETRY_AFTER_S
from zerorag_p2p.errors import RemoteRefusal
from zerorag_p2p.identity.fields import read_name
from zerorag_p2p.model import RefusalCode
from zerorag_p2p.wire.message import encode_message, read_choice

REFUSAL: Final = "refusal"

# A refusal always fits: the reason is cut.
_REFUSAL_LIMIT: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a peer refuses a request, and when to come back.

    Attributes:
        code: The kind of reason, for programs.
        reason: The reason, for people: one sentence.
        retry_after_s: Seconds after which asking again makes sense, where that is known.
    """

    code: RefusalCode
    reason: str
    retry_after_s: int | None = None

    def error(self) -> RemoteRefusal:
        """The error that a caller who cannot go on without an answer raises."""
        return RemoteRefusal(self.code, self.reason, self.retry_after_s)


def encode_refusal(refusal: Refusal) -> bytes:
    """Encode a refusal, the possible reply to every request. A long reason is cut."""
    fields: dict[str, object] = {
        "type": REFUSAL,
        "code": refusal.code.value,
        "reason": wire_reason(refusal.reason),
    }
    if refusal.retry_after_s is not None:
        fields["retry-after-s"] = min(refusal.retry_after_s, MAX_RETRY_AFTER_S)
    return encode_message(fields, limit=_REFUSAL_LIMIT)


def read_refusal(reader: MapReader) -> Refusal:
    """Read the fields of a refusal after its type.

    Raises:
        DecodeError: A field is missing, unknown or out of bounds.
    """
    code = read_choice(reader, "code", RefusalCode)
    reason = read_reason(reader)
    retry_after_s = None
    if reader.has("retry-after-s"):
        retry_after_s = reader.integer("retry-after-s", maximum=MAX_RETRY_AFTER_S)
    reader.finish()
    return Refusal(code, reason, retry_after_s)


def read_reason(reader: MapReader) -> str:
    """Take `reason`: a sentence for people, printable, possibly empty."""
    return read_name(reader, "reason", min_bytes=0, max_bytes=MAX_REASON_BYTES)


def wire_reason(reason: str) -> str:
    """A reason as a message may carry it: printable, and cut where it is too long."""
    printable = "".join(character if character.isprintable() else " " for character in reason)
    return printable.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
