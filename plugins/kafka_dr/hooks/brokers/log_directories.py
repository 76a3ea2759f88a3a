"""Reads how large logs are from the log directories of every broker, which librdkafka cannot do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.broker_requests import REQUEST_SECONDS, BrokerRequests, raise_code, require_answer
from kafka_dr.hooks.brokers.client import in_batches

with warnings.catch_warnings():
    # Each of its hundred messages would warn in the log of each task.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import ClusterAuthorizationFailedError, for_code
    from kafka.protocol.admin import DescribeLogDirsRequest

#: Topics in one request to each broker.
_TOPICS = 500


class LogDirectories(BrokerRequests):
    """Reads how many bytes the partitions of topics take on the disks of one cluster's brokers.

    Each call connects, and disconnects at its end. It repeats requests after errors that may pass.
    """

    def sizes(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the size of each partition's largest replica, in bytes; topics that do not exist are left out.

        Raises:
            KafkaUnavailable: a broker does not answer, refuses, or cannot read a log directory; or no broker that is up
                holds one of the partitions.
        """
        sizes: dict[TopicPartition, int] = {}
        for batch in in_batches(sorted(set(topics)), _TOPICS):
            sizes |= self._repeated(partial(self._sizes_now, batch))
        return sizes

    def _sizes_now(self, topics: list[str]) -> dict[TopicPartition, int]:
        metadata = self._metadata(topics)
        if not metadata.leaders:
            return {}
        requests = {broker: _describe_log_dirs(metadata.leaders) for broker in metadata.brokers}
        answers = self._all("reading log directories", requests, _sizes_in, REQUEST_SECONDS, "DESCRIBE on the cluster")
        sizes: dict[TopicPartition, int] = {}
        for partition, size in (pair for answer in answers for pair in answer.items()):
            sizes[partition] = max(size, sizes.get(partition, 0))
        wanted = {TopicPartition(topic, number) for topic, led in metadata.leaders.items() for number in led}
        if missing := sorted(wanted - sizes.keys()):
            raise KafkaUnavailable(
                f"reading log directories of {self._alias} failed",
                f"no broker that is up holds {first_few(missing)}",
                f"start the brokers of {self._alias} that hold these partitions",
                may_pass=True,
            )
        return sizes


def _describe_log_dirs(topics: Mapping[str, Iterable[int]]) -> Any:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=sorted(partitions)) for name, partitions in topics.items()]
    )


def _sizes_in(answer: Any) -> dict[TopicPartition, int]:
    """Return partition -> bytes of its replica on the broker; a replica that is being moved here does not count."""
    raise_code(require_answer(answer))
    if not answer.results:
        # Brokers before Kafka 3.2 refuse so.
        raise ClusterAuthorizationFailedError("the broker shows no log directory")
    sizes: dict[TopicPartition, int] = {}
    for folder in answer.results:
        if folder.error_code:
            raise for_code(folder.error_code)(f"log directory {folder.log_dir}")
        for topic in folder.topics:
            for one in topic.partitions:
                if not one.is_future_key:
                    sizes[TopicPartition(topic.name, one.partition_index)] = one.partition_size
    return sizes
