"""The application's drain hook and source probe over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import urlsplit

BODY_LIMIT = 10_000


class Drainable(Protocol):
    """What the hook needs of an application."""

    def drain(self, procedure_id: str) -> dict[str, Any]:
        """Ask every client to stop for a procedure; return the state."""

    def resume(self, procedure_id: str) -> dict[str, Any]:
        """Let clients run again after a procedure; return the state."""

    def state(self) -> dict[str, Any]:
        """Return who runs, where, and for which procedure clients were stopped."""

    def source(self) -> dict[str, Any]:
        """Return how the cluster looks that the clients use."""


def hook_handler(application: Drainable) -> type[BaseHTTPRequestHandler]:
    """Return the request handler of both hooks."""

    class DrainHook(BaseHTTPRequestHandler):
        """Answers `/state`, `/source`, `/drain` and `/resume` with JSON."""

        def do_GET(self) -> None:
            """Tell the state, or how the source looks."""
            tell = {"/state": application.state, "/source": application.source}.get(self.path)
            self._answer(200, tell()) if tell else self._answer(404, {"error": f"no {self.path} here"})

        def do_POST(self) -> None:
            """Drain or resume."""
            act = {"/drain": application.drain, "/resume": application.resume}.get(self.path)
            if act is None:
                return self._answer(404, {"error": f"no {self.path} here"})
            procedure_id = self._procedure_id()
            if procedure_id is None:
                return self._answer(
                    400, {"error": "the body must be a JSON object with a non-empty string procedure_id"}
                )
            return self._answer(200, act(procedure_id))

        def _procedure_id(self) -> str | None:
            try:
                body = json.loads(self.rfile.read(min(BODY_LIMIT, int(self.headers.get("Content-Length", 0)))))
                return body["procedure_id"] if isinstance(body["procedure_id"], str) and body["procedure_id"] else None
            except (ValueError, KeyError, TypeError):
                return None

        def _answer(self, code: int, document: Mapping[str, Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Keep calls out of the client's log."""
            return

    return DrainHook


@contextmanager
def serving(url: str, application: Drainable) -> Iterator[None]:
    """Serve both hooks while the block runs."""
    address = urlsplit(url)
    server = ThreadingHTTPServer((address.hostname or "127.0.0.1", address.port or 0), hook_handler(application))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
