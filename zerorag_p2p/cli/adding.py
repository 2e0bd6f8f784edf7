"""What is shown while files are added."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from zerorag_p2p.cli import output

Json = dict[str, Any]

#: Seconds after which what is left can be estimated.
_ESTIMATE_AFTER_S: Final = 2.0


class AddingLine:
    """Turns events of adding into one line that tells how far it is.

    Args:
        show: Shows a line in place of the one before.
        clock: Seconds of any beginning.
    """

    def __init__(
        self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._clock = clock
        self._began = clock()

    def take(self, event: Json) -> None:
        """Take in an event."""
        if event["event"] == "progress":
            self._show(progress_text(event, self._clock() - self._began))


def progress_text(event: Json, seconds: float) -> str:
    """How far adding is, from a "progress" event.

    Args:
        event: The event.
        seconds: Since adding began.
    """
    parts = [
        f"{event['files']} of {output.counted(event['all_files'], 'file')}",
        f"{output.size(event['bytes'])} of {output.size(event['all_bytes'])}",
        output.counted(event["documents"], "document"),
    ]
    if seconds >= _ESTIMATE_AFTER_S:
        parts[-1] += f", {event['documents'] / seconds:.0f} a second"
        if event["bytes"]:
            left = (event["all_bytes"] - event["bytes"]) / event["bytes"] * seconds
            parts.append(f"about {output.duration(left)} left")
    return f"{'; '.join(parts)}: {event['path']}"
