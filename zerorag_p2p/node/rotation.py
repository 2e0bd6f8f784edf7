"""The end of a key's rotation: the next key takes the place of the private key.

Documents are signed with the next key first, then the files change their names, in one step that
counts. A crash in between is made good by the next start, which does both again. The audit log goes
on under the new key when it is opened next (`audit.ledger`).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from zerorag_p2p.config import ROTATION_SETTLE_S
from zerorag_p2p.files import sync_folder
from zerorag_p2p.home import Home
from zerorag_p2p.identity.roster import Roster, Standing, standing
from zerorag_p2p.node.files import load_peer_id


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
