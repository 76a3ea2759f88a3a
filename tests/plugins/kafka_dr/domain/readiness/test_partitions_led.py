"""A partition without leader is a blocker where the procedure needs the partition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.topic_checks import partitions_led

from tests.plugins.kafka_dr.domain.readiness.test_readiness import cluster, seen

ON_TARGET = "orders.of.primary"


@pytest.mark.parametrize("alias", ["primary", "standby"])
@pytest.mark.parametrize(
    ("topic", "needed"),
    [
        ("orders", True),
        (ON_TARGET, True),
        ("__consumer_offsets", True),
        ("__transaction_state", True),
        ("mm2-offset-syncs.standby.internal", True),
        ("private", False),
    ],
)
def test_a_partition_that_the_procedure_needs_must_have_a_leader(alias: str, topic: str, needed: bool) -> None:
    """Topics under both names, MirrorMaker 2's own, and Kafka's states; a topic that does not move is left alone."""
    tp = TopicPartition(topic, 3)
    sides = {name: cluster(name, leaderless=(tp,) if name == alias else ()) for name in ("primary", "standby")}
    observation = seen(source=sides["primary"], target=sides["standby"], scope={"orders": ON_TARGET})
    found = [(blocker.reason, blocker.seen) for blocker in partitions_led(observation)]
    assert found == ([(f"Partitions of {alias} have no leader", str(tp))] if needed else [])


def test_prefixed_copies_of_the_targets_topics_must_have_a_leader() -> None:
    """Groups move with positions on them."""
    tp = TopicPartition("standby.pays", 0)
    observation = replace(seen(source=cluster("primary", leaderless=(tp,))), copies={"standby.pays": "pays"})
    assert [blocker.seen for blocker in partitions_led(observation)] == [str(tp)]
