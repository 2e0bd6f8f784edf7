"""Tokens of applications as an operator handles them, and a node that listens for applications."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.hospitals import Hospital
from zerorag_p2p.client import Client
from zerorag_p2p.errors import NodeNotRunningError, ScopeDenied, TokenRejected
from zerorag_p2p.testnet.processes import free_port

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    made = Hospital(tmp_path_factory.mktemp("h") / "a")
    made.must("init", "--organisation", "General Hospital", "--embedder", "hashing")
    made.must("consortium", "create", "solo")
    yield made
    if made.process is not None:
        made.stop()


def configure(hospital: Hospital, table: str) -> None:
    path = hospital.home / "config.toml"
    text = path.read_text()
    assert "\n[api]\n" in text  # `zerorag init` shows its settings.
    path.write_text(text.replace("\n[api]\n", f"\n[api]\n{table}\n"))


def test_tokens_are_managed_without_and_with_a_running_node(
    hospital: Hospital, tmp_path: Path
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    configure(hospital, f'listen = "{listen}"')
    shown = hospital.must("token", "create", "intranet", "--scope", "query", "--days", "90")
    assert "not shown again" in shown
    text = shown.split()[shown.split().index("token") + 1]
    assert text.startswith("zerorag_")
    again = hospital.run("token", "create", "intranet", "--scope", "query")
    assert (again.returncode, "rotate" in again.stderr) == (2, True)
    assert hospital.run("token", "create", "a/b", "--scope", "query").returncode == 2
    assert text not in hospital.must("token", "list")
    assert "intranet" in hospital.must("token", "list")
    pseudonym = hospital.must("token", "pseudonym", "dr-smith", "--label", "intranet")

    hospital.start()
    url = f"http://{listen}"
    with Client(url=url, token=text) as client:
        assert client.query("sepsis", user="dr-smith")["documents"] == []
        with pytest.raises(ScopeDenied):
            client.status()
    assert hospital.must("token", "pseudonym", "dr-smith", "--label", "intranet") == pseudonym

    file = tmp_path / "token"
    rotated = json.loads(
        hospital.must("token", "rotate", "intranet", "--overlap", "1", "--out", file, "--json")
    )
    assert "token" not in rotated
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(json.loads(hospital.must("token", "list", "--json"))) == 2
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "from zerorag_p2p.client import Client\n"
            "with Client() as client: print(client.query('sepsis')['stopped'])",
        ],
        env={**os.environ, "ZERORAG_URL": url, "ZERORAG_TOKEN_FILE": str(file)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert asked.stdout.strip()

    assert "revoked 2 tokens" in hospital.must("token", "revoke", "intranet")
    for ended in (text, file.read_text().strip()):
        with Client(url=url, token=ended) as client, pytest.raises(TokenRejected):
            client.query("sepsis")
    assert hospital.run("token", "revoke", "intranet").returncode == 2
    assert text not in (hospital.home / "log").read_text()
    assert hospital.stop() == 0
    with Client(url=url, token=text) as client, pytest.raises(NodeNotRunningError, match=listen):
        client.query("sepsis")


def test_a_node_that_others_could_reach_in_plain_does_not_start(hospital: Hospital) -> None:
    configure(hospital, 'listen = "0.0.0.0:8420"')
    result = hospital.run("node", "run")
    assert result.returncode == 2
    assert "need TLS" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_listener_in_use_ends_the_start_with_a_sentence(hospital: Hospital) -> None:
    port = free_port()
    configure(hospital, f'listen = "127.0.0.1:{port}"')
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        result = hospital.run("node", "run")
    assert result.returncode == 1
    assert str(port) in result.stderr
    assert "api.listen" in result.stderr
    assert "Traceback" not in result.stderr
