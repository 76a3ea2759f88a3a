"""What a drill counts for itself, by its records' numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.drill.records import (
    NumberedRecord,
    PassLogs,
    count_pass,
    production_differences,
    record_number,
    record_value,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

TP = TopicPartition("t", 0)


def log(numbers: list[int], first: int = 0) -> list[NumberedRecord]:
    """Return a log with these numbers, one second apart."""
    return [NumberedRecord(TP, first + place, number, 1000 * place) for place, number in enumerate(numbers)]


def row(position: int, target_position: int | None) -> dict[str, Any]:
    """Return one row of a file of positions."""
    target = None if target_position is None else "t"
    return {
        "topic": "t",
        "partition": 0,
        "position": position,
        "target_topic": target,
        "target_position": target_position,
    }


def test_a_records_number_is_read_from_its_value() -> None:
    """Other records, such as a canary, have none."""
    assert record_number(record_value("abc", 17)) == 17
    assert [record_number(value) for value in (None, b"", b"[]", b"probe", b'{"number": "x"}')] == [None] * 5


def test_an_exact_position_one_behind_and_one_ahead() -> None:
    """Ahead: a record that the group has not read lies below its position on the target."""
    logs = PassLogs(frozenset(range(5)), log([0, 1, 2, 3, 4]), log([0, 1, 2, 3, 4], first=10))
    counted = count_pass(logs, [row(2, 12), row(2, 10), row(2, 13), row(2, None)], [])
    assert (counted.positions_exact, counted.positions_bound, counted.positions_ahead) == (1, 1, 1)
    assert counted.reread_most == 2


def test_a_missing_record_is_listed_or_not() -> None:
    """Only the ranges of the pass's evidence make a loss a listed one; an open range has no end."""
    logs = PassLogs(frozenset(range(5)), log([0, 1, 2, 3, 4]), log([0, 1]))
    loss = [{"topic": "t", "partition": 0, "from_offset": 3, "possible_to": None}]
    counted = count_pass(logs, [], loss, cut_at=10.0, left_at=40.0)
    assert (counted.written, counted.mirrored, counted.lost_listed, counted.lost_unlisted) == (5, 2, 2, 1)
    assert (counted.lost_seconds, counted.downtime_seconds) == (8.0, 30.0)
    assert count_pass(logs, [], loss, cut_at=1.0).lost_seconds == 0.0


def test_a_repeat_is_no_loss() -> None:
    """MirrorMaker 2 may copy a record twice."""
    logs = PassLogs(frozenset(range(3)), log([0, 1, 2]), log([0, 1, 1, 2]))
    counted = count_pass(logs, [row(2, 3), row(1, 1)], [])
    assert (counted.repeated, counted.lost_unlisted, counted.positions_ahead) == (1, 0, 0)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_position_is_ahead_if_and_only_if_it_lies_beyond_the_exact_one(size: int, position: int, target: int) -> None:
    """On two equal logs, offsets themselves say what is right."""
    position, target = min(position, size), min(target, size)
    logs = PassLogs(frozenset(range(size)), log(list(range(size))), log(list(range(size))))
    counted = count_pass(logs, [row(position, target)], [])
    assert counted.positions_ahead == (1 if target > position else 0)
    assert counted.reread_most == max(0, position - target)


def test_differences_of_production_are_named() -> None:
    """What is gone, what is new, what changed; equal things are not."""
    before = {"tasks": {"a-0": "RUNNING on w1", "b-0": "RUNNING on w1"}, "topics": {"x": "1"}}
    after = {"tasks": {"a-0": "RUNNING on w2", "c-0": "RUNNING on w1"}, "topics": {"x": "1"}}
    assert production_differences(before, after) == [
        "tasks: b-0 is gone",
        "tasks: c-0 is new",
        "tasks: a-0 was RUNNING on w1, is RUNNING on w2",
    ]
    assert production_differences(before, before) == []


def test_each_changed_setting_is_named_with_both_values() -> None:
    """A setting that is not set on one side is named, too; a long value is cut."""
    before = {"connectors": {"p": {"tasks.max": "2", "topics": "a", "digest": "1"}, "q": {"x": "1"}}}
    after = {"connectors": {"p": {"tasks.max": "3", "digest": "2", "groups": "g" * 300}, "q": {"x": "1"}}}
    assert production_differences(before, after) == [
        "connectors: p: digest was 1, is 2",
        f"connectors: p: groups was not set, is {'g' * 200}...",
        "connectors: p: tasks.max was 2, is 3",
        "connectors: p: topics was a, is not set",
    ]
