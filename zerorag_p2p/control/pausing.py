"""Pausing a home whose node does not run: it starts paused, or no more."""

from __future__ import annotations

import time
from typing import Any

from zerorag_p2p.home import Home
from zerorag_p2p.node.files import HomeLock
from zerorag_p2p.node.pausing import Pause, remove_pause, write_pause


def pause(home: Home, reason: str) -> dict[str, Any]:
    """Let the node answer nobody when it starts.

    Raises:
        UsageError: The reason is too long, or holds a character that cannot be printed.
        LocalError: A node is starting.
    """
    paused = Pause(time.time(), reason)
    with HomeLock(home.root, holder="a command"):
        write_pause(home.pause, paused)
    return {"pause": paused.to_json()}


def resume(home: Home) -> dict[str, Any]:
    """Let the node answer when it starts.

    Raises:
        LocalError: A node is starting.
    """
    with HomeLock(home.root, holder="a command"):
        remove_pause(home.pause)
    return {"pause": None}
