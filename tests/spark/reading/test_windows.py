"""Reading windows from a broker (librdkafka's mock cluster): by position, fingerprints only, errors by name."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message
from kafka_dr_spark.reading import windows
from kafka_dr_spark.reading.fingerprints import record_fingerprints
from kafka_dr_spark.reading.matching import match_from_end
from kafka_dr_spark.reading.waves import window_waves
from kafka_dr_spark.reading.windows import KafkaAccess, OpenWindow, WindowReader, WindowUnreadable
from kafka_dr_spark.translation.case import Limits, ReadWindow

from tests.spark.mock_clusters import MockCluster
from tests.support.size.traced_memory import allocated


@pytest.fixture(scope="module")
def clusters() -> tuple[MockCluster, MockCluster]:
    """Two clusters that hold the same records, the target ten more before them."""
    source, target = MockCluster(), MockCluster()
    values = [b"value %d" % number for number in range(300)]
    for partition in range(3):
        source.write("orders", partition, values)
        target.write("orders", partition, [b"older"] * 10 + values)
    return source, target


@pytest.fixture
def reader(clusters: tuple[MockCluster, MockCluster]) -> WindowReader:
    """A reader of both clusters."""
    with WindowReader(KafkaAccess(clusters[0].config, clusters[1].config), Limits(deadline_seconds=20)) as reader:
        yield reader


def test_windows_of_both_sides_hold_the_same_records(reader: WindowReader) -> None:
    """The same records have the same fingerprints on both sides, at their own offsets."""
    ours, theirs = reader.read([ReadWindow("source", "orders", 1, 50, 60), ReadWindow("target", "orders", 1, 60, 70)])
    assert ours.offsets.tolist() == list(range(50, 60))
    assert theirs.offsets.tolist() == list(range(60, 70))
    assert np.array_equal(ours.high, theirs.high) and np.array_equal(ours.low, theirs.low)
    assert len(set(ours.high.tolist())) == 10


def test_a_record_takes_few_bytes() -> None:
    """The page on performance states them: 33 of each record that was read, twice as many while it is read, and four
    times as many while both logs are compared.
    """
    count, value = 50_000, b"v" * 200

    def read() -> OpenWindow:
        window = OpenWindow(ReadWindow("source", "orders", 0, 0, count, with_timestamps=True, with_keys=True))
        for start in range(0, count, 500):
            offsets = range(start, start + 500)
            window.add([Message(topic="orders", partition=0, offset=n, key=b"%d" % n, value=value) for n in offsets])
        return window

    ours, kept, most = allocated(lambda: read().records())
    assert ours.size() == count and kept / count < 40 and most / count < 80
    theirs = read().records()
    matched, _, most = allocated(lambda: match_from_end(ours, theirs))
    assert matched.tolist() == list(range(count)) and most / (2 * count) < 110


def test_many_windows_in_one_call(reader: WindowReader) -> None:
    """Windows of one partition, overlapping and repeated, come back in the order asked for."""
    asked = [ReadWindow("source", "orders", p, start, start + 7) for start in (290, 0, 3, 0, 120) for p in (2, 0)]
    assert [records.offsets.tolist() for records in reader.read(asked)] == [list(range(w.start, w.end)) for w in asked]


def test_a_window_ends_at_the_log_end(reader: WindowReader) -> None:
    """The last record of a partition ends a window that reaches exactly to the log end."""
    (records,) = reader.read([ReadWindow("source", "orders", 0, 299, 300)])
    assert records.offsets.tolist() == [299]


def test_a_second_read_starts_afresh(reader: WindowReader) -> None:
    """Reading backwards after reading forwards finds the same records."""
    first, second, again = (
        reader.read([ReadWindow("source", "orders", 0, start, start + 5)])[0] for start in (200, 10, 200)
    )
    assert second.offsets[0] == 10
    assert np.array_equal(first.high, again.high)


def test_an_offset_out_of_range_names_the_partition(reader: WindowReader) -> None:
    """A window above the log is an error that names side and partition."""
    with pytest.raises(WindowUnreadable, match="target orders-2: "):
        reader.read([ReadWindow("target", "orders", 2, 5000, 5010)])


def test_a_log_that_ends_too_early_names_its_end(reader: WindowReader) -> None:
    """A window that reaches over the log's end is an error that says where the log ends, long before the deadline."""
    with pytest.raises(WindowUnreadable, match="target orders-2: the log ends at 310, below 400"):
        reader.read([ReadWindow("target", "orders", 2, 300, 400)])


def test_a_missing_partition_names_itself(reader: WindowReader) -> None:
    """A partition that does not exist is an error with its name."""
    with pytest.raises(WindowUnreadable, match="source orders-77: the partition does not exist"):
        reader.read([ReadWindow("source", "orders", 77, 0, 10)])


def test_a_dead_cluster_is_named(clusters: tuple[MockCluster, MockCluster]) -> None:
    """A side of which no broker answers is an error within the deadline."""
    nobody = {"bootstrap.servers": "127.0.0.1:1"}
    with WindowReader(KafkaAccess(nobody, clusters[1].config), Limits(deadline_seconds=1)) as reader:
        with pytest.raises(WindowUnreadable, match="source: no broker answers"):
            reader.read([ReadWindow("source", "orders", 0, 0, 10)])


def test_a_deadline_names_what_is_open(clusters: tuple[MockCluster, MockCluster]) -> None:
    """What cannot be read in time ends in an error that says how far it came."""
    with WindowReader(KafkaAccess(clusters[0].config, clusters[1].config), Limits(deadline_seconds=0)) as reader:
        with pytest.raises(WindowUnreadable, match="source orders-0: not read to offset 1000000 within 0 s; reached "):
            reader.read([ReadWindow("source", "orders", 0, 0, 1_000_000)])


