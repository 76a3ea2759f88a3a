"""Records: identity, reading by position, writing once; against librdkafka's mock brokers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers import record_reader as kafka_records
from kafka_dr.hooks.brokers.record import OffsetSpan, Record, Tail, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import (
    _AUTHORIZATION,
    _REJECTION,
    RecordWriter,
    WriteRefused,
    WriteUnknown,
    _verdict,
)

NOWHERE = {"bootstrap.servers": "127.0.0.1:9"}
ORDERS = [TopicPartition("orders", number) for number in range(4)]


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Mock brokers; partition n of `orders` holds 10 * n records with their number as value."""
    producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": "2", "log_level": 0})
    servers = ",".join(f"{b.host}:{b.port}" for b in producer.list_topics(timeout=10).brokers.values())
    for topic, partition in ORDERS:
        for number in range(10 * partition):
            producer.produce(topic, f"{number}", partition=partition, timestamp=1000 + number)
    odd = [(None, None, None), (b"", b"", [("h", None), ("h", b""), ("ü", b"\xff")]), (b"k", None, [])]
    for key, value, headers in odd:
        producer.produce("odd", value, key, partition=0, headers=headers)
    producer.flush(10)
    yield servers


def test_a_write_to_nobody_ends_in_time(hanging: str) -> None:
    """Hanging connects and silent servers cost a write no more than its timeout, its client's end included."""
    began = time.monotonic()
    answer = RecordWriter({"bootstrap.servers": hanging}, "east").probe("t", 0, timeout=0.7)
    assert isinstance(answer, WriteUnknown) and "_TIMED_OUT" in answer.error
    assert time.monotonic() - began < 2.5


