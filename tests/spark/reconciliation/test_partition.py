"""One partition between bounds: what is judged, whatever is missing where the bounds are, beside a plain reference."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.reconciliation import ranges
from kafka_dr.domain.reconciliation.ranges import EVERYTHING, ChosenOffsets, PartitionLogs, ranges_of
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.matching import Records, no_records
from kafka_dr_spark.reconciliation import partition
from kafka_dr_spark.reconciliation.partition import Attempt, Compared
from kafka_dr_spark.reconciliation.scope import Judged
from kafka_dr_spark.translation.case import SOURCE, TARGET, ReadWindow
from kafka_dr_spark.translation.task import drive_searches

from tests.spark.mock_clusters import BOUNDS
from tests.spark.reconciliation.test_differences import lists
from tests.support.examples import examples

FOREIGN = 100_000


@dataclass
class Row:
    """A record: its offset, what it is (a number; from FOREIGN on, one that the source never had), and its time."""

    offset: int
    content: int
    time: int


Log = list[Row]


def records_of(log: Log) -> Records:
    """Make the records of a log."""
    if not log:
        return no_records()
    contents = np.array([row.content for row in log], np.uint64)
    blank = np.zeros(len(log), np.uint64)
    return Records(
        np.array([row.offset for row in log]), contents, contents * np.uint64(3), blank, np.zeros(len(log), np.bool_)
    )


def end_of(log: Log) -> int:
    """Return the log's end."""
    return log[-1].offset + 1 if log else 0


def compare(source: Log, target: Log, chosen: ChosenOffsets = EVERYTHING, replicated: int | None = None) -> Compared:
    """Compare two logs as the step and the job do: ranges, then attempts until none must be wider."""
    logs = PartitionLogs(
        source[0].offset if source else 0,
        end_of(source),
        target[0].offset if target else 0,
        end_of(target),
        replicated,
        comparable_times=True,
        compacted=False,
    )
    row = ranges_of(logs, chosen)
    names = ("source_start", "cut_off", "target_start", "boundary")
    bounds = LogBounds("orders", 0, "orders", **BOUNDS | {name: row.pop(name) for name in names})
    held = {SOURCE: records_of(source), TARGET: records_of(target)}

    def read(windows: list[ReadWindow]) -> list[Records]:
        assert all(logs.source_start <= w.start and w.end <= logs.source_end for w in windows if w.side == SOURCE)
        return [held[window.side].between(window.start, window.end) for window in windows]

    found: Any = Attempt(bounds, Judged("orders", 0, **row))
    while not isinstance(found, Compared):
        (found,) = drive_searches([found.compare()], read)
    return found


def offset_at(log: Log, time: int) -> int:
    """Return the first offset with a time at or after one, or the log's end, as a broker does."""
    return next((row.offset for row in log if row.time >= time), end_of(log))


def by_time(source: Log, target: Log, since: int | None, until: int | None) -> ChosenOffsets:
    """Choose records by time; None: no bound."""
    here, there = ([None if at is None else offset_at(log, at) for at in (since, until)] for log in (source, target))
    return ChosenOffsets(*here, *there)


def by_offsets(source: Log, target: Log, first: int, end: int) -> ChosenOffsets:
    """Choose source offsets; the target's follow from the times of the records there, as far as these are in order."""
    times = [next((row.time for row in source if row.offset >= offset), None) for offset in (first, end)]
    return ChosenOffsets(first, end, *(None if at is None else offset_at(target, at) for at in times))


@dataclass
class History:
    """Two logs, and what differs: source offsets, target offsets.

    Attributes:
        replicated: the last replicated offset that Connect states.
    """

    source: Log
    target: Log
    missing: list[int]
    altered: list[tuple[int, int]]
    extra: list[int]
    replicated: int

    def expected(self, first: int, end: int) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Return which differences are judged: foreign records between the copies of judged records' neighbours."""
        copies = {row.content: row.offset for row in self.target}
        pairs = [(row.offset, copies[row.content]) for row in self.source if row.content in copies]
        low = max((there for here, there in pairs if here < first), default=-1)
        high = min((there for here, there in pairs if here >= end), default=end_of(self.target))
        return (
            [offset for offset in self.missing if first <= offset < end],
            [offset for offset in self.extra if low < offset < high],
            [pair for pair in self.altered if first <= pair[0] < end],
        )


def made_history(dice: Random, jitter: int) -> History:
    """Make logs with holes, foreign and altered stretches, a tail that is not copied yet, and deleted beginnings."""
    count, offset, source = dice.randint(1, 120), dice.randrange(50), []
    for content in range(count):
        source.append(Row(offset, content, 1_000 + content + dice.randint(-jitter, jitter)))
        offset += dice.choice([1, 1, 1, 2, 9])
    kept, kept_there = (dice.choice([0, dice.randrange(count)]) for _ in range(2))
    copied, row = dice.randint(max(kept, kept_there), count - 1), max(kept, kept_there) + 1
    edits: dict[int, str] = {}
    while row < copied:
        kind, length = dice.choice(["", "", "hole", "alter", "add"]), dice.randint(1, dice.choice([2, 40]))
        edits |= dict.fromkeys(range(row, min(row + length, copied)), kind)
        row += length + 1
    missing, altered, extra, target, place = [], [], [], [], dice.randrange(50)
    for row, record in enumerate(source[: copied + 1]):
        kind = edits.get(row, "")
        if kind == "hole":
            missing.append(record.offset)
            continue
        contents = {"alter": [FOREIGN + row], "add": [FOREIGN + row, row]}.get(kind, [row])
        for content in contents:
            if content >= FOREIGN:
                altered += [(record.offset, place)] if kind == "alter" else []
                extra += [place] if kind == "add" else []
            target.append(Row(place, content, record.time))
            place += 1
    begin = next(row for row, record in enumerate(target) if record.content == kept_there)
    return History(source[kept:], target[begin:], missing, altered, extra, source[copied].offset)


@given(seed=st.integers(0, 10**9), jitter=st.sampled_from([0, 3, 200]), chosen=st.sampled_from("tosun"))
@examples(600)
def test_what_is_between_the_bounds_is_judged_and_nothing_else(seed: int, jitter: int, chosen: str) -> None:
    """Whatever is missing at a bound, and however far the times are out of order."""
    dice = Random(seed)
    made = made_history(dice, jitter)
    source, target = made.source, made.target
    low, high = sorted(dice.randint(900, 1_200) for _ in range(2))
    choice = {
        "t": lambda: by_time(source, target, low, high),
        "s": lambda: by_time(source, target, low, None),
        "u": lambda: by_time(source, target, None, high),
        "o": lambda: by_offsets(source, target, *sorted(dice.choice(source).offset for _ in range(2))),
        "n": lambda: EVERYTHING,
    }[chosen]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "MARGIN", 3)
        patch.setattr(partition, "FIRST_WIDENING", 5)
        patch.setattr(partition, "GROWTH", 2)
        found = compare(source, target, choice, made.replicated)
    first = source[0].offset if choice.source_from is None else choice.source_from
    end = end_of(source) if choice.source_to is None else max(choice.source_to, first)
    missing, extra, altered, repeated = lists(found.differences)
    assert (missing, extra, altered) == made.expected(first, end) and not repeated
    wanted = sum(first <= row.offset < end for row in source)
    behind = sum(max(first, made.replicated + 1) <= row.offset < end for row in source)
    counts = found.differences
    assert counts.behind == behind
    assert wanted == counts.equal + len(missing) + len(altered) + behind + counts.cut
