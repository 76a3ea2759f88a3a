"""AdminClient in a drill: whatever is called with whatever names, nothing outside the scope is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from copy import copy
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.acl import AclEntry, Authorizer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition as Place
from kafka_dr.errors import OutsideDrill
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.drill import admin_client as guard
from kafka_dr.hooks.drill.admin_client import AUTHORIZER_TEST, CHECKS, READS, DrillAdmin

from tests.support.drills.scopes import FOREIGN, NAMES, ORDERS, READERS, scope

#: Changes that no drill needs: DrillAdmin refuses them, whatever their arguments.
NEVER = {"alter_user_scram_credentials", "set_sasl_credentials"}
#: Changes with a method of their own in DrillAdmin.
OWN = {"delete_topics", "elect_leaders"}
NOWHERE = {"bootstrap.servers": "127.0.0.1:9"}
OURS = sorted(scope().topics)


def done(result: Any = None) -> Future[Any]:
    """Return an answered request."""
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class Sent:
    """Stands in for the library's client: keeps each request that is sent, with the names in it."""

    def __init__(self, _: Any = None) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.ids: dict[str, str] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def send(changed: Any = (), **options: Any) -> dict[Any, Future[Any]]:
            self.requests.append((name, changed))
            return {_key(change): done([]) for change in changed}

        return send

    def describe_topics(self, names: Any, **_: Any) -> dict[str, Future[Any]]:
        """Return ids; a topic without one does not exist."""
        found = {}
        for name in names.topic_names:
            found[name] = done(SimpleNamespace(topic_id=self.ids.get(name)))
            if name not in self.ids:
                found[name] = Future()
                found[name].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return found


def _key(change: Any) -> Any:
    return getattr(change, "topic", getattr(change, "group_id", change if isinstance(change, str) else id(change)))


def acl(kind: Any, restype: Any, name: Any, pattern: Any) -> Any:
    """Return an ACL entry, or a filter of entries, on a resource."""
    return kind(restype, name, pattern, "User:app", "*", AclOperation.READ, AclPermissionType.ALLOW)


#: By method: makes the element of its first argument that names `name`.
ARGUMENTS: dict[str, Callable[[str], Any]] = {
    "create_topics": lambda name: NewTopic(name or "-", 1),
    "create_partitions": lambda name: NewPartitions(name or "-", 4),
    "delete_topics": lambda name: name,
    "delete_records": lambda name: TopicPartition(name, 0, 5),
    "alter_configs": lambda name: ConfigResource(ConfigResource.Type.TOPIC, name or "-"),
    "incremental_alter_configs": lambda name: ConfigResource(ConfigResource.Type.TOPIC, name or "-"),
    "create_acls": lambda name: acl(AclBinding, ResourceType.TOPIC, name, ResourcePatternType.LITERAL),
    "delete_acls": lambda name: acl(AclBindingFilter, ResourceType.TOPIC, name, ResourcePatternType.LITERAL),
    "alter_consumer_group_offsets": lambda name: ConsumerGroupTopicPartitions(
        READERS, [TopicPartition(name or "-", 0, 5)]
    ),
    "delete_consumer_groups": lambda name: READERS if name in OURS else name,
}


#: The library's own objects cannot hold a NUL: they raise ValueError before a request is made.
# librdkafka takes texts that UTF-8 has.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


def test_every_method_of_the_library_is_known() -> None:
    """A new release may bring a change that nobody has thought of: this test then fails, and DrillAdmin refuses it."""
    public = {name for name in dir(AdminClient) if not name.startswith("_")}
    assert public == READS | set(CHECKS) | OWN | NEVER
    assert set(ARGUMENTS) == set(CHECKS) | {"delete_topics"}
    assert not READS & (set(CHECKS) | NEVER)


@pytest.mark.parametrize("name", sorted({*NEVER, "delete_cluster", "describe_but_new"}))
def test_what_is_not_known_to_be_harmless_is_refused(name: str) -> None:
    """Also a method that no release has yet."""
    sent = Sent()
    with pytest.raises(OutsideDrill, match=name):
        getattr(DrillAdmin(sent, scope()), name)([ORDERS])  # type: ignore[arg-type]
    assert sent.requests == []


