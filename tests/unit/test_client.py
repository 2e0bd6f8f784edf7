import asyncio
import logging
import socket
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
import pytest
import trio

from zerorag_p2p.client import AsyncClient, Client, connection
from zerorag_p2p.config import NodeConfig
from zerorag_p2p.control.server import serving
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import (
    AttributionError,
    LibraryError,
    NetworkError,
    NodeNotRunningError,
    RemoteRefusal,
    RosterError,
    UsageError,
    ZeroRagError,
)
from zerorag_p2p.home import Home
from zerorag_p2p.identity.expiry import Ending
from zerorag_p2p.library.library import Library
from zerorag_p2p.model import PeerId, Purpose
from zerorag_p2p.node.auditing import NoAudit
from zerorag_p2p.node.reports import PeerName, ProgressCallback, QueryProgress, QueryReport
from zerorag_p2p.node.runtime import Node

Result = TypeVar("Result")

# Put together, for a traceback shows the lines of code it passes.
SECRET = " ".join(["the", "patient", "in", "bed", "seven"])


class UnreadAudit(NoAudit):
    """An audit log that nobody asks for."""

    ledger = None


class StubNode:
    """What the local interface needs of a node; the library is a real one."""

    def __init__(self, home: Home, library: Library) -> None:
        self.home = home
        self.config = NodeConfig()
        self.library = library
        self.audit = UnreadAudit()
        self.queries: list[tuple[str, dict[str, Any]]] = []
        self.fails_with: Exception | None = None
        self.hangs = False
        self.query_ended = trio.Event()

    def watch_endings(self, endings: Callable[[], Sequence[Ending]]) -> None:
        self.endings = endings

    def status(self) -> dict[str, Any]:
        return {"peer_id": "12D3KooWself"}

    def peers(self) -> list[dict[str, Any]]:
        return [{"peer": "12D3KooWother"}]

    def neighbors(self) -> list[dict[str, Any]]:
        return []

    async def query(
        self, text: str, *, on_progress: ProgressCallback, **settings: Any
    ) -> QueryReport:
        self.queries.append((text, settings))
        on_progress(
            QueryProgress(
                event="contact",
                peer=PeerId("12D3KooWother"),
                organisation="Clinic",
                contacted=1,
                budget=50,
                found=0,
            )
        )
        try:
            if self.hangs:
                await trio.sleep_forever()
        finally:
            self.query_ended.set()
        if self.fails_with is not None:
            raise self.fails_with
        return QueryReport(
            audit="a1",
            query=text,
            asker=PeerName(PeerId("12D3KooWself"), "General Hospital"),
            purpose=settings["purpose"],
            k=5,
            budget=50,
            fanout=1,
            started_at=0.0,
            milliseconds=1.5,
            documents=(),
            rejected=(),
            contacts=(),
            stopped="budget spent",
            complete=True,
            bytes_sent=1,
            bytes_received=2,
            fingerprint="f",
            consortium="c",
        )

    async def get(
        self, content_hash: str, *, peer: str | None, purpose: Purpose, reason: str
    ) -> None:
        raise self.fails_with or LibraryError(f"{content_hash} {peer} {purpose}")

    async def import_roster(self, data: bytes) -> None:
        raise RosterError(f"{len(data)} bytes are no roster")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StubNode]:
    embedder = HashingEmbedder()
    with Library(tmp_path / "library", embedder, sign=lambda *_: b"signed") as library:
        yield StubNode(Home(tmp_path), library)


@asynccontextmanager
async def served(node: StubNode) -> AsyncIterator[trio.Event]:
    shutdown = trio.Event()
    async with serving(cast("Node", node), shutdown):
        yield shutdown
        shutdown.set()


async def with_client(node: StubNode, use: Callable[[Client], Result]) -> Result:
    def run() -> Result:
        with Client(node.home) as client:
            return use(client)

    return await trio.to_thread.run_sync(run)


async def test_a_query_streams_progress_and_ends_with_the_answer(node: StubNode) -> None:
    events: list[dict[str, Any]] = []
    async with served(node):
        answer = await with_client(
            node,
            lambda client: client.query(
                "sepsis", k=3, purpose="research", remember=False, on_progress=events.append
            ),
        )
    assert [event["event"] for event in events] == ["contact"]
    assert answer["query"] == "sepsis"
    assert answer["asker"]["organisation"] == "General Hospital"
    [(text, settings)] = node.queries
    assert text == "sepsis"
    assert settings["purpose"] is Purpose.HRESCH
    assert (settings["k"], settings["budget"], settings["remember"]) == (3, None, False)


async def test_the_async_client_works_on_trio_and_on_asyncio(node: StubNode) -> None:
    async def use() -> tuple[str, str]:
        async with AsyncClient(node.home) as client:
            answer = await client.query("sepsis")
            return (await client.status())["peer_id"], answer["stopped"]

    async with served(node):
        assert await use() == ("12D3KooWself", "budget spent")
        assert await trio.to_thread.run_sync(asyncio.run, use()) == await use()


