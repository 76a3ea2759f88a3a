"""A broker that stands still while positions are committed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.group_requests import OK

from lab.environment.state import Lab

TOPIC = "__frozen"
COMMITTER = """
import json, sys
config, topic, count = json.load(sys.stdin)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
cluster = KafkaCluster("standby", config)
started = []
def begun(group, outcomes):
    if not started:
        started.append(print("begun", flush=True))
wanted = {f"frozen-{number}": {TopicPartition(topic, 0): number} for number in range(count)}
results = cluster.commit_many(wanted.items(), on_result=begun)
words = {word for outcomes in results.values() for word in outcomes.values()}
found = {group: {tp: p.offset for tp, p in positions.items()} for group, positions in cluster.positions(wanted).items()}
cluster.delete_groups(wanted)
print(json.dumps([sorted(words), len(results), found == wanted]))
"""


def test_a_broker_that_freezes_and_comes_back_costs_nothing(fresh_lab: Callable[..., Path]) -> None:
    """Requests time out meanwhile; then the same process commits every position."""
    lab = Lab(fresh_lab("identity", airflow=False))
    config = lab.client_properties("standby", "admin")
    KafkaCluster("standby", config).create_topic(TOPIC, 1, 1)
    broker = lab.processes.pid("broker-standby")
    command = [sys.executable, "-c", COMMITTER]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "plugins")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        process.stdin.write(json.dumps([config, TOPIC, 3000]))
        process.stdin.close()
        assert process.stdout.readline() == "begun\n"
        os.kill(broker, signal.SIGSTOP)
        try:
            time.sleep(15)
        finally:
            os.kill(broker, signal.SIGCONT)
        answer = process.stdout.read()
    assert process.returncode == 0
    assert json.loads(answer) == [[OK], 3000, True]
