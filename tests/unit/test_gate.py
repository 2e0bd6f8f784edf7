"""The interface as applications reach it over TCP: who may do what, how often, and for how long."""

import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import trio
import trio.testing
from cryptography import x509
from fastapi import FastAPI

from tests.node.lab import eventually
from tests.unit.certificates import make_certificate
from tests.unit.test_client import StubNode
from zerorag_p2p.client import AsyncClient, Client
from zerorag_p2p.config import API_BODY_LIMIT, ApiConfig, NodeConfig
from zerorag_p2p.control.api import build_app
from zerorag_p2p.control.gate import Gate
from zerorag_p2p.control.scopes import SCOPES, Scope
from zerorag_p2p.control.server import serving
from zerorag_p2p.control.tokens import TokenBook
from zerorag_p2p.control.users import pseudonym
from zerorag_p2p.embedding.hashing import HashingEmbedder
from zerorag_p2p.errors import (
    ConfigError,
    LocalError,
    NetworkError,
    NodeNotRunningError,
    ScopeDenied,
    TokenRejected,
    TooManyRequests,
    UsageError,
)
from zerorag_p2p.home import Home
from zerorag_p2p.identity.expiry import Expiring
from zerorag_p2p.library.library import Library
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.testnet.processes import free_port

DOCS = Path(__file__).parents[2] / "docs"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A gate with its parts, asked without a network between."""

    def __init__(self, node: StubNode, settings: ApiConfig) -> None:
        self.node = node
        self.clock = Clock()
        self.shutdown = trio.Event()
        self.tokens = TokenBook(node.home.tokens, self.clock)
        self.app: FastAPI = build_app(cast("Node", node), self.shutdown, self.tokens)
        self.gate = Gate(self.app, self.tokens, settings, self.clock)

    def token(self, scope: Scope = Scope.QUERY, label: str = "intranet", **terms: Any) -> str:
        text: str = self.tokens.create(label, scope, lifetime_s=terms.get("lifetime_s"))["token"]
        return text

    def client(
        self, token: str | None = None, *, host: str = "127.0.0.1:8420", address: str = "192.0.2.1"
    ) -> httpx.AsyncClient:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app=self.gate, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StubNode]:
    embedder = HashingEmbedder()
    with Library(tmp_path / "library", embedder, sign=lambda *_: b"signed") as library:
        yield StubNode(Home(tmp_path), library)


@pytest.fixture
def desk(node: StubNode) -> Desk:
    return Desk(node, ApiConfig(listen="127.0.0.1:8420"))


def described(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["type"]


async def test_without_a_valid_token_nothing_is_told(desk: Desk) -> None:
    valid = desk.token(lifetime_s=60)
    desk.clock.now += 60
    answers = []
    for headers in (
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer zerorag_wrong"},
        {"Authorization": f"Basic {valid}"},
        {"Authorization": f"Bearer {valid}"},  # It has ended.
    ):
        for path in ("/v1/status", "/v1/openapi.json", "/v1/nothing", "/"):
            async with desk.client(address=path) as http:
                response = await http.get(path, headers=headers)
            assert described(response) == (401, "TokenRejected")
            assert response.headers["www-authenticate"] == "Bearer"
            answers.append(response.text)
    assert len(set(answers)) == 1


async def test_every_route_is_open_to_the_scopes_of_the_table_and_to_no_other(desk: Desk) -> None:
    """A route that is missing in the table is refused to everybody, and fails here."""
    texts = {scope: desk.token(scope, label=scope.value) for scope in Scope}
    routes = {
        (method.upper(), path)
        for path, methods in desk.app.openapi()["paths"].items()
        for method in methods
    }
    assert routes == SCOPES.keys() - {("GET", "/v1/openapi.json")}
    for (method, path), scopes in SCOPES.items():
        if path in ("/v1/shutdown", "/v1/events"):
            continue
        for scope, text in texts.items():
            async with desk.client(text) as http:
                response = await http.request(method, re.sub(r"\{\w+\}", "abc", path))
            refused = response.status_code == 403 and response.json()["error"]["type"] == (
                "ScopeDenied"
            )
            assert refused == (scope not in scopes), (method, path, scope)


def test_the_documentation_has_the_table() -> None:
    text = (DOCS / "applications.md").read_text()
    rows = re.findall(r"^\| `(GET|POST|DELETE) (/v1/\S*)` \| ([^|]*) \|", text, re.MULTILINE)
    written = {(method, path): cells.strip() for method, path, cells in rows}
    shown = {
        route: ", ".join(scope.value for scope in Scope if scope in scopes) or "owner only"
        for route, scopes in SCOPES.items()
    }
    assert written == shown


async def test_unknown_routes_look_forbidden_to_all_but_an_administrator(desk: Desk) -> None:
    async with desk.client(desk.token()) as http:
        assert described(await http.get("/v1/nothing")) == (403, "ScopeDenied")
    async with desk.client(desk.token(Scope.ADMIN, label="admin")) as http:
        assert (await http.get("/v1/nothing")).status_code == 404


async def test_wrong_tokens_are_counted_by_address_and_keep_nobody_else_out(
    node: StubNode, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(node, ApiConfig(listen="127.0.0.1:8420", failures_per_minute=3))
    async with desk.client("zerorag_guess") as http:
        kinds = [described(await http.get("/v1/status")) for _ in range(5)]
        refused = await http.get("/v1/status")
    assert kinds == [(401, "TokenRejected")] * 3 + [(429, "TooManyRequests")] * 2
    assert refused.headers["retry-after"] == "20"
    assert refused.json()["error"]["retry_after_s"] == 20
    assert caplog.text.count("without a valid token") == 3
    assert "zerorag_guess" not in caplog.text
    async with desk.client("zerorag_guess", address="192.0.2.2") as http:
        assert described(await http.get("/v1/status")) == (401, "TokenRejected")
    async with desk.client(desk.token(Scope.ADMIN)) as http:
        assert (await http.get("/v1/status")).status_code == 200


async def test_addresses_are_forgotten_the_quietest_first(
    node: StubNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerorag_p2p.control.gate.API_ADDRESSES", 2)
    desk = Desk(node, ApiConfig(listen="127.0.0.1:8420", failures_per_minute=1))

    async def fail(address: str) -> int:
        async with desk.client(address=address) as http:
            return (await http.get("/")).status_code

    assert [await fail(address) for address in ("a", "b", "a", "c")] == [401, 401, 429, 401]
    assert await fail("a") == 429
    assert await fail("b") == 401  # It was forgotten when "c" came.


async def test_a_token_has_a_rate_of_its_own(node: StubNode) -> None:
    desk = Desk(node, ApiConfig(listen="127.0.0.1:8420", requests_per_minute=2))
    text = desk.token(Scope.READ_ONLY)
    other = desk.token(Scope.READ_ONLY, label="other")
    async with desk.client(text) as http:
        statuses = [(await http.get("/v1/status")).status_code for _ in range(2)]
        refused = await http.get("/v1/status")
    assert statuses == [200, 200]
    assert described(refused) == (429, "TooManyRequests")
    assert refused.headers["retry-after"] == "30"
    rotated = desk.tokens.rotate("intranet", overlap_s=0)["token"]
    async with desk.client(rotated) as http:  # The application stays the same.
        assert (await http.get("/v1/status")).status_code == 429
    async with desk.client(other) as http:
        assert (await http.get("/v1/status")).status_code == 200


async def test_a_token_has_only_so_many_requests_at_once(node: StubNode) -> None:
    desk = Desk(node, ApiConfig(listen="127.0.0.1:8420", concurrent_requests=1))
    text = desk.token()
    node.hangs = True
    async with desk.client(text) as http, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: http.post("/v1/query", json={"text": "x"}))
        await eventually(lambda: bool(node.queries))
        refused = await http.post("/v1/query", json={"text": "y"})
        assert described(refused) == (429, "TooManyRequests")
        assert refused.headers["retry-after"] == "1"
        nursery.cancel_scope.cancel()
    node.hangs = False
    async with desk.client(text) as http:
        answer = await http.post("/v1/query", json={"text": "z"})
    assert answer.status_code == 200
    assert [text for text, _ in node.queries] == ["x", "z"]


@pytest.mark.parametrize("how", ["revoked", "rotated", "ended"])
async def test_what_is_under_way_ends_with_its_token(
    desk: Desk, how: str, autojump_clock: trio.testing.MockClock
) -> None:
    text = desk.token(lifetime_s=60)
    desk.node.hangs = True
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                async with desk.client(text) as http:
                    # What httpx has in a server's place takes only answers that are whole.
                    with suppress(AssertionError):
                        await http.post("/v1/query", json={"text": "x"})

            nursery.start_soon(ask)
            await eventually(lambda: bool(desk.node.queries))
            begun = trio.current_time()
            if how == "revoked":
                desk.tokens.revoke("intranet")
            elif how == "rotated":
                desk.tokens.rotate("intranet", overlap_s=10)
            await desk.node.query_ended.wait()
            lasted = trio.current_time() - begun
    assert lasted == pytest.approx({"revoked": 0, "rotated": 10, "ended": 60}[how], abs=1)


async def test_on_loopback_other_hosts_than_its_own_are_refused(node: StubNode) -> None:
    desk = Desk(node, ApiConfig(listen="127.0.0.1:8420", hosts=("Zerorag.hospital.example",)))
    text = desk.token(Scope.READ_ONLY)
    for host in ("localhost", "127.0.0.1:8420", "[::1]:8420", "zerorag.hospital.example:443"):
        async with desk.client(text, host=host) as http:
            assert (await http.get("/v1/status")).status_code == 200
    for host in ("rebound.example", "127.0.0.1.rebound.example:8420", "192.0.2.7:8420"):
        async with desk.client(text, host=host) as http:
            response = await http.get("/v1/status")
        assert described(response) == (400, "UsageError")
        assert "Host" in response.json()["error"]["message"]


async def test_no_page_of_another_origin_is_let_in(desk: Desk) -> None:
    async with desk.client() as http:
        asked = await http.options(
            "/v1/query",
            headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
        )
    async with desk.client(desk.token(Scope.READ_ONLY)) as http:
        answered = await http.get("/v1/status", headers={"Origin": "http://evil.example"})
    assert asked.status_code == 401
    for response in (asked, answered):
        assert not [name for name in response.headers if name.startswith("access-control")]


async def test_a_body_is_bounded_in_size_and_in_time(
    desk: Desk, autojump_clock: trio.testing.MockClock
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await trio.sleep_forever()

    text = desk.token(Scope.ADMIN)
    async with desk.client(text) as http:
        long = await http.post("/v1/roster", content=b"x" * (API_BODY_LIMIT + 1))
        assert described(long) == (400, "UsageError")
        chunked = await http.post("/v1/roster", content=endless())
        assert described(chunked) == (400, "UsageError")
        slow = await http.post("/v1/query", content=endless(), headers={"Content-Length": "100"})
        assert slow.status_code == 400


async def test_a_user_of_an_application_travels_as_a_pseudonym(desk: Desk) -> None:
    async with desk.client(desk.token()) as http:
        await http.post("/v1/query", json={"text": "x", "user": "dr-smith", "purpose": "research"})
        await http.post("/v1/query", json={"text": "x"})
    async with desk.client(desk.token(label="other")) as http:
        await http.post("/v1/query", json={"text": "x", "user": "dr-smith"})
    users = [settings["user"] for _, settings in desk.node.queries]
    key = desk.node.home.user_key.read_bytes()
    assert users[0] == pseudonym(key, "intranet", "dr-smith")
    assert users[1] == pseudonym(key, "intranet", "")  # The application, where it names nobody.
    assert users[2] not in users[:2]
    assert "smith" not in str(desk.node.queries)
    assert desk.node.queries[0][1]["purpose"] == "HRESCH"


# Over a real socket.


@asynccontextmanager
async def served(node: StubNode, **api: Any) -> AsyncIterator[tuple[str, TokenBook]]:
    api = {"listen": f"127.0.0.1:{free_port()}", **api}
    node.config = replace(NodeConfig(), api=ApiConfig(**api))
    shutdown = trio.Event()
    async with serving(cast("Node", node), shutdown):
        scheme = "https" if "certificate" in api else "http"
        yield f"{scheme}://{api['listen']}", TokenBook(node.home.tokens, Clock())
        shutdown.set()


async def in_thread(use: Callable[[], Any]) -> Any:
    return await trio.to_thread.run_sync(use)


async def test_clients_ask_over_tcp_with_a_token_that_was_made_over_the_socket(
    node: StubNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with served(node) as (url, _), AsyncClient(node.home) as owner:
        made = await owner.create_token("intranet", scope="query", lifetime_s=3_600)
        events: list[Any] = []
        async with AsyncClient(url=url, token=made["token"]) as client:
            answer = await client.query("sepsis", user="dr-smith", on_progress=events.append)
            assert answer["query"] == "sepsis"
            assert [event["event"] for event in events] == ["contact"]
            with pytest.raises(ScopeDenied, match="scope"):
                await client.status()
            with pytest.raises(ScopeDenied, match="only the node's owner"):
                await client.tokens()
            await owner.revoke_token("intranet")
            with pytest.raises(TokenRejected, match="operator"):
                await client.query("sepsis")
        (tmp_path / "token").write_text((await owner.create_token("b", scope="admin"))["token"])
        monkeypatch.setenv("ZERORAG_URL", url)
        monkeypatch.setenv("ZERORAG_TOKEN_FILE", str(tmp_path / "token"))

        def use() -> None:
            with Client() as client:
                assert client.status()["peer_id"]

        await in_thread(use)
        shown = (await owner.pseudonym("dr-smith", application="intranet"))["pseudonym"]
    assert node.queries[0][1]["user"] == shown
    assert node.home.socket.exists() is False


async def test_a_client_learns_that_its_token_was_revoked_while_it_asked(node: StubNode) -> None:
    node.hangs = True
    async with served(node) as (url, _), AsyncClient(node.home) as owner:
        token = (await owner.create_token("intranet", scope="query"))["token"]
        async with AsyncClient(url=url, token=token) as client, trio.open_nursery() as nursery:
            begun = trio.Event()

            async def ask() -> None:
                with pytest.raises(NodeNotRunningError, match="ended before it answered"):
                    await client.query("sepsis", on_progress=lambda _: begun.set())

            nursery.start_soon(ask)
            await begun.wait()
            await owner.revoke_token("intranet")


async def test_too_many_requests_are_raised_as_what_they_are(node: StubNode) -> None:
    async with served(node, requests_per_minute=1) as (url, _), AsyncClient(node.home) as owner:
        token = (await owner.create_token("intranet", scope="read-only"))["token"]
        async with AsyncClient(url=url, token=token) as client:
            await client.status()
            with pytest.raises(TooManyRequests) as caught:
                await client.status()
    assert 0 < caught.value.retry_after_s <= 60


async def test_with_a_certificate_everything_is_encrypted_and_the_certificate_is_checked(
    node: StubNode, tmp_path: Path
) -> None:
    make_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with (
        served(node, certificate="cert.pem", key="key.pem") as (url, _),
        AsyncClient(node.home) as owner,
    ):
        token = (await owner.create_token("intranet", scope="admin"))["token"]
        async with AsyncClient(url=url, token=token, ca=tmp_path / "cert.pem") as client:
            assert (await client.status())["peer_id"]
        async with AsyncClient(url=url, token=token) as client:
            with pytest.raises(NetworkError, match="ZERORAG_CA_FILE"):
                await client.status()
        plain = url.replace("https", "http")
        async with AsyncClient(url=plain, token=token) as client:
            with pytest.raises(NodeNotRunningError):
                await client.status()
        await owner.create_token("hours", scope="query", lifetime_s=7_200)
        token_ending, certificate_ending = node.endings()
        assert token_ending[:2] == (Expiring.TOKEN, "hours")
        assert 0 < token_ending[2] - time.time() <= 7_200
        chain = x509.load_pem_x509_certificates((tmp_path / "cert.pem").read_bytes())
        end = int(chain[0].not_valid_after_utc.timestamp())
        assert certificate_ending == (Expiring.CERTIFICATE, "", end)
        other = url.replace("127.0.0.1", "localhost")
        async with AsyncClient(url=other, token=token, ca=tmp_path / "cert.pem") as client:
            with pytest.raises(NetworkError, match="not to be trusted"):
                await client.status()  # The certificate is of the address.


async def test_what_cannot_be_served_is_said_before_anything_is(
    node: StubNode, tmp_path: Path
) -> None:
    make_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    make_certificate(tmp_path / "other.pem", tmp_path / "other.key")
    (tmp_path / "open.key").write_bytes((tmp_path / "key.pem").read_bytes())
    (tmp_path / "open.key").chmod(0o644)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        in_use = f"127.0.0.1:{taken.getsockname()[1]}"
        for api, error, sentence in (
            ({"listen": in_use}, LocalError, "in use"),
            ({"certificate": "none.pem", "key": "key.pem"}, ConfigError, "cannot be read"),
            ({"certificate": "cert.pem", "key": "other.key"}, ConfigError, "no certificate"),
            ({"certificate": "cert.pem", "key": "open.key"}, ConfigError, "everybody"),
        ):
            with pytest.raises(error, match=sentence):
                async with served(node, **cast("dict[str, Any]", api)):
                    pass
            assert not node.home.socket.exists()


async def test_a_listener_without_tokens_is_warned_of(
    node: StubNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with served(node):
        pass
    assert "zerorag token create" in caplog.text
    assert "applications are served on 127.0.0.1" in caplog.text


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ('listen = "0.0.0.0:8420"', "need TLS"),
        ('listen = "[2001:db8::1]:8420"', "need TLS"),
        ('listen = "node.example:8420"', "IP address and a port"),
        ('listen = "127.0.0.1"', "IP address and a port"),
        ('listen = "127.0.0.1:99999"', "IP address and a port"),
        ('certificate = "cert.pem"', "set both"),
    ],
)
def test_a_listener_that_would_be_unsafe_or_is_none_is_a_configuration_error(
    toml: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        NodeConfig.from_toml(f"[api]\n{toml}")


def test_beyond_loopback_a_certificate_makes_it_safe() -> None:
    config = NodeConfig.from_toml(
        '[api]\nlisten = "0.0.0.0:8420"\ncertificate = "cert.pem"\nkey = "key.pem"'
    )
    assert not config.api.on_loopback()
    assert NodeConfig().api.listen == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"url": "http://node.example:8420", "token": "t"}, "unencrypted"),
        ({"url": "node.example:8420", "token": "t"}, "https://"),
        ({"url": "ftp://node.example", "token": "t"}, "https://"),
        ({"url": "https://node.example"}, "ZERORAG_TOKEN_FILE"),
        ({"url": "https://node.example", "token": "t\r\nX: y"}, "characters"),
        ({"where": "/srv/zerorag", "url": "https://node.example", "token": "t"}, "one of them"),
        ({"url": "https://node.example", "token": "t", "ca": "/nowhere"}, "certificates"),
    ],
)
def test_a_client_refuses_what_would_be_unsafe_or_unclear(
    arguments: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZERORAG_TOKEN_FILE", raising=False)
    with pytest.raises(UsageError, match=sentence):
        Client(**arguments)


async def test_a_browser_that_speaks_websocket_is_turned_away(desk: Desk) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "headers": [], "client": ("127.0.0.1", 1), "path": "/v1/events"}
    await desk.gate(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_table_of_scopes_lets_nobody_but_the_owner_make_tokens() -> None:
    assert {route for route, scopes in SCOPES.items() if not scopes} >= {
        ("POST", "/v1/tokens"),
        ("POST", "/v1/tokens/{label}/rotate"),
        ("POST", "/v1/documents"),
    }
