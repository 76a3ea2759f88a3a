"""Source offsets in an offsets topic: what is written, read back, and refused."""

from __future__ import annotations

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.offset_records import OffsetRecord, offset_key, producer_partition
from kafka_dr.errors import ConnectUnavailable, NotReady, ReadBackFailed
from kafka_dr.hooks.connect import offsets_topic

from tests.support.offsets.stored_topic import StoredTopic, written_by

SOURCE = "MirrorSourceConnector"
ORDERS, NEW, OTHER = TopicPartition("orders", 3), TopicPartition("never-seen", 7), TopicPartition("A_b", 5)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> StoredTopic:
    """What a real process of dedicated mode has written; no pause between writes."""
    monkeypatch.setattr(offsets_topic, "_POLL_SECONDS", 0.001)
    return StoredTopic(*written_by("dedicated-4.3.1"))


def test_offsets_are_set_byte_for_byte_where_a_worker_looks(topic: StoredTopic) -> None:
    """A known key, an unknown one, and a tombstone; the others stay, and a second call writes nothing."""
    client = topic.client()
    before, count = client.offsets(SOURCE).of("primary"), len(topic.records)
    assert before[OTHER] == 5 and NEW not in before
    after = client.change(SOURCE, "primary", {ORDERS: 41, NEW: 6, OTHER: None})
    keys = {tp: offset_key(SOURCE, "primary", tp) for tp in (ORDERS, NEW, OTHER)}
    assert sorted(topic.records[count:]) == sorted(
        OffsetRecord(producer_partition(keys[tp], 5), keys[tp], value)
        for tp, value in ((ORDERS, b'{"offset":41}'), (NEW, b'{"offset":6}'), (OTHER, None))
    )
    assert after.of("primary") == {**before, ORDERS: 41, NEW: 6, OTHER: None} == client.offsets(SOURCE).of("primary")
    client.change(SOURCE, "primary", {ORDERS: 41, NEW: 6, OTHER: None})
    assert topic.requests == 1


def test_a_write_that_a_broker_did_not_take_is_repeated(topic: StoredTopic) -> None:
    """Until the topic holds what was written."""
    answers = [["NOT_LEADER_FOR_PARTITION"], ["no answer within 1 s"]]
    topic.refuses = lambda: answers.pop() if answers else None
    assert topic.client().change(SOURCE, "primary", {NEW: 6}).of("primary")[NEW] == 6
    assert topic.requests == 3


def test_what_is_not_stored_at_the_deadline_is_told(topic: StoredTopic) -> None:
    """With the broker's reason and the partition."""
    topic.refuses = lambda: ["TOPIC_AUTHORIZATION_FAILED"]
    with pytest.raises(ReadBackFailed, match="does not hold the offsets") as told:
        topic.client().change(SOURCE, "primary", {NEW: 6}, timeout=0.05)
    assert "TOPIC_AUTHORIZATION_FAILED" in told.value.seen and f"{NEW}: expected 6" in told.value.seen


def test_a_process_that_still_stores_offsets_is_found_out(topic: StoredTopic) -> None:
    """Another partition moved between the first look and the last."""
    key = offset_key(SOURCE, "primary", OTHER)
    topic.afterwards = lambda: topic.records.append(OffsetRecord(producer_partition(key, 5), key, b'{"offset":6}'))
    with pytest.raises(ReadBackFailed, match="does not hold") as told:
        topic.client().change(SOURCE, "primary", {NEW: 6})
    assert f"{OTHER}: expected 5, read back 6" in told.value.seen


def test_a_missing_topic_is_refused() -> None:
    """It has no offsets, and none can be set: its name may be wrong."""
    topic = StoredTopic(partitions=0)
    assert topic.client().offsets(SOURCE).by_alias == {}
    with pytest.raises(NotReady, match="cannot be set in topic offsets of east") as told:
        topic.client().change(SOURCE, "primary", {NEW: 6})
    assert told.value.seen == topic.client().problem(SOURCE) == "topic offsets does not exist on east"
    assert topic.requests == 0 and topic.created == []


@pytest.mark.parametrize(("stated", "replicas"), [(None, 2), (1, 1)])
def test_the_topic_of_a_process_that_never_ran_is_created(stated: int | None, replicas: int) -> None:
    """As the process would: it may not start before its offsets are set, or it would copy everything."""
    topic = StoredTopic(partitions=0)
    client = topic.client(may_create=True, partitions=7, replicas=stated, beside=("mm2-status",))
    assert client.problem(SOURCE) == ""
    assert client.change(SOURCE, "primary", {NEW: 6}).of("primary") == {NEW: 6}
    assert topic.created == [("offsets", 7, replicas, {"cleanup.policy": "compact"})]


def test_no_topic_is_created_where_processes_have_run() -> None:
    """Their offsets are in another topic."""
    topic = StoredTopic(partitions=0, others=["mm2-status"])
    client = topic.client(may_create=True, beside=("mm2-configs", "mm2-status"))
    with pytest.raises(NotReady) as told:
        client.change(SOURCE, "primary", {NEW: 6})
    assert "though processes of the flow have created mm2-status" in told.value.seen and topic.created == []


def test_keys_of_another_form_are_refused_when_there_are_no_others(topic: StoredTopic) -> None:
    """A worker with a converter of its own would look up other bytes; beside the worker's own they are passed over."""
    spaced = offset_key(SOURCE, "primary", NEW).replace(b",{", b",{ ")
    topic.records.append(OffsetRecord(0, spaced, b'{"offset":1}'))
    assert topic.client().change(SOURCE, "primary", {NEW: 6}).of("primary")[NEW] == 6
    other = StoredTopic(records=[OffsetRecord(0, spaced, b'{"offset":1}')])
    with pytest.raises(NotReady, match="cannot be set") as told:
        other.client().change(SOURCE, "primary", {NEW: 6})
    assert "never-seen" in told.value.seen and other.requests == 0


def test_entries_of_another_kind_of_connector_are_told(topic: StoredTopic) -> None:
    """Its values would mislead."""
    topic.records.append(OffsetRecord(0, offset_key(SOURCE, "primary", NEW), b'{"pos":1}'))
    with pytest.raises(ConnectUnavailable, match="not those of a MirrorMaker 2 source connector"):
        topic.client().offsets(SOURCE)
