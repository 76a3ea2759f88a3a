"""Readiness gates: each closes for its own reason, and all of them are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from kafka_dr.domain.access.trial import AccessTrial, Act
from kafka_dr.domain.clients.inventory import SeenClients
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.domain.readiness.blocker import Blocker
from kafka_dr.domain.readiness.notes import list_notes
from kafka_dr.domain.readiness.observation import (
    ClusterView,
    ConnectorView,
    FlowView,
    GroupView,
    Observation,
    Sample,
    TopicView,
    WorkerView,
)
from kafka_dr.domain.readiness.owners import OwnerView
from kafka_dr.domain.readiness.readiness import CHECKS, find_blockers, is_settling, standing_still
from kafka_dr.domain.routing.dns_view import DnsView

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NO_LOGIN = AccessTrial("orders", "standby", "orders_standby", failed=Act.LOG_IN, seen="_AUTHENTICATION")


def acl(principal: str, operation: str, name: str, kind: str = "topic", permission: str = "allow") -> AclEntry:
    """One entry from any host."""
    return AclEntry(kind, name, "literal", principal, "*", operation, permission)


def config(source: str, target: str, **changes: str) -> dict[str, str]:
    """A healthy source connector's configuration; dots are written as double underscores."""
    healthy = {"source.cluster.alias": source, "target.cluster.alias": target, "replication.policy.class": IDENTITY}
    healthy |= dict.fromkeys(("key.converter", "value.converter", "header.converter"), BYTES)
    healthy |= {"sync.topic.acls.enabled": "false", "source.admin.default.api.timeout.ms": "5000"}
    healthy |= {key.replace("__", "."): value for key, value in changes.items()}
    return {key: value for key, value in healthy.items() if value is not None}


def flow(
    source: str = "primary",
    target: str = "standby",
    cluster: str = "id-standby",
    state: str = "RUNNING",
    **changes: str,
) -> FlowView:
    """A flow; its connectors with or without tasks as their state has them."""
    tasks = {0: state} if state == "RUNNING" else {}
    source_connector = ConnectorView(f"{source}.source", state, tasks, config(source, target, **changes))
    checkpoint = ConnectorView(f"{source}.checkpoint", state, tasks, config(source, target))
    return FlowView(
        source,
        target,
        WorkerView("4.3.1", cluster),
        (source_connector,),
        checkpoint,
        mirrors(source_connector),
        replicated={T0: 9, T1: None},
    )


def mirrors(*connectors: ConnectorView) -> FlowFilter:
    """Which topics these source connectors mirror."""
    naming = naming_of(NamingSpec("identity"), ("primary", "standby"))
    return FlowFilter({c.name: c.config for c in connectors}, naming, "standby")


def split(*topics: str, **changes: str) -> FlowView:
    """A flow of as many source connectors as lists of topics; the last one has `changes` of its settings."""
    views = [
        ConnectorView(f"s{n}", "RUNNING", {0: "RUNNING"}, config("primary", "standby", topics=listed))
        for n, listed in enumerate(topics)
    ]
    views[-1] = replace(views[-1], config=config("primary", "standby", topics=topics[-1], **changes))
    return replace(flow(), source_connectors=tuple(views), mirrors=mirrors(*views))


RIGHTS = frozenset(
    {
        acl("User:app", "write", "orders"),
        acl("User:app", "read", "orders"),
        acl("User:app", "read", "billing", "group"),
        acl("User:mm2", "all", "*"),
    }
)


def cluster(alias: str, **changes: Any) -> ClusterView:
    """A healthy cluster with one topic, one group, and rules of one application."""
    groups, topics = {"billing": GroupView("Empty")}, {"orders": TopicView("t-1", 2)}
    healthy = ClusterView(alias, f"id-{alias}", (1,), topics, AclRules(RIGHTS), groups, frozenset({"app"}))
    return replace(healthy, **changes)


def seen(**changes: Any) -> Observation:
    """What is seen of a pair that is ready; a test states only what differs."""
    sample = Sample({T0: 10, T1: 0}, {T0: 10, T1: 0})
    healthy = Observation(
        source=cluster("primary"),
        target=cluster("standby"),
        flow=flow(),
        reverse=flow("standby", "primary", "id-primary", "STOPPED"),
        scope={"orders": "orders"},
        groups=frozenset({"billing"}),
        source_starts={T0: 0, T1: 0},
        first=sample,
        last=sample,
        known_topic_ids={"orders": "t-1"},
        exempt={"primary": frozenset({"User:mm2"}), "standby": frozenset({"User:mm2"})},
        naming_policy="identity",
        naming_separator=".",
        has_drain_hook=True,
        has_fence_hook=False,
        has_probe=True,
        positions=pd.DataFrame(),
    )
    return replace(healthy, **changes)


