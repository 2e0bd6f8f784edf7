"""Users of applications: who they are stays here, a pseudonym travels."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from fastapi import Request

_KEY_BYTES: Final = 32
_PSEUDONYM_BYTES: Final = 16


def pseudonym(key: bytes, application: str, user: str) -> str:
    """The name by which others know a user of an application.

    The same user has the same one every time. Only who has the key can tell whose it is.

    Args:
        key: The home's secret.
        application: Label of the application's token, empty for the Unix socket: two
            applications may give the same id to different people.
        user: The application's id of the user, empty for the application itself.
    """
    digest = hmac.digest(key, f"{application}\0{user}".encode(), hashlib.sha256)
    return f"u-{digest[:_PSEUDONYM_BYTES].hex()}"


def pseudonym_of(request: Request, user: str) -> str:
    """The pseudonym of the user that a request names, else of the application that makes it.

    Empty where the node's owner asks and names nobody.
    """
    application = application_of(request)
    if not user and not application:
        return ""
    return pseudonym(request.app.state.user_key, application, user)


def application_of(request: Request) -> str:
    """Label of the token that a request came with; empty for the Unix socket."""
    application: str = request.scope.get("state", {}).get("application", "")
    return application


def random_user_key() -> bytes:
    """A secret for pseudonyms."""
    return secrets.token_bytes(_KEY_BYTES)
