"""The Kafka and Connect hooks on real brokers: what no stand-in can prove."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as WirePartition
from kafka_dr.domain.kafka_model.acl import AclEntry, Authorizer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, ConnectUnavailable, KafkaUnavailable, NotReady, ReadBackFailed
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicToCreate
from kafka_dr.hooks.brokers.group_requests import GROUP_IS_ACTIVE, OK, Position
from kafka_dr.hooks.brokers.log_directories import LogDirectories
from kafka_dr.hooks.brokers.record import OffsetSpan, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import RecordWriter, WriteAccepted, WriteRefused
from kafka_dr.hooks.brokers.topics import READ_COMMITTED
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

FORWARD = "primary-to-standby-source"
MANY, MANY_TOPICS = 2_000, 100


def config(status: dict[str, Any], alias: str, user: str = "admin") -> dict[str, Any]:
    """The librdkafka keys of one user of one cluster."""
    return status["clusters"][alias]["client_properties"][user]


def eventually(reached: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something the clusters do on their own."""
    ends_at = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < ends_at, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def primary(lab_status: dict[str, Any]) -> KafkaCluster:
    """The primary as admin."""
    return KafkaCluster("primary", config(lab_status, "primary"))


@pytest.fixture(scope="module")
def standby(lab_status: dict[str, Any]) -> KafkaCluster:
    """The standby as admin."""
    return KafkaCluster("standby", config(lab_status, "standby"))


@pytest.fixture
def mirror(lab_status: dict[str, Any]) -> MirrorMaker:
    """The worker that runs the forward flow."""
    return MirrorMaker(lab_status["clusters"]["standby"]["connect_url"])


@pytest.fixture
def name() -> str:
    """A name nobody used before; its prefix keeps a topic out of the mirrored ones."""
    return f"__hooks-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(primary: KafkaCluster, name: str) -> Iterator[str]:
    """A topic of four partitions on the primary that is not mirrored."""
    primary.create_topic(name, 4, 1)
    yield name
    primary.delete_topic(name)


@pytest.fixture(scope="module")
def wide(primary: KafkaCluster) -> Iterator[list[TopicPartition]]:
    """A topic of thousands of partitions, ready to serve."""
    name = f"__hooks-wide-{uuid.uuid4().hex[:8]}"
    primary.create_topic(name, MANY, 1, timeout=120)
    partitions = [TopicPartition(name, number) for number in range(MANY)]
    primary.ends(partitions, timeout=300)
    yield partitions
    primary.delete_topic(name)


def test_clusters_and_brokers_are_named(primary: KafkaCluster, standby: KafkaCluster, mirror: MirrorMaker) -> None:
    """Each cluster has its own id, and the forward worker serves the standby."""
    assert primary.cluster_id() != standby.cluster_id() == mirror.worker().kafka_cluster_id
    (broker,) = primary.brokers()
    assert broker.host == "127.0.0.1"


def test_a_worker_says_that_offsets_can_be_set_and_nothing_changes(mirror: MirrorMaker) -> None:
    """The question is a change of no offset: a running connector keeps running, and a missing one is not missed."""
    assert mirror.sets_offsets(FORWARD) and mirror.sets_offsets("not-there")
    assert mirror.status(FORWARD).running and mirror.offsets(FORWARD).aliases == {"primary"}


def test_a_partition_is_placed_led_and_set_as_asked(primary: KafkaCluster, topic: str) -> None:
    """As the probe's topic needs it: on a chosen broker, led by it, with one setting changed and the others kept."""
    (broker,) = primary.brokers()
    assert primary.create_partitions(topic, 5, assignment=[[broker.id]]) is True
    assert primary.topics([topic])[topic].replicas[4] == (broker.id,)
    # An election that is not needed is no error.
    primary.elect_preferred_leaders(topic, range(5))
    assert set(primary.topics([topic])[topic].partitions.values()) == {broker.id}
    primary.set_config(topic, "retention.ms", "5000")
    primary.set_config(topic, "min.insync.replicas", "1")
    eventually(
        lambda: {"retention.ms": "5000", "min.insync.replicas": "1"}.items() <= primary.configs([topic])[topic].items(),
        "both settings",
        10,
    )


