"""What the archive says of a flow: the newest of everything, nothing of a log that is gone, and as far back as positions reach."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_dr.domain.recorded import Kind, Rows
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.history import Recorded, last_known, recorded
from kafka_dr.recorder.recording import SAMPLES, SCHEMA

NOON = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


class Sample(Rows):
    """A sample some seconds after noon."""

    def __init__(self, second: int, answered: bool = True, problems: tuple[str, ...] = ()) -> None:
        super().__init__(int((NOON + timedelta(seconds=second)).timestamp() * 1000))
        self.add(Kind.SAMPLE, details=json.dumps({"whole": False, "source_answered": answered, "problems": problems}))

    def ends(self, source: int | None, target: int | None, partition: int = 0, **more: Any) -> Sample:
        """A partition's ends."""
        known = {"topic_id": "a", "target_topic_id": "b", "source_start": 0, "target_start": 0, "replicated": 3, **more}
        self.add(Kind.PARTITION, topic="orders", partition=partition, target_topic="orders", source_end=source, target_end=target, **known)
        return self

    def table(self) -> pa.Table:
        """As it is kept."""
        return pa.table(self.columns, SCHEMA)


def at(second: int) -> int:
    """Milliseconds of a sample."""
    return int((NOON + timedelta(seconds=second)).timestamp() * 1000)


def known(*samples: Sample) -> Recorded:
    """What samples say."""
    return recorded([sample.table() for sample in samples])


def test_a_row_stands_until_another_one_is_written() -> None:
    """A partition at rest was seen as long as the source answered; what came after it went silent is not its end."""
    found = known(Sample(0).ends(10, 8), Sample(10), Sample(20, answered=False, problems=("the source: gone",)).ends(None, 9))
    assert found.partitions[["source_end", "sampled_at"]].values.tolist() == [[10, at(10)]]
    assert found.floors[["source_end", "target_end", "sampled_at"]].values.tolist() == [[10, 8, at(0)], [10, 8, at(10)]]
    assert (found.last_at, found.source_at, found.problems) == (at(20), at(10), ("the source: gone",))


def test_positions_are_the_newest_of_groups_that_are_there() -> None:
    """With the time at which they were seen; a deleted group has none, until it comes back."""
    first, second, third = Sample(0), Sample(10), Sample(20)
    for sample, group, position in ((first, "a", 5), (first, "b", 6), (second, "a", 7), (third, "c", 1)):
        sample.add(Kind.POSITION, group=group, topic="orders", partition=0, position=position)
    first.add(Kind.GROUP, group="b", members=1, state="Stable")
    second.add(Kind.GROUP, group="b", state="Gone")
    found = known(first, second, third)
    assert found.positions[["group", "position", "position_at"]].values.tolist() == [["a", 7, at(10)], ["c", 1, at(20)]]
    assert found.groups.empty


@pytest.mark.parametrize("anew", [{"topic_id": "new"}, {"target_topic_id": "new"}])
def test_of_a_topic_made_anew_only_what_came_after_counts(anew: dict[str, str]) -> None:
    """Its syncs and pairs, also those read in the sample that saw it first; positions only where the source's topic is another."""
    before, turn, after = Sample(0).ends(100, 90), Sample(10).ends(4, 95, **anew), Sample(20).ends(6, 97, **anew)
    for number, sample in enumerate((before, turn, after)):
        sample.add(Kind.SYNC, topic="orders", partition=0, upstream=number, downstream=number, sequence=number)
        sample.add(Kind.PAIR, topic="orders", partition=0, upstream=number, downstream=number, source_end=9, records=1)
    before.add(Kind.POSITION, group="g", topic="orders", partition=0, position=50)
    found = known(before, turn, after)
    assert found.floors["source_end"].tolist() == [4, 6]
    assert (found.syncs["sequence"].tolist(), found.pairs["upstream"].tolist()) == ([2], [2])
    assert len(found.positions) == ("target_topic_id" in anew)


def test_a_topic_whose_id_could_not_be_read_is_the_same() -> None:
    """No id is no other id."""
    found = known(Sample(0).ends(10, 8), Sample(10, answered=False).ends(None, 8, topic_id=None), Sample(20).ends(12, 8))
    assert found.floors["source_end"].tolist() == [10, 12]


def test_stretches_are_where_every_offset_held_a_record() -> None:
    """By the number of records between a pair and the source's end."""
    sample = Sample(0)
    for upstream, records in ((10, 9), (40, 8)):
        sample.add(Kind.PAIR, topic="orders", partition=0, upstream=upstream, downstream=1, source_end=upstream + 10, records=records)
    assert known(sample).stretches.values.tolist() == [["orders", 0, 10, 20]]


def test_an_empty_archive_knows_nothing(tmp_path: Path) -> None:
    """Frames without rows, and no times."""
    found = last_known(Archive(f"file://{tmp_path}", "flow"))
    assert all(frame.empty for frame in (found.partitions, found.floors, found.syncs, found.pairs, found.positions, found.groups, found.stretches))
    assert (found.last_at, found.source_at, found.problems) == (None, None, ())


@pytest.mark.parametrize(("position", "hours"), [(950, 2), (350, 4), (0, 2), (3, 5)])
def test_hours_are_read_back_as_far_as_positions_reach(tmp_path: Path, position: int, hours: int) -> None:
    """At least two; until a sample lies below every position, unless the position is the log's beginning, or there are no more hours."""
    archive = Archive(f"file://{tmp_path}", "flow")
    for hour in range(5):
        sample = Sample(hour * 3600).ends(200 * hour + 100, 200 * hour + 90)
        sample.add(Kind.POSITION, group="g", topic="orders", partition=0, position=position)
        archive.write(SAMPLES, sample.table(), NOON + timedelta(hours=hour))
    assert len(last_known(archive).floors) == hours


def test_too_many_rows_end_the_reading(tmp_path: Path) -> None:
    """Then positions below are without a floor."""
    archive = Archive(f"file://{tmp_path}", "flow")
    for hour in range(4):
        sample = Sample(hour * 3600).ends(hour + 100, 90)
        sample.add(Kind.POSITION, group="g", topic="orders", partition=0, position=5)
        archive.write(SAMPLES, sample.table(), NOON + timedelta(hours=hour))
    assert len(last_known(archive, most_rows=5).floors) == 2


@pytest.mark.parametrize(("silent", "oldest"), [([], 3), ([3], 2), ([3, 2], 1)])
def test_hours_without_the_source_are_passed_over(tmp_path: Path, silent: list[int], oldest: int) -> None:
    """Reading goes on behind them, up to the hour that lacks the position's partition: then that was not there yet."""
    archive = Archive(f"file://{tmp_path}", "flow")
    for hour in range(6):
        sample = Sample(hour * 3600, answered=hour not in silent)
        if hour not in silent:
            sample.ends(9, 9, partition=1)
        if hour > 3:
            sample.ends(200 * hour, 200 * hour).add(Kind.POSITION, group="g", topic="orders", partition=0, position=3)
        archive.write(SAMPLES, sample.table(), NOON + timedelta(hours=hour))
    assert last_known(archive).floors["sampled_at"].min() == at(oldest * 3600)