def test_secrets_stay_inside() -> None:
    """Neither the text form of the settings nor a refusal of them shows a value; they do travel with a task."""
    access = KafkaAccess({"bootstrap.servers": "x:1", "security.protocol": "hunter2"}, {})
    with pytest.raises(WindowUnreadable) as raised:
        access.consumer("source", "read_committed")
    assert "hunter2" not in repr(access) + str(raised.value) + repr(raised.value.__cause__)
    assert pickle.loads(pickle.dumps(access))._settings["source"]["security.protocol"] == "hunter2"


def prints_of(*records: tuple) -> list[tuple[int, int]]:
    """Both halves of the fingerprints of records: key, value, headers and time of each."""
    keys, values, headers, times = map(list, zip(*records))
    return list(zip(*(half.tolist() for half in record_fingerprints(keys, values, headers, np.array(times, np.int64)))))


def test_fingerprints_tell_fields_apart() -> None:
    """Null is not empty, fields never run together, bytes after a zero count, in each half alone."""
    records = [
        (None, b"v", None, 1),
        (b"", b"v", None, 1),
        (b"v", None, None, 1),
        (b"v", b"", None, 1),
        (None, b"v", None, 2),
        (None, None, None, 1),
        (b"k", b"v", None, 1),
        (b"kv", b"", None, 1),
        (b"k", b"v", [("h", b"")], 1),
        (b"k", b"v", [("h", None)], 1),
        (b"v", b"k", None, 1),
        (b"k", b"v", [("h", b"1")], 1),
        (b"k", b"vh", [("", b"1")], 1),
        (b"k", b"v", [("h", b"1"), ("h", b"1")], 1),
        (b"k", b"v", [("h1", b"")], 1),
        (b"k", b"v\0a", None, 1),
        (b"k", b"v\0b", None, 1),
        (b"k", b"nan", None, 1),
        (b"k", b"None", None, 1),
        (b"k", None, None, 1),
        (b"k", b"v", None, 2**40),
    ]
    for half in zip(*prints_of(*records)):
        assert len(set(half)) == len(records)


def test_equal_records_have_equal_fingerprints_beside_whatever_others() -> None:
    """Whether or not others of the same call have headers, or nulls; no headers are the same as none."""
    plain, alone = prints_of((b"k", b"v", None, 1), (b"k", b"v", [], 1)), prints_of((b"k", b"v", None, 1))
    beside = prints_of((b"k", b"v", None, 1), (None, None, [("h", b"1")], 2), (b"k", b"v", [], 1))
    assert {*plain, *alone, beside[0], beside[2]} == {alone[0]}


def test_windows_are_put_together_from_portions(monkeypatch: pytest.MonkeyPatch, reader: WindowReader) -> None:
    """However many records are held until their fingerprints are made."""
    window = ReadWindow("source", "orders", 0, 5, 80, with_keys=True)
    (whole,) = reader.read([window])
    monkeypatch.setattr(windows, "RECORDS_HELD", 7)
    (portions,) = reader.read([window])
    assert all(np.array_equal(one, other) for one, other in zip(whole, portions)) and whole.size() == 75
    assert len(set(whole.key.tolist())) == 1 and not whole.tombstone.any()


def test_without_timestamps_only_the_rest_counts(
    clusters: tuple[MockCluster, MockCluster], reader: WindowReader
) -> None:
    """Beside a window that counts them."""
    asked = [
        ReadWindow("source", "orders", 0, 5, 6),
        ReadWindow("source", "orders", 1, 5, 6, with_timestamps=False),
        ReadWindow("target", "orders", 2, 15, 16, with_timestamps=False),
    ]
    dated, first, second = reader.read(asked)
    assert first.high[0] == second.high[0] != dated.high[0]


def test_a_wave_holds_one_window_a_partition() -> None:
    """A consumer has one place a partition: windows that lie apart are read one after the other, near ones as one."""
    near = [ReadWindow("source", "t", 0, 0, 10), ReadWindow("source", "t", 0, 40, 50)]
    far = ReadWindow("source", "t", 0, 5000, 5010)
    other = ReadWindow("source", "t", 1, 0, 10)
    assert window_waves([far, *near, other]) == [[ReadWindow("source", "t", 0, 0, 50), other], [far]]


def test_all_windows_together_hold_a_bounded_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch, clusters: tuple[MockCluster, MockCluster]
) -> None:
    """A task reads thousands of windows, each of which alone would hold little enough; the records are the same."""
    asked = [ReadWindow(side, "orders", p, 10, 290) for side in ("source", "target") for p in range(3)]
    access, most = KafkaAccess(clusters[0].config, clusters[1].config), 1_000
    held: list[int] = []

    class Watched(WindowReader):
        def _take_in(self, side: str, messages: list[Any], pending: dict[tuple[str, int], Any]) -> Any:
            finished = super()._take_in(side, messages, pending)
            held.append(sum(window._bytes_held for window in self._opened[side]))
            return finished

    with WindowReader(access, Limits(deadline_seconds=20)) as reader:
        expected = reader.read(asked)
    monkeypatch.setattr(windows, "BYTES_IN_ALL", most)
    with Watched(access, Limits(deadline_seconds=20, rows_per_read=20)) as reader:
        found = reader.read(asked)
    assert max(held) < most
    for before, now in zip(expected, found, strict=True):
        assert np.array_equal(before.offsets, now.offsets) and np.array_equal(before.high, now.high)
