"""Write more records to the topics of a workload, to each topic records of the topic's kind."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lab.workload.ground_truth import GroundTruth, TopicTruth
from lab.workload.topic_shapes import SHAPES, Draft
from lab.workload.writing import TopicWriter, portions_of

#: Kinds of topics that get more records: not large topics (slow), cut topics, or empty topics.
KINDS = {shape.kind: shape for shape in SHAPES if shape.size and not shape.cut and shape.kind != "large"}


def write_more(properties: Mapping[str, Any], truth: GroundTruth, cluster: str, seed: int, count: int) -> GroundTruth:
    """Write new records to a workload's topics of the kinds in `KINDS`; return the ground truth of the new records.

    Args:
        properties: librdkafka settings of a producer on the cluster.
        truth: the workload's ground truth, which has the topics.
        cluster: alias of the cluster to write to.
        seed: seed of the records; records of two seeds have no id in common.
        count: records per partition.

    Raises:
        NotDelivered: a record was not acknowledged.
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
    """Write records to each transactional topic, in a transaction that stays open until the cluster aborts it.

    Return the ground truth of these records, in which all are aborted.

    Args:
        properties: librdkafka settings of a producer on the cluster.
        truth: the workload's ground truth, which has the topics.
        cluster: alias of the cluster to write to.
        seed: seed of the records.
        count: records per partition.
        seconds: transaction timeout, after which the cluster aborts the transactions.
    """
    written = GroundTruth(seed, cluster)
    for topic, drafts in _portions(truth, seed, count):
        if topic.transactional:
            written.topics[topic.name] = topic
            TopicWriter(properties, topic).leave_open(drafts, seconds)
    return written


def _portions(truth: GroundTruth, seed: int, count: int) -> Iterator[tuple[TopicTruth, list[Draft]]]:
    """Yield, per topic of a kind in `KINDS`, the topic's ground truth without records, and the drafts to write."""
    for topic in truth.topics.values():
        if topic.kind in KINDS:
            shape = replace(KINDS[topic.kind], size=count, waves=1)
            drafts = [
                draft
                for portion in portions_of(random.Random(seed), shape, f"{topic.name}#{seed}", 1.0)
                for draft in portion
            ]
            yield replace(topic, records={}), drafts
