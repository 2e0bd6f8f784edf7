"""Protocol ids, and the longest request and reply of each (protocols/README.md).

An id ends in the version. A breaking change gets a new id; both sides name the ids they speak in
hello.
"""

from __future__ import annotations

from typing import Final

from zerorag_p2p.config import (
    ADVERTISE_REQUEST_LIMIT,
    ADVERTISEMENT_LIMIT,
    FETCH_LIMIT,
    FETCH_RESULT_LIMIT,
    GOSSIP_LIMIT,
    GOSSIP_REPLY_LIMIT,
    HELLO_LIMIT,
    QUERY_LIMIT,
    QUERY_RESULT_LIMIT,
)

HELLO: Final = "/zerorag/hello/1.0.0"
QUERY: Final = "/zerorag/query/1.0.0"
ADVERTISE: Final = "/zerorag/advertise/1.0.0"
FETCH: Final = "/zerorag/fetch/1.0.0"
GOSSIP: Final = "/zerorag/gossip/1.0.0"

#: Bytes of the longest request payload and the longest reply payload.
LIMITS: Final[dict[str, tuple[int, int]]] = {
    HELLO: (HELLO_LIMIT, HELLO_LIMIT),
    QUERY: (QUERY_LIMIT, QUERY_RESULT_LIMIT),
    ADVERTISE: (ADVERTISE_REQUEST_LIMIT, ADVERTISEMENT_LIMIT),
    FETCH: (FETCH_LIMIT, FETCH_RESULT_LIMIT),
    GOSSIP: (GOSSIP_LIMIT, GOSSIP_REPLY_LIMIT),
}

#: What this version speaks, for hello.
SUPPORTED: Final = tuple(LIMITS)

#: Families of which two peers need a version in common to work together.
REQUIRED: Final = ("query", "advertise", "fetch")


def family(protocol: str) -> str:
    """The part of a protocol id that stays the same in every version, "query" for instance."""
    name, _, _ = protocol.removeprefix("/zerorag/").partition("/")
    return name