def test_creating_twice_is_harmless_and_another_shape_is_found_out(primary: KafkaCluster, topic: str) -> None:
    """The same topic again is False; other partitions than asked for are an error; configs are read back."""
    assert primary.create_topic(topic, 4, 1) is False
    with pytest.raises(ReadBackFailed, match="does not have 5 partitions with a leader.*4 partitions"):
        primary.create_topic(topic, 5, 1, timeout=1)
    assert primary.create_partitions(topic, 6) is True
    assert primary.create_partitions(topic, 6) is False
    with pytest.raises(ReadBackFailed):
        primary.create_partitions(topic, 5, timeout=1)
    assert sorted(primary.topics([topic, "not-there"])[topic].partitions) == list(range(6))


def test_many_topics_are_made_by_one_request(primary: KafkaCluster, name: str) -> None:
    """With their partitions, replicas and settings; again is harmless, and one of another shape is found out."""
    topics = {
        f"{name}-{number}": TopicToCreate(2, 1, {"cleanup.policy": "compact"}) for number in range(MANY_TOPICS)
    } | {f"{name}-default": TopicToCreate(1)}
    counts = {topic: asked.partitions for topic, asked in topics.items()}
    for _ in range(2):
        primary.create_topics(topics)
        primary.await_leaders(counts)
    assert {topic: len(info.partitions) for topic, info in primary.topics(topics).items()} == counts
    assert primary.configs([f"{name}-7"])[f"{name}-7"].overrides == {"cleanup.policy"}
    with pytest.raises(ReadBackFailed, match=f"'{name}-7' .* does not have 3 partitions with a leader.*2 partitions"):
        primary.await_leaders(counts | {f"{name}-7": 3}, timeout=1)
    grown = {topic: count + 1 for topic, count in counts.items()}
    for _ in range(2):
        primary.add_partitions(grown)
        primary.await_leaders(grown)
    primary.add_partitions(counts)
    with pytest.raises(ReadBackFailed, match="does not have 2 partitions with a leader.*3 partitions"):
        primary.await_leaders(counts, timeout=1)
    primary.delete_topics(topics)


def test_a_recreated_topic_has_another_id(primary: KafkaCluster, name: str) -> None:
    """Deleting and creating anew is visible in the id; own settings are told from defaults."""
    primary.create_topic(name, 1, 1, {"cleanup.policy": "compact"})
    first = primary.topics([name])[name].topic_id
    assert primary.configs([name])[name].overrides == {"cleanup.policy"}
    assert primary.delete_topic(name) is True
    assert primary.delete_topic(name) is False
    primary.create_topic(name, 1, 1)
    again = primary.topics([name])[name]
    assert again.topic_id != first and again.in_sync == {0: again.replicas[0]}
    assert name in primary.topics() and primary.configs([name])[name].overrides == frozenset()
    primary.delete_topic(name)


def test_a_log_is_as_large_as_what_was_written(primary: KafkaCluster, lab_status: dict[str, Any], name: str) -> None:
    """On its broker's disk; a topic that is not there has no size."""
    primary.create_topic(name, 2, 1)
    producer = Producer(config(lab_status, "primary"))
    producer.produce(name, os.urandom(50_000), partition=1)
    assert producer.flush(30) == 0
    sizes = LogDirectories(config(lab_status, "primary"), "primary").sizes([name, f"{name}-not-there"])
    assert sizes.keys() == {TopicPartition(name, 0), TopicPartition(name, 1)}
    assert sizes[TopicPartition(name, 0)] == 0 and 50_000 < sizes[TopicPartition(name, 1)] < 60_000
    primary.delete_topic(name)