@pytest.fixture(params=[False, True], ids=["a client a read", "one client"])
def reader(request: pytest.FixtureRequest, brokers: str) -> RecordReader:
    """The reader under test."""
    return RecordReader({"bootstrap.servers": brokers}, "east", keeps_client=request.param)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The clients that readers make."""
    clients: list[Any] = []
    real = kafka_records.Consumer
    monkeypatch.setattr(kafka_records, "Consumer", lambda config: clients.append(real(config)) or clients[-1])
    return clients


def record(**fields) -> Record:
    """A record with safe defaults."""
    return Record("t", 0, 0, 5, False, b"k", b"v", ())._replace(**fields)


def test_equal_content_has_equal_fingerprints_wherever_it_stands() -> None:
    """Topic, partition and offset do not count; the timestamp only where asked for."""
    here, there = record(), record(topic="east.t", partition=7, offset=99, timestamp=6)
    assert here.fingerprint() == there.fingerprint()
    assert here.fingerprint(with_timestamp=True) != there.fingerprint(with_timestamp=True)


def test_different_content_has_different_fingerprints() -> None:
    """None is not empty, and nothing can move between key, value and headers unnoticed."""
    pairs = [(b"k", b"v"), (None, b"v"), (b"", b"v"), (b"k", None), (b"k", b""), (b"kv", b""), (b"", b"kv")]
    one, other = ("a", b"b"), ("c", b"d")
    headers = [(("a", None),), (("a", b""),), (("", b"a"),), (one, other), (other, one), (("ab", b""), other)]
    kinds = [record(key=key, value=value) for key, value in pairs] + [record(headers=each) for each in headers]
    assert len({kind.fingerprint() for kind in kinds}) == len(kinds) == 13


def test_records_come_as_they_were_written(reader: RecordReader) -> None:
    """None, empty, recurring and unicode headers are told apart."""
    rows = [(r.key, r.value, r.headers) for r in reader.scan(reader.spans([TopicPartition("odd", 0)]))]
    assert rows == [(None, None, ()), (b"", b"", (("h", None), ("h", b""), ("ü", b"\xff"))), (b"k", None, ())]


def test_tails_hold_the_last_records_of_every_partition(reader: RecordReader) -> None:
    """At most n by offset, less where there are less, none on an empty partition."""
    tails = reader.last_records(ORDERS, record_of, 3)
    found = {tp: [r.offset for r in tail.records] for tp, tail in tails.items()}
    assert found == {ORDERS[0]: [], ORDERS[1]: [7, 8, 9], ORDERS[2]: [17, 18, 19], ORDERS[3]: [27, 28, 29]}
    assert tails[ORDERS[3]].last.value == b"29" and tails[ORDERS[3]].skipped_at_end == 0
    assert tails[ORDERS[0]] == Tail((), 0, 0) and tails[ORDERS[0]].last is None


def test_more_than_there_is_gives_what_there_is(reader: RecordReader) -> None:
    """Asking for more than a log holds reads it from its start and ends."""
    tail = reader.last_records([ORDERS[1]], record_of, 1000)[ORDERS[1]]
    assert [r.offset for r in tail.records] == list(range(10)) and tail.scanned_from == 0


def test_ranges_are_half_open_and_limited(reader: RecordReader) -> None:
    """Offsets start <= o < end, at most `limit`; an empty span asks nobody."""
    assert [r.offset for r in reader.range(ORDERS[2], 5, 8)] == [5, 6, 7]
    assert [r.offset for r in reader.range(ORDERS[2], 5, 20, limit=2)] == [5, 6]
    assert reader.range(ORDERS[2], 5, 5) == [] == reader.range(ORDERS[2], 0, 9, limit=0)
    spans = {ORDERS[1]: OffsetSpan(9, 10), ORDERS[2]: OffsetSpan(0, 2)}
    found = {tp: [r.offset for r in rows] for tp, rows in reader.ranges(spans).items()}
    assert found == {ORDERS[1]: [9], ORDERS[2]: [0, 1]}


def test_a_whole_topic_is_read_in_order(reader: RecordReader) -> None:
    """Every record once, by offset within its partition."""
    found: dict[int, list[int]] = {}
    for row in reader.scan(reader.spans(ORDERS)):
        found.setdefault(row.partition, []).append(row.offset)
    assert found == {n: list(range(10 * n)) for n in (1, 2, 3)}


def test_a_span_beyond_the_log_ends_in_time_and_is_named(reader: RecordReader) -> None:
    """A position that is never reached is an error naming the partition, not an empty answer."""
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="orders-1 up to 11"):
        reader.range(ORDERS[1], 5, 11, timeout=1.5)
    assert time.monotonic() - began < 8


def test_a_partition_that_is_given_up_keeps_nothing_from_the_others(reader: RecordReader) -> None:
    """One whose end is not reached in time, and one whose offsets are not in the log: both are noted."""
    spans, given_up = {ORDERS[1]: OffsetSpan(5, 11), ORDERS[2]: OffsetSpan(50, 60), ORDERS[3]: OffsetSpan(20, 30)}, {}
    found = [(r.partition, r.offset) for r in reader.scan(spans, 3, given_up=given_up)]
    assert [offset for partition, offset in found if partition == 3] == list(range(20, 30))
    assert set(given_up) == {ORDERS[1], ORDERS[2]} and given_up[ORDERS[1]] == "not reached in time"


def test_a_topic_may_be_read_from_within(reader: RecordReader) -> None:
    """Of each partition from an offset on, from its beginning where none is named; one beyond the end reads nothing."""
    begin = {ORDERS[1]: 8, ORDERS[2]: 20, ORDERS[3]: 99}
    # Mock brokers do not describe topics.
    reader._cluster.topics = lambda names, timeout: {"orders": SimpleNamespace(partitions=range(4))}
    found = [(r.partition, r.offset) for r in reader.read_all("orders", begin=begin)]
    assert found == [(1, 8), (1, 9)]


def test_the_clients_queue_is_as_long_as_asked_for() -> None:
    """Large records wait in it."""
    assert RecordReader(NOWHERE)._config["queued.max.messages.kbytes"] == 16_384
    assert RecordReader(NOWHERE, queued_kbytes=1_024)._config["queued.max.messages.kbytes"] == 1_024


def test_one_client_reads_again_and_again(brokers: str, made: list[Any]) -> None:
    """Each read gives what it asks for, and nothing of one before: neither of its partitions nor of its span."""
    reader, one, two = RecordReader({"bootstrap.servers": brokers}, "east", keeps_client=True), ORDERS[2], ORDERS[3]
    for spans in (
        {one: OffsetSpan(3, 9), two: OffsetSpan(0, 30)},
        {one: OffsetSpan(0, 2)},
        {two: OffsetSpan(29, 30)},
        {one: OffsetSpan(3, 9), two: OffsetSpan(5, 6)},
    ):
        found = reader.ranges(spans, timeout=10)
        assert {tp: [record.offset for record in records] for tp, records in found.items()} == {
            tp: list(range(*span)) for tp, span in spans.items()
        }
    assert len(made) == 1 and not made[0].assignment()


def test_a_kept_client_does_not_wait_for_its_turn_where_a_topic_is_new_to_it(
    brokers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself it asks for a topic's leader once a second only; now and then that second is just over."""

    def seconds() -> float:
        reader = RecordReader({"bootstrap.servers": brokers}, "east", keeps_client=True)
        list(reader.scan({ORDERS[1]: OffsetSpan(0, 10)}, timeout=10))
        began = time.monotonic()
        assert len(list(reader.scan({TopicPartition("odd", 0): OffsetSpan(0, 3)}, timeout=10))) == 3
        return time.monotonic() - began

    asking = [seconds() for _ in range(3)]
    monkeypatch.setattr(RecordReader, "_request_leaders", lambda *_: None)
    by_itself = [seconds() for _ in range(5)]
    assert 4 * statistics.median(asking) < max(by_itself), (asking, by_itself)


