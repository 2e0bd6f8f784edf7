"""Clients of a running node, over the Unix socket in its home, or over TCP with a token.

`Client` is for plain synchronous code, `AsyncClient` for trio and asyncio. Both return what the
node's local interface says (docs/cli.md, GET /v1/openapi.json) as plain dicts and raise the
exceptions of `zerorag_p2p.errors`, those of the node included.

    with Client() as client:
        answer = client.query("dose of metformin in renal failure")
        for document in answer["documents"]:
            print(document["score"], document["owner"]["organisation"], document["title"])

An application that may not enter the home has a token (docs/applications.md): it uses
`Client(url=..., token=...)`, or `Client()` with ZERORAG_URL and ZERORAG_TOKEN_FILE set.
"""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
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
    TooManyRequests,
    UsageError,
    ZeroRagError,
)
from zerorag_p2p.files import read_bounded
from zerorag_p2p.home import Home, TestnetFolder

Json: TypeAlias = dict[str, Any]

#: Called with each progress event, a dict with the key "event". Must not block for long.
OnProgress: TypeAlias = Callable[[Json], None]

#: Called with each event of a node, a dict with the key "event" (`zerorag_p2p.node.happenings`).
OnEvent: TypeAlias = Callable[[Json], None]

# Nothing is encrypted on a Unix socket. Without a context given, httpx would load the certificates
# of all authorities for every client (measured: 0.1 s).
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

_TOKEN_FILE_LIMIT: Final = 4 << 10

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
    reason: str | None,
    marks: Sequence[str] | None,
    at_least: float | None,
    first: float | None,
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
        reason=reason,
        marks=None if marks is None else list(marks),
        at_least=at_least,
        first=first,
    )
    return _Call("POST", "/v1/query", body=body)


def _ask(
    text: str,
    *,
    k: int | None,
    budget: int | None,
    timeout_s: float | None,
    purpose: str | None,
    reason: str | None,
    marks: Sequence[str] | None,
    user: str | None,
    scope: str | None,
    remember: bool | None,
    reuse: bool | None,
) -> _Call:
    body = _given(
        text=text,
        k=k,
        budget=budget,
        timeout_s=timeout_s,
        purpose=purpose,
        reason=reason,
        marks=None if marks is None else list(marks),
        user=user,
        scope=scope,
        remember=remember,
        reuse=reuse,
    )
    return _Call("POST", "/v1/ask", body=body)


def _get(content_hash: str, *, peer: str | None, purpose: str | None, reason: str | None) -> _Call:
    params = _given(peer=peer, purpose=purpose, reason=reason)
    return _Call("GET", f"/v1/documents/{_segment(content_hash)}", params=params)


def _segment(name: str) -> str:
    """A name as one segment of a path, whatever characters it has."""
    return quote(name, safe="")


def _reading(
    *,
    encoding: str | None,
    text_columns: Sequence[str] | None,
    title_column: str | None,
    id_column: str | None,
) -> Json:
    return _given(
        encoding=encoding,
        text_columns=None if text_columns is None else list(text_columns),
        title_column=title_column,
        id_column=id_column,
    )


def _add_documents(paths: Sequence[str | Path], collection: str, reading: Json) -> _Call:
    # The node runs in another folder, so a path has to say where it starts.
    absolute = [str(Path(path).absolute()) for path in paths]
    body = {"paths": absolute, "collection": collection, **reading}
    return _Call("POST", "/v1/documents", body=body)


def _watch_folder(
    folder: str | Path, collection: str, interval_s: float | None, reading: Json
) -> _Call:
    body = {
        "folder": str(Path(folder).absolute()),
        "collection": collection,
        **_given(interval_s=interval_s),
        **reading,
    }
    return _Call("POST", "/v1/watches", body=body)


def _unwatch_folder(folder: str | Path, collection: str | None) -> _Call:
    params = {"folder": str(Path(folder).absolute()), **_given(collection=collection)}
    return _Call("DELETE", "/v1/watches", params=params)


