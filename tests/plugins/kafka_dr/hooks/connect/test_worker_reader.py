"""What Connect says of a connector besides its state: client settings, tasks' partitions, causes of a failure."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.diagnosis.traces import TraceKind, kind_of_trace
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.connect.connector_state import ConnectorStatus
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

NAME = "flow-source"
CONFIG = {"source.cluster.bootstrap.servers": "a:1", "source.cluster.sasl.jaas.config": "word", "topics": ".*"}
TASKS = [
    {"id": {"connector": NAME, "task": 0}, "config": {"task.assigned.partitions": "orders-0,orders-2", "topics": ".*"}},
    {"id": {"connector": NAME, "task": 1}, "config": {"task.assigned.partitions": "a-b-1"}},
    {"id": {"connector": NAME, "task": 2}, "config": {}},
]
TRACE = """org.apache.kafka.connect.errors.ConnectException: Task failed
\tat org.apache.kafka.connect.runtime.WorkerSourceTask.run(WorkerSourceTask.java:1)
Caused by: org.apache.kafka.common.KafkaException: Failed to create new NetworkClient {filler}
\t... 12 more
Caused by: java.lang.IllegalArgumentException: Login module control flag not specified in JAAS config
\t... 20 more
"""


@pytest.fixture
def worker(server: Any, reply: Any) -> MirrorMaker:
    """A worker with one connector."""
    answers = {"config": CONFIG, "tasks": TASKS}
    server.answer = lambda request: reply(200, answers[request.path.rpartition("/")[2]])
    return MirrorMaker(server.url)


def test_client_settings_are_those_of_one_side(worker: MirrorMaker) -> None:
    """Without the prefix, and with the secrets that `config` hides."""
    assert worker.client_settings(NAME, "source.cluster.") == {"bootstrap.servers": "a:1", "sasl.jaas.config": "word"}
    assert worker.client_settings(NAME, "target.cluster.") == {}
    assert "word" not in worker.config(NAME).values()


def test_every_connector_comes_with_state_and_config(server: Any, reply: Any) -> None:
    """Asked for by one request, after the worker has read its connectors; secrets are hidden."""
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED"}]}
    listed = {NAME: {"status": status, "info": {"config": CONFIG}}}
    server.answer = lambda request: reply(200, listed)
    ((state, config),) = MirrorMaker(server.url).every_connector().values()
    assert (state.name, state.state, state.tasks) == (NAME, "RUNNING", {0: "FAILED"})
    assert config["topics"] == ".*" and "word" not in config.values()


def test_a_task_names_its_partitions(worker: MirrorMaker) -> None:
    """Also of topics with hyphens; a task may have none."""
    assigned = worker.assigned_partitions(NAME)
    assert assigned == {
        0: [TopicPartition("orders", 0), TopicPartition("orders", 2)],
        1: [TopicPartition("a-b", 1)],
        2: [],
    }


def test_the_last_cause_is_kept_of_a_long_trace() -> None:
    """Each line is shortened by itself: the true reason stands at the end."""
    answer = {
        "connector": {"state": "FAILED", "trace": TRACE.replace("{filler}", "x" * 2_000)},
        "tasks": [{"id": 0, "state": "RUNNING"}],
    }
    status = ConnectorStatus.parse(NAME, answer, lambda text: text[:200])
    assert status.traces == {"connector": "org.apache.kafka.connect.errors.ConnectException: Task failed"}
    assert (
        status.causes["connector"].endswith("not specified in JAAS config") and "\tat" not in status.causes["connector"]
    )
    assert kind_of_trace(status.causes["connector"]) is TraceKind.SETTING
