"""A real little HTTP server whose answers a test scripts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Reply:
    """One answer: JSON, or raw bytes; `seconds` to wait before it, `drip` to send it byte by byte."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    drip: float = 0.0


@dataclass
class Request:
    """One request as it came in."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]


class ScriptedServer:
    """Answers from a queue of replies first, then from a function; keeps every request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.queue: list[Reply] = []
        self.answer: Callable[[Request], Reply] = lambda request: Reply(404, {"detail": "nothing here"})
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def sent(self, method: str) -> list[Request]:
        """Requests of one method."""
        return [request for request in self.requests if request.method == method]

    def close(self) -> None:
        """Stop serving; wakes what hangs."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, self.path, json.loads(raw) if raw else None, dict(self.headers))
                script.requests.append(request)
                script._send(self, script.queue.pop(0) if script.queue else script.answer(request))

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        self.closing.wait(reply.seconds)
        content = (
            reply.body
            if isinstance(reply.body, bytes)
            else b""
            if reply.body is None
            else json.dumps(reply.body).encode()
        )
        try:
            handler.send_response(reply.status)
            for name, value in reply.headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            for byte in [content] if not reply.drip else [content[i : i + 1] for i in range(len(content))]:
                handler.wfile.write(byte)
                handler.wfile.flush()
                self.closing.wait(reply.drip)
        except OSError:
            pass  # The client hung up, as some tests mean it to.


@pytest.fixture
def reply() -> type[Reply]:
    """How a test makes answers."""
    return Reply


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server on a free port of 127.0.0.1."""
    scripted = ScriptedServer()
    yield scripted
    scripted.close()
