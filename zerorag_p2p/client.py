"""Clients of a running node, over the Unix socket in its home.

`Client` is for plain synchronous code, `AsyncClient` for trio and asyncio. Both return what the
node's local interface says (docs/cli.md, GET /v1/openapi.json) as plain dicts and raise the
exceptions of `zerorag_p2p.errors`, those of the node included.

    with Client() as client:
        answer = client.query("dose of metformin in renal failure")
        for document in answer["documents"]:
            print(document["score"], document["owner"]["organisation"], document["title"])
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import httpx

from zerorag_p2p import errors
from zerorag_p2p.config import CONTROL_CONNECT_S, CONTROL_SILENCE_S
from zerorag_p2p.errors import (
    AttributionError,
    LocalError,
    NetworkError,
    NodeNotRunningError,
    RemoteRefusal,
    ZeroRagError,
)
from zerorag_p2p.home import Home, TestnetFolder

Json: TypeAlias = dict[str, Any]

#: Called with each progress event, a dict with the key "event". Must not block for long.
OnProgress: TypeAlias = Callable[[Json], None]

#: Called with each event of a node, a dict with the key "event" (`zerorag_p2p.node.happenings`).
OnEvent: TypeAlias = Callable[[Json], None]

# Nothing is encrypted on a Unix socket. Without a context given, httpx would load the certificates
# of all authorities for every client (measured: 0.1 s).
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

_TIMEOUT = httpx.Timeout(CONTROL_SILENCE_S, connect=CONTROL_CONNECT_S)


@dataclass(frozen=True, slots=True)
class _Call:
    """One request to the local interface."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Json | None = None
    content: bytes | None = None

    def arguments(self) -> Json:
        """The arguments of httpx's `request` and `stream`."""
        arguments: Json = {"method": self.method, "url": self.path, "params": self.params}
        if self.body is not None:
            arguments["json"] = self.body
        if self.content is not None:
            arguments["content"] = self.content
            arguments["headers"] = {"content-type": "application/cbor"}
        return arguments


def _given(**values: Any) -> Json:
    """The values that are not None: what the caller leaves out, the node decides."""
    return {key: value for key, value in values.items() if value is not None}


def _query(
    text: str,
    *,
    k: int | None,
    budget: int | None,
    fanout: int | None,
    timeout_s: float | None,
    purpose: str | None,
    view: str | None,
    user: str | None,
    routing: str | None,
    stopping: str | None,
    remember: bool | None,
) -> _Call:
    body = _given(
        text=text,
        k=k,
        budget=budget,
        fanout=fanout,
        timeout_s=timeout_s,
        purpose=purpose,
        view=view,
        user=user,
        routing=routing,
        stopping=stopping,
        remember=remember,
    )
    return _Call("POST", "/v1/query", body=body)


def _get(content_hash: str, *, peer: str | None, purpose: str | None) -> _Call:
    params = _given(peer=peer, purpose=purpose)
    return _Call("GET", f"/v1/documents/{_segment(content_hash)}", params=params)


def _segment(name: str) -> str:
    """A name as one segment of a path, whatever characters it has."""
    return quote(name, safe="")


def _add_documents(paths: Sequence[str | Path], collection: str) -> _Call:
    # The node runs in another folder, so a path has to say where it starts.
    absolute = [str(Path(path).absolute()) for path in paths]
    return _Call("POST", "/v1/documents", body={"paths": absolute, "collection": collection})


def _share(
    collection: str,
    *,
    members: Sequence[str] | None,
    purposes: Sequence[str] | None,
    view: str | None,
    advertise: bool | None,
    copy: bool | None,
    reshare: bool | None,
) -> _Call:
    body = _given(
        members=None if members is None else list(members),
        purposes=None if purposes is None else list(purposes),
        view=view,
        advertise=advertise,
        copy=copy,
        reshare=reshare,
    )
    return _Call("POST", f"/v1/collections/{_segment(collection)}/share", body=body)


def _unshare(collection: str) -> _Call:
    return _Call("POST", f"/v1/collections/{_segment(collection)}/unshare")


def _remove_document(name: str, *, collection: str | None) -> _Call:
    params = _given(collection=collection)
    return _Call("DELETE", f"/v1/documents/{_segment(name)}", params=params)


def _socket_of(where: Home | Path | str | None) -> Path:
    if where is None:
        return Home.resolve(None, os.environ).socket
    if isinstance(where, Home):
        return where.socket
    path = Path(where)
    return path if path.is_socket() else Home(path.absolute()).socket


