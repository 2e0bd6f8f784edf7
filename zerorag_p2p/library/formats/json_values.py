"""JSON values that documents are made of."""

from __future__ import annotations

import json
from typing import Any

from zerorag_p2p.errors import LibraryError


def parse(text: str) -> Any:
    """Parse JSON.

    Raises:
        LibraryError: It is not JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise LibraryError(f"it is not valid JSON: {error}") from None
    except (ValueError, RecursionError):  # an integer of too many digits, or too deep a nesting
        raise LibraryError("it is not valid JSON: a value is too long or too deep") from None


def text_of(value: dict[str, Any], key: str) -> str:
    """The text under `key`.

    Raises:
        LibraryError: There is none.
    """
    if key not in value:
        raise LibraryError(f"{key!r} is missing")
    if not isinstance(value[key], str):
        raise LibraryError(f"{key!r} is not a text")
    return str(value[key])