def test_thousands_of_partitions_are_one_question(
    primary: KafkaCluster, lab_status: dict[str, Any], wide: list[TopicPartition]
) -> None:
    """Ends, starts, a group's positions and tails of thousands of partitions come whole, and soon."""
    began = time.monotonic()
    assert primary.ends(wide) == primary.starts(wide) == dict.fromkeys(wide, 0)
    assert time.monotonic() - began < 20
    producer = Producer({**config(lab_status, "primary"), "linger.ms": 20})
    for tp in wide[::2]:
        producer.produce(tp.topic, b"last", partition=tp.partition)
    assert producer.flush(60) == 0
    tails = RecordReader(config(lab_status, "primary"), "primary").last_records(wide, record_of, 2)
    assert [bool(tails[tp].records) for tp in wide] == [tp.partition % 2 == 0 for tp in wide]
    group = f"wide-{uuid.uuid4().hex[:6]}"
    assert set(primary.commit(group, dict.fromkeys(wide, 1)).values()) == {OK}
    assert primary.positions([group])[group].keys() == set(wide)


def test_a_thousand_groups_are_committed_and_read_back(primary: KafkaCluster, wide: list[TopicPartition]) -> None:
    """1,000 groups x 10 positions of their own, with metadata, come back exactly; a second run changes nothing."""
    mark, partitions = uuid.uuid4().hex[:6], wide[:10]
    wanted = {
        f"gruppe-ü-{mark}-{g}": {tp: Position(g * 10 + tp.partition, f"from {g}") for tp in partitions}
        for g in range(1000)
    }
    for _ in range(2):
        assert primary.commit_many(wanted.items()) == {group: dict.fromkeys(partitions, OK) for group in wanted}
        assert primary.positions(wanted) == wanted
        columns = primary.position_columns(wanted)
        assert set(zip(*columns, strict=True)) == {
            (g, *tp, p.offset) for g, at in wanted.items() for tp, p in at.items()
        }
    assert set(primary.delete_groups(wanted).values()) == {OK}
    assert set(map(len, primary.positions(wanted).values())) == {0}


def test_groups_known_only_through_commits_are_groups(primary: KafkaCluster, topic: str) -> None:
    """A group that never had a member is listed, empty, with position 0 as a position."""
    group = f"nur-über-admin-日本-{uuid.uuid4().hex[:6]}"
    tp = TopicPartition(topic, 0)
    primary.commit(group, {tp: 0})
    found = primary.groups()[group]
    assert (found.state, found.protocol_type, found.empty) == ("Empty", "", True)
    assert primary.positions([group])[group] == {tp: Position(0)}
    assert primary.delete_groups([group, "never-was"]) == {group: OK, "never-was": OK}
    assert group not in primary.groups()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_active_group_is_seen_and_not_written(
    primary: KafkaCluster, lab_status: dict[str, Any], topic: str, protocol: str
) -> None:
    """Members and topics are shown; commits and deletion are refused meanwhile, for both protocols."""
    group = f"active-{protocol}-{uuid.uuid4().hex[:6]}"
    settings = {
        **config(lab_status, "primary", "consumer"),
        "group.id": group,
        "client.id": "reader-ü",
        "group.protocol": protocol,
    }
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
    consumer.subscribe([topic])

    def joined() -> bool:
        consumer.poll(0.2)
        members = primary.groups().get(group)
        return bool(members and members.members and len(members.members[0].assignment) == 4)

    try:
        eventually(joined, f"{group} has joined")
        info = primary.groups()[group]
        assert (info.state, info.type, info.empty, info.members[0].client_id) == ("Stable", protocol, False, "reader-ü")
        tp = TopicPartition(topic, 0)
        assert primary.commit(group, {tp: 1}) == {tp: GROUP_IS_ACTIVE}
        assert primary.delete_groups([group]) == {group: GROUP_IS_ACTIVE}
    finally:
        consumer.close()
    eventually(lambda: primary.groups()[group].empty, "the group is empty")
    assert primary.commit(group, {tp: 1}) == {tp: OK}
    primary.delete_groups([group])