def _error_from(description: object) -> ZeroRagError:
    """The exception that the node described, of the same class where we know it."""
    if not isinstance(description, dict):
        return LocalError("the node answered with something that is not of this interface")
    message = str(description.get("message"))
    match description.get("type"):
        case "RemoteRefusal":
            return RemoteRefusal(
                str(description.get("code")),
                str(description.get("reason")),
                description.get("retry_after_s"),
            )
        case "AttributionError":
            fault = str(description.get("fault"))
            return AttributionError(fault, message.removeprefix(f"{fault}: "))
        case name:
            found = getattr(errors, str(name), None)
            if isinstance(found, type) and issubclass(found, ZeroRagError):
                return found(message)
            return LocalError(message)


def _value_of(response: httpx.Response) -> Any:
    """The JSON of a whole response; raises the error that it describes."""
    try:
        value = response.json()
    except ValueError:
        raise LocalError(f"the node answered {response.status_code} without JSON") from None
    if response.is_error:
        raise _error_from(value.get("error") if isinstance(value, dict) else None)
    return value


_FINAL_EVENTS: Final = frozenset({"answer", "report", "end", "error"})

#: Events that are not progress: a sign of life, and a count of progress events that were dropped.
_ASIDE: Final = frozenset({"alive", "lost"})


def _take_in(line: str, on_event: OnEvent | None, hidden: Set[str]) -> Json | None:
    """Take in one line of an event stream; the event that ends it, or None to read on."""
    event: Json = json.loads(line)
    if event["event"] in _FINAL_EVENTS:
        return event
    if on_event is not None and event["event"] not in hidden:
        on_event(event)
    return None


def _value_in(final: Json) -> Json:
    """What the last event of a stream carries; raises the error that it describes."""
    if final["event"] == "error":
        raise _error_from(final["error"])
    value: Json = final[final["event"]]
    return value