def with_idle(healthy: FlowView, name: str) -> FlowView:
    """The same flow, in which this source connector has no task."""
    views = tuple(replace(view, tasks={}) if view.name == name else view for view in healthy.source_connectors)
    return replace(healthy, source_connectors=views)


def with_connector(healthy: FlowView, state: str, *tasks: str) -> FlowView:
    """The same flow whose source connector and its tasks are in other states."""
    connector = replace(healthy.source_connectors[0], state=state, tasks=dict(enumerate(tasks)))
    return replace(healthy, source_connectors=(connector,))


def with_tasks(state: str, *tasks: str) -> Observation:
    """A pair whose source connector and its tasks are in other states."""
    return seen(flow=with_connector(flow(), state, *tasks))


def gates(observation: Observation) -> set[str]:
    """Names of the closed gates."""
    return {b.gate for b in find_blockers(observation)}


def with_source_config(**changes: str | None) -> Observation:
    """A pair whose source connector has other settings."""
    return seen(flow=flow(**changes))


def target(**changes: Any) -> Observation:
    """A pair whose target differs."""
    return seen(target=cluster("standby", **changes))


def source(**changes: Any) -> Observation:
    """A pair whose source differs."""
    return seen(source=cluster("primary", **changes))


def without(*entry: str) -> Observation:
    """A pair whose target lacks one right of the application."""
    return target(rules=AclRules(RIGHTS - {acl("User:app", *entry)}))


def test_a_ready_pair_has_no_blocker() -> None:
    """Empty means go."""
    assert find_blockers(seen()) == []


def with_settings(on_source: dict[str, str], on_target: dict[str, str]) -> Observation:
    """A pair whose topic has other settings."""
    return seen(
        source=cluster("primary", topics={"orders": TopicView("t-1", 2, 1, on_source)}),
        target=cluster("standby", topics={"orders": TopicView("x", 2, 1, on_target)}),
    )


def with_internal_topic(version: str) -> Observation:
    """A pair that has a topic, on both clusters, which older workers take for an internal one."""
    name = "app.internal"
    topics, rules = {name: TopicView("t-1", 2)}, AclRules(RIGHTS | {acl("User:app", "write", name)})
    sides = {alias: cluster(alias, topics=topics, rules=rules) for alias in ("primary", "standby")}
    return seen(
        source=sides["primary"],
        target=sides["standby"],
        scope={name: name},
        flow=replace(flow(), worker=WorkerView(version, "id-standby")),
    )


