"""A copy that lags by one record: a group is placed on what is there, never beyond the end of the log."""

from __future__ import annotations

import numpy as np
import pytest
from kafka_dr_spark.contract.task_rows import FLOOR, POSITION, pack_table, unpack_table
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.reading.windows import KafkaAccess, WindowReader
from kafka_dr_spark.translation.case import Limits, ReadWindow
from kafka_dr_spark.translation.task import PartitionTask

from tests.spark.translation.test_task import tagged

#: Records A to E of the source are at 1000 to 1004; the copies of A to D are at the same offsets.
START, SOURCE_END, TARGET_END = 1000, 1005, 1004


def same_records(windows: list[ReadWindow]) -> list[Records]:
    """Read two logs with equal records at equal offsets."""
    found = []
    for window in windows:
        offsets = np.arange(max(window.start, START), window.end, dtype=np.int64)
        zeros = np.zeros(len(offsets), np.uint64)
        found.append(Records(offsets, offsets.astype(np.uint64), zeros, zeros, np.zeros(len(offsets), np.bool_)))
    return found


def placed(monkeypatch: pytest.MonkeyPatch, position: int, readable: bool) -> tuple[str, int | None]:
    """Class and place of the only group, whose next record on the source is at this offset.

    A sample was taken when D was the last record on both sides.
    """
    bounds = LogBounds(
        "orders", 0, "orders", START, SOURCE_END, START, TARGET_END, False, True, False, False, False, True, False
    )
    monkeypatch.setattr(WindowReader, "read", lambda self, windows: same_records(windows))
    task = PartitionTask({("orders", 0): bounds}, Limits(source_readable=readable), KafkaAccess(None, {}))
    rows = [("orders", 0, POSITION, "billing", "earliest", position, 5, 0)]
    rows += [("orders", 0, FLOOR, "", "", TARGET_END, TARGET_END, -1, 1)]
    made = unpack_table(task(pack_table(tagged(*rows)))).to_pylist()
    (row,) = [one for one in made if one["kind"] == "row"]
    return row["class"], row["target_position"]


@pytest.mark.parametrize("position", range(START, SOURCE_END + 1))
def test_no_group_is_placed_beyond_the_end(monkeypatch: pytest.MonkeyPatch, position: int) -> None:
    """Nor past a record that it has not read, when the source is lost."""
    _, target = placed(monkeypatch, position, readable=False)
    assert target is not None and START <= target <= min(position, TARGET_END)


@pytest.mark.parametrize("position", [SOURCE_END - 1, SOURCE_END])
def test_a_group_that_has_read_all_that_is_copied_goes_on_behind_the_last_copy(
    monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    """Whether it has read D, or E, which is not there: its offset on the source is never taken as it is."""
    assert placed(monkeypatch, position, readable=False) == ("NEAREST", TARGET_END)


@pytest.mark.parametrize("position", range(START, SOURCE_END + 1))
def test_with_a_source_that_answers_the_missing_record_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    """A planned move places nobody while E is missing."""
    assert placed(monkeypatch, position, readable=True) == ("REFUSED", None)
