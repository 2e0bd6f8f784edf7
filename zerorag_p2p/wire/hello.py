"""hello: what two peers have to agree on before anything else (protocols/hello).

The peer that dials sends a hello, the other answers with its own or with a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zerorag_p2p.cbor import MapReader
from zerorag_p2p.config import (
    HELLO_LIMIT,
    MAX_FINGERPRINTS,
    MAX_INTEGER,
    MAX_PROTOCOLS,
    RECORD_LIMIT,
)
from zerorag_p2p.identity.fields import (
    fingerprint_maps,
    read_fingerprints,
    read_name,
    read_names,
)
from zerorag_p2p.model import Fingerprint, RefusalCode
from zerorag_p2p.wire import protocols
from zerorag_p2p.wire.message import encode_message, read_message
from zerorag_p2p.wire.refusal import REFUSAL, Refusal, read_refusal, wire_reason

_HELLO: Final = "hello"

# Characters of one side's list in a reason, so that both sides' lists fit.
_LISTED: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a peer says about itself. Who it is, the connection has already proved.

    Attributes:
        consortium: Id of the consortium whose roster the peer follows.
        roster_version: Version of that roster. Peers may differ in it: the older learns that a
            newer one exists.
        fingerprints: Embeddings the peer can compare, preferred first; at least one.
        protocols: Protocol ids the peer speaks.
        clock_ms: Its clock, in unix milliseconds.
        software: Name and version of its software, for people.
        record: Its signed peer record (protocols/peer-record), not looked into here.
    """

    consortium: str
    roster_version: int
    fingerprints: tuple[Fingerprint, ...]
    protocols: tuple[str, ...]
    clock_ms: int
    software: str
    record: bytes


def encode_hello(hello: Hello) -> bytes:
    """Encode a hello, as a request or as a reply.

    Raises:
        LocalError: It is longer than `HELLO_LIMIT`.
    """
    return encode_message(
        {
            "type": _HELLO,
            "consortium": hello.consortium,
            "roster-version": hello.roster_version,
            "fingerprints": fingerprint_maps(hello.fingerprints),
            "protocols": list(hello.protocols),
            "clock-ms": hello.clock_ms,
            "software": hello.software,
            "record": hello.record,
        },
        limit=HELLO_LIMIT,
    )


def decode_hello(data: bytes) -> Hello:
    """Decode a hello request.

    Raises:
        DecodeError: It is malformed.
    """
    _, reader = read_message(data, limit=HELLO_LIMIT, what=_HELLO, types=[_HELLO])
    return _read_hello(reader)


def decode_hello_reply(data: bytes) -> Hello | Refusal:
    """Decode the reply to a hello.

    Raises:
        DecodeError: It is malformed.
    """
    message_type, reader = read_message(
        data, limit=HELLO_LIMIT, what="hello reply", types=[_HELLO, REFUSAL]
    )
    return read_refusal(reader) if message_type == REFUSAL else _read_hello(reader)


def _read_hello(reader: MapReader) -> Hello:
    hello = Hello(
        consortium=read_name(reader, "consortium"),
        roster_version=reader.integer("roster-version", maximum=MAX_INTEGER),
        fingerprints=read_fingerprints(
            reader, "fingerprints", min_items=1, max_items=MAX_FINGERPRINTS
        ),
        protocols=read_names(reader, "protocols", max_items=MAX_PROTOCOLS),
        clock_ms=reader.integer("clock-ms", maximum=MAX_INTEGER),
        software=read_name(reader, "software"),
        record=reader.binary("record", min_bytes=1, max_bytes=RECORD_LIMIT),
    )
    reader.finish()
    return hello


def check_hello(
    ours: Hello, theirs: Hello, *, we_dialled: bool, now_ms: int, tolerance_s: float
) -> Fingerprint | Refusal:
    """Decide whether we can work with a peer.

    Both sides decide alike: the agreed fingerprint is the first of the dialling side's list that
    the other side has too. Rosters of different versions are no obstacle.

    Args:
        ours: Our hello.
        theirs: The peer's.
        we_dialled: Whether we opened the connection.
        now_ms: Our clock, in unix milliseconds.
        tolerance_s: How far apart the clocks may be.

    Returns:
        The fingerprint to use with this peer, or a refusal whose reason names both sides' values.
    """
    if ours.consortium != theirs.consortium:
        return Refusal(
            RefusalCode.WRONG_CONSORTIUM,
            f"our consortium is {ours.consortium!r}, yours is {theirs.consortium!r}",
        )
    common_protocols = {
        protocols.family(item) for item in ours.protocols if item in theirs.protocols
    }
    for family in protocols.REQUIRED:
        if family not in common_protocols:
            return Refusal(
                RefusalCode.NO_COMMON_PROTOCOL,
                f"no common version of {family}: we speak {_listed(ours.protocols)}, "
                f"you speak {_listed(theirs.protocols)}",
            )
    skew_s = abs(now_ms - theirs.clock_ms) / 1000
    if skew_s > tolerance_s:
        return Refusal(
            RefusalCode.CLOCK_SKEW,
            f"clock skew {skew_s:.0f} s: our clock reads {now_ms // 1000}, yours "
            f"{theirs.clock_ms // 1000} (unix seconds), and {tolerance_s:g} s are tolerated; "
            "check the time synchronisation of both",
        )
    dialler, other = (ours, theirs) if we_dialled else (theirs, ours)
    for fingerprint in dialler.fingerprints:
        if fingerprint in other.fingerprints:
            return fingerprint
    return Refusal(
        RefusalCode.NO_COMMON_EMBEDDING,
        f"no common embedding: we use {_listed(map(_named, ours.fingerprints))}, "
        f"you use {_listed(map(_named, theirs.fingerprints))}",
    )


def _named(fingerprint: Fingerprint) -> str:
    # The digest tells two apart that differ in pooling or prefix only.
    return f"{fingerprint} [{fingerprint.digest()[:8]}]"


def _listed(items: Iterable[str]) -> str:
    text = wire_reason(", ".join(items)) or "nothing"
    return text if len(text) <= _LISTED else f"{text[:_LISTED]}..."
