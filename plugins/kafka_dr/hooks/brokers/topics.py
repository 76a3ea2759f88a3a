"""Topics of one cluster, with their settings, log starts and log ends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any

from confluent_kafka import ElectionType, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as WirePartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, ReadBackFailed
from kafka_dr.hooks.brokers.client import in_batches, send_in_batches
from kafka_dr.hooks.brokers.connection import MOST_AT_ONCE, REQUEST_SECONDS, ClusterConnection
from kafka_dr.hooks.brokers.descriptions import Settings, TopicInfo, TopicToCreate

#: How long a request for log ends waits for one broker, in seconds: the client waits for a leader that has just gone,
#: and learns only for its next request which broker leads now.
_OFFSETS_SECONDS, _LEADERS_SECONDS = 15.0, 5.0
READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"


class ClusterTopics(ClusterConnection):
    """Reads, creates and deletes topics of one cluster; reads log starts and log ends.

    Attributes:
        seen_id: the cluster id in the last answer that listed all topics; None before.
    """

    seen_id: str | None = None

    def topics(self, names: Iterable[str] | None = None, timeout: float = 60.0) -> dict[str, TopicInfo]:
        """Return the given topics by name, or all topics if `names` is None; topics that do not exist are left out."""
        sorted_names = sorted(self._all_topics(timeout) if names is None else set(names))
        descriptions = self._existing(
            "describing topics",
            sorted_names,
            lambda batch: self._admin.describe_topics(TopicCollection(batch), request_timeout=timeout),
            timeout,
        )
        return {name: _topic(description) for name, description in descriptions.items()}

    def partition_count(self, timeout: float = 60.0) -> int:
        """Return the number of partitions of all topics, by one request."""
        return sum(len(topic.partitions) for topic in self._listed(timeout).topics.values())

    def _all_topics(self, timeout: float) -> set[str]:
        answer = self._listed(timeout)
        self.seen_id = answer.cluster_id
        return set(answer.topics)

    def _listed(self, timeout: float) -> ClusterMetadata:
        return self._repeated("listing topics", lambda left: self._admin.list_topics(timeout=left), timeout)

    def configs(self, topics: Iterable[str], timeout: float = 60.0) -> dict[str, Settings]:
        """Return the topics' configurations by topic name; topics that do not exist are left out."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(set(topics))]
        entries_by_topic = self._existing(
            "reading topic configurations",
            resources,
            lambda batch: self._admin.describe_configs(batch, request_timeout=timeout),
            timeout,
        )
        return {resource.name: Settings(entries) for resource, entries in entries_by_topic.items()}

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        assignment: list[list[int]] | None = None,
        timeout: float = REQUEST_SECONDS,
    ) -> bool:
        """Create a topic and wait until every partition has a leader.

        Args:
            replication_factor: -1 for the cluster's default; ignored if `assignment` is given.
            assignment: per partition, the ids of the brokers for its replicas.

        Returns:
            True if the topic was created, False if it already existed.

        Raises:
            ReadBackFailed: the topic has another number of partitions, or after the timeout a partition has no leader.
        """
        replicas = {"replica_assignment": assignment} if assignment else {"replication_factor": replication_factor}
        with self._border(f"creating topic {name!r}"):
            new = NewTopic(name, num_partitions=partitions, config=dict(configs or {}), **replicas)
            future = self._admin.create_topics([new], request_timeout=timeout, operation_timeout=timeout)[name]
        created = self._done(f"creating topic {name!r}", future, timeout, already=KafkaError.TOPIC_ALREADY_EXISTS)
        self._await_partitions({name: partitions}, timeout)
        return created

    def create_topics(self, topics: Mapping[str, TopicToCreate], timeout: float = 60.0) -> None:
        """Create many topics in one request; one that already exists is left as it is.

        After a refusal that passes, such as the quota on changes of the cluster (THROTTLING_QUOTA_EXCEEDED), what was
        refused is requested again. No leader is waited for: `await_leaders` does so once for many requests.
        """

        def send(names: Iterable[str]) -> Iterator[tuple[str, Future[Any]]]:
            new = [
                NewTopic(
                    name,
                    num_partitions=topics[name].partitions,
                    replication_factor=topics[name].replication_factor,
                    config=dict(topics[name].configs),
                )
                for name in names
            ]
            yield from self._admin.create_topics(new, request_timeout=timeout, operation_timeout=timeout).items()

        exists = KafkaError.TOPIC_ALREADY_EXISTS
        for _ in self._settled("creating topics", list(topics), send, timeout, final=exists):
            pass

    def add_partitions(self, totals: Mapping[str, int], timeout: float = 60.0) -> None:
        """Raise many topics' numbers of partitions in one request; a topic with its number of them is left as it is.

        Refusals that pass are requested again, and no leader is waited for, as in `create_topics`. `await_leaders` also
        finds topics with more partitions.
        """

        def send(names: Iterable[str]) -> Iterator[tuple[str, Future[Any]]]:
            new = [NewPartitions(name, totals[name]) for name in names]
            yield from self._admin.create_partitions(new, request_timeout=timeout).items()

        enough = KafkaError.INVALID_PARTITIONS
        for _ in self._settled("adding partitions", list(totals), send, timeout, final=enough):
            pass

    def await_leaders(self, partitions: Mapping[str, int], timeout: float = 60.0) -> None:
        """Wait until each topic has its number of partitions, each with a leader.

        Raises:
            ReadBackFailed: a topic has more partitions, or after the timeout a partition has no leader.
        """
        self._await_partitions(partitions, timeout)

    def create_partitions(
        self, topic: str, total: int, timeout: float = REQUEST_SECONDS, assignment: list[list[int]] | None = None
    ) -> bool:
        """Raise a topic's number of partitions to `total`, and wait until every partition has a leader.

        Args:
            assignment: per new partition, the ids of the brokers for its replicas; None: the cluster chooses.

        Returns:
            True if partitions were added, False if the topic already had `total` partitions.

        Raises:
            BadInput: the topic does not exist.
            ReadBackFailed: the topic has more than `total` partitions, or after the timeout a partition has no leader.
        """
        topic_info = self.topics([topic], timeout).get(topic)
        if topic_info is None:
            raise BadInput(
                f"topic {topic!r} of {self.alias} does not exist",
                f"the topic should get {total} partitions",
                f"find out which client deleted the topic from {self.alias}; no partition was added",
            )
        if len(topic_info.partitions) >= total:
            self._await_partitions({topic: total}, timeout)
            return False
        with self._border(f"adding partitions to {topic!r}"):
            placed = {"replica_assignment": assignment} if assignment else {}
            new = NewPartitions(topic, total, **placed)
            self._admin.create_partitions([new], request_timeout=timeout)[topic].result(timeout + 5)
        self._await_partitions({topic: total}, timeout)
        return True

    def set_config(self, topic: str, name: str, value: str, timeout: float = REQUEST_SECONDS) -> None:
        """Set one setting of a topic, and leave its other settings as they are."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        with self._border(f"setting {name} of topic {topic!r}"):
            self._admin.incremental_alter_configs([resource], request_timeout=timeout)[resource].result(timeout + 5)

    def elect_preferred_leaders(self, topic: str, partitions: Iterable[int], timeout: float = REQUEST_SECONDS) -> None:
        """Let the first replica of each of these partitions lead it; one that leads already, or is away, is left."""
        wanted = [WirePartition(topic, partition) for partition in partitions]
        with self._border(f"electing leaders of topic {topic!r}"):
            # No request_timeout: confluent-kafka 2.16.1 then raises SystemError.
            self._admin.elect_leaders(ElectionType.PREFERRED, wanted).result(timeout + 5)

    def delete_topic(self, name: str, timeout: float = REQUEST_SECONDS) -> bool:
        """Delete a topic and wait until the cluster no longer lists the topic; return whether the topic existed."""
        return bool(self.delete_topics([name], timeout))

    def delete_topics(
        self, names: Iterable[str], timeout: float = REQUEST_SECONDS, ids: Mapping[str, str] | None = None
    ) -> list[str]:
        """Delete topics with all their records, wait until none is listed; return the names of those that existed.

        Args:
            ids: topic -> the id that was noted for it. A drill deletes only topics that still have a noted id.

        Raises:
            OutsideDrill: in a drill, a topic is not in its scope, or has no noted id or another one.
            ReadBackFailed: some topics still exist after the timeout.
        """
        ends_at, sorted_names = time.monotonic() + timeout, sorted(set(names))
        deleted = [
            name for batch in in_batches(sorted_names, MOST_AT_ONCE) for name in self._delete_batch(batch, timeout, ids)
        ]
        while remaining := sorted(self.topics(sorted_names, timeout)) if sorted_names else []:
            if time.monotonic() > ends_at:
                raise ReadBackFailed(
                    f"topics of {self.alias} were deleted, and the cluster still lists them",
                    first_few(remaining, 10),
                    f"wait until kafka-topics.sh --list on {self.alias} lists none of these topics. If a topic is still"
                    " listed after minutes, start the brokers with its replicas, and stop clients that create it again",
                )
            time.sleep(0.1)
        return deleted

    def _delete_batch(self, names: list[str], timeout: float, ids: Mapping[str, str] | None) -> list[str]:
        """Delete topics in one request and return the names of those that existed."""
        noted: dict[str, Any] = {} if self.scope is None else {"topic_ids": ids}
        with self._border(f"deleting {len(names)} topics"):
            futures = self._admin.delete_topics(names, request_timeout=timeout, operation_timeout=timeout, **noted)
        return [
            name
            for name, future in futures.items()
            if self._done(f"deleting topic {name!r}", future, timeout, already=KafkaError.UNKNOWN_TOPIC_OR_PART)
        ]

    def _await_partitions(self, totals: Mapping[str, int], timeout: float) -> None:
        """Wait until each topic has its total of partitions, each with a leader: brokers learn of changes one by one.

        Args:
            totals: number of partitions by topic.
            timeout: seconds for all topics together.
        """
        ends_at, waiting = time.monotonic() + timeout, dict(totals)
        while waiting:
            infos = self.topics(waiting, timeout)
            leaders = {name: list(infos[name].partitions.values()) if name in infos else [] for name in waiting}
            waiting = {
                name: total for name, total in waiting.items() if len(leaders[name]) != total or None in leaders[name]
            }
            too_many = [name for name, total in waiting.items() if len(leaders[name]) > total]
            if waiting and (too_many or time.monotonic() > ends_at):
                topic = next(iter(too_many or waiting))
                counts = f"{len(leaders[topic])} partitions, {leaders[topic].count(None)} without leader"
                others = f"; {len(waiting) - 1} more topics wait for theirs" if len(waiting) > 1 else ""
                raise ReadBackFailed(
                    f"topic {topic!r} of {self.alias} does not have {waiting[topic]} partitions with a leader",
                    counts + others,
                    f"run kafka-topics.sh --describe on {self.alias}. If a partition has no leader, start its brokers."
                    " If the number of partitions is wrong, stop the client that creates or changes this topic",
                )
            if waiting:
                time.sleep(0.1)

    def starts(self, partitions: Iterable[TopicPartition], timeout: float = 60.0) -> dict[TopicPartition, int]:
        """Return the log start by partition; one call takes thousands of partitions."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.earliest()), READ_UNCOMMITTED, timeout)

    def ends(
        self, partitions: Iterable[TopicPartition], isolation: str = READ_UNCOMMITTED, timeout: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Return the log end by partition, or the last stable offset under read_committed; takes many partitions."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.latest()), isolation, timeout)

    def offsets_at(self, times: Mapping[TopicPartition, int], timeout: float = 60.0) -> dict[TopicPartition, int]:
        """Return the first offset whose record has this timestamp (ms since 1970) or a later one, by partition.

        -1: no record of the partition is as new. One call takes thousands of partitions.
        """
        specs = {partition: OffsetSpec.for_timestamp(at) for partition, at in times.items()}
        return self._offsets(specs, READ_UNCOMMITTED, timeout)

    def _offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec], isolation: str, timeout: float
    ) -> dict[TopicPartition, int]:
        """Return an offset by partition; after transient errors, request it again.

        Args:
            wanted: which offset of the partition: log start, log end, or that of a time.
            isolation: under read_committed, the last stable offset is returned as the log end.
        """
        level = {READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED, READ_COMMITTED: IsolationLevel.READ_COMMITTED}[
            isolation
        ]

        attempts = count()

        def ask(partitions: list[TopicPartition]) -> dict[WirePartition, Future[Any]]:
            specs = {WirePartition(*partition): wanted[partition] for partition in partitions}
            seconds = min(timeout, _OFFSETS_SECONDS)
            return self._admin.list_offsets(specs, isolation_level=level, request_timeout=seconds)

        def send(pending: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, Future[Any]]]:
            if next(attempts):
                self._look_up_leaders()
            # The client's time for a request grows with the square of its partitions.
            for wire, future in send_in_batches(list(pending), MOST_AT_ONCE, ask):
                yield TopicPartition(wire.topic, wire.partition), future

        answers = self._settled("listing offsets", dict.fromkeys(wanted), send, timeout)
        return {partition: info.offset for partition, info in answers}

    def _look_up_leaders(self) -> None:
        """Let the client read the leaders of all partitions; it would ask those again that it has known before."""
        # If no broker answers, the next request itself reports the error.
        with suppress(KafkaException):
            self._admin.list_topics(timeout=_LEADERS_SECONDS)


def _topic(description: Any) -> TopicInfo:
    parts = sorted(description.partitions, key=lambda p: p.id)
    return TopicInfo(
        name=description.name,
        topic_id=str(description.topic_id),
        partitions={p.id: p.leader.id if p.leader and p.leader.id >= 0 else None for p in parts},
        replicas={p.id: tuple(node.id for node in p.replicas) for p in parts},
        in_sync={p.id: tuple(node.id for node in p.isr) for p in parts},
        internal=bool(description.is_internal),
    )
