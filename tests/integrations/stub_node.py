"""A node's local interface with a script, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "zerorag_test"

Json = dict[str, Any]


def document(owner: str, text: str, *, status: str = "verified", score: float = 0.9) -> Json:
    """A document of an answer, as a node describes it."""
    return {
        "content_hash": f"{len(text):064x}",
        "status": status,
        "score": score,
        "score_verified": True,
        "owner": {"peer": f"12D3Koo{owner}", "organisation": owner},
        "holder": {"peer": f"12D3Koo{owner}", "organisation": owner},
        "fault": None if status == "verified" else "refused",
        "collection": "wards",
        "title": text[:10],
        "text": text if status == "verified" else "",
        "part": 0,
        "parts": 1,
        "issued_at": 1_700_000_000,
        "content": "",
        "attribution": [],
        "release": "",
    }


class StubNode:
    """What it answers, and what it was asked."""

    def __init__(self) -> None:
        self.documents: list[Json] = []
        self.error: tuple[int, Json] | None = None
        self.queries: list[Json] = []
        self.fetches: list[tuple[str, dict[str, list[str]]]] = []
        self.url = ""
        self.hold: threading.Event | None = None
        self.asked = threading.Condition()

    def wait_for_queries(self, count: int) -> None:
        """Wait until so many were asked."""
        with self.asked:
            assert self.asked.wait_for(lambda: len(self.queries) >= count, 5)


_ANSWER: Json = {
    "answer": {"text": "Half of it [1]."},
    "fault": None,
    "passages": [
        {
            "number": 1,
            "score": 0.9,
            "title": "Metformin",
            "text": "Metformin dose in renal failure",
            "sources": [
                {
                    "content_hash": f"{31:064x}",
                    "owner": {"peer": f"12D3Koo{owner}", "organisation": owner},
                    "holder": {"peer": f"12D3Koo{owner}", "organisation": owner},
                    "status": "verified",
                    "score": 0.9,
                    "collection": "wards",
                }
                for owner in ("General", "Clinic")
            ],
        }
    ],
}


class _Handler(BaseHTTPRequestHandler):
    node: StubNode

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a query."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        with self.node.asked:
            self.node.queries.append(body)
            self.node.asked.notify_all()
        if self.node.hold is not None:
            self.node.hold.wait(10)
        answer = {
            "documents": self.node.documents[: body.get("k", 5)],
            "purpose": body.get("purpose", "TREAT"),
            "audit": "a1",
            "complete": True,
        }
        if self.path == "/v1/ask":
            answer |= _ANSWER
        self._send(200, {"event": "answer", "answer": answer})

    def do_GET(self) -> None:
        """Answer a fetch."""
        if self._refused():
            return
        parts = urlsplit(self.path)
        content_hash = unquote(parts.path.rpartition("/")[2])
        self.node.fetches.append((content_hash, parse_qs(parts.query)))
        found = [item for item in self.node.documents if item["content_hash"] == content_hash]
        self._send(200, found[0])

    def _refused(self) -> bool:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._send(401, {"error": {"type": "TokenRejected", "message": "no token"}})
        elif self.node.error is not None:
            self._send(self.node.error[0], {"error": self.node.error[1]})
        else:
            return False
        return True

    def _send(self, status: int, value: Json) -> None:
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving() -> Iterator[StubNode]:
    """Serve a scripted node on a free port of loopback."""
    node = StubNode()
    handler = type("Handler", (_Handler,), {"node": node})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        node.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield node
        finally:
            if node.hold is not None:
                node.hold.set()
            server.shutdown()
            thread.join()
