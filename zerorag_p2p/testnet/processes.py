"""A consortium of node processes on this machine, each with its own home, on loopback."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zerorag_p2p.client import Client
from zerorag_p2p.control import consortium
from zerorag_p2p.control.setup import config_text, init_home
from zerorag_p2p.errors import LocalError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home
from zerorag_p2p.model import PeerId

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_POLL_S = 0.02

#: Ports for nodes, one after the other; processes that run side by side begin elsewhere. The system
#: gives outgoing connections ports from 32768 upwards.
_PORT_COUNT = 1_000
_FIRST_PORT = 15_000 + os.getpid() % 17 * _PORT_COUNT
_PORTS = itertools.cycle(range(_FIRST_PORT, _FIRST_PORT + _PORT_COUNT))

_LOG_TAIL_BYTES = 2_000


class Process(Protocol):
    """What is needed of a running process; `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""

    def send_signal(self, number: int, /) -> None:
        """Send it a signal."""


#: Starts `zerorag node run` for a home, its output going to the given file.
Launcher = Callable[[Home, Path], Process]


def launch_command(home: Home, log: Path) -> Process:
    """Start the command as a user would."""
    command = [sys.executable, "-m", "zerorag_p2p", "node", "run", "--home", str(home.root)]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


@dataclass(slots=True)
class Member:
    """One node of the consortium."""

    name: str
    organisation: str
    home: Home
    peer_id: PeerId
    address: str
    process: Process | None = None

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.home.root / "node.log"


class LocalConsortium:
    """Sets up homes, enrols them, and runs a process for each.

    Args:
        folder: Holds the homes; its path has to be short enough for sockets.
        launch: How a node process is started.
    """

    def __init__(self, folder: Path, *, launch: Launcher = launch_command) -> None:
        self._folder = folder
        self._launch = launch
        self.members: dict[str, Member] = {}

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    # Setting up.

    def add(
        self, name: str, organisation: str, settings: Mapping[str, object] | None = None
    ) -> Member:
        """Create a home that listens on a free port.

        Args:
            name: Name of the folder.
            organisation: Shown to the others.
            settings: Other settings than the defaults, by dotted name.
        """
        home = Home(self._folder / name)
        address = f"/ip4/127.0.0.1/tcp/{free_port()}"
        peer_id = init_home(home, organisation=organisation, listen=(address,))
        chosen = {"organisation": organisation, "network.listen": [address], **(settings or {})}
        write_atomic(home.config, config_text(chosen).encode())
        member = Member(name, organisation, home, peer_id, address)
        self.members[name] = member
        return member

    def enrol(self, title: str) -> None:
        """Found the consortium at the first member and take all others in."""
        first, *others = self.members.values()
        founded = consortium.describe(consortium.create(first.home, title))
        if others:
            requests = [consortium.request(member.home)[0] for member in others]
            consortium.install(first.home, consortium.approve(first.home, requests))
        roster = consortium.read(first.home)
        for member in others:
            consortium.install(member.home, roster, trusted=founded["authorities"])

    # Running.

    def start(self, *names: str) -> None:
        """Start the named nodes, all without a name; return once they answer.

        Raises:
            LocalError: One ended or did not answer in time; its last lines of output are named.
        """
        started = [self[name] for name in names or tuple(self.members)]
        for member in started:
            member.process = self._launch(member.home, member.log)
        deadline = time.monotonic() + _START_TIMEOUT_S
        for member in started:
            self._await_answer(member, deadline)

    def _await_answer(self, member: Member, deadline: float) -> None:
        while True:
            process = member.process
            assert process is not None
            if process.poll() is not None or time.monotonic() > deadline:
                raise LocalError(f"node {member.name} did not start:\n{_tail(member.log)}")
            if _listens(member.home.socket):
                return
            time.sleep(_POLL_S)

    def client(self, name: str) -> Client:
        """A client of one node, to be closed by the caller."""
        return Client(self[name].home)

    def signal(self, number: signal.Signals, *names: str) -> None:
        """Send a signal to nodes."""
        for name in names:
            process = self[name].process
            assert process is not None
            process.send_signal(number)

    def kill(self, *names: str) -> None:
        """End nodes at once, as a power cut would."""
        self.signal(signal.SIGKILL, *names)
        for name in names:
            self._reap(self[name])

    def stop(self, *names: str) -> None:
        """Ask nodes to end in good order, all without a name, and wait for it."""
        running = [
            member
            for member in (self[name] for name in names or tuple(self.members))
            if member.process is not None and member.process.poll() is None
        ]
        for member in running:
            assert member.process is not None
            member.process.send_signal(signal.SIGTERM)
        for member in running:
            self._reap(member)

    def close(self) -> None:
        """End everything that still runs, in good order if it can be."""
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            for member in self:
                if member.process is not None and member.process.poll() is None:
                    member.process.send_signal(signal.SIGKILL)
                    self._reap(member)

    def __enter__(self) -> LocalConsortium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _reap(member: Member) -> None:
        assert member.process is not None
        member.process.wait(timeout=_STOP_TIMEOUT_S)
        member.process = None


def _listens(path: Path) -> bool:
    """Whether a process accepts connections on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port of the loopback interface that is free, and that nobody else here is given soon.

    Raises:
        LocalError: None is.
    """
    for port in itertools.islice(_PORTS, _PORT_COUNT):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise LocalError(
        f"no port from {_FIRST_PORT} to {_FIRST_PORT + _PORT_COUNT - 1} is free: end other nodes"
    )


def _tail(log: Path) -> str:
    return log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""
