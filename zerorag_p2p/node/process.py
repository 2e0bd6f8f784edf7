"""Figures of the process that a node runs in."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import trio


def process_figures() -> dict[str, int]:
    """The process id, and how much of tasks, descriptors and memory it uses, ready for JSON."""
    return {
        "pid": os.getpid(),
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "rss_bytes": resident_bytes(),
    }


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