def _share(
    collection: str,
    *,
    members: Sequence[str] | None,
    purposes: Sequence[str] | None,
    view: str | None,
    advertise: bool | None,
    copy: bool | None,
    reshare: bool | None,
    expires_at: int | None,
) -> _Call:
    body = _given(
        members=None if members is None else list(members),
        purposes=None if purposes is None else list(purposes),
        view=view,
        advertise=advertise,
        copy=copy,
        reshare=reshare,
        expires_at=expires_at,
    )
    return _Call("POST", f"/v1/collections/{_segment(collection)}/share", body=body)


def _unshare(collection: str) -> _Call:
    return _Call("POST", f"/v1/collections/{_segment(collection)}/unshare")


def _keep_answer(audit: str, collection: str) -> _Call:
    body = {"audit": audit, "collection": collection}
    return _Call("POST", "/v1/copies/answer", body=body)


def _keep_document(
    content_hash: str, peer: str, collection: str, *, purpose: str | None, reason: str | None
) -> _Call:
    body = _given(
        content_hash=content_hash,
        peer=peer,
        collection=collection,
        purpose=purpose,
        reason=reason,
    )
    return _Call("POST", "/v1/copies/document", body=body)


def _withdraw(name: str, *, collection: str | None) -> _Call:
    return _Call("POST", "/v1/withdrawals", body=_given(name=name, collection=collection))


def _restore(name: str, *, collection: str | None) -> _Call:
    params = _given(collection=collection)
    return _Call("DELETE", f"/v1/withdrawals/{_segment(name)}", params=params)


def _remove_document(name: str, *, collection: str | None) -> _Call:
    params = _given(collection=collection)
    return _Call("DELETE", f"/v1/documents/{_segment(name)}", params=params)


def _create_token(label: str, *, scope: str, lifetime_s: int | None) -> _Call:
    body = _given(label=label, scope=scope, lifetime_s=lifetime_s)
    return _Call("POST", "/v1/tokens", body=body)


def _rotate_token(label: str, *, overlap_s: int) -> _Call:
    return _Call("POST", f"/v1/tokens/{_segment(label)}/rotate", body={"overlap_s": overlap_s})


def _revoke_token(label: str) -> _Call:
    return _Call("DELETE", f"/v1/tokens/{_segment(label)}")


def _pseudonym(user: str, *, application: str) -> _Call:
    return _Call("POST", "/v1/pseudonym", body={"user": user, "application": application})


def _check_policy(
    peer: str,
    *,
    purpose: str | None,
    collection: str | None,
    document: str | None,
    query: str | None,
    view: str | None,
    reason: str | None,
) -> _Call:
    body = _given(
        peer=peer,
        purpose=purpose,
        collection=collection,
        document=document,
        query=query,
        view=view,
        reason=reason,
    )
    return _Call("POST", "/v1/policy/check", body=body)


def _audit(path: str, **params: Any) -> _Call:
    given = {key: str(value) for key, value in _given(**params).items()}
    return _Call("GET", f"/v1/audit{path}", params=given)


def _purge_audit(before: float) -> _Call:
    return _Call("POST", "/v1/audit/purge", body={"before": before})


def _lint_policy(text: str) -> _Call:
    return _Call("POST", "/v1/policy/lint", body={"text": text})


def _rearm(peer: str | None) -> _Call:
    return _Call("POST", "/v1/policy/rearm", body=_given(peer=peer))


def _socket_of(where: Home | Path | str | None) -> Path:
    if where is None:
        return Home.resolve(None, os.environ).socket
    if isinstance(where, Home):
        return where.socket
    path = Path(where)
    return path if path.is_socket() else Home(path.absolute()).socket


