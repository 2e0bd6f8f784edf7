"""`zerorag testnet` as a user meets it: a testnet in one terminal, commands in another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from zerorag_p2p.experiments.store import decode_result

PEERS = 6
TIMEOUT_S = 60.0


class Terminal:
    """Runs commands against the testnet in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"ZERORAG_TESTNET": str(folder), "NO_COLOR": "1"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "zerorag_p2p", *arguments]

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command("testnet", *arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)


def start(terminal: Terminal, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        terminal.command("testnet", "up", "--json", "--embedder", "hashing", *arguments),
        env=terminal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate(timeout=TIMEOUT_S)[1]
    ready: dict[str, Any] = json.loads(line)
    return ready


def states(snapshot: dict[str, Any]) -> Sequence[str]:
    return [row["state"] for row in snapshot["rows"]]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    folder = Path(tempfile.mkdtemp(prefix="zerorag-test-"))
    yield Terminal(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.processes
def test_a_testnet_is_broken_and_mended_from_a_second_terminal(terminal: Terminal) -> None:
    process = start(terminal, "--peers", str(PEERS), "--rate", "0")
    try:
        assert first_line(process)["nodes"] == PEERS
        second = start(terminal)
        assert "already runs" in second.communicate(timeout=TIMEOUT_S)[1]

        answer = terminal.json("query")
        assert {contact["outcome"] for contact in answer["contacts"]} == {"answered"}
        assert "verified" in terminal.run("query", "carbon monoxide", "--node", "p1").stdout

        assert terminal.json("kill", "p2")["nodes"] == ["p2"]
        assert len(terminal.json("freeze", "--count", "1")["nodes"]) == 1
        assert len(terminal.json("partition", "--count", "2")["groups"]) == 2
        snapshot = terminal.json("status")
        assert sorted(states(snapshot)) == sorted(["stopped", "frozen", *["running"] * 4])
        assert snapshot["partitioned"]
        assert "partitioned" in terminal.run("status").stdout
        terminal.run("heal")
        terminal.run("thaw")
        terminal.run("restart")
        assert terminal.json("join", "--count", "2")["nodes"] == ["p6", "p7"]
        terminal.run("links", "--latency", "2")
        terminal.run("misbehave", "black-hole", "p3")
        terminal.run("skew", "-600", "p4")
        assert "finite" in terminal.run("links", "--latency", "nan", code=2).stderr
        snapshot = terminal.json("status")
        assert set(states(snapshot)) == {"running"}
        assert snapshot["latency_ms"] == 2.0
        assert snapshot["rows"][3]["misbehaving"] == "black-hole"
        assert snapshot["rows"][4]["clock_skew_s"] == -600.0

        assert "no node 'p99'" in terminal.run("kill", "p99", code=2).stderr
        assert "name nodes" in terminal.run("kill", code=2).stderr

        node = subprocess.run(  # any command on a node works on one of a testnet
            terminal.command("status", "--json", "--home", str(terminal.folder / "p0")),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        assert json.loads(node.stdout)["roster"]["members"] == PEERS + 2

        top = [*terminal.command("top", "--json"), "--testnet"]  # in its default folder
        watched = subprocess.run(
            top, env=terminal.environment, capture_output=True, timeout=TIMEOUT_S, check=True
        )
        figures = json.loads(watched.stdout)
        assert figures["testnet"]["nodes"] == PEERS + 2
        assert {node["status"]["peer_id"] for node in figures["nodes"]} == {
            row["peer"] for row in snapshot["rows"]
        }

        terminal.run("stop")
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.communicate()
    assert "no testnet is running" in terminal.run("status", code=3).stderr
    assert not list(terminal.folder.glob("p*"))


@pytest.mark.processes
def test_a_testnet_of_a_folder_ends_with_a_signal(terminal: Terminal, tmp_path: Path) -> None:
    for owner, text in (("clinic", "Gout and diet."), ("hospital", "Metformin and kidneys.")):
        (tmp_path / owner).mkdir()
        (tmp_path / owner / "note.txt").write_text(text)
    process = start(terminal, "--documents", str(tmp_path), "--network", "libp2p")
    try:
        assert first_line(process)["nodes"] == 2
        answer = terminal.json("query", "metformin", "--node", "clinic")
        assert answer["documents"][0]["owner"]["organisation"] == "hospital"
        assert "come without questions" in terminal.run("query", code=2).stderr
        assert "memory network" in terminal.run("freeze", "clinic", code=2).stderr
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.processes
def test_scenarios_are_listed_and_run(terminal: Terminal, tmp_path: Path) -> None:
    listed = terminal.json("list")
    assert {"churn", "new-topic"} <= {item["name"] for item in listed}
    assert all(item["shows"] for item in listed)
    run = ("run", "churn", "--peers", "12", "--draws", "4")
    result = json.loads(terminal.run(*run, "--json", "--out", str(tmp_path)).stdout)
    assert result["metrics"]["queries"] > 0
    assert result["command"] == "zerorag testnet run churn --peers 12 --draws 4 --seeds 1"
    assert decode_result((tmp_path / "result.json").read_text()) == result
    assert (tmp_path / "figure.png").stat().st_size > 1_000
    assert "there is no scenario" in terminal.run("run", "nonsense", code=2).stderr
