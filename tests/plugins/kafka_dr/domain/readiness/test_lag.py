"""Lag by logs: never less than the truth, certain never more, and none for idle partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.lag import (
    SeenRecord,
    SourceLog,
    in_flow,
    lag_of_partition,
    missing_copies,
    unproven_begins,
)

from tests.support.examples import examples

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@examples(1_000)
@given(
    contents=st.lists(st.sampled_from("ab"), min_size=1, max_size=12),
    holes=st.sets(st.integers(0, 20), max_size=5),
    copied=st.integers(0, 12),
    stored=st.integers(0, 12),
    late=st.integers(0, 4),
    most=st.integers(1, 12),
    dated=st.booleans(),
)
def test_the_truth_lies_between(
    contents: list[str], holes: set[int], copied: int, stored: int, late: int, most: int, dated: bool
) -> None:
    """Of a log with equal records and holes, of which some records were copied, and of which only a part is read."""
    offsets = [offset for offset in range(len(contents) + len(holes) + 21) if offset not in holes][: len(contents)]
    copied = min(copied, len(contents))
    known = min(stored, copied)
    end = offsets[-1] + 1
    begin = offsets[known - 1] + 1 if known else 0
    records = [SeenRecord(o, f"{c}{o * dated}", 1000 * o, 10) for o, c in zip(offsets, contents, strict=True)]
    # Connect's offsets are below the copied records, and reading begins at the last record that they prove.
    start = max(0, begin - 1)
    read = [record for record in records if start <= record.offset < start + most]
    log = SourceLog(begin, max(begin, end - late), end)
    newest = records[copied - 1].content if copied else None
    lag = lag_of_partition(T0, log, newest, read, min(end, start + most), dated)
    missing = records[copied:]
    assert lag.certain <= len(missing) <= lag.records
    if lag.since is not None and missing and lag.found:
        assert lag.since <= (missing[0].timestamp or 0)


def test_an_idle_partition_has_no_lag_however_old() -> None:
    """Its newest record is the newest copy; a transaction's marker above it is no record."""
    read = [SeenRecord(8, "x", 1, 5)]
    assert lag_of_partition(T0, SourceLog(8, 10, 10), "x", read, 10).records == 0
    lag = in_flow([lag_of_partition(T0, SourceLog(8, 10, 10), "x", read, 10)], 2, 1e9)
    assert (lag.records, lag.seconds, lag.bytes, lag.lagging) == (0, 0.0, 0, ())


def test_what_the_target_lacks_is_counted_with_its_age_and_size() -> None:
    """Three records above the newest copy, the oldest written 30 s ago."""
    read = [SeenRecord(7, "x", 1_000, 9), *(SeenRecord(o, f"n{o}", 70_000 + o, 10) for o in (8, 9, 10))]
    lag = in_flow([lag_of_partition(T0, SourceLog(5, 11, 11), "x", read, 11)], 4, 100.008)
    assert (lag.records, lag.certain, lag.bytes) == (3, 3, 30) and lag.seconds == 30.0
    document = lag.as_dict()
    assert document["worst"] == [{"topic": "orders", "partition": 0, "records": 3, "bytes": 30, "seconds": 30.0}]
    assert (document["partitions"], document["lagging"]) == (4, 1)


def test_where_the_newest_copy_is_not_found_connects_offsets_bound_the_lag() -> None:
    """Another writer wrote last on the target: nothing is certain, and all above Connect's offset is possible."""
    read = [SeenRecord(6, "a", 5_000, 10), SeenRecord(7, "b", 6_000, 10)]
    lag = lag_of_partition(T0, SourceLog(6, 100, 120), "foreign", read, 8)
    assert (lag.records, lag.certain, lag.found, lag.since) == (114, 0, False, 5_000)


def test_an_age_that_is_unknown_is_none_and_not_zero() -> None:
    """No record could be read: neither its age nor its size is known."""
    lag = in_flow([lag_of_partition(T0, SourceLog(6, 9, 9), "x", [], 6)], 1, 50.0)
    assert (lag.records, lag.seconds, lag.bytes) == (3, None, None)
    assert lag.as_dict()["seconds"] is None


def test_only_the_worst_partitions_are_listed() -> None:
    """And the totals are those of all."""
    lags = [lag_of_partition(TopicPartition("t", n), SourceLog(0, n, n), "x", [], 0) for n in range(1, 31)]
    document = in_flow(lags, 30, 0.0).as_dict()
    assert [row["records"] for row in document["worst"]] == list(range(30, 10, -1))
    assert document["records"] == sum(range(31)) and document["lagging"] == 30


def test_only_partitions_that_connect_does_not_prove_copied_are_read() -> None:
    """Never replicated, or below the log's end; the log's start counts where Connect is below it."""
    starts, ends = {T0: 5, T1: 0}, {T0: 9, T1: 4}
    assert unproven_begins(starts, ends, {T0: 8, T1: 3}) == {}
    assert unproven_begins(starts, ends, {T0: 2, T1: 2}) == {T0: 5, T1: 3}
    assert unproven_begins(starts, ends, {T0: None}) == {T0: 5, T1: 0}


def test_an_emptied_copy_is_named() -> None:
    """Connect counts its records as copied; a partition without records, or one never copied, is none."""
    assert missing_copies({T0: 9, T1: 4}, {T0: 0, T1: 4}, {T0: 8, T1: 3}) == [T0]
    assert missing_copies({T0: 0, T1: 4}, {T0: 0, T1: 0}, {T0: 8, T1: None}) == []
