"""A scripted language model: an OpenAI-compatible server on loopback, in a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

#: How one request is answered; may wait for the event, which the end of the test sets.
Behaviour: TypeAlias = Callable[[BaseHTTPRequestHandler, threading.Event], None]


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        return self._content("system")

    @property
    def user(self) -> str:
        return self._content("user")

    def _content(self, role: str) -> str:
        (content,) = [
            message["content"] for message in self.body["messages"] if message["role"] == role
        ]
        assert isinstance(content, str)
        return content


@dataclass
class LanguageModel:
    """Answers each request by the next behaviour of `script`; the last one stays."""

    script: list[Behaviour]
    base_url: str = ""
    requests: list[Request] = field(default_factory=list)


def begin(handler: BaseHTTPRequestHandler, kind: str = "text/event-stream") -> None:
    handler.send_response(200)
    handler.send_header("content-type", kind)
    handler.end_headers()


def event(content: str | None = None, finish: str | None = None) -> bytes:
    delta = {} if content is None else {"content": content}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


def streams(
    *pieces: str, finish: str | None = "stop", end: bytes = b"data: [DONE]\n\n"
) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        begin(handler)
        for piece in pieces:
            handler.wfile.write(event(piece))
        if finish is not None:
            handler.wfile.write(event(finish=finish))
        handler.wfile.write(end)

    return behave


def answers_whole(text: str) -> Behaviour:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return says("application/json", json.dumps({"choices": [choice]}).encode())


def says(kind: str, body: bytes) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        begin(handler, kind)
        handler.wfile.write(body)

    return behave


def fails(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def hangs(*pieces: str, headers: bool = True) -> Behaviour:
    """Says some pieces and then nothing any more."""

    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        if headers:
            begin(handler)
        for piece in pieces:
            handler.wfile.write(event(piece))
        over.wait()

    return behave


def drips(piece: str, pause_s: float) -> Behaviour:
    """Never stops, never ends, and is never silent for long."""

    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        begin(handler)
        while not over.wait(pause_s):
            handler.wfile.write(event(piece))

    return behave


def floods(data: bytes) -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler, over: threading.Event) -> None:
        begin(handler)
        while not over.is_set():
            handler.wfile.write(data)

    return behave


@contextmanager
def language_model(*script: Behaviour) -> Iterator[LanguageModel]:
    model = LanguageModel(list(script))
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            model.requests.append(Request(self.path, headers, json.loads(data)))
            behaviour = model.script.pop(0) if len(model.script) > 1 else model.script[0]
            # The client may have had enough.
            with suppress(BrokenPipeError, ConnectionResetError):
                behaviour(self, over)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield model
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def pieces_of(text: str, size: int) -> Sequence[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
