"""From mm2.properties to a topology: the usual shapes, every key accounted for, no secret in it."""

from __future__ import annotations

import json

import pytest
from kafka_dr.config.importing.mirror_maker_properties import topology_from_properties
from kafka_dr.config.importing.unused_keys import UNKNOWN
from kafka_dr.config.settings import Topology, check_topology
from kafka_dr.errors import BadInput

REFERENCE = r"""
# Define clusters
clusters = source, target
source.bootstrap.servers = source-broker-1:9092,source-broker-2:9092
target.bootstrap.servers = target-broker-1:9092
source.security.protocol = SASL_SSL
source.sasl.mechanism = SCRAM-SHA-512
source.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="mm2-user" \
    password="hunter2";
target.security.protocol = SASL_SSL
target.sasl.mechanism = SCRAM-SHA-512
target.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="mm2-other" \
    password="hunter2";
source->target.enabled = true
source->target.topics = .*
source->target.topics.exclude = .*[\-\.]internal, .*\.replica, __.*
source->target.groups = .*
source->target.groups.exclude = console-consumer-.*, connect-.*
replication.factor = 3
checkpoints.topic.replication.factor = 3
heartbeats.topic.replication.factor = 3
offset-syncs.topic.replication.factor = 3
refresh.topics.enabled = true
refresh.topics.interval.seconds = 60
sync.topic.configs.enabled = true
sync.topic.configs.interval.seconds = 60
sync.topic.acls.enabled = false
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 60
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 60
emit.heartbeats.enabled = true
emit.heartbeats.interval.seconds = 1
tasks.max = 10
producer.buffer.memory = 67108864
producer.batch.size = 524288
producer.linger.ms = 100
producer.compression.type = lz4
consumer.fetch.min.bytes = 1048576
consumer.fetch.max.wait.ms = 500
consumer.max.poll.records = 1000
offset.lag.max = 100
replication.policy.class = org.apache.kafka.connect.mirror.DefaultReplicationPolicy
replication.policy.separator = .
"""
ACTIVE_PASSIVE = r"""
clusters = primary, dr
primary.bootstrap.servers = primary-1:9092,primary-2:9092,primary-3:9092
dr.bootstrap.servers = dr-1:9092,dr-2:9092,dr-3:9092
primary->dr.enabled = true
primary->dr.topics = .*
primary->dr.topics.exclude = .*\.internal, __.*
primary->dr.groups = .*
sync.group.offsets.enabled = true
emit.checkpoints.enabled = true
replication.factor = 3
tasks.max = 10
"""
ACTIVE_ACTIVE = """
clusters = east, west
east.bootstrap.servers = east-1:9092
west.bootstrap.servers = west-1:9092
east->west.enabled = true
east->west.topics = orders, events, users
west->east.enabled = true
west->east.topics = orders, events, users
replication.policy.class = org.apache.kafka.connect.mirror.DefaultReplicationPolicy
sync.group.offsets.enabled = true
emit.heartbeats.enabled = true
replication.factor = 3
tasks.max = 6
"""
FAN_OUT = """
clusters = central, region-us, region-eu, region-apac
central.bootstrap.servers = central:9092
region-us.bootstrap.servers = us:9092
region-eu.bootstrap.servers = eu:9092
region-apac.bootstrap.servers = apac:9092
central->region-us.enabled = true
central->region-us.topics = global-.*
central->region-eu.enabled = true
central->region-eu.topics = global-.*
central->region-apac.enabled = true
central->region-apac.topics = global-.*
replication.factor = 3
"""
AGGREGATION = """
clusters = region-us, region-eu, region-apac, central
region-us.bootstrap.servers = us:9092
region-eu.bootstrap.servers = eu:9092
region-apac.bootstrap.servers = apac:9092
central.bootstrap.servers = central:9092
region-us->central.enabled = true
region-us->central.topics = events
region-eu->central.enabled = true
region-eu->central.topics = events
region-apac->central.enabled = true
region-apac->central.topics = events
replication.factor = 3
"""
SMALL = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def loaded(text: str, **options: str) -> Topology:
    """The topology that a properties file becomes, checked as a file would be."""
    return check_topology(topology_from_properties(text, **options).topology, "converted")


