"""A lab of which a part was killed or stopped, and `up` is called again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from lab.environment.bring_up import up
from lab.environment.connect import call_worker, flow_is_stopped
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.support.lab_clients import SECONDS, client, new_topic, refusals


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab with default naming and without Airflow, in a folder whose name holds a space."""
    state = tmp_path / "a lab"
    try:
        up(state, airflow=False, policy="default")
        yield Lab(state)
    finally:
        down(state)


def test_a_killed_broker_comes_back_with_its_records(lab: Lab) -> None:
    """After kill -9 of it and of a drill's worker nothing restarts them; `up` does, and topics and fence are there."""
    topic = new_topic(lab, "primary")
    killed = lab.status()["clusters"]["primary"]["pids"]
    other = lab.status()["clusters"]["standby"]["pids"]
    for kind in ("broker", "drill"):
        os.kill(killed[kind], signal.SIGKILL)
        wait_until(lambda kind=kind: lab.processes.pid(f"{kind}-primary") is None, f"death of the {kind}", SECONDS)
    time.sleep(1.0)
    dead = {"broker": None, "connect": killed["connect"], "drill": None}
    assert lab.status()["clusters"]["primary"]["pids"] == dead
    up(lab.root, airflow=False)
    assert lab.status()["clusters"]["standby"]["pids"] == other
    assert None not in lab.status()["clusters"]["primary"]["pids"].values()
    assert topic in AdminClient(client(lab, "primary", "admin")).list_topics(timeout=10).topics
    assert refusals(lab, "standby", "primary.lab-readiness") == ["TOPIC_AUTHORIZATION_FAILED"]


def test_up_does_not_undo_what_a_procedure_did(lab: Lab) -> None:
    """`up` starts no stopped connector and raises no lifted fence."""
    assert call_worker(lab, "standby", "PUT", "/connectors/primary-to-standby-source/stop").ok
    wait_until(lambda: flow_is_stopped(lab, "standby"), "the connector to stop", SECONDS)
    up(lab.root, airflow=False)
    assert flow_is_stopped(lab, "standby")
