"""The last line of a screen: its keys.

(Textual's `Footer` makes a widget of each key anew whenever the screen or the focus changes, which
took half of the time in which a key was answered.)
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static


class KeyLine(Static):
    """Shows keys and what they do."""

    DEFAULT_CSS = """
    KeyLine { dock: bottom; height: 1; padding: 0 1; background: $panel; }
    """

    def show(self, keys: Sequence[tuple[str, str]]) -> None:
        """Show these keys, each with a word for what it does."""
        parts = [part for key, does in keys for part in ((key, "bold"), f" {does}  ")]
        self.update(Text.assemble(*parts, no_wrap=True), layout=False)
