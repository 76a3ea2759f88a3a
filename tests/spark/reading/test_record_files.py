"""Stranded records as they are written down, portion by portion."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.reading import record_files as listing
from kafka_dr_spark.reading.record_files import FileWindow, ListingReader, name_of, rows_of
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.translation.case import SOURCE, Limits, ReadWindow

from tests.spark.mock_clusters import MockCluster


def message(offset: int, at: int | None) -> Message:
    """A record of one byte."""
    stamp = (TIMESTAMP_NOT_AVAILABLE, -1) if at is None else (TIMESTAMP_CREATE_TIME, at)
    return Message(topic="orders", partition=0, offset=offset, key=b"k", value=b"v", timestamp=stamp, headers=None)


@pytest.mark.parametrize(
    ("stamps", "window"),
    [((0, 7, 9), (0, 9)), ((5, 0, None), (0, 5)), ((None, None, None), (None, None)), ((9, 3, 6), (3, 9))],
)
def test_the_window_spans_all_portions(
    stamps: tuple[int | None, ...],
    window: tuple[int | None, int | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first and last time of all records, also at the beginning of 1970; records without a time have none."""
    monkeypatch.setattr(listing, "RECORDS_HELD", 1)
    listed = FileWindow(ReadWindow(SOURCE, "orders", 0, 10, 20), tmp_path / "orders-0.parquet")
    for offset, at in enumerate(stamps, start=10):
        listed.add_rows(rows_of([message(offset, at)]))
    told = listed.close()
    assert (told["first_at"], told["last_at"], told["records"], told["bytes"]) == (*window, 3, 6)
    rows = pq.read_table(tmp_path / told["file"])
    assert rows["offset"].to_pylist() == [10, 11, 12] and rows["timestamp"].to_pylist() == list(stamps)


@pytest.mark.parametrize("keys", [[], [b""], [None], [b"a", None, b"", b"\xff" * 300], [b"a", b"b"]])
def test_keys_are_told_apart_by_their_hash(keys: list[bytes | None]) -> None:
    """In hex; a key that is not there has none, an empty one has."""
    assert listing._hashes(keys).to_pylist() == [None if key is None else sha256(key).hexdigest() for key in keys]


def test_only_records_of_the_window_are_listed(tmp_path: Path) -> None:
    """What comes before it or after it belongs to nobody; offsets stay with their records across portions."""
    listed = FileWindow(ReadWindow(SOURCE, "orders", 0, 11, 13), tmp_path / "orders-0.parquet")
    assert not listed.add_rows(rows_of([message(10, 1), message(11, 2)]))
    assert listed.add_rows(rows_of([message(12, 3), message(13, 4)]))
    assert listed.close()["records"] == 2
    found = pq.read_table(tmp_path / "orders-0.parquet").select(["offset", "timestamp"]).to_pylist()
    assert found == [{"offset": 11, "timestamp": 2}, {"offset": 12, "timestamp": 3}]


@pytest.mark.parametrize(("kept", "together"), [(10**9, True), (1, False)])
def test_rows_that_wait_keep_a_bounded_part_of_what_was_read(
    kept: int, together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the bound all partitions write what they hold; files differ in their row groups only."""
    monkeypatch.setattr(listing, "BYTES_KEPT", kept)
    source, values = MockCluster(), [b"id-%d" % number for number in range(60)]
    windows = {
        ReadWindow(SOURCE, "orders", partition, 5, 60): tmp_path / f"orders-{partition}.parquet"
        for partition in range(3)
    }
    for partition in range(3):
        source.write("orders", partition, values)
    with ListingReader(
        KafkaAccess(source.config, source.config), Limits(deadline_seconds=20, rows_per_read=10)
    ) as reader:
        told = reader.write(windows)
    for window, path in windows.items():
        assert told[window]["offsets"].tolist() == list(range(5, 60)) and told[window]["records"] == 55
        rows = pq.read_table(path)
        assert rows["value"].to_pylist() == values[5:] and set(rows["partition"].to_pylist()) == {window.partition}
        assert (pq.ParquetFile(path).num_row_groups == 1) == together


@pytest.mark.parametrize("topic", ["../../etc", "/orders", "or\0ders", "orders\n", "", ".", "..", "a" * 250])
def test_only_legal_topics_have_a_file(topic: str) -> None:
    """A name from a cluster never leaves the folder."""
    with pytest.raises(ContractBroken, match="is not a topic name that Kafka allows"):
        name_of(topic, 0)


def test_the_longest_topic_has_a_file_of_its_own(tmp_path: Path) -> None:
    """File systems take 255 bytes: what is longer is shortened, and no two topics share a file."""
    names = {name_of("a" * 248 + last, 2**31 - 1) for last in "bc"} | {name_of("orders", 0)}
    for name in names:
        (tmp_path / name).touch()
    assert len(names) == 3 and "orders-0.parquet" in names
