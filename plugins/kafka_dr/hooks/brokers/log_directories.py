"""Runs Kafka's own tool for log directories, because the Python client cannot read how large logs are."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.domain.kafka_model.log_sizes import log_sizes
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.client import in_batches
from kafka_dr.hooks.brokers.java_tool import KafkaTool

#: Topics per run of the tool: 500 names of the greatest length still fit into one argument of a command line.
_TOPICS = 500


class LogDirTool(KafkaTool):
    """Reads how many bytes the partitions of topics take on the disks of one cluster's brokers."""

    main = "org.apache.kafka.tools.LogDirsCommand"
    rights = "DESCRIBE on the cluster"
    commands = {"--describe": ""}

    def sizes(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the size of each partition's largest replica, in bytes; topics that do not exist are left out."""
        sizes: dict[TopicPartition, int] = {}
        for batch in in_batches(sorted(set(topics)), _TOPICS):
            sizes |= log_sizes(self._run("--describe", f"--topic-list={','.join(batch)}"), self._alias)
        return sizes
