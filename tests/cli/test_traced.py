"""What leaves a node, as the kernel sees it: no look-up of a name, no unconfigured connection."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from tests.rag.language_model import language_model, streams
from zerorag_p2p.home import Home
from zerorag_p2p.testnet.processes import LocalConsortium

CALLS = "connect,sendto,sendmsg,sendmmsg,openat"
TRACE = ("strace", "-D", "-f", "--seccomp-bpf", "-s", "256", "-e", f"trace={CALLS}", "-o")

#: What the C library opens to look up the address of a name. Not /etc/resolv.conf, which dnspython
#: reads when libp2p is imported, and not nscd's socket, which is asked for user names as well.
RESOLVER = re.compile(r'"(/etc/hosts|/run/(systemd/resolve|dbus)/[^"]*)"|htons\((53|5353)\)')
_USERS = "/var/run/nscd/socket"

_CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)")
_PORT = re.compile(r"sin6?_port=htons\((\d+)\)")
_HOST = re.compile(r'inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"')
_UNIX = re.compile(r'sun_path=@?"([^"]+)"')


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=none", "true"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0 and not tried.stderr


pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(not can_trace(), reason="needs strace and the right to trace processes"),
]


@dataclass
class Trace:
    """What one process, and those that it started, asked of the kernel."""

    file: Path
    pid: int

    def lines(self) -> list[str]:
        """Every traced call, once the process has ended."""
        end = re.compile(rf"^{self.pid} +\+\+\+ (exited|killed)", re.MULTILINE)
        deadline = time.monotonic() + 30
        while not end.search(text := self.file.read_text()):
            assert time.monotonic() < deadline, "the tracer did not end"
            time.sleep(0.01)
        return text.splitlines()


def look_ups(lines: Sequence[str]) -> list[str]:
    """Calls that look up the address of a name."""
    return [line for line in lines if RESOLVER.search(line)]


def reached(lines: Sequence[str]) -> Counter[str]:
    """Where connections and datagrams went: a socket's path, or host:port."""
    places: Counter[str] = Counter()
    for line in lines:
        call = _CALL.match(line)
        if call is None or call[1] == "openat" or "sa_family=" not in line:
            continue
        unix, host, port = _UNIX.search(line), _HOST.search(line), _PORT.search(line)
        if unix is not None:
            places[unix[1]] += 1
        else:
            assert host is not None, line
            assert port is not None, line
            places[f"{host[1]}:{port[1]}"] += 1
    return places


def traced(command: Sequence[str], file: Path, output: IO[Any] | int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TRACE, str(file), *command], stdout=output, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("t")


def test_a_look_up_and_a_datagram_would_be_seen(folder: Path) -> None:
    script = (
        "import socket\n"
        "try: socket.getaddrinfo('peer.invalid', 80)\n"
        "except OSError: pass\n"
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))\n"
        "socket.socket().connect_ex(('127.0.0.2', 7))\n"
    )
    process = traced([sys.executable, "-c", script], folder / "trace", subprocess.DEVNULL)
    process.wait(timeout=30)
    lines = Trace(folder / "trace", process.pid).lines()
    assert look_ups(lines)
    assert {"127.0.0.1:9", "127.0.0.2:7"} <= reached(lines).keys()


def test_only_what_is_configured_is_connected_to_from_start_to_answer(folder: Path) -> None:
    traces: dict[str, Trace] = {}

    def launch(home: Home, log: Path) -> subprocess.Popen[str]:
        file = folder / f"{home.root.name}.trace"
        command = [sys.executable, "-m", "zerorag_p2p", "node", "run", "--home", str(home.root)]
        with log.open("ab") as output:
            process = traced(command, file, output)
        traces[home.root.name] = Trace(file, process.pid)
        return process

    def run(*arguments: object) -> str:
        home = nodes["clinic"].home.root
        command = [sys.executable, "-m", "zerorag_p2p", *map(str, arguments), "--home", str(home)]
        file = folder / f"command-{len(traces)}.trace"
        process = traced(command, file, subprocess.PIPE)
        traces[file.stem] = Trace(file, process.pid)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return output

    note = folder / "metformin.txt"
    note.write_text("Metformin dose has to be reduced in renal failure.")
    answer = "The metformin dose is reduced in renal failure [1]."
    with (
        language_model(streams(answer)) as model,
        LocalConsortium(folder, launch=launch) as nodes,
    ):
        nodes.add("hospital", "General Hospital")  # the packaged model, as by default
        generation = {"generation.base_url": model.base_url, "generation.model": "scripted"}
        nodes.add("clinic", "City Clinic", generation)
        nodes.enrol("cardio")
        nodes.start()
        with nodes.client("hospital") as client:
            client.add_documents([note], "wards")
            client.share("wards")
        assert "General Hospital" in run("query", "metformin in renal failure")
        assert answer in run("ask", "which dose of metformin in renal failure?", "--network")
        nodes.stop()
        listening = {
            name: "{}:{}".format(*nodes[name].address.split("/")[2:5:2])
            for name in ("hospital", "clinic")
        }
        sockets = {str(nodes[name].home.socket) for name in listening}
    language = model.base_url.removeprefix("http://").partition("/")[0]
    places: Counter[str] = Counter()
    for name, trace in traces.items():
        lines = trace.lines()
        assert look_ups(lines) == [], name
        places += reached(lines)
    assert places.keys() <= {*listening.values(), *sockets, language, _USERS}
    assert places[language] == 1
    assert places[listening["hospital"]]
