"""The coordinator of a group moves to another broker and back while one process reads the group's positions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab.environment.production.nodes import start_nodes
from lab.environment.production.profile import member_name
from lab.environment.state import Lab
from tests.faults.support.scene import until

ALIAS, TOPIC, GROUP, SECONDS = "standby", "__moving", "moving", 60.0
#: Prints the group's position each time that it reads a line.
READER = """
import json, sys
config, group = json.loads(sys.stdin.readline())
from kafka_dr.hooks.brokers.cluster import KafkaCluster
cluster = KafkaCluster("standby", config)
for line in sys.stdin:
    print([position.offset for position in cluster.positions([group])[group].values()], flush=True)
"""


def test_a_process_that_reads_positions_outlives_a_move_of_the_coordinator(fresh_lab: Callable[..., Path]) -> None:
    """Killed, and back without the group: the broker that was the coordinator answers NOT_COORDINATOR."""
    lab = Lab(fresh_lab("identity", airflow=False, profile="production"))
    config = lab.client_properties(ALIAS, "admin")
    admin = AdminClient(config)
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(SECONDS)
    place = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 7)])
    admin.alter_consumer_group_offsets([place])[GROUP].result(SECONDS)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "plugins")}
    with subprocess.Popen(
        [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as reader:
        reader.stdin.write(json.dumps([config, GROUP]) + "\n")

        def read() -> str:
            reader.stdin.write("read\n")
            reader.stdin.flush()
            return reader.stdout.readline()

        assert read() == "[7]\n"
        first = coordinator(config)
        os.kill(lab.processes.pid(f"broker-{member_name(ALIAS, first)}"), signal.SIGKILL)
        until(lambda: coordinator(config) not in (None, first), "another coordinator", SECONDS)
        start_nodes(lab, ALIAS)
        second = coordinator(config)
        print(f"the coordinator moved from broker {first} to broker {second}", flush=True)
        assert second not in (None, first), "the group has moved back already"
        assert read() == "[7]\n"
        reader.stdin.close()
        assert reader.wait(SECONDS) == 0


def coordinator(config: dict[str, str]) -> int | None:
    """The id of the broker that coordinates the group, as a new client is told; None while the group has none."""
    try:
        client = AdminClient(config)
        return client.describe_consumer_groups([GROUP], request_timeout=5)[GROUP].result(SECONDS).coordinator.id
    except KafkaException:
        return None