async def test_documents_are_added_listed_shared_and_removed(
    node: StubNode, tmp_path: Path
) -> None:
    file = tmp_path / "a b.txt"
    file.write_text("Metformin in renal failure")
    events: list[dict[str, Any]] = []

    def use(client: Client) -> None:
        report = client.add_documents(
            [file], "ward 7/α", encoding="utf-8", on_progress=events.append
        )
        assert report["counts"] == {"added": 1, "updated": 0, "unchanged": 0, "skipped": 0}
        assert [source["name"] for source in client.documents("ward 7/α")] == [str(file)]
        assert client.collections()[0]["sharing"] is None
        shared = client.share("ward 7/α", purposes=["research"], view="passage", copy=True)
        assert shared["sharing"]["purposes"] == ["HRESCH"]
        assert shared["sharing"]["terms"]["copy"] is True
        assert client.unshare("ward 7/α")["sharing"] is None
        assert client.remove_document(str(file))["removed_documents"] == 1
        with pytest.raises(LibraryError, match="no source"):
            client.remove_document(str(file))
        with pytest.raises(UsageError, match="allow copies"):
            client.share("ward 7/α", reshare=True)

    async with served(node):
        await with_client(node, use)
    files = [event for event in events if event["event"] == "file"]
    assert [event["status"] for event in files] == ["added"]
    progress = [event for event in events if event["event"] == "progress"]
    assert len(files) + len(progress) == len(events)
    assert progress[-1]["bytes"] == progress[-1]["all_bytes"] == file.stat().st_size
    assert (progress[-1]["files"], progress[-1]["documents"]) == (1, 1)


@pytest.mark.parametrize(
    "error",
    [
        UsageError("k has to be from 1 to 100, got 200"),
        NetworkError("nobody there"),
        RemoteRefusal("busy", "too many requests", 30),
        AttributionError("signature-invalid", "not the owner's"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_of_the_node_is_raised_again_as_what_it_was(
    node: StubNode, error: ZeroRagError
) -> None:
    node.fails_with = error

    def use(client: Client) -> None:
        for ask in (lambda: client.query("x"), lambda: client.get("ab")):
            with pytest.raises(type(error)) as caught:
                ask()
            assert str(caught.value) == str(error)
            assert caught.value.__dict__ == error.__dict__

    async with served(node):
        await with_client(node, use)


async def test_bad_arguments_are_usage_errors_that_name_the_field(node: StubNode) -> None:
    def use(client: Client) -> None:
        with pytest.raises(UsageError, match=r"^k: "):
            client.query("x", k=0)
        with pytest.raises(UsageError, match="no purpose"):
            client.query("x", purpose="curiosity")
        with pytest.raises(RosterError, match="3 bytes"):
            client.import_roster(b"abc")

    async with served(node):
        await with_client(node, use)


async def test_a_defect_ends_one_request_and_its_texts_stay_out_of_the_log(
    node: StubNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.fails_with = ValueError(SECRET)

    def use(client: Client) -> None:
        with pytest.raises(ZeroRagError, match="ValueError"):
            client.query(SECRET)
        with pytest.raises(ZeroRagError, match="ValueError"):
            client.get("ab")
        assert client.status()

    with caplog.at_level(logging.DEBUG):
        async with served(node):
            await with_client(node, use)
    assert caplog.text.count("a request failed with ValueError") == 2
    assert SECRET not in caplog.text


async def test_a_client_that_leaves_cancels_its_query(node: StubNode) -> None:
    node.hangs = True
    async with served(node), AsyncClient(node.home) as client:
        with trio.CancelScope() as scope:
            await client.query("x", on_progress=lambda _: scope.cancel())
        with trio.fail_after(5):
            await node.query_ended.wait()
        assert (await client.status())["peer_id"]


async def test_a_silent_but_working_node_is_told_from_a_stuck_one(
    node: StubNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerorag_p2p.control.events.CONTROL_HEARTBEAT_S", 0.02)
    monkeypatch.setattr(connection, "_TIMEOUT", httpx.Timeout(0.3))
    node.hangs = True
    async with served(node), AsyncClient(node.home) as client:
        with trio.move_on_after(1) as scope:  # longer than the client waits for a silent node
            await client.query("x")
        assert scope.cancelled_caught
    monkeypatch.setattr("zerorag_p2p.control.events.CONTROL_HEARTBEAT_S", 60)
    async with served(node), AsyncClient(node.home) as client:
        with pytest.raises(NetworkError, match="silent"):
            await client.query("x")


async def test_a_node_that_ends_during_a_query_is_reported(
    node: StubNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerorag_p2p.control.server.CONTROL_DRAIN_S", 0.05)
    node.hangs = True
    async with served(node) as shutdown, AsyncClient(node.home) as client:
        with pytest.raises(NodeNotRunningError, match="ended before it answered"):
            await client.query("x", on_progress=lambda _: shutdown.set())


async def test_shutdown_sets_the_event_and_removes_the_socket(node: StubNode) -> None:
    async with served(node) as shutdown:
        assert stat.S_IMODE(node.home.socket.stat().st_mode) == 0o600
        assert await with_client(node, lambda client: client.shutdown()) == {"stopping": True}
        await shutdown.wait()
    assert not node.home.socket.exists()


async def test_a_socket_left_by_a_dead_node_is_replaced(node: StubNode) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(node.home.socket))
    async with AsyncClient(node.home) as client:
        with pytest.raises(NodeNotRunningError, match="node run --home"):
            await client.status()
        async with served(node):
            assert await client.status()


def test_without_a_socket_no_node_runs(tmp_path: Path) -> None:
    with Client(tmp_path) as client, pytest.raises(NodeNotRunningError, match="node run --home"):
        client.status()


async def test_the_interface_describes_itself(node: StubNode) -> None:
    transport = httpx.AsyncHTTPTransport(uds=str(node.home.socket))
    async with served(node), httpx.AsyncClient(transport=transport, base_url="http://n") as http:
        described = (await http.get("/v1/openapi.json")).json()
        missing = await http.get("/v1/nothing")
    assert {"/v1/query", "/v1/status", "/v1/documents/{content_hash}"} <= described["paths"].keys()
    assert missing.status_code == 404
