"""Screenshots of the window, made from a recording and thus the same every time.

    python -m zerorag_p2p.tui.screenshots FOLDER [--recording FILE]

Writes top-neighbours.svg and top-query.svg. `zerorag_p2p.tui.recording` makes recordings; one of
the demonstration (`make demo`) is shipped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from zerorag_p2p.config import TOP_REDRAW_S, TOP_REFRESH_S
from zerorag_p2p.tui.app import TopApp
from zerorag_p2p.tui.nodes import NamedNodes
from zerorag_p2p.tui.recording import ReplayedNode
from zerorag_p2p.tui.source import Json

#: A font that would be loaded from elsewhere when the picture is opened.
_WEB_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def shipped_recording() -> Json:
    """The recording of the demonstration."""
    text = (resources.files("zerorag_p2p.tui") / "recording.json").read_text(encoding="utf-8")
    recording: Json = json.loads(text)
    return recording


async def take(recording: Json) -> dict[str, str]:
    """The pictures as SVG, by name."""
    return {
        "top-neighbours": await _picture(recording, (118, 16)),
        "top-query": await _picture(recording, (100, 30), "2", "enter"),
    }


async def _picture(recording: Json, size: tuple[int, int], *keys: str) -> str:
    node = ReplayedNode(recording)
    app = TopApp(NamedNodes({"recording": lambda: node}), clock=node.clock)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(2 * TOP_REFRESH_S)  # Rates need figures of two moments.
        for key in keys:
            await pilot.press(key)
            await pilot.pause(2 * TOP_REDRAW_S)
        picture = app.export_screenshot(title="zerorag top")
    # Without the attribute some viewers leave out the blanks a text begins with.
    return _WEB_FONT.sub("", picture).replace("<svg ", '<svg xml:space="preserve" ', 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the screenshots; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m zerorag_p2p.tui.screenshots", description="Take pictures of zerorag top."
    )
    parser.add_argument("folder", type=Path, help="where they go")
    parser.add_argument("--recording", type=Path, help="default: the shipped one")
    options = parser.parse_args(arguments)
    if options.recording is None:
        recording = shipped_recording()
    else:
        recording = json.loads(options.recording.read_text(encoding="utf-8"))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, picture in asyncio.run(take(recording)).items():
        (options.folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
