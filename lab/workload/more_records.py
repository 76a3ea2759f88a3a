"""Write more records to existing topics of a workload, to each topic records of its kind."""

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
    """Write new records to the topics of a truth with a kind in `KINDS`; return the truth of the new records.

    Args:
        properties: librdkafka keys of a producer on the cluster.
        truth: the truth that has the topics.
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
    """Write to every transactional topic in a transaction that stays open; return the truth, with aborted records.

    Args:
        properties: librdkafka keys of a producer on the cluster.
        truth: the truth that has the topics.
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
    """Yield, per topic with a kind in `KINDS`, a truth without records, and the drafts to write to the topic."""
    for topic in truth.topics.values():
        if topic.kind in KINDS:
            shape = replace(KINDS[topic.kind], size=count, waves=1)
            drafts = [
                draft
                for portion in portions_of(random.Random(seed), shape, f"{topic.name}#{seed}", 1.0)
                for draft in portion
            ]
            yield replace(topic, records={}), drafts
