"""What the recorder writes down: what differs, and where Java's hash says that a group commits."""

from __future__ import annotations

import pytest
from kafka_dr.domain.recorder_rows import Kind, NewestRows, Positions, RecorderRows, commits_partition


@pytest.mark.parametrize(
    ("group", "partitions", "wanted"),
    # "polygenelubricants" hashes to the one int that has no absolute value; a smiley is two of Java's characters.
    [
        ("", 50, 0),
        ("a", 50, 47),
        ("my-group", 50, 12),
        ("polygenelubricants", 50, 0),
        ("Aa", 50, 12),
        ("BB", 50, 12),
        ("\U0001f600", 50, 49),
    ],
)
def test_a_groups_partition_is_the_one_that_java_computes(group: str, partitions: int, wanted: int) -> None:
    """By String.hashCode, its absolute value, and the remainder."""
    assert commits_partition(group, partitions) == wanted


def test_only_what_differs_is_written_down() -> None:
    """A whole sample repeats everything; what is gone is told once."""
    newest: NewestRows[str, int] = NewestRows()
    assert newest.differing({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert newest.differing({"a": 1, "b": 3}) == {"b": 3}
    assert newest.differing({"a": 1, "b": 3}, whole=True) == {"a": 1, "b": 3}
    assert newest.gone({"b": 3}) == ["a"] and newest.gone({"b": 3}) == []
    assert newest.differing({"a": 1, "b": 3}) == {"a": 1}


def test_of_positions_only_what_differs_is_written_down() -> None:
    """A whole sample repeats all; one that is held no more has no number; a deleted one may come back."""
    positions, a, b = Positions(), ("t", 0), ("t", 1)
    assert "g" not in positions and positions.differing("g", {a: 1, b: 2}) == {a: 1, b: 2} and "g" in positions
    assert positions.differing("g", {a: 1, b: 2}) == {} and positions.differing("g", {a: 1, b: 3}) == {b: 3}
    assert positions.differing("g", {a: 1, b: 3}, whole=True) == {a: 1, b: 3}
    assert positions.differing("g", {a: 1}) == {b: None} and positions.differing("g", {a: 1}) == {}
    positions.forget("g")
    positions.forget("unknown")
    assert "g" not in positions and positions.differing("g", {a: 1}) == {a: 1}


def test_rows_of_all_kinds_are_one_table() -> None:
    """A column that a kind does not have is null; every row bears the sample's time."""
    rows = RecorderRows(5)
    rows.add(Kind.PAIR, topic="t", partition=0, upstream=0, downstream=7)
    rows.extend(Kind.POSITION, group=["g", "h"], topic=["t", "t"], partition=[0, 1], position=[1, 2])
    rows.extend(Kind.SYNC, topic=[], partition=[])
    assert len(rows) == 3 and {len(column) for column in rows.columns.values()} == {3}
    assert rows.columns["at"] == [5, 5, 5] and rows.columns["upstream"] == [0, None, None]
    assert rows.columns["group"] == [None, "g", "h"]
