"""A fence hook that cuts and restores the power of the source's broker and of the worker beside it."""

from __future__ import annotations

import json
import os
import signal
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from lab.environment.brokers import start_broker
from lab.environment.connect import start_worker
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from tests.support.json_server import JsonHandler, served

BY = "its power is cut"
DETAIL = {"rack": 7}
OFF_SECONDS = 5.0


class PowerSwitch:
    """Records the requests (path and body of every POST, in order), and whether the processes may run."""

    def __init__(self, lab: Lab, cluster: str) -> None:
        self._lab, self._cluster = lab, cluster
        self._off = False
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._power_up: Thread | None = None

    def state(self) -> dict[str, Any]:
        """Return the state by the fence hook's contract: fenced only if no process of the cluster runs."""
        return {"fenced": self._off and not self._living(), "by": BY if self._off else "nothing", "detail": DETAIL}

    def posted(self, path: str, body: dict[str, Any]) -> None:
        """Cut the power or restore it; a repeated request changes nothing."""
        self.asked.append((path, body))
        assert body["cluster"] == self._cluster, body
        if path == "/fence":
            self._off = True
            for pid in self._living():
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not self._living(), "the power to be off", OFF_SECONDS)
        elif self._off:
            self._off = False
            # It answers at once: brokers need longer than a request may take.
            self._power_up = Thread(target=self._start, daemon=True)
            self._power_up.start()

    def is_up_again(self) -> bool:
        """Return whether the power was restored and all processes have started."""
        return self._power_up is not None and not self._power_up.is_alive()

    def _living(self) -> list[int]:
        found = (self._lab.processes.pid(f"{kind}-{self._cluster}") for kind in ("broker", "connect"))
        return [pid for pid in found if pid is not None]

    def _start(self) -> None:
        start_broker(self._lab, self._cluster)
        start_worker(self._lab, self._cluster)


def serving(switch: PowerSwitch) -> AbstractContextManager[str]:
    """Serve the hook during the block; yield its URL."""

    class Handler(JsonHandler, BaseHTTPRequestHandler):
        """`POST /fence`, `POST /unfence`, `GET /state`."""

        def do_POST(self) -> None:
            """Act, and answer with the state."""
            switch.posted(self.path, json.loads(self.content()))
            self.answer(200, switch.state())

        def do_GET(self) -> None:
            """Answer with the state."""
            assert urlsplit(self.path).path == "/state", self.path
            self.answer(200, switch.state())

    return served(Handler)
