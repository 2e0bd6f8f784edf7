"""Following watched folders while a node runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import trio

from zerorag_p2p.errors import LocalError
from zerorag_p2p.library.documents import StoredWatch
from zerorag_p2p.library.library import Library
from zerorag_p2p.library.reports import AddProgress
from zerorag_p2p.library.watching import WatchReport

logger = logging.getLogger("zerorag.node")


class FolderFollower:
    """Looks at the watched folders of a library when it is time, one after the other.

    Args:
        library: Whose folders.
        clock: Unix seconds.
    """

    def __init__(self, library: Library, clock: Callable[[], float]) -> None:
        self._library = library
        self._clock = clock
        self._due: dict[int, float] = {}
        self._looks: dict[int, tuple[float, WatchReport]] = {}
        self._progress: dict[int, AddProgress] = {}
        self._changed = trio.Event()

    async def run(self) -> None:
        """Follow the folders until cancelled."""
        while True:
            changed = self._changed
            watches = await trio.to_thread.run_sync(self._library.watches)
            self._forget_others({watch.id for watch in watches})
            for watch in watches:
                if self._due.get(watch.id, 0.0) <= trio.current_time():
                    await self._look(watch)
                    self._due[watch.id] = trio.current_time() + watch.interval_s
            due = min((self._due.get(watch.id, 0.0) for watch in watches), default=float("inf"))
            with trio.move_on_at(due):
                await changed.wait()

    def wake(self) -> None:
        """Look at new and changed watches now."""
        self._due.clear()
        self._changed.set()
        self._changed = trio.Event()

    def describe(self, watch: StoredWatch) -> dict[str, Any]:
        """What the last look at a folder found, and how far the present one is, ready for JSON."""
        looked_at, report = self._looks.get(watch.id, (None, WatchReport()))
        progress = self._progress.get(watch.id)
        return {
            "looked_at": looked_at,
            "files": report.files,
            "changes": report.changes,
            "problem": report.problem,
            "reading": None if progress is None else asdict(progress),
        }

    async def _look(self, watch: StoredWatch) -> None:
        def on_advance(progress: AddProgress) -> None:
            # Ends the work in the thread, between two batches, when the node ends.
            trio.from_thread.check_cancelled()
            self._progress[watch.id] = progress

        try:
            report = await trio.to_thread.run_sync(
                partial(self._library.look, watch, on_advance=on_advance)
            )
        except LocalError as error:
            report = WatchReport(problem=str(error))
        finally:
            self._progress.pop(watch.id, None)
        before = self._looks.get(watch.id)
        self._looks[watch.id] = self._clock(), report
        if report.problem and (before is None or before[1].problem != report.problem):
            logger.warning("watched folder %s: %s", watch.folder, report.problem)
        for item in report.skipped:
            logger.warning("watched folder: skipped %s: %s", item.path, item.reason)
        if report.changes.keys() - {"waiting", "unchanged"}:
            changes = ", ".join(f"{count} {what}" for what, count in report.changes.items())
            logger.info("watched folder %s: files: %s", watch.folder, changes)

    def _forget_others(self, watches: set[int]) -> None:
        for number in self._due.keys() - watches:
            del self._due[number]
        for number in self._looks.keys() - watches:
            del self._looks[number]
