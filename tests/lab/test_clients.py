"""The demo application's supervisor on clients that only sleep, and its view of a cluster."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.source_probe import SourceProbe

from lab.clients import supervisor
from lab.clients.application import Application, ClientPlan
from lab.clients.drain_hook import serve_hooks
from lab.clients.supervisor import Supervisor
from lab.environment.state import Lab, LabRecord
from lab.environment.topology_file import topology_settings


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


def application(folder: Path, cluster: str, version: int, servers: str = "127.0.0.1:1") -> Application:
    """One client, sent to a cluster."""
    routing = folder / "routing.json"
    routing.write_text(json.dumps({"cluster": cluster, "bootstrap_servers": servers, "version": version}))
    return Application(
        (ClientPlan("c", ("orders",)),),
        {cluster: {"producer": {}}},
        routing,
        "http://127.0.0.1:0",
        {cluster: ()},
        folder,
    )


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
def test_clients_that_are_sent_to_another_cluster_leave_the_old_one_soon(
    tmp_path: Path, supervised: Any, cluster: str, least: float, most: float
) -> None:
    """A client that waits for its dead cluster is soon killed; on the same cluster it is given its time."""
    made, client, started = supervised
    application(tmp_path, cluster, 2)
    began = time.monotonic()
    made._follow()
    assert least <= time.monotonic() - began < most and not client.is_alive() and started == ["primary", cluster]


def listening(backlog: int = 64) -> socket.socket:
    """A port that takes connections and is silent."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(backlog)
    return server


def test_a_source_that_hangs_is_told_as_gone_in_time(tmp_path: Path) -> None:
    """By the product's own probe, within what it waits; where nobody serves the hook, nothing is said."""
    with listening() as source, listening() as free:
        made = application(tmp_path, "primary", 1, f"127.0.0.1:{source.getsockname()[1]}")
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        free.close()
        began = time.monotonic()
        with serve_hooks(url, Supervisor(made)):
            seen = SourceProbe(url).view(10.0)
        assert (seen.reachable, seen.writable) == (False, None) and time.monotonic() - began < 10
        with pytest.raises(HookUnavailable):
            SourceProbe(url).view(1.0)


def test_a_source_that_answers_is_told_as_reachable(tmp_path: Path) -> None:
    """Of the cluster that the routing record names, by its own client's mock broker."""
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored"})
    servers = cluster.list_topics(timeout=10).brokers[1]
    made = application(tmp_path, "standby", 7, f"{servers.host}:{servers.port}")
    found = Supervisor(made).source()
    assert found == {"reachable": True, "writable": None, "detail": f"{servers.host}:{servers.port}: 1 brokers"}


def test_the_labs_topology_names_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Served where the drain hook is."""
    lab = Lab(tmp_path)
    monkeypatch.setattr(lab, "load", lambda: LabRecord("identity", "read_committed", {}, {}, {}, {}))
    named = topology_settings(lab)
    assert named["source_probe"] == named["drain"]
