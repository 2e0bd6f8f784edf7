"""The folder of a testnet: whose it is, and what is left in it."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from rich.console import Console

from tests.testnet.nets import workload
from zerorag_p2p.cli.testnet_table import _table
from zerorag_p2p.client import Client
from zerorag_p2p.errors import ConfigError, LocalError
from zerorag_p2p.home import TestnetFolder
from zerorag_p2p.testnet import up
from zerorag_p2p.testnet.sources import Source
from zerorag_p2p.testnet.testnet import Testnet, TestnetNode
from zerorag_p2p.testnet.up import claimed, serving
from zerorag_p2p.tui.nodes import TestnetNodes


class _Asleep(Testnet):
    """A testnet whose nodes never start: what serves them is there, and little else."""

    async def _start(self, node: TestnetNode) -> None:
        del node
        await trio.lowlevel.checkpoint()


@pytest.fixture
def short_folder() -> Iterator[TestnetFolder]:
    """A folder with a path that sockets can have."""
    folder = Path(tempfile.mkdtemp(prefix="zerorag-test-"))
    yield TestnetFolder(folder)
    shutil.rmtree(folder, ignore_errors=True)


async def test_each_of_500_nodes_can_be_watched(short_folder: TestnetFolder) -> None:
    nodes = TestnetNodes(short_folder)
    made, shutdown = workload(500), trio.Event()

    def ask_the_last() -> None:
        with Client(short_folder.node("p499")) as client:
            client.status()

    async with serving(short_folder, _Asleep(made), Source(made), shutdown):
        assert nodes.names() == [f"p{number}" for number in range(500)]
        with pytest.raises(LocalError, match="p499 was killed"):
            await trio.to_thread.run_sync(ask_the_last)
        shutdown.set()
    assert nodes.names() == []


async def test_nodes_beyond_what_descriptors_allow_are_listed_as_not_watchable(
    short_folder: TestnetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = SimpleNamespace(getrlimit=lambda _: (13, 13), RLIMIT_NOFILE=0, RLIM_INFINITY=-1)
    monkeypatch.setattr(up, "resource", few)
    nodes = TestnetNodes(short_folder)
    made, shutdown = workload(), trio.Event()
    async with serving(short_folder, _Asleep(made), Source(made), shutdown) as live:
        rows = await trio.to_thread.run_sync(asyncio.run, nodes.rows())
        assert [row["name"] for row in rows] == list(live.testnet.nodes)
        assert [row.get("watchable", True) for row in rows] == [True] * 6 + [False] * 2
        assert nodes.names() == [row["name"] for row in rows[:6]]
        shutdown.set()


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