FAILED = ConnectorView("c", "RUNNING", {0: "RUNNING", 1: "FAILED"}, config("primary", "standby"), ("boom",))
UNNAMED = split("ord.*", connector__class="x.MirrorSourceConnector").source_connectors
BACK = ("standby", "primary", "id-primary")
GROWN = Sample({T0: 15, T1: 0}, {T0: 15, T1: 0})
IN_SYNC = {"min.insync.replicas": "2"}
MINE = {"orders": TopicView("x", 3), "mine": TopicView("y", 2)}
MINE_RULES = AclRules(RIGHTS | {acl("User:app", "all", "mine")})
TRANSACTIONAL = AclRules(RIGHTS | {acl("User:app", "write", "tx-1", "transactional_id")})
UNGUARDED = AclRules(frozenset(), authorizer=False)
CLOSED = {
    "connectors_run: failed task": (seen(flow=replace(flow(), source_connectors=(FAILED,))), "connectors_run"),
    "connectors_run: no task": (with_tasks("RUNNING"), "connectors_run"),
    "connectors_run: no checkpoint connector": (
        seen(flow=replace(flow(), checkpoint_connector=None, missing=("c",))),
        "connectors_run",
    ),
    "one cluster twice": (replace(seen(), source=replace(seen().target, alias="primary")), "clusters_differ"),
    "worker elsewhere": (seen(flow=flow(cluster="id-other")), "worker_writes_to_target"),
    "old Connect of the reverse flow": (
        seen(reverse=replace(with_connector(flow(*BACK), "STOPPED"), worker=WorkerView("3.5.2", "id-primary", False))),
        "versions_suffice",
    ),
    "old Connect": (
        seen(flow=replace(flow(), worker=WorkerView("7.5.1-ccs", "id-standby", False))),
        "versions_suffice",
    ),
    "a version that does not say what is internal": (
        with_internal_topic("7.5.1"),
        "versions_suffice",
    ),
    "dedicated reverse flow that nothing starts": (
        seen(reverse=replace(flow(*BACK, "STOPPED"), worker=WorkerView("", "", False), dedicated=True)),
        "reverse_flow_usable",
    ),
    "topology and connector": (
        seen(flow=replace(flow(), stated={"sync.topic.acls.enabled": "true"})),
        "stated_settings_agree",
    ),
    "topology and checkpoint connector of the reverse flow": (
        seen(reverse=replace(flow(*BACK, "STOPPED"), stated={"sync.topic.acls.enabled": "true"})),
        "stated_settings_agree",
    ),
    "topology and connector: patterns": (
        seen(flow=replace(flow(topics="orders, audit"), stated={"topics": "orders"})),
        "stated_settings_agree",
    ),
    "checkpoint connector's worker elsewhere": (
        seen(flow=replace(flow(), checkpoint_worker=WorkerView("4.3.1", "id-other"))),
        "worker_writes_to_target",
    ),
    "old Connect of the checkpoint connector": (
        seen(flow=replace(flow(), checkpoint_worker=WorkerView("3.5.2", "id-standby", False))),
        "versions_suffice",
    ),
    "one of two connectors has no task": (
        seen(flow=with_idle(split("orders", "pays"), "s0")),
        "connectors_run",
    ),
    "two connectors, one topic": (seen(flow=split("orders", "ord.*")), "topics_mirrored_once"),
    "two connectors of the reverse flow, one topic": (
        seen(reverse=replace(flow(*BACK, "STOPPED"), mirrors=split("orders", "ord.*").mirrors)),
        "topics_mirrored_once",
    ),
    "an unnamed source connector": (seen(flow=replace(flow(), unnamed=UNNAMED)), "connectors_named"),
    "topology and two connectors: topics": (
        seen(flow=replace(split("orders.*", "pays"), stated={"topics": "pays"})),
        "stated_topics_agree",
    ),
    "connectors read differently": (
        seen(flow=split("orders", "pays", source__consumer__isolation__level="read_committed")),
        "connectors_agree",
    ),
    "connectors keep syncs apart": (
        seen(flow=split("orders", "pays", **{"offset-syncs__topic__location": "target"})),
        "connectors_agree",
    ),
    "one of two connectors skips errors": (
        seen(flow=split("orders", "pays", errors__tolerance="all")),
        "records_unchanged",
    ),
    "one of two connectors copies ACLs": (
        seen(flow=split("orders", "pays", sync__topic__acls__enabled="true")),
        "fence_stays_local",
    ),
    "one of two connectors has another alias": (
        seen(flow=split("orders", "pays", source__cluster__alias="p")),
        "naming_agrees",
    ),
    "alias of the flow": (with_source_config(source__cluster__alias="p"), "naming_agrees"),
    "alias of the reverse flow": (
        seen(reverse=flow(*BACK, "STOPPED", target__cluster__alias="p")),
        "naming_agrees",
    ),
    "assigned without an end": (with_tasks("RUNNING", "UNASSIGNED"), "connectors_run"),
    "policy": (with_source_config(replication__policy__class=None), "naming_agrees"),
    "converter": (with_source_config(header__converter=None), "records_unchanged"),
    "transforms": (with_source_config(transforms="mask"), "records_unchanged"),
    "errors skipped": (with_source_config(errors__tolerance="all"), "records_unchanged"),
    "ACL sync on": (with_source_config(sync__topic__acls__enabled="true"), "fence_stays_local"),
    "ACL sync by default": (with_source_config(sync__topic__acls__enabled=None), "fence_stays_local"),
    "loop": (seen(reverse=flow(*BACK)), "no_loop"),
    "a label of an owner": (seen(owners=OwnerView(labels=("x of y names Strimzi",))), "nobody_puts_back"),
    "loop: tasks left": (seen(reverse=with_connector(flow(*BACK), "STOPPED", "RUNNING")), "no_loop"),
    "no progress": (seen(last=Sample({T0: 20, T1: 0}, {T0: 10, T1: 0})), "replication_moves"),
    "no leader on the source": (source(leaderless=(T1,)), "partitions_led"),
    "topic missing": (target(topics={}), "topics_match"),
    "fewer partitions": (target(topics={"orders": TopicView("x", 1)}), "topics_match"),
    "more partitions": (target(topics={"orders": TopicView("x", 3)}), "topics_match"),
    "local topic with other partitions": (
        seen(scope={"orders": "mine"}, target=cluster("standby", topics=MINE, rules=MINE_RULES)),
        "topics_match",
    ),
    "recreated": (seen(known_topic_ids={"orders": "t-0"}), "topics_not_recreated"),
    "overtaken": (seen(source_starts={T0: 11, T1: 0}, first=GROWN, last=GROWN), "retention_not_overtaken"),
    "fewer replicas": (source(topics={"orders": TopicView("t-1", 2, 3)}), "durability_kept"),
    "fewer in sync": (source(topics={"orders": TopicView("t-1", 2, 1, IN_SYNC)}), "durability_kept"),
    "shorter retention": (with_settings({}, {"retention.ms": "3600000"}), "target_keeps_as_much"),
    "retention from the source's broker": (with_settings({"retention.ms": "-1"}, {}), "target_keeps_as_much"),
    "fewer bytes": (with_settings({}, {"retention.bytes": "1000000"}), "target_keeps_as_much"),
    "another cleanup policy": (
        with_settings({"cleanup.policy": "compact"}, {"cleanup.policy": "compact,delete"}),
        "target_keeps_as_much",
    ),
    "smaller messages": (
        with_settings({"max.message.bytes": "5000000"}, {"max.message.bytes": "1048588"}),
        "target_keeps_as_much",
    ),
    "tombstones for a shorter time": (
        with_settings({"cleanup.policy": "compact"}, {"cleanup.policy": "compact", "delete.retention.ms": "60000"}),
        "target_keeps_as_much",
    ),
    "a local topic that keeps less": (
        seen(
            scope={"orders": "mine"},
            target=cluster(
                "standby",
                topics={"orders": TopicView("x", 2, 1, {"retention.ms": "1"}), "mine": TopicView("y", 2)},
                rules=MINE_RULES,
            ),
        ),
        "target_keeps_as_much",
    ),
    "no write on the target": (without("write", "orders"), "clients_may_work_on_target"),
    "no read on the target": (without("read", "orders"), "clients_may_work_on_target"),
    "no group on the target": (without("read", "billing", "group"), "clients_may_work_on_target"),
    "no transactional id on the target": (source(rules=TRANSACTIONAL), "clients_may_work_on_target"),
    "no user on the target": (target(users=frozenset()), "users_exist_on_target"),
    "a login is refused": (seen(trials=(NO_LOGIN,)), "applications_work_on_target"),
    "group alive on target": (target(groups={"billing": GroupView("Stable", empty=False)}), "groups_idle_on_target"),
    "groups of an unknown type": (seen(immovable={"odd": "unknown"}), "groups_can_move"),
    "a member stays": (seen(clients=SeenClients(staying={"g": {"i": 60.1}}, waits=60.0)), "members_leave"),
    "nothing stops clients": (replace(source(rules=UNGUARDED), has_drain_hook=False), "fence_possible"),
    "rights are not ACL entries": (source(rules=replace(UNGUARDED, rights_elsewhere=True)), "fence_possible"),
    "a DNS name elsewhere": (seen(dns=DnsView("kafka.example.com.", 30, leads_to="standby")), "dns_can_redirect"),
    "nothing to move": (seen(scope={}), "something_to_move"),
}


