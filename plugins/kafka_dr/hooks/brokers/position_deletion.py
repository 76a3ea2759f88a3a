"""Deletes single positions of groups, which librdkafka's Python client cannot do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.broker_requests import READS, REQUEST_SECONDS, BrokerRequests, raise_code, require_answer

with warnings.catch_warnings():
    # Each of its hundred messages would warn in the log of each task.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import GroupIdNotFoundError, for_code
    from kafka.protocol.consumer import OffsetDeleteRequest

_GROUP = 0


class PositionDeletion(BrokerRequests):
    """Deletes positions of groups on one cluster, by each group's coordinator."""

    sends = READS | {"OffsetDeleteRequest"}

    def delete(self, positions: Mapping[str, Iterable[TopicPartition]]) -> dict[str, KafkaUnavailable]:
        """Delete positions by group; return the error of each group that the brokers refuse.

        A position that does not exist counts as deleted. Brokers refuse a group that subscribes to the topic.

        Raises:
            KafkaUnavailable: a broker does not answer, or cannot do so now; positions of other groups may be deleted.
        """
        if self._scope is not None:
            for group in positions:
                self._scope.require_group(group, f"deleting positions of {group!r}")
        refused: dict[str, KafkaUnavailable] = {}
        try:
            for group, partitions in positions.items():
                try:
                    self._tried_again(partial(self._delete, group, list(partitions)))
                except KafkaUnavailable as error:
                    if error.may_pass:
                        raise
                    refused[group] = error
        finally:
            self.close()
        return refused

    def _delete(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
        by_topic: dict[str, list[Any]] = {}
        for name, number in partitions:
            by_topic.setdefault(name, []).append(topic.OffsetDeleteRequestPartition(partition_index=number))
        request = OffsetDeleteRequest(
            group_id=group, topics=[topic(name=name, partitions=parts) for name, parts in by_topic.items()]
        )
        what, needs = f"deleting positions of {group!r}", f"DELETE on the group {group!r}, and READ on its topics,"
        coordinator = self._coordinator(group, _GROUP, f"DESCRIBE on the group {group!r}")
        self._all(what, {coordinator: request}, _no_error_in, REQUEST_SECONDS, needs)


def _no_error_in(answer: Any) -> None:
    if for_code(require_answer(answer).error_code) is GroupIdNotFoundError:
        return
    raise_code(answer)
    for topic in answer.topics:
        for partition in topic.partitions:
            raise_code(partition)
