"""The stop hook of MirrorMaker 2 in dedicated mode: kills the process by its pid, and counts those that run."""

from __future__ import annotations

import json
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from lab.mirror_maker import FLOWS
from lab.state import DEDICATED, Lab


class StopServer:
    """Serves `POST /stop` and `GET /state`; where it ``lies``, it only says that the process has ended."""

    def __init__(self, lab: Lab, lies: bool = False) -> None:
        self._lab, self._lies = lab, lies
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", lab.load().ports["stop_hook"]), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def stop(self, flow: str) -> int:
        """Kill what replicates a flow, with -9; answers how many run now: one that is just dying still does."""
        self.asked.append(flow)
        pid = self._lab.processes.pid(DEDICATED)
        if pid is not None and not self._lies:
            os.kill(pid, signal.SIGKILL)
        return self.running(flow)

    def running(self, flow: str) -> int:
        """How many processes replicate a flow, by its own words."""
        if flow != "->".join(FLOWS["standby"]) or (self._lies and self.asked):
            return 0
        return int(self._lab.processes.pid(DEDICATED) is not None)


def _handler(hook: StopServer) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        """One request."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            self._say({"running": hook.stop(body["flow"])} if self.path == "/stop" else None)

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            self._say({"running": hook.running(parse_qs(asked.query)["flow"][0])} if asked.path == "/state" else None)

        def _say(self, told: dict[str, Any] | None) -> None:
            body = json.dumps(told or {}).encode()
            self.send_response(404 if told is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    return Answering