@pytest.mark.parametrize(("observation", "gate"), CLOSED.values(), ids=CLOSED)
def test_a_gate_closes_for_its_reason_alone(observation: Observation, gate: str) -> None:
    """One thing wrong closes one gate, and the blocker says why, what was seen and what to do."""
    assert gates(observation) == {gate}
    assert all(b.reason and b.seen and b.next_step for b in find_blockers(observation))


@pytest.mark.parametrize(
    ("observation", "passes"),
    [
        (with_tasks("RUNNING", "UNASSIGNED", "RUNNING"), True),
        (with_tasks("UNASSIGNED"), True),
        (with_tasks("RUNNING", "RESTARTING"), True),
        (with_tasks("RUNNING", "RUNNING"), False),
        (with_tasks("RUNNING", "UNASSIGNED", "FAILED"), False),
        (with_tasks("PAUSED", "UNASSIGNED"), False),
        (with_tasks("STOPPED"), False),
        (with_tasks("RUNNING"), False),
        (target(leaderless=(T0,)), True),
    ],
)
def test_only_what_passes_by_itself_is_worth_another_look(observation: Observation, passes: bool) -> None:
    """A rebalance ends by itself; a failure, a pause and a stop do not."""
    assert is_settling(observation) is passes


DENIED = {acl("User:*", "write", "*", permission="deny"), acl("User:app", "write", "orders", permission="deny")}
COPIES = cluster(
    "standby",
    topics={"primary.orders": TopicView("x", 2)},
    rules=AclRules(RIGHTS | {acl("User:app", "read", "primary.orders")}),
)
OPEN = {
    "a DENY on the target that opening removes": target(rules=AclRules(RIGHTS | DENIED)),
    "a producer that overrides the worker's cluster": seen(
        flow=flow(cluster="id-other", producer__override__bootstrap__servers="x:1")
    ),
    "default naming with both directions running": seen(
        naming_policy="default",
        scope={"orders": "primary.orders"},
        target=COPIES,
        flow=flow(replication__policy__class=None),
        reverse=replace(flow(*BACK, replication__policy__class=None), checkpoint_connector=None),
    ),
    "no reverse flow": seen(reverse=None),
    "a connector without topics, and so without tasks": seen(flow=with_idle(split("orders", "pays"), "s1")),
    "topics split between two connectors": seen(flow=split("orders", "pays")),
    "a topology that states the topics of both": seen(
        flow=replace(split("orders", "pays"), stated={"topics": "orders, pays"})
    ),
    "heartbeats, which every connector mirrors": seen(
        flow=split("orders", "pays"),
        source=cluster("primary", topics={"orders": TopicView("t-1", 2), "heartbeats": TopicView("h", 1)}),
    ),
    "source and target grow": seen(last=Sample({T0: 20, T1: 0}, {T0: 15, T1: 0})),
    "retention right behind MirrorMaker 2": seen(source_starts={T0: 10, T1: 0}),
    "a better target": target(topics={"orders": TopicView("x", 2, 3, IN_SYNC)}),
    "no list of users": target(users=None),
    "a vendor's version": with_internal_topic("3.9.1.redhat-00001"),
    "a version that does not matter": seen(flow=replace(flow(), worker=WorkerView("2024.3", "id-standby"))),
    "a target that keeps more": with_settings(
        {"retention.ms": "3600000", "retention.bytes": "1000", "max.message.bytes": "1000"},
        {"retention.ms": "-1", "max.message.bytes": "9999999"},
    ),
    "policies in another order": with_settings(
        {"cleanup.policy": "compact,delete"}, {"cleanup.policy": "delete, compact"}
    ),
    "retention that a compacted topic does not use": with_settings(
        {"cleanup.policy": "compact"}, {"cleanup.policy": "compact", "retention.ms": "1000", "retention.bytes": "1"}
    ),
    "tombstones that a topic does not have": with_settings({}, {"delete.retention.ms": "1"}),
    "what the topology states for the connector, and for its worker": seen(
        flow=replace(
            flow(topics="orders,audit"),
            stated={"topics": "orders, audit", "offset.flush.interval.ms": "9", "sync.topic.acls.enabled": "False"},
        )
    ),
    "no authorizer but a drain hook": source(rules=UNGUARDED),
    "a deleted topic": seen(known_topic_ids={"orders": "t-1", "gone": "t-9"}),
}


