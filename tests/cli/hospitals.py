"""Two hospitals of one consortium, each a home and, while it runs, a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from zerorag_p2p.testnet.processes import free_port


@dataclass
class Hospital:
    """A home, and the process of its node."""

    home: Path
    process: subprocess.Popen[str] | None = field(default=None)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zerorag_p2p", *map(str, arguments)]
        return subprocess.run(
            command,
            env={**os.environ, "ZERORAG_HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def must(self, *arguments: object) -> str:
        result = self.run(*arguments)
        assert result.returncode == 0, result.stderr + result.stdout
        return result.stdout

    def start(self) -> dict[str, object]:
        with (self.home / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "zerorag_p2p", "node", "run", "--json"],
                env={**os.environ, "ZERORAG_HOME": str(self.home)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.home / "log").read_text()
        ready: dict[str, object] = json.loads(line)
        return ready

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=15)
        finally:
            self.process.kill()
            self.process.communicate()
            self.process = None
        return code


def set_up(home: Path, organisation: str) -> Hospital:
    hospital = Hospital(home)
    listen = f"/ip4/127.0.0.1/tcp/{free_port()}"
    hospital.must(
        *("init", "--organisation", organisation, "--embedder", "hashing", "--listen", listen)
    )
    return hospital


@contextmanager
def two_hospitals(folder: Path) -> Iterator[tuple[Hospital, Hospital]]:
    """The General Hospital, which founded the consortium, and the Clinic; neither runs yet.

    Both are stopped in the end. pytest's own folders can be too long for a socket's path.
    """
    founder, clinic = set_up(folder / "a", "General Hospital"), set_up(folder / "b", "Clinic")
    roster, asked = folder / "roster.cbor", folder / "clinic.request"
    founded = json.loads(founder.must("consortium", "create", "cardio", "--json"))
    clinic.must("consortium", "request", "--out", asked)
    founder.must("consortium", "approve", asked, "--out", roster)
    clinic.must("consortium", "import", roster, "--authority", founded["authorities"][0])
    try:
        yield founder, clinic
    finally:
        for hospital in (founder, clinic):
            if hospital.process is not None:
                hospital.stop()