class _Connection:
    """What both clients know of the node's socket."""

    def __init__(self, where: Home | Path | str | None = None) -> None:
        self._socket = _socket_of(where)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn what httpx raises into our errors."""
        if not self._socket.is_socket():
            raise self._not_running()
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise self._not_running() from None
        except httpx.TimeoutException:
            raise NetworkError(
                f"the node on {self._socket} was silent for {CONTROL_SILENCE_S:g} s; "
                "its log tells what it is doing"
            ) from None
        except httpx.TransportError:
            raise self._ended() from None

    def _not_running(self) -> NodeNotRunningError:
        return NodeNotRunningError(
            f"no node is running on {self._socket}; "
            f"start it with `zerorag node run --home {self._socket.parent}`"
        )

    def _ended(self) -> NodeNotRunningError:
        return NodeNotRunningError(
            f"the node on {self._socket} ended before it answered; its log tells why"
        )


class Client(_Connection):
    """A running node, for plain synchronous code. Use it as a context manager, or `close` it.

    Args:
        where: The node's home or its socket; by default the home that `zerorag` uses.

    Every method raises `NodeNotRunningError` when no node answers.
    """

    def __init__(self, where: Home | Path | str | None = None) -> None:
        super().__init__(where)
        transport = httpx.HTTPTransport(uds=str(self._socket), verify=_NO_TLS)
        self._http = httpx.Client(transport=transport, base_url="http://node", timeout=_TIMEOUT)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def status(self) -> Json:
        """How the node is: identity, consortium, roster, neighbours, memory, documents."""
        return self._json(_Call("GET", "/v1/status"))

    def peers(self) -> list[Json]:
        """Every member of the roster and what the node knows of it."""
        return self._list("/v1/peers", "peers")

    def neighbors(self) -> list[Json]:
        """The node's neighbours and their advertisements."""
        return self._list("/v1/neighbors", "neighbors")

    def memory(self) -> Json:
        """Whose queries the node remembers for routing; neither texts nor embeddings."""
        return self._json(_Call("GET", "/v1/memory"))

    def refusals(self) -> list[Json]:
        """The last refusals, the node's own and those of other peers, oldest first."""
        return self._list("/v1/refusals", "refusals")

    def events(self, on_event: OnEvent) -> Json:
        """Tell `on_event` what happens in the node from now on; returns when the node ends.

        The first event is "watching". An event "lost" tells how many were dropped because they were
        not read in time.
        """
        return self._stream(_Call("GET", "/v1/events"), on_event, hidden={"alive"})

    def query(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        view: str | None = None,
        user: str | None = None,
        routing: str | None = None,
        stopping: str | None = None,
        remember: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Ask the consortium; the answer with its evidence and its counts.

        Args:
            text: The question.
            k: How many documents.
            budget: How many peers may be asked at most.
            fanout: How many of them at once.
            timeout_s: Seconds for everything.
            purpose: Purpose of use, "treatment" or "TREAT" for instance.
            view: How much of each document is wanted: "title", "passage" or "whole".
            user: Pseudonym of the person who asks, for the audit of both sides.
            routing: "complete", "paper", or "random" for members in random order.
            stopping: "budget" or "settled".
            remember: Whether the peers asked may remember the query to route later ones.
            on_progress: Called as contacts begin and end.

        What is None has the default of the node's configuration.
        """
        call = _query(
            text,
            k=k,
            budget=budget,
            fanout=fanout,
            timeout_s=timeout_s,
            purpose=purpose,
            view=view,
            user=user,
            routing=routing,
            stopping=stopping,
            remember=remember,
        )
        return self._stream(call, on_progress)

    def get(
        self, content_hash: str, *, peer: str | None = None, purpose: str | None = None
    ) -> Json:
        """A document by content hash or prefix: our own, else fetched from `peer`."""
        return self._json(_get(content_hash, peer=peer, purpose=purpose))

    def collections(self) -> list[Json]:
        """The node's own collections and how they are shared."""
        return self._list("/v1/collections", "collections")

    def documents(self, collection: str | None = None) -> list[Json]:
        """The sources in the node's own library, of one collection or of all."""
        return self._list("/v1/documents", "documents", _given(collection=collection))

    def add_documents(
        self,
        paths: Sequence[str | Path],
        collection: str,
        *,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Add files and folders of this machine; what became of each file."""
        return self._stream(_add_documents(paths, collection), on_progress)

    def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """Remove a source from the library, by name."""
        return self._json(_remove_document(name, collection=collection))

    def share(
        self,
        collection: str,
        *,
        members: Sequence[str] | None = None,
        purposes: Sequence[str] | None = None,
        view: str | None = None,
        advertise: bool | None = None,
        copy: bool | None = None,
        reshare: bool | None = None,
    ) -> Json:
        """Share a collection: with every member, for every purpose, unless narrowed down.

        Args:
            collection: Its name.
            members: Peer ids that may see it, instead of every member.
            purposes: Purposes of use it may serve, instead of any.
            view: The most that may be shown: "count", "title", "passage" or "whole".
            advertise: Whether the whole consortium may learn that the documents exist.
            copy: Whether a receiver may keep a copy.
            reshare: Whether a receiver may pass its copy on.
        """
        call = _share(
            collection,
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=copy,
            reshare=reshare,
        )
        return self._json(call)

    def unshare(self, collection: str) -> Json:
        """Stop sharing a collection."""
        return self._json(_unshare(collection))

    def import_roster(self, data: bytes) -> Json:
        """Give the node a newer signed roster."""
        return self._json(_Call("POST", "/v1/roster", content=data))

    def shutdown(self) -> Json:
        """Ask the node to end; it answers before it does."""
        return self._json(_Call("POST", "/v1/shutdown"))

    def _json(self, call: _Call) -> Json:
        with self._explaining():
            value: Json = _value_of(self._http.request(**call.arguments()))
        return value

    def _list(self, path: str, key: str, params: Mapping[str, str] | None = None) -> list[Json]:
        items: list[Json] = self._json(_Call("GET", path, params=params or {}))[key]
        return items

    def _stream(self, call: _Call, on_event: OnEvent | None, hidden: Set[str] = _ASIDE) -> Json:
        with self._explaining(), self._http.stream(**call.arguments()) as response:
            if response.is_error:
                response.read()
                _value_of(response)
            final = None
            for line in response.iter_lines():
                final = _take_in(line, on_event, hidden)
        if final is None:
            raise self._ended()
        return _value_in(final)


class AsyncClient(_Connection):
    """A running node, for trio and asyncio: `async with AsyncClient() as client`.

    Args:
        where: The node's home or its socket; by default the home that `zerorag` uses.

    The methods are those of `Client`, which documents them.
    """

    def __init__(self, where: Home | Path | str | None = None) -> None:
        super().__init__(where)
        transport = httpx.AsyncHTTPTransport(uds=str(self._socket), verify=_NO_TLS)
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://node", timeout=_TIMEOUT
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def status(self) -> Json:
        """See `Client.status`."""
        return await self._json(_Call("GET", "/v1/status"))

    async def peers(self) -> list[Json]:
        """See `Client.peers`."""
        return await self._list("/v1/peers", "peers")

    async def neighbors(self) -> list[Json]:
        """See `Client.neighbors`."""
        return await self._list("/v1/neighbors", "neighbors")

    async def memory(self) -> Json:
        """See `Client.memory`."""
        return await self._json(_Call("GET", "/v1/memory"))

    async def refusals(self) -> list[Json]:
        """See `Client.refusals`."""
        return await self._list("/v1/refusals", "refusals")

    async def events(self, on_event: OnEvent) -> Json:
        """See `Client.events`."""
        return await self._stream(_Call("GET", "/v1/events"), on_event, hidden={"alive"})

    async def query(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        view: str | None = None,
        user: str | None = None,
        routing: str | None = None,
        stopping: str | None = None,
        remember: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """See `Client.query`."""
        call = _query(
            text,
            k=k,
            budget=budget,
            fanout=fanout,
            timeout_s=timeout_s,
            purpose=purpose,
            view=view,
            user=user,
            routing=routing,
            stopping=stopping,
            remember=remember,
        )
        return await self._stream(call, on_progress)

    async def get(
        self, content_hash: str, *, peer: str | None = None, purpose: str | None = None
    ) -> Json:
        """See `Client.get`."""
        return await self._json(_get(content_hash, peer=peer, purpose=purpose))

    async def collections(self) -> list[Json]:
        """See `Client.collections`."""
        return await self._list("/v1/collections", "collections")

    async def documents(self, collection: str | None = None) -> list[Json]:
        """See `Client.documents`."""
        return await self._list("/v1/documents", "documents", _given(collection=collection))

    async def add_documents(
        self,
        paths: Sequence[str | Path],
        collection: str,
        *,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """See `Client.add_documents`."""
        return await self._stream(_add_documents(paths, collection), on_progress)

    async def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """See `Client.remove_document`."""
        return await self._json(_remove_document(name, collection=collection))

    async def share(
        self,
        collection: str,
        *,
        members: Sequence[str] | None = None,
        purposes: Sequence[str] | None = None,
        view: str | None = None,
        advertise: bool | None = None,
        copy: bool | None = None,
        reshare: bool | None = None,
    ) -> Json:
        """See `Client.share`."""
        call = _share(
            collection,
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=copy,
            reshare=reshare,
        )
        return await self._json(call)

    async def unshare(self, collection: str) -> Json:
        """See `Client.unshare`."""
        return await self._json(_unshare(collection))

    async def import_roster(self, data: bytes) -> Json:
        """See `Client.import_roster`."""
        return await self._json(_Call("POST", "/v1/roster", content=data))

    async def shutdown(self) -> Json:
        """See `Client.shutdown`."""
        return await self._json(_Call("POST", "/v1/shutdown"))

    async def _json(self, call: _Call) -> Json:
        with self._explaining():
            value: Json = _value_of(await self._http.request(**call.arguments()))
        return value

    async def _list(
        self, path: str, key: str, params: Mapping[str, str] | None = None
    ) -> list[Json]:
        items: list[Json] = (await self._json(_Call("GET", path, params=params or {})))[key]
        return items

    async def _stream(
        self, call: _Call, on_event: OnEvent | None, hidden: Set[str] = _ASIDE
    ) -> Json:
        with self._explaining():
            async with self._http.stream(**call.arguments()) as response:
                if response.is_error:
                    await response.aread()
                    _value_of(response)
                final = None
                async for line in response.aiter_lines():
                    final = _take_in(line, on_event, hidden)
        if final is None:
            raise self._ended()
        return _value_in(final)


class TestnetClient(_Connection):
    """A running testnet (`zerorag testnet up`), for plain synchronous code; see docs/testnet.md.

    Args:
        folder: The testnet's folder; by default the one that `zerorag testnet` uses.

    Nodes are named "p0", "p1" and so on; where they are drawn, `count` says how many. Every
    method raises `NodeNotRunningError` when no testnet answers.
    """

    __test__ = False  # pytest takes a class of this name for tests

    def __init__(self, folder: TestnetFolder | Path | str | None = None) -> None:
        if isinstance(folder, TestnetFolder):
            self.folder = folder
        else:
            chosen = None if folder is None else str(folder)
            self.folder = TestnetFolder.resolve(chosen, os.environ)
        super().__init__(Home(self.folder.root))
        transport = httpx.HTTPTransport(uds=str(self._socket), verify=_NO_TLS)
        self._http = httpx.Client(transport=transport, base_url="http://testnet", timeout=_TIMEOUT)

    def __enter__(self) -> TestnetClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def node(self, name: str) -> Client:
        """A client of one node, as of any other; to be closed by the caller."""
        return Client(self.folder.node(name))

    def status(self) -> Json:
        """How the testnet is: its nodes, and how the last questions went."""
        return self._json(_Call("GET", "/v1/testnet"))

    def query(
        self,
        text: str | None = None,
        *,
        node: str | None = None,
        k: int | None = None,
        budget: int | None = None,
        fanout: int | None = None,
        purpose: str | None = None,
        routing: str | None = None,
        stopping: str | None = None,
    ) -> Json:
        """Let a node ask; the answer.

        Args:
            text: The question; by default the next of the testnet's own.
            node: Who asks; by default one that runs.
            k: How many documents.
            budget: How many peers may be asked at most.
            fanout: How many of them at once.
            purpose: Purpose of use.
            routing: "complete", "paper", or "random" for members in random order.
            stopping: "budget" or "settled".
        """
        return self._post(
            "query",
            text=text,
            node=node,
            k=k,
            budget=budget,
            fanout=fanout,
            purpose=purpose,
            routing=routing,
            stopping=stopping,
        )

    def kill(self, *nodes: str, count: int | None = None) -> Json:
        """Crash nodes."""
        return self._post("kill", nodes=list(nodes), count=count)

    def restart(self, *nodes: str, count: int | None = None) -> Json:
        """Start nodes that were killed, without names all of them."""
        return self._post("restart", nodes=list(nodes), count=count)

    def freeze(self, *nodes: str, count: int | None = None) -> Json:
        """Stop nodes without a word to anybody."""
        return self._post("freeze", nodes=list(nodes), count=count)

    def thaw(self, *nodes: str, count: int | None = None) -> Json:
        """Let frozen nodes go on, without names all of them."""
        return self._post("thaw", nodes=list(nodes), count=count)

    def partition(self, groups: Sequence[Sequence[str]] = (), *, count: int | None = None) -> Json:
        """Let nothing pass between groups: those given, or `count` random ones, two by default."""
        return self._post("partition", groups=[list(group) for group in groups], count=count)

    def heal(self) -> Json:
        """End the partition."""
        return self._post("heal")

    def links(
        self,
        *,
        latency_ms: float = 0.0,
        jitter_ms: float = 0.0,
        bandwidth: float = 0.0,
        loss: float = 0.0,
    ) -> Json:
        """Set the conditions of every link: milliseconds, bytes a second, share of lost writes."""
        return self._post(
            "links", latency_ms=latency_ms, jitter_ms=jitter_ms, bandwidth=bandwidth, loss=loss
        )

    def misbehave(self, how: str, *nodes: str, count: int | None = None) -> Json:
        """Make nodes a "tarpit" or a "black-hole", or "honest" again."""
        return self._post("misbehave", how=how, nodes=list(nodes), count=count)

    def skew(self, seconds: float, *nodes: str, count: int | None = None) -> Json:
        """Set clocks of nodes ahead by `seconds`, back if it is negative."""
        return self._post("skew", seconds=seconds, nodes=list(nodes), count=count)

    def join(self, count: int = 1) -> Json:
        """Let new nodes join."""
        return self._post("join", count=count)

    def shutdown(self) -> Json:
        """Ask the testnet to end; it answers before it does."""
        return self._json(_Call("POST", "/v1/shutdown"))

    def _post(self, action: str, **body: Any) -> Json:
        return self._json(_Call("POST", f"/v1/testnet/{action}", body=_given(**body)))

    def _json(self, call: _Call) -> Json:
        with self._explaining():
            value: Json = _value_of(self._http.request(**call.arguments()))
        return value

    def _not_running(self) -> NodeNotRunningError:
        return NodeNotRunningError(
            f"no testnet is running in {self.folder.root}; start one with `zerorag testnet up`"
        )

    def _ended(self) -> NodeNotRunningError:
        return NodeNotRunningError(f"the testnet in {self.folder.root} ended before it answered")