@pytest.mark.parametrize("observation", OPEN.values(), ids=OPEN)
def test_what_is_right_closes_no_gate(observation: Observation) -> None:
    """A gate does not refuse what can be moved safely."""
    if observation.naming_policy == "default":
        checkpoint = replace(
            observation.flow.checkpoint_connector, config=config("primary", "standby", replication__policy__class=None)
        )
        observation = replace(observation, flow=replace(observation.flow, checkpoint_connector=checkpoint))
    assert find_blockers(observation) == []


def test_connectors_that_mirror_a_topic_twice_are_named() -> None:
    """All topics of the same connectors at once, and no other topic."""
    topics = {name: TopicView("t-1", 2) for name in ("orders", "orders-2", "orders-3", "pays")}
    seen_now = seen(flow=split("orders, orders-3", "orders.*", "pays"), source=cluster("primary", topics=topics))
    (blocker,) = [b for b in find_blockers(seen_now) if b.gate == "topics_mirrored_once"]
    assert blocker.reason == "Several source connectors of primary->standby mirror the same topics"
    assert blocker.seen == "the topic filters of s0 and s1 select, on primary: orders, orders-3"


def test_all_gates_are_asked() -> None:
    """Invariant 1: the operator sees all blockers at once."""
    broken = seen(
        known_topic_ids={"orders": "t-0"},
        last=Sample({T0: 20, T1: 0}, {T0: 10, T1: 0}),
        target=cluster("standby", topics={}, users=frozenset()),
    )
    assert gates(broken) == {"topics_not_recreated", "replication_moves", "topics_match", "users_exist_on_target"}


