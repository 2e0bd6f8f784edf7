"""A node made of figures, for tests of the window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from textual.pilot import Pilot

from zerorag_p2p.client import OnEvent
from zerorag_p2p.errors import NodeNotRunningError
from zerorag_p2p.tui.app import TopApp
from zerorag_p2p.tui.nodes import NamedNodes, Nodes
from zerorag_p2p.tui.source import Json

NOW = 1_800_000_000.0


def peer_id(number: int) -> str:
    return f"12D3KooW{number:04}QBXgYxL9Zf3vP7kTt1sRw6mHn8cDa5eJbU{number:06}"


def neighbor(number: int) -> Json:
    return {
        "peer": peer_id(number),
        "organisation": f"Hospital {number:03}",
        "since": NOW - 3_600 * (number + 1),
        "last_useful": NOW - 60 * number if number % 2 else None,
        "connected": number % 3 != 0,
        "state": "connected" if number % 3 else "unreachable",
        "detector": "alive",
        "round_trip_ms": None if number == 4 else 1.5 * number,
        "bytes_sent": 1_000 * number,
        "bytes_received": 5_000 * number,
        "advertisement": None
        if number == 2
        else {"vectors": 30, "sequence": 7, "expires_at": NOW + 3_600, "bytes": 6_000},
    }


def member(number: int) -> Json:
    return {
        "peer": peer_id(number),
        "organisation": f"Hospital {number:03}",
        "standing": "member",
        "connected": True,
        "state": "connected",
        "detector": "suspect" if number == 3 else "alive",
        "view_age": number if number < 4 else None,
        "neighbor": number < 5,
        "addresses": ["/ip4/192.0.2.1/tcp/4001"],
        "session": {
            "since": NOW,
            "fingerprint": "minilm",
            "clock_skew_s": 0.25,
            "roster_version": 3,
            "software": "zerorag-p2p/0.1.0",
        },
        "last_error": None,
    }


class RecordedNode:
    """A `Source` whose figures a test may change; events come through `tell`."""

    def __init__(self, name: str = "General Hospital", *, neighbors: int = 6) -> None:
        self.name = name
        self.neighbor_rows = [neighbor(number) for number in range(neighbors)]
        self.member_rows = [member(number) for number in range(neighbors)]
        self.answers = 0
        self.pause: Json | None = None
        self.expiring: list[Json] = []
        self.emergency_grants = 0
        self.runs = True
        self.closed = False
        self.calls: list[str] = []
        self._on_event: list[OnEvent] = []

    def tell(self, *events: Json) -> None:
        for on_event in self._on_event:
            for event in events:
                on_event(event)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if not self.runs:
            raise NodeNotRunningError("no node is running here; start it with `zerorag node run`")

    async def status(self) -> Json:
        self._call("status")
        self.answers += 10
        counts = ("queries", "contacts", "returned", "referrals", "delivered", "refusals")
        return {
            "organisation": self.name,
            "peer_id": peer_id(999),
            "consortium": "cardio-net",
            "roster": {"version": 3},
            "uptime_s": 7_200.0,
            "neighbors": len(self.neighbor_rows),
            "connections": 4,
            "remembered_queries": 12,
            "pause": self.pause,
            "expiring": self.expiring,
            "emergencies": {"accesses": 0, "grants": self.emergency_grants},
            "library": {"documents": 43},
            "traffic": {
                **dict.fromkeys(counts, 0),
                "answered": self.answers,
                "bytes_sent": 0,
                "bytes_received": 0,
            },
        }

    async def neighbors(self) -> list[Json]:
        self._call("neighbors")
        return self.neighbor_rows

    async def peers(self) -> list[Json]:
        self._call("peers")
        return self.member_rows

    async def memory(self) -> Json:
        self._call("memory")
        return {
            "queries": 12,
            "capacity": 1_000,
            "queriers": [
                {
                    "peer": peer_id(1),
                    "organisation": "Hospital 001",
                    "queries": 12,
                    "asked_at": NOW - 30,
                    "first_expiry": NOW + 86_400,
                    "last_expiry": NOW + 20 * 86_400,
                }
            ],
        }

    async def collections(self) -> list[Json]:
        self._call("collections")
        shared = {
            "members": [],
            "purposes": ["HRESCH"],
            "view": "whole",
            "advertise": True,
            "terms": {"copy": False, "reshare": False, "purposes": ["HRESCH"]},
        }
        return [
            {"name": "guidelines", "sources": 4, "documents": 40, "sharing": shared},
            {"name": "private", "sources": 1, "documents": 3, "sharing": None},
        ]

    async def refusals(self) -> list[Json]:
        self._call("refusals")
        return [
            {
                "at": NOW - 5,
                "by": "us",
                "peer": peer_id(2),
                "organisation": "Hospital 002",
                "request": "fetch",
                "code": "denied",
                "reason": "the collection is not shared for research",
                "document": "ab" * 32,
            }
        ]

    async def events(self, on_event: OnEvent) -> Json:
        self._call("events")
        self._on_event.append(on_event)
        return await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        self.closed = True
        self._on_event.clear()


def walk_events(
    query: str = "a1", text: str = "dose of apixaban", *, contacts: int = 3
) -> list[Json]:
    """A query that asked some peers, was refused by the last, and fetched two texts."""
    events: list[Json] = [
        {
            "event": "query-started",
            "at": NOW,
            "query": query,
            "text": text,
            "k": 5,
            "budget": 50,
            "fanout": 1,
            "purpose": "TREAT",
        }
    ]
    for number in range(1, contacts + 1):
        refused = number == contacts
        named = {"peer": peer_id(number), "organisation": f"Hospital {number:03}"}
        evidence = ("advertisement", "query memory", "exploration")[(number - 1) % 3]
        score = None if evidence == "exploration" else 0.5 + number / 100
        events += [
            {
                "event": "contact-started",
                "at": NOW,
                "query": query,
                **named,
                "evidence": evidence,
                "score": score,
                "budget_left": 50 - number,
            },
            {
                "event": "contact-ended",
                "at": NOW,
                "query": query,
                "found": 2,
                "best": 0.71,
                "contact": {
                    **named,
                    "evidence": evidence,
                    "score": score,
                    "outcome": "refused" if refused else "answered",
                    "reason": "this node is paused" if refused else "",
                    "code": "paused" if refused else "",
                    "documents": 0 if refused else 2,
                    "improved": number == 1,
                    "referrals": 0 if refused else 4,
                    "new_candidates": 0 if refused else 3,
                    "milliseconds": 4.2,
                },
            },
        ]
    fetched = {"at": NOW, "query": query, "peer": peer_id(1), "organisation": "Hospital 001"}
    events += [
        {"event": "fetch-started", **fetched, "documents": 2},
        {
            "event": "fetch-ended",
            **fetched,
            "documents": 2,
            "verified": 2,
            "reason": "",
            "milliseconds": 9.0,
        },
        {
            "event": "query-ended",
            "at": NOW,
            "query": query,
            "stopped": "settled: 3 contacts changed nothing",
            "complete": True,
            "contacts": contacts,
            "documents": 2,
            "bytes_sent": 1_500,
            "bytes_received": 9_000,
            "milliseconds": 44.0,
        },
    ]
    return events


def answered_event(number: int) -> Json:
    return {
        "event": "query-answered",
        "at": NOW + number / 100,
        "peer": peer_id(number % 500),
        "organisation": f"Hospital {number % 500:03}",
        "k": 5,
        "purpose": "TREAT",
        "remembered": True,
        "documents": 3,
        "referrals": 10,
    }


Scene = Callable[[TopApp, Pilot[None]], Coroutine[Any, Any, None]]


def play(scene: Scene, *nodes: RecordedNode, size: tuple[int, int] = (80, 24)) -> None:
    """Run a scene in the window, on asyncio."""
    sources = nodes or (RecordedNode(),)
    openers = {node.name: lambda node=node: node for node in sources}
    play_nodes(scene, NamedNodes(openers), size=size)


def play_nodes(scene: Scene, nodes: Nodes, *, size: tuple[int, int] = (80, 24)) -> None:
    """Run a scene in the window on whatever nodes."""

    async def run() -> None:
        app = TopApp(nodes, clock=lambda: NOW)
        async with app.run_test(size=size) as pilot:
            await scene(app, pilot)

    asyncio.run(run())


async def shows(app: TopApp, pilot: Pilot[None], *texts: str) -> None:
    """Wait until every text can be read in the terminal."""
    async with asyncio.timeout(5):
        while not all(text in screen(app) for text in texts):
            await pilot.pause(0.01)


async def hides(app: TopApp, pilot: Pilot[None], text: str) -> None:
    """Wait until a text cannot be read any more."""
    async with asyncio.timeout(5):
        while text in screen(app):
            await pilot.pause(0.01)


def screen(app: TopApp) -> str:
    """What the terminal shows, as lines of text."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())
