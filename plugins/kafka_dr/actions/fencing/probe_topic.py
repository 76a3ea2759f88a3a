"""The probe's topic, of which every broker leads a partition, so that each broker is seen to refuse a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_dr.domain.fencing.probe_partitions import led_by, misled_partitions, missing_assignment
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster

#: A broker with a larger default refuses writes to a partition with a single replica, or while other brokers are away.
_CONFIGS = {"retention.ms": "3600000", "min.insync.replicas": "1"}


def probe_partitions(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    """Return broker id -> a partition of the probe's topic that the broker leads, for every live broker.

    What keeps a broker from leading a partition is mended first: a missing topic is created, a broker without a
    partition of its own gets one, and a partition that another broker leads is given back.

    Raises:
        KafkaUnavailable: a broker leads no partition yet, as just after its start.
    """
    brokers = sorted(broker.id for broker in cluster.brokers())
    if topic not in cluster.topics([topic]):
        make_probe_topic(cluster, topic, brokers)
    settings = cluster.configs([topic]).get(topic)
    if settings is not None and settings.get("min.insync.replicas") != "1":
        cluster.set_config(topic, "min.insync.replicas", "1")
    info = cluster.topics([topic])[topic]
    if assignment := missing_assignment(brokers, info.replicas):
        cluster.create_partitions(topic, len(info.replicas) + len(assignment), assignment=assignment)
        info = cluster.topics([topic])[topic]
    if misled := misled_partitions(brokers, info.replicas, info.partitions):
        cluster.elect_preferred_leaders(topic, misled)
        info = cluster.topics([topic])[topic]
    led = led_by(brokers, info.partitions)
    if unproven := sorted(set(brokers) - set(led)):
        raise KafkaUnavailable(
            "Some brokers lead no partition of the probe's topic",
            f"brokers {unproven} of {cluster.alias}",
            f"A broker that has just started leads its partition of {topic} after some seconds, and the step tries"
            f" again by itself. If these brokers still lead none, run kafka-topics.sh --describe on {cluster.alias},"
            " and correct what keeps them from the list of in-sync replicas.",
            may_pass=True,
        )
    return led


def make_probe_topic(cluster: KafkaCluster, topic: str, brokers: Sequence[int], **limits: Any) -> None:
    """Create the probe's topic with a partition for each broker, and as many replicas as the cluster gives a topic.

    Args:
        brokers: ids of the cluster's brokers.
        limits: further arguments of `create_topic`, such as its timeout.
    """
    cluster.create_topic(topic, len(brokers), configs=_CONFIGS, **limits)
