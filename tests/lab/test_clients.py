"""The demo application's supervisor, on clients that only sleep."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from lab.clients import supervisor
from lab.clients.application import Application, ClientPlan
from lab.clients.supervisor import Supervisor


class Deaf:
    """A client that hears no request to stop, as one whose cluster is dead."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["sleep", "600"])

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        """Kill -9."""
        self._process.kill()


class Pipe:
    """Takes requests that nobody reads."""

    def send(self, _: str) -> None:
        """Nothing comes of it."""


def application(folder: Path, cluster: str, version: int) -> Application:
    """One client, sent to a cluster."""
    routing = folder / "routing.json"
    routing.write_text(json.dumps({"cluster": cluster, "bootstrap_servers": "127.0.0.1:1", "version": version}))
    return Application((ClientPlan("c", ("orders",)),), {cluster: {"producer": {}}}, routing, "http://127.0.0.1:0", {cluster: ()}, folder)


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A supervisor whose client works on primary and is deaf; new clients are only counted."""
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 2.0)
    monkeypatch.setattr(supervisor, "LEAVE_SECONDS", 0.1)
    made = Supervisor(application(tmp_path, "primary", 1))
    client, started = Deaf(), []
    monkeypatch.setattr(made, "_start", lambda plan, route: started.append(route.cluster))
    made._follow()
    made._processes["c"] = (client, Pipe())
    yield made, client, started
    client.kill()
    client.join()


@pytest.mark.parametrize(("cluster", "least", "most"), [("standby", 0.1, 2.0), ("primary", 2.0, 60.0)])
def test_clients_that_are_sent_to_another_cluster_leave_the_old_one_soon(tmp_path: Path, supervised: Any, cluster: str, least: float, most: float) -> None:
    """One that waits for its dead cluster is killed after moments; where the cluster is the same it is given its time."""
    made, client, started = supervised
    application(tmp_path, cluster, 2)
    began = time.monotonic()
    made._follow()
    assert least <= time.monotonic() - began < most and not client.is_alive() and started == ["primary", cluster]
