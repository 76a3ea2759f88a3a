"""The stop hook of MirrorMaker 2 without a REST API: ends and starts what runs a flow, and counts it."""

from __future__ import annotations

import json
import os
import signal
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from lab.environment.connect import FLOWS, call_worker, connector_name
from lab.environment.dedicated_mirror_maker import start_dedicated
from lab.environment.state import DEDICATED, Lab
from tests.support.json_server import JsonHandler, served


class StopServer:
    """Serves `POST /stop` and `GET /state` for the process of dedicated mode, which is killed by its pid.

    Args:
        lab: the lab, whose flow primary->standby the hook stops.
        lies: whether it reports an end although the process runs.
        starts: whether it also serves `POST /start`, and says so.
    """

    def __init__(self, lab: Lab, lies: bool = False, starts: bool = False) -> None:
        self.lab, self._lies, self.starts = lab, lies, starts
        self.asked: list[str] = []
        self.started: list[str] = []
        self._serving = served(_handler(self), lab.load().ports["stop_hook"])

    def __enter__(self) -> Self:
        self._serving.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)

    def stop(self, flow: str) -> int:
        """Stop what runs a flow; return how many run now: they may still end."""
        self.asked.append(flow)
        if not self._lies:
            self.end()
        return self.running(flow)

    def start(self, flow: str) -> int:
        """Start what runs a flow, unless it runs; return how many run now."""
        self.started.append(flow)
        if not self.running(flow):
            self.begin()
        return self.running(flow)

    def running(self, flow: str) -> int:
        """Return how many run a flow, as this hook reports it."""
        if flow != "->".join(FLOWS["standby"]) or (self._lies and self.asked):
            return 0
        return self.count()

    def settings(self) -> dict[str, str] | None:
        """Return with which settings the flow starts next; None: this hook does not say."""
        return None

    def end(self) -> None:
        """Kill the process with -9: it may still end when this returns."""
        pid = self.lab.processes.pid(DEDICATED)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def begin(self) -> None:
        """Start the process."""
        start_dedicated(self.lab)

    def count(self) -> int:
        """Return how many processes run."""
        return int(self.lab.processes.pid(DEDICATED) is not None)


class DeletingServer(StopServer):
    """The same for connectors that can be neither stopped nor given offsets: they are deleted and created again.

    So it is with Connect before 3.5, and with services that create and delete connectors only.
    """

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab, starts=True)
        self.names = [connector_name(*FLOWS["standby"], kind) for kind in ("source", "checkpoint")]
        self.configs: dict[str, dict[str, str]] = {}

    def end(self) -> None:
        """Delete the connectors; their offsets stay."""
        for name in self.names:
            answer = self._call("GET", f"/connectors/{name}/config")
            if answer.ok:
                self.configs[name] = answer.json()
                self._call("DELETE", f"/connectors/{name}").raise_for_status()

    def begin(self) -> None:
        """Create them again with the same configuration."""
        for name, config in self.configs.items():
            self._call("POST", "/connectors", {"name": name, "config": config}).raise_for_status()

    def count(self) -> int:
        """Return how many of the connectors the worker has."""
        return len({*self.names} & {*self._call("GET", "/connectors").json()})

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return call_worker(self.lab, "standby", method, path, body)


def _handler(hook: StopServer) -> type[JsonHandler]:
    class Answering(JsonHandler, BaseHTTPRequestHandler):
        """One request."""

        def do_POST(self) -> None:
            flow = json.loads(self.content() or b"{}")["flow"]
            acts = {"/stop": hook.stop, **({"/start": hook.start} if hook.starts else {})}
            self._say(acts[self.path](flow) if self.path in acts else None)

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            self._say(hook.running(parse_qs(asked.query)["flow"][0]) if asked.path == "/state" else None)

        def _say(self, running: int | None) -> None:
            state: dict[str, Any] = {"running": running, **({"starts": True} if hook.starts else {})}
            state |= {"settings": kept} if (kept := hook.settings()) is not None else {}
            self.answer(404 if running is None else 200, {} if running is None else state)

    return Answering
