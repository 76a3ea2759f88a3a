"""Keys, values and partitions of an offsets topic, as real workers write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.offset_records import (
    ConnectorRecords,
    OffsetRecord,
    hash_key,
    offset_key,
    offset_value,
    producer_partition,
)

from tests.support.offsets.stored_topic import written_by

WORKERS = {"connect-2.8.2": "primary-to-standby-source", "dedicated-4.3.1": "MirrorSourceConnector"}
ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("content", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_the_hash_is_the_java_clients(content: str, signed: int) -> None:
    """The vectors of Kafka's own test, `UtilsTest.testMurmur2`."""
    assert hash_key(content.encode()) == signed % 2**32


@pytest.mark.parametrize(("worker", "connector"), WORKERS.items())
def test_keys_values_and_partitions_are_those_of_a_real_worker(worker: str, connector: str) -> None:
    """Each record's bytes are made again from what it says, and its partition from its bytes alone."""
    partitions, records = written_by(worker)
    checked = set()
    for record in records:
        assert record.key is not None and producer_partition(record.key, partitions) == record.partition
        name, place = json.loads(record.key)
        if name == connector:
            source = TopicPartition(place["topic"], place["partition"])
            assert offset_key(name, place["cluster"], source) == record.key
            assert offset_value(json.loads(record.value or b"")["offset"]) == record.value
            checked.add(source)
    assert len(checked) > 10 and {0, 9} < {tp.partition for tp in checked}


@pytest.mark.parametrize(("worker", "connector"), WORKERS.items())
def test_the_offsets_of_a_real_worker_are_read(worker: str, connector: str) -> None:
    """Of partition p the lab's source held p + 1 records; other connectors' entries are left out."""
    found = ConnectorRecords.read(connector, *written_by(worker))
    assert set(found.by_alias) == {"primary"} and not found.foreign
    written = {tp: last for tp, last in found.offsets()["primary"].items() if tp.topic in ("orders.eu-v1", "A_b", "x")}
    assert written and all(last == tp.partition for tp, last in written.items())


def read(*records: tuple[int, bytes, bytes | None], partitions: int = 5) -> ConnectorRecords:
    """Return what a topic holds of the connector `c`."""
    return ConnectorRecords.read("c", partitions, [OffsetRecord(*record) for record in records])


@pytest.mark.parametrize(
    "key",
    [
        b'["c", {"cluster":"west","partition":0,"topic":"orders"}]',
        b'["c",{"topic":"orders","partition":0,"cluster":"west"}]',
        b'["c",{"cluster":"west","partition":"0","topic":"orders"}]',
        b'["c",{"cluster":"west","partition":0.0,"topic":"orders"}]',
        b'["c",{"cluster":"west","partition":0,"topic":"orders","more":1}]',
        b'["c",{"cluster":"west"}]',
        b'["c",7]',
        b'["c",',
        b'["c",' + b"[" * 100_000,
    ],
    ids=range(9),
)
def test_a_key_with_other_bytes_is_no_entry(key: bytes) -> None:
    """A worker looks up the bytes that it writes itself: neither a space nor another order is passed over."""
    own = offset_key("c", "west", ORDERS)
    found = read((0, own, b'{"offset":4}'), (0, key, b'{"offset":9}'))
    assert found.offsets() == {"west": {ORDERS: 4}} and found.foreign <= {key}
    assert not found.foreign or read((0, key, None)).offsets() == {}


@pytest.mark.parametrize("value", [b"x", b"{}", b"[]", b'{"offset":null}', b'{"offset":1.5}', b'{"offset":"1"}'])
def test_a_value_that_states_no_offset_is_reported(value: bytes) -> None:
    """A worker could not start with it either."""
    with pytest.raises(ValueError, match="orders"):
        read((0, offset_key("c", "west", ORDERS), value))


def test_later_records_of_a_partition_win() -> None:
    """A tombstone empties; other connectors, and names that begin alike, are left out."""
    key, other = offset_key("c", "west", ORDERS), offset_key("c2", "west", ORDERS)
    assert read((1, key, b'{"offset":4}'), (1, other, b'{"offset":5}'), (1, key, b'{"offset": 6}')).offsets() == {
        "west": {ORDERS: 6}
    }
    assert read((1, key, b'{"offset":4}'), (1, key, None)).offsets() == {"west": {ORDERS: None}}


def test_a_key_in_several_partitions_is_changed_in_each() -> None:
    """After partitions were added, a worker may read the older record last."""
    key = offset_key("c", "west", ORDERS)
    home = producer_partition(key, 5)
    elsewhere = (home + 1) % 5
    found = read((elsewhere, key, b'{"offset":4}'), (home, key, b'{"offset":9}'))
    assert found.offsets() == {"west": {ORDERS: 9}}
    assert found.changes("west", {ORDERS: 9}) == [OffsetRecord(elsewhere, key, b'{"offset":9}')]
    assert {record.partition for record in found.changes("west", {ORDERS: None})} == {home, elsewhere}
    alone = read((elsewhere, key, b'{"offset":4}'))
    assert alone.offsets() == {"west": {ORDERS: 4}}
    assert alone.changes("west", {ORDERS: 4}) == [OffsetRecord(home, key, b'{"offset":4}')]


places = st.builds(TopicPartition, st.text(alphabet="ab._-", min_size=1, max_size=9), st.integers(0, 40))
offsets = st.none() | st.integers(0, 2**62)


@given(
    stored=st.lists(st.tuples(st.integers(0, 6), places, offsets), max_size=30),
    wanted=st.dictionaries(places, offsets, max_size=10),
)
def test_after_the_changes_each_offset_is_as_wanted(
    stored: list[tuple[int, TopicPartition, int | None]], wanted: dict[TopicPartition, int | None]
) -> None:
    """Whatever the topic held, wherever: the rest stays, nothing is left to be written, and no order matters."""
    records = [OffsetRecord(p, offset_key("c", "west", tp), offset_value(last)) for p, tp, last in stored]
    before = ConnectorRecords.read("c", 7, records)
    changes = before.changes("west", wanted)
    after = ConnectorRecords.read("c", 7, records + changes)
    expected = {**before.offsets().get("west", {}), **wanted}
    assert {tp: last for tp, last in after.offsets().get("west", {}).items() if last is not None} == {
        tp: last for tp, last in expected.items() if last is not None
    }
    assert after.changes("west", wanted) == []
    for tp, last in wanted.items():
        assert set(after.by_alias.get("west", {}).get(tp, {0: None}).values()) == {last}
