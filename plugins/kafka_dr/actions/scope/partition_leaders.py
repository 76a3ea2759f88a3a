"""Require that partitions have leaders, because a partition without leader can neither be read nor written."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.vocabulary import STATE_TOPICS


def require_leaders(cluster: KafkaCluster, topics: Iterable[str]) -> None:
    """Raise unless all partitions of these topics, and of Kafka's states of groups and transactions, have a leader.

    Raises:
        KafkaUnavailable: partitions have no leader; they may get one, so a step waits for `outage_seconds`.
    """
    infos = cluster.topics({*topics, *STATE_TOPICS})
    leaderless = [tp for _, info in sorted(infos.items()) for tp in info.leaderless]
    if leaderless:
        raise KafkaUnavailable(
            f"Partitions of {cluster.alias} have no leader",
            first_few(leaderless),
            f"Start the brokers of {cluster.alias} that hold replicas of these partitions. The step tries again by"
            " itself; if all tries fail, start a new run once the partitions have a leader.",
            may_pass=True,
        )