def test_every_blocker_bears_its_gates_own_name() -> None:
    """The word in the refusal is the gate's name, so that it can be found."""
    names = {gate.__name__ for gate in CHECKS}
    assert {gate for _, gate in CLOSED.values()} == names
    assert Blocker("g", "r", "s", "n").as_dict() == {"gate": "g", "reason": "r", "seen": "s", "next_step": "n"}


TWO = {"orders": TopicView("t-1", 2), "payments": TopicView("t-2", 2)}
EACH_ITS_OWN = RIGHTS | {acl("User:pay", "write", "payments"), acl("User:pay", "read", "payments")}


def test_clients_need_on_the_target_only_what_they_have_on_the_source() -> None:
    """Two applications, each with rights on its own topic, alike on both clusters: nothing is lacking."""
    rules = AclRules(frozenset(EACH_ITS_OWN))
    both = seen(
        scope={"orders": "orders", "payments": "payments"},
        source=cluster("primary", topics=TWO, rules=rules),
        target=cluster("standby", topics=TWO, rules=rules),
    )
    assert find_blockers(both) == []


NOBODY = cluster("standby", rules=AclRules(frozenset()))


def test_rights_granted_to_everyone_are_checked_too() -> None:
    """Everyone may write on the source, nobody on the target: the gate is closed."""
    granted = [("write", "orders"), ("read", "orders"), ("read", "billing", "group")]
    everyone = AclRules(frozenset(acl("User:*", *entry) for entry in granted))
    assert gates(replace(source(rules=everyone), target=NOBODY)) == {"clients_may_work_on_target"}


@pytest.mark.parametrize(
    "rules", [UNGUARDED, AclRules(frozenset(), allow_everyone=True)], ids=["no authorizer", "allow.everyone"]
)
def test_clients_of_an_unguarded_source_are_checked_too(rules: AclRules) -> None:
    """Where the source lets everyone in and the target nobody, clients cannot work there: closed, or at least noted."""
    observed = replace(source(rules=rules), target=NOBODY)
    noted = any("target" in note and "right" in note for note in list_notes(observed))
    assert "clients_may_work_on_target" in gates(observed) or noted


def test_a_wildcard_right_on_transactional_ids_is_checked_too() -> None:
    """A transactional producer with a wildcard right that it lacks on the target cannot work there."""
    rules = AclRules(RIGHTS | {acl("User:app", "write", "*", "transactional_id")})
    assert gates(seen(source=cluster("primary", rules=rules))) == {"clients_may_work_on_target"}


@pytest.mark.parametrize("pattern", ["literal", "prefixed"])
def test_a_denied_read_of_topics_is_no_fence_that_the_opening_lifts(pattern: str) -> None:
    """open_target removes DENY entries against writing topics and reading groups alone; clients could not read."""
    name = "orders" if pattern == "literal" else "ord"
    denied = replace(acl("User:app", "read", name), permission="deny", pattern=pattern)
    assert gates(target(rules=AclRules(RIGHTS | {denied}))) == {"clients_may_work_on_target"}
    assert gates(target(rules=AclRules(RIGHTS | {replace(denied, operation="write")}))) == set()


def test_users_of_consumers_must_exist_on_the_target_too() -> None:
    """A user that only reads is a client as well."""
    rules = AclRules(RIGHTS | {acl("User:reader", "read", "orders"), acl("User:reader", "read", "billing", "group")})
    readers = seen(
        source=cluster("primary", rules=rules, users=frozenset({"app", "reader"})),
        target=cluster("standby", rules=rules),
    )
    assert gates(readers) == {"users_exist_on_target"}


def test_one_moving_topic_does_not_hide_one_that_stands_still() -> None:
    """Where the source grew the target must grow: a stuck task is seen although another works."""
    stuck = seen(last=Sample({T0: 5_000, T1: 5_000}, {T0: 5_000, T1: 0}))
    assert gates(stuck) == {"replication_moves"}
    (blocker,) = find_blockers(stuck)
    assert "orders-1" in blocker.seen and "orders-0" not in blocker.seen


