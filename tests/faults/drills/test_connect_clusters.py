"""A drill knows a Connect cluster by what its workers answer, and leaves no offsets in it while it rebalances."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.hooks.connect.drill_connectors import DrillConnectors
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint

from lab.environment.bring_up import up
from lab.environment.connect import WorkerProcess, call_url, call_worker, flow_worker, serve_worker
from lab.environment.drills.worker import drill_worker
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.support.stepping import Run, Stepping

PARAMS = {"source": "primary", "target": "standby", "reason": "which Connect cluster is it?", "kind": "canary"}
NAME = "switchback-drill.0123456789.primary-standby.source"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab without Airflow."""
    state = tmp_path_factory.mktemp("lab")
    try:
        up(state, airflow=False)
        yield Lab(state)
    finally:
        down(state)


@pytest.fixture
def driver(lab: Lab, tmp_path: Path) -> Iterator[Stepping]:
    """Steps on the lab."""
    with Stepping(lab, tmp_path) as made:
        yield made


def second_of(lab: Lab, worker: WorkerProcess) -> WorkerProcess:
    """Start another worker of a worker's group, at an address of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    made = replace(worker, name=f"{worker.name}-second", url=url, heap="256m")
    serve_worker(lab, made)
    return made


def opened_with(driver: Stepping, alias: str, url: str) -> str:
    """Open a drill whose connection for a cluster's drills leads to a worker; return what became of the step."""
    connection = {"conn_type": "http", "host": url}
    driver.environment[f"AIRFLOW_CONN_CONNECT_DRILL_{alias.upper()}"] = json.dumps(connection)
    run = Run(PARAMS, dag_id="failover_drill")
    return f"{driver.step(run, 'open_procedure')}: {run.texts.get('open_procedure', '')}"


def spellings(url: str) -> list[str]:
    """Return the address of one worker in several forms."""
    return [f"{url}/", url.replace("127.0.0.1", "LOCALHOST")]


def test_workers_that_are_no_drills_own_are_refused_by_name(lab: Lab, driver: Stepping) -> None:
    """Production's worker at any spelling of its address, another worker of its group, one worker for both clusters."""
    production = flow_worker(lab, "standby")
    second = second_of(lab, production)
    before = {alias: call_worker(lab, alias, "GET", "/connectors").json() for alias in ("primary", "standby")}
    for url in (*spellings(production.url), second.url):
        refused = opened_with(driver, "standby", url)
        assert refused.startswith("refused") and "workers of one Connect cluster: both list" in refused, (url, refused)
        assert "connect_drill_standby and connect_standby" in refused
    refused = opened_with(driver, "standby", lab.drill_connect_url("primary"))
    assert "connect_drill_standby keeps its topics in the Kafka cluster" in refused, refused
    assert before == {alias: call_worker(lab, alias, "GET", "/connectors").json() for alias in before}
    # The drill's own worker: what refuses a drill, if anything does, is not its Connect cluster.
    assert opened_with(driver, "standby", lab.drill_connect_url("standby")).startswith("done")


def offsets_of(lab: Lab, url: str) -> Any:
    """Return what a Connect cluster stores of the drill's connector; [] if nothing."""
    return call_url(lab, "GET", f"{url}/connectors/{NAME}/offsets").json()["offsets"]


def test_a_connector_of_a_group_that_rebalances_is_deleted_with_its_offsets(lab: Lab) -> None:
    """The stop of its tasks makes both workers rebalance, and so does a worker that joins."""
    worker = drill_worker(lab, "standby")
    second = second_of(lab, worker)
    config = call_worker(lab, "standby", "GET", "/connectors/primary-to-standby-source/config").json()
    config |= {"name": NAME, "topics": "heartbeats", "topics.exclude": "none", "replication.policy.separator": ".x."}
    for url in (worker.url, second.url):
        connectors = DrillConnectors(ConnectEndpoint(url))
        connectors.create(NAME, config, runs=True)
        wait_until(partial(offsets_of, lab, url), f"offsets of {NAME}", 90)
        connectors.delete(NAME)
        connectors.create(NAME, config, runs=False)
        assert offsets_of(lab, url) == []
        connectors.delete(NAME)
        assert call_url(lab, "GET", f"{url}/connectors").json() == []
