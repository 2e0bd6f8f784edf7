"""A node follows watched folders while it runs, and again after a restart."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.node.lab import Lab, eventually
from zerorag_p2p.client import AsyncClient
from zerorag_p2p.control.server import serving
from zerorag_p2p.errors import LibraryError
from zerorag_p2p.node.runtime import Node


def titles(node: Node) -> list[str]:
    return sorted(source.title for source in node.library.sources())


@asynccontextmanager
async def client_of(lab: Lab, node: Node) -> AsyncIterator[AsyncClient]:
    shutdown = trio.Event()
    async with serving(node, shutdown), AsyncClient(lab.homes["north"].home.root) as client:
        yield client
        shutdown.set()


async def test_folders_are_followed_across_restarts(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", "memory", ["north"])
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha")
    (folder / "bad.pdf").write_text("no pdf")
    async with lab.node("north") as node, client_of(lab, node) as client:
        made = await client.watch_folder(folder, "notes", interval_s=1.0, encoding="utf-8")
        assert made["options"] == {"encoding": "utf-8"}
        await eventually(lambda: titles(node) == ["a"])
        await eventually(lambda: state(node)["looked_at"] is not None)
        (shown,) = await client.watches()
        assert (shown["folder"], shown["collection"]) == (str(folder), "notes")
        assert (shown["files"], shown["read"], shown["skipped"]) == (2, 2, 1)
        assert shown["reasons"][0]["path"] == str(folder / "bad.pdf")
        assert shown["reading"] is None
        (folder / "a.txt").rename(folder / "b.txt")
        await eventually(lambda: titles(node) == ["b"])
    (folder / "c.txt").write_text("gamma")
    async with lab.node("north") as node, client_of(lab, node) as client:
        await eventually(lambda: titles(node) == ["b", "c"])
        assert await client.unwatch_folder(folder) == {"stopped": 1}
        assert await client.watches() == []
        with pytest.raises(LibraryError, match="is not watched"):
            await client.unwatch_folder(folder)
    (folder / "c.txt").unlink()
    async with lab.node("north") as node:
        assert titles(node) == ["b", "c"]


async def test_a_problem_is_logged_once_and_the_folder_looked_at_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(tmp_path / "lab", "memory", ["north"])
    folder, away = tmp_path / "in", tmp_path / "away"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha")
    async with lab.node("north") as node:
        node.library.watch(folder, "notes", interval_s=1.0)
        node.follower.wake()
        await eventually(lambda: titles(node) == ["a"])
        folder.rename(away)
        for _ in range(2):
            looked_at = state(node)["looked_at"]
            node.follower.wake()
            await eventually(
                lambda before=looked_at: (  # type: ignore[misc]
                    state(node)["looked_at"] != before
                )
            )
        assert state(node)["problem"].startswith("the folder is missing")
        assert caplog.text.count("the folder is missing") == 1
        (away / "b.txt").write_text("beta")
        away.rename(folder)
        await eventually(lambda: titles(node) == ["a", "b"])


async def test_a_node_ends_in_the_middle_of_a_large_file(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", "memory", ["north"])
    folder = tmp_path / "in"
    folder.mkdir()
    with (folder / "large.jsonl").open("w") as file:
        for number in range(20_000):
            file.write(json.dumps({"id": number, "text": f"Note number {number}."}) + "\n")
    async with lab.node("north") as node:
        node.library.watch(folder, "notes")
        node.follower.wake()
        await eventually(lambda: node.library.stats().documents > 0)
        await eventually(lambda: state(node)["reading"] is not None)
    async with lab.node("north") as node:
        assert 0 < node.library.stats().documents < 20_000


def state(node: Node) -> dict[str, Any]:
    (watch,) = node.library.watches()
    return node.follower.describe(watch)