def test_a_partition_that_is_not_on_the_target_does_not_stand_still() -> None:
    """What is missing on the target is another gate's: standing still needs two looks at the same partition."""
    assert standing_still(Sample({T0: 1, T1: 1}, {T0: 1}), Sample({T0: 2, T1: 2}, {T0: 1})) == [T0]
    assert standing_still(Sample({}, {}), Sample({T0: 2}, {T0: 1})) == []


def test_a_marker_before_the_log_start_is_no_lost_record() -> None:
    """All records up to 9 were replicated, 10 is a marker, and retention emptied the log: nothing was overtaken."""
    sample = Sample({T0: 11, T1: 0}, {T0: 10, T1: 0})
    assert find_blockers(seen(source_starts={T0: 11, T1: 0}, first=sample, last=sample)) == []


@pytest.mark.parametrize(
    ("own", "stated", "closed"),
    [
        (None, BYTES, False),
        (None, "org.apache.kafka.connect.json.JsonConverter", True),
        (None, None, True),
        ("org.apache.kafka.connect.json.JsonConverter", BYTES, True),
        (BYTES, "org.apache.kafka.connect.json.JsonConverter", False),
    ],
)
def test_a_connector_without_converters_takes_the_workers(own: str | None, stated: str | None, closed: bool) -> None:
    """Connect shows no worker's settings: only the topology can state them. What the connector sets goes before."""
    keys = ("key.converter", "value.converter", "header.converter")
    healthy = flow(**{key.replace(".", "__"): own for key in keys})
    seen_now = seen(flow=replace(healthy, stated=dict.fromkeys(keys, stated) if stated else {}))
    found = [b for b in find_blockers(seen_now) if b.gate == "records_unchanged"]
    assert len(found) == (3 if closed else 0)
    assert all("`mirror_maker`" in b.next_step and "on the connector" in b.next_step for b in found)
    relied = own is None and not closed
    assert any("key.converter" in note and "taken from the topology" in note for note in list_notes(seen_now)) is relied


def test_in_dedicated_mode_no_worker_is_missed_and_the_rest_must_be_stated() -> None:
    """An absent worker's version and cluster close no gate; a fence without stated facts does."""
    unasked = {"worker": WorkerView("", "", False)}
    healthy = replace(flow("primary", "standby", ""), **unasked, dedicated=True)
    assert find_blockers(seen(flow=healthy)) == [] and any(
        "dedicated mode" in note for note in list_notes(seen(flow=healthy))
    )
    assert {"worker_writes_to_target", "versions_suffice"} <= gates(seen(flow=replace(healthy, dedicated=False)))
    unstated = replace(flow(cluster="", sync__topic__acls__enabled=None), **unasked, dedicated=True)
    assert gates(seen(flow=unstated)) == {"fence_stays_local"}


def test_what_cannot_be_proven_is_noted() -> None:
    """Uncommitted reads, no probe, unlisted users, omissions and a slow stop are shown before approval."""
    others = cluster(
        "primary",
        groups={"billing": GroupView("Empty"), "connect-x": GroupView("Empty")},
        topics={"orders": TopicView("t-1", 2), "local": TopicView("l", 1), "__consumer_offsets": TopicView("o", 1)},
        users=None,
    )
    slow = flow(source__admin__default__api__timeout__ms=None)
    text = "\n".join(list_notes(seen(source=others, has_probe=False, flow=slow)))
    for part in ("aborted transactions", "No probe", "SCRAM users could not be listed", "up to a minute"):
        assert part in text
    assert all(part in text for part in ("connect-x", "local", "quotas"))
    assert "__consumer_offsets" not in text


def test_missing_keys_are_noted() -> None:
    """A run whose journal or recorder signs nothing says so before the approval; a run with both keys says nothing."""
    for missing, named in (({"unsigned_journal": True}, "`journal`"), ({"unsigned_samples": True}, "`recorder`")):
        assert any("no public key under " + named in note for note in list_notes(seen(**missing)))
    assert not any("no public key" in note for note in list_notes(seen()))


def test_a_source_without_authorizer_is_noted() -> None:
    """Without an authorizer the plan says what that cannot prove."""
    assert any("no authorizer" in note for note in list_notes(source(rules=UNGUARDED)))


