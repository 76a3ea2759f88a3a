"""One Spark task without Spark: rows in, rows out, whatever their order."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from kafka_dr_spark.contract.output import summarise_reports
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.contract.task_rows import (
    FLOOR,
    POSITION,
    SYNC,
    TAGGED,
    pack_table,
    split_by_partition,
    unpack_table,
)
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.reading.windows import KafkaAccess, WindowReader
from kafka_dr_spark.translation.case import Limits, ReadWindow, Search
from kafka_dr_spark.translation.task import PartitionTask, drive_searches

BOUNDS = {
    ("t", p): LogBounds("t", p, "copy.t", 0, 100, 0, 120, True, True, False, False, False, True, False)
    for p in range(3)
}


def tagged(*rows: tuple) -> pa.Table:
    """Make tagged rows; what a kind does not have may be left out at the end."""
    filled = [(*row, *[-1] * (len(TAGGED) - len(row))) for row in rows]
    return pa.table([pa.array(column, field.type) for column, field in zip(zip(*filled), TAGGED)], schema=TAGGED)


def shifted(windows: list[ReadWindow]) -> list[Records]:
    """Read two logs of unique records, the target's twenty behind the source's."""
    found = []
    for window in windows:
        shift = 20 if window.side == "target" else 0
        offsets = np.arange(max(window.start, shift), window.end, dtype=np.int64)
        zeros = np.zeros(len(offsets), np.uint64)
        found.append(
            Records(offsets, (offsets - shift).astype(np.uint64), zeros, zeros, np.zeros(len(offsets), np.bool_))
        )
    return found


def translated(rows: list[tuple], monkeypatch: pytest.MonkeyPatch, **limits: object) -> tuple[list[dict], dict]:
    """Run a task over rows and return its rows and the summary of its reports."""
    monkeypatch.setattr(WindowReader, "read", lambda self, windows: shifted(windows))
    made = unpack_table(
        PartitionTask(BOUNDS, Limits(**limits), KafkaAccess(None, {}))(pack_table(tagged(*rows)))
    ).to_pylist()
    reports = [
        {"topic": r["topic"], "partition": r["partition"], **json.loads(r["evidence"])}
        for r in made
        if r["kind"] == "report"
    ]
    return [row for row in made if row["kind"] == "row"], summarise_reports(reports, "input")


def test_the_order_of_rows_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in another order, give the same rows and the same digest."""
    rows = [("t", p % 3, POSITION, f"g{p}", "fail", p * 7 % 101, 5, 0) for p in range(40)]
    rows += [("t", p, SYNC, "", "", u, u + 20, u) for p in range(3) for u in range(3, 100, 9)]
    first, summary = translated(rows, monkeypatch)
    Random(5).shuffle(rows)
    second, again = translated(rows, monkeypatch)
    assert first == second
    assert summary == again
    assert summary["positions"] == summary["exact"] == 40
    assert {row["target_position"] - row["position"] for row in first} == {20}


def test_policies_are_applied_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups at one position with no evidence go where their own policies say."""
    rows = [("t", 0, POSITION, policy, policy, 50, 5, 0) for policy in ("fail", "earliest", "boundary")]
    made, _summary = translated(rows, monkeypatch, source_readable=False)
    found = {row["group"]: (row["class"], row["target_position"], row["bound"]) for row in made}
    assert found["earliest"][:2] == ("POLICY", 0)
    assert found["fail"] == ("REFUSED", None, None)


def test_what_a_recorder_saw_places_groups_without_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floors come with the rows: the target's end when the source's was below the position; else the policy."""
    rows = [("t", 0, POSITION, f"at {p}", "fail", p, 5, 0) for p in (10, 50, 99)]
    rows += [("t", 0, FLOOR, "", "", end, end + 15, -1, at) for at, end in ((2, 60), (1, 40))]
    made, _ = translated(rows, monkeypatch, source_readable=False)
    found = {row["group"]: (row["class"], row["target_position"]) for row in made}
    assert found == {"at 10": ("REFUSED", None), "at 50": ("NEAREST", 55), "at 99": ("NEAREST", 75)}


def test_a_group_that_may_have_gone_on_may_have_read_all_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bound reaches to the boundary; a group that stood still has its own, one without a position none."""
    rows = [
        ("t", 0, POSITION, f"{state} {p} {policy}", policy, p, 5, moved)
        for p in (10, 50, 99)
        for state, moved in (("still", 0), ("alive", 1))
        for policy in ("fail", "boundary")
    ]
    rows += [("t", 0, FLOOR, "", "", end, end + 15, end - 1, at) for at, end in ((2, 60), (1, 40), (3, 100))]
    made, _ = translated(rows, monkeypatch, source_readable=False)
    found = {row["group"]: (row["target_position"], row["bound"], row["exact"]) for row in made}
    assert (found["still 50 fail"], found["alive 50 fail"]) == ((55, 20, False), (55, 65, False))
    assert found["still 10 boundary"] == found["alive 10 boundary"] == (120, None, False)
    assert found["alive 10 fail"] == (None, None, False)


def test_a_group_with_two_positions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows for one group and partition break the contract."""
    with pytest.raises(ContractBroken, match="a group has more than one row for t-0"):
        translated([("t", 0, POSITION, "g", "fail", 1, 5, 0), ("t", 0, POSITION, "g", "fail", 2, 5, 0)], monkeypatch)


