"""The window of `zerorag top`.

It only reads. It works in 80 columns and 24 lines, without animation, and without colour under
NO_COLOR.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

from textual.app import App

from zerorag_p2p.tui.nodes import Nodes
from zerorag_p2p.tui.top_screen import TopScreen


class TopApp(App[None]):
    """The window.

    Args:
        nodes: What can be watched, at least one; the first is shown at first.
        clock: The present, in unix seconds.
    """

    TITLE = "zerorag top"
    ENABLE_COMMAND_PALETTE = False

    CSS = """
    #node { text-wrap: nowrap; text-overflow: ellipsis; }
    #node { height: 1; padding: 0 1; background: $primary; color: $text; text-style: bold; }
    #throughput { height: 2; padding: 0 1; }
    #throughput.problem { color: $text-error; }
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    #filter { display: none; height: 1; border: none; padding: 0 1; }
    #filter:focus { border: none; }
    #filter.shown { display: block; }
    """

    def __init__(self, nodes: Nodes, *, clock: Callable[[], float] = time.time) -> None:
        # Under NO_COLOR textual leaves the terminal's own colours out; others it makes grey.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.animation_level = "none"
        self.top = TopScreen(nodes, clock)

    def get_default_screen(self) -> TopScreen:
        """The tables."""
        return self.top


def run_top(nodes: Nodes) -> None:
    """Open the window on nodes, until it is closed or a signal asks the process to end."""
    asyncio.run(_run(TopApp(nodes)))


async def _run(app: TopApp) -> None:
    # Killed without this, it would leave the terminal in the state that the window needs.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
    await app.run_async()
