"""A proxy in front of a Connect worker that answers wrongly, late or never, as a test configures it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

_SECONDS = 120.0


class FaultProxy:
    """Passes every request on to the worker at ``upstream``, unless a fault is configured."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.refused = 0
        self._fault: int | str | None = None
        self._methods: tuple[str, ...] = ()
        self._trap: tuple[str, str, Callable[[], None]] | None = None
        self._healed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, fault: int | str, methods: tuple[str, ...] = ("GET", "PUT", "PATCH", "POST")) -> None:
        """Answer these methods from now on with an HTTP status, or `never`."""
        self._healed.clear()
        self.refused, self._fault, self._methods = 0, fault, methods

    def heal(self) -> None:
        """Pass every request on again; requests that still wait for an answer get none."""
        self._fault = self._trap = None
        self._healed.set()

    def when(self, method: str, path_end: str, act: Callable[[], None]) -> None:
        """Pass the first such request on, then act; the answer to this request is lost."""
        self._trap = (method, path_end, act)

    def close(self) -> None:
        """End the proxy."""
        self.heal()
        self._server.shutdown()
        self._server.server_close()

    def fault_for(self, method: str) -> int | str | None:
        """Return the fault that a request gets now."""
        if self._fault is None or method not in self._methods:
            return None
        self.refused += 1
        return self._fault

    def sprung(self, method: str, path: str) -> Callable[[], None] | None:
        """Return the action that a request triggers, once."""
        if self._trap is None or self._trap[0] != method or not path.endswith(self._trap[1]):
            return None
        act, self._trap = self._trap[2], None
        return act

    def wait_until_healed(self) -> None:
        """Hold a request without an answer until the fault is lifted."""
        self._healed.wait(_SECONDS)


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Passing(BaseHTTPRequestHandler):
        """Handles one request."""

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = proxy.fault_for(self.command)
            if fault == "never":
                proxy.wait_until_healed()
                self.close_connection = True
            elif fault is not None:
                self._say(int(fault), json.dumps({"error_code": fault, "message": "a fault of the test"}).encode())
            else:
                self._pass_on(body, proxy.sprung(self.command, self.path))

        def _pass_on(self, body: bytes, trap: Callable[[], None] | None) -> None:
            try:
                with requests.Session() as session:
                    session.trust_env = False
                    kind = {"Content-Type": "application/json"} if body else {}
                    answer = session.request(
                        self.command, proxy.upstream + self.path, data=body or None, headers=kind, timeout=_SECONDS
                    )
            except requests.RequestException:
                # As if nobody listened: the connection ends without an answer.
                self.close_connection = True
                return
            if trap is None:
                self._say(answer.status_code, answer.content)
            else:
                trap()
                self.close_connection = True

        do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = _pass

        def _say(self, status: int, body: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Passing