@pytest.mark.parametrize("how", ["left", "too late", "given up", "outside the log"])
def test_a_read_that_does_not_end_takes_its_client_with_it(brokers: str, made: list[Any], how: str) -> None:
    """What it had asked for may still be on its way."""
    reader, tp = RecordReader({"bootstrap.servers": brokers}, "east", keeps_client=True), ORDERS[3]
    if how == "left":
        assert next(reader.scan({tp: OffsetSpan(0, 30)})).offset == 0
    elif how == "too late":
        with pytest.raises(KafkaUnavailable):
            list(reader.scan({tp: OffsetSpan(0, 30)}, timeout=0))
    elif how == "given up":
        assert list(reader.scan({tp: OffsetSpan(0, 30)}, timeout=0, given_up=(late := {}))) == [] and late
    else:
        with pytest.raises(KafkaUnavailable):
            list(reader.scan({tp: OffsetSpan(500, 600)}, timeout=10))
    assert [record.offset for record in reader.scan({tp: OffsetSpan(1, 4)}, timeout=10)] == [1, 2, 3]
    assert len(made) == 2
    with pytest.raises(RuntimeError, match="closed"):
        made[0].assignment()


def test_a_client_of_each_read_is_closed_with_it(brokers: str, made: list[Any]) -> None:
    """Of a reader that keeps none."""
    reader = RecordReader({"bootstrap.servers": brokers}, "east")
    for _ in range(2):
        assert len(list(reader.scan({ORDERS[1]: OffsetSpan(0, 10)}, timeout=10))) == 10
    assert len(made) == 2
    with pytest.raises(RuntimeError, match="closed"):
        made[-1].assignment()


def test_a_topic_that_does_not_exist_is_named(reader: RecordReader) -> None:
    """Its tail is an error, not an empty answer."""
    with pytest.raises(KafkaUnavailable, match="nothing-here-0"):
        reader.last_records([TopicPartition("nothing-here", 0)], record_of, timeout=3)


def test_a_dead_cluster_is_named_in_time() -> None:
    """Reading from nobody ends with the alias."""
    with pytest.raises(KafkaUnavailable, match="west"):
        RecordReader(NOWHERE, "west").last_records(ORDERS, record_of, timeout=1)


def test_an_unknown_isolation_level_is_refused() -> None:
    """The level is always explicit and one of two."""
    with pytest.raises(BadInput, match="read_sometimes"):
        RecordReader(NOWHERE, isolation="read_sometimes")
    assert RecordReader(NOWHERE)._config["isolation.level"] == "read_uncommitted"


def test_a_write_to_nobody_is_unknown_and_names_why() -> None:
    """An unreachable cluster is never a refusal."""
    result = RecordWriter(NOWHERE, "west").probe("t", 0, timeout=1)
    assert isinstance(result, WriteUnknown) and "refused" in result.error
    assert isinstance(RecordWriter(NOWHERE, "west").write("t", 0, b"x", timeout=1), WriteUnknown)


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"])
def test_want_of_rights_is_a_refusal_for_both(name: str) -> None:
    """Authorization errors prove a fence, to a probe as to a write."""
    error = KafkaError(getattr(KafkaError, name))
    assert _verdict(error, _AUTHORIZATION, 1) == WriteRefused(name, True, 1) == _verdict(error, _REJECTION, 1)


@pytest.mark.parametrize(
    "name", ["UNKNOWN_TOPIC_OR_PART", "NOT_LEADER_FOR_PARTITION", "MSG_SIZE_TOO_LARGE", "NOT_ENOUGH_REPLICAS"]
)
def test_other_rejections_prove_no_fence(name: str) -> None:
    """A probe calls them unknown; a write knows that the record is not in the log, and not for want of rights."""
    error = KafkaError(getattr(KafkaError, name))
    assert _verdict(error, _AUTHORIZATION, 1) == WriteUnknown(name)
    assert _verdict(error, _REJECTION, 1) == WriteRefused(name, False, 1)


@pytest.mark.parametrize(
    "name", ["_MSG_TIMED_OUT", "_TRANSPORT", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "_PURGE_INFLIGHT"]
)
def test_where_the_record_may_be_in_the_log_nothing_is_claimed(name: str) -> None:
    """Time-outs and broken connections are unknown to probe and write alike."""
    error = KafkaError(getattr(KafkaError, name))
    assert _verdict(error, _AUTHORIZATION, 1) == WriteUnknown(name) == _verdict(error, _REJECTION, 1)


def test_repr_holds_no_secret() -> None:
    """Neither reader nor writer shows its connection."""
    config = {**NOWHERE, "sasl.password": "hunter2"}
    assert "hunter2" not in repr(RecordReader(config)) + repr(RecordWriter(config))
