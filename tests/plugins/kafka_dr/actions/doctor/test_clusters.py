"""The rights that doctor finds lacking on clusters without topics and groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.doctor.clusters import _Access
from kafka_dr.domain.doctor.rights import CLUSTER_NAME, NEEDED, OPTIONAL, lacking_rights
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules

PRINCIPAL = "User:switchback"
ALL = frozenset(right.operation for right in (*NEEDED, *OPTIONAL))


class Cluster:
    """A cluster, by what its brokers answer; `asked` has the groups whose rights were asked for."""

    def __init__(self, topics: tuple[str, ...] = (), may: frozenset[str] = ALL) -> None:
        self.topics, self.may = topics, may
        self.asked: list[str] = []

    def metadata(self) -> Any:
        """Return the topics that the principal may describe."""
        return SimpleNamespace(leaders={name: {0: 1} for name in self.topics if "describe" in self.may})

    def brokers(self) -> list[Any]:
        """Return one broker."""
        return [SimpleNamespace(id=1)]

    def session_seconds(self, broker: int, groups: list[str]) -> dict[str, float]:
        """Return settings of groups."""
        return dict.fromkeys(groups, 45.0) if "describe_configs" in self.may else {}

    def on_cluster(self) -> frozenset[str]:
        """Return the rights on the cluster."""
        return self.may

    def on_topics(self, names: list[str]) -> dict[str, frozenset[str]]:
        """As brokers: who may not describe a topic is refused, whether it exists or not."""
        if "describe" not in self.may:
            return dict.fromkeys(names, frozenset())
        return {name: self.may for name in names if name in self.topics}

    def on_groups(self, names: list[str]) -> dict[str, frozenset[str]]:
        """As brokers: a group need not exist."""
        self.asked += names
        return dict.fromkeys(names, self.may)


def access_to(cluster: Cluster) -> _Access:
    """The cluster as Switchback's principal sees it."""
    access: Any = _Access.__new__(_Access)
    access.principal, access.rights = PRINCIPAL, cluster
    access.cluster = SimpleNamespace(
        metadata=cluster.metadata,
        brokers=cluster.brokers,
        every_broker=SimpleNamespace(groups=lambda _: {}, session_seconds=cluster.session_seconds),
    )
    return access


def lacking(cluster: Cluster, rules: AclRules | None = None) -> set[tuple[str, str]]:
    """Type and operation of each right that is lacking."""
    found = lacking_rights((*NEEDED, *OPTIONAL), access_to(cluster).allowed(rules))
    return {(one.right.resource_type, one.right.operation) for one in found}


def test_a_cluster_without_any_topic_lacks_nothing_and_stays_empty() -> None:
    """To ask for a group's rights would create the topic of positions."""
    cluster = Cluster()
    assert lacking(cluster) == set() and cluster.asked == []


def test_on_an_empty_cluster_acl_entries_are_judged() -> None:
    """Each operation that no entry allows is named."""
    entries = {
        AclEntry(kind, name, "literal", PRINCIPAL, "*", operation, "allow")
        for kind, name, operation in (
            ("topic", "*", "describe"),
            ("topic", "*", "read"),
            ("group", "*", "all"),
            ("transactional_id", "*", "all"),
            ("cluster", CLUSTER_NAME, "all"),
        )
    }
    found = lacking(Cluster(), AclRules(frozenset(entries)))
    # CREATE on the cluster lets every topic be created.
    assert found == {("topic", o) for o in ("describe_configs", "alter", "delete", "write", "alter_configs")}


def test_who_sees_no_topic_lacks_the_right_to() -> None:
    """Whether there is one or not; and the rights on groups are asked for."""
    cluster = Cluster(topics=("orders", "__consumer_offsets"), may=frozenset())
    assert {("topic", "describe"), ("topic", "read"), ("group", "read")} <= lacking(cluster)
    assert cluster.asked == ["switchback-doctor"]


@pytest.mark.parametrize("topics", [("orders",), ("orders", "__consumer_offsets")])
def test_groups_are_asked_about_only_where_that_creates_nothing(topics: tuple[str, ...]) -> None:
    """Without a group one is asked about that does not exist."""
    cluster = Cluster(topics=topics)
    assert lacking(cluster) == set() and bool(cluster.asked) == ("__consumer_offsets" in topics)
