"""The probe's topic is mended until every broker leads a partition of it."""

from __future__ import annotations

import pytest
from kafka_dr.actions.fencing.probe_topic import probe_partitions
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.vocabulary import PROBE_TOPIC

from tests.support.clusters import Cluster


def cluster_of(brokers: list[int], leaders: dict[int, int | None], replicas: dict[int, tuple[int, ...]]) -> Cluster:
    """Return a cluster whose probe's topic has these leaders and replicas."""
    cluster = Cluster("primary")
    cluster.broker_ids, cluster.partitions[PROBE_TOPIC], cluster.placed[PROBE_TOPIC] = brokers, leaders, replicas
    return cluster


def test_each_broker_has_the_first_partition_that_it_leads() -> None:
    """A broker that leads several partitions is written to once; nothing is changed but the missing setting."""
    cluster = cluster_of([1, 2], {0: 2, 1: 1, 2: 2}, {0: (2,), 1: (1,), 2: (2,)})
    assert probe_partitions(cluster, PROBE_TOPIC) == {1: 1, 2: 0}
    assert len(cluster.partitions[PROBE_TOPIC]) == 3
    assert cluster.settings[PROBE_TOPIC] == {"min.insync.replicas": "1"}


def test_a_missing_topic_is_created() -> None:
    """With a partition for each broker, by the cluster's own number of replicas."""
    cluster = Cluster("primary")
    del cluster.partitions[PROBE_TOPIC]
    assert probe_partitions(cluster, PROBE_TOPIC) == {1: 0}
    assert cluster.settings[PROBE_TOPIC]["min.insync.replicas"] == "1"


def test_a_broker_that_was_added_gets_a_partition() -> None:
    """Its other replicas are on the brokers that follow."""
    cluster = cluster_of([1, 2, 3], {0: 1, 1: 2}, {0: (1, 2), 1: (2, 1)})
    assert probe_partitions(cluster, PROBE_TOPIC) == {1: 0, 2: 1, 3: 2}
    assert cluster.placed[PROBE_TOPIC][2] == (3, 1)


def test_a_partition_that_another_broker_leads_is_given_back() -> None:
    """As after a restart of its preferred leader."""
    cluster = cluster_of([1, 2], {0: 1, 1: 1}, {0: (1, 2), 1: (2, 1)})
    assert probe_partitions(cluster, PROBE_TOPIC) == {1: 0, 2: 1}


def test_a_broker_that_leads_nothing_yet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Just after its start no election makes it a leader: the error may pass."""
    cluster = cluster_of([1, 2], {0: 1, 1: None}, {0: (1,), 1: (2,)})
    monkeypatch.setattr(cluster, "elect_preferred_leaders", lambda *_: None)
    with pytest.raises(KafkaUnavailable, match=r"lead no partition.*brokers \[2\] of primary") as caught:
        probe_partitions(cluster, PROBE_TOPIC)
    assert caught.value.may_pass


def test_a_broker_that_is_away_is_not_asked_for() -> None:
    """Its partition has no leader, and needs none."""
    cluster = cluster_of([1], {0: 1, 1: None}, {0: (1,), 1: (2,)})
    assert probe_partitions(cluster, PROBE_TOPIC) == {1: 0}