@pytest.mark.parametrize(
    ("text", "flows"),
    [
        (REFERENCE, ["source->target"]),
        (ACTIVE_PASSIVE, ["primary->dr"]),
        (ACTIVE_ACTIVE, ["east->west", "west->east"]),
        (FAN_OUT, ["central->region-us", "central->region-eu", "central->region-apac"]),
        (AGGREGATION, ["region-us->central", "region-eu->central", "region-apac->central"]),
    ],
)
@pytest.mark.parametrize("worker", ["dedicated", "connect"])
def test_usual_shapes_become_loadable_topologies(text: str, flows: list[str], worker: str) -> None:
    """Active-passive, active-active, fan-out and aggregation load, also with hyphens in aliases."""
    assert [f"{flow.source}->{flow.target}" for flow in loaded(text, worker=worker).flows] == flows


def test_names_of_the_aggregation() -> None:
    """After the conversion the central cluster sees each region's topic under its alias."""
    assert loaded(AGGREGATION).names.remote("region-us", "events") == "region-us.events"


def test_every_key_is_used_or_explained() -> None:
    """Of the reference configuration only tuning of MirrorMaker 2's clients is left out, with that reason."""
    converted = topology_from_properties(REFERENCE)
    assert sorted(converted.ignored) == sorted(
        (
            "producer.buffer.memory producer.batch.size producer.linger.ms producer.compression.type "
            "consumer.fetch.min.bytes consumer.fetch.max.wait.ms consumer.max.poll.records"
        ).split()
    )
    assert all("tunes" in reason for reason in converted.ignored.values())
    settings = converted.topology["flows"][0]["mirror_maker"]
    assert settings["offset.lag.max"] == "100" and settings["groups.exclude"] == "console-consumer-.*, connect-.*"
    assert len(settings) == 21


def test_secrets_come_out_apart() -> None:
    """Passwords are in the connections only: not in the topology, the notes, the reasons, or what printing it shows."""
    converted = topology_from_properties(REFERENCE)
    elsewhere = json.dumps([converted.topology, converted.notes, converted.ignored, converted.to_make]) + repr(
        converted
    )
    assert "hunter2" not in elsewhere and "source-broker-1" not in elsewhere
    assert converted.connections["kafka_source"]["extra"]["sasl.password"] == "hunter2"
    found = converted.topology["clusters"]["target"]
    assert found == {"connection": "kafka_target", "principals": {"mirror_maker": ["User:mm2-other"]}}


def test_backslash_that_java_drops_is_noted() -> None:
    """The pattern is kept as MirrorMaker 2 sees it, and the note names the line."""
    converted = topology_from_properties(ACTIVE_PASSIVE)
    assert converted.topology["flows"][0]["mirror_maker"]["topics.exclude"] == ".*.internal, __.*"
    assert any(note.startswith("line 7: Java drops a single backslash") for note in converted.notes)
    doubled = topology_from_properties(ACTIVE_PASSIVE.replace("\\.", "\\\\."))
    assert doubled.topology["flows"][0]["mirror_maker"]["topics.exclude"] == ".*\\.internal, __.*"
    assert not any("backslash" in note for note in doubled.notes)


def test_direction_goes_before_cluster_and_cluster_before_general() -> None:
    """A direction's setting overrides a general one, and a cluster's connection setting overrides a general one."""
    converted = topology_from_properties(
        SMALL + "tasks.max = 1\na->b.tasks.max = 9\nsecurity.protocol = SSL\nb.security.protocol = PLAINTEXT\n"
    )
    assert converted.topology["flows"][0]["mirror_maker"]["tasks.max"] == "9"
    found = [converted.connections[f"kafka_{alias}"]["extra"]["security.protocol"] for alias in "ab"]
    assert found == ["SSL", "PLAINTEXT"]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("consumer.isolation.level = read_committed", "read_committed"),
        ("a->b.consumer.isolation.level = read_committed", "read_committed"),
        ("a.consumer.isolation.level = read_committed", "read_committed"),
        ("a->b.source.consumer.isolation.level=read_committed", "read_committed"),
        ("", "read_uncommitted"),
    ],
)
def test_isolation_is_found_wherever_it_stands(line: str, level: str) -> None:
    """What MirrorMaker 2 reads on the source is taken over from any of its places."""
    converted = topology_from_properties(SMALL + line)
    assert check_topology(converted.topology, "x").flows[0].isolation == level and converted.ignored == {}


@pytest.mark.parametrize(
    ("lines", "naming"),
    [
        ("", {"policy": "default", "separator": "."}),
        ("replication.policy.separator = _", {"policy": "default", "separator": "_"}),
        (
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            {"policy": "identity", "separator": "."},
        ),
        (
            "replication.policy.separator = __\nreplication.policy.internal.topic.separator.enabled = false",
            {"policy": "default", "separator": "__", "internal_topic_separator": False},
        ),
    ],
)
def test_naming_is_taken_over(lines: str, naming: dict[str, object]) -> None:
    """Policy class, separator and the option for internal names become the topology's naming."""
    assert topology_from_properties(SMALL + lines).topology["naming"] == naming