def test_leaders_are_elected_of_topics_in_the_scope_alone() -> None:
    """One foreign topic among them keeps the whole request from being sent."""
    elected: list[Any] = []
    sent = SimpleNamespace(elect_leaders=lambda kind, partitions, **_: elected.append((kind, partitions)))
    admin = DrillAdmin(sent, scope())  # type: ignore[arg-type]
    wanted = [TopicPartition(NAMES.own.probe, 0), TopicPartition(FOREIGN[0], 0)]
    with pytest.raises(OutsideDrill, match="electing a leader"):
        admin.elect_leaders(ElectionType.PREFERRED, wanted)
    assert elected == []
    admin.elect_leaders(ElectionType.PREFERRED, wanted[:1])
    assert elected == [(ElectionType.PREFERRED, wanted[:1])]


@pytest.mark.parametrize("name", sorted(READS))
def test_reads_are_free(name: str) -> None:
    """They go to the library as they are."""
    sent = Sent()
    getattr(DrillAdmin(sent, scope()), name)  # type: ignore[arg-type]
    assert name == "describe_topics" or getattr(DrillAdmin(sent, scope()), name)() == {}  # type: ignore[arg-type]


@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from(sorted(ARGUMENTS)),
            st.lists(st.one_of(st.sampled_from(OURS), st.sampled_from(FOREIGN), TEXT), max_size=3),
        ),
        max_size=8,
    )
)
def test_no_sequence_of_calls_reaches_anything_outside(calls: list[tuple[str, list[str]]]) -> None:
    """One foreign name among several is enough; a call with none is sent unchanged."""
    sent = Sent()
    sent.ids = dict.fromkeys(OURS, "id")
    admin: Any = DrillAdmin(sent, scope())  # type: ignore[arg-type]
    for method, names in calls:
        arguments = [ARGUMENTS[method](name) for name in names]
        options = {"topic_ids": dict.fromkeys(names, "id")} if method == "delete_topics" else {}
        before = len(sent.requests)
        if set(names) <= set(OURS):
            getattr(admin, method)(iter(arguments), **options)
            assert sent.requests[before:] == [(method, arguments)]
        else:
            with pytest.raises(OutsideDrill):
                getattr(admin, method)(iter(arguments), **options)
            assert len(sent.requests) == before


@pytest.mark.parametrize("kind", [AclBinding, AclBindingFilter])
@pytest.mark.parametrize(
    ("restype", "name", "pattern"),
    [
        (ResourceType.TOPIC, ORDERS, ResourcePatternType.PREFIXED),
        (ResourceType.GROUP, ORDERS, ResourcePatternType.LITERAL),
        (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL),
        (ResourceType.TRANSACTIONAL_ID, READERS, ResourcePatternType.LITERAL),
    ],
)
def test_acl_entries_are_literal_and_of_the_drill(kind: Any, restype: Any, name: str, pattern: Any) -> None:
    """Also a group's name on a topic is refused."""
    sent = Sent()
    admin: Any = DrillAdmin(sent, scope())  # type: ignore[arg-type]
    for method in ("create_acls", "delete_acls"):
        with pytest.raises(OutsideDrill):
            getattr(admin, method)([acl(kind, restype, name, pattern)])
    assert sent.requests == []


def test_filters_that_match_more_than_one_name_are_refused() -> None:
    """Any name, any type, any pattern; a filter that only looks like the test for an authorizer."""
    admin, sent = DrillAdmin(made := Sent(), scope()), made  # type: ignore[arg-type]
    same = copy(AUTHORIZER_TEST)
    for wide in (
        acl(AclBindingFilter, ResourceType.ANY, ORDERS, ResourcePatternType.LITERAL),
        acl(AclBindingFilter, ResourceType.TOPIC, ORDERS, ResourcePatternType.ANY),
        acl(AclBindingFilter, ResourceType.TOPIC, ORDERS, ResourcePatternType.MATCH),
        acl(AclBindingFilter, ResourceType.TOPIC, None, ResourcePatternType.LITERAL),
        same,
    ):
        with pytest.raises(OutsideDrill):
            admin.delete_acls([wide])
    assert sent.requests == []