def _checked_url(url: str) -> httpx.URL:
    """The address of a listener, from what a person wrote.

    Raises:
        UsageError: It is none, or a token would cross the network unencrypted.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(f"{url!r} is no address of a node; write https://node.example:8420")
    if parsed.scheme == "http" and not _is_loopback(parsed.host):
        raise UsageError(f"{url} would send the token unencrypted; use https")
    return parsed


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token_of(token: str | None) -> str:
    """The token that was given, else that of the environment.

    Raises:
        UsageError: There is none, or it cannot be sent.
    """
    named = os.environ.get("ZERORAG_TOKEN_FILE")
    if token is None and named:
        token = read_bounded(Path(named), _TOKEN_FILE_LIMIT).decode("ascii", "replace").strip()
    if not token:
        raise UsageError(
            "a node is reached over TCP with a token: give one, or name its file in "
            "ZERORAG_TOKEN_FILE"
        )
    if not (token.isascii() and token.isprintable()):
        raise UsageError("the token has characters that no token has")
    return token


def _tls_of(url: httpx.URL, ca: Path | str | None) -> ssl.SSLContext:
    """What a certificate is judged by: the machine's authorities, or those of a file.

    Raises:
        UsageError: The file cannot be used.
    """
    if url.scheme == "http":
        return _NO_TLS
    chosen = ca if ca is not None else os.environ.get("ZERORAG_CA_FILE")
    try:
        return _judging_by(None if chosen is None else str(chosen))
    except OSError as error:  # ssl.SSLError is one.
        raise UsageError(f"{chosen} holds no certificates in PEM: {error}") from None


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """What led to an error, if it was a certificate."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


