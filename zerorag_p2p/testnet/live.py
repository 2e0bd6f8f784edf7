"""A testnet that people use: asked questions all the time, watched, and broken by hand."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import trio

from zerorag_p2p.errors import NetworkError, UsageError
from zerorag_p2p.model import Vector
from zerorag_p2p.node.reports import QueryReport
from zerorag_p2p.testnet.testnet import NodeState, Testnet
from zerorag_p2p.testnet.virtual_time import in_virtual_time
from zerorag_p2p.workloads.workload import QueryEvent

#: Questions that the moving averages are over.
WINDOW: Final = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one question of the workload that another node could answer."""

    hit: bool
    contacts: int


class LiveTestnet:
    """A running testnet, the questions that are asked in it, and what became of the last ones.

    Args:
        testnet: The testnet; running.
        embed: Turns a question into a vector, in a thread; None for the workload's questions only.
    """

    def __init__(self, testnet: Testnet, embed: Callable[[str], Vector] | None) -> None:
        self.testnet = testnet
        self._embed = embed
        self._limiter = trio.CapacityLimiter(1)
        self._randomness = random.Random(f"live {testnet.seed}")
        self._last: deque[Asked] = deque(maxlen=WINDOW)
        self._asked = 0
        self._next = 0

    async def ask_regularly(self, rate: float) -> None:
        """Let nodes ask the workload's questions, `rate` a second on average, until cancelled."""
        events = self.testnet.workload.events
        if not events or rate <= 0:
            return
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(self._randomness.expovariate(rate))
                event = self._take_event()
                if event is not None:
                    nursery.start_soon(self._ask_event, event)

    def _take_event(self) -> QueryEvent | None:
        """The next question whose asker is running; None if nobody is."""
        events = self.testnet.workload.events
        for _ in events:
            event = events[self._next]
            self._next = (self._next + 1) % len(events)
            node = self.testnet[f"p{event.peer}"]
            if self.testnet.state(node) is NodeState.RUNNING:
                return event
        return None

    async def _ask_event(self, event: QueryEvent) -> None:
        text = self.testnet.workload.queries[event.query]
        try:
            report = await self.testnet.query(f"p{event.peer}", text)
        except (NetworkError, UsageError):
            return  # its node was killed
        self._asked += 1
        if not self._held_elsewhere(event):
            return  # nobody could have answered it
        target = self.testnet.table.hashes[event.document]
        hit = any(document.content_hash == target for document in report.documents)
        self._last.append(Asked(hit, len(report.contacts)))

    def _held_elsewhere(self, event: QueryEvent) -> bool:
        """Whether a node other than the asker holds the answer, up or down."""
        asker = f"p{event.peer}"
        return any(
            event.document in node.holdings
            for node in self.testnet.nodes.values()
            if node.name != asker
        )

    async def query(self, name: str | None, text: str | None, **settings: Any) -> QueryReport:
        """Let a node ask.

        Args:
            name: Of the node; by default one that runs, drawn at random.
            text: The question; by default the workload's next one.
            settings: As for `NodeCore.query`.

        Raises:
            UsageError: There is no such node, none that runs, or no question.
            NetworkError: The node was killed meanwhile.
            EmbeddingError: The text cannot be embedded.
        """
        if text is None:
            event = self._take_event()
            if event is None:
                if self.testnet.workload.events:
                    raise UsageError("no node with a question runs; restart one")
                raise UsageError(
                    "the documents of a folder come without questions: give the text of one"
                )
            text = self.testnet.workload.queries[event.query]
            name = name or f"p{event.peer}"
        if name is None:
            names = self.testnet.pick(1)
            if not names:
                raise UsageError("no node is running; restart one")
            name = names[0]
        embedding = None
        if self._embed is not None and text not in self.testnet.workload.queries:
            if in_virtual_time():
                embedding = self._embed(text)
            else:
                embedding = await trio.to_thread.run_sync(self._embed, text, limiter=self._limiter)
        return await self.testnet.query(name, text, embedding, **settings)

    def snapshot(self) -> dict[str, Any]:
        """`Testnet.snapshot`, and how the last questions went that another node could answer."""
        last = list(self._last)
        return {
            **self.testnet.snapshot(),
            "asked": self._asked,
            "window": len(last),
            "hit_rate": sum(item.hit for item in last) / len(last) if last else None,
            "contacts": sum(item.contacts for item in last) / len(last) if last else None,
        }
