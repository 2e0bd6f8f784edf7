"""How far the token of an application reaches: the routes of the local interface, scope by scope.

A route that is not named here is refused to every token; the Unix socket serves them all.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import Final


class Scope(enum.StrEnum):
    """What a token is for.

    QUERY: asking, and reading documents.
    READ_ONLY: looking at the node, without asking and without the texts of questions.
    ADMIN: both, and what changes the node, except what only its owner may do.
    """

    QUERY = "query"
    READ_ONLY = "read-only"
    ADMIN = "admin"


_ASKING: Final = frozenset({Scope.QUERY, Scope.ADMIN})
_LOOKING: Final = frozenset({Scope.READ_ONLY, Scope.ADMIN})
_ADMIN: Final = frozenset({Scope.ADMIN})
_ANYBODY: Final = frozenset(Scope)

#: Only over the Unix socket. Files are named by their paths on the node's machine, and whoever
#: makes tokens could outlive the end of its own.
_OWNER: Final[frozenset[Scope]] = frozenset()

#: The scopes that a route is open to, by method and path as in `/v1/openapi.json`.
SCOPES: Final = MappingProxyType(
    {
        ("GET", "/v1/openapi.json"): _ANYBODY,
        ("POST", "/v1/query"): _ASKING,
        ("POST", "/v1/ask"): _ASKING,
        ("GET", "/v1/documents/{content_hash}"): _ASKING,
        ("GET", "/v1/status"): _LOOKING,
        ("GET", "/v1/peers"): _LOOKING,
        ("GET", "/v1/neighbors"): _LOOKING,
        ("GET", "/v1/memory"): _LOOKING,
        ("GET", "/v1/refusals"): _LOOKING,
        ("GET", "/v1/collections"): _LOOKING,
        ("GET", "/v1/documents"): _LOOKING,
        ("GET", "/v1/events"): _ADMIN,
        ("POST", "/v1/shutdown"): _ADMIN,
        ("DELETE", "/v1/documents/{name}"): _ADMIN,
        ("POST", "/v1/collections/{collection}/share"): _ADMIN,
        ("POST", "/v1/collections/{collection}/unshare"): _ADMIN,
        ("POST", "/v1/copies/answer"): _ADMIN,
        ("POST", "/v1/copies/document"): _ADMIN,
        ("GET", "/v1/withdrawals"): _LOOKING,
        ("POST", "/v1/withdrawals"): _ADMIN,
        ("DELETE", "/v1/withdrawals/{name}"): _ADMIN,
        ("POST", "/v1/roster"): _ADMIN,
        ("POST", "/v1/pause"): _ADMIN,
        ("POST", "/v1/resume"): _ADMIN,
        ("POST", "/v1/migration"): _OWNER,
        ("POST", "/v1/migration/finish"): _OWNER,
        ("POST", "/v1/migration/cancel"): _OWNER,
        ("GET", "/v1/policy"): _ADMIN,
        ("POST", "/v1/policy/check"): _ADMIN,
        ("POST", "/v1/policy/lint"): _ADMIN,
        ("POST", "/v1/policy/reload"): _ADMIN,
        ("GET", "/v1/policy/emergencies"): _ADMIN,
        ("POST", "/v1/policy/rearm"): _OWNER,
        ("GET", "/v1/audit"): _ADMIN,
        ("GET", "/v1/audit/page"): _ADMIN,
        ("GET", "/v1/audit/verify"): _ADMIN,
        ("GET", "/v1/audit/disclosures/{content_hash}"): _ADMIN,
        ("POST", "/v1/audit/purge"): _OWNER,
        ("POST", "/v1/documents"): _OWNER,
        ("GET", "/v1/watches"): _LOOKING,
        ("POST", "/v1/watches"): _OWNER,
        ("DELETE", "/v1/watches"): _OWNER,
        ("GET", "/v1/tokens"): _OWNER,
        ("POST", "/v1/tokens"): _OWNER,
        ("POST", "/v1/tokens/{label}/rotate"): _OWNER,
        ("DELETE", "/v1/tokens/{label}"): _OWNER,
        ("POST", "/v1/pseudonym"): _OWNER,
    }
)
