"""Coordinators of groups move while groups are listed and positions are read: brokers restart one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.group_requests import OK

from lab.environment.production.profile import BROKERS
from lab.environment.state import Lab
from tests.faults.processes.looking import Looking, look_while_brokers_restart

ALIAS, TOPIC, POSITION = "standby", "groups-listed", 7
GROUPS = frozenset(f"listed-{n:03d}" for n in range(200))
#: Brokers restart so often, one after the other.
ROUNDS = 3


class ListingGroups(Looking):
    """Lists groups again and again, and reads their positions; counts what is missing."""

    def __init__(self, cluster: KafkaCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.missing, self.unplaced = Counter[int](), Counter[int]()

    def look(self) -> None:
        """List the groups, and read their positions."""
        self.missing[len(GROUPS - set(self._cluster.groups()))] += 1
        positions, place = self._cluster.positions(GROUPS), TopicPartition(TOPIC, 0)
        self.unplaced[sum(place not in positions.get(group, {}) for group in GROUPS)] += 1


def test_no_group_is_missing_while_brokers_restart(fresh_lab: Callable[..., Path]) -> None:
    """A group that is missing in a list would be left behind, or its position taken for lost."""
    lab = Lab(fresh_lab("identity", airflow=False, profile="production"))
    cluster = KafkaCluster(ALIAS, lab.client_properties(ALIAS, "admin"))
    cluster.create_topic(TOPIC, 1, len(BROKERS))
    committed = cluster.commit_many((group, {TopicPartition(TOPIC, 0): POSITION}) for group in GROUPS)
    assert {error for outcomes in committed.values() for error in outcomes.values()} == {OK}
    listing = [ListingGroups(KafkaCluster(ALIAS, lab.client_properties(ALIAS, "admin"))) for _ in range(2)]
    look_while_brokers_restart(lab, ALIAS, listing, ROUNDS)
    seen = [(dict(one.missing), dict(one.unplaced), dict(one.errors)) for one in listing]
    print(f"groups missing, groups without position, errors: {seen}", flush=True)
    for one in listing:
        assert set(one.missing) == {0} and set(one.unplaced) == {0}
        assert one.missing[0] > 10 and not one.errors
