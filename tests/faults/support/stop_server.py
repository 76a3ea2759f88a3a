"""The stop hook of MirrorMaker 2 in dedicated mode: kills the process by its pid, and counts those that run."""

from __future__ import annotations

import json
import os
import signal
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from lab.environment.connect import FLOWS
from lab.environment.state import DEDICATED, Lab
from tests.support.json_server import JsonHandler, served


class StopServer:
    """Serves `POST /stop` and `GET /state`; if it ``lies``, it reports an end although the process runs."""

    def __init__(self, lab: Lab, lies: bool = False) -> None:
        self._lab, self._lies = lab, lies
        self.asked: list[str] = []
        self._serving = served(_handler(self), lab.load().ports["stop_hook"])

    def __enter__(self) -> Self:
        self._serving.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)

    def stop(self, flow: str) -> int:
        """Kill the process that runs a flow with -9; return how many run now: a killed process may still end."""
        self.asked.append(flow)
        pid = self._lab.processes.pid(DEDICATED)
        if pid is not None and not self._lies:
            os.kill(pid, signal.SIGKILL)
        return self.running(flow)

    def running(self, flow: str) -> int:
        """Return how many processes run a flow, as this hook reports it."""
        if flow != "->".join(FLOWS["standby"]) or (self._lies and self.asked):
            return 0
        return int(self._lab.processes.pid(DEDICATED) is not None)


def _handler(hook: StopServer) -> type[JsonHandler]:
    class Answering(JsonHandler, BaseHTTPRequestHandler):
        """One request."""

        def do_POST(self) -> None:
            body = json.loads(self.content() or b"{}")
            self._say({"running": hook.stop(body["flow"])} if self.path == "/stop" else None)

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            self._say({"running": hook.running(parse_qs(asked.query)["flow"][0])} if asked.path == "/state" else None)

        def _say(self, told: dict[str, Any] | None) -> None:
            self.answer(404 if told is None else 200, told or {})

    return Answering
