"""More records for existing topics, each of its topic's kind: clients that go on, wherever they are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lab.workload.ground_truth import GroundTruth, TopicTruth
from lab.workload.topic_shapes import SHAPES, Draft
from lab.workload.writing import TopicWriter, portions_of

#: Large records take long and add nothing; what is cut at its head, or never written, would not go on.
KINDS = {shape.kind: shape for shape in SHAPES if shape.size and not shape.cut and shape.kind != "large"}


def write_more(properties: Mapping[str, Any], truth: GroundTruth, cluster: str, seed: int, count: int) -> GroundTruth:
    """Write records to every topic of a truth that can go on; return the truth of these.

    Args:
        properties: librdkafka keys of a producer on the cluster.
        truth: names the topics.
        cluster: alias to write to.
        seed: makes the records; two seeds share no id.
        count: records a partition.

    Raises:
        NotDelivered: some record was not acknowledged.
    """
    written = GroundTruth(seed, cluster)
    for topic, drafts in _portions(truth, seed, count):
        written.topics[topic.name] = topic
        writer = TopicWriter(properties, topic)
        if topic.transactional:
            writer.write_in_transactions(random.Random(seed), drafts)
        else:
            writer.write([drafts])
        for records in topic.records.values():
            records.sort()
    return written


def leave_transactions_open(
    properties: Mapping[str, Any], truth: GroundTruth, cluster: str, seed: int, count: int, seconds: float
) -> GroundTruth:
    """Write to every transactional topic in a transaction left open; return its records, on which nobody may count.

    Args:
        properties: librdkafka keys of a producer on the cluster.
        truth: names the topics.
        cluster: alias to write to.
        seed: makes the records.
        count: records a partition.
        seconds: after which the cluster aborts the transaction by itself.
    """
    written = GroundTruth(seed, cluster)
    for topic, drafts in _portions(truth, seed, count):
        if topic.transactional:
            written.topics[topic.name] = topic
            TopicWriter(properties, topic).leave_open(drafts, seconds)
    return written


def _portions(truth: GroundTruth, seed: int, count: int) -> Iterator[tuple[TopicTruth, list[Draft]]]:
    """Yield each topic without its records, and its new drafts."""
    for topic in truth.topics.values():
        if topic.kind in KINDS:
            shape = replace(KINDS[topic.kind], size=count, waves=1)
            drafts = [
                draft
                for portion in portions_of(random.Random(seed), shape, f"{topic.name}#{seed}", 1.0)
                for draft in portion
            ]
            yield replace(topic, records={}), drafts
