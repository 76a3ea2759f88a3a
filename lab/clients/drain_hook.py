"""Serve the application's drain hook and source probe over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

BODY_LIMIT = 10_000


class Drainable(Protocol):
    """The application behind the hook, which carries out the hook's calls."""

    def drain(self, procedure_id: str) -> dict[str, Any]:
        """Ask every client to stop for a procedure; return the state at once."""

    def resume(self, procedure_id: str) -> dict[str, Any]:
        """Start clients again if clients were stopped for this procedure; return the state."""

    def state(self) -> dict[str, Any]:
        """Return number, names and cluster of the running clients, and the id of the procedure that stopped clients."""

    def source(self) -> dict[str, Any]:
        """Return whether the clients' current cluster is `reachable` and `writable`, and the `detail` of the answer."""


class DrainHook(BaseHTTPRequestHandler):
    """Answers `/state`, `/source`, `/drain` and `/resume` with JSON.

    Attributes:
        application: the application that carries out the calls; each server sets this attribute in a new subclass.
    """

    application: ClassVar[Drainable]

    def do_GET(self) -> None:
        """Answer `/state` with the application's state, and `/source` with the source probe's result."""
        read = {"/state": self.application.state, "/source": self.application.source}.get(self.path)
        self.answer(200, read()) if read else self.answer_unknown()

    def do_POST(self) -> None:
        """Carry out `/drain` or `/resume`, and answer with the application's state."""
        act = {"/drain": self.application.drain, "/resume": self.application.resume}.get(self.path)
        if act is None:
            return self.answer_unknown()
        procedure_id = self._procedure_id()
        if procedure_id is None:
            return self.answer(400, {"error": "the body must be a JSON object with a non-empty string procedure_id"})
        return self.answer(200, act(procedure_id))

    def document(self) -> Any:
        """Return the JSON document in the request's body, of which at most 10,000 bytes are read.

        Raises:
            ValueError: the body is not JSON.
        """
        return json.loads(self.rfile.read(min(BODY_LIMIT, int(self.headers.get("Content-Length", 0)))))

    def answer_unknown(self) -> None:
        """Answer 404 for an unknown path."""
        self.answer(404, {"error": f"this hook has no path {self.path}"})

    def answer(self, code: int, document: Mapping[str, Any]) -> None:
        """Answer with a JSON document."""
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Do nothing: calls are not logged."""
        return

    def _procedure_id(self) -> str | None:
        try:
            body = self.document()
            return body["procedure_id"] if isinstance(body["procedure_id"], str) and body["procedure_id"] else None
        except (ValueError, KeyError, TypeError):
            return None


@contextmanager
def serve_hooks(url: str, application: Drainable, hook: type[DrainHook] = DrainHook) -> Iterator[None]:
    """Serve an application's hooks at `url`, in a thread, while the block runs."""
    address = urlsplit(url)
    handler = type(hook.__name__, (hook,), {"application": application})
    server = ThreadingHTTPServer((address.hostname or "127.0.0.1", address.port or 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
