"""Source brokers before 3.8, which list groups without a type: idle groups move like all others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType
from kafka_dr.hooks.brokers.cluster import KafkaCluster

from lab.environment.brokers import admin_client
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, Rehearsal
from lab.rehearsal.unplanned import Accident
from lab.workload.ground_truth import COMMITTED, TopicTruth
from lab.workload.group_positions import ADMIN, MEMBER, STANDALONE, Committer, GroupPlan
from tests.faults.support import always_on
from tests.faults.support.lost_scene import lost_scene
from tests.faults.support.scene import planned_without_findings
from tests.faults.support.stepping import stepping
from tests.support.rehearsals import SEED, kept_if_it_fails

RATE = 1_000
#: 2.8.2 is the oldest that the lab runs; with ZooKeeper, as 3.4.1.
SOURCES = (("3.4.1", "identity"), ("3.7.2", "default"), ("2.8.2", "identity"))
LAGS = (0, 1, 10, 100, 1000)


@pytest.mark.parametrize(("version", "policy"), SOURCES)
def test_idle_groups_move(version: str, policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Known by an admin's commits alone, or left by their members: each is there afterwards, and exact."""
    lab = Lab(fresh_lab(policy, airflow=False, kafka={SOURCE: version}))
    assert lab.status()["clusters"][SOURCE]["kafka_version"] == version
    made = Rehearsal(lab.root, tmp_path / "rehearsal", SEED, RATE, scale=0.3, groups=6)
    try:
        with kept_if_it_fails(lab.root, tmp_path), stepping(lab, tmp_path / "steps") as driver:
            made.seed_topics()
            idle = place_idle_groups(made)
            made.start_clients()
            made.start_load()
            require_types_unstated(lab, idle)
            evidence, verdict = planned_without_findings(made, driver)
    finally:
        made.stop()
    moved = {row["group"] for row in evidence["plan"]["groups"]}
    assert set(made.truth.positions) <= moved and set(idle) <= moved
    assert verdict.figures["acknowledged_by_load"] > RATE


def test_idle_groups_of_a_lost_source_move(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The recorder has seen them, too: the source is killed, and nobody is left behind or skips a record."""
    with lost_scene(fresh_lab("identity", airflow=False, kafka={SOURCE: "3.4.1"}), tmp_path, rate=RATE) as scene:
        for dag_id in (always_on.RECORDER, always_on.WATCHER):
            always_on.start(scene.lab, dag_id)
        scene.rehearsal.seed_topics()
        idle = place_idle_groups(scene.rehearsal)
        scene.rehearsal.start_clients()
        require_types_unstated(scene.lab, idle)
        scene.rehearsal.lose_source(Accident(after=6.0))
        evidence = scene.completed(scene.run())
        verdict = scene.checked(evidence)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert set(idle) <= {row["group"] for row in evidence["plan"]["groups"]}
    assert verdict.figures["positions"] > 0 and verdict.figures["new_records_consumed"] > 0


def place_idle_groups(made: Rehearsal) -> list[str]:
    """Commit positions of groups that have no member afterwards, at lags from 0 to 1,000 records; return the groups."""
    topic = max((one for one in made.truth.topics.values() if is_plain(one)), key=smallest_log)
    ends = {partition: records[-1].offset + 1 for partition, records in topic.records.items()}
    plans = [
        GroupPlan(f"idle-{how}-{lag}", how, {(topic.name, p): max(0, end - lag) for p, end in ends.items()})
        for how in (ADMIN, STANDALONE, MEMBER)
        for lag in LAGS
    ]
    properties = made.status["clusters"][SOURCE]["client_properties"]
    Committer(admin_client(made.lab, SOURCE), properties["consumer"]).commit(plans)
    for plan in plans:
        for (name, partition), offset in plan.positions.items():
            made.truth.place(plan.group, name, partition, offset)
    return [plan.group for plan in plans]


def is_plain(topic: TopicTruth) -> bool:
    """Whether every offset of a topic's logs holds a record, so that the lag is a number of records."""
    records = [record for records in topic.records.values() for record in records]
    return not topic.transactional and not topic.compacted and all(record.state == COMMITTED for record in records)


def smallest_log(topic: TopicTruth) -> int:
    """Return the number of records of the topic's smallest partition."""
    return min(map(len, topic.records.values()), default=0)


def require_types_unstated(lab: Lab, idle: list[str]) -> None:
    """Show what the product has to cope with: no group has a type in the listing, neither idle nor busy.

    The product takes all of them for what they are.
    """
    client = admin_client(lab, SOURCE)
    listing = client.list_consumer_groups().result(30)
    assert not listing.errors
    listed = {group.group_id: group for group in listing.valid}
    assert {group.type for group in listed.values()} == {ConsumerGroupType.UNKNOWN}
    assert {listed[name].is_simple_consumer_group for name in idle} == {True, False}
    found = KafkaCluster(SOURCE, lab.client_properties(SOURCE, "orchestrator")).groups()
    assert set(idle) <= set(listed) == set(found)
    # The worker beside the source has a group of another protocol, which holds no positions.
    assert f"__connect_{SOURCE}" not in found
    assert {group.type for group in found.values()} == {"classic"}
    assert all(found[name].empty for name in idle) and not all(group.empty for group in found.values())