def test_good_and_bad_partitions_of_one_commit_are_told_apart(primary: KafkaCluster, topic: str) -> None:
    """An unknown partition and too much metadata are refused by name; the rest of the commit stands."""
    group, good = f"mixed-{uuid.uuid4().hex[:6]}", TopicPartition(topic, 0)
    bad, long = TopicPartition(topic, 99), TopicPartition(topic, 1)
    outcome = primary.commit(group, {good: 5, bad: 5, long: Position(5, "x" * 10_000)})
    assert outcome == {good: OK, bad: "UNKNOWN_TOPIC_OR_PART", long: "OFFSET_METADATA_TOO_LARGE"}
    assert primary.positions([group])[group] == {good: Position(5)}
    primary.delete_groups([group])


def test_acl_entries_go_round_and_nothing_else_moves(primary: KafkaCluster) -> None:
    """Entries of all kinds are added, read back, removed exactly; a look-alike and all others stay."""
    acls, mark = ClusterAcls(primary), f"ü-{uuid.uuid4().hex[:6]}"
    before = acls.entries()
    wanted = [
        AclEntry("topic", mark, "literal", "User:nobody", "*", "write", "deny"),
        AclEntry("topic", mark, "prefixed", "User:nobody", "*", "write", "deny"),
        AclEntry("topic", mark, "literal", "User:*", "127.0.0.1", "read", "allow"),
        AclEntry("group", mark, "literal", "User:nobody", "*", "read", "deny"),
        AclEntry("transactional_id", mark, "prefixed", "User:nobody", "*", "all", "allow"),
        AclEntry("cluster", "kafka-cluster", "literal", f"User:{mark}", "*", "idempotent_write", "allow"),
    ]
    acls.add(wanted)
    acls.add(wanted)
    eventually(lambda: acls.missing(wanted) == [], "the entries are there", 10)
    assert acls.entries() == before | set(wanted)
    eventually(lambda: set(acls.entries_by_broker().values()) == {acls.entries()}, "on each broker", 10)
    for topic in {entry.name for entry in acls.entries() if entry.resource_type == "topic"} | {"no-such-topic"}:
        named = {e for e in acls.entries() if (e.resource_type, e.name, e.pattern) == ("topic", topic, "literal")}
        assert set(acls.entries_by_broker(topic).values()) == {frozenset(named)}
        covering = {e for e in acls.entries() if e.resource_type == "topic" and e.covers(topic)}
        assert topic == "*" or acls.entries_for(topic) == covering
    assert acls.remove(wanted[:1]) == {wanted[0]}
    assert acls.remove(wanted[:1]) == frozenset()
    eventually(lambda: acls.entries() == before | set(wanted[1:]), "one is gone", 10)
    assert acls.remove([wanted[0], *wanted[1:]]) == set(wanted[1:])
    eventually(lambda: acls.entries() == before, "all as found", 10)
    assert acls.missing(wanted) == sorted(wanted)


def test_rights_to_read_acls_are_needed_to_say_there_are_none(
    lab_status: dict[str, Any], primary: KafkaCluster
) -> None:
    """A connection without the right gets an error, not an empty list; the authorizer is seen by both."""
    weak = ClusterAcls(KafkaCluster("primary", config(lab_status, "primary", "producer")))
    with pytest.raises(KafkaUnavailable, match="CLUSTER_AUTHORIZATION_FAILED"):
        weak.entries()
    assert all(
        "CLUSTER_AUTHORIZATION" in error.seen.upper() or "ClusterAuthorization" in error.seen
        for error in weak.entries_by_broker().values()
    )
    assert weak.authorizer() is ClusterAcls(primary).authorizer() is Authorizer.BY_ACL


