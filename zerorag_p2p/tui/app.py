"""The window of `zerorag top`.

It only reads. It works in 80 columns and 24 lines, without animation, and without colour under
NO_COLOR.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from textual.app import App

from zerorag_p2p.client import AsyncClient
from zerorag_p2p.home import Home
from zerorag_p2p.tui.source import Source
from zerorag_p2p.tui.top_screen import TopScreen


class TopApp(App[None]):
    """The window.

    Args:
        nodes: Opens the source of each node, by name; the first is shown at first.
        clock: The present, in unix seconds.
    """

    TITLE = "zerorag top"
    ENABLE_COMMAND_PALETTE = False

    CSS = """
    #node, #throughput { text-wrap: nowrap; text-overflow: ellipsis; }
    #node { height: 1; padding: 0 1; background: $primary; color: $text; text-style: bold; }
    #throughput { height: 1; padding: 0 1; }
    #throughput.problem { color: $text-error; }
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    #filter { display: none; height: 1; border: none; padding: 0 1; }
    #filter:focus { border: none; }
    #filter.shown { display: block; }
    """

    def __init__(
        self, nodes: Mapping[str, Callable[[], Source]], *, clock: Callable[[], float] = time.time
    ) -> None:
        # Under NO_COLOR textual leaves the terminal's own colours out; others it makes grey.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.animation_level = "none"
        self.top = TopScreen(nodes, clock)

    def get_default_screen(self) -> TopScreen:
        """The tables."""
        return self.top


def run_top(homes: Sequence[Home]) -> None:
    """Open the window on the nodes of `homes`, until it is closed."""

    def opener(home: Home) -> Callable[[], Source]:
        return lambda: AsyncClient(home)

    TopApp({str(home.root): opener(home) for home in homes}).run()
