"""Compacted topics: the latest value of each key counts, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr_spark.reconciliation.differences import Differences

from tests.spark.reconciliation.logs import compared, keyed

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