def test_a_probe_asks_the_broker_every_time(lab_status: dict[str, Any], primary: KafkaCluster, topic: str) -> None:
    """One writer sees the fence come, stay and go; other failures are never taken for it."""
    acls, writer = (
        ClusterAcls(primary),
        RecordWriter(config(lab_status, "primary", "producer"), "primary"),
    )
    deny = AclEntry("topic", topic, "literal", "User:producer", "*", "write", "deny")
    broker = primary.brokers()[0].id
    assert writer.probe(topic, 0) == WriteAccepted(0, broker)
    acls.add([deny])
    eventually(
        lambda: writer.probe(topic, 0) == WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, broker),
        "the probe is refused",
        10,
    )
    assert writer.write(topic, 1, b"x") == WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, broker)
    acls.remove([deny])
    eventually(lambda: isinstance(writer.probe(topic, 0), WriteAccepted), "the probe gets through again", 10)
    assert "UNKNOWN_TOPIC" in writer.probe("__hooks-nowhere", 0).error
    assert writer.write(topic, 0, b"x" * 3_000_000) == WriteRefused("MSG_SIZE_TOO_LARGE", False, broker)


def test_a_written_record_reads_back_the_same(lab_status: dict[str, Any], topic: str) -> None:
    """Key, tombstone value and headers survive, at the offset that was acknowledged."""
    headers = (("id", b"7"), ("id", b""), ("none", None))
    written = RecordWriter(config(lab_status, "primary"), "primary").write(topic, 2, None, b"k", headers)
    assert isinstance(written, WriteAccepted)
    (found,) = RecordReader(config(lab_status, "primary")).range(
        TopicPartition(topic, 2), written.offset, written.offset + 1
    )
    assert (found.key, found.value, found.headers, found.log_append_time) == (b"k", None, headers, False)


