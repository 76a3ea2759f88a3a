"""Create topics on the target, and add partitions to topics there: many in one request, under the lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_dr.hooks.brokers.descriptions import TopicToCreate
from kafka_dr.procedure.run import Run

#: Most topics and most partitions in one request; a KRaft controller refuses more than 10,000 partitions.
_TOPICS_AT_ONCE, _PARTITIONS_AT_ONCE = 200, 2_000
_LEADER_SECONDS = 60.0


def create_topics(procedure: Run, topics: Mapping[str, TopicToCreate]) -> None:
    """Create topics on the target; one that already exists is left as it is. The caller has written the intent.

    The lease is checked before each request, and the leaders of all partitions are awaited together.

    Raises:
        ReadBackFailed: a topic has another number of partitions, or after 60 s a partition has no leader.
    """
    counts = {name: topic.partitions for name, topic in topics.items()}
    for names in _batches(counts):
        procedure.authority.hold()
        procedure.systems.target.create_topics({name: topics[name] for name in names})
    procedure.systems.target.await_leaders(counts, _LEADER_SECONDS)


def add_partitions(procedure: Run, totals: Mapping[str, int]) -> None:
    """Raise numbers of partitions of topics on the target to these totals; checks and errors as in `create_topics`."""
    for names in _batches(totals):
        procedure.authority.hold()
        procedure.systems.target.add_partitions({name: totals[name] for name in names})
    procedure.systems.target.await_leaders(totals, _LEADER_SECONDS)


def _batches(counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield the topics in portions that one request takes; a larger topic is a portion by itself.

    Args:
        counts: topic -> number of partitions.
    """
    batch: list[str] = []
    partitions = 0
    for name, count in counts.items():
        if batch and (len(batch) == _TOPICS_AT_ONCE or partitions + count > _PARTITIONS_AT_ONCE):
            yield batch
            batch, partitions = [], 0
        batch.append(name)
        partitions += count
    if batch:
        yield batch
