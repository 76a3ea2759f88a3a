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
    """After kill -9 of a broker nothing restarts it; `up` does, and its topics, fence and flow are as before."""
    topic = new_topic(lab, "primary")
    killed = lab.status()["clusters"]["primary"]["pids"]["broker"]
    other = lab.status()["clusters"]["standby"]["pids"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: lab.processes.pid("broker-primary") is None, "the broker's death", SECONDS)
    time.sleep(1.0)
    assert lab.status()["clusters"]["primary"]["pids"]["broker"] is None
    up(lab.root, airflow=False)
    assert lab.status()["clusters"]["standby"]["pids"] == other
    assert topic in AdminClient(client(lab, "primary", "admin")).list_topics(timeout=10).topics
    assert refusals(lab, "standby", "primary.lab-readiness") == ["TOPIC_AUTHORIZATION_FAILED"]


def test_up_does_not_undo_what_a_procedure_did(lab: Lab) -> None:
    """`up` starts no stopped connector and raises no lifted fence."""
    assert call_worker(lab, "standby", "PUT", "/connectors/primary-to-standby-source/stop").ok
    wait_until(lambda: flow_is_stopped(lab, "standby"), "the connector to stop", SECONDS)
    up(lab.root, airflow=False)
    assert flow_is_stopped(lab, "standby")
