"""The nodes that the window can watch: some that are named, or all of a testnet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from zerorag_p2p.client import AsyncClient, TestnetClient
from zerorag_p2p.errors import ZeroRagError
from zerorag_p2p.home import Home, TestnetFolder
from zerorag_p2p.tui.source import Json, Source

#: Opens the source of one node.
Opener: TypeAlias = Callable[[], Source]


class Nodes(Protocol):
    """Nodes by name; there may be more later."""

    def names(self) -> Sequence[str]:
        """The names of all, in order."""

    def open(self, name: str) -> Source:
        """The source of one node."""

    async def rows(self) -> Sequence[Json]:
        """How each node is, in the words of `Testnet.snapshot`.

        Of a node that cannot be asked only "name" and "state" are there. One that `open` does not
        know has "watchable", which is false.

        Raises:
            ZeroRagError: None of them can be asked.
        """


class NamedNodes:
    """Implements `Nodes` for a few nodes, which are asked one by one."""

    def __init__(self, openers: Mapping[str, Opener]) -> None:
        self._openers = openers

    def names(self) -> Sequence[str]:
        """See `Nodes`."""
        return list(self._openers)

    def open(self, name: str) -> Source:
        """See `Nodes`."""
        return self._openers[name]()

    async def rows(self) -> Sequence[Json]:
        """See `Nodes`."""
        return await asyncio.gather(*(self._row(name) for name in self._openers))

    async def _row(self, name: str) -> Json:
        source = self.open(name)
        try:
            status = await source.status()
        except ZeroRagError:
            return {"name": name, "state": "stopped"}
        finally:
            await source.close()
        return {
            "name": name,
            "organisation": status["organisation"],
            "peer": status["peer_id"],
            "state": "running",
            "documents": status["library"]["documents"],
            "neighbors": status["neighbors"],
            "connections": status["connections"],
            "remembered_queries": status["remembered_queries"],
            "answered": status["traffic"]["answered"],
        }


class TestnetNodes:
    """Implements `Nodes` for a running testnet; nodes with a home in its folder can be watched."""

    __test__ = False  # pytest takes a class of this name for tests

    def __init__(self, folder: TestnetFolder) -> None:
        self._folder = folder

    def names(self) -> Sequence[str]:
        """See `Nodes`."""
        names = [path.name for path in self._folder.root.glob("p*")]
        with_home = [name for name in names if self._folder.node(name).key.exists()]
        return sorted(with_home, key=lambda name: (len(name), name))

    def open(self, name: str) -> Source:
        """See `Nodes`."""
        return AsyncClient(self._folder.node(name))

    async def rows(self) -> Sequence[Json]:
        """See `Nodes`."""
        snapshot = await asyncio.to_thread(self._snapshot)
        names = set(self.names())
        return [
            row if row["name"] in names else {**row, "watchable": False} for row in snapshot["rows"]
        ]

    def _snapshot(self) -> Json:
        with TestnetClient(self._folder) as client:
            return client.status()


def nodes_of(homes: Sequence[Home]) -> Nodes:
    """Nodes by the names of their folders, or by whole paths where two are named alike."""
    names = [home.root.name for home in homes]
    if len(set(names)) < len(names):
        names = [str(home.root) for home in homes]
    return NamedNodes({name: _opener(home) for name, home in zip(names, homes, strict=True)})


def _opener(home: Home) -> Opener:
    return lambda: AsyncClient(home)
