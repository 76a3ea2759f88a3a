"""What keeps clients from working with topics on the target, or a procedure from reading topics, is a blocker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.observation import TopicView
from kafka_dr.domain.readiness.readiness import find_blockers
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


def test_topics_that_keep_less_are_listed_by_setting() -> None:
    """One blocker a setting names topics, both values and both clusters; a thousand topics stay readable."""
    many = {f"t{n:04}": TopicView("i", 2, 1, {"retention.ms": "9", "retention.bytes": "9"}) for n in range(1000)}
    less = {name: TopicView("j", 2, 1, {"retention.ms": "8", "retention.bytes": "9"}) for name in many}
    pair = seen(
        scope={n: n for n in many}, source=cluster("primary", topics=many), target=cluster("standby", topics=less)
    )
    (blocker,) = [b for b in find_blockers(pair) if b.gate == "target_keeps_as_much"]
    assert "t0000 9 on primary, t0000 8 on standby; " in blocker.seen and blocker.seen.endswith("and 980 more")
    assert blocker.reason == "retention.ms of topics is lower on the target than on the source"
