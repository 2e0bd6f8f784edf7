"""The folder of a testnet: whose it is, and what is left in it."""

from pathlib import Path

import pytest
from rich.console import Console

from zerorag_p2p.cli.testnet_table import _table
from zerorag_p2p.errors import ConfigError, LocalError
from zerorag_p2p.home import TestnetFolder
from zerorag_p2p.testnet.up import claimed


def test_what_a_killed_testnet_left_is_removed(tmp_path: Path) -> None:
    folder = TestnetFolder(tmp_path / "net")
    for name in ("p0", "p12"):
        home = folder.node(name)
        home.root.mkdir(parents=True)
        home.key.write_text("key")
        home.lock.write_text("1")
    (folder.root / "notes").mkdir()
    with claimed(folder):
        assert {path.name for path in folder.root.iterdir()} == {"node.lock", "notes"}


def test_the_home_of_a_real_node_is_left_alone(tmp_path: Path) -> None:
    home = TestnetFolder(tmp_path).node("p1")
    home.root.mkdir()
    home.key.write_text("key")
    home.config.write_text("")
    with pytest.raises(LocalError, match="not made by a testnet"), claimed(TestnetFolder(tmp_path)):
        pass
    assert home.key.read_text() == "key"


def test_a_folder_is_for_one_testnet(tmp_path: Path) -> None:
    folder = TestnetFolder(tmp_path)
    with (
        claimed(folder),
        pytest.raises(LocalError, match=r"a testnet \(process \d+\) already runs"),
        claimed(folder),
    ):
        pass
    with claimed(folder):
        pass


def test_a_path_that_is_too_long_for_sockets_is_named_before_anything_is_made(
    tmp_path: Path,
) -> None:
    folder = TestnetFolder(tmp_path / ("long" * 30))
    with pytest.raises(ConfigError, match="too long for a socket"), claimed(folder):
        pass
    assert not folder.root.exists()


def test_the_live_table_has_a_line_a_node_in_a_small_terminal() -> None:
    figures = dict.fromkeys(
        ("documents", "neighbors", "connections", "advertised_vectors", "remembered_queries"), 10
    )
    well = {"state": "running", "misbehaving": "", "clock_skew_s": 0.0, **figures}
    rows = [
        {"name": f"p{number}", "organisation": "A hospital " * 5, **well, "answered": number}
        for number in range(30)
    ]
    rows[3] |= {"misbehaving": "tarpit"}
    snapshot = {
        "nodes": 30,
        "running": 30,
        "frozen": 0,
        "stopped": 0,
        "partitioned": True,
        "latency_ms": 5.0,
        "jitter_ms": 0.0,
        "bandwidth": 2e4,
        "loss": 0.01,
        "window": 50,
        "hit_rate": 0.5,
        "contacts": 7.0,
        "rows": rows,
    }
    console = Console(width=80, height=24)
    with console.capture() as capture:
        console.print(_table(snapshot, 15))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert "bandwidth 20.0 kB/s" in lines[0]
    assert "50% found" in lines[1]
    shown = [line.split()[0] for line in lines if line.startswith("p")]
    assert shown == ["p3", *(f"p{number}" for number in range(29, 15, -1))]
    assert "and 15 more" in lines[-1]