def transaction(producer: Producer, topic: str, values: list[bytes], end: Callable[[Producer], Any]) -> None:
    """Write records to partition 0 in one transaction and end it."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    end(producer)


def test_markers_and_aborted_records_do_not_hold_a_reader_up(
    lab_status: dict[str, Any], primary: KafkaCluster, topic: str
) -> None:
    """Tails end behind markers, aborted records count by isolation, an open transaction bounds read_committed."""
    settings = config(lab_status, "primary")
    producer = Producer({**settings, "transactional.id": f"tx-{uuid.uuid4().hex[:6]}"})
    producer.init_transactions(30)
    transaction(producer, topic, [b"kept"], Producer.commit_transaction)
    for number in range(20):
        transaction(producer, topic, [b"aborted %d" % number], Producer.abort_transaction)
    tp, end = TopicPartition(topic, 0), 42
    eventually(
        lambda: primary.ends([tp]) == {tp: end}, "the last marker is written, which happens after the abort returns", 30
    )
    seen_all = RecordReader(settings).last_records([tp], record_of)[tp]
    assert (seen_all.last.value, seen_all.skipped_at_end) == (b"aborted 19", 1)
    committed = RecordReader(settings, isolation=READ_COMMITTED)
    tail = committed.last_records([tp], record_of)[tp]
    assert (tail.last.value, tail.last.offset, tail.end, tail.skipped_at_end) == (b"kept", 0, end, 41)
    assert committed.ranges({tp: OffsetSpan(1, end)}) == {tp: []}
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    eventually(lambda: primary.ends([tp]) == {tp: end + 1}, "the open record is there", 30)
    assert primary.ends([tp], READ_COMMITTED) == {tp: end}
    assert committed.last_records([tp], record_of)[tp].last.value == b"kept"
    producer.abort_transaction(30)


def test_a_log_cut_at_its_head_is_read_from_where_it_starts(
    primary: KafkaCluster, lab_status: dict[str, Any], topic: str
) -> None:
    """Deleted records are neither waited for nor invented; asking for them by offset is an error."""
    settings, tp = config(lab_status, "primary"), TopicPartition(topic, 3)
    producer = Producer(settings)
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=3)
    producer.flush(30)
    for future in primary.admin.delete_records([WirePartition(topic, 3, 8)]).values():
        future.result(30)
    tail = RecordReader(settings).last_records([tp], record_of, 5)[tp]
    assert [r.value for r in tail.records] == [b"8", b"9"] and tail.scanned_from == 8
    with pytest.raises(KafkaUnavailable, match=topic):
        RecordReader(settings).range(tp, 5, 10, timeout=10)


def test_mirror_maker_internal_topics_are_read_whole(lab_status: dict[str, Any]) -> None:
    """The offset syncs on the standby come as raw 16-byte values."""
    rows = list(RecordReader(config(lab_status, "standby"), "standby").read_all("mm2-offset-syncs.primary.internal"))
    assert rows and {len(row.value) for row in rows} == {16}
    with pytest.raises(KafkaUnavailable, match="not-there"):
        list(RecordReader(config(lab_status, "standby"), "standby").read_all("not-there"))


def test_stop_seed_and_resume_replicate_from_exactly_there(
    lab_status: dict[str, Any], primary: KafkaCluster, standby: KafkaCluster, mirror: MirrorMaker
) -> None:
    """X - 1 starts at X, None starts at 0; a misspelt alias, a running connector and a wrong name are refused."""
    name = f"seeded-{uuid.uuid4().hex[:6]}"
    tp = TopicPartition(name, 0)
    primary.create_topic(name, 1, 1)
    producer = Producer(config(lab_status, "primary", "producer"))
    for number in range(10):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    remote = TopicPartition(name if lab_status["policy"] == "identity" else f"primary.{name}", 0)
    eventually(
        lambda: remote.topic in standby.topics([remote.topic]) and standby.ends([remote])[remote] == 10,
        "10 records mirrored",
    )
    with pytest.raises(NotReady, match="RUNNING"):
        mirror.change_offsets(FORWARD, "primary", {tp: 4})
    try:
        assert mirror.stop(FORWARD).stopped
        kept = mirror.offsets(FORWARD)
        assert kept.aliases == {"primary"} and kept.of("primary")[tp] == 9
        with pytest.raises(BadInput, match="primray"):
            mirror.change_offsets(FORWARD, "primray", {tp: 4})
        after = mirror.change_offsets(FORWARD, "primary", {tp: 4})
        assert after.of("primary") == {**kept.of("primary"), tp: 4}
        mirror.resume(FORWARD, deadline=90)
        eventually(lambda: standby.ends([remote])[remote] == 15, "5 to 9 come again")
        mirror.stop(FORWARD)
        assert mirror.change_offsets(FORWARD, "primary", {tp: None}).of("primary").get(tp) is None
    finally:
        mirror.resume(FORWARD, deadline=90)
    eventually(lambda: standby.ends([remote])[remote] == 25, "all 10 come again")
    values = [r.value for r in RecordReader(config(lab_status, "standby")).range(remote, 10, 25)]
    assert values == [b"%d" % n for n in (*range(5, 10), *range(10))]


def test_connectors_are_named_paused_and_their_absence_is_an_error(mirror: MirrorMaker) -> None:
    """All three connectors are there, secrets hidden; pausing keeps tasks; an unknown name is told at once."""
    assert FORWARD in mirror.connectors()
    assert mirror.config(FORWARD)["source.cluster.alias"] == "primary"
    assert not [v for k, v in mirror.config(FORWARD).items() if "jaas" in k and v != "[hidden]"]
    heartbeat = "primary-to-standby-heartbeat"
    assert mirror.pause(heartbeat).tasks
    assert mirror.resume(heartbeat).running
    with pytest.raises(ConnectUnavailable, match="no-such"):
        mirror.status("no-such")
    with pytest.raises(ConnectUnavailable, match="are not those of a MirrorMaker 2 source connector"):
        mirror.offsets(heartbeat)
