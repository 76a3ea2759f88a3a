"""The topic on each cluster that names its environment: a drill runs only on clusters of its own environment."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from lab.environment.brokers import admin_client
from lab.environment.state import Lab

#: The lab's environment, as the topology names it.
ENVIRONMENT = "lab"
MARKER = f"__switchback_environment.{ENVIRONMENT}"
REQUEST_SECONDS = 30.0


def mark_environment(lab: Lab, alias: str) -> None:
    """Create a cluster's marker, a topic without records, unless the cluster has it."""
    client = admin_client(lab, alias)
    try:
        # Not only if it is not listed: a broker with ZooKeeper that has just started does not list every topic yet.
        client.create_topics([NewTopic(MARKER, 1)])[MARKER].result(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