def test_only_topics_have_configurations_that_a_drill_changes() -> None:
    """A broker's or a group's configuration is refused, whatever its name."""
    sent = Sent()
    for kind in (ConfigResource.Type.BROKER, ConfigResource.Type.GROUP):
        with pytest.raises(OutsideDrill):
            DrillAdmin(sent, scope()).incremental_alter_configs([ConfigResource(kind, ORDERS)])  # type: ignore[arg-type]
    assert sent.requests == []


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Sent]]:
    """The library's clients that the hooks make."""
    made: list[Sent] = []

    def make(settings: Any) -> Sent:
        made.append(Sent())
        return made[-1]

    monkeypatch.setattr(guard, "AdminClient", make)
    yield made


@pytest.mark.parametrize("noted", [None, {}, {ORDERS: "other"}, {"orders": "mine"}])
def test_a_topic_is_deleted_only_by_its_noted_id(sent: list[Sent], noted: dict[str, str] | None) -> None:
    """A topic of the drill's name that somebody else has made is left alone."""
    cluster = KafkaCluster("east", NOWHERE, scope())
    sent[0].ids = {ORDERS: "mine"}
    with pytest.raises(OutsideDrill, match="mine"):
        cluster.delete_topics([ORDERS], ids=noted)
    with pytest.raises(OutsideDrill):
        cluster.delete_topic(ORDERS)
    assert sent[0].requests == []


def test_a_cluster_without_topic_ids_keeps_its_topics(sent: list[Sent]) -> None:
    """The id of a cluster that has none proves nothing."""
    cluster = KafkaCluster("east", NOWHERE, scope())
    sent[0].ids = {ORDERS: "AAAAAAAAAAAAAAAAAAAAAA"}
    with pytest.raises(OutsideDrill):
        cluster.delete_topics([ORDERS], ids=sent[0].ids)
    assert sent[0].requests == []


def test_a_topic_with_its_noted_id_is_deleted(sent: list[Sent], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then, and if it is gone already, the request is sent."""
    cluster = KafkaCluster("east", NOWHERE, scope())
    monkeypatch.setattr(cluster, "topics", lambda *_: {})
    sent[0].ids = {ORDERS: "mine"}
    assert cluster.delete_topics([ORDERS, NAMES.own.canary], ids={ORDERS: "mine"}) == sorted([NAMES.own.canary, ORDERS])
    assert sent[0].requests == [("delete_topics", sorted([NAMES.own.canary, ORDERS]))]


@given(
    name=st.one_of(
        st.sampled_from(FOREIGN), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
    )
)
def test_no_method_of_the_hooks_changes_another_name(name: str) -> None:
    """Clusters and ACL entries, method by method; the error is the drill's, and no client sends anything."""
    with pytest.MonkeyPatch.context() as patch:
        made: list[Sent] = []
        patch.setattr(guard, "AdminClient", lambda _: made.append(Sent()) or made[-1])
        cluster = KafkaCluster("east", NOWHERE, scope())
        patch.setattr(cluster, "topics", lambda *_: {name: SimpleNamespace(partitions={0: 1})})
        entry = AclEntry("topic", name or "-", "literal", "User:app", "*", "write", "deny")
        acls = ClusterAcls(cluster)
        for act in (
            lambda: cluster.create_topic(name or "-", 1),
            lambda: cluster.create_partitions(name, 4),
            lambda: cluster.add_partitions({name or "-": 4}),
            lambda: cluster.delete_topics([name], ids={name: "id"}),
            lambda: cluster.delete_groups([name]),
            lambda: cluster.commit(name or "-", {Place(ORDERS, 0): 3}),
            lambda: cluster.commit(READERS, {Place(name or "-", 0): 3}),
            lambda: acls.add([entry]),
            lambda: acls.remove([entry]),
            lambda: acls.remove([AclEntry("topic", ORDERS, "prefixed", "User:app", "*", "write", "deny")]),
        ):
            with pytest.raises(OutsideDrill):
                act()
        assert all(client.requests == [] for client in made)


def test_production_has_the_librarys_own_client() -> None:
    """Without a scope nothing stands between."""
    assert type(KafkaCluster("east", NOWHERE).admin) is AdminClient
    assert type(KafkaCluster("east", NOWHERE, scope()).admin) is DrillAdmin


def test_an_authorizer_is_still_found(sent: list[Sent]) -> None:
    """Its test removes an entry that cannot exist."""
    assert ClusterAcls(KafkaCluster("east", NOWHERE, scope())).authorizer() is Authorizer.BY_ACL
    assert sent[0].requests == [("delete_acls", [AUTHORIZER_TEST])]
