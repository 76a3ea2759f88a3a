"""Ranges of both logs: what is read, what is judged, and what each end proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.reconciliation.ranges import EVERYTHING, MARGIN, ChosenOffsets, PartitionLogs, ranges_of

from tests.support.examples import examples

LOGS = PartitionLogs(0, 10_000, 0, 10_010, 9_999, comparable_times=True, compacted=False)


def ranges(logs: PartitionLogs = LOGS, chosen: ChosenOffsets = EVERYTHING) -> tuple[Any, ...]:
    """Return source range, target range and judged range."""
    row = ranges_of(logs, chosen)
    return tuple(
        (row[first], row[end])
        for first, end in (("source_start", "cut_off"), ("target_start", "boundary"), ("judged_from", "judged_to"))
    )


def test_whole_logs() -> None:
    """Everything is read and judged, and Connect's offset counts."""
    assert ranges() == ((0, 10_000), (0, 10_010), (0, 10_000))
    row = ranges_of(LOGS, EVERYTHING)
    limits = ("replicated", "source_low", "source_high", "target_low", "target_high")
    assert [row[name] for name in limits] == [10_000, 0, 10_000, 0, 10_010]


def test_a_partition_that_the_target_lacks() -> None:
    """The source is read alone."""
    row = ranges_of(replace(LOGS, target_start=None, target_end=None), ChosenOffsets(5_000, None, None, None))
    assert (row["target_start"], row["boundary"], row["target_low"], row["target_high"]) == (None,) * 4
    assert row["replicated"] == 10_000


def test_chosen_records_are_read_with_a_margin() -> None:
    """On both sides, within the logs; the logs' own ends are stated, too."""
    chosen = ChosenOffsets(5_000, 6_000, 5_005, 6_005)
    assert ranges(chosen=chosen) == (
        (5_000 - MARGIN, 6_000 + MARGIN),
        (5_005 - MARGIN, 6_005 + MARGIN),
        (5_000, 6_000),
    )
    row = ranges_of(replace(LOGS, source_start=5, target_start=7), chosen)
    assert (row["source_low"], row["source_high"], row["target_low"], row["target_high"]) == (5, 10_000, 7, 10_010)


def test_without_comparable_times_the_whole_target_is_read() -> None:
    """Then Connect's offset counts."""
    row = ranges_of(replace(LOGS, comparable_times=False), ChosenOffsets(5_000, 6_000, 5_005, 6_005))
    assert (row["source_start"], row["target_start"], row["boundary"], row["replicated"]) == (4_000, 0, 10_010, 10_000)


def test_compacted_topics_are_compared_as_a_whole() -> None:
    """Whatever is chosen."""
    assert ranges(replace(LOGS, compacted=True), ChosenOffsets(5_000, 6_000, 5_005, 6_005)) == ranges()


def test_an_offset_of_a_longer_log_proves_nothing() -> None:
    """The topic was recreated since."""
    assert ranges_of(replace(LOGS, replicated=10_000), EVERYTHING)["replicated"] is None
    assert ranges_of(replace(LOGS, replicated=None), EVERYTHING)["replicated"] is None


_OFFSETS = st.none() | st.integers(0, 30_000)


@given(
    start=st.integers(0, 20_000),
    size=st.integers(0, 20_000),
    start_there=st.integers(0, 20_000),
    size_there=st.integers(0, 20_000),
    chosen=st.builds(ChosenOffsets, _OFFSETS, _OFFSETS, _OFFSETS, _OFFSETS),
)
@examples(200)
def test_ranges_lie_in_their_logs(
    start: int, size: int, start_there: int, size_there: int, chosen: ChosenOffsets
) -> None:
    """And what is judged lies in what is read, whatever is chosen."""
    ends = (start + size, start_there, start_there + size_there)
    (first, last), (there, end), (judged, to) = ranges(PartitionLogs(start, *ends, None, True, False), chosen)
    assert start <= first <= judged <= to <= last <= start + size
    assert start_there <= there <= end <= start_there + size_there