@lru_cache(maxsize=8)
def _judging_by(ca: str | None) -> ssl.SSLContext:
    # Measured: reading the machine's authorities takes 0.1 s.
    return ssl.create_default_context(cafile=ca)


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
        case "TooManyRequests":
            return TooManyRequests(message, int(description.get("retry_after_s", 1)))
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
    """What both clients know of where the node is, and how it is reached."""

    def __init__(
        self,
        where: Home | Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca: Path | str | None = None,
    ) -> None:
        if where is None and url is None:
            url = os.environ.get("ZERORAG_URL")
        elif where is not None and url is not None:
            raise UsageError("a node is reached by its home or by its url; give one of them")
        self._socket: Path | None = None
        self._url = httpx.URL("http://node")
        self._tls = _NO_TLS
        self._headers: dict[str, str] = {}
        if url is None:
            self._socket = _socket_of(where)
        else:
            self._url = _checked_url(url)
            self._tls = _tls_of(self._url, ca)
            self._headers = {"Authorization": f"Bearer {_token_of(token)}"}

    def _open(self) -> httpx.Client:
        path = None if self._socket is None else str(self._socket)
        transport = httpx.HTTPTransport(uds=path, verify=self._tls)
        return httpx.Client(
            transport=transport, base_url=self._url, headers=self._headers, timeout=_TIMEOUT
        )

    def _open_async(self) -> httpx.AsyncClient:
        path = None if self._socket is None else str(self._socket)
        transport = httpx.AsyncHTTPTransport(uds=path, verify=self._tls)
        return httpx.AsyncClient(
            transport=transport, base_url=self._url, headers=self._headers, timeout=_TIMEOUT
        )

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn what httpx raises into our errors."""
        if self._socket is not None and not self._socket.is_socket():
            raise self._not_running()
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            doubt = _certificate_error(error)
            if doubt is not None:
                raise NetworkError(
                    f"the certificate of {self._url} is not to be trusted: "
                    f"{doubt.verify_message}; name the authority that signed it in ZERORAG_CA_FILE"
                ) from None
            raise self._not_running() from None
        except httpx.TimeoutException:
            raise NetworkError(
                f"the node on {self._place} was silent for {CONTROL_SILENCE_S:g} s; "
                "its log tells what it is doing"
            ) from None
        except httpx.TransportError:
            raise self._ended() from None

    @property
    def _place(self) -> str:
        return str(self._url if self._socket is None else self._socket)

    def _not_running(self) -> NodeNotRunningError:
        if self._socket is None:
            return NodeNotRunningError(
                f"no node answers at {self._url}; its operator starts it, with 'api.listen' set"
            )
        return NodeNotRunningError(
            f"no node is running on {self._socket}; "
            f"start it with `zerorag node run --home {self._socket.parent}`"
        )

    def _ended(self) -> NodeNotRunningError:
        return NodeNotRunningError(
            f"the node on {self._place} ended before it answered; its log tells why"
        )


class Client(_Connection):
    """A running node, for plain synchronous code. Use it as a context manager, or `close` it.

    Args:
        where: The node's home or its socket; by default the home that `zerorag` uses.
        url: Instead of it, where the node listens for applications, "https://node.example:8420";
            by default ZERORAG_URL of the environment.
        token: The application's token; by default that in the file named by ZERORAG_TOKEN_FILE.
        ca: PEM file of the authorities that a certificate is judged by; by default the file named
            by ZERORAG_CA_FILE, or those of the machine.

    Every method raises `NodeNotRunningError` when no node answers.
    """

    def __init__(
        self,
        where: Home | Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca: Path | str | None = None,
    ) -> None:
        super().__init__(where, url=url, token=token, ca=ca)
        self._http = self._open()

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
        reason: str | None = None,
        marks: Sequence[str] | None = None,
        at_least: float | None = None,
        first: float | None = None,
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
            view: How much of each document is wanted: "count", "title", "passage" or "whole".
            user: The person who asks; others learn a pseudonym, the same every time.
            routing: "complete", "paper", or "random" for members in random order.
            stopping: "budget" or "settled".
            remember: Whether the peers asked may remember the query to route later ones.
            reason: Why emergency access is asked for; the owners' people see it.
            marks: What the node's own rules on questions know this one by.
            at_least: With the view "count": how similar a document has to be to be counted.
            first: Score of a document that is enough: the search ends with it.
            on_progress: Called as contacts begin and end; with a "found" event for every hit that
                is among the best so far, and with a "document" event as its text is delivered.

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
            reason=reason,
            marks=marks,
            at_least=at_least,
            first=first,
        )
        return self._stream(call, on_progress)

    def query_events(self, text: str, **settings: Any) -> Iterator[Json]:
        """Ask as `query` does, and yield every event as it happens; the last one is the "answer".

            for event in client.query_events("sepsis in children", k=3):
                if event["event"] in ("found", "document"):
                    print(event["document"]["score"], event["document"]["title"])

        Args:
            text: The question.
            settings: As for `query`.
        """
        call = _Call("POST", "/v1/query", body=_given(text=text, **settings))
        with self._explaining(), self._http.stream(**call.arguments()) as response:
            if response.is_error:
                response.read()
                _value_of(response)
            final = None
            for line in response.iter_lines():
                passed: list[Json] = []
                final = _take_in(line, passed.append, _ASIDE)
                yield from passed
        if final is None:
            raise self._ended()
        yield {"event": final["event"], final["event"]: _value_in(final)}

    def ask(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        reason: str | None = None,
        marks: Sequence[str] | None = None,
        user: str | None = None,
        scope: str | None = None,
        remember: bool | None = None,
        reuse: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Have a question answered from documents; the answer, its passages and their proofs.

        Args:
            text: The question.
            k: How many passages at most.
            budget: How many peers may be asked at most.
            timeout_s: Seconds for the search; writing the answer has a deadline of its own.
            purpose: Purpose of use, "treatment" or "TREAT" for instance.
            reason: Why emergency access is asked for; the owners' people see it.
            marks: What the node's own rules on questions know this one by.
            user: The person who asks; others learn a pseudonym, the same every time.
            scope: "local" for the node's own documents only, "network" for those of others only;
                by default others are asked unless a document of the node answers.
            remember: Whether the peers asked may remember the question to route later ones.
            reuse: Whether what was found before may be used.
            on_progress: Called as the search goes on, with a "sources" event once the passages are
                chosen, and with "text" events as the answer is written.

        What is None has the default of the node's configuration.
        """
        call = _ask(
            text,
            k=k,
            budget=budget,
            timeout_s=timeout_s,
            purpose=purpose,
            reason=reason,
            marks=marks,
            user=user,
            scope=scope,
            remember=remember,
            reuse=reuse,
        )
        return self._stream(call, on_progress)

    def get(
        self,
        content_hash: str,
        *,
        peer: str | None = None,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """A document by content hash or prefix: our own, else fetched from `peer`."""
        return self._json(_get(content_hash, peer=peer, purpose=purpose, reason=reason))

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
        encoding: str | None = None,
        text_columns: Sequence[str] | None = None,
        title_column: str | None = None,
        id_column: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Add files and folders of this machine; what became of each file.

        Args:
            paths: Of the files and folders.
            collection: Where they go; made if there is none of this name.
            encoding: Of text files, instead of a detected one.
            text_columns: Columns of tables that make up the text, instead of detected ones.
            title_column: Column of tables with the title.
            id_column: Column of tables that names a row.
            on_progress: Called with a "file" event for every file, and with "progress" events.
        """
        reading = _reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return self._stream(_add_documents(paths, collection, reading), on_progress)

    def watch_folder(
        self,
        folder: str | Path,
        collection: str,
        *,
        interval_s: float | None = None,
        encoding: str | None = None,
        text_columns: Sequence[str] | None = None,
        title_column: str | None = None,
        id_column: str | None = None,
    ) -> Json:
        """Let a collection follow the files of a folder of this machine.

        Args:
            folder: The folder.
            collection: What follows it; made if there is none of this name.
            interval_s: Seconds between two looks at it.
            encoding: As for `add_documents`, like what follows.
            text_columns: Likewise.
            title_column: Likewise.
            id_column: Likewise.
        """
        reading = _reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return self._json(_watch_folder(folder, collection, interval_s, reading))

    def unwatch_folder(self, folder: str | Path, *, collection: str | None = None) -> Json:
        """Follow a folder no more, for one collection or for all; its documents stay."""
        return self._json(_unwatch_folder(folder, collection))

    def watches(self) -> list[Json]:
        """The folders that are watched, and what the last look at each found."""
        return self._list("/v1/watches", "watches")

    def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """Remove a source from the library, by name."""
        return self._json(_remove_document(name, collection=collection))

    def keep_answer(self, audit: str, collection: str) -> Json:
        """Keep copies of the documents of one of the last answers, as far as their owners allow.

        Args:
            audit: The answer's audit reference.
            collection: Ours that the copies go to; made, and not shared, if there is none.
        """
        return self._json(_keep_answer(audit, collection))

    def keep_document(
        self,
        content_hash: str,
        peer: str,
        collection: str,
        *,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """Fetch a document from `peer` and keep a copy of it, if its owner allows."""
        call = _keep_document(content_hash, peer, collection, purpose=purpose, reason=reason)
        return self._json(call)

    def withdraw(self, name: str, *, collection: str | None = None) -> Json:
        """Take documents of ours back; every member is told to delete its copies."""
        return self._json(_withdraw(name, collection=collection))

    def restore(self, name: str, *, collection: str | None = None) -> Json:
        """Let others see withdrawn documents again."""
        return self._json(_restore(name, collection=collection))

    def withdrawals(self) -> list[Json]:
        """What owners took back, we among them, as far as the node knows."""
        return self._list("/v1/withdrawals", "withdrawals")

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
        expires_at: int | None = None,
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
            expires_at: When all of this ends, for copies too, unix seconds.
        """
        call = _share(
            collection,
            members=members,
            purposes=purposes,
            view=view,
            advertise=advertise,
            copy=copy,
            reshare=reshare,
            expires_at=expires_at,
        )
        return self._json(call)

    def unshare(self, collection: str) -> Json:
        """Stop sharing a collection."""
        return self._json(_unshare(collection))

    def audit(
        self,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """The last entries of the audit log, oldest first; "faults" names what cannot be read.

        Args:
            since: Unix seconds from which on.
            peer: Counterpart: a peer id, or a part of an organisation's name.
            kind: Kind of entry, "fetch-answered" for instance.
            document: First digits of a content hash, at least 8.
            reference: The reference of a query, which both sides recorded.
            limit: How many at most; by default 100.
        """
        call = _audit(
            "",
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
            limit=limit,
        )
        return self._stream(call, None)

    def audit_page(
        self,
        after: int,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
    ) -> Json:
        """Entries of the audit log after number `after`, selected as by `audit`.

        Go on with the "after" of the answer, until it does not change any more.
        """
        call = _audit(
            "/page",
            after=after,
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
        )
        return self._stream(call, None)

    def verify_audit(self) -> Json:
        """Whether the audit log is whole; "faults" names what is not."""
        return self._stream(_audit("/verify"), None)

    def disclosures(self, document: str) -> Json:
        """Who was given what of a document of ours, by the first digits of its content hash."""
        return self._stream(_audit(f"/disclosures/{_segment(document)}"), None)

    def purge_audit(self, before: float) -> Json:
        """Remove the files of the audit log whose entries are all older than `before`."""
        return self._json(_purge_audit(before))

    def pause(self, reason: str = "") -> Json:
        """Let the node answer nobody, until `resume`; every peer that asks sees the reason."""
        return self._json(_Call("POST", "/v1/pause", body={"reason": reason}))

    def resume(self) -> Json:
        """Let the node answer again."""
        return self._json(_Call("POST", "/v1/resume"))

    def begin_migration(self, embedding: Mapping[str, Any]) -> Json:
        """Go over to another embedding model; how far that is, as "migration" in the status.

        Args:
            embedding: Settings of the model, as in the table `[embedding]`.
        """
        return self._json(_Call("POST", "/v1/migration", body={"embedding": dict(embedding)}))

    def finish_migration(self) -> Json:
        """Delete the vectors of the old embedding model, once the next one is in use."""
        return self._json(_Call("POST", "/v1/migration/finish"))

    def cancel_migration(self) -> Json:
        """Stay with the embedding model in use."""
        return self._json(_Call("POST", "/v1/migration/cancel"))

    def import_roster(self, data: bytes) -> Json:
        """Give the node a newer signed roster."""
        return self._json(_Call("POST", "/v1/roster", content=data))

    def tokens(self) -> list[Json]:
        """The tokens of applications that are valid, without what would let somebody use them."""
        return self._list("/v1/tokens", "tokens")

    def create_token(self, label: str, *, scope: str, lifetime_s: int | None = None) -> Json:
        """Make a token for an application; "token" in what is returned is not shown again.

        Args:
            label: The application.
            scope: "query", "read-only" or "admin".
            lifetime_s: How long it is valid, without end by default.
        """
        return self._json(_create_token(label, scope=scope, lifetime_s=lifetime_s))

    def rotate_token(self, label: str, *, overlap_s: int = 0) -> Json:
        """Make a new token in the place of one, which counts for another `overlap_s`."""
        return self._json(_rotate_token(label, overlap_s=overlap_s))

    def revoke_token(self, label: str) -> Json:
        """End the tokens of an application, and what is under way with them."""
        return self._json(_revoke_token(label))

    def pseudonym(self, user: str, *, application: str = "") -> Json:
        """Under which name others know a user of an application, or, without one, itself."""
        return self._json(_pseudonym(user, application=application))

    def policy(self) -> Json:
        """The rules in force, on documents and on questions."""
        return self._json(_Call("GET", "/v1/policy"))

    def check_policy(
        self,
        peer: str,
        *,
        purpose: str | None = None,
        collection: str | None = None,
        document: str | None = None,
        query: str | None = None,
        view: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """Decide for trial what a member would be let see, by what decides live.

        Args:
            peer: A peer id or an organisation.
            purpose: Purpose of use.
            collection: A collection of ours; by default all.
            document: First digits of the content hash of a document of ours, instead.
            query: The question, if one is to be judged.
            view: How much of a document is wanted.
            reason: Why emergency access is asked for.
        """
        call = _check_policy(
            peer,
            purpose=purpose,
            collection=collection,
            document=document,
            query=query,
            view=view,
            reason=reason,
        )
        return self._json(call)

    def lint_policy(self, text: str) -> Json:
        """What looks wrong about the text of rules that are not in force yet."""
        return self._json(_lint_policy(text))

    def reload_policy(self) -> Json:
        """Let the node take the rules of its file now."""
        return self._json(_Call("POST", "/v1/policy/reload"))

    def emergencies(self) -> Json:
        """Who has used emergency access since when, and the last accesses."""
        return self._json(_Call("GET", "/v1/policy/emergencies"))

    def rearm(self, peer: str | None = None) -> Json:
        """Let a member, or everybody, have emergency access anew."""
        return self._json(_rearm(peer))

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

    The arguments and the methods are those of `Client`, which documents them.
    """

    def __init__(
        self,
        where: Home | Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca: Path | str | None = None,
    ) -> None:
        super().__init__(where, url=url, token=token, ca=ca)
        self._http = self._open_async()

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
        reason: str | None = None,
        marks: Sequence[str] | None = None,
        at_least: float | None = None,
        first: float | None = None,
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
            reason=reason,
            marks=marks,
            at_least=at_least,
            first=first,
        )
        return await self._stream(call, on_progress)

    async def ask(
        self,
        text: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        timeout_s: float | None = None,
        purpose: str | None = None,
        reason: str | None = None,
        marks: Sequence[str] | None = None,
        user: str | None = None,
        scope: str | None = None,
        remember: bool | None = None,
        reuse: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """See `Client.ask`."""
        call = _ask(
            text,
            k=k,
            budget=budget,
            timeout_s=timeout_s,
            purpose=purpose,
            reason=reason,
            marks=marks,
            user=user,
            scope=scope,
            remember=remember,
            reuse=reuse,
        )
        return await self._stream(call, on_progress)

    async def get(
        self,
        content_hash: str,
        *,
        peer: str | None = None,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """See `Client.get`."""
        return await self._json(_get(content_hash, peer=peer, purpose=purpose, reason=reason))

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
        encoding: str | None = None,
        text_columns: Sequence[str] | None = None,
        title_column: str | None = None,
        id_column: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """See `Client.add_documents`."""
        reading = _reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return await self._stream(_add_documents(paths, collection, reading), on_progress)

    async def watch_folder(
        self,
        folder: str | Path,
        collection: str,
        *,
        interval_s: float | None = None,
        encoding: str | None = None,
        text_columns: Sequence[str] | None = None,
        title_column: str | None = None,
        id_column: str | None = None,
    ) -> Json:
        """See `Client.watch_folder`."""
        reading = _reading(
            encoding=encoding,
            text_columns=text_columns,
            title_column=title_column,
            id_column=id_column,
        )
        return await self._json(_watch_folder(folder, collection, interval_s, reading))

    async def unwatch_folder(self, folder: str | Path, *, collection: str | None = None) -> Json:
        """See `Client.unwatch_folder`."""
        return await self._json(_unwatch_folder(folder, collection))

    async def watches(self) -> list[Json]:
        """See `Client.watches`."""
        return await self._list("/v1/watches", "watches")

    async def remove_document(self, name: str, *, collection: str | None = None) -> Json:
        """See `Client.remove_document`."""
        return await self._json(_remove_document(name, collection=collection))

    async def keep_answer(self, audit: str, collection: str) -> Json:
        """See `Client.keep_answer`."""
        return await self._json(_keep_answer(audit, collection))

    async def keep_document(
        self,
        content_hash: str,
        peer: str,
        collection: str,
        *,
        purpose: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """See `Client.keep_document`."""
        call = _keep_document(content_hash, peer, collection, purpose=purpose, reason=reason)
        return await self._json(call)

    async def withdraw(self, name: str, *, collection: str | None = None) -> Json:
        """See `Client.withdraw`."""
        return await self._json(_withdraw(name, collection=collection))

    async def restore(self, name: str, *, collection: str | None = None) -> Json:
        """See `Client.restore`."""
        return await self._json(_restore(name, collection=collection))

    async def withdrawals(self) -> list[Json]:
        """See `Client.withdrawals`."""
        return await self._list("/v1/withdrawals", "withdrawals")

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
        expires_at: int | None = None,
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
            expires_at=expires_at,
        )
        return await self._json(call)

    async def unshare(self, collection: str) -> Json:
        """See `Client.unshare`."""
        return await self._json(_unshare(collection))

    async def audit(
        self,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """See `Client.audit`."""
        call = _audit(
            "",
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
            limit=limit,
        )
        return await self._stream(call, None)

    async def audit_page(
        self,
        after: int,
        *,
        since: float | None = None,
        peer: str | None = None,
        kind: str | None = None,
        document: str | None = None,
        reference: str | None = None,
    ) -> Json:
        """See `Client.audit_page`."""
        call = _audit(
            "/page",
            after=after,
            since=since,
            peer=peer,
            kind=kind,
            document=document,
            reference=reference,
        )
        return await self._stream(call, None)

    async def verify_audit(self) -> Json:
        """See `Client.verify_audit`."""
        return await self._stream(_audit("/verify"), None)

    async def disclosures(self, document: str) -> Json:
        """See `Client.disclosures`."""
        return await self._stream(_audit(f"/disclosures/{_segment(document)}"), None)

    async def purge_audit(self, before: float) -> Json:
        """See `Client.purge_audit`."""
        return await self._json(_purge_audit(before))

    async def pause(self, reason: str = "") -> Json:
        """See `Client.pause`."""
        return await self._json(_Call("POST", "/v1/pause", body={"reason": reason}))

    async def resume(self) -> Json:
        """See `Client.resume`."""
        return await self._json(_Call("POST", "/v1/resume"))

    async def begin_migration(self, embedding: Mapping[str, Any]) -> Json:
        """See `Client.begin_migration`."""
        return await self._json(_Call("POST", "/v1/migration", body={"embedding": dict(embedding)}))

    async def finish_migration(self) -> Json:
        """See `Client.finish_migration`."""
        return await self._json(_Call("POST", "/v1/migration/finish"))

    async def cancel_migration(self) -> Json:
        """See `Client.cancel_migration`."""
        return await self._json(_Call("POST", "/v1/migration/cancel"))

    async def import_roster(self, data: bytes) -> Json:
        """See `Client.import_roster`."""
        return await self._json(_Call("POST", "/v1/roster", content=data))

    async def tokens(self) -> list[Json]:
        """See `Client.tokens`."""
        return await self._list("/v1/tokens", "tokens")

    async def create_token(self, label: str, *, scope: str, lifetime_s: int | None = None) -> Json:
        """See `Client.create_token`."""
        return await self._json(_create_token(label, scope=scope, lifetime_s=lifetime_s))

    async def rotate_token(self, label: str, *, overlap_s: int = 0) -> Json:
        """See `Client.rotate_token`."""
        return await self._json(_rotate_token(label, overlap_s=overlap_s))

    async def revoke_token(self, label: str) -> Json:
        """See `Client.revoke_token`."""
        return await self._json(_revoke_token(label))

    async def pseudonym(self, user: str, *, application: str = "") -> Json:
        """See `Client.pseudonym`."""
        return await self._json(_pseudonym(user, application=application))

    async def policy(self) -> Json:
        """See `Client.policy`."""
        return await self._json(_Call("GET", "/v1/policy"))

    async def check_policy(
        self,
        peer: str,
        *,
        purpose: str | None = None,
        collection: str | None = None,
        document: str | None = None,
        query: str | None = None,
        view: str | None = None,
        reason: str | None = None,
    ) -> Json:
        """See `Client.check_policy`."""
        call = _check_policy(
            peer,
            purpose=purpose,
            collection=collection,
            document=document,
            query=query,
            view=view,
            reason=reason,
        )
        return await self._json(call)

    async def lint_policy(self, text: str) -> Json:
        """See `Client.lint_policy`."""
        return await self._json(_lint_policy(text))

    async def reload_policy(self) -> Json:
        """See `Client.reload_policy`."""
        return await self._json(_Call("POST", "/v1/policy/reload"))

    async def emergencies(self) -> Json:
        """See `Client.emergencies`."""
        return await self._json(_Call("GET", "/v1/policy/emergencies"))

    async def rearm(self, peer: str | None = None) -> Json:
        """See `Client.rearm`."""
        return await self._json(_rearm(peer))

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
        self._http = self._open()

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
