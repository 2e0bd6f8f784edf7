"""The end of a key's rotation: the next key takes the place of the private key.

The one it takes the place of stays a member for some time, and takes back what it stated.

Documents are signed with the next key first, then the files change their names, in one step that
counts. A crash in between is made good by the next start, which does both again. The audit log goes
on under the new key when it is opened next (`audit.ledger`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from zerorag_p2p.config import ROTATION_SETTLE_S
from zerorag_p2p.errors import KeyFileError
from zerorag_p2p.files import sync_folder
from zerorag_p2p.home import Home
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import Roster, Standing, standing
from zerorag_p2p.node.files import load_identity, load_peer_id

logger = logging.getLogger("zerorag.node")


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The key that a node's own took the place of.

    Attributes:
        identity: The key.
        until: Unix seconds at which it stops being a member.
    """

    identity: Identity
    until: int


def due_key(home: Home, roster: Roster, now: float) -> Path | None:
    """The next key of `home`, some time after it became a member by the roster; else None.

    Until others have that roster, they would take the node for a stranger.

    Raises:
        KeyFileError: The file cannot be read or is accessible to others.
    """
    if not home.next_key.exists():
        return None
    successor = load_peer_id(home.next_key)
    member = roster.member(successor)
    if member is None or standing(roster, successor, now) is not Standing.MEMBER:
        return None
    return home.next_key if now >= member.not_before + ROTATION_SETTLE_S else None


def complete_rotation(home: Home) -> None:
    """Put the next key in the place of the private key, which stays as the previous one."""
    with contextlib.suppress(FileNotFoundError):
        home.previous_key.unlink()
    os.link(home.key, home.previous_key)
    os.replace(home.next_key, home.key)
    sync_folder(home.root)


def find_predecessor(
    home: Home, roster: Roster, now: float, *, going_over: bool
) -> Predecessor | None:
    """The key that the node's own took the place of, if it is there and still a member.

    Args:
        home: Where the keys are.
        roster: The roster in force.
        now: Unix seconds.
        going_over: Whether the next key is about to take the place of the private key.
    """
    path = home.key if going_over else home.previous_key
    try:
        peer = load_peer_id(path) if path.exists() else None
        member = None if peer is None else roster.member(peer)
        if peer is None or member is None or standing(roster, peer, now) is not Standing.MEMBER:
            return None
        return Predecessor(load_identity(path), member.not_after)
    except KeyFileError as error:
        logger.warning("what the previous key stated cannot be taken back: %s", error)
        return None
