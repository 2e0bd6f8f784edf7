"""Where the window gets its figures: a running node, or whatever offers the same calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from zerorag_p2p.client import OnEvent

Json: TypeAlias = dict[str, Any]


class Source(Protocol):
    """What the window asks of one node; `zerorag_p2p.client.AsyncClient` documents the calls.

    A call that gets no answer raises a `ZeroRagError`, which is shown, and is made again later.
    """

    async def status(self) -> Json:
        """How the node is."""

    async def neighbors(self) -> Sequence[Json]:
        """Its neighbours."""

    async def peers(self) -> Sequence[Json]:
        """The members of its consortium."""

    async def memory(self) -> Json:
        """Whose queries it remembers."""

    async def collections(self) -> Sequence[Json]:
        """Its collections."""

    async def refusals(self) -> Sequence[Json]:
        """The last refusals."""

    async def events(self, on_event: OnEvent) -> Json:
        """What happens from now on; returns when the node ends."""

    async def close(self) -> None:
        """Give up what the source holds open."""


async def figures(source: Source) -> Json:
    """Every figure of a node at this moment, by the name of the call that gives it."""
    return {
        "status": await source.status(),
        "neighbors": await source.neighbors(),
        "peers": await source.peers(),
        "memory": await source.memory(),
        "collections": await source.collections(),
        "refusals": await source.refusals(),
    }
