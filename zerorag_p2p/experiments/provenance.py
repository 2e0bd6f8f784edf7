"""Where a result comes from: version, commit, machine and command."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from zerorag_p2p import __version__


def provenance(command: str) -> dict[str, str]:
    """The fields of a result file that say how to get it again."""
    return {
        "version": __version__,
        "commit": commit(),
        "machine": machine(),
        "command": command,
    }


def commit() -> str:
    """The commit of the checkout this runs from, "+" behind it if files differ; else ""."""
    folder = Path(__file__).resolve().parent
    try:
        if Path(_git(folder, "rev-parse", "--show-toplevel")) != folder.parents[1]:
            return ""  # installed within a repository of somebody else's
        head = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if changed else "")


def machine() -> str:
    """Processor, number of cores and Python version."""
    processor = _processor_name() or platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else ""


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return run.stdout.strip()
