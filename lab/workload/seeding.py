"""Create a workload on one cluster, and wait until the other cluster has the workload's topics."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from lab.workload.ground_truth import REMOVED, GroundTruth, TopicTruth
from lab.workload.group_positions import Committer, GroupPlanner, PartitionSpan
from lab.workload.topic_shapes import SHAPES, Shape, topic_name
from lab.workload.writing import TopicWriter, portions_of

REQUEST_SECONDS = 30.0
CLEANER_SECONDS = 60.0
MIRROR_SECONDS = 60.0
SEGMENT_PAUSE = 0.6
WRITERS = 4


class Workload:
    """Topics, records and groups drawn from a seed, to be created on one cluster.

    Args:
        seed: equal seeds give equal topics, records and positions.
        status: the lab's status document.
        cluster: alias of the cluster to write to.
        scale: factor on the number of records; 1.0 gives about 55,000 records.
        kinds: kinds of topics to create (`Shape.kind`); None for all.
        groups: maximum number of groups, drawn at random from all planned groups; None for all.
    """

    def __init__(
        self, seed: int, status: Mapping[str, Any], cluster: str = "primary", scale: float = 1.0,
        kinds: Iterable[str] | None = None, groups: int | None = None,
    ) -> None:  # fmt: skip
        self._rng = random.Random(seed)
        self._scale = scale
        self._groups = groups
        self._properties = status["clusters"][cluster]["client_properties"]
        # Brokers have group.protocol=consumer from 4.0 on.
        self._new_protocol = not status["clusters"][cluster]["kafka_version"].startswith(("2.", "3."))
        self._admin = AdminClient({**self._properties["admin"], "log_level": 3})
        self._shapes = [shape for shape in SHAPES if kinds is None or shape.kind in set(kinds)]
        self.truth = GroundTruth(seed, cluster)

    def create(self) -> GroundTruth:
        """Create topics, write records, wait for the log cleaner, commit groups' positions; return the ground truth."""
        shapes = {topic_name(self._rng, shape): shape for shape in self._shapes}
        self._create_topics(shapes)
        self._write(shapes)
        self._cut_heads(shapes)
        spans = self._spans([name for name, shape in shapes.items() if shape.compacted])
        plans = list(GroupPlanner(self._rng, spans, self._new_protocol).plans(self.truth.topics.values()))
        if self._groups is not None:
            plans = self._rng.sample(plans, min(self._groups, len(plans)))
        Committer(self._admin, self._properties["consumer"]).commit(plans)
        for plan in plans:
            for (topic, partition), offset in plan.positions.items():
                self.truth.place(plan.group, topic, partition, offset)
            self.truth.notes[plan.group] = plan.how
        return self.truth

    def _create_topics(self, shapes: Mapping[str, Shape]) -> None:
        for name, shape in shapes.items():
            self.truth.topics[name] = TopicTruth(
                name,
                shape.kind,
                shape.partitions,
                shape.compacted,
                shape.transactional,
                "message.timestamp.type" not in shape.configs,
            )
        new = [NewTopic(name, shape.partitions, -1, config=shape.configs) for name, shape in shapes.items()]
        for future in self._admin.create_topics(new, request_timeout=REQUEST_SECONDS).values():
            future.result()

    def _write(self, shapes: Mapping[str, Shape]) -> None:
        # One seed per topic, drawn before the threads start: the order of threads must not change the records.
        seeds = {name: self._rng.randrange(2**32) for name in shapes}
        with ThreadPoolExecutor(WRITERS) as pool:
            futures = [
                pool.submit(self._write_topic, name, shape, random.Random(seeds[name]))
                for name, shape in shapes.items()
            ]
        for future in futures:
            future.result()

    def _write_topic(self, name: str, shape: Shape, rng: random.Random) -> None:
        truth = self.truth.topics[name]
        writer = TopicWriter(self._properties["producer"], truth)
        portions = portions_of(rng, shape, name, self._scale)
        if shape.transactional:
            writer.write_in_transactions(rng, [draft for portion in portions for draft in portion])
        else:
            writer.write(portions, pause=SEGMENT_PAUSE)
        for records in truth.records.values():
            records.sort()

    def _cut_heads(self, shapes: Mapping[str, Shape]) -> None:
        # These records are deleted on the source before any failover and do not count as lost.
        for name, shape in shapes.items():
            for partition, records in self.truth.topics[name].records.items() if shape.cut else ():
                keep = int(len(records) * shape.cut)
                cut = {TopicPartition(name, partition, records[keep].offset): None}
                for future in self._admin.delete_records(list(cut), request_timeout=REQUEST_SECONDS).values():
                    future.result()
                records[:keep] = [record._replace(state=REMOVED) for record in records[:keep]]

    def _spans(self, compacted: list[str]) -> dict[tuple[str, int], PartitionSpan]:
        deadline = time.monotonic() + CLEANER_SECONDS
        while True:
            spans = {
                (name, p): self._span(name, p)
                for name, topic in self.truth.topics.items()
                for p in range(topic.partitions)
            }
            waiting = [place for place, span in spans.items() if place[0] in compacted and not span.holes]
            if not waiting:
                return spans
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"the log cleaner of {self.truth.cluster} removed no record of these partitions within"
                    f" {CLEANER_SECONDS:.0f} s: {waiting}; read the broker's log of {self.truth.cluster}"
                )
            time.sleep(0.5)

    def _span(self, topic: str, partition: int) -> PartitionSpan:
        start, end = (self._offset(topic, partition, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
        # Only the log of a compacted topic can have fewer records than were acknowledged.
        if self.truth.topics[topic].compacted:
            return PartitionSpan(start, end, frozenset(self._read_offsets(topic, partition, start)))
        return PartitionSpan(
            start, end, frozenset(record.offset for record in self.truth.topics[topic].records.get(partition, []))
        )

    def _offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        topic_partition = TopicPartition(topic, partition)
        return int(
            self._admin.list_offsets({topic_partition: spec}, request_timeout=REQUEST_SECONDS)[topic_partition]
            .result()
            .offset
        )

    def _read_offsets(self, topic: str, partition: int, start: int) -> list[int]:
        settings = {
            "group.id": "lab-check",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        consumer = Consumer({**self._properties["admin"], **settings})
        consumer.assign([TopicPartition(topic, partition, start)])
        offsets: list[int] = []
        try:
            while True:
                messages: list[Any] = consumer.consume(5000, 1.0)
                for message in messages:
                    if message.error() is None:
                        offsets.append(message.offset())
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        return offsets
        finally:
            consumer.close()


def await_mirrored(
    status: Mapping[str, Any], cluster: str, topics: Mapping[str, int], seconds: float = MIRROR_SECONDS
) -> None:
    """Wait until a cluster has all the given topics, each with its number of partitions.

    Args:
        status: the lab's status document.
        cluster: alias of the target.
        topics: partition counts, by the topics' names on the target.
        seconds: time to wait at most.

    Raises:
        TimeoutError: some topics are still absent, or have another number of partitions; the text names these topics.
    """
    admin = AdminClient(dict(status["clusters"][cluster]["client_properties"]["admin"]))
    deadline = time.monotonic() + seconds
    while True:
        partition_counts = {
            name: len(topic.partitions) for name, topic in admin.list_topics(timeout=REQUEST_SECONDS).topics.items()
        }
        absent = [name for name, count in topics.items() if partition_counts.get(name) != count]
        if not absent:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{cluster} does not have the topics {', '.join(absent[:5])} with all partitions after {seconds:.0f} s;"
                " read MirrorMaker 2's log"
            )
        time.sleep(0.25)
