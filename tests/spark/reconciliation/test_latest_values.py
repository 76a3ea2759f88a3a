"""Compacted topics: the latest value of each key counts, and nothing else."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.reading.fingerprints import key_fingerprints
from kafka_dr_spark.reading.matching import Records, last_of_key
from kafka_dr_spark.reconciliation.differences import Differences
from kafka_dr_spark.reconciliation.latest_values import compare_latest
from kafka_dr_spark.reconciliation.log_comparison import Feed
from kafka_dr_spark.translation.case import SOURCE, TARGET, ReadWindow
from kafka_dr_spark.translation.task import drive_searches

from tests.spark.reconciliation.logs import compared, judged, keyed
from tests.support.examples import examples

Rows = list[tuple[str, str | None]]


def told(ours: Rows, theirs: Rows, **scope: Any) -> Differences:
    """Compare two logs, two offsets at once; the target's offsets begin at 10."""
    return compared(keyed(ours), keyed(theirs, 10), chunk=2, latest=True, **scope)


def lists(found: Differences) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return missing, extra and altered records by their offsets."""
    altered = list(zip(found.altered.ours.tolist(), found.altered.theirs.tolist()))
    return found.missing.tolist(), found.extra.tolist(), altered


A1, A2, B1, B2 = ("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")
NO_A = ("a", None)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([A1, B1, A2], [A1, B1, A2], ([], [], [])),
        ([B1, A2], [A1, B1, A2], ([], [], [])),
        ([A1, B1, A2], [B1, A2], ([], [], [])),
        ([A1, NO_A, B1], [B1], ([], [], [])),
        ([B1], [A1, NO_A, B1], ([], [], [])),
        ([A1, NO_A, B1], [NO_A, B1], ([], [], [])),
        ([A1, B1], [B1], ([0], [], [])),
        ([B1], [B1, A1], ([], [11], [])),
        ([A1, B1, A2], [A1, B1], ([], [], [(2, 10)])),
        ([A1, NO_A, B1], [A1, B1], ([], [], [(1, 10)])),
        ([A1, B1], [NO_A, B1], ([], [], [(0, 10)])),
    ],
)
def test_the_latest_value_counts(ours: Rows, theirs: Rows, expected: Any) -> None:
    """A tombstone counts like a key without record; everything is replicated, as Connect states."""
    found = told(ours, theirs, replicated=len(ours))
    assert lists(found) == expected and len(found.repeated) == 0


def test_a_later_value_may_be_on_its_way() -> None:
    """A key whose latest record need not be on the target yet is not judged."""
    found = told([A1, B1, A2, B2], [A1, B1, A2])
    assert lists(found) == ([], [], []) and (found.behind, found.proven_to, found.superseded) == (1, 3, 2)


def test_what_retention_removed_is_no_difference() -> None:
    """In a topic that deletes, too."""
    assert told([A1, B1], [B1], target_cut=True).cut == 1 and told([B1], [A1, B1], source_cut=True).older == 1


@given(seed=st.integers(0, 10**9))
@examples(300)
def test_a_cleaner_at_work_makes_no_difference(seed: int) -> None:
    """Whichever values either cleaner removes while clients write behind the bounds, only what differs is listed."""
    dice = Random(seed)
    written = [(dice.choice("abcdef"), str(dice.randrange(10))) for _ in range(dice.randint(1, 30))]
    bound, lost = dice.randint(1, len(written)), set(dice.sample("abcdef", dice.choice([0, 0, 1])))
    copies = [row for row in written if row[0] not in lost]
    bound_there = sum(row[0] not in lost for row in written[:bound])
    ours, theirs = (cleaned(dice, keyed(rows)) for rows in (written, copies))
    found = bounded(ours, theirs, bound, bound_there)
    still = {row for row, (key, _) in enumerate(written[:bound]) if key in lost}
    latest = {written[row][0]: row for row in sorted(still)}
    since = {key for key, _ in written[bound:]}
    assert lists(found) == (sorted(row for key, row in latest.items() if key not in since), [], [])


def cleaned(dice: Random, records: Records) -> Records:
    """Remove some of the records that are not the latest of their key."""
    last = set(np.flatnonzero(last_of_key(records)).tolist())
    return records.where(np.array([row in last or dice.random() < 0.5 for row in range(records.size())], np.bool_))


def bounded(ours: Records, theirs: Records, end: int, end_there: int) -> Differences:
    """Compare two logs up to these offsets; both go on behind."""
    logs = {SOURCE: ours, TARGET: theirs}
    feeds = [Feed(ReadWindow(side, "orders", 0, 0, to)) for side, to in ((SOURCE, end), (TARGET, end_there))]

    def read(windows: list[ReadWindow]) -> list[Records]:
        return [logs[window.side].between(window.start, window.end) for window in windows]

    (found,) = drive_searches([compare_latest(*feeds, judged(replicated=end), 7)], read)
    return found


def test_records_without_a_key_are_not_judged() -> None:
    """A cleaner removes them; an empty key is one like any other."""
    keys, _ = key_fingerprints([b"", None, b"k"], [b"v"] * 3)
    ours = keyed([A1, B1, A2])._replace(key=keys)
    assert lists(compared(ours, ours.where(np.array([True, False, True])), latest=True, replicated=3)) == ([], [], [])
    without_empty = compared(ours, ours.where(np.array([False, True, True])), latest=True, replicated=3)
    assert lists(without_empty) == ([0], [], [])
