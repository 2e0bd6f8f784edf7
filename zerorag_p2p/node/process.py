"""The process that a node runs in: its figures, and how it keeps its memory."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path
from typing import Final

import trio

#: glibc: allocations of this many bytes and more get pages of their own.
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 128 << 10


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


def return_large_memory() -> None:
    """Give the memory of large arrays back to the system as soon as they are gone.

    glibc raises its limit for "large" whenever something large is freed, up to 32 MB; the arrays of
    advertisements and remembered queries, which grow by copying, then leave holes in the heap. With
    the limit fixed, a process of full nodes takes 1.28 times the size of its arrays, not 1.47.
    Without glibc nothing happens.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)