def test_own_policy_class_needs_a_template() -> None:
    """A policy class of one's own is refused until a template says how it names topics."""
    text = SMALL + "replication.policy.class = com.example.CustomReplicationPolicy\n"
    with pytest.raises(BadInput, match="--template"):
        topology_from_properties(text)
    assert loaded(text, template="replicated-<source>-<topic>").names.remote("a", "orders") == "replicated-a-orders"
    keeping, prefixing = loaded(text, template="<topic>"), loaded(text, template="r-<source>-<topic>")
    assert keeping.names.remote("a", "orders") == "orders" and keeping.naming.policy == "identity"
    classes = {keeping.naming.policy_class, prefixing.naming.policy_class}
    assert classes == {"com.example.CustomReplicationPolicy"}


def test_a_decision_is_asked_for() -> None:
    """Which option for offsets is meant stands in no properties file."""
    assert any("`offset_option` of each flow" in note for note in topology_from_properties(SMALL).notes)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "fewer than two"),
        ("clusters = a", "fewer than two"),
        ("clusters = a, a", "fewer than two"),
        ("clusters = a, b", "no direction"),
        ("clusters = a, b\na->b.enabled = false", "no direction"),
        ("clusters=a,b,c\na->c.enabled=true", None),
        ("clusters=a,b\na->b.enabled=true\nb->a.enabled=true\na->b.replication.policy.separator=_", "differ"),
    ],
)
def test_files_without_a_flow_are_refused(text: str, word: str | None) -> None:
    """A file without two clusters, an enabled direction or one naming is refused with what is missing."""
    if word is None:
        assert loaded(text).aliases == ("a", "b", "c")
        return
    with pytest.raises(BadInput, match=word):
        topology_from_properties(text)


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("b->a.topics", "not enabled"),
        ("x->a.enabled", "not in `clusters`"),
        ("dedicated.mode.enable.internal.rest", "REST"),
        ("listeners", "REST"),
        ("offset.storage.topic", "worker"),
        ("producer.sasl.jaas.config", "not shown"),
        ("a->b.sasl.jaas.config", "one direction"),
        ("a.producer.linger.ms", "tunes"),
        ("a->b.producer.override.batch.size", "tunes"),
        ("config.providers.file.class", "providers"),
        ("transforms", "records"),
        ("metrics.recording.level", "metrics"),
        ("a.no.such.key", UNKNOWN),
        ("hm", UNKNOWN),
        ("group.id", "worker"),
    ],
)
def test_ignored_keys_have_a_reason_of_their_own(key: str, word: str) -> None:
    """A key that goes nowhere is listed under its full name with why it is not needed; its value is not."""
    converted = topology_from_properties(SMALL + f"{key} = hunter2\n")
    assert word in converted.ignored[key] and "hunter2" not in str(converted.ignored)


def test_dots_in_aliases() -> None:
    """The longest alias that fits owns a key, so that `dc.one.bootstrap.servers` belongs to `dc.one`, not to `dc`."""
    text = (
        "clusters = dc, dc.one\ndc.bootstrap.servers = x:1\ndc.one.bootstrap.servers = y:1\ndc->dc.one.enabled = true\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    converted = topology_from_properties(text)
    assert converted.connections["kafka_dc.one"]["extra"] == {"bootstrap.servers": "y:1"} and converted.ignored == {}
    assert check_topology(converted.topology, "x").flows[0].target == "dc.one"


def test_notes_say_what_a_failover_needs() -> None:
    """Syncs on the source, no way back, no REST in dedicated mode and a key that stands twice are noted."""
    notes = " ".join(topology_from_properties(SMALL + "tasks.max=1\ntasks.max=2\n").notes)
    assert all(
        word in notes
        for word in (
            "offset-syncs.topic.location=target",
            "b->a",
            "connect-mirror-maker.sh",
            "'tasks.max' occurs in lines 5 and 6",
        )
    )
    notes = " ".join(
        topology_from_properties(ACTIVE_ACTIVE + "offset-syncs.topic.location = target\n", worker="connect").notes
    )
    assert not any(word in notes for word in ("offset-syncs", "reverse flow is missing", "connect-mirror-maker.sh"))