def test_partitions_without_bounds_are_refused_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position on a partition that nobody described gets its row, with the reason."""
    made, summary = translated([("other", 0, POSITION, "g", "fail", 1, 5, 0)], monkeypatch)
    assert made[0]["class"] == "REFUSED" and made[0]["evidence"] == "bounds.parquet has no row for this partition"
    assert summary["refused"] == [
        {"group": "g", "topic": "other", "partition": 0, "position": 1, "reason": made[0]["evidence"]}
    ]


def test_nothing_to_do_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task without rows, or with syncs alone, hands back nothing."""
    assert split_by_partition(TAGGED.empty_table()) == {}
    assert translated([("t", 0, SYNC, "", "", 1, 1, 1)], monkeypatch)[0] == []


def test_searches_are_read_together() -> None:
    """Windows that searches ask for in one round are read in one call, and each search gets its own."""
    calls: list[int] = []

    def search(name: int, rounds: int) -> Search:
        total = 0
        for _ in range(rounds):
            (records,) = yield [ReadWindow("source", "t", name, 0, 10)]
            total += records
        return name, total

    def read(windows: list[ReadWindow]) -> list:
        calls.append(len(windows))
        return [window.partition for window in windows]

    assert drive_searches([search(1, 2), search(2, 1), search(3, 0)], read) == [(1, 2), (2, 2), (3, 0)]
    assert calls == [2, 1]


BASE = BOUNDS["t", 0]
CASES = {
    "recreated": (replace(BASE, recreated=True), 5, "REFUSED", None),
    "beyond the log": (BASE, 101, "REFUSED", None),
    "no offset": (BASE, -1, "REFUSED", None),
    "at the cut-off": (BASE, 100, "END", 120),
    "no target": (replace(BASE, target_start=None, boundary=None), 5, "REFUSED", None),
    "no target, nothing to read": (replace(BASE, source_start=100, target_start=None, boundary=None), 100, "END", 0),
    "empty": (replace(BASE, cut_off=0, boundary=0), 0, "END", 0),
    "below the log start": (replace(BASE, source_start=30), 5, "CONTENT", 50),
    "target's head gone": (replace(BASE, target_start=40), 5, "CONTENT", 40),
    "another writer": (replace(BASE, other_writer=True, boundary=120), 100, "CONTENT", 120),
}


@pytest.mark.parametrize("name", CASES)
def test_single_positions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each special case has its class and place."""
    bounds, position, class_, target = CASES[name]
    monkeypatch.setitem(BOUNDS, ("t", 0), bounds)
    (row,), summary = translated([("t", 0, POSITION, "g", "fail", position, 5, 0)], monkeypatch)
    assert (row["class"], row["target_position"], row["position"]) == (class_, target, position)
    clamped = {
        "below the log start": "position raised",
        "target's head gone": "raised to the target's log start 40: 15 unread",
    }
    assert (row["clamped"] or "").startswith(clamped.get(name, "")) and bool(row["clamped"]) == (name in clamped)
    assert bool(summary["cut"]) == (name == "target's head gone")


def test_a_hole_is_listed_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source record that the target lacks refuses the positions at or below it, and no others."""

    def with_hole(self: object, windows: list[ReadWindow]) -> list[Records]:
        found = []
        for window, records in zip(windows, shifted(windows)):
            keep = records.offsets != 70 if window.side == "target" else slice(None)
            found.append(Records(*(column[keep] for column in records)))
        return found

    rows = [("t", 0, POSITION, f"g{p}", "fail", p, 5, 0) for p in (10, 50, 51, 90)]
    monkeypatch.setattr(WindowReader, "read", with_hole)
    made = PartitionTask(BOUNDS, Limits(), KafkaAccess(None, {})).translate(tagged(*rows)).to_pylist()
    assert [row["class"] for row in made if row["kind"] == "row"] == ["REFUSED", "REFUSED", "CONTENT", "CONTENT"]
    assert made[0]["evidence"] == "unread record at source offset 50 is not on the target"
    report = json.loads(made[-1]["evidence"])
    assert report["holes"] == [{"from_offset": 50, "to_offset": 51, "records": 1, "reason": "not on the target"}]
