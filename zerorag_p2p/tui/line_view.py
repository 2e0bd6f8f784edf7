"""Lines of text to scroll through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

#: Of the rest of a line that does not fit.
_INDENT: Final = 4


class LineView(ScrollView, can_focus=True):
    """Shows lines, folded to the width; only those in view are drawn."""

    DEFAULT_CSS = """
    LineView { overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "Up", show=False),
        Binding("j", "scroll_down", "Down", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[Text] = ()
        self._folded: list[Text] = []

    def show(self, lines: Sequence[Text], *, to_end: bool = False) -> None:
        """Replace the lines; `to_end` shows the last of them, else the place stays."""
        self._lines = lines
        self._fold()
        if to_end:
            self.scroll_end(animate=False, force=True, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        """Fold the lines to another width."""
        del event
        self._fold()

    def _fold(self) -> None:
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        self._folded = [part for line in self._lines for part in self._parts(line, width)]
        self.virtual_size = Size(width, len(self._folded))
        self.refresh()

    def _parts(self, line: Text, width: int) -> list[Text]:
        if line.cell_len <= width:
            return [line]
        parts = list(line.wrap(self.app.console, max(width - _INDENT, 1)))
        for part in parts[1:]:
            part.pad_left(_INDENT)
        return parts

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width = self.scrollable_content_region.width
        index = self.scroll_offset.y + y
        if index >= len(self._folded):
            return Strip.blank(width, self.rich_style)
        line, console = self._folded[index], self.app.console
        style = self.rich_style
        strip = Strip(line.render(console)).apply_style(style + console.get_style(line.style))
        return strip.adjust_cell_length(width, style)
