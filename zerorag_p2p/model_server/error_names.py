"""What a model's server calls an error, so that it can be repeated to people."""

from __future__ import annotations

import re
from typing import Final

#: A name, and no sentence: sentences may quote the request.
PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def error_name(value: object) -> str:
    """The name of the error in a decoded body; "" if there is no plain one."""
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return ""
    for key in ("code", "type"):
        name = error.get(key)
        if isinstance(name, str) and PLAIN_NAME.fullmatch(name):
            return name
    return ""
