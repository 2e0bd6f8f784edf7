"""A pause: a node that answers nobody until its operator says so, across restarts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from zerorag_p2p.config import MAX_REASON_BYTES, PAUSE_RETRY_AFTER_S
from zerorag_p2p.errors import LocalError, UsageError
from zerorag_p2p.files import read_bounded, write_atomic
from zerorag_p2p.model import RefusalCode
from zerorag_p2p.wire.refusal import Refusal

_FILE_LIMIT: Final = 8 << 10


@dataclass(frozen=True, slots=True)
class Pause:
    """Why and since when (unix seconds) nobody is answered. Every peer that asks sees the reason.

    Raises:
        UsageError: The reason is too long, or holds a character that cannot be printed.
    """

    since: float
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.reason.isprintable() or len(self.reason.encode()) > MAX_REASON_BYTES // 2:
            raise UsageError(
                f"the reason of a pause is one line of at most {MAX_REASON_BYTES // 2} bytes"
            )

    def refusal(self) -> Refusal:
        """What a peer that asks is told."""
        reason = "this node is paused" + (f": {self.reason}" if self.reason else "")
        return Refusal(RefusalCode.PAUSED, reason, PAUSE_RETRY_AFTER_S)

    def to_json(self) -> dict[str, Any]:
        """The pause as JSON."""
        return asdict(self)


def write_pause(path: Path, pause: Pause) -> None:
    """Keep a pause for the next start."""
    write_atomic(path, (json.dumps(pause.to_json()) + "\n").encode(), mode=0o600)


def remove_pause(path: Path) -> None:
    """Forget the pause; without effect if there is none."""
    path.unlink(missing_ok=True)


def read_pause(path: Path) -> Pause | None:
    """The pause that is kept at `path`, if there is one.

    Raises:
        LocalError: The file is damaged. Whoever paused the node wants it silent, so it is not
            taken for none.
    """
    try:
        data = read_bounded(path, _FILE_LIMIT)
    except FileNotFoundError:
        return None
    try:
        value = json.loads(data)
        return Pause(float(value["since"]), str(value["reason"]))
    except (ValueError, KeyError, TypeError, UsageError):
        raise LocalError(
            f"{path} is damaged: write it anew with `zerorag pause`, or remove it to go on"
        ) from None