def test_a_missing_probe_is_noted_where_everyone_is_let_in_too() -> None:
    """The note about the probe stays with `allow.everyone`; without an authorizer a probe proves nothing."""
    for rules, noted in ((AclRules(RIGHTS, allow_everyone=True), True), (UNGUARDED, False)):
        shown = list_notes(replace(source(rules=rules), has_probe=False))
        assert any(note.startswith("No probe") for note in shown) is noted


def test_long_lists_are_cut_and_counted() -> None:
    """Ten thousand missing topics give one readable blocker."""
    scope = {f"t{n:05}": f"t{n:05}" for n in range(10_000)}
    many = seen(scope=scope, source=cluster("primary", topics={t: TopicView("i", 1) for t in scope}))
    (missing,) = [b for b in find_blockers(many) if b.gate == "topics_match"]
    assert "and 9980 more" in missing.seen and len(missing.seen) < 500


def test_groups_that_stay_behind_are_named_to_the_last() -> None:
    """A group that nobody named would be left without a word."""
    names = [f"g{n:03}" for n in range(100)]
    (blocker,) = find_blockers(seen(immovable=dict.fromkeys(names, "unknown")))
    assert all(f"{name} (type unknown)" in blocker.seen for name in names)


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, "read_uncommitted"),
        ({"source.consumer.isolation.level": "read_committed"}, "read_committed"),
        ({"consumer.isolation.level": "read_committed"}, "read_committed"),
    ],
)
def test_the_isolation_is_mirror_makers_own(settings: dict[str, str], level: str) -> None:
    """MirrorMaker 2's default is read_uncommitted."""
    assert isolation_of(settings) == level


@pytest.mark.parametrize(
    ("configs", "noted"),
    [
        ({"cleanup.policy": "compact", "delete.retention.ms": "1000"}, True),
        ({"cleanup.policy": "compact,delete", "delete.retention.ms": "3599999"}, True),
        ({"cleanup.policy": "compact", "delete.retention.ms": "3600000"}, False),
        ({"cleanup.policy": "compact"}, False),
        ({"cleanup.policy": "delete", "delete.retention.ms": "1000"}, False),
    ],
)
def test_deletions_that_may_have_been_missed_are_named(configs: dict[str, str], noted: bool) -> None:
    """The plan says where a tombstone may have been dropped before it was replicated."""
    source = cluster("primary", topics={"orders": TopicView("t-1", 2, 1, configs)})
    assert any("tombstones" in note and "orders" in note for note in list_notes(seen(source=source))) == noted


def test_rights_that_a_fence_of_the_target_took_are_there_once_it_is_reverted() -> None:
    """Clients return to a cluster whose entry for everyone was replaced when they left it."""
    grant = AclEntry("topic", "*", "literal", "User:*", "*", "write", "allow")
    everyone, fenced = AclRules(RIGHTS | {grant}), AclRules(RIGHTS)
    observed = replace(source(rules=everyone), target=cluster("standby", rules=fenced))
    assert gates(observed) == {"clients_may_work_on_target"}
    assert gates(replace(observed, target_fence=AclChange(removes=(grant,)))) == set()


def test_a_source_whose_entries_name_no_client_cannot_be_fenced() -> None:
    """Rights that come from elsewhere are not taken by ACL entries; a fence of no entries would stop nobody."""
    own = AclEntry("topic", "*", "literal", "User:mm2", "*", "all", "allow")
    assert "fence_possible" in gates(source(rules=AclRules(frozenset({own}))))
    assert gates(source(rules=AclRules(RIGHTS | {own}))) == set()


def test_clients_without_a_login_cannot_be_exempt() -> None:
    """Where nobody logs in, MirrorMaker 2 and every client have the same principal."""
    nobody = frozenset({"User:ANONYMOUS"})
    assert gates(seen(exempt={"primary": nobody, "standby": nobody})) == {"fence_possible"}


@pytest.mark.parametrize("rules", [UNGUARDED, replace(UNGUARDED, rights_elsewhere=True), AclRules(frozenset())])
def test_a_fence_hook_that_spares_mirror_maker_fences_every_cluster(rules: AclRules) -> None:
    """Whatever decides there: without it each of these is refused, or fenced by the applications alone."""
    hooked = replace(source(rules=rules), has_fence_hook=True, has_drain_hook=False)
    assert "fence_possible" not in gates(hooked)
    assert any("fence hook" in note for note in list_notes(hooked))
    assert "fence_possible" in gates(replace(hooked, has_fence_hook=False))
