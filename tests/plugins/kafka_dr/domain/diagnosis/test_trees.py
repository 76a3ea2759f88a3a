"""Each end of the decision trees is reached by facts that mean it, and by no facts of a healthy flow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.diagnosis.clusters import CLUSTER_TREE, ClusterFacts, ClusterReach, Reach
from kafka_dr.domain.diagnosis.connectors import CONNECTOR_TREE, ConnectorFacts
from kafka_dr.domain.diagnosis.diagnosis import TREES, Situation, diagnose_flow, list_ends
from kafka_dr.domain.diagnosis.groups import GROUP_TREE, GroupPlace
from kafka_dr.domain.diagnosis.internal_topics import INTERNAL_TOPIC_TREE, InternalKind, InternalTopicFacts
from kafka_dr.domain.diagnosis.partitions import PARTITION_TREE, LaggingPartition
from kafka_dr.domain.diagnosis.settings import (
    CHECKPOINT_TREE,
    LOOP_TREE,
    NAMING_TREE,
    OFFSET_SYNC_TREE,
    FlowSettings,
)
from kafka_dr.domain.diagnosis.topics import TOPIC_TREE, TopicFacts
from kafka_dr.domain.diagnosis.tree import DiagnosisTree, Weight, finding_text, walk_tree
from kafka_dr.domain.diagnosis.workers import WORKER_TREE, WorkerFacts

ANSWERS = ClusterReach(Reach.ANSWERS, cluster_id="a")
OTHER = ClusterReach(Reach.ANSWERS, cluster_id="b")
REFUSED = ClusterReach(Reach.REFUSES_LOGIN, "SASL authentication error")
GONE, SILENT = ClusterReach(Reach.UNREACHABLE, "no connection"), ClusterReach(Reach.SILENT, "no answer in time")

CLUSTER = ClusterFacts("east", "source", ANSWERS, other_id="b")
WORKER = WorkerFacts("connect_west", cluster_id="b", target_id="b")
CONNECTOR = ConnectorFacts(
    "mirror",
    "source",
    tasks={0: "RUNNING"},
    needs_tasks=True,
    logins={"source": ANSWERS, "target": OTHER},
    own_logins={"source": ANSWERS, "target": OTHER},
)
TOPIC = TopicFacts("orders", "east.orders", partitions=3, remote_partitions=3)
MISSING = replace(TOPIC, remote_partitions=None)
PARTITION = LaggingPartition("orders-0", "5 records wait")
PLACE = GroupPlace("readers", "orders-0", 7, oldest_sync=0, checkpoint=7, due=7, synced=True, target_position=7)
NO_CHECKPOINT = replace(PLACE, checkpoint=None)
BEHIND = replace(PLACE, target_position=3, sync_waited=True)
SETTINGS = FlowSettings(
    "east->west",
    {"mirror": {"offset-syncs.topic.location": "target"}},
    {"offset-syncs.topic.location": "target", "sync.group.offsets.enabled": "true"},
)
SYNCS = InternalTopicFacts(InternalKind.OFFSET_SYNCS, "mm2-offset-syncs.east.internal", "west")
HEARTBEATS = InternalTopicFacts(InternalKind.HEARTBEATS, "east.heartbeats", "west", written=True)


def failed(trace: str) -> ConnectorFacts:
    """A connector with a failed task."""
    return replace(CONNECTOR, tasks={0: "RUNNING", 1: "FAILED"}, traces={"task 1": trace})


def sources(**config: str) -> FlowSettings:
    """Settings whose source connector has others; `_` stands for a dot in a key."""
    own = {"offset-syncs.topic.location": "target", **{key.replace("_", "."): value for key, value in config.items()}}
    return replace(SETTINGS, sources={"mirror": own})


#: Facts of a healthy flow, by tree.
HEALTHY: list[tuple[DiagnosisTree[Any], Any]] = [
    (CLUSTER_TREE, CLUSTER),
    (WORKER_TREE, WORKER),
    (WORKER_TREE, replace(WORKER, target_id=None)),
    (WORKER_TREE, replace(WORKER, cluster_id="c", overridden=True)),
    (CONNECTOR_TREE, CONNECTOR),
    (CONNECTOR_TREE, replace(CONNECTOR, logins={})),
    (CONNECTOR_TREE, replace(CONNECTOR, tasks={}, needs_tasks=False)),
    (NAMING_TREE, SETTINGS),
    (LOOP_TREE, SETTINGS),
    (OFFSET_SYNC_TREE, SETTINGS),
    (CHECKPOINT_TREE, SETTINGS),
    (TOPIC_TREE, TOPIC),
    (TOPIC_TREE, replace(MISSING, connector_works=False)),
    (PARTITION_TREE, replace(PARTITION, explained=True)),
    (INTERNAL_TOPIC_TREE, SYNCS),
    (INTERNAL_TOPIC_TREE, replace(SYNCS, due="3 records", writer_works=False)),
    (INTERNAL_TOPIC_TREE, replace(SYNCS, kind=InternalKind.CHECKPOINTS, due="2 positions")),
    (INTERNAL_TOPIC_TREE, HEARTBEATS),
    (GROUP_TREE, PLACE),
    (GROUP_TREE, replace(NO_CHECKPOINT, connector_works=False)),
    (GROUP_TREE, replace(NO_CHECKPOINT, mirrored=False)),
    (GROUP_TREE, replace(BEHIND, synced=False)),
    (GROUP_TREE, replace(PLACE, target_position=9)),
]
#: Facts that mean an end, by its id.
REACHED: dict[str, list[tuple[DiagnosisTree[Any], Any]]] = {
    "brokers_unreachable": [(CLUSTER_TREE, replace(CLUSTER, login=GONE))],
    "brokers_silent": [(CLUSTER_TREE, replace(CLUSTER, login=SILENT))],
    "own_login_refused": [(CLUSTER_TREE, replace(CLUSTER, login=REFUSED))],
    "clusters_are_one": [(CLUSTER_TREE, replace(CLUSTER, other_id="a"))],
    "partitions_without_leader": [(CLUSTER_TREE, replace(CLUSTER, leaderless=("orders-0",)))],
    "worker_silent": [(WORKER_TREE, replace(WORKER, failure="no answer"))],
    "worker_refuses_login": [(WORKER_TREE, replace(WORKER, failure="HTTP 401", refused=True))],
    "worker_writes_elsewhere": [(WORKER_TREE, replace(WORKER, cluster_id="a"))],
    "connector_missing": [(CONNECTOR_TREE, replace(CONNECTOR, state=""))],
    "flow_at_rest": [(CONNECTOR_TREE, replace(CONNECTOR, state="STOPPED", tasks={}, resting="opposite flow"))],
    "held_by_procedure": [(CONNECTOR_TREE, replace(CONNECTOR, state="STOPPED", tasks={}, resting="procedure"))],
    "connector_stopped": [
        (CONNECTOR_TREE, replace(CONNECTOR, state="STOPPED", tasks={})),
        (CONNECTOR_TREE, replace(CONNECTOR, state="PAUSED", tasks={0: "PAUSED"})),
    ],
    "connector_unassigned": [
        (CONNECTOR_TREE, replace(CONNECTOR, state="UNASSIGNED")),
        (CONNECTOR_TREE, replace(CONNECTOR, tasks={0: "RUNNING", 1: "UNASSIGNED"})),
    ],
    "source_login_refused": [
        (CONNECTOR_TREE, replace(CONNECTOR, logins={"source": REFUSED, "target": OTHER})),
        # The trace of the failed task would name the login, too, and not on which side.
        (
            CONNECTOR_TREE,
            replace(failed("SaslAuthenticationException"), logins={"source": REFUSED, "target": OTHER}),
        ),
    ],
    "source_address_wrong": [
        (CONNECTOR_TREE, replace(CONNECTOR, state="UNASSIGNED", logins={"source": GONE})),
        (CONNECTOR_TREE, replace(CONNECTOR, logins={"source": GONE})),
        (CONNECTOR_TREE, replace(CONNECTOR, logins={"source": OTHER})),
    ],
    "target_login_refused": [(CONNECTOR_TREE, replace(CONNECTOR, logins={"source": ANSWERS, "target": REFUSED}))],
    "target_address_wrong": [(CONNECTOR_TREE, replace(CONNECTOR, logins={"target": SILENT}))],
    "task_login_refused": [
        (CONNECTOR_TREE, failed("ConnectException: Task failed; Caused by: SaslAuthenticationException: Invalid")),
        (CONNECTOR_TREE, failed("org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed")),
    ],
    "task_lacks_rights": [
        (
            CONNECTOR_TREE,
            failed(
                "ConnectException: Unrecoverable exception from producer send callback; Caused by:"
                " org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [orders]"
            ),
        )
    ],
    "record_too_large": [
        (CONNECTOR_TREE, failed("Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is"))
    ],
    "setting_refused": [
        (
            CONNECTOR_TREE,
            replace(
                CONNECTOR,
                state="FAILED",
                tasks={},
                traces={
                    "connector": "KafkaException: Failed to create new KafkaAdminClient; Caused by:"
                    " java.lang.IllegalArgumentException: JAAS config entry not terminated by semi-colon"
                },
            ),
        ),
        (CONNECTOR_TREE, failed("org.apache.kafka.common.config.ConfigException: Invalid value")),
    ],
    "cluster_did_not_answer": [
        (CONNECTOR_TREE, failed("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node"))
    ],
    "task_failed_otherwise": [(CONNECTOR_TREE, failed("java.lang.NullPointerException"))],
    "connector_disabled": [(CONNECTOR_TREE, replace(CONNECTOR, enabled=False, tasks={}))],
    "connector_without_tasks": [(CONNECTOR_TREE, replace(CONNECTOR, tasks={}))],
    "naming_differs": [(NAMING_TREE, replace(SETTINGS, disagreements=("mirror: 'west', topology 'east'",)))],
    "records_in_a_circle": [(LOOP_TREE, replace(SETTINGS, circle="a and b both copy orders"))],
    "aliases_repeat": [(LOOP_TREE, replace(SETTINGS, repeated=("a.b.a.heartbeats",)))],
    "offset_syncs_apart": [
        (
            OFFSET_SYNC_TREE,
            replace(SETTINGS, checkpoint={}, sources={"a": {}, "b": {"offset-syncs.topic.location": "target"}}),
        ),
        (OFFSET_SYNC_TREE, sources(**{"offset-syncs.topic.location": "source"})),
    ],
    "offset_syncs_off": [
        (OFFSET_SYNC_TREE, replace(SETTINGS, sources={"mirror": {"emit.offset-syncs.enabled": "false"}})),
        (OFFSET_SYNC_TREE, sources(**{"emit.offset-syncs.enabled": " False "})),
    ],
    "offset_lag_large": [(OFFSET_SYNC_TREE, sources(**{"offset.lag.max": "1001"}))],
    "checkpoints_off": [
        (CHECKPOINT_TREE, replace(SETTINGS, checkpoint={"emit.checkpoints.enabled": "false"})),
        (CHECKPOINT_TREE, replace(SETTINGS, checkpoint={"emit.checkpoints.interval.seconds": "-1"})),
    ],
    "group_sync_off": [(CHECKPOINT_TREE, replace(SETTINGS, checkpoint={"groups": ".*"}))],
    "topic_excluded": [(TOPIC_TREE, replace(MISSING, selected=False, expected="it was copied before"))],
    "topic_left_out": [(TOPIC_TREE, replace(MISSING, selected=False))],
    "topic_hidden": [(TOPIC_TREE, replace(MISSING, describable=False, creatable=False, older=True))],
    "topic_name_impossible": [(TOPIC_TREE, replace(MISSING, impossible="a.b collides with a_b", creatable=False))],
    "topic_creation_denied": [(TOPIC_TREE, replace(MISSING, describable=True, creatable=False, older=True))],
    "topic_refresh_off": [(TOPIC_TREE, replace(MISSING, refreshes=False))],
    "topic_not_created": [(TOPIC_TREE, replace(MISSING, older=True))],
    "topic_awaited": [(TOPIC_TREE, MISSING)],
    "topic_name_taken": [(TOPIC_TREE, replace(TOPIC, remote_partitions=5, taken="orders-0, offset 7"))],
    "partitions_differ": [(TOPIC_TREE, replace(TOPIC, remote_partitions=2))],
    "copies_gone": [(TOPIC_TREE, replace(TOPIC, emptied=True))],
    "records_overtaken": [(PARTITION_TREE, replace(PARTITION, lost="next 3, first 5", explained=True))],
    "topic_unreadable": [(PARTITION_TREE, replace(PARTITION, readable=False))],
    "flow_too_slow": [(PARTITION_TREE, replace(PARTITION, moves=True, flow_moves=True))],
    "partition_stands": [(PARTITION_TREE, replace(PARTITION, flow_moves=True, task_moves=True))],
    "task_stands": [(PARTITION_TREE, replace(PARTITION, flow_moves=True))],
    "flow_stands": [(PARTITION_TREE, PARTITION)],
    "heartbeats_not_written": [(INTERNAL_TOPIC_TREE, replace(HEARTBEATS, due="late", written=False))],
    "internal_topic_missing": [
        (INTERNAL_TOPIC_TREE, replace(SYNCS, due="3 records", exists=False)),
        (INTERNAL_TOPIC_TREE, replace(SYNCS, kind=InternalKind.CHECKPOINTS, due="2 positions", exists=False)),
    ],
    "offset_syncs_quiet": [(INTERNAL_TOPIC_TREE, replace(SYNCS, due="3 records"))],
    "heartbeats_not_mirrored": [(INTERNAL_TOPIC_TREE, replace(HEARTBEATS, due="late"))],
    "group_excluded": [(GROUP_TREE, replace(NO_CHECKPOINT, selected=False, expected="it has a checkpoint"))],
    "group_left_out": [(GROUP_TREE, replace(NO_CHECKPOINT, selected=False))],
    "group_topic_excluded": [(GROUP_TREE, replace(NO_CHECKPOINT, topic_selected=False))],
    "group_hidden": [(GROUP_TREE, replace(NO_CHECKPOINT, describable=False))],
    "offset_syncs_gone": [(GROUP_TREE, replace(NO_CHECKPOINT, oldest_sync=None))],
    "position_before_syncs": [(GROUP_TREE, replace(NO_CHECKPOINT, oldest_sync=8))],
    "checkpoint_awaited": [(GROUP_TREE, NO_CHECKPOINT), (GROUP_TREE, replace(PLACE, checkpoint=5))],
    "checkpoint_stands": [
        (GROUP_TREE, replace(NO_CHECKPOINT, waited=True)),
        (GROUP_TREE, replace(PLACE, checkpoint=5, waited=True)),
    ],
    "group_active_on_target": [
        (GROUP_TREE, replace(BEHIND, members=("app at /10.0.0.1",), writable=False)),
        (GROUP_TREE, replace(BEHIND, members=("app at /10.0.0.1",), sync_waited=False)),
    ],
    "group_sync_awaited": [(GROUP_TREE, replace(BEHIND, sync_waited=False, writable=False))],
    "group_not_writable": [(GROUP_TREE, replace(BEHIND, writable=False))],
    "group_sync_stands": [(GROUP_TREE, BEHIND), (GROUP_TREE, replace(BEHIND, target_position=None))],
}
CASES = [(end, tree, facts) for end, reached in REACHED.items() for tree, facts in reached]


@pytest.mark.parametrize(("tree", "facts"), HEALTHY)
def test_nothing_is_found_where_nothing_is_wrong(tree: DiagnosisTree[Any], facts: Any) -> None:
    """And where another finding explains it."""
    assert walk_tree(tree.root, facts)[0] is None


@pytest.mark.parametrize(("end", "tree", "facts"), CASES)
def test_facts_reach_the_end_that_they_mean(end: str, tree: DiagnosisTree[Any], facts: Any) -> None:
    """Also where facts would fit a later end."""
    reached, _ = walk_tree(tree.root, facts)
    assert reached is not None and reached.id == end


def test_every_end_is_reached() -> None:
    """By a case above; what cannot be read is no end of a tree."""
    assert {end.id for end in list_ends()} == REACHED.keys() | {"cannot_read"}


def test_ends_have_ids_of_their_own() -> None:
    """Else a heading would explain two."""
    ids = [end.id for end in list_ends()]
    assert len(ids) == len(set(ids))


def test_several_findings_at_once_each_with_its_subjects() -> None:
    """Topics with one end are one finding; choices stand apart; what was not read is no finding."""
    situation = Situation(
        {
            "clusters": [CLUSTER],
            "topics": [
                replace(MISSING, name="a", describable=False),
                replace(MISSING, name="b", selected=False, expected="it was copied before", filter_text="topics=x"),
                replace(MISSING, name="c", describable=False),
                replace(MISSING, name="d", selected=False),
            ],
        },
        {"groups": "no broker coordinates them"},
    )
    diagnosis = diagnose_flow(situation)
    assert [(one.end.id, one.about) for one in diagnosis.findings] == [
        ("topic_hidden", ("a", "c")),
        ("topic_excluded", ("b",)),
    ]
    assert [(one.end.id, one.about) for one in diagnosis.choices] == [("topic_left_out", ("d",))]
    assert diagnosis.asked == {"clusters": 1, "topics": 4}
    assert diagnosis.not_asked["groups"] == "no broker coordinates them"
    assert diagnosis.asked.keys() | diagnosis.not_asked.keys() == {tree.id for tree in TREES}
    text = finding_text(diagnosis.findings[1].as_dict())
    assert text.startswith("topic_excluded: b. ") and "topics=x" in text and "diagnose_replication.md#" in text


def test_what_could_not_be_read_is_a_finding() -> None:
    """Nothing is called healthy that nobody has seen."""
    diagnosis = diagnose_flow(Situation({}, {"topics": "the broker has gone"}, ["topics: the broker has gone"]))
    assert [(one.end.id, one.about) for one in diagnosis.findings] == [("cannot_read", ("topics",))]


def test_a_finding_names_few_of_many_subjects() -> None:
    """The evidence stays small; the count tells how many there are."""
    topics = [replace(MISSING, name=f"t{number}", describable=False) for number in range(5_000)]
    (finding,) = diagnose_flow(Situation({"topics": topics})).findings
    told = finding.as_dict()
    assert told["count"] == 5_000 and len(told["about"]) == 20 and "4980 more" in finding_text(told)


REACHES = st.sampled_from([ANSWERS, OTHER, REFUSED, GONE, SILENT, ClusterReach(Reach.UNKNOWN)])
ROLES = st.fixed_dictionaries({}, optional={"source": REACHES, "target": REACHES})
STATES = st.sampled_from(["", "RUNNING", "FAILED", "STOPPED", "PAUSED", "UNASSIGNED", "RESTARTING", "UNKNOWN"])


@given(
    st.builds(
        ConnectorFacts,
        name=st.just("mirror"),
        kind=st.just("source"),
        state=STATES,
        tasks=st.dictionaries(st.integers(0, 2), STATES.filter(bool)),
        traces=st.dictionaries(st.sampled_from(["connector", "task 0"]), st.text()),
        enabled=st.booleans(),
        needs_tasks=st.booleans(),
        logins=ROLES,
        own_logins=ROLES,
        resting=st.sampled_from(["", "procedure", "opposite flow"]),
    )
)
def test_every_connector_has_an_answer(connector: ConnectorFacts) -> None:
    """No state leaves the tree without a branch; what works runs, as far as it has tasks."""
    walk_tree(CONNECTOR_TREE.root, connector)
    if connector.works:
        assert {connector.state, *connector.tasks.values()} == {"RUNNING"}


@given(
    st.builds(
        GroupPlace,
        group=st.just("g"),
        partition=st.just("t-0"),
        position=st.integers(0, 9),
        selected=st.booleans(),
        expected=st.sampled_from(["", "why"]),
        connector_works=st.booleans(),
        topic_selected=st.booleans(),
        describable=st.sampled_from([None, True, False]),
        mirrored=st.booleans(),
        oldest_sync=st.none() | st.integers(0, 9),
        checkpoint=st.none() | st.integers(0, 9),
        due=st.none() | st.integers(0, 9),
        waited=st.booleans(),
        synced=st.booleans(),
        members=st.sampled_from([(), ("m",)]),
        writable=st.sampled_from([None, True, False]),
        target_position=st.none() | st.integers(0, 9),
        sync_waited=st.booleans(),
    )
)
def test_every_position_has_an_answer(place: GroupPlace) -> None:
    """A fault of group sync is named only where it is on, and only behind a checkpoint."""
    end, _ = walk_tree(GROUP_TREE.root, place)
    if end is not None and end.id in ("group_sync_stands", "group_not_writable", "group_active_on_target"):
        assert place.synced and place.checkpoint is not None and (place.target_position or -1) < place.checkpoint
    if end is None and place.selected and place.connector_works and place.synced and place.mirrored:
        assert place.checkpoint is not None


def test_weights_say_what_an_end_is() -> None:
    """Few ends are no fault, and these are known."""
    others = {end.id: end.weight for end in list_ends() if end.weight is not Weight.FAULT}
    assert {end for end, weight in others.items() if weight is Weight.CHOICE} == {
        "flow_at_rest",
        "held_by_procedure",
        "topic_left_out",
        "group_left_out",
        "group_sync_off",
    }
    assert {end for end, weight in others.items() if weight is Weight.PASSING} == {
        "topic_awaited",
        "checkpoint_awaited",
        "position_before_syncs",
        "group_sync_awaited",
    }
